/* SPDX-License-Identifier: Apache-2.0 */
#include "fence_file.h"
#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* No disk in use has larger sectors: what happens to one copy does not happen to another. */
#define BLOCK  ((size_t)4096)
#define COPIES 4
#define SIZE   (COPIES * BLOCK)

#define MAGIC  "zklock-fence "
#define FORMAT MAGIC "1 mark %020" PRIu64 " check "
#define SUMMED 47 /* bytes of FORMAT */
#define RECORD 64

/* Copies 0 and 1, or 2 and 3: neighbours are one request to the disk. */
enum { PAIRS = 2 };
#define FIRST(pair)  ((size_t)(pair)*2)
#define SECOND(pair) (FIRST(pair) + 1)

struct copy {
	bool     valid;
	uint64_t mark;
};

/* ---- records ------------------------------------------------------------------------------------------------------------- */

/* CRC-64/XZ: finds every damage to up to 8 bytes in a row. */
static uint64_t check_sum(const char *text, size_t length)
{
	uint64_t sum = ~UINT64_C(0);

	for (size_t i = 0; i < length; i++) {
		sum ^= (unsigned char)text[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (0xc96c5795d7870f42 & (0 - (sum & 1)));
	}
	return ~sum;
}

/* `ret` has RECORD bytes, without a 0 behind them. */
static void print_record(char *ret, uint64_t mark)
{
	char text[RECORD + 1];

	snprintf(text, sizeof text, FORMAT, mark);
	snprintf(text + SUMMED, sizeof text - SUMMED, "%016" PRIx64 "\n", check_sum(text, SUMMED));
	memcpy(ret, text, RECORD);
}

static struct copy parse_record(const char *record)
{
	char     again[RECORD];
	uint64_t mark = 0;

	for (const char *c = record + strlen(MAGIC "1 mark "); *c >= '0' && *c <= '9'; c++)
		mark = mark * 10 + (uint64_t)(*c - '0');
	print_record(again, mark);
	if (mark > INT64_MAX || memcmp(record, again, RECORD) != 0)
		return (struct copy){0};
	return (struct copy){true, mark};
}

/* ---- errors --------------------------------------------------------------------------------------------------------------- */

static int failed_to(const char *what, const char *path, int error, zkl_error *reterr)
{
	const bool denied = error == EACCES || error == EPERM || error == EROFS;

	return zkl__error(reterr, denied ? ZKL_EACCES : ZKL_ESYS, 0, error, "cannot %s %.120s: %s", what, path,
	                  strerror(error));
}

/* No copy is whole: why. */
static int explain(const struct zkl__fence_file *file, int code, const char *record, zkl_error *reterr)
{
	if (memcmp(record, MAGIC, strlen(MAGIC)) != 0)
		return zkl__error(reterr, code, 0, 0, "%.120s is not a fence's file", file->path);
	if (memcmp(record, MAGIC "1 ", strlen(MAGIC "1 ")) != 0)
		return zkl__error(reterr, code, 0, 0,
		                  "%.120s has a later format: use the zklock that wrote it, or a newer one",
		                  file->path);
	return zkl__error(reterr, code, 0, 0,
	                  "%.120s is damaged: when no old holder lives, remove it, and its mark begins anew",
	                  file->path);
}

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

/* Up to the end of the last record. */
#define CONTENT ((COPIES - 1) * BLOCK + RECORD)

/* Zeros behind the end of a shorter file. One call, also where its page is not wanted whole: each costs as much. */
static int read_content(const struct zkl__fence_file *file, char *ret)
{
	ssize_t length;

	do
		length = pread(file->fd, ret, CONTENT, 0);
	while (length < 0 && errno == EINTR);
	if (length < 0)
		return errno;
	memset(ret + length, 0, CONTENT - (size_t)length);
	return 0;
}

/* `code`: of the error where none is whole. */
static int read_copies(const struct zkl__fence_file *file, struct copy *copies, int code, zkl_error *reterr)
{
	char      content[CONTENT];
	const int error = read_content(file, content);
	bool      whole = false;

	if (error)
		return failed_to("read", file->path, error, reterr);
	for (size_t i = 0; i < COPIES; i++) {
		const char *record = content + i * BLOCK;

		/* Most often they are all alike. */
		copies[i] = i && memcmp(record, content, RECORD) == 0 ? copies[0] : parse_record(record);
		whole |= copies[i].valid;
	}
	return whole ? 0 : explain(file, code, content, reterr);
}

/* A copy that is not whole is below all. */
static bool is_below(struct copy one, struct copy other)
{
	return !one.valid || (other.valid && one.mark < other.mark);
}

static uint64_t highest(const struct copy *copies)
{
	struct copy highest = copies[0];

	for (int i = 1; i < COPIES; i++)
		if (is_below(highest, copies[i]))
			highest = copies[i];
	return highest.mark;
}

/* The pair with the highest copy. */
static int newest_pair(const struct copy *copies)
{
	struct copy high[PAIRS];

	for (int i = 0; i < PAIRS; i++)
		high[i] = copies[is_below(copies[FIRST(i)], copies[SECOND(i)]) ? SECOND(i) : FIRST(i)];
	return is_below(high[0], high[1]);
}

uint64_t zkl__fence_file_peek(const struct zkl__fence_file *file)
{
	struct copy copies[COPIES] = {{0}};

	return read_copies(file, copies, ZKL_ESTATE, NULL) < 0 ? 0 : highest(copies);
}

/* Another file may stand under the name by now: who opens that one has a mark of its own. Its times are not asked for: where
 * they are of a fine grain, whoever has asked makes the next write change the inode, and its sync cost half as much again. */
static int check_name(const struct zkl__fence_file *file, zkl_error *reterr)
{
	struct statx status;
	const int    error = statx(file->folder, file->name, AT_SYMLINK_NOFOLLOW, STATX_INO, &status) < 0 ? errno : 0;

	if (error && error != ENOENT)
		return failed_to("look at", file->path, error, reterr);
	if (error || makedev(status.stx_dev_major, status.stx_dev_minor) != file->device ||
	    status.stx_ino != file->inode)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%.120s was removed or replaced while open: open it again",
		                  file->path);
	return 0;
}

int zkl__fence_file_load(const struct zkl__fence_file *file, uint64_t *ret, zkl_error *reterr)
{
	struct copy copies[COPIES] = {{0}};
	int         r;

	if (file->failed)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "writing %.120s has failed before: open it again",
		                  file->path);
	r = check_name(file, reterr);
	if (r == 0)
		r = read_copies(file, copies, ZKL_ESTATE, reterr);
	if (r == 0)
		*ret = highest(copies);
	return r;
}

/* ---- writing --------------------------------------------------------------------------------------------------------------- */

static int sync_file(struct zkl__fence_file *file, zkl_error *reterr)
{
	if (fdatasync(file->fd) == 0)
		return 0;
	file->failed = true;
	return failed_to("sync", file->path, errno, reterr);
}

/* The blocks are there: nothing but the disk itself can fail. */
static int write_copy(struct zkl__fence_file *file, size_t which, const char *record, zkl_error *reterr)
{
	ssize_t length;

	do
		length = pwrite(file->fd, record, RECORD, (off_t)(which * BLOCK));
	while (length < 0 && errno == EINTR);
	if (length == RECORD)
		return 0;
	file->failed = true;
	return failed_to("write", file->path, length < 0 ? errno : ENOSPC, reterr);
}

static int write_pair(struct zkl__fence_file *file, int pair, const char *record, zkl_error *reterr)
{
	int r = write_copy(file, FIRST(pair), record, reterr);

	return r < 0 ? r : write_copy(file, SECOND(pair), record, reterr);
}

int zkl__fence_file_raise(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr)
{
	const int pair = !file->sure;
	char      record[RECORD];
	int       r;

	print_record(record, mark);
	r = write_pair(file, pair, record, reterr);
	if (r == 0)
		r = sync_file(file, reterr);
	if (r < 0)
		return r;
	file->sure = pair;
	file->settled = mark;
	return write_pair(file, !pair, record, reterr);
}

static int write_and_sync(struct zkl__fence_file *file, size_t which, const char *record, zkl_error *reterr)
{
	int r = write_copy(file, which, record, reterr);

	return r < 0 ? r : sync_file(file, reterr);
}

int zkl__fence_file_settle(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr)
{
	struct copy copies[COPIES] = {{0}};
	char        record[RECORD];
	size_t      one, other;
	int         r, newest;

	if (mark == file->settled)
		return 0;
	r = read_copies(file, copies, ZKL_ESTATE, reterr);
	if (r < 0)
		return r;
	print_record(record, mark);
	newest = newest_pair(copies);
	one = copies[FIRST(newest)].mark == mark ? SECOND(newest) : FIRST(newest);
	other = FIRST(!newest);
	r = write_and_sync(file, one, record, reterr);
	if (r == 0)
		r = write_and_sync(file, other, record, reterr);
	for (size_t i = 0; r == 0 && i < COPIES; i++)
		if (i != one && i != other && copies[i].mark != mark)
			r = write_copy(file, i, record, reterr);
	if (r < 0)
		return r;
	file->sure = newest;
	file->settled = mark;
	return 0;
}

/* ---- locks: of the open file, not of the process, and so between threads and across a fork too ---------------------------- */

static int set_lock(const struct zkl__fence_file *file, int command, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	return fcntl(file->fd, command, &lock);
}

bool zkl__fence_file_try_lock(const struct zkl__fence_file *file)
{
	return set_lock(file, F_OFD_SETLK, F_WRLCK) == 0;
}

int zkl__fence_file_lock(const struct zkl__fence_file *file, zkl_error *reterr)
{
	int r;

	do
		r = set_lock(file, file->impatient && *file->impatient ? F_OFD_SETLK : F_OFD_SETLKW, F_WRLCK);
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return 0;
	if (errno == EAGAIN)
		return zkl__error(reterr, ZKL_EBUSY, 0, EAGAIN, "%.120s: another access runs", file->path);
	return failed_to("lock", file->path, errno, reterr);
}

void zkl__fence_file_unlock(const struct zkl__fence_file *file)
{
	set_lock(file, F_OFD_SETLK, F_UNLCK);
}

/* ---- making one ------------------------------------------------------------------------------------------------------------ */

/* 0 or an errno. All blocks are written, so that they are there. */
static int write_new(int fd)
{
	char   content[SIZE] = {0};
	size_t done = 0;

	for (size_t i = 0; i < COPIES; i++)
		print_record(content + i * BLOCK, 0);
	while (done < SIZE) {
		ssize_t length = pwrite(fd, content + done, SIZE - done, (off_t)done);

		if (length < 0 && errno != EINTR)
			return errno;
		done += length > 0 ? (size_t)length : 0;
	}
	return fsync(fd) == 0 ? 0 : errno;
}

/* Without a name: who is killed leaves nothing. Where the file system has no such files, or no /proc gives them a name, under
 * another one. -1: errno. */
static int open_new(const struct zkl__fence_file *file, char *ret_name, size_t size)
{
	uint64_t unique = 0;

	*ret_name = '\0';
	if (access("/proc/self/fd", X_OK) == 0) {
		int fd = openat(file->folder, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EOPNOTSUPP)
			return fd;
	}
	if (getrandom(&unique, sizeof unique, 0) < 0)
		return -1;
	snprintf(ret_name, size, ".zklock-fence-%016" PRIx64, unique);
	return openat(file->folder, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

static int give_name(const struct zkl__fence_file *file, int fd, const char *name)
{
	char path[32];

	if (*name)
		return linkat(file->folder, name, file->folder, file->name, 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, file->folder, file->name, AT_SYMLINK_FOLLOW);
}

/* It gets its name last: whoever finds the file finds it whole. 0, or an errno; another may have been faster. */
static int make(struct zkl__fence_file *file)
{
	char name[48];
	int  fd = open_new(file, name, sizeof name), error;

	if (fd < 0)
		return errno;
	error = write_new(fd);
	file->made = !error && give_name(file, fd, name) == 0;
	if (!error && !file->made && errno != EEXIST)
		error = errno;
	if (*name)
		unlinkat(file->folder, name, 0);
	close(fd);
	return error;
}

/* ---- opening --------------------------------------------------------------------------------------------------------------- */

static int open_folder(struct zkl__fence_file *file, zkl_error *reterr)
{
	const char *slash = strrchr(file->path, '/');
	char       *folder;

	file->name = slash ? slash + 1 : file->path;
	if (!*file->name)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "%.120s is a directory: name a file in it", file->path);
	folder = slash ? strndup(file->path, (size_t)(slash - file->path) + 1) : strdup(".");
	if (!folder)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a fence");
	file->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = file->folder < 0 ? failed_to("open the directory", folder, errno, reterr) : 0;
	free(folder);
	return r;
}

/* What else it may be is opened without an effect and without waiting. */
static int open_file(struct zkl__fence_file *file, zkl_error *reterr)
{
	int error = 0;

	while (file->fd < 0 && !error) {
		file->fd = openat(file->folder, file->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (file->fd < 0 && errno == ELOOP)
			return zkl__error(reterr, ZKL_EINVAL, 0, ELOOP,
			                  "%.120s is a symbolic link: name the file itself", file->path);
		if (file->fd < 0 && errno != ENOENT)
			return failed_to("open", file->path, errno, reterr);
		if (file->fd < 0)
			error = make(file);
	}
	return error ? failed_to("make", file->path, error, reterr) : 0;
}

static int check_file(struct zkl__fence_file *file, zkl_error *reterr)
{
	struct copy copies[COPIES] = {{0}};
	struct stat status;
	int         r;

	if (fstat(file->fd, &status) < 0)
		return failed_to("look at", file->path, errno, reterr);
	if (!S_ISREG(status.st_mode))
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "%.120s is not a regular file", file->path);
	file->device = status.st_dev;
	file->inode = status.st_ino;
	r = read_copies(file, copies, ZKL_EINVAL, NULL);
	if (r < 0) {
		/* Were they being written, one pair after the other? */
		r = zkl__fence_file_lock(file, reterr);
		if (r < 0)
			return r;
		r = read_copies(file, copies, ZKL_EINVAL, reterr);
		zkl__fence_file_unlock(file);
	}
	if (r == 0 && status.st_size != (off_t)SIZE)
		r = zkl__error(reterr, ZKL_EINVAL, 0, 0, "%.120s is damaged: it has %lld bytes in place of %zu",
		               file->path, (long long)status.st_size, SIZE);
	return r;
}

/* Also where another has made the file: it may have been killed before the name was on the disk. A sync that fails is
 * forgotten by the next one: a name that is not there for sure has to be made again. */
static int sync_folder(const struct zkl__fence_file *file, zkl_error *reterr)
{
	if (fsync(file->folder) == 0)
		return 0;
	const int error = errno;
	if (file->made)
		unlinkat(file->folder, file->name, 0);
	return failed_to("sync the directory of", file->path, error, reterr);
}

int zkl__fence_file_open(const char *path, struct zkl__fence_file *ret, zkl_error *reterr)
{
	struct zkl__fence_file file = {.path = strdup(path), .folder = -1, .fd = -1};
	int                    r;

	if (!file.path)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a fence");
	r = open_folder(&file, reterr);
	if (r == 0)
		r = open_file(&file, reterr);
	if (r == 0)
		r = check_file(&file, reterr);
	if (r == 0)
		r = sync_folder(&file, reterr);
	if (r == 0)
		*ret = file;
	else
		zkl__fence_file_close(&file);
	return r;
}

void zkl__fence_file_close(struct zkl__fence_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	if (file->folder >= 0)
		close(file->folder);
	free(file->path);
}
