/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CLAIM_H
#define ZKLOCK_CLAIM_H

/* claim.h: what the command runs under: a lock or, with --leader, leadership. Nobody else asks which of them it is.
 *
 *     zkl__claim_open -> zkl__claim_start -> events -> zkl__claim_release -> start ... -> zkl__claim_close
 *
 * Of one thread, that of the session's events. */

#include <stdbool.h>

#include "look.h"

struct zkl__claim_words {
	const char *noun;                 /* "lock", before its path */
	const char *gained, *lost, *left; /* "acquired", before its path, too */
};

struct zkl__claim {
	const struct zkl__claim_words *words;
	/* One of them; both NULL: not open. */
	zkl_lock     *lock;
	zkl_election *election;
};

/* As zkl_lock_new(). */
int zkl__claim_open(struct zkl__claim *claim, zkl_session *session, const char *path, bool leader,
                    const zkl_options *options, zkl_error *reterr);

/* Begins an attempt. There is no limit in time to a campaign. */
int zkl__claim_start(struct zkl__claim *claim, int64_t timeout_ms, zkl_error *reterr);

/* As zkl__lock_look(). */
struct zkl__looking *zkl__claim_look(struct zkl__claim *claim);

/* As zkl_lock_check(). */
int64_t zkl__claim_check(struct zkl__claim *claim, uint64_t token);

/* As zkl__lock_why_lost(). */
const char *zkl__claim_why_lost(struct zkl__claim *claim);

/* Puts the attempt away, without waiting: ENDED follows, unless it has come. */
void zkl__claim_release(struct zkl__claim *claim);

void zkl__claim_close(struct zkl__claim *claim);

#endif
