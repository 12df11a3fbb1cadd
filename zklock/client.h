/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CLIENT_H
#define ZKLOCK_CLIENT_H

/* client.h: one handle of the ZooKeeper client, which is one ZooKeeper session from its making to its end. Its .c is the
 * only file that includes <zookeeper.h>.
 *
 * The client's callbacks run on the client's threads. They do one thing: put what happened into the mailbox, in order, and
 * wake whoever empties it. */

#include <stdbool.h>

#include "protocol.h"

struct zkl__client;

enum zkl__mail_type {
	ZKL__MAIL_CONNECTED,
	ZKL__MAIL_DISCONNECTED,
	ZKL__MAIL_EXPIRED,
	ZKL__MAIL_AUTH_FAILED,
	ZKL__MAIL_REPLY,
	ZKL__MAIL_GONE,    /* a watched node was deleted */
	ZKL__MAIL_CHANGED, /* a watched node was changed, born, or has other children */
	ZKL__MAIL_LOST /* there was no memory for some mail: the connection's state and its watches must be asked anew */
};

struct zkl__mail {
	struct zkl__mail   *next;
	enum zkl__mail_type type;
	uint64_t            party;
	int64_t             session_id, timeout_ns; /* CONNECTED */
	struct zkl__reply   reply;                  /* REPLY; GONE and CHANGED: name */
};

struct zkl__client_options {
	const char *servers; /* numeric, see servers.h */
	const char *chroot;
	const char *auth; /* "digest:user:password" or NULL */
	int64_t     timeout_ms;
	int64_t (*now_ns)(void);
	void (*wake)(void *arg); /* from the client's threads */
	void *wake_arg;
};

/* Starts connecting. NULL: errno says why. The strings must live as long as the client. */
struct zkl__client *zkl__client_new(const struct zkl__client_options *options);
/* Sends; the reply comes as mail, in any case and never within this call. */
void zkl__client_send(struct zkl__client *client, uint64_t party, const struct zkl__request *request);
/* All mail so far, oldest first, each to be given back with zkl__mail_free(). */
struct zkl__mail *zkl__client_take(struct zkl__client *client);
/* Ends the session (within some seconds at the worst) and frees the client. Returns the mail that was left, and a reply
 * with the result UNKNOWN for each request that had none. Not from a callback of the client. */
struct zkl__mail *zkl__client_free(struct zkl__client *client);
void              zkl__mail_free(struct zkl__mail *mail);

#endif
