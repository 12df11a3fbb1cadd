/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_FENCE_H
#define ZKLOCK_FENCE_H

/* fence.h: the resource's side of a lock: it refuses a holder that does not know that it has lost the lock.
 *
 *     zkl_fence_open -> zkl_fence_admit (with each access of a holder) ... -> zkl_fence_close
 *
 * Nothing here talks to ZooKeeper: link it into the service, or into whatever else guards the file, the device, the
 * table. A holder sends the token of its grant (zkl_grant.token, ZKLOCK_TOKEN of zklock-run) with each request. The fence
 * keeps the greatest token that it has admitted, the mark, and refuses whoever comes with a lower one. This is what makes a
 * lock safe against a holder that was paused: Kleppmann, "How to do distributed locking" (2016); Chubby's sequencers
 * (Burrows, OSDI 2006, section 2.4).
 *
 * The rule has three parts, and the fence keeps them together where the access runs inside of zkl_fence_admit():
 *
 * - Refused is what is *lower* than the mark. The holder's second write carries the token of its first: refusing equal
 *   tokens would refuse the holder itself.
 * - The mark is raised, durably, before the access is done. Else a service that is restarted forgets that it has seen the
 *   newer holder.
 * - From the comparison until the access is over nobody with a newer token is admitted. Else an access that was admitted goes
 *   on beside, or after, that of the next holder.
 *
 * All accesses of a holder go through it, reads too, above all the first read of what it will write back later: its token
 * is then known here before its predecessor's late write arrives. Who reads without a lock (reports, monitoring) need not
 * ask; what it reads may be in the midst of a holder's work.
 *
 * zklock-fence does the same for shell scripts.
 *
 * One fence, one lock path: tokens of different paths do not compare. After an ensemble was restored from a backup its
 * tokens may begin below the mark, and all are refused: remove the file then, while no old holder lives.
 *
 * The mark on file. Shared by all processes that open the same file (in one process by all handles), on one host. The
 * directory must be local: locks over NFS can be lost with the server. The file has a fixed size of 16 KiB and is written in
 * place, so that a full disk cannot keep a mark from being raised (but on file systems that copy on write: btrfs, ZFS). The
 * mark is in there four times, each with a check sum, as a line of text: `head -n 1 FILE` shows it. A write that is cut short,
 * by a crash or a loss of power, at any byte, leaves the mark before it or the new one, never a lower one than any that was
 * admitted; so does damage to one of the copies. Two are on the disk when the access begins, and all four after the kernel's
 * next write-back, from when on damage to three does no harm. (Power that goes before that, and damages both of the two,
 * cannot be told from a write cut short: the mark before it is back.) A file that is empty, foreign, damaged in all places or
 * of a later format is refused, not replaced. A missing one is made, with mark 0, as any file is (by the umask; where the file
 * system has no files without a name, who is killed meanwhile may leave a `.zklock-fence-*` beside it): so do not remove it
 * while old holders may live. While it is open do not copy, rename or replace it, which later calls see, and refuse; nor its
 * directory, which they do not see: they go on with the old one, beside those that open the new one. Who may write to it can
 * raise the mark; who may read it can hold up its users.
 *
 * Threads: any call from any thread, and in any number of processes. In the child of a fork() a handle gives ZKL_EFORKED
 * and close gives back memory and descriptors. Where a process is killed in an access, its lock goes with it, but for children
 * that were forked and have neither closed the handle nor executed a program: they keep it, and all others out. Descriptors are
 * close-on-exec.
 *
 * Since 0.1, all of it. */

#include <zklock/zklock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zkl_fence zkl_fence;

/* The file is made where it is missing; NULL: the mark is in memory, for a resource that dies with this process. *ret is
 * the caller's to close. Blocks no longer than the disk does, unless all copies of the mark look damaged.
 * ZKL_EINVAL: not a fence's file, a damaged one, one of a later format, a symbolic link (the message says which).
 * ZKL_EACCES: not permitted, or a read-only file system. ZKL_ESYS: no such directory, disk full, ... (sys_errno). ZKL_ENOMEM. */
ZKL_API int zkl_fence_open(const char *file, zkl_fence **ret, zkl_error *reterr);

/* One access, which must be over, with all that it has started, when it returns; that it returns, not by longjmp, an
 * exception or pthread_exit, is its duty. */
typedef int zkl_fence_access(void *user);

/* ZKL_ESTALE where the token is lower than the mark, at once, whoever is in here. Else waits until no other access runs, in
 * any process; raises the mark, durably, if the token is higher; runs access(user) while nobody else is admitted; and
 * returns what it returned (best a number >= 0: a negative one comes without reterr). Accesses come one at a time, also
 * those with equal tokens, in no order among waiters. One that hangs keeps all others out, in its process and every other:
 * how long it may take is for the access to bound. It may ask another fence; two that do so crosswise wait for ever.
 *
 * access NULL: only asks, and returns 0; where the mark is in memory it is lock-free then, and waits for no access. The answer is
 * worth something only while a lock of your own, which all accesses take, spans this call and the access.
 *
 * ZKL_EINVAL: token 0 or above 2^63-1, which no grant has. ZKL_EDEADLK: called in an access to the same fence, or to the
 * same file. ZKL_EFORKED. Nothing was admitted either where the file cannot be used: ZKL_ESYS, ZKL_EACCES: reading, locking,
 * writing or syncing failed (sys_errno). ZKL_ESTATE: the file was removed, replaced, damaged or put back to a lower mark while
 * open; or a write or a sync of this handle has failed before. After these a new handle must be opened: what a failed fsync
 * leaves on the disk is unknown, and asking again would only lose the error (PostgreSQL's "fsyncgate", 2018; Rebello et al.,
 * "Can Applications Recover from fsync Failures?", ATC 2020). A new handle writes two copies anew. */
ZKL_API int zkl_fence_admit(zkl_fence *fence, uint64_t token, zkl_fence_access *access, void *user, zkl_error *reterr);

/* The greatest token that was admitted, or is being, 0: none yet. For people and metrics: it may be higher by the time it
 * returns. Never blocks: an atomic load in memory; of a file what stands in it, or what this handle saw last where that
 * cannot be read. NULL and a handle of a parent process: 0. */
ZKL_API uint64_t zkl_fence_mark(const zkl_fence *fence);

/* No other call on the handle may run, nor an access. The mark stays on file. NULL is fine. */
ZKL_API void zkl_fence_close(zkl_fence *fence);

#ifdef __cplusplus
}
#endif
#endif
