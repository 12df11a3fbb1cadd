/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_OWNER_H
#define ZKLOCK_SIM_OWNER_H

/* owner.h: the program that uses a lock or stands in an election: it starts attempts, holds, works, lets go, changes its
 * mind. While it holds it asks check() and writes to a resource (resource.h). */

#include "driver.h"

enum { OWNERS = 8 };

enum owner_style {
	STYLE_EVENTS,   /* told by events */
	STYLE_BLOCKING, /* waits in acquire(), asks check() */
	STYLE_TERM,     /* the same, and each grant is a term, to which its work is bound */
	STYLE_WRAPPED   /* a command under the policy of zklock-run (wrapper.h) */
};

struct owner_options {
	unsigned         process;
	int16_t          directory;
	bool             candidate, no_requeue, impatient; /* impatient: often a try or a short timeout */
	enum owner_style style;
	int64_t          stop_ms, pace; /* pace: how long it holds and pauses, at most */
};

void     owner_begin(void);
unsigned owner_add(const struct owner_options *options, uint64_t seed);
unsigned owner_count(void);
/* Their process has been started, or is gone. */
void owner_start(unsigned process);
void owner_forget(unsigned process);
/* Its terms return. */
void owner_end_terms(unsigned process);
/* An attempt, or who observes, went on. */
void owner_ready(const struct zkl__source *source);
/* Throws its handle away and makes a new one. */
void owner_free_handle(unsigned owner);
/* From now on nobody starts anything, and who holds lets go soon. */
void        owner_drain(void);
bool        owner_draining(void);
bool        owner_idle(unsigned owner);
const char *owner_state(unsigned owner);

const struct owner_options *owner_options_of(unsigned owner);
/* -1: of nobody */
int owner_of(const struct zkl__handle *handle);

/* ---- for the wrapper --------------------------------------------------------------------------------------------- */

void                owner_attempt(unsigned owner, int64_t timeout_ms);
void                owner_resting(unsigned owner);
int64_t             owner_ask(unsigned owner);
struct zkl__handle *owner_handle(unsigned owner);
uint64_t            owner_token(unsigned owner);

#endif
