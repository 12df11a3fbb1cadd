/* SPDX-License-Identifier: Apache-2.0 */

/* zklock-fence: runs a command as one access to a fence, on the resource's host.
 *
 * The lock of the fence's file is held by two processes: this one, and the warden (warden.h) that it forks with the lock taken.
 * So it outlives either (and, with a cgroup, both: the keeper has it, too). Where this one is killed, the warden ends the
 * command and what that has started, and only then lets go; where the warden is killed, this one does. The command has no
 * descriptor of it: a program that closes what it does not know (sudo, daemons) would let the next one in while it runs, and
 * one that stays in the background would never do so. */

#include "alarm.h"
#include "child.h"
#include "duration.h"
#include "fence_wait.h"
#include "message.h"
#include "nesting.h"
#include "status.h"
#include "terminal.h"
#include "wrapper.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zklock/fence.h>

/* Between TERM and KILL, where we are killed. The lock is held meanwhile: there is no hurry. */
#define GRACE_NS (5000 * ZKL__NS_PER_MS)
/* The signal that ends a wait may come just before it, so it comes again. ALRM is not ours: who has started us may have set a
 * timer of his own. */
#define WAIT_OVER SIGRTMIN
#define AGAIN_NS  10000000

static const char help[] =
	"Usage: zklock-fence [OPTION...] FILE TOKEN [--] COMMAND [ARG...]\n"
	"Run COMMAND unless a newer holder of the lock was here before.\n"
	"\n"
	"TOKEN is the fencing token of the lock's holder: ZKLOCK_TOKEN, as zklock-run gives it to its\n"
	"command. FILE keeps the greatest TOKEN that came, and is made where it is missing. Refused is\n"
	"who comes with a lower one. Else COMMAND runs, with ZKLOCK_TOKEN in its environment, and nobody\n"
	"else is let in before it has ended, with all that it has started: the others wait.\n"
	"\n"
	"  -n, --nonblock                 do not wait where another's COMMAND runs\n"
	"  -w, --wait=DURATION            wait so long at most: seconds, or a number with ms, s, m or h\n"
	"      --help, --version\n"
	"\n"
	"Options end at FILE.\n"
	"\n"
	"Exit status: that of COMMAND; 64 usage; 75 another's COMMAND runs; 79 TOKEN is older than one\n"
	"that was admitted; 125 zklock-fence failed, or FILE cannot be used; 126 COMMAND cannot be\n"
	"executed; 127 not found.\n";

struct access {
	struct zkl__child_options options;
	struct zkl__child         child;
	struct zkl__turn          turn; /* at the terminal */
	zkl_grant                 grant;
	int64_t                   wait_ms; /* 0: not at all; ZKL_FOREVER: no limit */
	timer_t                   timer;   /* of the wait */
	struct sigaction          before;  /* what its signal did before */
	int                       signals, alarm;
	bool                      told, exited, killing, over;
	int                       wait_status; /* with `exited` */
	int                       status;      /* without */
	int64_t                   kill_pause_ns;
};

/* ---- the command ---- */

static void take_terminal(struct access *access)
{
	zkl__turn_take(&access->turn, access->child.command);
}

static void continue_command(struct access *access)
{
	zkl__turn_give(&access->turn, access->child.command);
	zkl__child_signal(&access->child, SIGCONT);
}

/* We stop with it, so that our parent sees it; it goes on with us. */
static void stop_too(struct access *access, int sig)
{
	if (zkl__turn_need_not_stop(&access->turn, access->child.command, sig)) {
		zkl__child_signal(&access->child, SIGCONT);
		return;
	}
	take_terminal(access);
	zkl__wrapper_stop();
}

static void on_report(struct access *access, const struct zkl__report *report)
{
	char why[ZKL__WHY_MAX];

	switch (report->type) {
	case ZKL__REPORT_SPAWNED:
		break;
	case ZKL__REPORT_EXEC_FAILED:
	case ZKL__REPORT_FORK_FAILED:
		access->status = zkl__wrapper_not_started(report, access->options.command[0], why);
		zkl__message_say("%s", why);
		access->over = true;
		break;
	case ZKL__REPORT_STOPPED:
		stop_too(access, report->value);
		break;
	case ZKL__REPORT_CONTINUED:
		zkl__turn_give(&access->turn, access->child.command);
		break;
	case ZKL__REPORT_EXITED:
		access->exited = true;
		access->wait_status = report->value;
		access->told = zkl__wrapper_is_told(report->value, access->turn.given);
		access->over = report->alone;
		take_terminal(access); /* Ctrl-C is for us, and by us for what is left */
		break;
	case ZKL__REPORT_GONE:
		access->over = true;
		break;
	case ZKL__REPORT_WARDEN_DIED:
		if (!access->exited)
			zkl__message_say("the zklock-warden process was killed, command ended");
		access->killing = true;
		break;
	}
}

static void on_signal(struct access *access, int sig)
{
	if (sig == SIGCONT)
		continue_command(access);
	else if (sig != SIGCHLD)
		zkl__child_signal(&access->child, sig);
}

static void loop(struct access *access)
{
	struct signalfd_siginfo info;
	struct zkl__report      report;

	while (!access->over) {
		struct pollfd fds[] = {{access->child.socket, POLLIN, 0},
		                       {access->signals, POLLIN, 0},
		                       {access->killing ? access->alarm : -1, POLLIN, 0}};

		if (access->killing)
			zkl__alarm_set(access->alarm, zkl__alarm_now() + access->kill_pause_ns);
		poll(fds, sizeof(fds) / sizeof(fds[0]), -1);
		while (read(access->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
			on_signal(access, (int)info.ssi_signo);
		zkl__child_reap(&access->child);
		while (!access->over && zkl__child_next(&access->child, &report))
			on_report(access, &report);
		if (access->killing && !access->over) {
			zkl__child_kill(&access->child);
			access->kill_pause_ns = zkl__kill_pause_next(access->kill_pause_ns);
		}
	}
}

/* ---- the wait ---- */

static volatile sig_atomic_t impatient;

static void on_wait_over(int sig)
{
	(void)sig;
	impatient = 1;
}

/* -1: errno. */
static int limit_wait(struct access *access)
{
	const struct sigaction  action = {.sa_handler = on_wait_over};
	const struct itimerspec time = {.it_value = {access->wait_ms / 1000, access->wait_ms % 1000 * ZKL__NS_PER_MS},
	                                .it_interval = {0, AGAIN_NS}};
	struct sigevent         event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = WAIT_OVER};
	sigset_t                only;

	impatient = access->wait_ms == 0;
	if (access->wait_ms <= 0)
		return 0;
	sigemptyset(&only);
	sigaddset(&only, WAIT_OVER);
	if (timer_create(CLOCK_BOOTTIME, &event, &access->timer) < 0 ||
	    sigaction(WAIT_OVER, &action, &access->before) < 0 || sigprocmask(SIG_UNBLOCK, &only, NULL) < 0)
		return -1;
	return timer_settime(access->timer, 0, &time, NULL);
}

/* The command is to find the signal as we did. */
static void end_wait(const struct access *access)
{
	if (access->wait_ms <= 0)
		return;
	timer_delete(access->timer);
	sigaction(WAIT_OVER, &access->before, NULL);
}

/* Until here signals have their effect on us: there was nothing to put away. */
static int run(void *user)
{
	struct access *access = user;

	end_wait(access);
	access->status = ZKL__STATUS_FAILED;
	if (!zkl__wrapper_sees_processes())
		return 0;
	access->turn.terminal = access->options.terminal = zkl__terminal_open();
	sigprocmask(SIG_SETMASK, &access->options.mask, NULL);
	access->signals = zkl__wrapper_take_signals(&access->options.mask, &access->options.ignores_chld);
	access->alarm = zkl__alarm_open();
	if (access->signals < 0 || access->alarm < 0 || zkl__child_open(&access->child, &access->options) < 0) {
		zkl__message_say("cannot start: %s", strerror(errno));
		return 0;
	}
	access->child.shared->grace_ns = GRACE_NS;
	access->kill_pause_ns = ZKL__KILL_PAUSE_NS;
	access->turn.given = zkl__terminal_is_ours(access->turn.terminal);
	zkl__child_spawn(&access->child, &access->grant, access->turn.given);
	loop(access);
	take_terminal(access);
	zkl__child_close(&access->child);
	return 0;
}

/* ---- the fence ---- */

static int refuse(int status, const char *file, const char *why)
{
	zkl__message_say("%.200s: %s", file, why);
	return status;
}

/* The name of the fence, as nesting.h has them: of the file, whatever the path to it. */
static char *name_of(const char *file)
{
	struct stat status;
	char        path[64];

	if (stat(file, &status) < 0)
		return NULL;
	snprintf(path, sizeof(path), "/%ju/%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
	return zkl__nesting_name("fence:0", path);
}

static int admit(zkl_fence *fence, const char *file, struct access *access)
{
	zkl_error error;
	char     *name = name_of(file), *held = NULL;
	int       status = access->status = ZKL__STATUS_FAILED;

	if (name == NULL || limit_wait(access) < 0) {
		status = refuse(status, file, strerror(errno));
	} else if (zkl__nesting_check(getenv(ZKL__HELD_VARIABLE), name, &held)) {
		status = refuse(ZKL__STATUS_USAGE, file,
		                "this process runs under the same fence already: it would wait for itself");
	} else if (held == NULL) {
		status = refuse(status, file, "out of memory");
	} else {
		access->options.name = name;
		access->options.held = held;
		zkl__fence_wait_unless(fence, &impatient);
		int r = zkl_fence_admit(fence, access->grant.token, run, access, &error);
		/* As of zklock-run: it is told by the status alone. */
		if (r == ZKL_EBUSY)
			status = ZKL__STATUS_BUSY;
		else if (r == ZKL_ESTALE)
			status = refuse(ZKL__STATUS_STALE, file, error.message);
		else if (r < 0)
			zkl__message_say("%s", error.message); /* names the file */
		else
			status = access->status;
	}
	free(held);
	free(name);
	return status;
}

static int run_fenced(const char *file, struct access *access)
{
	zkl_fence *fence;
	zkl_error  error;
	sigset_t   too_large;

	/* A limit to the size of files is an error like any other. */
	sigemptyset(&too_large);
	sigaddset(&too_large, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &too_large, &access->options.mask);
	if (zkl_fence_open(file, &fence, &error) < 0) {
		zkl__message_say("%s", error.message);
		return ZKL__STATUS_FAILED;
	}
	int status = admit(fence, file, access);
	zkl_fence_close(fence);
	if (access->exited && WIFSIGNALED(access->wait_status))
		zkl__wrapper_die_by(WTERMSIG(access->wait_status), access->told);
	return access->exited ? WEXITSTATUS(access->wait_status) : status;
}

/* ---- the command line ---- */

static bool parse_token(const char *text, uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *ret > 0 && *ret <= INT64_MAX;
}

static int usage(const char *what, const char *value)
{
	zkl__message_say("%s%.100s: see zklock-fence --help", what, value);
	return ZKL__STATUS_USAGE;
}

enum what { RUN, PRINT_HELP, PRINT_VERSION };

/* 0, or the status to exit with. */
static int parse_options(int argc, char **argv, int64_t *ret_wait_ms, enum what *ret)
{
	static const struct option options[] = {{"nonblock", no_argument, NULL, 'n'},
	                                        {"wait", required_argument, NULL, 'w'},
	                                        {"help", no_argument, NULL, 'h'},
	                                        {"version", no_argument, NULL, 'v'},
	                                        {NULL, 0, NULL, 0}};
	bool                       nonblock = false, wait = false;
	char                       why[ZKL__WHY_MAX];

	opterr = 0;
	for (int option, at = 1; (option = getopt_long(argc, argv, "+:nw:", options, NULL)) != -1; at = optind) {
		switch (option) {
		case 'n':
			nonblock = true;
			*ret_wait_ms = 0;
			break;
		case 'w':
			wait = true;
			if (zkl__duration_option("-w", optarg, 0, ret_wait_ms, why) == 0)
				break;
			zkl__message_say("%s", why);
			return ZKL__STATUS_USAGE;
		case 'h':
		case 'v':
			*ret = option == 'h' ? PRINT_HELP : PRINT_VERSION;
			return 0;
		default:
			return usage(option == ':' ? "no value for option " : "unknown option ", argv[at]);
		}
	}
	return nonblock && wait ? usage("-n and -w exclude each other", "") : 0;
}

/* FILE TOKEN [--] COMMAND [ARG...]; 0, or the status to exit with. */
static int parse_operands(char **operands, struct access *access)
{
	if (operands[0] == NULL || operands[1] == NULL)
		return usage(operands[0] == NULL ? "no FILE given" : "no TOKEN given", "");
	const char *token = operands[1];
	if (!parse_token(token, &access->grant.token)) {
		zkl__message_say("TOKEN must be a number from 1 to 2^63-1 (is ZKLOCK_TOKEN set?), not \"%.100s\": see "
		                 "zklock-fence --help",
		                 token);
		return ZKL__STATUS_USAGE;
	}
	char **command = operands + 2;
	if (*command != NULL && strcmp(*command, "--") == 0)
		command++;
	else if (*command != NULL && **command == '-')
		return usage("options come before FILE, and not behind TOKEN: ", *command);
	if (*command == NULL)
		return usage("no COMMAND given", "");
	access->options.path = operands[0];
	access->options.command = command;
	return 0;
}

int main(int argc, char **argv)
{
	struct access access = {.options = {.argc = argc, .argv = argv}, .wait_ms = ZKL_FOREVER};
	enum what     what = RUN;

	zkl__message_program = "zklock-fence";
	zkl__wrapper_fill_descriptors();
	int status = parse_options(argc, argv, &access.wait_ms, &what);
	if (what == PRINT_HELP)
		return zkl__wrapper_print(help);
	if (what == PRINT_VERSION)
		return zkl__wrapper_print_version();
	if (status == 0)
		status = parse_operands(argv + optind, &access);
	return status != 0 ? status : run_fenced(access.options.path, &access);
}
