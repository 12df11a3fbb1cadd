/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_DISK_H
#define ZKLOCK_TEST_DISK_H

/* disk.h: what a disk has kept of one folder when the power goes.
 *
 *     disk_start, then work on files in the folder; in on_call: disk_each_cut, or an end to the process
 *
 * The system calls of the program go through here (the linker's --wrap). Real ones run; beside them a model notes what is
 * on the disk for sure, which is what was synced, and what is under way. At a cut any of what is under way may have arrived:
 * every subset of the writes and of the changes to the folder, each write whole or as garbage in its place. Or one of them only
 * up to any byte, or only from there on, while of the others all have arrived, or none.
 *
 * The model is in memory that children share: a process that is killed leaves it to the next one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_FILE_MAX 16384
#define DISK_FILES    4
#define DISK_UNDERWAY 8

enum disk_change { DISK_WRITE, DISK_NAME, DISK_NO_NAME };

struct disk_underway {
	enum disk_change change;
	unsigned         file;
	char             name[48];
	size_t           offset, length;
	char             data[DISK_FILE_MAX];
};

struct disk_file {
	uint64_t inode;
	size_t   size;
	char     content[DISK_FILE_MAX];
};

struct disk_name {
	char     name[48]; /* empty: none */
	unsigned file;
};

struct disk {
	char                 folder[128];
	unsigned             files;
	struct disk_file     file[DISK_FILES];
	struct disk_name     name[DISK_FILES];
	unsigned             underways;
	struct disk_underway underway[DISK_UNDERWAY];
};

/* In memory that is shared with children. */
struct disk_world {
	struct disk disk;
	bool        on;              /* calls are noted, counted and told */
	bool        lost_is_garbage; /* what a failing sync loses: else it never began */
	bool        all_have_names;  /* files without one are not supported */
	unsigned    calls;
	/* Before each call. An errno: the call fails with it, and a sync loses what it should have saved. */
	int (*on_call)(void *user, unsigned number, const char *name);
	void *user;
};
extern struct disk_world *world;

/* `folder` is empty, or has `file` in it, with this content on the disk for sure. */
void disk_start(const char *folder, const char *file, const char *content, size_t size);

/* Each state in which the disk may be if the power goes now: makes it in `folder`, which is emptied before, and calls
 * back. The same state is given once in the life of the program, for the same `salt`. torn: a write is there in part. */
typedef void disk_look(const char *folder, bool torn, void *user);
void         disk_each_cut(const char *folder, uint64_t salt, bool with_torn, disk_look *look, void *user);

void disk_empty_folder(const char *folder);

#endif
