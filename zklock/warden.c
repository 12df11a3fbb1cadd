/* SPDX-License-Identifier: Apache-2.0 */
#include "warden.h"
#include "alarm.h"
#include "message.h"
#include "status.h"
#include "title.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of `comm`, which pkill and killall match: both of our processes must not be taken at once. */
#define NAME "zklock-warden"

/* A round of killing is a short burst, in which processes that flee by forking are outrun. */
#define KILL_BURST 200

/* Of each type there is one a tree, but for STOPPED and CONTINUED, of which only the last counts. */
#define REPORTS (ZKL__REPORT_GONE + 1)

struct warden {
	struct zkl__child_options options;
	struct zkl__shared       *shared;
	struct zkl__cgroup       *cgroup;
	int                       events;                /* of the cgroup, or -1 */
	int                       front, signals, alarm; /* front -1: it is dead */
	int                       exec;                  /* of the command, while it has not succeeded; else -1 */
	struct zkl__report        failure;               /* of its start; type 0: none */
	struct zkl__report        reports[REPORTS];      /* by type, to be sent; type 0: none */
	bool                      unsent;                /* there are such */
	pid_t                     command;               /* 0: none yet, or it ended */
	pid_t                     group;                 /* of the command */
	pid_t                     init;                  /* of its PID namespace, or 0 */
	pid_t                     watched;               /* a child that lived at the last look, or 0 */
	int                       watch;    /* a pidfd of it; -1: there is none, or it has said that it ended */
	bool                      has_tree; /* from the fork until nothing of it is left */
	bool                      ending, killing;
	int64_t                   kill_ns;       /* with `ending` */
	int64_t                   kill_pause_ns; /* until the next round of killing */
};

/* ---- who we are ---- */

/* A group of our own: a signal to the front's group must not take both. Nothing but KILL and STOP reaches us. */
static void start(struct warden *warden)
{
	sigset_t all, child;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGCONT); /* stopped, we would not see the front die */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* The least: a front that was stopped need not hear of every stop of the command meanwhile. */
	setsockopt(warden->front, SOL_SOCKET, SO_SNDBUF, &(int){0}, sizeof(int));
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	warden->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	warden->alarm = zkl__alarm_open();
	if (warden->signals < 0 || warden->alarm < 0) {
		zkl__message_say("cannot start the warden: %s", strerror(errno));
		_exit(1);
	}
	zkl__title_set(&warden->options, NAME);
}

/* ---- reports ---- */

/* They come in the order of their types. Where the front does not read, as one that is stopped, they stay. */
static void send_reports(struct warden *warden)
{
	warden->unsent = true;
	for (unsigned i = 0; i < REPORTS; i++) {
		if (warden->reports[i].type == 0)
			continue;
		if (send(warden->front, &warden->reports[i], sizeof(warden->reports[i]), MSG_NOSIGNAL) < 0)
			return;
		warden->reports[i].type = 0;
	}
	warden->unsent = false;
}

static void report(struct warden *warden, struct zkl__report what)
{
	what.command = warden->group;
	warden->reports[what.type == ZKL__REPORT_CONTINUED ? ZKL__REPORT_STOPPED : what.type] = what;
	send_reports(warden);
}

static void report_exec(struct warden *warden)
{
	ssize_t length = read(warden->exec, &warden->failure, sizeof(warden->failure));

	close(warden->exec);
	warden->exec = -1;
	/* A failure is reported when its process is gone too. */
	if (length != (ssize_t)sizeof(warden->failure))
		report(warden, (struct zkl__report){.type = ZKL__REPORT_SPAWNED, .value = warden->cgroup->error});
}

/* The command ended. `alone`: it left nothing behind. */
static void report_end(struct warden *warden, int wait_status, bool alone)
{
	if (warden->exec >= 0)
		report_exec(warden);
	if (warden->failure.type != 0)
		report(warden, warden->failure);
	else
		report(warden, (struct zkl__report){.type = ZKL__REPORT_EXITED, .value = wait_status, .alone = alone});
}

/* ---- children ---- */

static void signal_tree(const struct warden *warden, int sig)
{
	const struct zkl__proctree_root us = {.pid = getpid(), .cgroup = warden->cgroup};

	if (sig == SIGKILL)
		zkl__proctree_kill(&us);
	else
		zkl__proctree_sweep(&us, sig);
}

/* How the command ended, when it did. */
struct end {
	bool ended;
	int  status;
};

static void look_at_init(struct warden *warden, int status)
{
	/* Stopped, it would not see the last process go. */
	if (WIFSTOPPED(status))
		kill(warden->init, SIGCONT);
	else if (!WIFCONTINUED(status))
		warden->init = 0;
}

static void look_at_command(struct warden *warden, int status, struct end *ret)
{
	if (WIFSTOPPED(status)) {
		report(warden, (struct zkl__report){.type = ZKL__REPORT_STOPPED, .value = WSTOPSIG(status)});
	} else if (WIFCONTINUED(status)) {
		report(warden, (struct zkl__report){.type = ZKL__REPORT_CONTINUED});
	} else {
		warden->command = 0;
		*ret = (struct end){true, status};
	}
}

/* True: no child is left. */
static bool reap_children(struct warden *warden, struct end *ret)
{
	pid_t pid;
	int   status;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED | __WALL)) > 0) {
		if (pid == warden->command)
			look_at_command(warden, status, ret);
		else if (pid == warden->init)
			look_at_init(warden, status);
	}
	return pid < 0 && errno == ECHILD;
}

/* Who is traced is his tracer's to reap first: that may take long, but who has ended does nothing any more. */
static void look_at_traced_command(struct warden *warden, struct end *ret)
{
	struct zkl__process command;
	int                 status = -1;

	if (warden->command == 0 || !zkl__process_read(warden->command, &command) || !command.dead)
		return;
	/* It may have ended just now, and is ours. */
	if (waitpid(warden->command, &status, WNOHANG | __WALL) == 0)
		status = zkl__process_end(warden->command);
	if (status < 0) {
		zkl__message_say("how the command ended is told to the process that traces it, and not to us");
		status = ZKL__STATUS_FAILED << 8; /* as wait() has it */
	}
	warden->command = 0;
	*ret = (struct end){true, status};
}

static void unwatch(struct warden *warden)
{
	if (warden->watch >= 0)
		close(warden->watch);
	warden->watch = -1;
}

/* The command, or one of those that it has left behind. Where it is traced, no SIGCHLD tells us of its end. */
static bool somebody_lives(struct warden *warden)
{
	const pid_t living = warden->command > 0 ? warden->command : zkl__proctree_living_child(NULL, 0);

	if (living != warden->watched) {
		unwatch(warden);
		warden->watch = living > 0 ? (int)syscall(SYS_pidfd_open, living, 0) : -1;
		warden->watched = living;
	}
	return living != 0;
}

/* An init to whom the command has left nobody does not hear of our having reaped it. While a tracer keeps somebody in there from
 * being reaped, init cannot end. */
static bool init_is_alone(const struct warden *warden)
{
	const struct zkl__proctree_root us = {.pid = getpid(), .cgroup = warden->cgroup};

	return warden->init > 0 && zkl__proctree_count(&us) == 1;
}

/* The next command gets one of its own. */
static void remove_cgroup(struct warden *warden)
{
	if (warden->events >= 0)
		close(warden->events);
	warden->events = -1;
	zkl__cgroup_remove(warden->cgroup);
}

/* A subreaper without living children has no living descendants: whoever loses its parent becomes a child of ours, or of init.
 * `closely`: who is dead and not ours to reap is no child. */
static void reap(struct warden *warden, bool closely)
{
	struct end command = {0};

	if (!warden->has_tree)
		return;
	bool childless = reap_children(warden, &command);
	if (closely && !childless && !command.ended)
		look_at_traced_command(warden, &command);
	if (command.ended && init_is_alone(warden)) {
		kill(warden->init, SIGKILL);
		waitpid(warden->init, NULL, __WALL);
		warden->init = 0;
		childless = reap_children(warden, &command);
	}
	if (closely && !childless)
		childless = !somebody_lives(warden);
	warden->has_tree = !childless || zkl__cgroup_is_populated(warden->cgroup);
	if (command.ended)
		report_end(warden, command.status, !warden->has_tree);
	else if (!warden->has_tree)
		report(warden, (struct zkl__report){.type = ZKL__REPORT_GONE});
	/* Nobody need wait for that. */
	if (!warden->has_tree) {
		unwatch(warden);
		warden->watched = 0;
		remove_cgroup(warden);
	}
}

/* It is not reaped yet: its group's id cannot be somebody else's. It may have left its group. */
static void signal_command(const struct warden *warden, int sig)
{
	if (kill(-warden->group, sig) < 0 && errno == ESRCH)
		kill(warden->command, sig);
}

static void kill_tree(struct warden *warden)
{
	warden->kill_pause_ns = zkl__kill_pause_next(warden->kill_pause_ns);
	/* First what needs no file: none may be to be had. */
	if (warden->command > 0) {
		kill(-warden->group, SIGKILL);
		kill(warden->command, SIGKILL);
	}
	if (warden->init > 0)
		kill(warden->init, SIGKILL);
	signal_tree(warden, SIGKILL);
	for (unsigned i = 0; i < KILL_BURST && warden->has_tree; i++) {
		zkl__proctree_kill_children();
		reap(warden, false);
	}
}

static void end_tree(struct warden *warden)
{
	if (warden->ending || !warden->has_tree)
		return;
	warden->ending = true;
	warden->kill_ns = zkl__alarm_now() + warden->shared->grace_ns;
	if (!atomic_flag_test_and_set(&warden->shared->termed))
		signal_tree(warden, SIGTERM);
}

/* TERM was sent: KILL follows after the grace, and never later than the deadline of the lock and the grace. */
static bool grace_is_over(struct warden *warden, int64_t now)
{
	const int64_t deadline = zkl__deadline_ns(&warden->shared->deadline);

	if (deadline < ZKL__NEVER && deadline + warden->shared->grace_ns < warden->kill_ns)
		warden->kill_ns = deadline + warden->shared->grace_ns;
	return now >= warden->kill_ns;
}

/* The one thing that needs no order. */
static void keep_deadline(struct warden *warden)
{
	const int64_t now = zkl__alarm_now();

	if (!warden->has_tree)
		return;
	if (zkl__deadline_passed(&warden->shared->deadline, now) || warden->front < 0)
		end_tree(warden);
	if (warden->ending && grace_is_over(warden, now))
		warden->killing = true;
	if (warden->killing)
		kill_tree(warden);
}

static int64_t next_look(const struct warden *warden)
{
	if (!warden->has_tree)
		return ZKL__NEVER;
	if (warden->killing)
		return zkl__alarm_now() + warden->kill_pause_ns;
	if (warden->ending)
		return warden->kill_ns;
	return zkl__deadline_ns(&warden->shared->deadline);
}

/* ---- orders ---- */

static int set_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return setenv(name, text, 1);
}

/* -1: errno. */
static int set_environment(const struct zkl__child_options *options, const zkl_grant *grant)
{
	/* At a fence there is a token, and no lock. */
	const bool is_lock = grant->node[0] != '\0';

	if (set_number("ZKLOCK_TOKEN", grant->token) < 0)
		return -1;
	if (is_lock && (setenv("ZKLOCK_PATH", options->path, 1) < 0 || setenv("ZKLOCK_NODE", grant->node, 1) < 0 ||
	                set_number("ZKLOCK_EPOCH", grant->epoch) < 0))
		return -1;
	return 0;
}

/* A namespace can fail when it is half made. */
static void end_children(void)
{
	zkl__proctree_kill_children();
	while (waitpid(-1, NULL, __WALL) > 0)
		continue;
}

static void spawn(struct warden *warden, const struct zkl__order *order)
{
	/* We may have been stopped since it was ordered. */
	if (zkl__deadline_passed(&warden->shared->deadline, zkl__alarm_now())) {
		report(warden, (struct zkl__report){.type = ZKL__REPORT_GONE});
		return;
	}
	warden->group = 0;
	warden->failure = (struct zkl__report){0};
	struct zkl__command command;
	if (set_environment(&warden->options, &order->grant) < 0 ||
	    zkl__command_fork(&warden->options, warden->cgroup, order->foreground, &command) < 0) {
		const int error = errno;
		end_children();
		report(warden, (struct zkl__report){.type = ZKL__REPORT_FORK_FAILED, .value = error});
		remove_cgroup(warden);
		return;
	}
	warden->command = warden->group = command.pid;
	warden->init = command.init;
	warden->exec = command.exec;
	warden->events = zkl__cgroup_watch(warden->cgroup);
	warden->has_tree = true;
	/* What was ordered for a tree that is gone is not meant for this one. */
	warden->ending = warden->killing = false;
	warden->kill_pause_ns = ZKL__KILL_PAUSE_NS;
}

/* What was stopped goes on only under a live lease. Who was told to end has been continued for that, and has its grace. */
static bool may_go_on(const struct warden *warden)
{
	const int64_t now = zkl__alarm_now();

	return !zkl__deadline_passed(&warden->shared->deadline, now) ||
	       (warden->ending && !warden->killing && now < warden->kill_ns);
}

static void pass_signal(const struct warden *warden, int sig)
{
	if (sig == SIGCONT && !may_go_on(warden))
		return;
	if (warden->command > 0)
		signal_command(warden, sig);
	else if (warden->has_tree)
		signal_tree(warden, sig);
}

static void pass_unsent(const struct warden *warden)
{
	const uint64_t unsent = atomic_exchange(&warden->shared->unsent, 0);

	for (int sig = 1; sig < 64; sig++) {
		if ((unsent >> sig & 1) != 0)
			pass_signal(warden, sig);
	}
}

static void obey(struct warden *warden, const struct zkl__order *order)
{
	switch (order->type) {
	case ZKL__ORDER_SPAWN:
		spawn(warden, order);
		break;
	case ZKL__ORDER_SIGNAL:
		pass_signal(warden, order->signal);
		break;
	case ZKL__ORDER_TERM:
		end_tree(warden);
		break;
	case ZKL__ORDER_KILL:
		warden->killing = true;
		break;
	case ZKL__ORDER_LOOK:
		break;
	}
}

static void read_orders(struct warden *warden)
{
	struct zkl__order order;
	ssize_t           length;

	while ((length = recv(warden->front, &order, sizeof(order), 0)) == (ssize_t)sizeof(order))
		obey(warden, &order);
	if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
		pass_unsent(warden);
		return;
	}
	close(warden->front);
	warden->front = -1;
	if (!warden->has_tree)
		return;
	end_tree(warden); /* first: what is said may block */
	zkl__message_say("the process that holds the lock died: ending the command");
}

/* ---- the loop ---- */

static void sleep_until_something(struct warden *warden)
{
	const short   of_front = warden->unsent ? POLLIN | POLLOUT : POLLIN;
	struct pollfd fds[] = {{warden->front, of_front, 0}, {warden->signals, POLLIN, 0}, {warden->alarm, POLLIN, 0},
	                       {warden->exec, POLLIN, 0},    {warden->events, POLLPRI, 0}, {warden->watch, POLLIN, 0}};
	struct signalfd_siginfo info;

	zkl__alarm_set(warden->alarm, next_look(warden));
	poll(fds, sizeof(fds) / sizeof(fds[0]), -1);
	while (read(warden->signals, &info, sizeof(info)) > 0)
		continue;
	if (fds[5].revents != 0)
		unwatch(warden);
	if (fds[4].revents != 0)
		zkl__cgroup_told(warden->events);
	if (fds[3].revents != 0)
		report_exec(warden);
	if (fds[0].revents & POLLOUT)
		send_reports(warden);
	if (fds[0].revents != 0)
		read_orders(warden);
}

_Noreturn void zkl__warden_run(const struct zkl__child_options *options, struct zkl__shared *shared,
                               struct zkl__cgroup *cgroup, int socket)
{
	struct warden warden = {.options = *options,
	                        .shared = shared,
	                        .cgroup = cgroup,
	                        .events = -1,
	                        .front = socket,
	                        .exec = -1,
	                        .watch = -1,
	                        .kill_pause_ns = ZKL__KILL_PAUSE_NS};

	start(&warden);
	while (warden.front >= 0 || warden.has_tree) {
		sleep_until_something(&warden);
		reap(&warden, true);
		keep_deadline(&warden);
	}
	_exit(0);
}
