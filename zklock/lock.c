/* SPDX-License-Identifier: Apache-2.0 */
#include <zklock/lock.h>

#include <stdlib.h>

#include "error.h"
#include "holder.h"
#include "owner.h"

struct zkl_lock {
	struct zkl__owner owner;
};

static struct zkl__owner *owner_of(zkl_lock *lock)
{
	return lock ? &lock->owner : NULL;
}

int zkl_lock_new(zkl_session *session, const char *path, const zkl_options *options, zkl_lock **ret, zkl_error *reterr)
{
	zkl_lock *lock;
	int       r = zkl__session_usable(session, reterr);

	if (r < 0)
		return r;
	if (!ret)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "ret is NULL");
	lock = calloc(1, sizeof *lock);
	if (!lock)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a lock");
	r = zkl__owner_init(&lock->owner, &zkl__lock_type, session, path, options, reterr);
	if (r < 0)
		free(lock);
	else
		*ret = lock;
	return r;
}

int zkl_lock_start(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr)
{
	return zkl__owner_start(owner_of(lock), timeout_ms, reterr);
}

int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr)
{
	return zkl__owner_acquire(owner_of(lock), timeout_ms, ret, reterr);
}

struct zkl__looking *zkl__lock_look(zkl_lock *lock)
{
	return zkl__owner_look(&lock->owner);
}

const char *zkl__lock_why_lost(zkl_lock *lock)
{
	return zkl__owner_why_lost(&lock->owner);
}

int64_t zkl_lock_check(zkl_lock *lock, uint64_t token)
{
	return zkl__owner_check(owner_of(lock), token);
}

int zkl_lock_release(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr)
{
	return zkl__owner_release(owner_of(lock), timeout_ms, reterr);
}

void zkl_lock_free(zkl_lock *lock)
{
	if (!lock)
		return;
	zkl__owner_clear(&lock->owner);
	free(lock);
}
