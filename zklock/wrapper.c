/* SPDX-License-Identifier: Apache-2.0 */
#include "wrapper.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zklock/zklock.h>

/* Whether standard output was open. */
static bool prints = true;

void zkl__wrapper_fill_descriptors(void)
{
	int fd;

	prints = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
	while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && fd <= STDERR_FILENO)
		continue;
	if (fd >= 0)
		close(fd);
}

int zkl__wrapper_take_signals(sigset_t *ret_mask, bool *ret_ignores_chld)
{
	static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGTSTP};
	struct sigaction action;
	sigset_t         read, blocked;

	sigemptyset(&read);
	sigaddset(&read, SIGCHLD);
	sigaddset(&read, SIGCONT);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
		if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&read, passed_on[i]);
	}
	blocked = read;
	sigaddset(&blocked, SIGPIPE);
	sigaddset(&blocked, SIGXFSZ);
	sigaddset(&blocked, SIGTTOU);
	sigprocmask(SIG_BLOCK, &blocked, ret_mask);
	*ret_ignores_chld = signal(SIGCHLD, SIG_DFL) == SIG_IGN;
	return signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool zkl__wrapper_sees_processes(void)
{
	if (zkl__proctree_is_possible())
		return true;
	zkl__message_say("what the command starts could not be found: mount a /proc of this PID namespace");
	return false;
}

/* Where execvp() looks for it. */
static bool exists(const char *command)
{
	const char *folder = strchr(command, '/') != NULL ? "" : getenv("PATH");
	char        file[PATH_MAX];

	while (folder != NULL && command[0] != '\0') {
		const int length = (int)strcspn(folder, ":");

		snprintf(file, sizeof(file), "%.*s%s%s", length, folder, length > 0 ? "/" : "", command);
		if (access(file, F_OK) == 0)
			return true;
		folder = folder[length] != '\0' ? folder + length + 1 : NULL;
	}
	return false;
}

static const char *why_not_found(const char *command)
{
	if (exists(command))
		return "its interpreter is missing";
	if (strchr(command, ' ') != NULL)
		return "No such file or directory (COMMAND and each ARG are words of their own)";
	return strerror(ENOENT);
}

int zkl__wrapper_not_started(const struct zkl__report *report, const char *command, char ret_why[ZKL__WHY_MAX])
{
	const bool executing = report->type == ZKL__REPORT_EXEC_FAILED;

	snprintf(ret_why, ZKL__WHY_MAX, "cannot %s \"%.200s\": %s", executing ? "execute" : "start", command,
	         executing && report->value == ENOENT ? why_not_found(command) : strerror(report->value));
	if (!executing)
		return ZKL__STATUS_FAILED;
	return report->value == ENOENT ? ZKL__STATUS_NOT_FOUND : ZKL__STATUS_NOT_EXECUTED;
}

void zkl__wrapper_stop(void)
{
	sigset_t only;

	sigemptyset(&only);
	sigaddset(&only, SIGTSTP);
	raise(SIGTSTP);
	pthread_sigmask(SIG_UNBLOCK, &only, NULL);
	pthread_sigmask(SIG_BLOCK, &only, NULL);
}

/* ---- the end ---- */

bool zkl__wrapper_is_told(int wait_status, bool had_terminal)
{
	const int sig = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;

	return had_terminal && (sig == SIGINT || sig == SIGQUIT || sig == SIGHUP);
}

_Noreturn void zkl__wrapper_die_by(int sig, bool told)
{
	sigset_t only;

	if (told)
		kill(0, sig);

	prctl(PR_SET_DUMPABLE, 0); /* the command may have left a core: we leave none */
	signal(sig, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
	_exit(128 + sig); /* the first process of a container survives its own signals */
}

int zkl__wrapper_print(const char *text)
{
	errno = EBADF;
	if (prints && fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return 0;
	zkl__message_say("cannot write to standard output: %s", strerror(errno));
	return ZKL__STATUS_FAILED;
}

int zkl__wrapper_print_version(void)
{
	char     line[64];
	unsigned version = zkl_version();

	snprintf(line, sizeof(line), "%s %u.%u.%u\n", zkl__message_program, version >> 16, version >> 8 & 0xff,
	         version & 0xff);
	return zkl__wrapper_print(line);
}
