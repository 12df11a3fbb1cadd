/* SPDX-License-Identifier: Apache-2.0 */
#include "front.h"
#include "alarm.h"
#include "look.h"
#include "message.h"
#include "session_options.h"
#include "wrapper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long the end waits for the servers' word, should they not give it: with a lock to give back, when told to end
 * while waiting, and when -w or the connect timeout is over, which must not be exceeded by much. */
#define RELEASE_MS 2000
#define LEAVE_MS   1000
#define GIVE_UP_MS 200

/* A look at the queue that has no answer for so long is given up; whether there is one is looked at so often. */
#define LOOK_MS      1000
#define LOOK_EACH_NS (10 * ZKL__NS_PER_MS)
/* A wait that is over before is not shown, unless it is in a queue. */
#define SHOW_FIRST_MS 1000

/* Who has led for so long may fail again for a first time. */
#define STEADY_NS (60000 * ZKL__NS_PER_MS)

/* Killing: when the warden has had its time, and when to say that it does not help. */
#define KILL_HELP_NS (200 * ZKL__NS_PER_MS)
#define KILL_TELL_NS (2000 * ZKL__NS_PER_MS)

/* The lease is looked at again after this part of what is left of it: some T/24 while proofs come. What the warden
 * knows of it is older than the truth by as much. */
#define LOOK_PART   12
#define LOOK_MIN_MS 10

/* ZooKeeper's. A path that misses a node is one whose chroot is missing: all else is made. */
#define NO_NODE    (-101)
#define OVER_QUOTA (-125)

static void attempt(struct zkl__front *front);
static void step(struct zkl__front *front, enum zkl__supervisor_event_type type, int value);
static void on_lock_event(const zkl_event *event, void *user);

#define BECAUSE(front, ...) snprintf((front)->why, sizeof((front)->why), __VA_ARGS__)
#define TELL(front, ...)                                                                                               \
	do {                                                                                                           \
		if ((front)->options->verbose)                                                                         \
			zkl__message_say(__VA_ARGS__);                                                                 \
	} while (0)

static double seconds_since(int64_t then_ns)
{
	return (double)(zkl__alarm_now() - then_ns) / 1e9;
}

/* ---- how the wait goes ---- */

static int64_t wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static bool is_waiting(const struct zkl__front *front)
{
	return front->supervisor.state == ZKL__STATE_WAITING || front->supervisor.state == ZKL__STATE_RELEASING;
}

static bool is_connected(const struct zkl__front *front)
{
	zkl_stats stats = ZKL_STATS_INIT;

	return zkl_session_stats(front->session, &stats) == 0 && stats.connected;
}

static void show(struct zkl__front *front)
{
	char line[400], why[250];

	if (!front->shows || !is_waiting(front) || !zkl__message_can_show())
		return;
	if (is_connected(front)) {
		zkl__progress_line(&front->progress, wall_ms(), line, sizeof(line));
	} else {
		zkl__session_why_unreached(front->session, why, sizeof(why));
		snprintf(line, sizeof(line), "no server in reach (%s)", why);
	}
	zkl__message_show(line);
}

/* How many contenders there are; 0 or less: not known. */
static int end_look(struct zkl__front *front, struct zkl__look *ret)
{
	struct zkl__looking *looking = front->looking;

	front->looking = NULL;
	return looking == NULL ? 0 : zkl__looking_end(looking, ret);
}

/* A list and one read on the servers. */
static void begin_look(struct zkl__front *front)
{
	front->look = false;
	front->look_end_ns = zkl__alarm_now() + LOOK_MS * ZKL__NS_PER_MS;
	if (is_connected(front))
		front->looking = zkl__claim_look(&front->claim);
	if (front->looking == NULL)
		show(front);
}

/* What cannot be had now stays as it was. */
static void look_at_queue(struct zkl__front *front)
{
	struct zkl__look found;
	char             who[400];

	if (front->looking == NULL && front->look && !front->granted)
		begin_look(front);
	if (front->looking == NULL || (!zkl__looking_is_over(front->looking) && zkl__alarm_now() < front->look_end_ns))
		return;
	if (end_look(front, &found) > 0 && !front->granted) {
		front->progress.looked = true;
		front->progress.holder = found.peer;
		front->progress.ahead = found.ahead;
		zkl__progress_holder(&front->progress, wall_ms(), who, sizeof(who));
		if (front->tell)
			zkl__message_say("%s is %s%s", front->options->path, who,
			                 found.lasting ? ", by a node that no session ends: delete it by hand" : "");
		front->tell = false;
	}
	show(front);
}

/* When what is shown has become old. Who shows nothing asks nothing. */
static void look_again(struct zkl__front *front, int64_t now)
{
	if (!front->shows || now < front->show_ns)
		return;
	front->look = zkl__message_can_show();
	front->show_ns = now + zkl__progress_pause_ms(&front->progress) * ZKL__NS_PER_MS;
}

/* What was known of a wait: another one begins then. */
static void forget_wait(struct zkl__front *front, int64_t since_ns)
{
	front->progress = (struct zkl__progress){.path = front->options->path};
	front->since_ns = since_ns;
	front->show_ns = since_ns + SHOW_FIRST_MS * ZKL__NS_PER_MS;
	front->queued_ns = 0;
	front->requeued = 0;
}

/* A place in the queue, or another one. */
static void on_waiting(struct zkl__front *front, const zkl_event *event)
{
	front->progress.ahead = event->ahead;
	if (front->queued_ns == 0 || event->requeued > front->requeued) {
		front->look = front->options->verbose || (front->shows && zkl__message_can_show());
		front->tell = front->options->verbose;
	} else {
		TELL(front, "%s: at most %" PRIu32 " before us", front->options->path, event->ahead);
		show(front);
	}
	if (front->queued_ns == 0)
		front->queued_ns = zkl__alarm_now();
	front->requeued = event->requeued;
	front->reached = true;
}

/* Within what this option says. */
static void because_unreached(struct zkl__front *front, const char *option, int64_t limit_ms)
{
	char why[230];

	zkl__session_why_unreached(front->session, why, sizeof(why));
	BECAUSE(front,
	        "no ensemble reached at %.120s within %.3f s (%s): check the servers and %s, or give a longer %s",
	        front->servers, (double)limit_ms / 1e3, why, front->servers_from, option);
}

static void because_unanswered(struct zkl__front *front)
{
	if (front->options->wait_ms > 0)
		because_unreached(front, "-w", front->options->wait_ms);
	else
		because_unreached(front, "--connect-timeout", front->options->connect_ms);
}

/* ---- the lease ---- */

/* Asks the lock, and passes its answer on to the warden. */
static bool lease_lives(struct zkl__front *front)
{
	struct zkl__deadline *deadline = &front->child.shared->deadline;
	const int64_t         now = zkl__alarm_now(); /* before the question: never later than the truth */
	const int64_t         left_ms = zkl__claim_check(&front->claim, front->grant.token);
	const int64_t         next_ms = left_ms / LOOK_PART;

	front->look_ns = now + (next_ms > LOOK_MIN_MS ? next_ms : LOOK_MIN_MS) * ZKL__NS_PER_MS;
	return left_ms > 0 && zkl__deadline_move(deadline, now, now + left_ms * ZKL__NS_PER_MS);
}

static void because_lost(struct zkl__front *front)
{
	BECAUSE(front, "%s %s lost, %s; command ended", front->claim.words->noun, front->options->path,
	        zkl__claim_why_lost(&front->claim));
}

/* The grant is over for good. The warden may have a later moment in mind. */
static void lose(struct zkl__front *front)
{
	if (front->told_lost)
		return;
	front->told_lost = true;
	TELL(front, "%s %s", front->claim.words->lost, front->options->path);
	because_lost(front);
	zkl__deadline_end(&front->child.shared->deadline, zkl__alarm_now());
	zkl__child_order(&front->child, ZKL__ORDER_LOOK);
	step(front, ZKL__ON_LOST, 0);
}

static void look_at_lease(struct zkl__front *front)
{
	if (front->granted && !front->told_lost && !lease_lives(front))
		lose(front);
}

static void feed(struct zkl__front *front, enum zkl__supervisor_event_type type, int value)
{
	look_at_lease(front);
	step(front, type, value);
}

/* ---- events of the lock ---- */

static void on_granted(struct zkl__front *front, const zkl_event *event)
{
	zkl_stats stats = ZKL_STATS_INIT;
	char      queued[64] = "", asked[64] = "";

	zkl__child_renew(&front->child);
	front->reached = true;
	front->grant = *event->grant;
	front->granted_ns = zkl__alarm_now();
	if (!lease_lives(front)) {
		step(front, ZKL__ON_GRANTED_LATE, 0);
		return;
	}
	front->granted = true;
	zkl__message_show(NULL);
	if (front->queued_ns > 0)
		snprintf(queued, sizeof(queued), ", %.3f s of it in the queue", seconds_since(front->queued_ns));
	zkl_session_stats(front->session, &stats);
	if (stats.timeout_ms != front->options->timeout_ms)
		snprintf(asked, sizeof(asked), " (asked for: %.3f s)", (double)front->options->timeout_ms / 1e3);
	TELL(front, "%s %s after %.3f s%s, token %" PRIu64 ", epoch %" PRIu64 ", session timeout %.3f s%s",
	     front->claim.words->gained, front->options->path, seconds_since(front->since_ns), queued,
	     front->grant.token, front->grant.epoch, (double)stats.timeout_ms / 1e3, asked);
	step(front, ZKL__ON_GRANTED, 0);
}

static const char *text_of(const zkl_event *event)
{
	return event->error != NULL ? event->error->message : zkl_strerror(event->code);
}

static int open_claim(struct zkl__front *front, zkl_error *reterr)
{
	zkl_options options = ZKL_OPTIONS_INIT;

	options.on_event = on_lock_event;
	options.user = front;
	options.stop_ms = front->child.shared->grace_ns / ZKL__NS_PER_MS;
	return zkl__claim_open(&front->claim, front->session, front->options->path, front->options->leader, &options,
	                       reterr);
}

static void close_claim(struct zkl__front *front)
{
	struct zkl__look unseen;

	end_look(front, &unseen);
	zkl__claim_close(&front->claim);
}

/* The servers may grant another session timeout than was asked for, and the default grace can follow. False: it need not
 * or cannot, and `why` says so. */
static bool fit_grace(struct zkl__front *front)
{
	zkl_stats     stats = ZKL_STATS_INIT;
	const int64_t grace_ms = front->child.shared->grace_ns / ZKL__NS_PER_MS;
	zkl_error     error;

	zkl_session_stats(front->session, &stats);
	if (stats.timeout_ms == 0 || zkl__run_options_fit(front->options, stats.timeout_ms, true, front->why) < 0 ||
	    grace_ms <= stats.timeout_ms / ZKL__GRACE_MOST_PART)
		return false;
	front->child.shared->grace_ns = stats.timeout_ms / ZKL__GRACE_PART * ZKL__NS_PER_MS;
	close_claim(front);
	if (open_claim(front, &error) == 0)
		return true;
	BECAUSE(front, "%s", error.message);
	return false;
}

/* The servers' word on the timeout can come before the lock is made, before it is started, or after. */
static void ended(struct zkl__front *front, int code)
{
	const size_t used = strlen(front->why);

	if (code == ZKL_EACCES)
		snprintf(front->why + used, sizeof(front->why) - used, " (%s)", front->auth_from);
	if (code == ZKL_EINVAL && fit_grace(front))
		attempt(front);
	else
		step(front, ZKL__ON_ENDED, code);
}

static const char *missing_chroot(const struct zkl__front *front, const zkl_event *event)
{
	const bool is_missing = event->code == ZKL_EPATH && event->error != NULL && event->error->zk_code == NO_NODE;

	return is_missing ? strchr(front->servers, '/') : NULL;
}

static void because_without_chroot(struct zkl__front *front, const char *chroot)
{
	BECAUSE(front, "%s: there is no chroot %.190s, which is never made here: zkCli.sh create %.190s",
	        front->servers_from, chroot, chroot);
}

/* At the end of -w. Who holds is not known where no server can be asked. */
static int not_granted(struct zkl__front *front)
{
	char why[200];

	if (is_connected(front)) {
		TELL(front, "%s: not granted after %.3f s", front->options->path, seconds_since(front->started_ns));
		return ZKL_ETIMEDOUT;
	}
	zkl__session_why_unreached(front->session, why, sizeof(why));
	BECAUSE(front, "%s: not granted within %.3f s, and no server is reached now (%s): check the servers and %s",
	        front->options->path, (double)front->options->wait_ms / 1e3, why, front->servers_from);
	return ZKL_ENOTCONN;
}

static bool is_over_quota(const zkl_event *event)
{
	return event->code == ZKL_EZK && event->error != NULL && event->error->zk_code == OVER_QUOTA;
}

/* As an access list, a quota is what its owner permits, and no failure of ours. Credentials have no part in it. */
static void refused_by_quota(struct zkl__front *front, const zkl_event *event)
{
	BECAUSE(front, "%s (the path's, or that of a node above it: zkCli.sh listquota)", text_of(event));
	step(front, ZKL__ON_ENDED, ZKL_EACCES);
}

static void on_ended(struct zkl__front *front, const zkl_event *event)
{
	const char *chroot = missing_chroot(front, event);
	int         code = event->code;

	if (is_over_quota(event) && !front->granted) {
		refused_by_quota(front, event);
		return;
	}
	if (front->granted)
		lose(front);
	/* A busy lock is no failure: it is told by the status alone. */
	else if (event->code == ZKL_EBUSY)
		front->look = front->tell = front->options->verbose;
	else if (event->code == ZKL_ETIMEDOUT)
		code = not_granted(front);
	else if (event->code == ZKL_ENOTCONN)
		because_unanswered(front);
	else if (chroot != NULL)
		because_without_chroot(front, chroot);
	else
		BECAUSE(front, "%s", text_of(event));
	ended(front, code);
}

static void on_lock_event(const zkl_event *event, void *user)
{
	struct zkl__front *front = user;

	switch (event->type) {
	case ZKL_EV_WAITING:
		on_waiting(front, event);
		break;
	case ZKL_EV_GRANTED:
		on_granted(front, event);
		break;
	case ZKL_EV_LOST: /* also of a grant that came too late, and was given back */
		if (front->granted) {
			lose(front);
			because_lost(front);
		}
		break;
	case ZKL_EV_ENDED:
		on_ended(front, event);
		break;
	case ZKL_EV_SUSPENDED:
		TELL(front, "servers do not confirm the session: %.3f s left until the loss",
		     (double)event->lease_ms / 1e3);
		break;
	case ZKL_EV_RESUMED:
		TELL(front, "servers confirm the session again");
		break;
	case ZKL_EV_LEADER: /* an election's */
		break;
	}
}

/* ---- events of the command ---- */

static void tell_end(struct zkl__front *front, int wait_status)
{
	if (WIFSIGNALED(wait_status))
		TELL(front, "the command died by signal %d (%s) after %.3f s", WTERMSIG(wait_status),
		     strsignal(WTERMSIG(wait_status)), seconds_since(front->granted_ns));
	else
		TELL(front, "the command exited with status %d after %.3f s", WEXITSTATUS(wait_status),
		     seconds_since(front->granted_ns));
}

/* How what it starts is found, when it has to be ended. */
static void tell_tree(struct zkl__front *front, int cgroup_error)
{
	const struct zkl__cgroup *cgroup = &front->child.cgroup;

	if (cgroup_error == 0)
		TELL(front, "the command's tree: cgroup %s/%s", cgroup->path, cgroup->name);
	else if (cgroup->path[0] == '\0')
		TELL(front, "the command's tree: process walk, since no cgroup v2 is mounted");
	else
		TELL(front, "the command's tree: process walk, since no cgroup can be made in %s: %s", cgroup->path,
		     strerror(cgroup_error));
}

static void on_report(struct zkl__front *front, const struct zkl__report *report)
{
	switch (report->type) {
	case ZKL__REPORT_SPAWNED:
		TELL(front, "started %s, process %d", front->options->command[0], (int)report->command);
		tell_tree(front, report->value);
		break;
	case ZKL__REPORT_EXEC_FAILED:
	case ZKL__REPORT_FORK_FAILED:
		feed(front, ZKL__ON_NOT_STARTED,
		     zkl__wrapper_not_started(report, front->options->command[0], front->why));
		break;
	case ZKL__REPORT_STOPPED:
		/* Who was told to end may ask, too. Without the lock the warden passes it on for as long as the grace lasts. */
		if (zkl__turn_need_not_stop(&front->turn, front->child.command, report->value))
			zkl__child_signal(&front->child, SIGCONT);
		else
			feed(front, ZKL__ON_STOPPED, report->value);
		break;
	case ZKL__REPORT_CONTINUED:
		feed(front, ZKL__ON_CONTINUED, 0);
		break;
	case ZKL__REPORT_EXITED:
		tell_end(front, report->value);
		front->told = zkl__wrapper_is_told(report->value, front->turn.given);
		if (front->told)
			feed(front, ZKL__ON_TOLD, WTERMSIG(report->value));
		if (zkl__alarm_now() - front->granted_ns >= STEADY_NS)
			feed(front, ZKL__ON_STEADY, 0);
		feed(front, report->alone ? ZKL__ON_EXITED_ALONE : ZKL__ON_EXITED, report->value);
		break;
	case ZKL__REPORT_GONE:
		feed(front, ZKL__ON_GONE, 0);
		break;
	case ZKL__REPORT_WARDEN_DIED:
		if (front->why[0] == '\0') /* else it had to, by us too */
			BECAUSE(front, "the zklock-warden process was killed");
		feed(front, ZKL__ON_WARDEN_DIED, 0);
		break;
	}
}

/* ---- actions ---- */

static int64_t wait_left_ms(const struct zkl__front *front)
{
	if (front->options->wait_ms <= 0)
		return front->options->wait_ms;
	const int64_t left = front->options->wait_ms - (zkl__alarm_now() - front->started_ns) / ZKL__NS_PER_MS;
	return left > 1 ? left : 1; /* 0 would be a try */
}

static void attempt(struct zkl__front *front)
{
	zkl_error error;
	const int rc = zkl__claim_start(&front->claim, wait_left_ms(front), &error);

	front->why[0] = '\0';
	if (rc < 0) {
		BECAUSE(front, "%s", error.message);
		ended(front, rc);
	}
}

static void spawn(struct zkl__front *front)
{
	front->turn.given = zkl__terminal_is_ours(front->turn.terminal);
	zkl__child_spawn(&front->child, &front->grant, front->turn.given);
}

static bool take_terminal(struct zkl__front *front)
{
	return zkl__turn_take(&front->turn, front->child.command);
}

static void take_terminal_from_stopped(struct zkl__front *front)
{
	if (take_terminal(front) && !front->options->quiet)
		zkl__message_say(
			"the command is stopped, %s %s stays held: Ctrl-C ends it; Ctrl-Z stops zklock-run too, "
			"which keeps it for a short while only, until fg or bg",
			front->claim.words->noun, front->options->path);
}

/* Under a live lease the warden is asked, since a large tree takes a while and nobody else moves the deadline on. When
 * the lock is lost, both of us act: either may be stopped. */
static void begin_grace(struct zkl__front *front)
{
	TELL(front, "sending TERM to the command and what it has started");
	front->grace_end_ns = zkl__alarm_now() + front->child.shared->grace_ns;
	if (front->told_lost)
		zkl__child_term(&front->child);
	else
		zkl__child_order(&front->child, ZKL__ORDER_TERM);
}

static void kill_tree(struct zkl__front *front)
{
	const int64_t since_ns = zkl__alarm_now() - front->kill_begin_ns;
	int           living = 0;
	char          who[64];

	zkl__child_order(&front->child, ZKL__ORDER_KILL);
	if (front->told_lost || front->child.orphaned || since_ns >= KILL_HELP_NS)
		living = zkl__child_kill(&front->child);
	if (living > 0 && !front->told_stuck && since_ns >= KILL_TELL_NS &&
	    zkl__child_survivor(&front->child, who, sizeof(who))) {
		front->told_stuck = true;
		zkl__message_say(
			"cannot kill %d of the command's processes, as %s: the session is kept alive until they "
			"end",
			living, who);
	}
	front->kill_pause_ns = zkl__kill_pause_next(front->kill_pause_ns);
}

static void begin_killing(struct zkl__front *front)
{
	TELL(front, "sending KILL to the command and what it has started");
	front->kill_begin_ns = zkl__alarm_now();
	front->kill_pause_ns = ZKL__KILL_PAUSE_NS;
	kill_tree(front);
}

/* At the end of a term, or of a grant that came too late. Ctrl-C is for us again. Who leads on says now why a term was ended. */
static void let_go(struct zkl__front *front)
{
	if (front->granted && front->why[0] != '\0')
		zkl__message_say("%s", front->why);
	if (front->granted && !front->told_lost)
		TELL(front, "%s %s", front->claim.words->left, front->options->path);
	take_terminal(front);
	zkl__claim_release(&front->claim);
	front->granted = front->told_lost = front->told_stuck = front->told_frozen = front->look = false;
	forget_wait(front, zkl__alarm_now());
}

static int64_t min_hold_end_ns(const struct zkl__front *front)
{
	return front->granted_ns + front->options->min_hold_ms * ZKL__NS_PER_MS;
}

/* Ctrl-C is for us again. */
static void begin_hold(struct zkl__front *front)
{
	const int64_t left_ns = min_hold_end_ns(front) - zkl__alarm_now();

	take_terminal(front);
	if (left_ns > 0)
		TELL(front, "holding %s for %.3f s more: --min-hold", front->options->path, (double)left_ns / 1e9);
}

static void begin_pause(struct zkl__front *front, int pause_ms)
{
	const int how = front->supervisor.term.wait_status;

	if (how != 0 && !front->options->quiet && !front->options->verbose)
		zkl__message_say("the command %s %d, campaigning again in %.3f s",
		                 WIFSIGNALED(how) ? "died by signal" : "exited with status",
		                 WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how), pause_ms / 1e3);
	else
		TELL(front, "campaigning again in %.3f s", pause_ms / 1e3);
	front->pause_end_ns = zkl__alarm_now() + pause_ms * ZKL__NS_PER_MS;
	forget_wait(front, front->pause_end_ns);
}

/* Who is frozen, and would not die of the signal, does not hear of it. */
static void forward(struct zkl__front *front, int sig)
{
	const struct zkl__cgroup *cgroup = &front->child.cgroup;

	zkl__child_signal(&front->child, sig);
	if (front->told_frozen || !zkl__cgroup_is_frozen(cgroup))
		return;
	front->told_frozen = true;
	zkl__message_say(
		"the command's cgroup %s/%s is frozen: what it does at a signal has to wait until it is thawed",
		cgroup->path, cgroup->name);
}

static void act(struct zkl__front *front, const struct zkl__supervisor_action *action)
{
	switch (action->type) {
	case ZKL__DO_ATTEMPT:
		attempt(front);
		break;
	case ZKL__DO_RELEASE:
		let_go(front);
		break;
	case ZKL__DO_SPAWN:
		spawn(front);
		break;
	case ZKL__DO_FORWARD:
		forward(front, action->value);
		break;
	case ZKL__DO_CONTINUE:
		zkl__turn_give(&front->turn, front->child.command);
		zkl__child_signal(&front->child, SIGCONT);
		break;
	case ZKL__DO_GIVE_TERMINAL:
		zkl__turn_give(&front->turn, front->child.command);
		break;
	case ZKL__DO_TAKE_TERMINAL:
		take_terminal_from_stopped(front);
		break;
	case ZKL__DO_STOP_SELF:
		zkl__message_show(NULL);
		zkl__wrapper_stop();
		show(front);
		break;
	case ZKL__DO_STAY:
		TELL(front, "waiting for what the command left behind");
		take_terminal(front);
		break;
	case ZKL__DO_TERM:
		begin_grace(front);
		break;
	case ZKL__DO_KILL:
		begin_killing(front);
		break;
	case ZKL__DO_HOLD:
		begin_hold(front);
		break;
	case ZKL__DO_PAUSE:
		begin_pause(front, action->value);
		break;
	case ZKL__DO_EXIT: /* the loop ends, and no look that had begun keeps it from that */
		front->look_end_ns = 0;
		zkl__message_show(NULL);
		break;
	}
}

static void step(struct zkl__front *front, enum zkl__supervisor_event_type type, int value)
{
	struct zkl__supervisor_actions actions;

	zkl__supervisor_step(&front->supervisor, &(struct zkl__supervisor_event){type, value}, &actions);
	for (unsigned i = 0; i < actions.count; i++)
		act(front, &actions.list[i]);
}

/* ---- time ---- */

static int64_t connect_end_ns(const struct zkl__front *front)
{
	return front->started_ns + front->options->connect_ms * ZKL__NS_PER_MS;
}

static int64_t max_hold_end_ns(const struct zkl__front *front)
{
	if (front->options->max_hold_ms == 0)
		return ZKL__NEVER;
	return front->granted_ns + front->options->max_hold_ms * ZKL__NS_PER_MS;
}

/* The grace never goes beyond the deadline's. */
static int64_t grace_end_ns(const struct zkl__front *front)
{
	const int64_t deadline = zkl__deadline_ns(&front->child.shared->deadline);
	const int64_t last = deadline < ZKL__NEVER ? deadline + front->child.shared->grace_ns : ZKL__NEVER;

	return last < front->grace_end_ns ? last : front->grace_end_ns;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t state_due_ns(const struct zkl__front *front, int64_t now)
{
	switch (front->supervisor.state) {
	case ZKL__STATE_WAITING:
	case ZKL__STATE_RELEASING:
		return earlier(front->reached ? ZKL__NEVER : connect_end_ns(front),
		               front->shows ? front->show_ns : ZKL__NEVER);
	case ZKL__STATE_PAUSING:
		return front->pause_end_ns;
	case ZKL__STATE_RUNNING:
	case ZKL__STATE_STAYING:
		return max_hold_end_ns(front);
	case ZKL__STATE_ENDING:
		return grace_end_ns(front);
	case ZKL__STATE_KILLING:
		return now + front->kill_pause_ns;
	case ZKL__STATE_HOLDING:
		return min_hold_end_ns(front);
	default:
		return ZKL__NEVER;
	}
}

static int64_t next_due_ns(const struct zkl__front *front)
{
	const int64_t now = zkl__alarm_now();
	int64_t       due = state_due_ns(front, now);

	if (front->looking != NULL)
		due = earlier(due, now + LOOK_EACH_NS);
	if (front->granted && !front->told_lost)
		due = earlier(due, earlier(front->look_ns, zkl__deadline_ns(&front->child.shared->deadline)));
	return due;
}

static void look_at_connection(struct zkl__front *front)
{
	zkl_stats stats = ZKL_STATS_INIT;

	front->reached = zkl_session_stats(front->session, &stats) == 0 && stats.session_id != 0;
	if (front->reached)
		return;
	because_unreached(front, "--connect-timeout", front->options->connect_ms);
	step(front, ZKL__ON_CONNECT_TIMEOUT, 0);
}

static void end_overdue(struct zkl__front *front)
{
	BECAUSE(front, "--max-hold of %.3f s is over, command ended", (double)front->options->max_hold_ms / 1e3);
	feed(front, ZKL__ON_MAX_HOLD_OVER, 0);
}

static void look_at_clock(struct zkl__front *front)
{
	const int64_t now = zkl__alarm_now();

	look_at_lease(front);
	switch (front->supervisor.state) {
	case ZKL__STATE_WAITING:
	case ZKL__STATE_RELEASING:
		if (!front->reached && now >= connect_end_ns(front))
			look_at_connection(front);
		look_again(front, now);
		break;
	case ZKL__STATE_PAUSING:
		if (now >= front->pause_end_ns)
			feed(front, ZKL__ON_PAUSE_OVER, 0);
		break;
	case ZKL__STATE_RUNNING:
	case ZKL__STATE_STAYING:
		if (now >= max_hold_end_ns(front))
			end_overdue(front);
		break;
	case ZKL__STATE_ENDING:
		if (now >= grace_end_ns(front))
			feed(front, ZKL__ON_GRACE_OVER, 0);
		break;
	case ZKL__STATE_KILLING:
		kill_tree(front);
		break;
	case ZKL__STATE_HOLDING:
		if (now >= min_hold_end_ns(front))
			feed(front, ZKL__ON_MIN_HOLD_OVER, 0);
		break;
	default:
		break;
	}
}

/* ---- the loop ---- */

static void read_signals(struct zkl__front *front)
{
	struct signalfd_siginfo info;

	while (read(front->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		if (front->supervisor.state == ZKL__STATE_OVER)
			front->look_end_ns = 0;
		feed(front, ZKL__ON_SIGNALLED, (int)info.ssi_signo);
	}
	zkl__child_reap(&front->child);
}

static void read_reports(struct zkl__front *front)
{
	struct zkl__report report;

	while (zkl__child_next(&front->child, &report))
		on_report(front, &report);
}

/* Time first: after a stop, what the clock says counts before what has piled up. */
void zkl__front_run(struct zkl__front *front)
{
	attempt(front);
	/* Who holds a lock that is busy is told at the end. */
	while (front->supervisor.state != ZKL__STATE_OVER || front->looking != NULL) {
		struct pollfd fds[] = {{zkl_session_fd(front->session), POLLIN, 0},
		                       {front->child.socket, POLLIN, 0},
		                       {front->signals, POLLIN, 0},
		                       {front->alarm, POLLIN, 0}};

		zkl__alarm_set(front->alarm, next_due_ns(front));
		poll(fds, sizeof(fds) / sizeof(fds[0]), -1);
		look_at_clock(front);
		read_signals(front);
		zkl_session_process(front->session);
		read_reports(front);
		look_at_queue(front);
	}
}

/* ---- the ends ---- */

static void log_line(int level, const char *id, const char *message, void *user)
{
	(void)level;
	(void)id;
	(void)user;
	zkl__message_say("%s", message);
}

static int open_session(struct zkl__front *front, zkl_error *reterr)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;

	options.flags = ZKL_MANUAL;
	options.servers = front->servers;
	options.timeout_ms = front->options->timeout_ms;
	options.margin_ms = front->options->margin_ms;
	options.auth = front->auth;
	options.name = front->options->name;
	options.log = front->options->verbose ? log_line : NULL;
	/* The patience of a try. */
	options.op_ms = front->options->connect_ms < ZKL__MOST_TIMEOUT_MS ? front->options->connect_ms
	                                                                  : ZKL__MOST_TIMEOUT_MS;
	return zkl_session_open(&options, &front->session, reterr);
}

int zkl__front_open(struct zkl__front *front)
{
	const struct zkl__supervisor_policy policy = {.busy_status = front->options->busy_status,
	                                              .min_hold = front->options->min_hold_ms > 0,
	                                              .wait_all = front->options->wait_all,
	                                              .leader = front->options->leader};
	zkl_error                           error;

	zkl__supervisor_init(&front->supervisor, &policy);
	front->shows = !front->options->quiet && front->options->wait_ms != 0 && isatty(STDERR_FILENO) &&
	               !zkl__terminal_is_scripts();
	forget_wait(front, front->started_ns);
	front->child.shared->grace_ns = front->options->grace_ms * ZKL__NS_PER_MS;
	if ((front->alarm = zkl__alarm_open()) < 0) {
		BECAUSE(front, "cannot make a timer: %s", strerror(errno));
		return ZKL__STATUS_FAILED;
	}
	int rc = open_session(front, &error);
	/* All else that it is given has been looked at before. */
	if (rc == ZKL_EINVAL || rc == ZKL_EPATH) {
		BECAUSE(front, "%s: %s", front->servers_from, error.message);
		return ZKL__STATUS_USAGE;
	}
	if (rc == 0)
		rc = open_claim(front, &error);
	if (rc == 0)
		return 0;
	BECAUSE(front, "%s", error.message);
	if (rc == ZKL_EINVAL && fit_grace(front))
		return 0;
	return zkl__supervisor_status_of(&front->supervisor, rc);
}

static int64_t patience_ms(const struct zkl__front *front)
{
	if (front->granted)
		return RELEASE_MS;
	return front->supervisor.exit.signal != 0 ? LEAVE_MS : GIVE_UP_MS;
}

void zkl__front_close(struct zkl__front *front)
{
	struct zkl__look unseen;

	end_look(front, &unseen);
	const int rc = zkl_session_close(front->session, patience_ms(front));
	zkl__claim_close(&front->claim);
	if (rc == ZKL_ETIMEDOUT && front->granted && !front->told_lost && !front->options->quiet)
		zkl__message_say(
			"the servers did not confirm the release of %s: it is free when the session has expired",
			front->options->path);
	take_terminal(front);
	zkl__child_close(&front->child);
}
