/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_FENCE_FILE_H
#define ZKLOCK_FENCE_FILE_H

/* fence_file.h: a number in a file that only grows, and survives a crash at any byte of a write.
 *
 *     open -> (lock -> load -> settle | raise -> unlock)* -> close; peek at any time
 *
 * Four copies of the mark, each alone in a block of the disk, each one line of text with a check sum:
 *
 *     zklock-fence 1 mark 00000000004294967301 check 0123456789abcdef
 *
 * They are two pairs. Raise writes one pair and syncs once, while the other one, which is on the disk for sure, keeps the
 * mark before it. Then the mark counts. The other pair is written too, without a sync: the kernel brings it to the disk in
 * its time, if no raise does before. So later damage meets four copies of the mark. Until then a pair with no whole copy may
 * be one that was being written, and the mark in the other one counts: no one sync can do better, for what a write cut short
 * leaves behind looks like damage.
 *
 * What the kernel shows need not be on the disk: a process may have been killed between write and sync, or its sync have
 * failed, after which the kernel takes for written what is not. So a mark counts when it is settled, by this handle. On the
 * disk for sure is either the newest pair, or the mark before it in the other pair, and nobody knows which. Settle writes
 * one copy of the newest pair (the one that lacks the mark, if any) and syncs, and only then one of the other pair, and
 * syncs: at no moment are both copies of a pair at risk.
 *
 *     pairs           the disk is sure of, at least      settle writes, with a sync each
 *     n,n     n,n     one pair                           second of the one, first of the other
 *     n+k,n+k n,n     either                             second of the newest, first of the other
 *     n+k,bad n,n     either                             second of the newest, first of the other
 *     bad,bad n,n     the other pair                     second of the other, first of the bad one
 *
 * One thread at a time, but for peek. Errors: 0, or a ZKL_E* with *reterr filled in. */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zklock/zklock.h>

struct zkl__fence_file {
	char       *path; /* as given, for messages */
	const char *name; /* the last part of it, below `folder` */
	int         folder, fd;
	bool        made; /* the file, by this handle */
	dev_t       device;
	ino_t       inode;
	uint64_t    settled; /* the mark that this handle knows to be on the disk, twice */
	int         sure;    /* in this pair at least once */
	bool        failed;  /* a write or a sync, once: what the disk has is unknown to this handle from then on */

	const volatile sig_atomic_t *impatient; /* the caller's; once it is set no lock is waited for. NULL: never */
};

int  zkl__fence_file_open(const char *path, struct zkl__fence_file *ret, zkl_error *reterr);
void zkl__fence_file_close(struct zkl__fence_file *file);

/* Against all other handles, in any process. ZKL_EBUSY: another has it, and it is not to be waited for (any more, if a signal
 * that interrupts has set that). */
int  zkl__fence_file_lock(const struct zkl__fence_file *file, zkl_error *reterr);
bool zkl__fence_file_try_lock(const struct zkl__fence_file *file); /* at once; false also where it fails */
void zkl__fence_file_unlock(const struct zkl__fence_file *file);

/* Under the lock: the mark as it stands. */
int zkl__fence_file_load(const struct zkl__fence_file *file, uint64_t *ret, zkl_error *reterr);
/* Under the lock: makes sure of the mark that load gave. */
int zkl__fence_file_settle(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr);
/* Under the lock, with the mark before it settled. */
int zkl__fence_file_raise(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr);

/* Without the lock: the mark as it stands, perhaps not settled yet; 0 where none can be read. */
uint64_t zkl__fence_file_peek(const struct zkl__fence_file *file);

#endif
