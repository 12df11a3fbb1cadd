/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SUPERVISOR_H
#define ZKLOCK_SUPERVISOR_H

/* supervisor.h: the policy of zklock-run: what follows from what happens to the lock, to the command and to the
 * wrapper.
 *
 *     zkl__supervisor_init, then zkl__supervisor_step for every event; carry out the actions in their order
 *
 * Pure: no I/O, no clock, no threads, no allocation. Two rules are the caller's: before any other event, ask the lock,
 * and step with LOST first if it says no; and keep the timers that actions start. The rules that are kept here:
 *
 * - Nothing is released before the whole tree of the command is gone.
 * - A lock that was lost before the tree was gone gives status 76, and a command that --max-hold ended 78, whatever the
 *   command said.
 * - EXIT comes exactly once, last, and releases what there is: every other action belongs to a wrapper that goes on.
 * - Who leads does so in terms. A term ends as a lock does, but the wrapper goes on: it resigns once the tree is gone, and
 *   campaigns when that is done. A command that ended by itself is followed by a pause, in which another can lead. */

#include "status.h"

#include <stdbool.h>

#define ZKL__SUPERVISOR_STATES(X)                                                                                      \
	X(WAITING)   /* an attempt is under way */                                                                     \
	X(RELEASING) /* granted too late to be used, or a term is over: the attempt is being put away */               \
	X(PAUSING)   /* after a term, before the next attempt */                                                       \
	X(RUNNING)   /* the command was ordered to start, or runs */                                                   \
	X(STAYING)   /* the command has ended, --wait-all waits for what it left behind */                             \
	X(ENDING)    /* TERM went to the tree, the grace runs */                                                       \
	X(KILLING)   /* KILL goes to the tree until nothing of it is left */                                           \
	X(HOLDING)   /* the tree is gone, --min-hold is not over */                                                    \
	X(OVER)      /* EXIT was ordered */

#define ZKL__SUPERVISOR_EVENTS(X)                                                                                      \
	X(GRANTED)      /* the lock, with a live lease */                                                              \
	X(GRANTED_LATE) /* the lock, with a lease that is over */                                                      \
	X(LOST)         /* the lock said no, or its deadline has passed */                                             \
	X(ENDED)        /* the attempt; value: ZKL_E* or 0 */                                                          \
	X(NOT_STARTED)  /* the command; value: the status that says why */                                             \
	X(STOPPED)      /* the command, by a signal of job control */                                                  \
	X(CONTINUED)    /* the command, by us or by others */                                                          \
	X(TOLD)         /* the terminal has told the command to end, which died by it: before EXITED; value: signal */ \
	X(STEADY)       /* the command has run for so long that earlier failures do not count: before EXITED */        \
	X(EXITED)       /* the command; value: status as of wait(); processes that it started are left */              \
	X(EXITED_ALONE) /* the same, and nothing is left */                                                            \
	X(GONE)         /* nothing is left of the command's tree */                                                    \
	X(WARDEN_DIED)  /* the command's parent; the command dies with it, its descendants do not */                   \
	X(SIGNALLED)    /* the wrapper; value: signal */                                                               \
	X(CONNECT_TIMEOUT) /* no server was ever reached */                                                            \
	X(GRACE_OVER)      /* what TERM did not end has had its time */                                                \
	X(MAX_HOLD_OVER)   /* so long after the grant nothing of the command may be left to end by itself */           \
	X(MIN_HOLD_OVER)                                                                                               \
	X(PAUSE_OVER)

#define ZKL__SUPERVISOR_ACTIONS(X)                                                                                     \
	X(ATTEMPT)       /* begin another attempt, with the time that is left */                                       \
	X(RELEASE)       /* put the attempt away, without waiting; ENDED follows */                                    \
	X(SPAWN)         /* start the command */                                                                       \
	X(FORWARD)       /* value: signal, to the command's process group */                                           \
	X(CONTINUE)      /* the stopped command, in the foreground if the wrapper is */                                \
	X(TAKE_TERMINAL) /* from the command that was stopped */                                                       \
	X(GIVE_TERMINAL) /* to the command that others have continued, if the wrapper is in the foreground */          \
	X(STOP_SELF)     /* stop the wrapper, as Ctrl-Z does */                                                        \
	X(STAY)          /* wait on, the command itself has ended: the terminal is the wrapper's again */              \
	X(TERM)          /* to the whole tree; GRACE_OVER follows after the grace */                                   \
	X(KILL)          /* to the whole tree, again and again until GONE */                                           \
	X(HOLD)          /* start the timer that MIN_HOLD_OVER comes from */                                           \
	X(PAUSE)         /* value: milliseconds, after which PAUSE_OVER comes */                                       \
	X(EXIT)          /* release, wait for that for a bounded time, end as *exit says */

#define ZKL__NAME(name) ZKL__STATE_##name,
enum zkl__supervisor_state { ZKL__SUPERVISOR_STATES(ZKL__NAME) };
#undef ZKL__NAME
#define ZKL__NAME(name) ZKL__ON_##name,
enum zkl__supervisor_event_type { ZKL__SUPERVISOR_EVENTS(ZKL__NAME) };
#undef ZKL__NAME
#define ZKL__NAME(name) ZKL__DO_##name,
enum zkl__supervisor_action_type { ZKL__SUPERVISOR_ACTIONS(ZKL__NAME) };
#undef ZKL__NAME

struct zkl__supervisor_event {
	enum zkl__supervisor_event_type type;
	int                             value;
};

struct zkl__supervisor_action {
	enum zkl__supervisor_action_type type;
	int                              value;
};

/* No event asks for more. */
#define ZKL__SUPERVISOR_ACTIONS_MAX 2
struct zkl__supervisor_actions {
	unsigned                      count;
	struct zkl__supervisor_action list[ZKL__SUPERVISOR_ACTIONS_MAX];
};

/* How the wrapper ends: by `signal` where that is not 0, else with `status`. own: as the command did. */
struct zkl__supervisor_exit {
	int  status, signal;
	bool own;
};

/* What was asked for. */
struct zkl__supervisor_policy {
	int  busy_status; /* what -E says */
	bool min_hold;    /* MIN_HOLD_OVER is to be waited for */
	bool wait_all;    /* what the command leaves behind is waited for */
	bool leader;      /* lead, time and again */
};

struct zkl__supervisor {
	struct zkl__supervisor_policy policy;
	/* where we are */
	enum zkl__supervisor_state state;
	/* since the grant */
	struct {
		bool lost;    /* before the tree was gone */
		bool ended;   /* the attempt, before it was released */
		bool overdue; /* --max-hold was over, and the tree was not gone */
		bool exited;  /* the command; wait_status is its own */
		bool stopped; /* the command, and not continued since */
		int  wait_status;
	} term;
	bool                        orphaned; /* the warden died: no other command can be started */
	int                         told;     /* the first signal of those that ask the command for an end; 0: none */
	int                         pause_ms; /* before the next attempt; 0: none */
	int                         last_ms;  /* the pause after the last failure; 0: start with the shortest */
	struct zkl__supervisor_exit exit;     /* valid in OVER */
};

/* The first attempt is under way. */
void zkl__supervisor_init(struct zkl__supervisor *supervisor, const struct zkl__supervisor_policy *policy);

void zkl__supervisor_step(struct zkl__supervisor *supervisor, const struct zkl__supervisor_event *event,
                          struct zkl__supervisor_actions *ret);

/* The exit status for an error of the lock: the table of the manual. */
int zkl__supervisor_status_of(const struct zkl__supervisor *supervisor, int zkl_code);

#endif
