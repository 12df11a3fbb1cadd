/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_QUERY_H
#define ZKLOCK_QUERY_H

/* query.h: asks the servers something, and nobody else does the caller's waiting: it waits for the answer, or looks now and then
 * whether it has come. */

#include "hub.h"
#include "session_core.h"

struct zkl__query {
	struct zkl__party party; /* first */
	zkl_session      *session;
	/* Asks; with a link only. Also after each reconnect until it is answered: what was asked before is lost then. */
	void (*ask)(struct zkl__query *q);
	void (*reply)(struct zkl__query *q, const struct zkl__reply *reply);
	uint32_t    last_id; /* of the newest request: an older one's reply means nothing */
	bool        answered;
	int         result; /* what the call returns */
	int         zk_code;
	const char *text; /* of an error */
};

/* Sends a request of the query's. */
void zkl__query_send(struct zkl__query *q, struct zkl__request *request);
void zkl__query_answer(struct zkl__query *q, int result, const char *text);
/* Asks. ZKL_ENOMEM, or 0: the query must stay where it is until its end. */
int zkl__query_begin(struct zkl__query *q);
/* Has it an answer, or will it never have one? */
bool zkl__query_is_over(struct zkl__query *q);
/* 1: it is answered. 0: it is not yet. Else ZKL_ESTATE (the session was closed), or why the session was refused or cancelled. */
int zkl__query_end(struct zkl__query *q);
/* Begins, waits, at most for patience_ns from when it has the session's mutex, and ends. */
int zkl__query_run(struct zkl__query *q, int64_t patience_ns);

#endif
