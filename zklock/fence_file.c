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
#include <unistd.h>

/* No disk in use has larger sectors: what happens to one copy does not happen to the other. */
#define BLOCK ((size_t)4096)
#define SIZE  (2 * BLOCK)

#define MAGIC  "zklock-fence "
#define FORMAT MAGIC "1 mark %020" PRIu64 " check "
#define SUMMED 47 /* bytes of FORMAT */
#define RECORD 64

enum { FIRST, SECOND };

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

/* Neither copy is whole: why. */
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

/* Less than a record: as many bytes as there are. */
static int read_record(const struct zkl__fence_file *file, int which, char *ret)
{
	ssize_t length;

	memset(ret, 0, RECORD + 1);
	do
		length = pread(file->fd, ret, RECORD, (off_t)which * (off_t)BLOCK);
	while (length < 0 && errno == EINTR);
	return length < 0 ? errno : 0;
}

/* `code`: of the error where neither is whole. */
static int read_copies(const struct zkl__fence_file *file, struct copy *copies, int code, zkl_error *reterr)
{
	char first[RECORD + 1], second[RECORD + 1];
	int  error = read_record(file, FIRST, first);

	if (!error)
		error = read_record(file, SECOND, second);
	if (error)
		return failed_to("read", file->path, error, reterr);
	copies[FIRST] = parse_record(first);
	copies[SECOND] = parse_record(second);
	return copies[FIRST].valid || copies[SECOND].valid ? 0 : explain(file, code, first, reterr);
}

/* A copy that is not whole is below all. */
static bool is_below(struct copy one, struct copy other)
{
	return !one.valid || (other.valid && one.mark < other.mark);
}

/* While somebody writes, the lower one of two is settled; and one alone is the one that nobody writes to. */
uint64_t zkl__fence_file_peek(const struct zkl__fence_file *file)
{
	struct copy copies[2] = {{0}};

	if (read_copies(file, copies, ZKL_ESTATE, NULL) < 0)
		return 0;
	if (copies[FIRST].valid && copies[SECOND].valid)
		return copies[FIRST].mark < copies[SECOND].mark ? copies[FIRST].mark : copies[SECOND].mark;
	return copies[FIRST].valid ? copies[FIRST].mark : copies[SECOND].mark;
}

/* Another file may stand under the name by now: who opens that one has a mark of its own. */
static int check_name(const struct zkl__fence_file *file, zkl_error *reterr)
{
	struct stat status;
	const int   error = fstatat(file->folder, file->name, &status, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;

	if (error && error != ENOENT)
		return failed_to("look at", file->path, error, reterr);
	if (error || status.st_dev != file->device || status.st_ino != file->inode)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%.120s was removed or replaced while open: open it again",
		                  file->path);
	return 0;
}

int zkl__fence_file_load(const struct zkl__fence_file *file, uint64_t *ret, zkl_error *reterr)
{
	struct copy copies[2] = {{0}};
	int         r;

	if (file->failed)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "writing %.120s has failed before: open it again",
		                  file->path);
	r = check_name(file, reterr);
	if (r == 0)
		r = read_copies(file, copies, ZKL_ESTATE, reterr);
	if (r == 0)
		*ret = copies[is_below(copies[FIRST], copies[SECOND]) ? SECOND : FIRST].mark;
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

/* And syncs it. The blocks are there: nothing but the disk itself can fail. */
static int write_copy(struct zkl__fence_file *file, int which, uint64_t mark, zkl_error *reterr)
{
	char    record[RECORD];
	ssize_t length;

	print_record(record, mark);
	do
		length = pwrite(file->fd, record, RECORD, (off_t)which * (off_t)BLOCK);
	while (length < 0 && errno == EINTR);
	if (length == RECORD)
		return sync_file(file, reterr);
	file->failed = true;
	return failed_to("write", file->path, length < 0 ? errno : ENOSPC, reterr);
}

int zkl__fence_file_raise(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr)
{
	int r = write_copy(file, FIRST, mark, reterr);

	if (r == 0)
		r = write_copy(file, SECOND, mark, reterr);
	if (r == 0)
		file->settled = mark;
	return r;
}

int zkl__fence_file_settle(struct zkl__fence_file *file, uint64_t mark, zkl_error *reterr)
{
	struct copy copies[2] = {{0}};
	int         r = 0;

	if (mark == file->settled)
		return 0;
	r = read_copies(file, copies, ZKL_ESTATE, reterr);
	if (r < 0)
		return r;
	if (is_below(copies[SECOND], copies[FIRST]) && copies[SECOND].valid)
		return zkl__fence_file_raise(file, mark, reterr);
	if (is_below(copies[FIRST], copies[SECOND])) {
		r = write_copy(file, FIRST, mark, reterr);
	} else {
		if (copies[SECOND].valid)
			r = sync_file(file, reterr);
		if (r == 0)
			r = write_copy(file, SECOND, mark, reterr);
	}
	if (r == 0)
		file->settled = mark;
	return r;
}

/* ---- locks: of the open file, not of the process, and so between threads and across a fork too ---------------------------- */

static int set_lock(const struct zkl__fence_file *file, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
	int          r;

	do
		r = fcntl(file->fd, F_OFD_SETLKW, &lock);
	while (r < 0 && errno == EINTR);
	return r;
}

int zkl__fence_file_lock(const struct zkl__fence_file *file, zkl_error *reterr)
{
	return set_lock(file, F_WRLCK) == 0 ? 0 : failed_to("lock", file->path, errno, reterr);
}

void zkl__fence_file_unlock(const struct zkl__fence_file *file)
{
	set_lock(file, F_UNLCK);
}

/* ---- making one ------------------------------------------------------------------------------------------------------------ */

/* 0 or an errno. All blocks are written, so that they are there. */
static int write_new(int fd)
{
	char   content[SIZE] = {0};
	size_t done = 0;

	print_record(content, 0);
	print_record(content + BLOCK, 0);
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
	struct copy copies[2] = {{0}};
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
		/* Were they being written, one after the other? */
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
