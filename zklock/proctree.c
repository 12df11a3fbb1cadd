/* SPDX-License-Identifier: Apache-2.0 */
#include "proctree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A tree that still grows after so many rounds is left to the next sweep. */
#define SWEEP_ROUNDS 16

/* Processes in the order of their ids. */
struct tree {
	struct zkl__process *list;
	size_t               count, room;
};

/* ---- reading ---- */

static ssize_t read_file(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t length = read(fd, buffer, size - 1);
	close(fd);
	if (length >= 0)
		buffer[length] = '\0';
	return length;
}

/* The field of this number, as proc_pid_stat(5) counts them; `stat` stands before the third. */
static const char *field(const char *stat, unsigned number)
{
	for (unsigned i = 3; stat != NULL && i < number; i++)
		stat = strchr(stat + 1, ' ');
	return stat;
}

bool zkl__proctree_is_possible(void)
{
	char    text[16];
	ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

	text[length < 0 ? 0 : length] = '\0';
	return strtol(text, NULL, 10) == getpid();
}

/* What stands before the third field, in `text`, or NULL. */
static const char *read_stat(pid_t pid, char *text, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_file(path, text, size) <= 0)
		return NULL;
	/* The name may contain anything, blanks and parentheses too: the fields begin behind the last one. */
	const char *name_end = strrchr(text, ')');
	return name_end == NULL ? NULL : name_end + 1;
}

bool zkl__process_read(pid_t pid, struct zkl__process *ret)
{
	char        text[1024];
	const char *stat = read_stat(pid, text, sizeof(text));
	const char *parent = field(stat, 4), *threads = field(stat, 20), *start = field(stat, 22);
	if (parent == NULL || threads == NULL || start == NULL)
		return false;
	/* Where its first thread has ended before the others, it looks like a zombie and is none. */
	const bool dead = stat[1] == 'X' || (stat[1] == 'Z' && strtol(threads, NULL, 10) <= 1);
	*ret = (struct zkl__process){.pid = pid,
	                             .parent = (pid_t)strtol(parent, NULL, 10),
	                             .start = strtoull(start, NULL, 10),
	                             .dead = dead};
	return true;
}

/* Who may not see it is shown a 0; may we? A dead process has no program file, but who may not ask is not told that. */
int zkl__process_end(pid_t pid)
{
	char        path[32], text[1024], none[1];
	const char *stat = read_stat(pid, text, sizeof(text)), *status = field(stat, 52);

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (status == NULL || readlink(path, none, sizeof(none)) >= 0 || errno != ENOENT)
		return -1;
	return (int)strtol(status, NULL, 10);
}

static int add(struct tree *tree, const struct zkl__process *process)
{
	if (tree->count == tree->room) {
		size_t               room = tree->room == 0 ? 256 : tree->room * 2;
		struct zkl__process *list = realloc(tree->list, room * sizeof(*list));
		if (list == NULL)
			return -1;
		tree->list = list;
		tree->room = room;
	}
	tree->list[tree->count++] = *process;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	pid_t left = ((const struct zkl__process *)a)->pid, right = ((const struct zkl__process *)b)->pid;
	return (left > right) - (left < right);
}

static const struct zkl__process *find(const struct tree *tree, pid_t pid)
{
	const struct zkl__process key = {.pid = pid};

	if (tree->count == 0)
		return NULL;
	return bsearch(&key, tree->list, tree->count, sizeof(key), by_pid);
}

/* Every process of the machine that can be seen. */
static int read_all(struct tree *tree)
{
	DIR *proc = opendir("/proc");
	if (proc == NULL)
		return -1;

	int                  rc = 0;
	struct zkl__process  process;
	const struct dirent *entry;
	while (rc == 0 && (entry = readdir(proc)) != NULL) {
		const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10); /* 0: not a process */
		if (pid > 0 && zkl__process_read(pid, &process))
			rc = add(tree, &process);
	}
	closedir(proc);
	if (tree->count > 0)
		qsort(tree->list, tree->count, sizeof(*tree->list), by_pid);
	return rc;
}

/* The parent may have changed meanwhile: who loses his parent goes to a subreaper, which is in the tree or its root. */
static bool is_same(const struct zkl__process *then, const struct zkl__process *now)
{
	return now->pid == then->pid && now->start == then->start;
}

static bool is_among(const struct zkl__process *list, size_t count, const struct zkl__process *process)
{
	for (size_t i = 0; i < count; i++) {
		if (is_same(&list[i], process))
			return true;
	}
	return false;
}

static bool descends(const struct tree *all, const struct zkl__process *process, const struct zkl__proctree_root *root)
{
	/* The bound ends a circle, which ids that were given away while /proc was read can make. */
	for (size_t steps = 0; process != NULL && steps < all->count; steps++) {
		if (process->parent == root->pid)
			return !is_among(root->except, root->except_count, process);
		process = find(all, process->parent);
	}
	return false;
}

/* In the order of their ids. */
struct members {
	pid_t *list;
	size_t count;
};

static int by_id(const void *a, const void *b)
{
	const pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;
	return (left > right) - (left < right);
}

static int read_members(const struct zkl__cgroup *cgroup, struct members *ret)
{
	if (cgroup == NULL)
		return 0;
	if (zkl__cgroup_members(cgroup, &ret->list, &ret->count) < 0)
		return -1;
	if (ret->count > 0)
		qsort(ret->list, ret->count, sizeof(*ret->list), by_id);
	return 0;
}

static bool is_member(const struct members *members, pid_t pid)
{
	return members->count > 0 && bsearch(&pid, members->list, members->count, sizeof(pid), by_id) != NULL;
}

/* The members are read last: the id of one belongs to the process that was read, or that one is gone and will not be signalled. */
static int read_tree(const struct zkl__proctree_root *root, struct tree *ret)
{
	struct tree    all = {0};
	struct members members = {0};
	int            rc = read_all(&all);

	if (rc == 0)
		rc = read_members(root->cgroup, &members);
	ret->count = 0;
	for (size_t i = 0; rc == 0 && i < all.count; i++) {
		if (descends(&all, &all.list[i], root) || is_member(&members, all.list[i].pid))
			rc = add(ret, &all.list[i]);
	}
	free(members.list);
	free(all.list);
	return rc;
}

/* ---- signalling ---- */

/* Without a pidfd where it cannot be had: an old kernel, a filter of system calls, no descriptor left. */
static void signal_process(const struct zkl__process *process, int sig)
{
	struct zkl__process now;
	int                 fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	const bool          gone = fd < 0 && (errno == ESRCH || errno == EINVAL);

	if (!gone && zkl__process_read(process->pid, &now) && is_same(process, &now) &&
	    (fd < 0 || (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 && errno != ESRCH)))
		kill(process->pid, sig);
	if (fd >= 0)
		close(fd);
}

/* Signals who lives and was not there the round before. Returns how many these were. */
static size_t signal_new(const struct tree *now, const struct tree *before, int sig)
{
	size_t count = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct zkl__process *process = &now->list[i], *known = find(before, process->pid);
		if (process->dead || (known != NULL && is_same(process, known)))
			continue;
		count++;
		signal_process(process, sig);
		if (sig == SIGTERM)
			signal_process(process, SIGCONT);
	}
	return count;
}

static int count_living(const struct tree *tree)
{
	int count = 0;

	for (size_t i = 0; i < tree->count; i++)
		count += !tree->list[i].dead;
	return count;
}

int zkl__proctree_sweep(const struct zkl__proctree_root *root, int sig)
{
	struct tree now = {0}, before = {0};
	int         living = -1;

	for (unsigned round = 0; round < SWEEP_ROUNDS; round++) {
		if (read_tree(root, &now) < 0) {
			living = -1;
			break;
		}
		living = count_living(&now);
		if (signal_new(&now, &before, sig) == 0)
			break;
		struct tree swap = before;
		before = now;
		now = swap;
	}
	free(now.list);
	free(before.list);
	return living;
}

int zkl__proctree_kill(const struct zkl__proctree_root *root)
{
	if (root->cgroup != NULL)
		zkl__cgroup_kill(root->cgroup);
	zkl__proctree_sweep(root, SIGSTOP);
	return zkl__proctree_sweep(root, SIGKILL);
}

int zkl__proctree_count(const struct zkl__proctree_root *root)
{
	struct tree tree = {0};
	const int   count = read_tree(root, &tree) < 0 ? -1 : (int)tree.count;

	free(tree.list);
	return count;
}

bool zkl__proctree_survivor(const struct zkl__proctree_root *root, char *ret, size_t size)
{
	struct tree tree = {0};
	size_t      count = 0;
	char        path[32], *name_end = NULL;

	if (read_tree(root, &tree) == 0)
		count = tree.count;
	/* The last one: the first process of a namespace only waits for the others. */
	while (count > 0 && tree.list[count - 1].dead)
		count--;
	if (count > 0) {
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)tree.list[count - 1].pid);
		if (read_file(path, ret, size) > 0)
			name_end = strrchr(ret, ')');
	}
	free(tree.list);
	if (name_end == NULL || strlen(name_end) < 3)
		return false;
	name_end[3] = '\0';
	return true;
}

int64_t zkl__kill_pause_next(int64_t pause_ns)
{
	const int64_t longer = pause_ns + pause_ns / 8;

	return longer < 50 * ZKL__KILL_PAUSE_NS ? longer : 50 * ZKL__KILL_PAUSE_NS;
}

/* ---- direct children ---- */

#define CHILDREN "/proc/thread-self/children"

/* The next id in a list of numbers, each followed by a blank; 0: no more. A list that was too long ends in half a
 * number, which is not given out. */
static pid_t next_pid(const char **list)
{
	const char *end = strchr(*list, ' ');
	if (end == NULL)
		return 0;
	pid_t pid = (pid_t)strtol(*list, NULL, 10);
	*list = end + 1;
	return pid;
}

/* The whole list, in memory that is the caller's to free, or NULL. */
static char *read_children(void)
{
	FILE  *file = fopen(CHILDREN, "re");
	char  *text = NULL;
	size_t size = 0;

	if (file == NULL)
		return NULL;
	if (getdelim(&text, &size, '\0', file) >= 0) {
		fclose(file);
		return text;
	}
	const bool is_empty = feof(file) != 0;
	fclose(file);
	free(text);
	return is_empty ? strdup("") : NULL;
}

int zkl__proctree_children(struct zkl__process **ret, size_t *ret_count)
{
	struct tree         children = {0};
	struct zkl__process process;
	char               *text = read_children();
	const char         *list = text;
	int                 rc = text == NULL ? -1 : 0;

	for (pid_t pid; rc == 0 && (pid = next_pid(&list)) > 0;) {
		if (zkl__process_read(pid, &process))
			rc = add(&children, &process);
	}
	free(text);
	*ret = children.list;
	*ret_count = children.count;
	return rc;
}

/* Who may not be looked at counts as alive. */
static pid_t find_living(const char *list, const struct zkl__process *except, size_t except_count)
{
	struct zkl__process process;

	for (pid_t pid; (pid = next_pid(&list)) > 0;) {
		if (!zkl__process_read(pid, &process) || (!process.dead && !is_among(except, except_count, &process)))
			return pid;
	}
	return 0;
}

/* Whoever dies leaves his children to us first, which are behind him in the list. So all are dead where they were in the list
 * before, too. */
pid_t zkl__proctree_living_child(const struct zkl__process *except, size_t except_count)
{
	char *before = NULL, *now = NULL;
	pid_t living;

	do {
		free(before);
		before = now;
		now = read_children();
		living = now == NULL ? -1 : find_living(now, except, except_count);
	} while (living == 0 && (before == NULL || strcmp(before, now) != 0));
	free(before);
	free(now);
	return living;
}

void zkl__proctree_kill_children(void)
{
	char        text[4096] = "";
	const char *list = text;

	/* Whoever stands behind the end of a list that is too long has his turn when these are gone. */
	read_file(CHILDREN, text, sizeof(text));
	for (pid_t pid; (pid = next_pid(&list)) > 0;)
		kill(pid, SIGKILL);
}
