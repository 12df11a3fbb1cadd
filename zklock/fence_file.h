/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_FENCE_FILE_H
#define ZKLOCK_FENCE_FILE_H

/* fence_file.h: a number in a file that only grows, and survives a crash at any byte of a write.
 *
 *     open -> (lock -> load -> settle | raise -> unlock)* -> close; peek at any time
 *
 * Two copies of the mark, each alone in a block of the disk, each one line of text with a check sum:
 *
 *     zklock-fence 1 mark 00000000004294967301 check 0123456789abcdef
 *
 * The first is always written and synced before the second one is touched, so that one of them is whole on the disk at any
 * moment, and no mark that was settled is lost with one of them. What the kernel shows need not be on the disk (a process
 * may have been killed between write and sync): a mark counts when it is settled, by this handle.
 *
 *     first second      the disk is sure of     settle writes
 *     n     n           one of them             second, after a sync
 *     n+k   n           second                  first, then second
 *     n     damaged     first                   second
 *     bad   n           second                  first
 *
 * One thread at a time, but for peek. Errors: 0, or a ZKL_E* with *reterr filled in. */

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
	bool        failed;  /* a write or a sync, once: what the disk has is unknown to this handle from then on */
};

int  zkl__fence_file_open(const char *path, struct zkl__fence_file *ret, zkl_error *reterr);
void zkl__fence_file_close(struct zkl__fence_file *file);

/* Against all other handles, in any process. */
int  zkl__fence_file_lock(const struct zkl__fence_file *file, zkl_error *reterr);
void zkl__fence_file_unlock(const struct zkl__fence_file *file);

/* Under the lock: the mark as it stands. */
int zkl__fence_file_load(const struct zkl__fence_file *file, uint64_t *ret, zkl_error *reterr);
/* Under the lock: makes sure of the mark that load gave. */
int zkl__fence_file_settle(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr);
/* Under the lock, with the mark before it settled. */
int zkl__fence_file_raise(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr);

/* Without the lock: a mark that is or was settled; 0 where none can be read. */
uint64_t zkl__fence_file_peek(const struct zkl__fence_file *file);

#endif
