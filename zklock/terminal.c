/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"
#include "proctree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

int zkl__terminal_open(void)
{
	return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

static bool is_pipe(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

static bool is_ignored(int sig)
{
	struct sigaction action;

	return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool zkl__terminal_is_scripts(void)
{
	return is_ignored(SIGINT) && is_ignored(SIGQUIT) && !isatty(STDIN_FILENO);
}

bool zkl__terminal_is_ours(int terminal)
{
	/* The shell puts all of a pipeline into our group. A pager behind us must not find itself in the background. */
	return terminal >= 0 && tcgetpgrp(terminal) == getpgrp() && !is_pipe(STDIN_FILENO) && !is_pipe(STDOUT_FILENO) &&
	       !is_pipe(STDERR_FILENO) && !zkl__terminal_is_scripts();
}

/* Is anybody there who sees us stop and can continue us? Where nobody is (an orphaned process group: ssh -t host zklock-run,
 * setsid, a service), Ctrl-Z has no effect on us, nor would it have on the command without us. */
static bool has_shell(void)
{
	const pid_t         session = getsid(0);
	struct zkl__process process;

	for (pid_t pid = getppid(); pid > 0 && getsid(pid) == session; pid = process.parent) {
		if (getpgid(pid) != getpgrp())
			return true;
		if (!zkl__process_read(pid, &process))
			break;
	}
	return false;
}

/* Who was put into the foreground may have put others there, who are gone since. A shell that has taken it back is
 * not. */
static bool is_dead(pid_t group)
{
	return group > 0 && kill(-group, 0) < 0 && errno == ESRCH;
}

/* True: it was done. */
static bool give(struct zkl__turn *turn, pid_t group)
{
	const int  terminal = turn->terminal;
	const bool done = terminal >= 0 && tcgetpgrp(terminal) == getpgrp() && tcsetpgrp(terminal, group) == 0;

	turn->given |= done;
	return done;
}

void zkl__turn_give(struct zkl__turn *turn, pid_t group)
{
	if (zkl__terminal_is_ours(turn->terminal))
		give(turn, group);
}

bool zkl__turn_take(struct zkl__turn *turn, pid_t group)
{
	const pid_t now = turn->given ? tcgetpgrp(turn->terminal) : -1;
	const bool  done = turn->given && (now == group || is_dead(now)) && tcsetpgrp(turn->terminal, getpgrp()) == 0;

	turn->given = turn->given && !done;
	return done;
}

bool zkl__turn_need_not_stop(struct zkl__turn *turn, pid_t group, int sig)
{
	if (sig == SIGTSTP)
		return !has_shell();
	return (sig == SIGTTIN || sig == SIGTTOU) && give(turn, group);
}
