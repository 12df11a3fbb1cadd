/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agenda.h"
#include "client.h"
#include "faults.h"
#include "invariants.h"
#include "observers.h"
#include "owner.h"
#include "process.h"
#include "resource.h"
#include "rng.h"
#include "zk.h"

#define MS INT64_C(1000000)

struct world {
	struct rng             rng;
	int64_t                timeout, least; /* asked for; the least that some server grants */
	struct zk_options      zk;
	struct process_options process[PROCESSES];
	unsigned               processes, owners;
	bool                   observes[PROCESSES];
	struct owner_options   owner[OWNERS];
	int64_t                first_sequence, age; /* age < 0: no lock directory yet */
	int64_t                active;              /* how long until all is mended */
	bool                   lease;               /* about the lease: long holds, long cuts */
	struct fault           faults[SCHEDULE_FAULTS];
	unsigned               fault_count;
};

static struct world world;

/* ---- what there is ----------------------------------------------------------------------------------------------- */

static void choose_ensemble(struct world *w)
{
	struct rng *r = &w->rng;
	int64_t     most_late;
	bool        unlike = rng_chance(r, w->lease ? 2 : 4); /* servers with different session limits */

	w->timeout = (rng_chance(r, 2) ? 4000 : 10000) * MS;
	w->least = unlike ? w->timeout * rng_between(r, 4, 9) / 10 : w->timeout;
	w->zk.tick = w->least / (rng_chance(r, 3) ? 2 : w->lease && rng_chance(r, 2) ? 20 : rng_between(r, 2, 20));
	w->zk.sync_limit = w->lease ? 4 * w->least / w->zk.tick : rng_chance(r, 3) ? 2 : rng_between(r, 2, 20);
	w->zk.election = w->timeout / rng_between(r, 20, 100);
	w->zk.latency = (int64_t[]){50000, 500000, 2 * MS, w->least / 200}[rng_below(r, 4)];
	w->zk.spread = w->zk.latency / 4;
	for (unsigned i = 0; i < ZK_SERVERS; i++) {
		bool brief = unlike && (i == 1 || (i == 2 && !w->lease && rng_chance(r, 2)));

		/* Who comes from a brief one asks for what it had there, so that only a lower limit can raise it. */
		w->zk.timeout_min[i] = unlike && !brief && rng_chance(r, 2) ? w->timeout : 2 * w->zk.tick;
		w->zk.timeout_max[i] = brief ? w->least : 40 * w->zk.tick > w->timeout ? 40 * w->zk.tick : w->timeout;
		w->zk.reach[i] = rng_chance(r, 4) ? rng_below(r, 20 * MS) : 0;
	}
	/* The leader may be late by T/24, in all; what it leaves of that is for the clocks. */
	most_late = w->least / 24 - 2 * w->zk.spread - 1;
	switch (rng_below(r, 4)) {
	case 0:
		w->zk.ping_delay = most_late;
		break;
	case 1:
		w->zk.ping_delay = rng_below(r, most_late);
		break;
	default:
		w->zk.ping_delay = 0;
		break;
	}
}

/* T/24 in T is for the clocks, too. */
static int64_t choose_rate(struct world *w)
{
	int64_t most = 1000000 / 24 - w->zk.ping_delay * 1000000 / w->least;

	if (!rng_chance(&w->rng, 3) || most <= 0)
		return 0;
	return rng_chance(&w->rng, 3) ? rng_between(&w->rng, -most, most) : rng_chance(&w->rng, 3) ? most : -most;
}

static int64_t most_stop(const struct world *w, const struct zkl__lease_options *lease)
{
	struct zkl__lease_limits asked, granted;

	zkl__lease_limits(lease, w->timeout, &asked);
	zkl__lease_limits(lease, w->least, &granted);
	return asked.stop_max < granted.stop_max ? asked.stop_max : granted.stop_max;
}

/* As it is by default, or with as little margin as the session's options would accept, or as much. */
static void choose_lease(struct world *w, struct zkl__lease_options *lease)
{
	struct rng              *r = &w->rng;
	struct zkl__lease_limits limits;

	memset(lease, 0, sizeof *lease);
	if (!rng_chance(r, w->lease ? 2 : 4))
		return;
	if (rng_chance(r, 2))
		lease->tick_ns = w->zk.tick;
	if (rng_chance(r, 2))
		lease->heartbeat_ns = w->least / rng_between(r, 3, 20);
	zkl__lease_limits(lease, w->timeout, &limits);
	lease->margin_ns = rng_chance(r, 4) ? limits.margin_max : limits.margin_min;
	/* They must fit whatever the servers grant. */
	if (most_stop(w, lease) < 0)
		memset(lease, 0, sizeof *lease);
}

static void choose_process(struct world *w, struct process_options *p)
{
	struct rng *r = &w->rng;

	p->rate_ppm = choose_rate(w);
	p->offset = rng_below(r, 1000) * 1000 * MS + MS;
	p->latency = (int64_t[]){50000, 500000, 3 * MS, 20 * MS}[rng_below(r, 4)];
	p->spread = p->latency / 2;
	p->timeout = w->timeout;
	p->slowness = (int64_t[]){100000, 100000, 2 * MS}[rng_below(r, 3)];
	p->first_server = w->lease ? 1 : (unsigned)rng_below(r, ZK_SERVERS);
	choose_lease(w, &p->lease);
}

static void choose_owner(struct world *w, unsigned i, unsigned elections)
{
	struct rng           *r = &w->rng;
	struct owner_options *o = &w->owner[i];

	memset(o, 0, sizeof *o);
	o->process = i < w->processes ? i : (unsigned)rng_below(r, w->processes);
	/* 1: an election only, 2: both, else locks only */
	o->candidate = elections == 1 || (elections == 2 && i % 2);
	o->directory = o->candidate;
	o->no_requeue = rng_chance(r, 8);
	o->style = rng_chance(r, 3) ? STYLE_BLOCKING : rng_chance(r, 3) ? STYLE_WRAPPED : STYLE_EVENTS;
	if (o->candidate && rng_chance(r, 3))
		o->style = STYLE_TERM;
	o->stop_ms = rng_chance(r, 3) ? rng_below(r, most_stop(w, &w->process[o->process].lease) / MS + 1) : 0;
	o->pace = w->timeout / (int64_t[]){2, 4, 10, 25}[rng_below(r, 4)];
	if (w->lease)
		o->pace = w->timeout * rng_between(r, 1, 4);
	o->impatient = rng_chance(r, 4);
}

static void choose_directory(struct world *w)
{
	w->first_sequence = rng_chance(&w->rng, 2) ? 0 : rng_below(&w->rng, 100000);
	if (rng_chance(&w->rng, 20))
		w->first_sequence = ZKL__SEQUENCE_END - rng_below(&w->rng, 12);
	else if (rng_chance(&w->rng, 60))
		w->first_sequence = INT32_MAX - rng_below(&w->rng, 6);
	w->age = w->first_sequence + 1 + rng_below(&w->rng, 1000);
	if (rng_chance(&w->rng, 4))
		w->age = -1;
	/* Children made in bulk, by multi: more numbers than transactions. */
	else if (rng_chance(&w->rng, 60))
		w->age = w->first_sequence / 2;
}

static void choose(struct world *w, uint64_t seed)
{
	unsigned elections;

	memset(w, 0, sizeof *w);
	w->rng = rng_make(seed, 's');
	w->lease = rng_chance(&w->rng, 3);
	choose_ensemble(w);
	w->processes = (unsigned)rng_between(&w->rng, 2, PROCESSES);
	w->owners = (unsigned)rng_between(&w->rng, w->processes < 3 ? 3 : w->processes, 6);
	for (unsigned i = 0; i < w->processes; i++)
		choose_process(w, &w->process[i]);
	elections = (unsigned)rng_below(&w->rng, 4);
	for (unsigned i = 0; i < w->owners; i++)
		choose_owner(w, i, elections);
	for (unsigned i = 0; i < w->processes; i++)
		w->observes[i] = elections && rng_chance(&w->rng, 3);
	choose_directory(w);
	w->active = w->timeout * rng_between(&w->rng, 15, 40) / 10 * (w->lease ? 2 : 1);
	w->fault_count = faults_choose(w->faults, SCHEDULE_FAULTS, w->timeout, w->active, w->lease, seed);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static void begin(struct world *w, uint64_t seed, uint64_t without, bool trace)
{
	report_begin(trace);
	agenda_begin();
	wire_begin(seed);
	tree_begin(w->first_sequence, w->age);
	invariants_begin();
	resource_begin();
	zk_begin(&w->zk, seed);
	owner_begin();
	observers_begin();
	TRACE("world: T %" PRId64 " ms (least %" PRId64 "), tick %" PRId64 " ms, syncLimit %" PRId64
	      ", leader's delay up to %" PRId64 " ms, first number %" PRId64,
	      w->timeout / MS, w->least / MS, w->zk.tick / MS, w->zk.sync_limit, w->zk.ping_delay / MS,
	      w->first_sequence);
	for (unsigned i = 0; i < w->processes; i++) {
		const struct process_options *p = &w->process[i];

		TRACE("process %u: clock %+" PRId64 " ppm, a way of %" PRId64 " us, margin %" PRId64
		      " ms, heartbeat %" PRId64 " ms, tick %" PRId64 " ms (0: as by default)",
		      i, p->rate_ppm, p->latency / 1000, p->lease.margin_ns / MS, p->lease.heartbeat_ns / MS,
		      p->lease.tick_ns / MS);
		process_init(i, p, seed);
	}
	for (unsigned i = 0; i < w->processes; i++)
		if (w->observes[i])
			observers_add(i, 1);
	for (unsigned i = 0; i < w->owners; i++)
		if (!(without >> (SCHEDULE_FAULTS + i) & 1)) {
			const struct owner_options *o = &w->owner[i];
			unsigned                    owner = owner_add(o, seed + i);

			TRACE("owner %u: process %u, %s%s%s, stop_ms %" PRId64, owner, o->process,
			      o->candidate ? "candidate" : "lock", o->no_requeue ? ", no requeue" : "",
			      o->style == STYLE_BLOCKING  ? ", blocking"
			      : o->style == STYLE_TERM    ? ", in terms"
			      : o->style == STYLE_WRAPPED ? ", zklock-run"
			                                  : "",
			      o->stop_ms);
		}
	for (unsigned i = 0; i < w->processes; i++)
		process_start(i);
	for (unsigned i = 0; i < w->fault_count; i++)
		if (!(without >> i & 1))
			faults_plan(&w->faults[i]);
}

static void check_effort(void)
{
	if (agenda_count() > 400000)
		report_failure(ROOM, "it goes on without end");
}

/* Who is still in the middle of something; NULL: nobody. */
static const char *what_is_left(const struct world *w)
{
	const char *left = invariants_rest();

	if (left)
		return left;
	if (!zk_healthy())
		return "the ensemble is not whole";
	if (!observers_at_rest())
		return "somebody is observed to lead";
	for (unsigned i = 0; i < w->processes; i++)
		if (!process_quiet(i))
			return "requests are under way";
	for (unsigned i = 0; i < owner_count(); i++)
		if (!owner_idle(i))
			return owner_state(i);
	return NULL;
}

/* After the last fault everybody must be granted, one after the other, or be done: sessions of the dead end, servers find a
 * leader, clients find servers. */
static void come_to_rest(struct world *w)
{
	int64_t limit = agenda_now() + 4 * w->timeout + 4 * w->zk.election, pause = w->timeout / 20;

	TRACE("all is mended");
	faults_mend(w->processes);
	owner_drain();
	for (const char *left; !report_failed() && (left = what_is_left(w));) {
		int64_t until = agenda_now() + pause;

		if (agenda_now() >= limit) {
			TRACE("%s", zk_state());
			for (unsigned i = 0; i < w->processes; i++)
				TRACE("process %u: alive %d, quiet %d, %u outstanding", i, process_alive(i),
				      process_quiet(i), client_outstanding(i));
			report_failure(PROGRESS, "it does not come to rest: %s", left);
			break;
		}
		faults_tidy();
		while (!report_failed() && agenda_step(until))
			check_effort();
	}
}

/* Two runs that differ in anything that was done, or when, differ in this. */
static uint64_t digest(uint64_t seed)
{
	uint64_t sum = rng_mix(seed ^ agenda_digest());

	for (int16_t i = 0; i < tree_nodes(); i++) {
		const struct tree_node *n = tree_node(i);

		sum = rng_mix(sum ^ n->uuid.high);
		sum = rng_mix(sum ^ n->uuid.low ^ (uint64_t)n->born << 32 ^ (uint64_t)n->died);
	}
	return sum;
}

void schedule_run(uint64_t seed, uint64_t without, bool trace, struct schedule_result *ret)
{
	struct world *w = &world;

	choose(w, seed);
	begin(w, seed, without, trace);
	while (!report_failed() && agenda_step(w->active))
		check_effort();
	if (!report_failed())
		come_to_rest(w);
	memset(ret, 0, sizeof *ret);
	ret->failed = report_failed();
	if (ret->failed) {
		ret->invariant = report_invariant();
		snprintf(ret->text, sizeof ret->text, "%s", report_text());
	}
	ret->events = agenda_count();
	ret->length_ns = agenda_now();
	ret->faults = w->fault_count;
	ret->owners = w->owners;
	ret->grants = invariants_grants();
	ret->losses = invariants_losses();
	ret->elections = zk_elections();
	ret->digest = digest(seed);
	for (unsigned i = 0; i < w->processes; i++)
		if (process_alive(i))
			process_kill(i, INT64_MAX);
}

bool schedule_has_part(uint64_t seed, unsigned part)
{
	choose(&world, seed);
	return part < SCHEDULE_FAULTS ? part < world.fault_count : part - SCHEDULE_FAULTS < world.owners;
}
