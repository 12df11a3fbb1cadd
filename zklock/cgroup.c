/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"
#include "alarm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of cgroups below the command's: who nests them deeper loses what lies beyond. */
#define DEPTH 64

/* Who has been reaped can count as alive for a moment. */
#define REMOVE_ROUNDS   20
#define REMOVE_PAUSE_MS 10

/* ---- where we are ---- */

/* The field of this number, from 1 on, with \040 and the like made characters again. False: there is none, or it is too long. */
static bool mount_field(const char *mount, unsigned number, char *ret, size_t size)
{
	size_t length = 0;

	for (unsigned i = 1; mount != NULL && i < number; i++) {
		mount = strchr(mount, ' ');
		mount += mount != NULL;
	}
	if (mount == NULL)
		return false;
	for (; *mount != '\0' && *mount != ' ' && length + 1 < size; mount++, length++) {
		ret[length] = *mount;
		if (mount[0] == '\\' && mount[1] >= '0' && mount[1] <= '3' && mount[2] != '\0' && mount[3] != '\0') {
			ret[length] = (char)((mount[1] - '0') * 64 + (mount[2] - '0') * 8 + (mount[3] - '0'));
			mount += 3;
		}
	}
	ret[length] = '\0';
	return length > 0 && (*mount == '\0' || *mount == ' ');
}

bool zkl__cgroup_directory(const char *mount, const char *own, char *ret, size_t size)
{
	char        root[PATH_MAX], point[PATH_MAX];
	const char *type = strstr(mount, " - ");

	if (type == NULL || strncmp(type, " - cgroup2 ", 11) != 0 || !mount_field(mount, 4, root, sizeof(root)) ||
	    !mount_field(mount, 5, point, sizeof(point)))
		return false;
	/* A part of the hierarchy may be mounted alone. Outside a cgroup namespace's root ("/..") nothing is mounted. */
	size_t above = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(own, root, above) != 0 || (own[above] != '/' && own[above] != '\0') || strncmp(own, "/..", 3) == 0)
		return false;
	const char *below = strcmp(own + above, "/") == 0 ? "" : own + above;
	const int   length = snprintf(ret, size, "%s%s", point, below);
	return length > 0 && (size_t)length < size;
}

/* Looks for a line; in memory that is the caller's to free. */
static char *find_line(const char *file, bool (*is_it)(const char *line, void *user), void *user)
{
	FILE  *lines = fopen(file, "re");
	char  *line = NULL;
	size_t room = 0;
	bool   found = false;

	for (ssize_t length; lines != NULL && !found && (length = getline(&line, &room, lines)) > 0;) {
		line[length - 1] = '\0';
		found = is_it(line, user);
	}
	if (lines != NULL)
		fclose(lines);
	if (found)
		return line;
	free(line);
	return NULL;
}

static bool is_version_2(const char *line, void *user)
{
	(void)user;
	return strncmp(line, "0::/", 4) == 0;
}

struct search {
	const char         *own;
	struct zkl__cgroup *cgroup;
};

static bool is_mounted(const char *line, void *user)
{
	const struct search *search = user;

	return zkl__cgroup_directory(line, search->own, search->cgroup->path, sizeof(search->cgroup->path));
}

void zkl__cgroup_open(struct zkl__cgroup *cgroup, const char *program)
{
	*cgroup = (struct zkl__cgroup){.parent = -1, .error = ENOENT};
	snprintf(cgroup->name, sizeof(cgroup->name), "%.20s-%d-%" PRIx64, program, (int)getpid(),
	         (uint64_t)zkl__alarm_now());
	char *own = find_line("/proc/self/cgroup", is_version_2, NULL);
	char *mount = own == NULL ? NULL
	                          : find_line("/proc/self/mountinfo", is_mounted,
	                                      &(struct search){own + strlen("0::"), cgroup});
	if (mount == NULL) {
		cgroup->path[0] = '\0';
	} else {
		cgroup->parent = open(cgroup->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		cgroup->error = cgroup->parent < 0 ? errno : 0;
	}
	if (cgroup->parent >= 0 && faccessat(cgroup->parent, ".", W_OK, AT_EACCESS) < 0) {
		cgroup->error = errno;
		close(cgroup->parent);
		cgroup->parent = -1;
	}
	free(mount);
	free(own);
}

bool zkl__cgroup_is_possible(const struct zkl__cgroup *cgroup)
{
	return cgroup->parent >= 0;
}

/* ---- its files ---- */

static int open_file(const struct zkl__cgroup *cgroup, const char *name, int flags)
{
	char path[sizeof(cgroup->name) + 32];

	if (cgroup->parent < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/%s", cgroup->name, name);
	return openat(cgroup->parent, path, flags | O_CLOEXEC);
}

static bool read_events(int fd, const char *what)
{
	char    text[256];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);

	text[length < 0 ? 0 : length] = '\0';
	return strstr(text, what) != NULL;
}

static bool is(const struct zkl__cgroup *cgroup, const char *what)
{
	const int  fd = open_file(cgroup, "cgroup.events", O_RDONLY);
	const bool yes = fd >= 0 && read_events(fd, what);

	if (fd >= 0)
		close(fd);
	return yes;
}

bool zkl__cgroup_is_populated(const struct zkl__cgroup *cgroup)
{
	return is(cgroup, "populated 1");
}

bool zkl__cgroup_is_frozen(const struct zkl__cgroup *cgroup)
{
	return is(cgroup, "frozen 1");
}

int zkl__cgroup_watch(const struct zkl__cgroup *cgroup)
{
	int fd = open_file(cgroup, "cgroup.events", O_RDONLY);

	if (fd >= 0)
		zkl__cgroup_told(fd);
	return fd;
}

void zkl__cgroup_told(int watch)
{
	read_events(watch, "");
}

void zkl__cgroup_wait(int watch, int timeout_ms)
{
	struct pollfd events = {.fd = watch, .events = POLLPRI};

	if (poll(&events, 1, timeout_ms) > 0)
		zkl__cgroup_told(watch);
}

void zkl__cgroup_kill(const struct zkl__cgroup *cgroup)
{
	int fd = open_file(cgroup, "cgroup.kill", O_WRONLY);

	if (fd < 0)
		return;
	ssize_t written = write(fd, "1", 1);
	(void)written; /* who is left is found by the walk */
	close(fd);
}

/* ---- its processes ---- */

static pid_t clone_into(int directory)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (unsigned)directory};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* A process that is born there: to move one takes ten milliseconds, in which the whole machine forks nothing. */
pid_t zkl__cgroup_fork(struct zkl__cgroup *cgroup)
{
	if (cgroup->parent < 0)
		return fork();
	pid_t pid = -1;
	int   directory = -1;
	if (mkdirat(cgroup->parent, cgroup->name, 0755) == 0 &&
	    (directory = openat(cgroup->parent, cgroup->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
		pid = clone_into(directory);
	cgroup->error = pid < 0 ? errno : 0;
	if (directory >= 0)
		close(directory);
	if (pid >= 0)
		return pid;
	zkl__cgroup_remove(cgroup);
	return fork();
}

/* Calls `visit` for the cgroup `name` below `parent`, and before that for each one below it. */
static void walk(int parent, const char *name, unsigned depth, void (*visit)(int parent, const char *name, void *user),
                 void *user)
{
	int fd = depth == 0 ? -1 : openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	DIR *directory = fdopendir(fd);
	if (directory == NULL) {
		close(fd);
		return;
	}
	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			walk(fd, entry->d_name, depth - 1, visit, user);
	}
	closedir(directory);
	visit(parent, name, user);
}

struct members {
	pid_t *list;
	size_t count, room;
	bool   failed;
};

static void add_member(struct members *members, pid_t pid)
{
	if (members->count == members->room) {
		size_t room = members->room == 0 ? 64 : members->room * 2;
		pid_t *list = realloc(members->list, room * sizeof(*list));
		if (list == NULL) {
			members->failed = true;
			return;
		}
		members->list = list;
		members->room = room;
	}
	members->list[members->count++] = pid;
}

static void add_members(int parent, const char *name, void *user)
{
	char line[32], path[NAME_MAX + 32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", name);
	int   fd = openat(parent, path, O_RDONLY | O_CLOEXEC);
	FILE *lines = fd < 0 ? NULL : fdopen(fd, "r");
	if (lines == NULL) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (fgets(line, sizeof(line), lines) != NULL) {
		const pid_t pid = (pid_t)strtol(line, NULL, 10);
		if (pid > 0) /* 0: in a PID namespace that is not ours */
			add_member(user, pid);
	}
	fclose(lines);
}

int zkl__cgroup_members(const struct zkl__cgroup *cgroup, pid_t **ret, size_t *ret_count)
{
	struct members members = {0};

	if (cgroup->parent >= 0)
		walk(cgroup->parent, cgroup->name, DEPTH, add_members, &members);
	*ret = members.list;
	*ret_count = members.count;
	return members.failed ? -1 : 0;
}

/* ---- the end ---- */

static void remove_one(int parent, const char *name, void *user)
{
	*(bool *)user = unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno == EBUSY;
}

void zkl__cgroup_remove(const struct zkl__cgroup *cgroup)
{
	const int events = zkl__cgroup_watch(cgroup);
	bool      busy = events >= 0;

	for (unsigned round = 0; busy && round < REMOVE_ROUNDS; round++) {
		busy = false;
		walk(cgroup->parent, cgroup->name, DEPTH, remove_one, &busy);
		if (busy)
			zkl__cgroup_wait(events, REMOVE_PAUSE_MS);
	}
	if (events >= 0)
		close(events);
}

void zkl__cgroup_close(struct zkl__cgroup *cgroup)
{
	if (cgroup->parent >= 0)
		close(cgroup->parent);
	cgroup->parent = -1;
}
