/* SPDX-License-Identifier: Apache-2.0 */
/* The policy of zklock-run: every cell of its table, and the races as transcripts. */
#include "../../zklock/supervisor.h"
#include "check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <zklock/zklock.h>

/* ---- transcripts ---- */

static const char *const state_names[] = {
#define NAME(name) #name,
	ZKL__SUPERVISOR_STATES(NAME)};
static const char *const action_names[] = {ZKL__SUPERVISOR_ACTIONS(NAME)};
static const char *const event_names[] = {ZKL__SUPERVISOR_EVENTS(NAME)};
#undef NAME

/* What wait() says of a process that ended so. */
#define EXIT(status) ((status) << 8)
#define DEATH(sig)   (sig)

/* One step as text: "FORWARD 15 -> ENDING", "EXIT 76 -> OVER", "EXIT by 15 -> OVER", "-> RUNNING" where nothing is
 * done. */
static const char *step(struct zkl__supervisor *s, enum zkl__supervisor_event_type type, int value)
{
	static char                    text[128];
	struct zkl__supervisor_actions actions;
	size_t                         end = 0;

	zkl__supervisor_step(s, &(struct zkl__supervisor_event){type, value}, &actions);
	text[0] = '\0';
	for (unsigned i = 0; i < actions.count; i++) {
		const struct zkl__supervisor_action *action = &actions.list[i];
		end += (size_t)snprintf(text + end, sizeof(text) - end, "%s", action_names[action->type]);
		if (action->type == ZKL__DO_FORWARD || action->type == ZKL__DO_PAUSE)
			end += (size_t)snprintf(text + end, sizeof(text) - end, " %d", action->value);
		if (action->type == ZKL__DO_EXIT && s->exit.signal != 0)
			end += (size_t)snprintf(text + end, sizeof(text) - end, " by %d", s->exit.signal);
		else if (action->type == ZKL__DO_EXIT)
			end += (size_t)snprintf(text + end, sizeof(text) - end, " %d", s->exit.status);
		end += (size_t)snprintf(text + end, sizeof(text) - end, " ");
	}
	snprintf(text + end, sizeof(text) - end, "-> %s", state_names[s->state]);
	return text;
}

/* The policy but for the status of a busy lock: .min_hold, .wait_all, .leader. */
#define BEGIN(...)                                                                                                     \
	struct zkl__supervisor s;                                                                                      \
	zkl__supervisor_init(&s, &(struct zkl__supervisor_policy){.busy_status = ZKL__STATUS_BUSY, __VA_ARGS__})
#define STEP(event, value, expected) CU_ASSERT_STRING_EQUAL(step(&s, ZKL__ON_##event, (value)), (expected))

/* ---- the table ---- */

/* The shortest way into each state. */
static void walk_to(struct zkl__supervisor *s, enum zkl__supervisor_state state)
{
	const struct zkl__supervisor_policy policy = {.busy_status = ZKL__STATUS_BUSY,
	                                              .min_hold = state == ZKL__STATE_HOLDING,
	                                              .wait_all = state == ZKL__STATE_STAYING,
	                                              .leader = state == ZKL__STATE_PAUSING};

	zkl__supervisor_init(s, &policy);
	switch (state) {
	case ZKL__STATE_WAITING:
		break;
	case ZKL__STATE_RELEASING:
		step(s, ZKL__ON_GRANTED_LATE, 0);
		break;
	case ZKL__STATE_PAUSING:
		step(s, ZKL__ON_GRANTED, 0);
		step(s, ZKL__ON_EXITED_ALONE, EXIT(3));
		step(s, ZKL__ON_ENDED, 0);
		break;
	case ZKL__STATE_RUNNING:
		step(s, ZKL__ON_GRANTED, 0);
		break;
	case ZKL__STATE_STAYING:
	case ZKL__STATE_ENDING:
		step(s, ZKL__ON_GRANTED, 0);
		step(s, ZKL__ON_EXITED, EXIT(3));
		break;
	case ZKL__STATE_KILLING:
		step(s, ZKL__ON_GRANTED, 0);
		step(s, ZKL__ON_EXITED, EXIT(3));
		step(s, ZKL__ON_GRACE_OVER, 0);
		break;
	case ZKL__STATE_HOLDING:
		step(s, ZKL__ON_GRANTED, 0);
		step(s, ZKL__ON_EXITED_ALONE, EXIT(3));
		break;
	case ZKL__STATE_OVER:
		step(s, ZKL__ON_SIGNALLED, SIGTERM);
		break;
	}
	CU_ASSERT_EQUAL(s->state, state);
}

/* A row: one event. Its cells: what follows in each state; NULL: nothing is done and the state stays. */
struct row {
	enum zkl__supervisor_event_type event;
	int                             value;
	const char                     *cells[ZKL__STATE_OVER + 1];
};
#define X125  "EXIT 125 -> OVER"
#define OWN   "EXIT 3 -> OVER"
#define END   "TERM -> ENDING"
#define AGAIN "ATTEMPT -> WAITING"

/* WAITING RELEASING PAUSING RUNNING STAYING ENDING KILLING HOLDING; in OVER nothing follows from anything. */
#define ROW(event, value, ...)                                                                                         \
	{                                                                                                              \
		ZKL__ON_##event, value,                                                                                \
		{                                                                                                      \
			__VA_ARGS__, NULL                                                                              \
		}                                                                                                      \
	}
#define NO NULL

/* clang-format off */
static const struct row table[] = {
	ROW(GRANTED, 0, "SPAWN -> RUNNING", NO, NO, NO, NO, NO, NO, NO),
	ROW(GRANTED_LATE, 0, "RELEASE -> RELEASING", NO, NO, NO, NO, NO, NO, NO),
	ROW(LOST, 0, NO, NO, NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_ELOST, AGAIN, AGAIN, NO, END, END, NO, NO, OWN),
	ROW(ENDED, 0, X125, AGAIN, NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_EBUSY, "EXIT 75 -> OVER", "EXIT 75 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_ETIMEDOUT, "EXIT 75 -> OVER", "EXIT 75 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_ENOTCONN, "EXIT 69 -> OVER", "EXIT 69 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_EACCES, "EXIT 77 -> OVER", "EXIT 77 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_EPATH, "EXIT 64 -> OVER", "EXIT 64 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_EINVAL, "EXIT 64 -> OVER", "EXIT 64 -> OVER", NO, END, END, NO, NO, OWN),
	ROW(ENDED, ZKL_EZK, X125, X125, NO, END, END, NO, NO, OWN),
	ROW(NOT_STARTED, ZKL__STATUS_NOT_FOUND,
	    NO, NO, NO, "EXIT 127 -> OVER", NO, "EXIT 127 -> OVER", "EXIT 127 -> OVER", NO),
	ROW(STOPPED, SIGTSTP, NO, NO, NO, "TAKE_TERMINAL -> RUNNING", NO, NO, NO, NO),
	ROW(CONTINUED, 0, NO, NO, NO, NO, NO, NO, NO, NO),
	ROW(TOLD, SIGINT, NO, NO, NO, NO, NO, NO, NO, NO),
	ROW(STEADY, 0, NO, NO, NO, NO, NO, NO, NO, NO),
	ROW(EXITED, EXIT(5), NO, NO, NO, END, NO, NO, NO, NO),
	ROW(EXITED_ALONE, EXIT(5), NO, NO, NO, "EXIT 5 -> OVER", NO, "EXIT 5 -> OVER", "EXIT 5 -> OVER", NO),
	ROW(GONE, 0, NO, NO, NO, X125, OWN, OWN, OWN, NO),
	ROW(WARDEN_DIED, 0,
	    X125, X125, X125, "KILL -> KILLING", "KILL -> KILLING", "KILL -> KILLING", "KILL -> KILLING", NO),
	ROW(SIGNALLED, SIGHUP,
	    "EXIT by 1 -> OVER", "EXIT by 1 -> OVER", "EXIT by 1 -> OVER", "FORWARD 1 -> RUNNING", END,
	    "FORWARD 1 -> ENDING", NO, OWN),
	ROW(SIGNALLED, SIGINT,
	    "EXIT by 2 -> OVER", "EXIT by 2 -> OVER", "EXIT by 2 -> OVER", "FORWARD 2 -> RUNNING", END,
	    "FORWARD 2 -> ENDING", NO, OWN),
	ROW(SIGNALLED, SIGQUIT,
	    "EXIT by 3 -> OVER", "EXIT by 3 -> OVER", "EXIT by 3 -> OVER", "FORWARD 3 -> RUNNING", END,
	    "FORWARD 3 -> ENDING", NO, OWN),
	ROW(SIGNALLED, SIGUSR1,
	    "EXIT by 10 -> OVER", "EXIT by 10 -> OVER", "EXIT by 10 -> OVER", "FORWARD 10 -> RUNNING",
	    "FORWARD 10 -> STAYING", "FORWARD 10 -> ENDING", NO, NO),
	ROW(SIGNALLED, SIGUSR2,
	    "EXIT by 12 -> OVER", "EXIT by 12 -> OVER", "EXIT by 12 -> OVER", "FORWARD 12 -> RUNNING",
	    "FORWARD 12 -> STAYING", "FORWARD 12 -> ENDING", NO, NO),
	ROW(SIGNALLED, SIGTERM,
	    "EXIT by 15 -> OVER", "EXIT by 15 -> OVER", "EXIT by 15 -> OVER", "FORWARD 15 -> RUNNING", END,
	    "FORWARD 15 -> ENDING", NO, OWN),
	ROW(SIGNALLED, SIGTSTP,
	    "STOP_SELF -> WAITING", "STOP_SELF -> RELEASING", "STOP_SELF -> PAUSING", "FORWARD 20 -> RUNNING",
	    "STOP_SELF -> STAYING", NO, NO, "STOP_SELF -> HOLDING"),
	ROW(SIGNALLED, SIGCONT, NO, NO, NO, "CONTINUE -> RUNNING", NO, NO, NO, NO),
	ROW(CONNECT_TIMEOUT, 0, "EXIT 69 -> OVER", NO, NO, NO, NO, NO, NO, NO),
	ROW(GRACE_OVER, 0, NO, NO, NO, NO, NO, "KILL -> KILLING", NO, NO),
	ROW(MAX_HOLD_OVER, 0, NO, NO, NO, END, END, NO, NO, NO),
	ROW(MIN_HOLD_OVER, 0, NO, NO, NO, NO, NO, NO, NO, OWN),
	ROW(PAUSE_OVER, 0, NO, NO, AGAIN, NO, NO, NO, NO, NO),
};
/* clang-format on */

static void every_cell_of_the_table_is_as_written(void)
{
	for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
		for (int state = 0; state <= ZKL__STATE_OVER; state++) {
			struct zkl__supervisor s;
			char                   stays[32];

			walk_to(&s, (enum zkl__supervisor_state)state);
			snprintf(stays, sizeof(stays), "-> %s", state_names[state]);
			const char *expected = table[row].cells[state] != NULL ? table[row].cells[state] : stays;
			const char *found = step(&s, table[row].event, table[row].value);
			if (strcmp(found, expected) != 0)
				printf("\n%s in %s: \"%s\", not \"%s\"\n", event_names[table[row].event],
				       state_names[state], found, expected);
			CU_ASSERT_STRING_EQUAL(found, expected);
		}
	}
}

static void every_event_is_in_the_table(void)
{
	bool seen[sizeof(event_names) / sizeof(event_names[0])] = {false};

	for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++)
		seen[table[row].event] = true;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		CU_ASSERT_TRUE(seen[i]);
}

/* ---- the races ---- */

static void command_gives_its_status(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(255), "EXIT 255 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void command_that_died_by_a_signal_takes_the_wrapper_along(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, DEATH(SIGSEGV), "EXIT by 11 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void busy_lock_gives_the_status_that_was_asked_for(void)
{
	struct zkl__supervisor s;

	zkl__supervisor_init(&s, &(struct zkl__supervisor_policy){.busy_status = 0});
	STEP(ENDED, ZKL_EBUSY, "EXIT 0 -> OVER");
	CU_ASSERT_FALSE(s.exit.own);
}

static void loss_wins_over_a_status_of_0(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	/* The command has ended, but the lock says no when it is asked after the reap. */
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(EXITED_ALONE, EXIT(0), "EXIT 76 -> OVER");
	CU_ASSERT_FALSE(s.exit.own);
}

static void loss_while_leftovers_live_wins_over_the_status(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(LOST, 0, "-> ENDING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void loss_while_killing_wins_over_the_status(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(LOST, 0, "-> KILLING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void nothing_is_released_before_the_tree_is_gone(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(EXITED, DEATH(SIGTERM), "-> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(SIGNALLED, SIGTERM, "-> KILLING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void leftovers_do_not_change_the_status(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(GONE, 0, "EXIT 0 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void grant_behind_a_signal_starts_nothing(void)
{
	BEGIN();
	STEP(SIGNALLED, SIGTERM, "EXIT by 15 -> OVER");
	STEP(GRANTED, 0, "-> OVER");
}

static void signal_right_behind_the_grant_goes_to_the_command(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> RUNNING");
	STEP(EXITED_ALONE, DEATH(SIGTERM), "EXIT by 15 -> OVER");
}

static void signal_right_behind_the_grant_of_a_missing_command(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> RUNNING");
	STEP(NOT_STARTED, ZKL__STATUS_NOT_FOUND, "EXIT 127 -> OVER");
}

static void loss_between_grant_and_start(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	/* The warden was stopped and has started nothing. */
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void grant_that_comes_too_late_is_put_away_and_tried_again(void)
{
	BEGIN();
	STEP(GRANTED_LATE, 0, "RELEASE -> RELEASING");
	STEP(LOST, 0, "-> RELEASING");
	STEP(ENDED, 0, "ATTEMPT -> WAITING");
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
}

static void stopped_command_goes_on_when_we_are_continued(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(STOPPED, SIGTSTP, "TAKE_TERMINAL -> RUNNING");
	STEP(SIGNALLED, SIGTSTP, "STOP_SELF -> RUNNING");
	STEP(SIGNALLED, SIGCONT, "CONTINUE -> RUNNING");
	STEP(SIGNALLED, SIGTSTP, "FORWARD 20 -> RUNNING");
}

static void stopped_command_that_others_continue_is_not_stopped(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(STOPPED, SIGSTOP, "TAKE_TERMINAL -> RUNNING");
	STEP(CONTINUED, 0, "GIVE_TERMINAL -> RUNNING");
	STEP(SIGNALLED, SIGTSTP, "FORWARD 20 -> RUNNING");
	STEP(STOPPED, SIGTSTP, "TAKE_TERMINAL -> RUNNING");
	STEP(SIGNALLED, SIGCONT, "CONTINUE -> RUNNING");
	STEP(CONTINUED, 0, "-> RUNNING");
}

static void stopped_command_is_ended_by_what_ends_others(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(STOPPED, SIGTSTP, "TAKE_TERMINAL -> RUNNING");
	STEP(SIGNALLED, SIGUSR1, "FORWARD 10 -> RUNNING");
	STEP(SIGNALLED, SIGINT, "FORWARD 2 CONTINUE -> RUNNING");
	STEP(SIGNALLED, SIGINT, "FORWARD 2 -> RUNNING");
}

static void stopped_command_does_not_go_on_without_the_lock(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(STOPPED, SIGTSTP, "TAKE_TERMINAL -> RUNNING");
	STEP(SIGNALLED, SIGTSTP, "STOP_SELF -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(SIGNALLED, SIGCONT, "-> ENDING");
	STEP(EXITED_ALONE, DEATH(SIGTERM), "EXIT 76 -> OVER");
}

static void dead_warden_is_a_failure_of_the_wrapper(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 125 -> OVER");
}

static void dead_warden_does_not_hide_a_loss(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void dead_warden_does_not_change_a_status_that_is_known(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(4), "TERM -> ENDING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 4 -> OVER");
}

static void min_hold_holds_on(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(1), "HOLD -> HOLDING");
	STEP(WARDEN_DIED, 0, "-> HOLDING");
	STEP(MIN_HOLD_OVER, 0, "EXIT 1 -> OVER");
}

static void min_hold_holds_on_after_leftovers(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(GONE, 0, "HOLD -> HOLDING");
	STEP(MIN_HOLD_OVER, 0, "EXIT 0 -> OVER");
}

static void min_hold_ends_when_told_to_stop(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(1), "HOLD -> HOLDING");
	STEP(SIGNALLED, SIGUSR1, "-> HOLDING");
	STEP(SIGNALLED, SIGTERM, "EXIT 1 -> OVER");
}

static void min_hold_is_not_begun_when_told_to_stop_before(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> RUNNING");
	STEP(EXITED_ALONE, DEATH(SIGTERM), "EXIT by 15 -> OVER");
}

static void min_hold_is_not_begun_when_told_to_stop_while_killing(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(SIGNALLED, SIGINT, "-> KILLING");
	STEP(GONE, 0, "EXIT 0 -> OVER");
}

static void min_hold_does_not_hold_for_a_command_that_is_missing(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(NOT_STARTED, ZKL__STATUS_NOT_FOUND, "EXIT 127 -> OVER");
}

static void loss_in_the_rest_of_min_hold_is_not_the_commands(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(0), "HOLD -> HOLDING");
	STEP(LOST, 0, "EXIT 0 -> OVER");
}

static void max_hold_gives_a_status_of_its_own(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(MAX_HOLD_OVER, 0, "TERM -> ENDING");
	STEP(EXITED_ALONE, EXIT(0), "EXIT 78 -> OVER");
	CU_ASSERT_FALSE(s.exit.own);
}

static void max_hold_kills_what_does_not_end(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(STOPPED, SIGTSTP, "TAKE_TERMINAL -> RUNNING");
	STEP(MAX_HOLD_OVER, 0, "TERM -> ENDING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 78 -> OVER");
}

static void loss_counts_more_than_max_hold(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(MAX_HOLD_OVER, 0, "TERM -> ENDING");
	STEP(LOST, 0, "-> ENDING");
	STEP(EXITED_ALONE, EXIT(0), "EXIT 76 -> OVER");
}

static void max_hold_does_not_count_for_a_command_that_has_ended(void)
{
	BEGIN();
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(5), "TERM -> ENDING");
	STEP(MAX_HOLD_OVER, 0, "-> ENDING");
	STEP(GONE, 0, "EXIT 5 -> OVER");
}

static void what_is_left_behind_is_waited_for(void)
{
	BEGIN(.wait_all = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(5), "STAY -> STAYING");
	STEP(SIGNALLED, SIGCONT, "-> STAYING");
	STEP(GONE, 0, "EXIT 5 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void what_is_left_behind_is_waited_for_before_min_hold(void)
{
	BEGIN(.wait_all = true, .min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(5), "STAY -> STAYING");
	STEP(GONE, 0, "HOLD -> HOLDING");
	STEP(MIN_HOLD_OVER, 0, "EXIT 5 -> OVER");
}

static void signal_ends_what_is_left_behind_and_min_hold(void)
{
	BEGIN(.wait_all = true, .min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(5), "STAY -> STAYING");
	STEP(SIGNALLED, SIGHUP, "TERM -> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 5 -> OVER");
}

static void signal_before_the_end_of_the_command_ends_what_is_left_behind(void)
{
	BEGIN(.wait_all = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> RUNNING");
	STEP(EXITED, EXIT(5), "TERM -> ENDING");
	STEP(GONE, 0, "EXIT 5 -> OVER");
}

static void loss_ends_what_is_left_behind(void)
{
	BEGIN(.wait_all = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "STAY -> STAYING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
}

static void max_hold_ends_what_is_left_behind(void)
{
	BEGIN(.wait_all = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "STAY -> STAYING");
	STEP(MAX_HOLD_OVER, 0, "TERM -> ENDING");
	STEP(GONE, 0, "EXIT 78 -> OVER");
}

/* ---- who leads ---- */

/* From the grant to the next attempt; the pause that lies between, 0: none. */
static int lead_once(struct zkl__supervisor *s, bool steady, int wait_status)
{
	int pause_ms = 0;

	CU_ASSERT_STRING_EQUAL(step(s, ZKL__ON_GRANTED, 0), "SPAWN -> RUNNING");
	if (steady)
		CU_ASSERT_STRING_EQUAL(step(s, ZKL__ON_STEADY, 0), "-> RUNNING");
	CU_ASSERT_STRING_EQUAL(step(s, ZKL__ON_EXITED_ALONE, wait_status), "RELEASE -> RELEASING");
	CU_ASSERT_EQUAL(sscanf(step(s, ZKL__ON_ENDED, 0), "PAUSE %d -> PAUSING", &pause_ms), 1);
	CU_ASSERT_STRING_EQUAL(step(s, ZKL__ON_PAUSE_OVER, 0), "ATTEMPT -> WAITING");
	return pause_ms;
}

static void leader_whose_command_ends_resigns_and_campaigns_after_a_pause(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	STEP(GONE, 0, "RELEASE -> RELEASING");
	STEP(ENDED, 0, "PAUSE 1000 -> PAUSING");
	STEP(PAUSE_OVER, 0, "ATTEMPT -> WAITING");
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
}

static void pauses_double_while_the_command_fails(void)
{
	static const int pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000};

	BEGIN(.leader = true);
	for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
		CU_ASSERT_EQUAL(lead_once(&s, false, i % 2 == 0 ? EXIT(1) : DEATH(SIGSEGV)), pauses[i]);
}

static void pauses_begin_anew_after_a_success(void)
{
	BEGIN(.leader = true);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 2000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(0)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(0)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 2000);
}

static void pauses_begin_anew_after_a_long_run(void)
{
	BEGIN(.leader = true);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 2000);
	CU_ASSERT_EQUAL(lead_once(&s, true, EXIT(1)), 1000);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 2000);
}

static void deposed_leader_campaigns_once_its_tree_is_gone(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(EXITED, DEATH(SIGTERM), "-> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(GONE, 0, "RELEASE -> RELEASING");
	STEP(LOST, 0, "-> RELEASING");
	STEP(ENDED, ZKL_ELOST, "ATTEMPT -> WAITING");
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(0), "RELEASE -> RELEASING");
	STEP(ENDED, 0, "PAUSE 1000 -> PAUSING");
}

static void deposed_leader_whose_attempt_is_over_already(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(ENDED, ZKL_ELOST, "-> ENDING");
	STEP(EXITED_ALONE, DEATH(SIGTERM), "RELEASE ATTEMPT -> WAITING");
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(0), "RELEASE -> RELEASING");
}

static void leader_that_is_deposed_before_its_command_started(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(GONE, 0, "RELEASE -> RELEASING");
	STEP(ENDED, ZKL_ELOST, "ATTEMPT -> WAITING");
}

static void deposition_says_nothing_of_the_command(void)
{
	BEGIN(.leader = true);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 1000);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(EXITED_ALONE, EXIT(0), "RELEASE -> RELEASING");
	STEP(ENDED, ZKL_ELOST, "ATTEMPT -> WAITING");
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(1)), 2000);
}

static void max_hold_ends_a_term_and_not_the_wrapper(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(MAX_HOLD_OVER, 0, "TERM -> ENDING");
	STEP(EXITED_ALONE, DEATH(SIGTERM), "RELEASE -> RELEASING");
	STEP(ENDED, 0, "ATTEMPT -> WAITING");
}

static void leader_that_is_told_to_stop_leaves_as_its_command(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGUSR1, "FORWARD 10 -> RUNNING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> RUNNING");
	STEP(EXITED_ALONE, EXIT(4), "EXIT 4 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

/* Ctrl-C is its command's, which is in front. */
static void leader_whose_command_dies_by_the_terminal_leaves_as_it(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(TOLD, SIGINT, "-> RUNNING");
	STEP(EXITED_ALONE, DEATH(SIGINT), "EXIT by 2 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void ctrl_c_cuts_the_rest_of_min_hold_short(void)
{
	BEGIN(.min_hold = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(TOLD, SIGINT, "-> RUNNING");
	STEP(EXITED_ALONE, DEATH(SIGINT), "EXIT by 2 -> OVER");
}

static void deposed_leader_that_is_told_to_stop_leaves_as_its_command(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(GRACE_OVER, 0, "KILL -> KILLING");
	STEP(SIGNALLED, SIGINT, "-> KILLING");
	STEP(SIGNALLED, SIGTERM, "-> KILLING");
	STEP(EXITED_ALONE, DEATH(SIGKILL), "EXIT by 9 -> OVER");
	CU_ASSERT_TRUE(s.exit.own);
}

static void leader_that_is_told_to_stop_and_whose_command_never_started(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(SIGNALLED, SIGINT, "FORWARD 2 -> RUNNING");
	STEP(LOST, 0, "TERM -> ENDING");
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> ENDING");
	STEP(GONE, 0, "EXIT by 2 -> OVER");
}

static void leader_stops_between_terms_by_the_signal(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(1), "RELEASE -> RELEASING");
	struct zkl__supervisor releasing = s;
	STEP(SIGNALLED, SIGHUP, "EXIT by 1 -> OVER");
	s = releasing;
	STEP(ENDED, 0, "PAUSE 1000 -> PAUSING");
	STEP(SIGNALLED, SIGTERM, "EXIT by 15 -> OVER");
	CU_ASSERT_FALSE(s.exit.own);
}

static void leader_leaves_where_the_command_cannot_be_had(void)
{
	BEGIN(.leader = true);
	CU_ASSERT_EQUAL(lead_once(&s, false, EXIT(0)), 1000);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(NOT_STARTED, ZKL__STATUS_NOT_FOUND, "EXIT 127 -> OVER");
}

static void leader_that_cannot_resign_leaves(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED_ALONE, EXIT(0), "RELEASE -> RELEASING");
	STEP(ENDED, ZKL_EACCES, "EXIT 77 -> OVER");
}

static void leader_without_a_warden_leaves(void)
{
	BEGIN(.leader = true);
	STEP(GRANTED, 0, "SPAWN -> RUNNING");
	STEP(EXITED, EXIT(0), "TERM -> ENDING");
	struct zkl__supervisor ending = s;
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 125 -> OVER");
	s = ending;
	STEP(LOST, 0, "-> ENDING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 76 -> OVER");
	s = ending;
	STEP(SIGNALLED, SIGTERM, "FORWARD 15 -> ENDING");
	STEP(WARDEN_DIED, 0, "KILL -> KILLING");
	STEP(GONE, 0, "EXIT 0 -> OVER");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(every_cell_of_the_table_is_as_written),
		TEST(every_event_is_in_the_table),
		TEST(command_gives_its_status),
		TEST(command_that_died_by_a_signal_takes_the_wrapper_along),
		TEST(busy_lock_gives_the_status_that_was_asked_for),
		TEST(loss_wins_over_a_status_of_0),
		TEST(loss_while_leftovers_live_wins_over_the_status),
		TEST(loss_while_killing_wins_over_the_status),
		TEST(nothing_is_released_before_the_tree_is_gone),
		TEST(leftovers_do_not_change_the_status),
		TEST(grant_behind_a_signal_starts_nothing),
		TEST(signal_right_behind_the_grant_goes_to_the_command),
		TEST(signal_right_behind_the_grant_of_a_missing_command),
		TEST(loss_between_grant_and_start),
		TEST(grant_that_comes_too_late_is_put_away_and_tried_again),
		TEST(stopped_command_goes_on_when_we_are_continued),
		TEST(stopped_command_that_others_continue_is_not_stopped),
		TEST(stopped_command_is_ended_by_what_ends_others),
		TEST(stopped_command_does_not_go_on_without_the_lock),
		TEST(dead_warden_is_a_failure_of_the_wrapper),
		TEST(dead_warden_does_not_hide_a_loss),
		TEST(dead_warden_does_not_change_a_status_that_is_known),
		TEST(min_hold_holds_on),
		TEST(min_hold_holds_on_after_leftovers),
		TEST(min_hold_ends_when_told_to_stop),
		TEST(min_hold_is_not_begun_when_told_to_stop_before),
		TEST(min_hold_is_not_begun_when_told_to_stop_while_killing),
		TEST(min_hold_does_not_hold_for_a_command_that_is_missing),
		TEST(loss_in_the_rest_of_min_hold_is_not_the_commands),
		TEST(max_hold_gives_a_status_of_its_own),
		TEST(max_hold_kills_what_does_not_end),
		TEST(loss_counts_more_than_max_hold),
		TEST(max_hold_does_not_count_for_a_command_that_has_ended),
		TEST(what_is_left_behind_is_waited_for),
		TEST(what_is_left_behind_is_waited_for_before_min_hold),
		TEST(signal_ends_what_is_left_behind_and_min_hold),
		TEST(signal_before_the_end_of_the_command_ends_what_is_left_behind),
		TEST(loss_ends_what_is_left_behind),
		TEST(max_hold_ends_what_is_left_behind),
		TEST(leader_whose_command_ends_resigns_and_campaigns_after_a_pause),
		TEST(pauses_double_while_the_command_fails),
		TEST(pauses_begin_anew_after_a_success),
		TEST(pauses_begin_anew_after_a_long_run),
		TEST(deposed_leader_campaigns_once_its_tree_is_gone),
		TEST(deposed_leader_whose_attempt_is_over_already),
		TEST(leader_that_is_deposed_before_its_command_started),
		TEST(deposition_says_nothing_of_the_command),
		TEST(max_hold_ends_a_term_and_not_the_wrapper),
		TEST(leader_that_is_told_to_stop_leaves_as_its_command),
		TEST(leader_whose_command_dies_by_the_terminal_leaves_as_it),
		TEST(ctrl_c_cuts_the_rest_of_min_hold_short),
		TEST(deposed_leader_that_is_told_to_stop_leaves_as_its_command),
		TEST(leader_that_is_told_to_stop_and_whose_command_never_started),
		TEST(leader_stops_between_terms_by_the_signal),
		TEST(leader_leaves_where_the_command_cannot_be_had),
		TEST(leader_that_cannot_resign_leaves),
		TEST(leader_without_a_warden_leaves),
		{0},
	};

	return check_main("supervisor", tests, argc, argv);
}
