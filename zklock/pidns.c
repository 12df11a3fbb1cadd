/* SPDX-License-Identifier: Apache-2.0 */
#include "pidns.h"
#include "title.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* In there. The number is not given out again. */
#define COMMAND 2

#define NAMESPACES (CLONE_NEWPID | CLONE_NEWNS)

/* What the warden is told by the process in between, which has a copy of our constant strings. */
struct answer {
	pid_t             command; /* -1: `error` */
	int               error;
	struct zkl__pidns pidns;
};

/* A child of our parent. */
static pid_t fork_sibling(void)
{
	struct clone_args args = {.flags = CLONE_PARENT};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* ---- the first process ---- */

/* What is mounted outside later on is seen inside, not the other way round. */
static const char *mount_proc(void)
{
	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return "cannot make the mounts private";
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return "cannot mount /proc";
	return NULL;
}

/* The warden reaps the command; what it leaves behind is ours. */
static _Noreturn void reap(void)
{
	sigset_t child;
	int      sig;
	pid_t    pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		sigwait(&child, &sig);
		while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
			continue;
		if (pid < 0 && errno == ECHILD && kill(COMMAND, 0) < 0 && errno == ESRCH)
			_exit(0);
	}
}

static _Noreturn void be_init(struct zkl__child_options options, int maker)
{
	char go;

	/* From here on the namespace does not outlive the warden. It may be dead already: then nobody says go. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	struct answer answer = {.pidns.step = mount_proc()};
	answer.error = answer.pidns.step == NULL ? 0 : errno;
	zkl__title_set(&options, "zklock-init");
	if (send(maker, &answer, sizeof(answer), MSG_NOSIGNAL) != (ssize_t)sizeof(answer) ||
	    recv(maker, &go, 1, 0) != 1)
		_exit(1);
	closefrom(0);
	reap();
}

/* ---- the process in between ---- */

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t written = dprintf(fd, "%s", text);
	int     error = errno;
	close(fd);
	errno = error;
	return written < 0 ? -1 : 0;
}

static int map(const char *path, unsigned id)
{
	char text[32];

	snprintf(text, sizeof(text), "%u %u 1\n", id, id);
	return write_file(path, text);
}

static const char *make_namespaces(void)
{
	const uid_t user = geteuid();
	const gid_t group = getegid();

	if (unshare(NAMESPACES) == 0)
		return NULL;
	if (errno != EPERM || unshare(CLONE_NEWUSER | NAMESPACES) < 0)
		return "cannot make a PID namespace";
	/* Else the kernel lets nobody map groups: who could drop one would get at what it is kept from. */
	if (write_file("/proc/self/setgroups", "deny") < 0 || map("/proc/self/uid_map", user) < 0 ||
	    map("/proc/self/gid_map", group) < 0)
		return "cannot map the user into a user namespace";
	return NULL;
}

/* Makes init, and waits until it has mounted /proc. -1: *ret. */
static int make_init(const struct zkl__child_options *options, pid_t warden, struct answer *ret)
{
	int ends[2];

	ret->pidns.step = "cannot start the first process";
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	const pid_t init = fork_sibling();
	if (init < 0)
		return -1;
	if (init == 0) {
		close(ends[0]);
		be_init(*options, ends[1]);
	}
	close(ends[1]);
	errno = ECHILD;
	if (recv(ends[0], ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return -1;
	ret->pidns.init = init;
	errno = ret->error;
	/* The command follows where init dies with the warden, and only there. */
	if (ret->error != 0 || getppid() != warden || send(ends[0], "", 1, MSG_NOSIGNAL) != 1)
		return -1;
	close(ends[0]);
	return 0;
}

/* 0: we are the command. */
static pid_t make_command(const struct zkl__child_options *options, pid_t warden, struct answer *ret)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ret->pidns.step = make_namespaces();
	if (ret->pidns.step != NULL || make_init(options, warden, ret) < 0)
		return -1;
	ret->pidns.step = "cannot start the second process";
	return fork_sibling();
}

pid_t zkl__pidns_fork(const struct zkl__child_options *options, struct zkl__cgroup *cgroup, struct zkl__pidns *ret)
{
	const pid_t   warden = getpid();
	struct answer answer = {.command = -1, .pidns.step = "cannot start"};
	int           ends[2];

	*ret = answer.pidns;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	const pid_t maker = zkl__cgroup_fork(cgroup);
	if (maker == 0) {
		answer.command = make_command(options, warden, &answer);
		if (answer.command == 0)
			return 0;
		answer.error = errno;
		ssize_t written = write(ends[1], &answer, sizeof(answer));
		_exit(written < 0);
	}
	answer.error = maker < 0 ? errno : ECHILD;
	close(ends[1]);
	/* No end of file is waited for: the command has the other end, too. */
	if (maker > 0 && read(ends[0], &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
		answer.command = -1;
	close(ends[0]);
	if (maker > 0)
		waitpid(maker, NULL, __WALL);
	*ret = answer.pidns;
	errno = answer.error;
	return answer.command;
}

int zkl__pidns_probe(const struct zkl__child_options *options, const char **ret_step)
{
	struct zkl__cgroup none = {.parent = -1};
	struct zkl__pidns  pidns;
	const pid_t        second = zkl__pidns_fork(options, &none, &pidns);

	if (second == 0)
		_exit(0);
	const int error = errno;
	*ret_step = pidns.step;
	/* init cannot end while somebody in there has not been reaped. */
	if (second > 0)
		waitpid(second, NULL, __WALL);
	if (pidns.init > 0) {
		kill(pidns.init, SIGKILL);
		waitpid(pidns.init, NULL, __WALL);
	}
	errno = error;
	return second < 0 ? -1 : 0;
}
