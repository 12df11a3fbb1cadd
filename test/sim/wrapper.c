/* SPDX-License-Identifier: Apache-2.0 */
/* As front.c does it: before any event the lock is asked, and where it says no the policy hears of that first; the timers
 * that actions start are kept here. The command is a number of processes that end by themselves, or not, at TERM, or not,
 * and at KILL. */
#include "wrapper.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "agenda.h"
#include "coverage.h"
#include "owner.h"
#include "process.h"
#include "report.h"
#include "rng.h"
#include "supervisor.h"

#define MS INT64_C(1000000)

struct wrapper {
	struct zkl__supervisor supervisor;
	struct rng             rng;
	bool                   running;    /* zklock-run */
	uint32_t               life, term; /* terms of all lives */
	unsigned               process;
	bool                   granted, told_lost, lost_before_end, overdue;
	bool                   leader, told;     /* to stop, while there was a tree */
	int64_t                max_hold;         /* 0: none */
	bool                   command, stopped; /* of the tree */
	unsigned               descendants;
	bool                   warden, stubborn, killing; /* stubborn: TERM does nothing */
};

static struct wrapper wrappers[OWNERS];

static void step(struct wrapper *w, enum zkl__supervisor_event_type type, int value);

static unsigned index_of(const struct wrapper *w)
{
	return (unsigned)(w - wrappers);
}

static int64_t some_time(struct wrapper *w)
{
	int64_t pace = owner_options_of(index_of(w))->pace;

	return owner_draining()         ? 1 + rng_below(&w->rng, 2 * MS)
	       : rng_chance(&w->rng, 4) ? 1
	                                : 1 + rng_below(&w->rng, pace);
}

/* Appointments carry the term, so that those of an earlier one find nobody; or the life of the wrapper, for what may come
 * in any term. */
static void later(struct wrapper *w, int64_t after, agenda_fn *fn)
{
	agenda_put(agenda_now() + after, fn, index_of(w), w->term);
}

static void ever(struct wrapper *w, int64_t after, agenda_fn *fn)
{
	agenda_put(agenda_now() + after, fn, index_of(w), w->life);
}

static bool cannot_run(struct wrapper *w, agenda_fn *fn, uint32_t appointed)
{
	int64_t at = process_thread_at(w->process, THREAD_OWNER);

	if (at > agenda_now())
		agenda_put(at, fn, index_of(w), appointed);
	return at > agenda_now();
}

static bool is_over(uint32_t owner, uint32_t term, agenda_fn *fn)
{
	struct wrapper *w = &wrappers[owner];

	return !w->running || w->term != term || cannot_run(w, fn, term);
}

static bool is_dead(uint32_t owner, uint32_t life, agenda_fn *fn)
{
	struct wrapper *w = &wrappers[owner];

	return !w->running || w->life != life || cannot_run(w, fn, life);
}

/* ---- the lease --------------------------------------------------------------------------------------------------- */

static bool tree_is_gone(const struct wrapper *w)
{
	return !w->command && !w->descendants;
}

static void lose(struct wrapper *w)
{
	if (w->told_lost)
		return;
	w->told_lost = true;
	w->lost_before_end = !tree_is_gone(w);
	step(w, ZKL__ON_LOST, 0);
}

static void look_at_lease(struct wrapper *w)
{
	if (w->granted && !w->told_lost && owner_ask(index_of(w)) <= 0)
		lose(w);
}

static void feed(struct wrapper *w, enum zkl__supervisor_event_type type, int value)
{
	uint32_t life = w->life;

	look_at_lease(w);
	if (w->running && w->life == life)
		step(w, type, value);
}

static void look(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];
	int64_t         left;

	if (is_over(owner, term, look))
		return;
	left = w->granted && !w->told_lost ? owner_ask(owner) : 0;
	if (left <= 0)
		look_at_lease(w);
	else
		later(w, (left / 12 > 10 ? left / 12 : 10) * MS, look);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void tell_end(struct wrapper *w, int wait_status)
{
	w->command = false;
	if (WIFSIGNALED(wait_status) && rng_chance(&w->rng, 2)) {
		w->told = true;
		feed(w, ZKL__ON_TOLD, WTERMSIG(wait_status));
	}
	if (rng_chance(&w->rng, 4))
		feed(w, ZKL__ON_STEADY, 0);
	feed(w, w->descendants ? ZKL__ON_EXITED : ZKL__ON_EXITED_ALONE, wait_status);
}

static void command_ends(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (!is_over(owner, term, command_ends) && w->command)
		tell_end(w, rng_chance(&w->rng, 8) ? SIGINT : (int)rng_below(&w->rng, 3) << 8);
}

static void tree_ends(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (is_over(owner, term, tree_ends) || (tree_is_gone(w) && !w->killing))
		return;
	w->killing = false;
	w->descendants = 0;
	if (w->command) {
		tell_end(w, SIGTERM);
	} else {
		feed(w, ZKL__ON_GONE, 0);
	}
}

static void exec_fails(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (is_over(owner, term, exec_fails) || !w->warden || !w->command)
		return;
	w->command = false;
	feed(w, ZKL__ON_NOT_STARTED, ZKL__STATUS_NOT_FOUND);
}

static void command_continues(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (is_over(owner, term, command_continues) || !w->command || !w->stopped)
		return;
	w->stopped = false;
	feed(w, ZKL__ON_CONTINUED, 0);
}

/* Others may continue it, too. */
static void command_stops(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (is_over(owner, term, command_stops) || !w->command)
		return;
	w->stopped = true;
	if (rng_chance(&w->rng, 2))
		later(w, 1 + rng_below(&w->rng, 3 * MS), command_continues);
	feed(w, ZKL__ON_STOPPED, SIGTSTP);
}

static void spawn(struct wrapper *w)
{
	if (!w->granted || w->told_lost)
		report_failure(WRAPPER, "owner %u: a command is started without the lock", index_of(w));
	w->command = true;
	w->stopped = false;
	w->descendants = rng_chance(&w->rng, 3) ? 2 : 0;
	w->stubborn = rng_chance(&w->rng, 3);
	if (rng_chance(&w->rng, 8)) {
		w->descendants = 0;
		later(w, 1 + rng_below(&w->rng, 2 * MS), exec_fails);
		return;
	}
	if (rng_chance(&w->rng, 4))
		later(w, 1 + rng_below(&w->rng, 3 * MS), command_stops);
	later(w, some_time(w), command_ends);
}

static void warden_dies(uint32_t owner, uint32_t life)
{
	struct wrapper *w = &wrappers[owner];

	if (is_dead(owner, life, warden_dies) || !w->warden)
		return;
	w->warden = false;
	w->command = false; /* it dies with its parent; its descendants do not */
	feed(w, ZKL__ON_WARDEN_DIED, 0);
}

/* ---- signals, timers --------------------------------------------------------------------------------------------- */

static void send_signal(struct wrapper *w, int sig)
{
	uint32_t life = w->life;

	look_at_lease(w);
	if (!w->running || w->life != life)
		return;
	w->told = w->told || (!tree_is_gone(w) && (sig == SIGHUP || sig == SIGINT || sig == SIGTERM));
	step(w, ZKL__ON_SIGNALLED, sig);
}

static void signalled(uint32_t owner, uint32_t life)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGTSTP, SIGCONT};
	struct wrapper  *w = &wrappers[owner];

	if (!is_dead(owner, life, signalled))
		send_signal(w, signals[rng_below(&w->rng, 6)]);
}

/* Who leads does not end by itself. */
static void told_to_stop(uint32_t owner, uint32_t life)
{
	struct wrapper *w = &wrappers[owner];

	if (is_dead(owner, life, told_to_stop))
		return;
	ever(w, 2 * MS, told_to_stop);
	send_signal(w, SIGTERM);
}

static void pause_over(uint32_t owner, uint32_t term)
{
	if (!is_over(owner, term, pause_over))
		feed(&wrappers[owner], ZKL__ON_PAUSE_OVER, 0);
}

static void continued(uint32_t owner, uint32_t life)
{
	if (!is_dead(owner, life, continued))
		feed(&wrappers[owner], ZKL__ON_SIGNALLED, SIGCONT);
}

static void grace_over(uint32_t owner, uint32_t term)
{
	if (!is_over(owner, term, grace_over))
		feed(&wrappers[owner], ZKL__ON_GRACE_OVER, 0);
}

static void max_hold_over(uint32_t owner, uint32_t term)
{
	struct wrapper *w = &wrappers[owner];

	if (is_over(owner, term, max_hold_over))
		return;
	look_at_lease(w);
	if (!w->running || w->term != term)
		return;
	w->overdue = w->overdue || w->supervisor.state == ZKL__STATE_RUNNING ||
	             w->supervisor.state == ZKL__STATE_STAYING;
	step(w, ZKL__ON_MAX_HOLD_OVER, 0);
}

static void min_hold_over(uint32_t owner, uint32_t term)
{
	if (!is_over(owner, term, min_hold_over))
		feed(&wrappers[owner], ZKL__ON_MIN_HOLD_OVER, 0);
}

/* It is looked at where the lock is waited for or given back. */
static void connect_timeout(uint32_t owner, uint32_t life)
{
	struct wrapper *w = &wrappers[owner];

	if (is_dead(owner, life, connect_timeout) || process_hub(w->process)->session_id != 0)
		return;
	if (w->supervisor.state == ZKL__STATE_WAITING || w->supervisor.state == ZKL__STATE_RELEASING)
		step(w, ZKL__ON_CONNECT_TIMEOUT, 0);
	else
		ever(w, 10 * MS, connect_timeout);
}

/* ---- what the policy wants --------------------------------------------------------------------------------------- */

static void leave(struct wrapper *w)
{
	const struct zkl__supervisor_exit *exit = &w->supervisor.exit;
	unsigned                           owner = index_of(w);

	TRACE("owner %u: zklock-run ends with %d, signal %d", owner, exit->status, exit->signal);
	if (!tree_is_gone(w))
		report_failure(WRAPPER, "owner %u: released while something of the command runs", owner);
	if (!w->leader && w->lost_before_end && exit->status != ZKL__STATUS_LOST &&
	    exit->status != ZKL__STATUS_NOT_FOUND && exit->status != ZKL__STATUS_NOT_EXECUTED)
		report_failure(WRAPPER, "owner %u: the lock was lost under the command, the status is %d", owner,
		               exit->status);
	/* A loss that is seen only when the end is told comes first, too. */
	if (!w->leader && w->overdue && !w->lost_before_end && exit->status != ZKL__STATUS_OVERDUE &&
	    !(w->told_lost && exit->status == ZKL__STATUS_LOST) && exit->status != ZKL__STATUS_NOT_FOUND &&
	    exit->status != ZKL__STATUS_NOT_EXECUTED)
		report_failure(WRAPPER, "owner %u: the command was overdue, the status is %d", owner, exit->status);
	w->running = false;
	w->life++;
	zkl__handle_release(owner_handle(owner));
	owner_resting(owner);
}

static void act(struct wrapper *w, const struct zkl__supervisor_action *action)
{
	int64_t stop = owner_options_of(index_of(w))->stop_ms * MS;

	switch (action->type) {
	case ZKL__DO_ATTEMPT:
		if (owner_handle(index_of(w))->attempt)
			report_failure(WRAPPER, "owner %u: wants to have twice", index_of(w));
		owner_attempt(index_of(w), rng_chance(&w->rng, 4) ? 1 + some_time(w) / MS : ZKL_FOREVER);
		break;
	case ZKL__DO_RELEASE:
		if (!tree_is_gone(w))
			report_failure(WRAPPER, "owner %u: put away while something runs", index_of(w));
		if (w->told)
			report_failure(WRAPPER, "owner %u: goes on though it was told to stop", index_of(w));
		w->granted = w->killing = w->lost_before_end = w->overdue = false;
		w->term++;
		zkl__handle_release(owner_handle(index_of(w)));
		break;
	case ZKL__DO_SPAWN:
		spawn(w);
		break;
	case ZKL__DO_FORWARD:
		if (action->value == SIGTERM || action->value == SIGINT || action->value == SIGHUP)
			later(w, 1, command_ends);
		break;
	case ZKL__DO_CONTINUE:
		later(w, 1, command_continues);
		break;
	case ZKL__DO_TAKE_TERMINAL:
	case ZKL__DO_GIVE_TERMINAL:
		break;
	case ZKL__DO_STOP_SELF:
		if (w->command && !w->stopped)
			report_failure(WRAPPER, "owner %u: stops before its command", index_of(w));
		process_pause(w->process, some_time(w));
		ever(w, 1, continued);
		break;
	case ZKL__DO_STAY: /* some of what is left ends by itself */
		if (rng_chance(&w->rng, 2) || owner_draining())
			later(w, some_time(w), tree_ends);
		break;
	case ZKL__DO_TERM:
		if (!w->stubborn)
			later(w, 1 + rng_below(&w->rng, 2 * MS), tree_ends);
		later(w, stop + 1, grace_over);
		break;
	case ZKL__DO_KILL: /* at times something waits for a disk */
		w->killing = true;
		later(w, rng_chance(&w->rng, 8) ? some_time(w) : 1 + rng_below(&w->rng, MS), tree_ends);
		break;
	case ZKL__DO_HOLD:
		later(w, some_time(w), min_hold_over);
		break;
	case ZKL__DO_PAUSE:
		later(w, some_time(w), pause_over);
		break;
	case ZKL__DO_EXIT:
		leave(w);
		break;
	}
}

static void step(struct wrapper *w, enum zkl__supervisor_event_type type, int value)
{
	struct zkl__supervisor_actions actions;
	uint32_t                       life = w->life;

	coverage_supervisor(w->supervisor.state, type);
	zkl__supervisor_step(&w->supervisor, &(struct zkl__supervisor_event){type, value}, &actions);
	for (unsigned i = 0; i < actions.count && w->life == life; i++)
		act(w, &actions.list[i]);
}

/* ---- events of the lock ------------------------------------------------------------------------------------------ */

static void end(struct wrapper *w, int code)
{
	uint32_t life = w->life;

	if (w->granted)
		lose(w);
	if (w->running && w->life == life)
		step(w, ZKL__ON_ENDED, code);
}

void wrapper_event(unsigned owner, const zkl_event *event)
{
	struct wrapper *w = &wrappers[owner];

	if (!w->running)
		return;
	switch (event->type) {
	case ZKL_EV_GRANTED:
		/* A pause between the two, at times. */
		if (owner_ask(owner) <= 0 || rng_chance(&w->rng, 40)) {
			step(w, ZKL__ON_GRANTED_LATE, 0);
			break;
		}
		w->granted = true;
		w->told_lost = false;
		step(w, ZKL__ON_GRANTED, 0);
		if (w->max_hold)
			later(w, w->max_hold, max_hold_over);
		look(owner, w->term);
		break;
	case ZKL_EV_LOST:
		if (w->granted)
			lose(w);
		break;
	case ZKL_EV_ENDED:
		end(w, event->code);
		break;
	default:
		break;
	}
}

void wrapper_start(unsigned owner, unsigned process, uint64_t seed)
{
	struct wrapper *w = &wrappers[owner];
	uint32_t        life = w->life + 1, term = w->term + 1;
	bool            min_hold, wait_all, tries;

	memset(w, 0, sizeof *w);
	w->rng = rng_make(seed, 'c');
	w->life = life;
	w->term = term;
	w->process = process;
	w->running = w->warden = true;
	w->leader = rng_chance(&w->rng, 3);
	min_hold = !w->leader && rng_chance(&w->rng, 3);
	wait_all = rng_chance(&w->rng, 3);
	const struct zkl__supervisor_policy policy = {
		.busy_status = ZKL__STATUS_BUSY, .min_hold = min_hold, .wait_all = wait_all, .leader = w->leader};
	zkl__supervisor_init(&w->supervisor, &policy);
	w->max_hold = rng_chance(&w->rng, 4) ? some_time(w) : 0;
	if (rng_chance(&w->rng, 6))
		ever(w, some_time(w), warden_dies);
	for (int64_t i = rng_below(&w->rng, 3); i-- > 0;)
		ever(w, 1 + rng_below(&w->rng, 2 * owner_options_of(owner)->pace), signalled);
	ever(w, owner_options_of(owner)->pace, connect_timeout);
	tries = rng_chance(&w->rng, 2);
	owner_attempt(owner, !rng_chance(&w->rng, 4) ? ZKL_FOREVER : tries ? 0 : some_time(w) / MS);
}

void wrapper_forget(unsigned owner)
{
	wrappers[owner].running = false;
	wrappers[owner].life++;
}

void wrapper_drain(unsigned owner)
{
	struct wrapper *w = &wrappers[owner];

	if (!w->running)
		return;
	later(w, 2 * MS, command_ends);
	later(w, 3 * MS, tree_ends);
	later(w, 4 * MS, min_hold_over);
	if (w->leader)
		ever(w, 5 * MS, told_to_stop);
}
