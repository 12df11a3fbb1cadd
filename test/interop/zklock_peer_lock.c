/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of zklock_peer, beside Curator's InterProcessMutex and kazoo's Lock. */
#include "zklock_peer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <zklock/lock.h>

static zkl_lock   *lock;
static zkl_grant   held;
static atomic_bool stopping;

static int open_lock(zkl_error *reterr)
{
	return zkl_lock_new(session, path, NULL, &lock, reterr);
}

static void close_lock(void)
{
	zkl_lock_free(lock);
}

static void acquire(zkl_grant *ret)
{
	zkl_error error;
	if (zkl_lock_acquire(lock, ZKL_FOREVER, ret, &error) != ZKL_OK)
		fail("acquire", &error);
}

/* A busy machine may lose a lock, and then it is the others' as well. */
static void release(void)
{
	zkl_error error;
	int       r = zkl_lock_release(lock, RELEASE_MS, &error);
	if (r != ZKL_OK && r != ZKL_ENOTHELD)
		fail("release", &error);
}

static void grants(void)
{
	zkl_grant grant;
	while (!atomic_load(&stopping)) {
		acquire(&grant);
		if (zkl_lock_check(lock, grant.token) > 0)
			use(&grant);
		release();
	}
}

static void stop(void)
{
	atomic_store(&stopping, true);
}

static int64_t check(uint64_t token)
{
	return zkl_lock_check(lock, token);
}

static void show(bool holder)
{
	zkl_peer  peer;
	zkl_error error;
	int       r = zkl_lock_holder(session, path, &peer, &error);
	if (r < 0)
		fail("holder", &error);
	if (holder)
		say("holder %s", r > 0 ? peer.id : "nobody");
	else
		say("participants %d", r);
}

static bool obey(const char *command)
{
	if (strcmp(command, "acquire") == 0) {
		acquire(&held);
		say("held %" PRIu64 " %" PRIu64 " %" PRId64, held.epoch, held.token, now_ns());
	} else if (strcmp(command, "release") == 0) {
		release();
		say("released");
	} else if (strcmp(command, "watch") == 0) {
		watch(check, held.token);
	} else if (strcmp(command, "holder") == 0 || strcmp(command, "participants") == 0) {
		show(*command == 'h');
	} else {
		return false;
	}
	return true;
}

const recipe lock_recipe = {"lock", open_lock, grants, stop, obey, close_lock};
