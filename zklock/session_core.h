/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SESSION_CORE_H
#define ZKLOCK_SESSION_CORE_H

/* session_core.h: what lock and election need of a session: its mutex, its hub, waiting, and who is being called back. */

#include <pthread.h>

#include <zklock/session.h>

#include "driver.h"
#include "hub.h"

/* 0, ZKL_EINVAL, or ZKL_EFORKED: may the session be used in this process? */
int zkl__session_usable(const zkl_session *session, zkl_error *reterr);
/* 0, or ZKL_EDEADLK: may this thread block? */
int              zkl__session_may_block(zkl_session *session, zkl_error *reterr);
void             zkl__session_lock(zkl_session *session);
void             zkl__session_unlock(zkl_session *session);
struct zkl__hub *zkl__session_hub(zkl_session *session);
const char      *zkl__session_chroot(const zkl_session *session);
/* Each handle keeps the session's memory. */
void zkl__session_hold(zkl_session *session);
void zkl__session_drop(zkl_session *session);

/* Unlocks, waits until something may have changed for the source (NULL: for anything) or until the time (ZKL__NEVER: none),
 * locks. False: it is later than that. */
bool zkl__session_wait(zkl_session *session, const struct zkl__source *source, int64_t until_ns);
/* Wakes those who wait for anything. */
void zkl__session_changed(zkl_session *session);
/* A thread that does the work of an election's term: it may not close the session, which would wait for that. */
struct zkl__worker {
	pthread_t           thread;
	struct zkl__worker *next;
};
void zkl__session_begin_work(zkl_session *session, struct zkl__worker *worker);
void zkl__session_end_work(zkl_session *session, const struct zkl__worker *worker);
/* Waits until none of the owner's callbacks runs in another thread. */
void zkl__session_await_callback(zkl_session *session, const void *owner);

#endif
