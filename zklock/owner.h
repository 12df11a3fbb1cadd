/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_OWNER_H
#define ZKLOCK_OWNER_H

/* owner.h: what a lock and an election are alike to the application: a handle on a session, calls from any thread, waiting.
 * It checks, takes the session's mutex, and waits; driver.h does the rest. */

#include "driver.h"
#include "session_core.h"

struct zkl__owner {
	struct zkl__handle handle;
	zkl_session       *session;
};

/* The calls of lock.h, with its errors; owner NULL: ZKL_EINVAL. */
int zkl__owner_init(struct zkl__owner *owner, const struct zkl__handle_type *type, zkl_session *session,
                    const char *path, const zkl_options *options, zkl_error *reterr);
int zkl__owner_usable(const struct zkl__owner *owner, zkl_error *reterr);
int zkl__owner_start(struct zkl__owner *owner, int64_t timeout_ms, zkl_error *reterr);
int zkl__owner_acquire(struct zkl__owner *owner, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr);
/* The same under the session's mutex, which is given up while it waits. */
int     zkl__owner_await_grant(struct zkl__owner *owner, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr);
int64_t zkl__owner_check(struct zkl__owner *owner, uint64_t token);
/* As zkl__lock_why_lost(). */
const char *zkl__owner_why_lost(struct zkl__owner *owner);
int         zkl__owner_release(struct zkl__owner *owner, int64_t timeout_ms, zkl_error *reterr);
void        zkl__owner_clear(struct zkl__owner *owner);

#endif
