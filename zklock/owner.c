/* SPDX-License-Identifier: Apache-2.0 */
#include "owner.h"

#include "error.h"
#include "path.h"

int zkl__owner_init(struct zkl__owner *owner, const struct zkl__handle_type *type, zkl_session *session,
                    const char *path, const zkl_options *options, zkl_error *reterr)
{
	int r = zkl__lock_path_check(path, zkl__session_chroot(session), reterr);

	if (r < 0)
		return r;
	owner->session = session;
	zkl__session_lock(session);
	r = zkl__handle_init(&owner->handle, type, zkl__session_hub(session), path, options, reterr);
	if (r == 0)
		zkl__session_hold(session);
	zkl__session_unlock(session);
	return r;
}

int zkl__owner_usable(const struct zkl__owner *owner, zkl_error *reterr)
{
	if (!owner)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "the handle is NULL");
	return zkl__session_usable(owner->session, reterr);
}

int zkl__owner_start(struct zkl__owner *owner, int64_t timeout_ms, zkl_error *reterr)
{
	int r = zkl__owner_usable(owner, reterr);

	if (r < 0)
		return r;
	zkl__session_lock(owner->session);
	r = zkl__handle_start(&owner->handle, timeout_ms, reterr);
	zkl__session_unlock(owner->session);
	return r;
}

int zkl__owner_await_grant(struct zkl__owner *owner, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr)
{
	struct zkl__attempt *attempt;
	int                  r = zkl__handle_start(&owner->handle, timeout_ms, reterr);

	if (r < 0)
		return r;
	attempt = owner->handle.attempt;
	zkl__attempt_hold(attempt);
	while (!zkl__attempt_settled(attempt))
		zkl__session_wait(owner->session, &attempt->source, ZKL__NEVER);
	if (zkl__attempt_accept(attempt)) {
		if (ret)
			zkl__attempt_grant(attempt, ret);
	} else {
		r = zkl__attempt_error(attempt, reterr);
	}
	zkl__attempt_drop(attempt);
	return r;
}

int zkl__owner_acquire(struct zkl__owner *owner, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr)
{
	int r = zkl__owner_usable(owner, reterr);

	if (r == 0)
		r = zkl__session_may_block(owner->session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(owner->session);
	r = zkl__owner_await_grant(owner, timeout_ms, ret, reterr);
	zkl__session_unlock(owner->session);
	return r;
}

int64_t zkl__owner_check(struct zkl__owner *owner, uint64_t token)
{
	int r = zkl__owner_usable(owner, NULL);

	return r < 0 ? r : zkl__handle_check(&owner->handle, token);
}

const char *zkl__owner_why_lost(struct zkl__owner *owner)
{
	const char *why = ZKL__LOST_BY_CLOCK;

	zkl__session_lock(owner->session);
	if (owner->handle.attempt && owner->handle.attempt->why_lost)
		why = owner->handle.attempt->why_lost;
	zkl__session_unlock(owner->session);
	return why;
}

static bool await_done(zkl_session *session, struct zkl__attempt *attempt, int64_t timeout_ms)
{
	int64_t until = zkl__until(zkl__session_hub(session), timeout_ms);

	while (!attempt->done && zkl__session_wait(session, &attempt->source, until)) {
	}
	return attempt->done;
}

static int release_and_wait(struct zkl__owner *owner, int64_t timeout_ms, zkl_error *reterr)
{
	struct zkl__attempt *attempt = owner->handle.attempt;
	const char          *path = owner->handle.path;
	int                  r;

	if (zkl__session_hub(owner->session)->closed)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%s: the session is closed, nothing is held", path);
	if (!attempt) {
		zkl__handle_release(&owner->handle);
		return zkl__error(reterr, ZKL_ENOTHELD, 0, 0, "%s is not held, and not waited for", path);
	}
	zkl__attempt_hold(attempt);
	r = zkl__handle_release(&owner->handle);
	if (r < 0)
		zkl__error(reterr, r, 0, 0, "%s was lost before it was released: the work may not have been alone",
		           path);
	if (timeout_ms != 0 && !await_done(owner->session, attempt, timeout_ms) && r == 0)
		r = zkl__error(reterr, ZKL_ETIMEDOUT, 0, 0,
		               attempt->pinned
		                       ? "%s is given up, but its work still goes on and keeps the node"
		                       : "%s is released, but no server has confirmed it yet; the delete is retried",
		               attempt->path);
	if (r == 0 && timeout_ms != 0 && attempt->not_deleted)
		r = zkl__error(reterr, attempt->not_deleted, attempt->zk_code, 0,
		               "%s is released, but its node may not be deleted and keeps others out while the session "
		               "lives; check the ACL of its directory",
		               attempt->path);
	zkl__attempt_drop(attempt);
	return r;
}

int zkl__owner_release(struct zkl__owner *owner, int64_t timeout_ms, zkl_error *reterr)
{
	int r = zkl__owner_usable(owner, reterr);

	if (r == 0 && timeout_ms < ZKL_FOREVER)
		r = zkl__error(reterr, ZKL_EINVAL, 0, 0, "the timeout is negative");
	if (r == 0 && timeout_ms != 0)
		r = zkl__session_may_block(owner->session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(owner->session);
	r = release_and_wait(owner, timeout_ms, reterr);
	zkl__session_unlock(owner->session);
	return r;
}

void zkl__owner_clear(struct zkl__owner *owner)
{
	if (zkl__session_usable(owner->session, NULL) == 0) {
		zkl__session_lock(owner->session);
		zkl__handle_close(&owner->handle);
		zkl__session_await_callback(owner->session, &owner->handle);
		zkl__session_unlock(owner->session);
	}
	zkl__handle_clear(&owner->handle);
	zkl__session_drop(owner->session);
}
