/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_LOCK_H
#define ZKLOCK_LOCK_H

/* lock.h: a mutual exclusion lock on a path.
 *
 *     zkl_lock_new -> zkl_lock_acquire -> (zkl_lock_check, act)* -> zkl_lock_release -> acquire ... -> zkl_lock_free
 *
 * Contenders are served in the order of their znodes' sequence numbers. Not recursive: a second handle on the path is
 * another contender, in the same thread too. The protocol is the lock recipe of ZooKeeper's documentation ("Recipes and
 * Solutions: Locks") with Apache Curator's node names, so that a Java service with InterProcessMutex can share the lock. So
 * can kazoo's Lock when it is told of the names: extra_lock_patterns=["-lock-"]. Never both on one path: Curator sorts whole
 * names where its own tag is missing, so that it holds beside kazoo.
 *
 * A directory numbers its children up to 2^31 - 1 and then gives that number again and again (ZOOKEEPER-3249). From 2^31 -
 * 2^20 on nobody is granted: who gets such a number gives it back and waits, those before it finish in order, and the empty
 * directory is deleted and made anew, open or closed as any that the session makes. Epochs begin at 0 then, tokens grow
 * on; who waited queues in any order. ZKL_EEXHAUSTED, and nothing granted, where that cannot be: the directory has children
 * that are no contenders, its parent's ACL denies the delete (so that a directory made by hand stays as it is), or 32
 * contenders of other clients in a row come there. Those are waited for like any others. What they see of it: numbers that go
 * on beyond the end, which they grant by, twice from 2^31 - 1 on; and no directory for a moment (Curator makes it; acquire() of
 * a kazoo Lock that was used before raises NoNodeError, and works again once there is one). */

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a handle; no I/O, nothing is created on the servers. The path is absolute below the session's chroot: "/a/b", no
 * empty, "." or ".." part, no trailing slash, printable UTF-8 without characters of four bytes (servers refuse those),
 * ZKL_PATH_MAX bytes with the chroot, not below "/zookeeper". No part is named like a contender's node of this library, Curator
 * or kazoo ("_c_...", or what ends in "lock-", "latch-" or "lock__", and ten digits): a lock on its parent would take it for
 * a contender that never goes. Other names may end in ten digits or more, but then use no such path's parent as a lock.
 * *ret is the caller's to free. ZKL_EPATH (the message names the rule), ZKL_EINVAL, ZKL_ENOMEM. */
ZKL_API int zkl_lock_new(zkl_session *session, const char *path, const zkl_options *options, zkl_lock **ret,
                         zkl_error *reterr);

/* Begins an attempt and returns; events tell how it goes. timeout_ms 0 is a try: it does not queue, writes nothing where
 * the lock is busy (ENDED(EBUSY)) and may take op_ms. ZKL_ESTATE: an attempt is under way, or a grant (also a lost one) is
 * not released yet. ZKL_ENOMEM: also where the session watches as many nodes as it can (session.h). It may follow
 * zkl_lock_release() at once. */
ZKL_API int zkl_lock_start(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr);

/* As start, and waits. ZKL_ETIMEDOUT: not granted in time (the message says whether it
 * was queued). ZKL_ENOTCONN: no server reached. ZKL_EBUSY: a try met a holder.
 * ZKL_ECANCELED: released by another thread, or the session was cancelled. ZKL_EDEADLK: called from a callback. And what
 * ends attempts: ZKL_EACCES, ZKL_EPATH, ZKL_EEXHAUSTED, ZKL_ELOST (with ZKL_NO_REQUEUE), ZKL_EZK. ZKL_ENOMEM as start.
 * timeout_ms ZKL_FOREVER: no limit. */
ZKL_API int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr);

/* May I act? Ask before each act that others can see. > 0: the grant with this token is held for so many ms more: the time
 * limit of the act. ZKL_ELOST: lost. ZKL_ENOTHELD: released, or not a grant of this handle. Once no, always no for this
 * token, and LOST follows. Two atomic loads and a clock read, also in signal handlers. Runs ahead of the LOST event, never
 * behind it. */
ZKL_API int64_t zkl_lock_check(zkl_lock *lock, uint64_t token);

/* Lets go of what there is: a grant, a place in the queue (its acquire() gets ZKL_ECANCELED), a lost grant's node. In force
 * when it returns; the delete is retried while the session lives. timeout_ms: how long to wait for the servers' word; 0
 * never blocks. ZKL_ETIMEDOUT: no word yet, released all the same. ZKL_ENOTHELD: the grant was lost before (your work may
 * not have been alone), or there was nothing to let go of. ZKL_EACCES, ZKL_EZK: the servers do not let the node go, which
 * keeps others out as long as the session lives. ZKL_EDEADLK: timeout_ms not 0 in a callback, nothing done. */
ZKL_API int zkl_lock_release(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr);

/* Who holds the lock? Returns the number of contenders; 0: free, and *ret is untouched. May take op_ms. The path's lock
 * directory may be missing (0). ZKL_ENOTCONN, ZKL_EACCES, ZKL_EPATH, ZKL_EDEADLK. */
ZKL_API int zkl_lock_holder(zkl_session *session, const char *path, zkl_peer *ret, zkl_error *reterr);

/* Releases and frees. Waits for this handle's callback if one runs in another thread; none comes after. May be called in
 * the handle's own callback. NULL is fine. */
ZKL_API void zkl_lock_free(zkl_lock *lock);

#ifdef __cplusplus
}
#endif
#endif
