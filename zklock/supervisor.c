/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <zklock/zklock.h>

/* State x event. "-> S": next state; what is done stands before it. Signals: "end" is HUP INT QUIT TERM, "usr" is USR1
 * USR2. EXIT releases. leave: with --wait-all, and nobody told us to stop, STAY -> STAYING; else TERM -> ENDING. finish:
 * -> HOLDING where the lock is still ours, --min-hold was given and nobody told us to stop; else EXIT.
 *
 *                 WAITING           LAPSED     RUNNING              STAYING           ENDING          KILLING  HOLDING
 * GRANTED         SPAWN -> RUNNING  .          .                    .                 .               .        .
 * GRANTED_LATE    RELEASE -> LAPSED .          .                    .                 .               .        .
 * LOST            .                 .          lost, TERM -> ENDING as RUNNING        lost            lost     EXIT own
 * ENDED ELOST     ATTEMPT           ATTEMPT    as LOST              as LOST           as LOST         as LOST  EXIT own
 * ENDED other     EXIT by code      -> WAITING as LOST              as LOST           as LOST         as LOST  EXIT own
 * EXEC_FAILED     .                 .          EXIT 126/127         .                 EXIT 126/127    126/127  .
 * STOPPED         .                 .          TAKE_TERMINAL        .                 .               .        .
 * EXITED          .                 .          leave                .                 note status     note it  .
 * EXITED_ALONE    .                 .          finish               .                 finish          finish   .
 * GONE            .                 .          finish               finish            finish          finish   .
 * WARDEN_DIED     EXIT 125          EXIT 125   KILL -> KILLING      KILL -> KILLING   KILL -> KILLING KILL     .
 * signal end      EXIT by signal    EXIT by it FORWARD, stopped:    TERM -> ENDING    FORWARD         noted    EXIT own
 *                                              CONTINUE, too
 * signal usr      EXIT by signal    EXIT by it FORWARD              FORWARD           FORWARD         .        .
 * signal TSTP     STOP_SELF         STOP_SELF  FORWARD, stopped:    STOP_SELF         .               .        STOP_SELF
 *                                              STOP_SELF
 * signal CONT     .                 .          CONTINUE             .                 .               .        .
 * CONNECT_TIMEOUT EXIT 69           .          .                    .                 .               .        .
 * GRACE_OVER      .                 .          .                    .                 KILL -> KILLING .        .
 * MAX_HOLD_OVER   .                 .          overdue, TERM        as RUNNING        .               .        .
 *                                              -> ENDING
 * MIN_HOLD_OVER   .                 .          .                    .                 .               .        EXIT own
 *
 * A lost lock ends with 76, else a command that was overdue with 78, else a dead warden with 125 unless the command had
 * ended by itself before. */

void zkl__supervisor_init(struct zkl__supervisor *supervisor, const struct zkl__supervisor_policy *policy)
{
	*supervisor = (struct zkl__supervisor){.policy = *policy, .state = ZKL__STATE_WAITING};
}

int zkl__supervisor_status_of(const struct zkl__supervisor *supervisor, int zkl_code)
{
	switch (zkl_code) {
	case ZKL_EBUSY:
	case ZKL_ETIMEDOUT:
		return supervisor->policy.busy_status;
	case ZKL_ENOTCONN:
		return ZKL__STATUS_UNREACHED;
	case ZKL_EACCES:
		return ZKL__STATUS_DENIED;
	case ZKL_EPATH:
	case ZKL_EINVAL:
		return ZKL__STATUS_USAGE;
	default:
		return ZKL__STATUS_FAILED;
	}
}

static void add(struct zkl__supervisor_actions *actions, enum zkl__supervisor_action_type type, int value)
{
	actions->list[actions->count++] = (struct zkl__supervisor_action){type, value};
}

static void leave(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret, int status, int by_signal)
{
	s->exit = (struct zkl__supervisor_exit){.status = status, .signal = by_signal};
	s->state = ZKL__STATE_OVER;
	add(ret, ZKL__DO_EXIT, 0);
}

static void leave_as_command(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (WIFSIGNALED(s->wait_status))
		leave(s, ret, 0, WTERMSIG(s->wait_status));
	else
		leave(s, ret, WEXITSTATUS(s->wait_status), 0);
	s->exit.own = true;
}

/* Nothing of the command is left. */
static void finish(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (s->lost) {
		leave(s, ret, ZKL__STATUS_LOST, 0);
	} else if (s->overdue) {
		leave(s, ret, ZKL__STATUS_OVERDUE, 0);
	} else if (!s->exited) {
		leave(s, ret, ZKL__STATUS_FAILED, 0);
	} else if (s->policy.min_hold && !s->told_to_stop) {
		s->state = ZKL__STATE_HOLDING;
		add(ret, ZKL__DO_HOLD, 0);
	} else {
		leave_as_command(s, ret);
	}
}

static bool asks_for_an_end(int sig)
{
	return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM;
}

/* No command yet: a signal does to us what it would have done to the command. */
static void signal_before_command(struct zkl__supervisor *s, int sig, struct zkl__supervisor_actions *ret)
{
	if (sig == SIGTSTP)
		add(ret, ZKL__DO_STOP_SELF, 0);
	else if (sig != SIGCONT)
		leave(s, ret, 0, sig);
}

static void step_waiting(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_GRANTED:
		s->state = ZKL__STATE_RUNNING;
		add(ret, ZKL__DO_SPAWN, 0);
		break;
	case ZKL__ON_GRANTED_LATE:
		s->state = ZKL__STATE_LAPSED;
		add(ret, ZKL__DO_RELEASE, 0);
		break;
	case ZKL__ON_ENDED:
		if (event->value == ZKL_ELOST)
			add(ret, ZKL__DO_ATTEMPT, 0);
		else
			leave(s, ret, zkl__supervisor_status_of(s, event->value), 0);
		break;
	case ZKL__ON_WARDEN_DIED:
		leave(s, ret, ZKL__STATUS_FAILED, 0);
		break;
	case ZKL__ON_SIGNALLED:
		signal_before_command(s, event->value, ret);
		break;
	case ZKL__ON_CONNECT_TIMEOUT:
		leave(s, ret, ZKL__STATUS_UNREACHED, 0);
		break;
	default:
		break;
	}
}

static void step_lapsed(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                        struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_ENDED:
		s->state = ZKL__STATE_WAITING;
		add(ret, ZKL__DO_ATTEMPT, 0);
		break;
	case ZKL__ON_WARDEN_DIED:
		leave(s, ret, ZKL__STATUS_FAILED, 0);
		break;
	case ZKL__ON_SIGNALLED:
		signal_before_command(s, event->value, ret);
		break;
	default:
		break;
	}
}

static void end_tree(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->state = ZKL__STATE_ENDING;
	add(ret, ZKL__DO_TERM, 0);
}

static void kill_tree(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->state = ZKL__STATE_KILLING;
	add(ret, ZKL__DO_KILL, 0);
}

static void forward(struct zkl__supervisor *s, int sig, struct zkl__supervisor_actions *ret)
{
	if (asks_for_an_end(sig))
		s->told_to_stop = true;
	add(ret, ZKL__DO_FORWARD, sig);
}

static void note_exit(struct zkl__supervisor *s, int wait_status)
{
	s->exited = true;
	s->wait_status = wait_status;
}

/* What has one meaning in every state in which a command may live. True: the event was that. */
static bool step_command(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_EXEC_FAILED:
		leave(s, ret, event->value == ENOENT ? ZKL__STATUS_NOT_FOUND : ZKL__STATUS_NOT_EXECUTED, 0);
		return true;
	case ZKL__ON_EXITED_ALONE:
		note_exit(s, event->value);
		finish(s, ret);
		return true;
	case ZKL__ON_GONE:
		finish(s, ret);
		return true;
	case ZKL__ON_WARDEN_DIED:
		kill_tree(s, ret);
		return true;
	default:
		return false;
	}
}

static void go_on(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->stopped = false;
	add(ret, ZKL__DO_CONTINUE, 0);
}

/* The command has ended and left something behind. */
static void stay_or_end(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (!s->policy.wait_all || s->told_to_stop) {
		end_tree(s, ret);
		return;
	}
	s->state = ZKL__STATE_STAYING;
	add(ret, ZKL__DO_STAY, 0);
}

/* What ends the tree while it may still run. True: the event was that. */
static bool step_living(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                        struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_LOST:
	case ZKL__ON_ENDED:
		s->lost = true;
		end_tree(s, ret);
		return true;
	case ZKL__ON_MAX_HOLD_OVER:
		s->overdue = true;
		end_tree(s, ret);
		return true;
	default:
		return false;
	}
}

static void signal_running(struct zkl__supervisor *s, int sig, struct zkl__supervisor_actions *ret)
{
	if (sig == SIGCONT) {
		go_on(s, ret);
	} else if (sig == SIGTSTP && s->stopped) {
		add(ret, ZKL__DO_STOP_SELF, 0);
	} else {
		forward(s, sig, ret);
		/* At the terminal nobody else can: the shell does not know of a stopped command. */
		if (s->stopped && asks_for_an_end(sig))
			go_on(s, ret);
	}
}

static void step_running(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	if (step_command(s, event, ret) || step_living(s, event, ret))
		return;
	switch (event->type) {
	case ZKL__ON_STOPPED:
		s->stopped = true;
		add(ret, ZKL__DO_TAKE_TERMINAL, 0);
		break;
	case ZKL__ON_EXITED:
		note_exit(s, event->value);
		stay_or_end(s, ret);
		break;
	case ZKL__ON_SIGNALLED:
		signal_running(s, event->value, ret);
		break;
	default:
		break;
	}
}

/* There is no command whose answer to a signal would count: what asks for an end ends all that is left. */
static void signal_staying(struct zkl__supervisor *s, int sig, struct zkl__supervisor_actions *ret)
{
	if (sig == SIGTSTP) {
		add(ret, ZKL__DO_STOP_SELF, 0);
	} else if (asks_for_an_end(sig)) {
		s->told_to_stop = true;
		end_tree(s, ret);
	} else if (sig != SIGCONT) {
		forward(s, sig, ret);
	}
}

static void step_staying(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	if (step_living(s, event, ret))
		return;
	switch (event->type) {
	case ZKL__ON_GONE:
		finish(s, ret);
		break;
	case ZKL__ON_WARDEN_DIED:
		kill_tree(s, ret);
		break;
	case ZKL__ON_SIGNALLED:
		signal_staying(s, event->value, ret);
		break;
	default:
		break;
	}
}

/* What changes nothing any more but the status, once the tree is being ended. True: the event was that. */
static bool note_only(struct zkl__supervisor *s, const struct zkl__supervisor_event *event)
{
	switch (event->type) {
	case ZKL__ON_LOST:
	case ZKL__ON_ENDED:
		s->lost = true;
		return true;
	case ZKL__ON_EXITED:
		note_exit(s, event->value);
		return true;
	default:
		return false;
	}
}

static void step_ending(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                        struct zkl__supervisor_actions *ret)
{
	if (step_command(s, event, ret) || note_only(s, event))
		return;
	switch (event->type) {
	case ZKL__ON_SIGNALLED:
		if (event->value != SIGTSTP && event->value != SIGCONT)
			forward(s, event->value, ret);
		break;
	case ZKL__ON_GRACE_OVER:
		kill_tree(s, ret);
		break;
	default:
		break;
	}
}

static void step_killing(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	if (step_command(s, event, ret) || note_only(s, event))
		return;
	switch (event->type) {
	case ZKL__ON_SIGNALLED:
		if (asks_for_an_end(event->value))
			s->told_to_stop = true;
		break;
	default:
		break;
	}
}

static void step_holding(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_LOST:
	case ZKL__ON_ENDED:
	case ZKL__ON_MIN_HOLD_OVER:
		leave_as_command(s, ret);
		break;
	case ZKL__ON_SIGNALLED:
		if (event->value == SIGTSTP)
			add(ret, ZKL__DO_STOP_SELF, 0);
		else if (asks_for_an_end(event->value))
			leave_as_command(s, ret);
		break;
	default:
		break;
	}
}

void zkl__supervisor_step(struct zkl__supervisor *supervisor, const struct zkl__supervisor_event *event,
                          struct zkl__supervisor_actions *ret)
{
	ret->count = 0;
	switch (supervisor->state) {
	case ZKL__STATE_WAITING:
		step_waiting(supervisor, event, ret);
		break;
	case ZKL__STATE_LAPSED:
		step_lapsed(supervisor, event, ret);
		break;
	case ZKL__STATE_RUNNING:
		step_running(supervisor, event, ret);
		break;
	case ZKL__STATE_STAYING:
		step_staying(supervisor, event, ret);
		break;
	case ZKL__STATE_ENDING:
		step_ending(supervisor, event, ret);
		break;
	case ZKL__STATE_KILLING:
		step_killing(supervisor, event, ret);
		break;
	case ZKL__STATE_HOLDING:
		step_holding(supervisor, event, ret);
		break;
	case ZKL__STATE_OVER:
		break;
	}
}
