/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"
#include "keeper.h"
#include "message.h"
#include "nesting.h"
#include "pidns.h"
#include "warden.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The warden reaps what was killed within a millisecond. One that has not after so many rounds is stopped. */
#define ROUNDS_OF_PATIENCE 10

/* ---- the front's side ---- */

/* The warden looks at neither while there is no tree. */
void zkl__child_renew(struct zkl__child *child)
{
	zkl__deadline_init(&child->shared->deadline);
	atomic_flag_clear(&child->shared->termed);
	child->command = 0;
	child->gone = false;
	child->dead_rounds = 0;
}

static int fork_warden(struct zkl__child *child, const struct zkl__child_options *options)
{
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) < 0)
		return -1;
	child->warden = fork();
	if (child->warden == 0) {
		close(sockets[0]);
		zkl__warden_run(options, child->shared, &child->cgroup, sockets[1]);
	}
	close(sockets[1]);
	child->socket = sockets[0];
	return child->warden < 0 ? -1 : 0;
}

static int fork_both(struct zkl__child *child, const struct zkl__child_options *options)
{
	int ends[2];

	if (!zkl__cgroup_is_possible(&child->cgroup))
		return fork_warden(child, options);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	child->lifeline = ends[1];
	int rc = fork_warden(child, options);
	if (rc == 0)
		child->keeper = zkl__keeper_fork(options, child, ends[0]);
	close(ends[0]);
	return rc < 0 || child->keeper < 0 ? -1 : 0;
}

int zkl__child_open(struct zkl__child *child, const struct zkl__child_options *options)
{
	*child = (struct zkl__child){.socket = -1, .lifeline = -1};
	child->shared = mmap(NULL, sizeof(*child->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (child->shared == MAP_FAILED)
		return -1;
	zkl__child_renew(child);
	zkl__cgroup_open(&child->cgroup, zkl__message_program);
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || fork_both(child, options) < 0)
		return -1;
	return zkl__proctree_children(&child->elder, &child->elder_count);
}

/* While the warden lives, no child of ours is the command's. Who loses its parent below one that we had before becomes one, and
 * nothing tells us: so they are looked at again and again. */
static void renew_elders(struct zkl__child *child)
{
	struct zkl__child   now = {0};
	struct zkl__process warden;

	if (child->elder_count <= (child->warden > 0) + (size_t)(child->keeper > 0))
		return;
	/* The list is good where the warden was alive after it. */
	if (zkl__proctree_children(&now.elder, &now.elder_count) == 0 && zkl__process_read(child->warden, &warden) &&
	    !warden.dead) {
		free(child->elder);
		child->elder = now.elder;
		child->elder_count = now.elder_count;
	} else {
		free(now.elder);
	}
}

/* All descendants of the warden or, when they have become ours, our own but for the elders. */
static struct zkl__proctree_root tree_of(const struct zkl__child *child)
{
	if (child->warden > 0)
		return (struct zkl__proctree_root){.pid = child->warden, .cgroup = &child->cgroup};
	return (struct zkl__proctree_root){getpid(), child->elder, child->elder_count, &child->cgroup};
}

static void note(struct zkl__child *child, const struct zkl__report *report)
{
	if (report->command > 0)
		child->command = report->command;
	if (report->type == ZKL__REPORT_GONE || report->type == ZKL__REPORT_EXEC_FAILED ||
	    report->type == ZKL__REPORT_FORK_FAILED || report->alone)
		child->gone = true;
}

/* Once the warden is dead, who has no living child has no living descendant: both are subreapers. */
static bool tree_is_gone(const struct zkl__child *child)
{
	if (child->warden > 0 || zkl__cgroup_is_populated(&child->cgroup))
		return false;
	return child->childless || zkl__proctree_living_child(child->elder, child->elder_count) == 0;
}

bool zkl__child_next(struct zkl__child *child, struct zkl__report *ret)
{
	if (!child->orphaned) {
		ssize_t length = recv(child->socket, ret, sizeof(*ret), 0);
		if (length == (ssize_t)sizeof(*ret)) {
			note(child, ret);
			return true;
		}
		/* A child of the warden that has not come to exec yet can keep the socket open. */
		if (length < 0 && (errno == EAGAIN || errno == EINTR) && child->warden > 0)
			return false;
		child->orphaned = true;
		close(child->socket);
		child->socket = -1;
		*ret = (struct zkl__report){.type = ZKL__REPORT_WARDEN_DIED};
		return true;
	}
	if (child->gone || !tree_is_gone(child))
		return false;
	child->gone = true;
	*ret = (struct zkl__report){.type = ZKL__REPORT_GONE};
	return true;
}

/* False where the warden is dead, or has not run for so long that the buffer is full. Its orders to end the command are not
 * relied on. */
static bool order(struct zkl__child *child, const struct zkl__order *what)
{
	return send(child->socket, what, sizeof(*what), MSG_NOSIGNAL) == (ssize_t)sizeof(*what);
}

void zkl__child_spawn(struct zkl__child *child, const zkl_grant *grant, bool foreground)
{
	order(child, &(struct zkl__order){.type = ZKL__ORDER_SPAWN, .foreground = foreground, .grant = *grant});
}

void zkl__child_signal(struct zkl__child *child, int sig)
{
	_Atomic uint64_t *unsent = &child->shared->unsent;

	if (order(child, &(struct zkl__order){.type = ZKL__ORDER_SIGNAL, .signal = sig}))
		return;
	/* As the kernel has it: one of a kind, and of stopping and going on the last. */
	if (sig == SIGCONT || sig == SIGTSTP)
		atomic_fetch_and(unsent, ~(UINT64_C(1) << (sig == SIGCONT ? SIGTSTP : SIGCONT)));
	atomic_fetch_or(unsent, UINT64_C(1) << sig);
	/* There may be room by now, and the warden asleep. */
	zkl__child_order(child, ZKL__ORDER_LOOK);
}

void zkl__child_order(struct zkl__child *child, enum zkl__order_type type)
{
	order(child, &(struct zkl__order){.type = type});
}

void zkl__child_term(struct zkl__child *child)
{
	const struct zkl__proctree_root root = tree_of(child);

	if (!atomic_flag_test_and_set(&child->shared->termed))
		zkl__proctree_sweep(&root, SIGTERM);
}

int zkl__child_kill(struct zkl__child *child)
{
	const struct zkl__proctree_root root = tree_of(child);

	int living = zkl__proctree_kill(&root);
	/* Zombies stay for as long as their parent does not look. A stopped warden is killed too: they are ours
	 * then. */
	child->dead_rounds = living == 0 ? child->dead_rounds + 1 : 0;
	if (child->dead_rounds >= ROUNDS_OF_PATIENCE && child->warden > 0)
		kill(child->warden, SIGKILL);
	zkl__child_reap(child);
	return living;
}

bool zkl__child_survivor(const struct zkl__child *child, char *ret, size_t size)
{
	const struct zkl__proctree_root root = tree_of(child);

	return zkl__proctree_survivor(&root, ret, size);
}

/* It has ended, and is its tracer's to reap first. */
static void look_at_traced_warden(struct zkl__child *child)
{
	struct zkl__process warden;

	if (child->warden > 0 && zkl__process_read(child->warden, &warden) && warden.dead)
		child->warden = 0;
}

void zkl__child_reap(struct zkl__child *child)
{
	pid_t pid;
	int   status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | __WALL)) > 0) {
		pid_t *ours = pid == child->warden ? &child->warden : pid == child->keeper ? &child->keeper : NULL;
		if (ours == NULL)
			continue;
		/* A stopped warden would neither pass signals on nor see the command end, a keeper not see us end. */
		if (WIFSTOPPED(status))
			kill(pid, SIGCONT);
		else
			*ours = 0;
	}
	child->childless = pid < 0 && errno == ECHILD;
	if (child->orphaned)
		look_at_traced_warden(child);
	else if (child->warden > 0)
		renew_elders(child);
}

/* While others are there who would do it for us. */
void zkl__child_close(struct zkl__child *child)
{
	zkl__cgroup_remove(&child->cgroup);
	if (child->warden > 0) {
		kill(child->warden, SIGKILL);
		waitpid(child->warden, NULL, 0);
	}
	if (child->keeper > 0) {
		kill(child->keeper, SIGKILL);
		waitpid(child->keeper, NULL, 0);
	}
	if (child->socket >= 0)
		close(child->socket);
	if (child->lifeline >= 0)
		close(child->lifeline);
	zkl__cgroup_close(&child->cgroup);
	free(child->elder);
	munmap(child->shared, sizeof(*child->shared));
}

/* ---- the warden's side ---- */

/* In the state in which we were started, but for the process group. All signals are blocked, SIGTTOU too. */
static _Noreturn void become_command(const struct zkl__child_options *options, pid_t warden, bool foreground,
                                     int report)
{
	/* Before anything else: from here on nothing of us outlives the warden. It may be dead already. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* From a PID namespace it cannot be seen; there is an init that dies with it. */
	if (!options->pidns && getppid() != warden)
		_exit(127);

	setpgid(0, 0);
	if (foreground)
		tcsetpgrp(options->terminal, getpid());
	if (options->ignores_chld)
		signal(SIGCHLD, SIG_IGN);
	sigprocmask(SIG_SETMASK, &options->mask, NULL);
	struct zkl__report failure = {.type = ZKL__REPORT_FORK_FAILED};
	if (zkl__nesting_export(options->held, options->name, options->pidns ? 1 : warden) == 0) {
		failure.type = ZKL__REPORT_EXEC_FAILED;
		execvp(options->command[0], options->command);
	}
	failure.value = errno;
	ssize_t written = write(report, &failure, sizeof(failure));
	(void)written; /* the warden is there, and its pipe is empty */
	_exit(127);
}

int zkl__command_fork(const struct zkl__child_options *options, struct zkl__cgroup *cgroup, bool foreground,
                      struct zkl__command *ret)
{
	const pid_t       warden = getpid();
	struct zkl__pidns pidns = {0};
	int               ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = options->pidns ? zkl__pidns_fork(options, cgroup, &pidns) : zkl__cgroup_fork(cgroup);
	if (pid == 0)
		become_command(options, warden, foreground, ends[1]);
	int error = errno;
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		errno = error;
		return -1;
	}
	/* As the child does: whoever comes first. Signals to the group have somebody to go to from here on. */
	setpgid(pid, pid);
	*ret = (struct zkl__command){.pid = pid, .init = pidns.init, .exec = ends[0]};
	return 0;
}
