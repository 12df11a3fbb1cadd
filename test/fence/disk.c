/* SPDX-License-Identifier: Apache-2.0 */
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct disk_world *world;

int     __real_open(const char *path, int flags, ...);
int     __real_openat(int folder, const char *name, int flags, ...);
int     __real_close(int fd);
int     __real_fstat(int fd, struct stat *ret);
int     __real_statx(int folder, const char *name, int flags, unsigned mask, struct statx *ret);
int     __real_fcntl(int fd, int command, ...);
ssize_t __real_pread(int fd, void *ret, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
int     __real_fsync(int fd);
int     __real_fdatasync(int fd);
int     __real_linkat(int from, const char *name, int to, const char *new_name, int flags);
int     __real_unlinkat(int folder, const char *name, int flags);

/* It cannot go on: a test that looks at the wrong thing is worse than none. */
static void must(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "disk: %s: %s\n", what, strerror(errno));
		abort();
	}
}

/* ---- the model -------------------------------------------------------------------------------------------------------------- */

static unsigned file_of(int fd)
{
	struct stat status;
	unsigned    i = 0;

	must(__real_fstat(fd, &status) == 0, "fstat");
	while (i < world->disk.files && world->disk.file[i].inode != status.st_ino)
		i++;
	if (i == world->disk.files) {
		must(world->disk.files < DISK_FILES, "too many files");
		world->disk.file[world->disk.files++] = (struct disk_file){.inode = status.st_ino};
	}
	return i;
}

static struct disk_underway *begin(enum disk_change change, unsigned file)
{
	struct disk_underway *new = &world->disk.underway[world->disk.underways++];

	must(world->disk.underways <= DISK_UNDERWAY, "too much under way");
	new->change = change;
	new->file = file;
	new->offset = new->length = 0;
	return new;
}

static void begin_name(enum disk_change change, unsigned file, const char *name)
{
	snprintf(begin(change, file)->name, sizeof world->disk.underway->name, "%s", name);
}

static void set_name(struct disk *disk, const char *name, bool there, unsigned file)
{
	struct disk_name *slot = NULL;

	for (int i = 0; i < DISK_FILES; i++)
		if (strcmp(disk->name[i].name, name) == 0 || (!slot && !*disk->name[i].name))
			slot = &disk->name[i];
	must(slot != NULL, "too many names");
	snprintf(slot->name, sizeof slot->name, "%s", there ? name : "");
	slot->file = file;
}

/* Bytes `from` to `to` of it. */
static void arrive(struct disk *disk, const struct disk_underway *what, size_t from, size_t to)
{
	struct disk_file *file = &disk->file[what->file];

	if (what->change != DISK_WRITE) {
		set_name(disk, what->name, what->change == DISK_NAME, what->file);
		return;
	}
	must(what->offset + what->length <= DISK_FILE_MAX, "file too long");
	memcpy(file->content + what->offset + from, what->data + from, to - from);
	if (file->size < what->offset + to)
		file->size = what->offset + to;
}

/* What was under way of the file (or else the folder) is on the disk now, or `lost`. */
static void settle(int fd, bool lost)
{
	struct stat status;
	unsigned    left = 0;

	must(__real_fstat(fd, &status) == 0, "fstat");
	const bool     folder = S_ISDIR(status.st_mode);
	const unsigned file = folder ? 0 : file_of(fd);
	for (unsigned i = 0; i < world->disk.underways; i++) {
		struct disk_underway *what = &world->disk.underway[i];
		bool mine = folder ? what->change != DISK_WRITE : what->change == DISK_WRITE && what->file == file;

		if (mine && (!lost || world->lost_is_garbage))
			arrive(&world->disk, what, 0, what->length);
		if (mine && lost && world->lost_is_garbage)
			memset(world->disk.file[file].content + what->offset, 0x5a, what->length);
		if (!mine && left++ != i)
			world->disk.underway[left - 1] = *what;
	}
	world->disk.underways = left;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------------- */

static int before(const char *name)
{
	if (!world || !world->on)
		return 0;
	/* What it does itself is not noted. */
	world->on = false;
	errno = world->on_call ? world->on_call(world->user, world->calls, name) : 0;
	world->calls++;
	world->on = true;
	return errno;
}

static bool noted(int result)
{
	return result >= 0 && world && world->on;
}

int __wrap_open(const char *path, int flags, ...)
{
	return before("open") ? -1 : __real_open(path, flags);
}

int __wrap_openat(int folder, const char *name, int flags, ...)
{
	va_list  arguments;
	unsigned mode;

	va_start(arguments, flags);
	const bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
	mode = flags & O_CREAT || nameless ? va_arg(arguments, unsigned) : 0;
	va_end(arguments);
	if (before("openat"))
		return -1;
	if (nameless && world && world->all_have_names) {
		errno = EOPNOTSUPP;
		return -1;
	}
	int fd = __real_openat(folder, name, flags, mode);
	if (noted(fd) && flags & O_CREAT)
		begin_name(DISK_NAME, file_of(fd), name);
	return fd;
}

int __wrap_close(int fd)
{
	int failure = before("close");

	__real_close(fd); /* Linux closes it in any case */
	errno = failure;
	return failure ? -1 : 0;
}

int __wrap_fstat(int fd, struct stat *ret)
{
	return before("fstat") ? -1 : __real_fstat(fd, ret);
}

int __wrap_statx(int folder, const char *name, int flags, unsigned mask, struct statx *ret)
{
	return before("statx") ? -1 : __real_statx(folder, name, flags, mask, ret);
}

int __wrap_fcntl(int fd, int command, ...)
{
	va_list arguments;
	void   *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return before("fcntl") ? -1 : __real_fcntl(fd, command, argument);
}

ssize_t __wrap_pread(int fd, void *ret, size_t size, off_t offset)
{
	return before("pread") ? -1 : __real_pread(fd, ret, size, offset);
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	if (before("pwrite"))
		return -1;
	ssize_t length = __real_pwrite(fd, data, size, offset);
	if (noted((int)length)) {
		struct disk_underway *new = begin(DISK_WRITE, file_of(fd));
		new->offset = (size_t)offset;
		new->length = (size_t)length;
		memcpy(new->data, data, (size_t)length);
	}
	return length;
}

/* The pages of a sync that fails are clean from then on: nobody will write them. */
static int sync_by(int (*real)(int), int fd, const char *name)
{
	int failure = before(name);

	if (failure) {
		settle(fd, true);
		errno = failure;
		return -1;
	}
	int r = real(fd);
	if (noted(r))
		settle(fd, false);
	return r;
}

int __wrap_fsync(int fd)
{
	return sync_by(__real_fsync, fd, "fsync");
}

int __wrap_fdatasync(int fd)
{
	return sync_by(__real_fdatasync, fd, "fdatasync");
}

int __wrap_linkat(int from, const char *name, int to, const char *new_name, int flags)
{
	struct stat status;

	if (before("linkat"))
		return -1;
	int r = __real_linkat(from, name, to, new_name, flags);
	if (noted(r)) {
		must(fstatat(to, new_name, &status, 0) == 0, "stat");
		for (unsigned i = 0; i < world->disk.files; i++)
			if (world->disk.file[i].inode == status.st_ino)
				begin_name(DISK_NAME, i, new_name);
	}
	return r;
}

int __wrap_unlinkat(int folder, const char *name, int flags)
{
	if (before("unlinkat"))
		return -1;
	int r = __real_unlinkat(folder, name, flags);
	if (noted(r))
		begin_name(DISK_NO_NAME, 0, name);
	return r;
}

/* ---- cuts --------------------------------------------------------------------------------------------------------------------- */

/* States that were seen, by a sum of all that is in them. */
static uint64_t *seen;
static size_t    seen_count, seen_room;

static uint64_t sum_of(const struct disk *disk, uint64_t salt)
{
	uint64_t sum = 0xcbf29ce484222325 ^ salt, word;

	for (int i = 0; i < DISK_FILES; i++) {
		const struct disk_name *name = &disk->name[i];

		if (!*name->name)
			continue;
		/* Files that are only on the way to their name count as one. */
		for (const char *c = *name->name == '.' ? "." : name->name; *c; c++)
			sum = (sum ^ (unsigned char)*c) * 0x100000001b3;
		for (size_t at = 0; at < DISK_FILE_MAX; at += sizeof word) {
			memcpy(&word, disk->file[name->file].content + at, sizeof word);
			sum = (sum ^ word ^ sum >> 29) * 0x9e3779b97f4a7c15;
		}
		sum = (sum ^ disk->file[name->file].size) * 0x100000001b3;
	}
	return sum ? sum : 1;
}

static bool is_new(uint64_t sum)
{
	if (seen_count * 2 >= seen_room) {
		uint64_t *old = seen;
		size_t    old_room = seen_room;

		seen_room = old_room ? old_room * 2 : 1 << 12;
		seen = calloc(seen_room, sizeof *seen);
		must(seen != NULL, "calloc");
		seen_count = 0;
		for (size_t i = 0; i < old_room; i++)
			if (old[i])
				is_new(old[i]);
		free(old);
	}
	size_t slot = sum % seen_room;
	while (seen[slot] && seen[slot] != sum)
		slot = (slot + 1) % seen_room;
	if (seen[slot])
		return false;
	seen[slot] = sum;
	seen_count++;
	return true;
}

void disk_empty_folder(const char *folder)
{
	DIR *all = opendir(folder);

	must(all != NULL, folder);
	for (struct dirent *one; (one = readdir(all));)
		if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
			must(__real_unlinkat(dirfd(all), one->d_name, 0) == 0, "unlink");
	closedir(all);
}

static void write_out(const struct disk *disk, const char *folder)
{
	int at = __real_open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	disk_empty_folder(folder);
	for (int i = 0; i < DISK_FILES; i++) {
		const struct disk_name *name = &disk->name[i];

		if (!*name->name)
			continue;
		int fd = __real_openat(at, name->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		must(fd >= 0 && __real_pwrite(fd, disk->file[name->file].content, disk->file[name->file].size, 0) ==
		                        (ssize_t)disk->file[name->file].size,
		     "write");
		__real_close(fd);
	}
	__real_close(at);
}

struct cut {
	const char *folder;
	uint64_t    salt;
	disk_look  *look;
	void       *user;
};

/* What has become of each change that was under way: one digit to the base of three. */
enum fate { ABSENT, WHOLE, GARBAGE, FATES };

static enum fate fate_of(unsigned fates, unsigned i)
{
	while (i--)
		fates /= FATES;
	return fates % FATES;
}

/* Of the one that is `torn` only bytes `from` to `to` have arrived. */
static void look_at(const struct cut *cut, unsigned fates, unsigned torn, size_t from, size_t to)
{
	static struct disk after;

	memcpy(&after, &world->disk, offsetof(struct disk, underways));
	for (unsigned i = 0; i < world->disk.underways; i++) {
		const struct disk_underway *what = &world->disk.underway[i];
		const enum fate             fate = fate_of(fates, i);

		if (fate != ABSENT)
			arrive(&after, what, i == torn ? from : 0, i == torn ? to : what->length);
		if (fate == GARBAGE)
			memset(after.file[what->file].content + what->offset, 0x5a, what->length);
	}
	if (!is_new(sum_of(&after, cut->salt)))
		return;
	write_out(&after, cut->folder);
	cut->look(cut->folder, torn < DISK_UNDERWAY, cut->user);
}

/* Every byte of a record; of the empty rest of a file that is made, each sector. */
static size_t next_byte(size_t at)
{
	return at % 4096 <= 64 || at % 512 == 511 ? at + 1 : (at / 512 + 1) * 512 - 1;
}

/* With this one there in part. */
static void look_at_torn(const struct cut *cut, unsigned fates, unsigned torn)
{
	const size_t length = world->disk.underway[torn].length;

	/* Of a change to the folder the length is 0. */
	for (size_t byte = 1; byte < length; byte = next_byte(byte)) {
		look_at(cut, fates, torn, 0, byte);
		look_at(cut, fates, torn, byte, length);
	}
}

void disk_each_cut(const char *folder, uint64_t salt, bool with_torn, disk_look *look, void *user)
{
	const struct cut cut = {folder, salt, look, user};
	unsigned         last = 1;

	for (unsigned i = 0; i < world->disk.underways; i++)
		last *= FATES;
	for (unsigned fates = 0; fates < last; fates++)
		look_at(&cut, fates, DISK_UNDERWAY, 0, 0);
	/* All are WHOLE, or none but the torn one. */
	for (unsigned i = 0, digit = 1; with_torn && i < world->disk.underways; i++, digit *= FATES) {
		look_at_torn(&cut, digit * WHOLE, i);
		look_at_torn(&cut, (last - 1) / (FATES - 1) * WHOLE, i);
	}
}

void disk_start(const char *folder, const char *file, const char *content, size_t size)
{
	struct stat status;
	char        path[256];

	if (!world) {
		world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		must(world != MAP_FAILED, "mmap");
	}
	memset(&world->disk, 0, sizeof world->disk);
	snprintf(world->disk.folder, sizeof world->disk.folder, "%s", folder);
	world->calls = 0;
	if (!file)
		return;
	snprintf(path, sizeof path, "%s/%s", folder, file);
	must(stat(path, &status) == 0 && size <= DISK_FILE_MAX, path);
	world->disk.files = 1;
	world->disk.file[0].inode = status.st_ino;
	world->disk.file[0].size = size;
	memcpy(world->disk.file[0].content, content, size);
	set_name(&world->disk, file, true, 0);
}
