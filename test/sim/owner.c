/* SPDX-License-Identifier: Apache-2.0 */
#include "owner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "invariants.h"
#include "process.h"
#include "report.h"
#include "resource.h"
#include "rng.h"
#include "wrapper.h"

#define MS INT64_C(1000000)

enum phase { RESTING, WAITING, HOLDING, LOST };
enum { STORIES = 32 };

/* What the owner was told of one attempt. */
struct story {
	uint32_t attempt;
	bool     granted, lost, ended, suspended;
};

struct owner {
	struct owner_options options;
	struct rng           rng;
	bool                 open;   /* there is a handle */
	bool                 pinned; /* a term runs */
	struct zkl__handle   handle;
	enum phase           phase;
	uint32_t             turn; /* of what it does: older appointments mean nothing */
	struct zkl__attempt *awaited;
	uint32_t             attempt; /* number of the present one */
	uint32_t             starts;  /* of all handles */
	uint64_t             token;
	bool                 said_no;
	struct story         stories[STORIES];
};

static struct {
	struct owner owners[OWNERS];
	unsigned     count;
	bool         draining;
} all;

static void act(uint32_t owner, uint32_t turn);
static void on_event(const zkl_event *event, void *user);

static uint32_t index_of(const struct owner *o)
{
	return (uint32_t)(o - all.owners);
}

static void come_back(struct owner *o, int64_t after)
{
	agenda_put(agenda_now() + after, act, index_of(o), o->turn);
}

static int64_t a_while(struct owner *o)
{
	switch (rng_below(&o->rng, 6)) {
	case 0:
		return 1;
	case 1:
		return rng_below(&o->rng, 3 * MS);
	default:
		return rng_below(&o->rng, o->options.pace);
	}
}

/* Postponed while its thread cannot run. */
static bool postponed(struct owner *o, agenda_fn *fn, uint32_t turn)
{
	int64_t at = process_thread_at(o->options.process, THREAD_OWNER);

	if (at > agenda_now())
		agenda_put(at, fn, index_of(o), turn);
	return at > agenda_now();
}

static void rest(struct owner *o)
{
	o->turn++;
	o->phase = RESTING;
	if (!all.draining)
		come_back(o, a_while(o));
}

/* ---- holding ----------------------------------------------------------------------------------------------------- */

static void work(uint32_t owner, uint32_t turn);

static int64_t ask(struct owner *o)
{
	int64_t left = zkl__handle_check(&o->handle, o->token);

	if (left > 0 && o->said_no)
		report_failure(NO_STAYS_NO, "owner %u: check says yes again for token %" PRIu64, index_of(o), o->token);
	if (left <= 0)
		o->said_no = true;
	return left;
}

/* True: it was resigned before. */
static bool end_term(struct owner *o)
{
	o->pinned = false;
	return zkl__handle_unpin(&o->handle);
}

/* Another thread resigns while the term runs: a request, but check() says no at once. */
static void resign(struct owner *o)
{
	TRACE("owner %u: is resigned during its term", index_of(o));
	zkl__handle_release(&o->handle);
	if (zkl__handle_check(&o->handle, o->token) > 0)
		report_failure(NO_STAYS_NO, "owner %u: check says yes after it was resigned", index_of(o));
	o->said_no = true;
	come_back(o, 1 + a_while(o));
}

static void let_go(struct owner *o)
{
	int r;

	TRACE("owner %u: lets go", index_of(o));
	r = o->pinned && end_term(o) ? -1 : zkl__handle_release(&o->handle);
	if (r == 0 && o->said_no && o->phase == HOLDING)
		report_failure(NO_STAYS_NO, "owner %u: released as held after check has said no", index_of(o));
	if (zkl__handle_check(&o->handle, o->token) > 0)
		report_failure(NO_STAYS_NO, "owner %u: check says yes after the release", index_of(o));
	rest(o);
}

static void lost(struct owner *o)
{
	if (o->phase != HOLDING)
		return;
	o->phase = LOST;
	o->turn++;
	come_back(o, all.draining ? MS : a_while(o) / 2);
}

static bool waits(const struct owner *o)
{
	return o->options.style == STYLE_BLOCKING || o->options.style == STYLE_TERM;
}

/* Some time, or in the last millisecond of the lease. */
static int64_t next_work(struct owner *o)
{
	int64_t deadline = atomic_load(&process_hub(o->options.process)->deadline_ns) - o->handle.stop_ns;
	int64_t last = process_true_time(o->options.process, deadline) - rng_below(&o->rng, MS);

	if (rng_chance(&o->rng, 3) && last > agenda_now())
		return last;
	return agenda_now() + 1 + rng_below(&o->rng, o->options.pace / 2 + MS);
}

static void work(uint32_t owner, uint32_t turn)
{
	struct owner *o = &all.owners[owner];
	int64_t       left;

	if (o->turn != turn || o->phase != HOLDING || postponed(o, work, turn))
		return;
	left = ask(o);
	if (left > 0)
		resource_write_later(o->options.directory, o->options.process,
		                     invariants_attempt_of_token(o->token, owner), o->token, left * MS, &o->rng);
	else if (waits(o))
		lost(o);
	if (o->phase == HOLDING)
		agenda_put(next_work(o), work, owner, turn);
}

static void granted(struct owner *o, uint64_t token)
{
	o->phase = HOLDING;
	o->turn++;
	o->token = token;
	o->said_no = false;
	TRACE("owner %u: holds, token %" PRIu64, index_of(o), token);
	if (o->options.style == STYLE_TERM) {
		zkl__handle_pin(&o->handle);
		o->pinned = true;
	}
	work(index_of(o), o->turn);
	if (o->phase == HOLDING)
		come_back(o, all.draining ? rng_below(&o->rng, 3 * MS) : a_while(o));
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Not over, though it should be? Asked a little after the timeout. */
static void timeout_check(uint32_t owner, uint32_t start)
{
	struct owner        *o = &all.owners[owner];
	struct zkl__attempt *a = o->open ? o->handle.attempt : NULL;
	int64_t              at = process_thread_at(o->options.process, THREAD_PROTOCOL);

	if (!a || o->starts != start || zkl__attempt_settled(a) || a->contender.state == ZKL__LEAVE)
		return;
	if (at > agenda_now() || process_amid_mail(o->options.process))
		agenda_put(at + 6 * MS, timeout_check, owner, start);
	else
		report_failure(BOUNDED, "owner %u: still waiting after its timeout", owner);
}

static void watch_timeout(struct owner *o, int64_t timeout_ns)
{
	int64_t end = process_true_time(o->options.process, process_clock(o->options.process) + timeout_ns);

	agenda_put(end + 6 * MS, timeout_check, index_of(o), o->starts);
}

static int64_t choose_timeout_ms(struct owner *o)
{
	int64_t kind = rng_below(&o->rng, o->options.impatient ? 4 : 16);

	if (kind == 0)
		return 0;
	return kind == 1 ? 1 + rng_below(&o->rng, 3 * o->options.pace / MS + 1) : ZKL_FOREVER;
}

static void await(struct owner *o)
{
	if (!waits(o) || !o->handle.attempt)
		return;
	o->awaited = o->handle.attempt;
	zkl__attempt_hold(o->awaited);
	owner_ready(&o->awaited->source);
}

void owner_attempt(unsigned owner, int64_t timeout_ms)
{
	struct owner *o = &all.owners[owner];
	int           r;

	o->turn++;
	o->phase = WAITING;
	o->attempt = o->handle.attempt_count + 1;
	o->starts++;
	TRACE("owner %u: starts attempt %u, timeout %" PRId64 " ms", owner, o->attempt, timeout_ms);
	r = zkl__handle_start(&o->handle, timeout_ms, NULL);
	if (r < 0) {
		TRACE("owner %u: start refused (%d)", owner, r);
		rest(o);
		return;
	}
	if (timeout_ms != ZKL_FOREVER)
		watch_timeout(o, timeout_ms ? timeout_ms * MS : process_hub(o->options.process)->op_ns);
	await(o);
	come_back(o, 1 + rng_below(&o->rng, 6 * o->options.pace));
}

/* Its time has come to do something else. */
static void act(uint32_t owner, uint32_t turn)
{
	struct owner *o = &all.owners[owner];

	if (o->turn != turn || !o->open || postponed(o, act, turn))
		return;
	switch (o->phase) {
	case RESTING:
		if (all.draining)
			break;
		if (o->options.style == STYLE_WRAPPED)
			wrapper_start(owner, o->options.process, rng_next(&o->rng));
		else
			owner_attempt(owner, choose_timeout_ms(o));
		break;
	case WAITING:
		if (o->options.style == STYLE_WRAPPED || all.draining)
			break;
		if (rng_chance(&o->rng, 4) && o->options.style == STYLE_EVENTS)
			let_go(o);
		else if (rng_chance(&o->rng, 8))
			owner_free_handle(owner);
		else
			come_back(o, 1 + rng_below(&o->rng, 6 * o->options.pace));
		break;
	case HOLDING:
	case LOST:
		if (o->pinned && !o->said_no && rng_chance(&o->rng, 4))
			resign(o);
		else if (o->options.style != STYLE_WRAPPED)
			let_go(o);
		break;
	}
}

static void wake(uint32_t owner, uint32_t attempt)
{
	struct owner        *o = &all.owners[owner];
	struct zkl__attempt *a = o->awaited;
	bool                 accepted;

	if (!a || a->number != attempt || postponed(o, wake, attempt) || !zkl__attempt_settled(a))
		return;
	o->awaited = NULL;
	accepted = a->handle && zkl__attempt_accept(a);
	if (o->phase == WAITING && o->attempt == attempt) {
		if (accepted)
			granted(o, a->token);
		else
			rest(o);
	}
	zkl__attempt_drop(a);
}

void owner_ready(const struct zkl__source *source)
{
	for (unsigned i = 0; i < all.count; i++) {
		struct zkl__attempt *a = all.owners[i].awaited;

		if (a && &a->source == source && zkl__attempt_settled(a))
			agenda_put(agenda_now() + rng_skewed(&all.owners[i].rng, MS / 4), wake, i, a->number);
	}
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static struct story *story_of(struct owner *o, uint32_t attempt)
{
	struct story *s = &o->stories[attempt % STORIES];

	if (s->attempt != attempt)
		*s = (struct story){.attempt = attempt};
	return s;
}

#define WRONG_IF(condition, what)                                                                                      \
	do {                                                                                                           \
		if (condition)                                                                                         \
			report_failure(ONE_LOST, "owner %u, attempt %u: %s", index_of(o), event->attempt, what);       \
	} while (0)

static void check_story(struct owner *o, const zkl_event *event)
{
	struct story *s = story_of(o, event->attempt);

	WRONG_IF(s->ended, "an event after ENDED");
	switch (event->type) {
	case ZKL_EV_WAITING:
		WRONG_IF(s->granted, "WAITING after GRANTED");
		break;
	case ZKL_EV_GRANTED:
		WRONG_IF(s->granted, "GRANTED twice");
		s->granted = true;
		break;
	case ZKL_EV_SUSPENDED:
		WRONG_IF(!s->granted || s->lost || s->suspended, "SUSPENDED out of order");
		s->suspended = true;
		break;
	case ZKL_EV_RESUMED:
		WRONG_IF(!s->granted || s->lost || !s->suspended, "RESUMED out of order");
		s->suspended = false;
		break;
	case ZKL_EV_LOST:
		WRONG_IF(!s->granted, "LOST before GRANTED");
		WRONG_IF(s->lost, "LOST twice");
		s->lost = true;
		break;
	case ZKL_EV_ENDED:
		WRONG_IF(s->lost && event->code == 0, "ENDED says released after LOST");
		WRONG_IF(s->granted && !s->lost && event->code == ZKL_ELOST, "lost, and no LOST was told");
		s->ended = true;
		break;
	case ZKL_EV_LEADER:
		break;
	}
}

static const char *event_name(zkl_event_type type)
{
	static const char *const names[] = {"",        "WAITING", "GRANTED", "SUSPENDED",
	                                    "RESUMED", "LOST",    "ENDED",   "LEADER"};

	return names[type];
}

static void on_event(const zkl_event *event, void *user)
{
	struct owner *o = user;

	TRACE("owner %u: %s, attempt %u, code %d", index_of(o), event_name(event->type), event->attempt, event->code);
	check_story(o, event);
	if (event->attempt != o->attempt)
		return;
	if (o->options.style == STYLE_WRAPPED) {
		if (event->type == ZKL_EV_GRANTED) {
			o->phase = HOLDING;
			o->token = event->grant->token;
			o->said_no = false;
		}
		wrapper_event(index_of(o), event);
		return;
	}
	switch (event->type) {
	case ZKL_EV_GRANTED:
		if (zkl__handle_check(&o->handle, event->grant->token) <= 0)
			report_failure(ONE_LOST, "owner %u: GRANTED, and it is over", index_of(o));
		granted(o, event->grant->token);
		break;
	case ZKL_EV_LOST:
		lost(o);
		break;
	case ZKL_EV_ENDED:
		if (o->phase == WAITING)
			rest(o);
		break;
	default:
		break;
	}
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void open_handle(struct owner *o)
{
	zkl_options options = ZKL_OPTIONS_INIT;

	options.on_event = waits(o) ? NULL : on_event;
	options.user = o;
	options.flags = o->options.no_requeue ? ZKL_NO_REQUEUE : 0;
	options.stop_ms = o->options.stop_ms;
	if (zkl__handle_init(&o->handle, o->options.candidate ? &zkl__election_type : &zkl__lock_type,
	                     process_hub(o->options.process), mail_paths[o->options.directory], &options, NULL) < 0)
		abort();
	o->open = true;
	o->attempt = 0;
	memset(o->stories, 0, sizeof o->stories);
}

void owner_end_terms(unsigned process)
{
	for (unsigned i = 0; i < all.count; i++)
		if (all.owners[i].options.process == process && all.owners[i].pinned)
			end_term(&all.owners[i]);
}

static void close_handle(struct owner *o)
{
	zkl__handle_close(&o->handle);
	zkl__handle_clear(&o->handle);
	if (o->awaited)
		zkl__attempt_drop(o->awaited);
	o->awaited = NULL;
	o->open = false;
}

void owner_free_handle(unsigned owner)
{
	struct owner *o = &all.owners[owner];

	if (!o->open || o->pinned || o->options.style == STYLE_WRAPPED)
		return;
	TRACE("owner %u: frees its handle", owner);
	close_handle(o);
	open_handle(o);
	rest(o);
}

void owner_start(unsigned process)
{
	for (unsigned i = 0; i < all.count; i++) {
		if (all.owners[i].options.process != process)
			continue;
		open_handle(&all.owners[i]);
		rest(&all.owners[i]);
	}
}

void owner_forget(unsigned process)
{
	for (unsigned i = 0; i < all.count; i++) {
		struct owner *o = &all.owners[i];

		if (o->options.process != process || !o->open)
			continue;
		wrapper_forget(i);
		close_handle(o);
		o->turn++;
		o->phase = RESTING;
	}
}

static void drain_one(struct owner *o)
{
	if (!o->open)
		return;
	if (o->options.style == STYLE_WRAPPED)
		wrapper_drain(index_of(o));
	else if (o->phase == HOLDING || o->phase == LOST)
		come_back(o, MS);
}

void owner_drain(void)
{
	all.draining = true;
	for (unsigned i = 0; i < all.count; i++)
		drain_one(&all.owners[i]);
}

bool owner_draining(void)
{
	return all.draining;
}

bool owner_idle(unsigned owner)
{
	return all.owners[owner].phase == RESTING && !all.owners[owner].awaited;
}

const char *owner_state(unsigned owner)
{
	static const char *const names[] = {"an owner rests", "an owner waits", "an owner holds", "an owner has lost"};

	return names[all.owners[owner].phase];
}

void owner_resting(unsigned owner)
{
	rest(&all.owners[owner]);
}

int64_t owner_ask(unsigned owner)
{
	return ask(&all.owners[owner]);
}

struct zkl__handle *owner_handle(unsigned owner)
{
	return &all.owners[owner].handle;
}

uint64_t owner_token(unsigned owner)
{
	return all.owners[owner].token;
}

const struct owner_options *owner_options_of(unsigned owner)
{
	return &all.owners[owner].options;
}

int owner_of(const struct zkl__handle *handle)
{
	for (unsigned i = 0; i < all.count; i++)
		if (&all.owners[i].handle == handle)
			return (int)i;
	return -1;
}

unsigned owner_count(void)
{
	return all.count;
}

void owner_begin(void)
{
	all.count = 0;
	all.draining = false;
}

unsigned owner_add(const struct owner_options *options, uint64_t seed)
{
	struct owner *o = &all.owners[all.count];

	memset(o, 0, sizeof *o);
	o->options = *options;
	o->rng = rng_make(seed, 0x200 + all.count);
	wrapper_forget(all.count);
	return all.count++;
}
