/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <zklock/zklock.h>

/* State x event. "-> S": next state; what is done stands before it. Signals: "end" is HUP INT QUIT TERM, "usr" is USR1
 * USR2. EXIT releases. leave: with --wait-all, and nobody told us to stop, STAY -> STAYING; else TERM -> ENDING. finish:
 * who leads, below; -> HOLDING where the lock is still ours, --min-hold was given and nobody told us to stop; else EXIT.
 *
 *                 WAITING           RELEASING    RUNNING              STAYING           ENDING          KILLING  HOLDING
 * GRANTED         SPAWN -> RUNNING  .            .                    .                 .               .        .
 * GRANTED_LATE    RELEASE           .            .                    .                 .               .        .
 *                 -> RELEASING
 * LOST            .                 .            lost, TERM -> ENDING as RUNNING        lost            lost     EXIT own
 * ENDED ELOST     ATTEMPT           again        as LOST              as LOST           as LOST         as LOST  EXIT own
 * ENDED 0         EXIT 125          again        as LOST              as LOST           as LOST         as LOST  EXIT own
 * ENDED other     EXIT by code      EXIT by code as LOST              as LOST           as LOST         as LOST  EXIT own
 * NOT_STARTED     .                 .            EXIT by it           .                 EXIT by it      by it    .
 * STOPPED         .                 .            TAKE_TERMINAL        .                 .               .        .
 * CONTINUED       .                 .            stopped:             .                 .               .        .
 *                                                GIVE_TERMINAL
 * TOLD            .                 .            noted                .                 noted           noted    .
 * STEADY          .                 .            noted                .                 noted           noted    .
 * EXITED          .                 .            leave                .                 note status     note it  .
 * EXITED_ALONE    .                 .            finish               .                 finish          finish   .
 * GONE            .                 .            finish               finish            finish          finish   .
 * WARDEN_DIED     EXIT 125          EXIT 125     KILL -> KILLING      KILL -> KILLING   KILL -> KILLING KILL     .
 * signal end      EXIT by signal    EXIT by it   FORWARD, stopped:    TERM -> ENDING    FORWARD         noted    EXIT own
 *                                                CONTINUE, too
 * signal usr      EXIT by signal    EXIT by it   FORWARD              FORWARD           FORWARD         .        .
 * signal TSTP     STOP_SELF         STOP_SELF    FORWARD, stopped:    STOP_SELF         .               .        STOP_SELF
 *                                                STOP_SELF
 * signal CONT     .                 .            CONTINUE             .                 .               .        .
 * CONNECT_TIMEOUT EXIT 69           .            .                    .                 .               .        .
 * GRACE_OVER      .                 .            .                    .                 KILL -> KILLING .        .
 * MAX_HOLD_OVER   .                 .            overdue, TERM        as RUNNING        .               .        .
 *                                                -> ENDING
 * MIN_HOLD_OVER   .                 .            .                    .                 .               .        EXIT own
 *
 * A lost lock ends with 76, else a command that was overdue with 78, else a dead warden with 125 unless the command had
 * ended by itself before.
 *
 * Who leads finishes a term with EXIT as the command did, or by the signal where it never began, if told to stop; else with
 * RELEASE -> RELEASING, and where the attempt has ended before with `again` at once. A dead warden ends it as a lock does,
 * but never with the command's own status unless told to stop. again: ATTEMPT -> WAITING; where the command had ended by
 * itself PAUSE -> PAUSING. There PAUSE_OVER is ATTEMPT -> WAITING, a signal and WARDEN_DIED are what they are in WAITING,
 * and nothing else counts. */

/* A pause lasts so long after a success; after failures in a row it doubles. */
#define PAUSE_LEAST_MS 1000
#define PAUSE_MOST_MS  60000

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
	if (WIFSIGNALED(s->term.wait_status))
		leave(s, ret, 0, WTERMSIG(s->term.wait_status));
	else
		leave(s, ret, WEXITSTATUS(s->term.wait_status), 0);
	s->exit.own = true;
}

/* ---- terms ---- */

static void campaign(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->state = ZKL__STATE_WAITING;
	add(ret, ZKL__DO_ATTEMPT, 0);
}

/* The attempt is put away. */
static void again(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (s->pause_ms == 0) {
		campaign(s, ret);
		return;
	}
	s->state = ZKL__STATE_PAUSING;
	add(ret, ZKL__DO_PAUSE, s->pause_ms);
	s->pause_ms = 0;
}

/* What was ended by us is no failure of the command's, and no success. */
static int next_pause_ms(struct zkl__supervisor *s)
{
	if (s->term.lost || s->term.overdue)
		return 0;
	if (s->term.exited && s->term.wait_status == 0) {
		s->last_ms = 0;
		return PAUSE_LEAST_MS;
	}
	if (s->last_ms == 0)
		s->last_ms = PAUSE_LEAST_MS;
	else
		s->last_ms = s->last_ms < PAUSE_MOST_MS / 2 ? 2 * s->last_ms : PAUSE_MOST_MS;
	return s->last_ms;
}

static void finish_term(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (s->told != 0 && s->term.exited) {
		leave_as_command(s, ret);
	} else if (s->told != 0) {
		leave(s, ret, 0, s->told);
	} else {
		s->pause_ms = next_pause_ms(s);
		s->state = ZKL__STATE_RELEASING;
		add(ret, ZKL__DO_RELEASE, 0);
		if (s->term.ended)
			again(s, ret);
	}
}

/* Nothing of the command is left. */
static void finish(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (s->policy.leader && !s->orphaned) {
		finish_term(s, ret);
	} else if (s->term.lost) {
		leave(s, ret, ZKL__STATUS_LOST, 0);
	} else if (s->term.overdue) {
		leave(s, ret, ZKL__STATUS_OVERDUE, 0);
	} else if (!s->term.exited || (s->policy.leader && s->told == 0)) {
		leave(s, ret, ZKL__STATUS_FAILED, 0);
	} else if (s->policy.min_hold && s->told == 0) {
		s->state = ZKL__STATE_HOLDING;
		add(ret, ZKL__DO_HOLD, 0);
	} else {
		leave_as_command(s, ret);
	}
}

/* ---- the states ---- */

static bool asks_for_an_end(int sig)
{
	return sig == SIGHUP || sig == SIGINT || sig == SIGQUIT || sig == SIGTERM;
}

/* What has one meaning in every state without a command: a signal does to us what it would have done to the command. True:
 * the event was that. */
static bool step_without_command(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                                 struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_WARDEN_DIED:
		leave(s, ret, ZKL__STATUS_FAILED, 0);
		return true;
	case ZKL__ON_SIGNALLED:
		if (event->value == SIGTSTP)
			add(ret, ZKL__DO_STOP_SELF, 0);
		else if (event->value != SIGCONT)
			leave(s, ret, 0, event->value);
		return true;
	default:
		return false;
	}
}

static void step_waiting(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	if (step_without_command(s, event, ret))
		return;
	switch (event->type) {
	case ZKL__ON_GRANTED:
		memset(&s->term, 0, sizeof(s->term));
		s->state = ZKL__STATE_RUNNING;
		add(ret, ZKL__DO_SPAWN, 0);
		break;
	case ZKL__ON_GRANTED_LATE:
		s->state = ZKL__STATE_RELEASING;
		add(ret, ZKL__DO_RELEASE, 0);
		break;
	case ZKL__ON_ENDED:
		if (event->value == ZKL_ELOST)
			add(ret, ZKL__DO_ATTEMPT, 0);
		else
			leave(s, ret, zkl__supervisor_status_of(s, event->value), 0);
		break;
	case ZKL__ON_CONNECT_TIMEOUT:
		leave(s, ret, ZKL__STATUS_UNREACHED, 0);
		break;
	default:
		break;
	}
}

/* Who cannot let go of its node would wait behind it for ever: it goes with the session, and so with us. */
static void step_releasing(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                           struct zkl__supervisor_actions *ret)
{
	if (step_without_command(s, event, ret))
		return;
	switch (event->type) {
	case ZKL__ON_ENDED:
		if (event->value == 0 || event->value == ZKL_ELOST)
			again(s, ret);
		else
			leave(s, ret, zkl__supervisor_status_of(s, event->value), 0);
		break;
	default:
		break;
	}
}

static void step_pausing(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	if (step_without_command(s, event, ret))
		return;
	if (event->type == ZKL__ON_PAUSE_OVER)
		campaign(s, ret);
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

/* Without a warden. */
static void kill_tree_alone(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->orphaned = true;
	kill_tree(s, ret);
}

static void note_end(struct zkl__supervisor *s, int sig)
{
	if (asks_for_an_end(sig) && s->told == 0)
		s->told = sig;
}

static void forward(struct zkl__supervisor *s, int sig, struct zkl__supervisor_actions *ret)
{
	note_end(s, sig);
	add(ret, ZKL__DO_FORWARD, sig);
}

static void note_exit(struct zkl__supervisor *s, int wait_status)
{
	s->term.exited = true;
	s->term.wait_status = wait_status;
}

/* What has one meaning in every state in which a command may live. True: the event was that. */
static bool step_command(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                         struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_NOT_STARTED:
		leave(s, ret, event->value, 0);
		return true;
	case ZKL__ON_TOLD:
		note_end(s, event->value);
		return true;
	case ZKL__ON_STEADY:
		s->last_ms = 0;
		return true;
	case ZKL__ON_EXITED_ALONE:
		note_exit(s, event->value);
		finish(s, ret);
		return true;
	case ZKL__ON_GONE:
		finish(s, ret);
		return true;
	case ZKL__ON_WARDEN_DIED:
		kill_tree_alone(s, ret);
		return true;
	default:
		return false;
	}
}

static void go_on(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	s->term.stopped = false;
	add(ret, ZKL__DO_CONTINUE, 0);
}

/* The command has ended and left something behind. */
static void stay_or_end(struct zkl__supervisor *s, struct zkl__supervisor_actions *ret)
{
	if (!s->policy.wait_all || s->told != 0) {
		end_tree(s, ret);
		return;
	}
	s->state = ZKL__STATE_STAYING;
	add(ret, ZKL__DO_STAY, 0);
}

static void note_loss(struct zkl__supervisor *s, const struct zkl__supervisor_event *event)
{
	s->term.lost = true;
	s->term.ended = s->term.ended || event->type == ZKL__ON_ENDED;
}

/* What ends the tree while it may still run. True: the event was that. */
static bool step_living(struct zkl__supervisor *s, const struct zkl__supervisor_event *event,
                        struct zkl__supervisor_actions *ret)
{
	switch (event->type) {
	case ZKL__ON_LOST:
	case ZKL__ON_ENDED:
		note_loss(s, event);
		end_tree(s, ret);
		return true;
	case ZKL__ON_MAX_HOLD_OVER:
		s->term.overdue = true;
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
	} else if (sig == SIGTSTP && s->term.stopped) {
		add(ret, ZKL__DO_STOP_SELF, 0);
	} else {
		forward(s, sig, ret);
		/* At the terminal nobody else can: the shell does not know of a stopped command. */
		if (s->term.stopped && asks_for_an_end(sig))
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
		s->term.stopped = true;
		add(ret, ZKL__DO_TAKE_TERMINAL, 0);
		break;
	case ZKL__ON_CONTINUED:
		if (s->term.stopped)
			add(ret, ZKL__DO_GIVE_TERMINAL, 0);
		s->term.stopped = false;
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
		note_end(s, sig);
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
		kill_tree_alone(s, ret);
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
		note_loss(s, event);
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
		note_end(s, event->value);
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
	case ZKL__STATE_RELEASING:
		step_releasing(supervisor, event, ret);
		break;
	case ZKL__STATE_PAUSING:
		step_pausing(supervisor, event, ret);
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
