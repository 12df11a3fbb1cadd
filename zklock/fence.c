/* SPDX-License-Identifier: Apache-2.0 */
#include <zklock/fence.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "error.h"
#include "fence_file.h"
#include "fence_wait.h"
#include "thread.h"

struct zkl_fence {
	pthread_mutex_t        mutex; /* of the file; held while an access runs */
	_Atomic uint64_t       mark;  /* of a file: as this handle saw it last */
	unsigned               forks;
	bool                   on_file;
	struct zkl__fence_file file;
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the mark is read without a lock");

/* The accesses that this thread is in, the innermost first. */
struct inside {
	const zkl_fence     *fence;
	const struct inside *outer;
};
static _Thread_local const struct inside *innermost;

int zkl_fence_open(const char *file, zkl_fence **ret, zkl_error *reterr)
{
	zkl_fence *fence;
	int        r = 0;

	if (!ret || (file && !*file))
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, ret ? "the name of the file is empty" : "ret is NULL");
	fence = calloc(1, sizeof *fence);
	if (!fence)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a fence");
	zkl__thread_watch_forks();
	fence->forks = zkl__thread_forks();
	fence->on_file = file != NULL;
	if (file)
		r = zkl__fence_file_open(file, &fence->file, reterr);
	if (r < 0) {
		free(fence);
		return r;
	}
	pthread_mutex_init(&fence->mutex, NULL);
	*ret = fence;
	return 0;
}

void zkl__fence_wait_unless(zkl_fence *fence, const volatile sig_atomic_t *impatient)
{
	fence->file.impatient = impatient;
}

static bool is_forked(const zkl_fence *fence)
{
	return fence->forks != zkl__thread_forks();
}

static bool guards_the_same(const zkl_fence *one, const zkl_fence *other)
{
	return one == other || (one->on_file && other->on_file && one->file.device == other->file.device &&
	                        one->file.inode == other->file.inode);
}

static bool is_inside(const zkl_fence *fence)
{
	for (const struct inside *in = innermost; in; in = in->outer)
		if (guards_the_same(in->fence, fence))
			return true;
	return false;
}

uint64_t zkl_fence_mark(const zkl_fence *fence)
{
	uint64_t seen, in_file;

	if (!fence || is_forked(fence))
		return 0;
	seen = atomic_load(&fence->mark);
	in_file = fence->on_file ? zkl__fence_file_peek(&fence->file) : 0;
	return seen > in_file ? seen : in_file;
}

static int refuse(uint64_t token, uint64_t mark, zkl_error *reterr)
{
	return zkl__error(reterr, ZKL_ESTALE, 0, 0,
	                  "token %" PRIu64 " is older than %" PRIu64 ", which was admitted before", token, mark);
}

/* Under the lock. The mark may stand in the file, left there by a process that was killed, and not be on the disk: no token is
 * admitted on the strength of such a one. */
static int raise_on_file(zkl_fence *fence, uint64_t token, zkl_error *reterr)
{
	const uint64_t seen = atomic_load(&fence->mark);
	uint64_t       mark = 0;
	int            r = zkl__fence_file_load(&fence->file, &mark, reterr);

	if (r < 0)
		return r;
	if (mark < seen)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0,
		                  "the mark in %.80s went back from %" PRIu64 " to %" PRIu64
		                  ": open it again if that is meant",
		                  fence->file.path, seen, mark);
	if (token < mark)
		return refuse(token, mark, reterr);
	r = zkl__fence_file_settle(&fence->file, mark, reterr);
	if (r == 0 && token > mark)
		r = zkl__fence_file_raise(&fence->file, token, reterr);
	if (r == 0)
		atomic_store(&fence->mark, token);
	return r;
}

/* With the lock or without it: nobody lowers the mark. */
static int raise_in_memory(zkl_fence *fence, uint64_t token, zkl_error *reterr)
{
	uint64_t mark = atomic_load(&fence->mark);

	while (mark < token && !atomic_compare_exchange_weak(&fence->mark, &mark, token))
		continue;
	return mark <= token ? 0 : refuse(token, mark, reterr);
}

static int run(const zkl_fence *fence, zkl_fence_access *access, void *user)
{
	const struct inside in = {fence, innermost};

	innermost = &in;
	int r = access(user);
	innermost = in.outer;
	return r;
}

static bool lock_at_once(zkl_fence *fence)
{
	if (pthread_mutex_trylock(&fence->mutex) != 0)
		return false;
	if (!fence->on_file || zkl__fence_file_try_lock(&fence->file))
		return true;
	pthread_mutex_unlock(&fence->mutex);
	return false;
}

static int lock(zkl_fence *fence, uint64_t token, zkl_error *reterr)
{
	uint64_t mark = atomic_load(&fence->mark);
	int      r;

	/* Most often nobody else is in here, and a look at the file costs. */
	if (token >= mark && lock_at_once(fence))
		return 0;
	/* The mark only grows: who is stale now will be when it is its turn. */
	mark = zkl_fence_mark(fence);
	if (token < mark)
		return refuse(token, mark, reterr);
	pthread_mutex_lock(&fence->mutex);
	r = fence->on_file ? zkl__fence_file_lock(&fence->file, reterr) : 0;
	if (r < 0)
		pthread_mutex_unlock(&fence->mutex);
	return r;
}

static void unlock(zkl_fence *fence)
{
	/* Not what a child has, that the access has forked: the lock is the parent's. */
	if (fence->on_file && !is_forked(fence))
		zkl__fence_file_unlock(&fence->file);
	pthread_mutex_unlock(&fence->mutex);
}

int zkl_fence_admit(zkl_fence *fence, uint64_t token, zkl_fence_access *access, void *user, zkl_error *reterr)
{
	int r;

	if (!fence)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "fence is NULL");
	if (is_forked(fence))
		return zkl__error(reterr, ZKL_EFORKED, 0, 0, "the fence was opened by a parent process: open it here");
	if (token == 0 || token > INT64_MAX)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "%" PRIu64 " is no token: they are 1 to 2^63-1", token);
	if (is_inside(fence))
		return zkl__error(reterr, ZKL_EDEADLK, 0, 0, "called in an access to the same fence");
	if (!fence->on_file && !access)
		return raise_in_memory(fence, token, reterr);
	r = lock(fence, token, reterr);
	if (r < 0)
		return r;
	r = fence->on_file ? raise_on_file(fence, token, reterr) : raise_in_memory(fence, token, reterr);
	if (r == 0 && access)
		r = run(fence, access, user);
	unlock(fence);
	return r;
}

void zkl_fence_close(zkl_fence *fence)
{
	if (!fence)
		return;
	if (fence->on_file)
		zkl__fence_file_close(&fence->file);
	if (!is_forked(fence))
		pthread_mutex_destroy(&fence->mutex);
	free(fence);
}
