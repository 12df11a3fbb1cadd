/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <inttypes.h>
#include <string.h>

#include "agenda.h"
#include "client.h"
#include "invariants.h"
#include "owner.h"
#include "process.h"
#include "report.h"
#include "rng.h"
#include "schedule.h"
#include "zk.h"

#define MS      INT64_C(1000000)
#define NO_CONN UINT32_MAX

static struct {
	struct fault planned[SCHEDULE_FAULTS];
	unsigned     count;
	uint32_t     slowed[SCHEDULE_FAULTS], cut[SCHEDULE_FAULTS]; /* connections; NO_CONN: none */
	bool         mended;
	int64_t      active; /* when all is mended */
	/* An ambush: for which process, after how many grants or proofs more, for how long. */
	struct {
		bool     armed, by_proof, isolates;
		bool     stalls_io;
		int64_t  stall_ns; /* first this stall, at a proof; 0: none, or it was */
		bool     single;   /* only where a grant rests on one proof */
		int      process;  /* -1: any */
		unsigned after;
		int64_t  delay, length;
	} ambush;
	/* What hits this process between two mails that its protocol thread got at one time; length 0: nothing. */
	struct hindrance {
		enum thread thread; /* THREADS: the whole process */
		int64_t     length, timeout;
	} between[PROCESSES];
} all;

const char *faults_name(enum fault_kind kind)
{
	static const char *const names[] = {
#define NAME(name) #name,
		FAULT_KINDS(NAME)
#undef NAME
	};

	return names[kind];
}

/* Mostly short, but for some that outlast a session. */
static int64_t choose_length(struct rng *rng, int64_t timeout)
{
	switch (rng_below(rng, 4)) {
	case 0:
		return 1 + rng_below(rng, timeout / 50);
	case 1:
		return 1 + rng_below(rng, timeout / 3);
	default:
		return timeout / 3 + rng_below(rng, timeout);
	}
}

unsigned faults_choose(struct fault *ret, unsigned limit, int64_t timeout, int64_t active, bool lease, uint64_t seed)
{
	static const enum fault_kind lethal[] = {FAULT_HOLDER_CUT,   FAULT_AMBUSH,       FAULT_AMBUSH,
	                                         FAULT_STALL_AMBUSH, FAULT_STALL_AMBUSH, FAULT_TO_DEADLINE,
	                                         FAULT_TO_DEADLINE,  FAULT_LEADER_DIES,  FAULT_ISOLATE,
	                                         FAULT_RESET,        FAULT_STALL,        FAULT_PAUSE};
	struct rng                   rng = rng_make(seed, 'f');
	unsigned                     count = (unsigned)rng_between(&rng, 2, 9);
	int64_t                      at = 0;

	all.count = 0;
	all.mended = all.ambush.armed = false;
	all.active = active;
	memset(all.between, 0, sizeof all.between);
	if (count > limit)
		count = limit;
	for (unsigned i = 0; i < count; i++) {
		/* Trouble seldom comes alone. */
		at = i && rng_chance(&rng, 3) ? at + rng_skewed(&rng, timeout / 10)
		                              : timeout / 20 + rng_below(&rng, active);
		ret[i].kind = (enum fault_kind)rng_below(&rng, FAULT_KIND_COUNT);
		ret[i].at = at < active ? at : active - 1;
		ret[i].length = choose_length(&rng, timeout);
		if (lease && !rng_chance(&rng, 5))
			ret[i].kind = lethal[rng_below(&rng, sizeof lethal / sizeof *lethal)];
		if (lease && rng_chance(&rng, 2))
			ret[i].length = timeout + rng_below(&rng, timeout);
		if (ret[i].at + ret[i].length > active)
			ret[i].length = active - ret[i].at;
		ret[i].pick = rng_next(&rng);
		ret[i].timeout = timeout;
	}
	return count;
}

/* ---- whom -------------------------------------------------------------------------------------------------------- */

static unsigned some_process(struct rng *rng)
{
	const struct owner_options *o = owner_options_of((unsigned)rng_below(rng, owner_count()));

	return o->process;
}

/* A living contender's node: the lowest one, or any but that. */
static int16_t some_node(struct rng *rng, bool waiter)
{
	int16_t directory = owner_options_of((unsigned)rng_below(rng, owner_count()))->directory, lowest,
		found = NOBODY;
	int64_t seen = 0;

	lowest = tree_lowest(directory, tree_end());
	if (!waiter)
		return lowest;
	for (int16_t i = 0; i < tree_nodes(); i++)
		if (tree_node(i)->directory == directory && tree_node(i)->sequence >= 0 && i != lowest &&
		    tree_alive(i, tree_end()) && rng_chance(rng, ++seen))
			found = i;
	return found;
}

static int16_t before(int16_t node)
{
	int16_t found = NOBODY;

	for (int16_t i = 0; i < tree_nodes(); i++)
		if (tree_node(i)->directory == tree_node(node)->directory && tree_alive(i, tree_end()) &&
		    tree_node(i)->sequence >= 0 && tree_node(i)->sequence < tree_node(node)->sequence &&
		    (found == NOBODY || tree_node(i)->sequence > tree_node(found)->sequence))
			found = i;
	return found;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static void delete_now(uint32_t node, uint32_t unused)
{
	(void)unused;
	zk_operator(DEED_DELETE, (int16_t)node, tree_node((int16_t)node)->directory);
}

static void unmake_now(uint32_t directory, uint32_t unused)
{
	(void)unused;
	zk_operator(DEED_UNMAKE, NOBODY, (int16_t)directory);
}

static void delete_two(struct rng *rng, int64_t latency)
{
	int16_t node = some_node(rng, true), predecessor = (int16_t)(node == NOBODY ? NOBODY : before(node));
	int64_t own = rng_below(rng, 3) * latency, other = rng_below(rng, 3) * latency;

	if (predecessor == NOBODY)
		return;
	agenda_put(agenda_now() + own, delete_now, (uint32_t)node, 0);
	agenda_put(agenda_now() + other, delete_now, (uint32_t)predecessor, 0);
}

static void wipe(int16_t directory)
{
	for (int16_t i = 0; i < tree_nodes(); i++)
		if (tree_node(i)->directory == directory && tree_alive(i, tree_end()))
			zk_operator(DEED_DELETE, i, directory);
	zk_operator(DEED_UNMAKE, NOBODY, directory);
}

static void remove_foreign(uint32_t directory, uint32_t unused)
{
	(void)unused;
	for (int16_t i = 0; i < tree_nodes(); i++)
		if (tree_node(i)->directory == (int16_t)directory && tree_node(i)->attempt == NOBODY &&
		    tree_node(i)->sequence >= 0 && tree_alive(i, tree_end()))
			zk_operator(DEED_DELETE, i, (int16_t)directory);
}

void faults_tidy(void)
{
	for (uint32_t i = 0; i < TREE_DIRECTORIES; i++)
		remove_foreign(i, 0);
}

/* ---- servers and network ----------------------------------------------------------------------------------------- */

static void restart(uint32_t server, uint32_t unused)
{
	(void)unused;
	zk_restart(server);
}

static void heal(uint32_t one, uint32_t other)
{
	zk_heal(one, other);
}

static void no_lag(uint32_t server, uint32_t unused)
{
	(void)unused;
	zk_lag(server, 0);
}

static void heal_conn(uint32_t fault, uint32_t conn)
{
	all.cut[fault] = NO_CONN;
	zk_conn_heal(conn);
}

static void speed_up(uint32_t fault, uint32_t conn)
{
	if (all.slowed[fault] == NO_CONN)
		return;
	all.slowed[fault] = NO_CONN;
	zk_conn_slow(conn, -(all.planned[fault].timeout / 2 < all.planned[fault].length ? all.planned[fault].timeout / 2
	                                                                                : all.planned[fault].length));
}

static void cut_servers(unsigned one, unsigned other, int64_t length)
{
	invariants_disturbed(agenda_now() + length + all.planned[0].timeout / 4);
	zk_cut(one, other);
	agenda_put(agenda_now() + length, heal, one, other);
}

static unsigned some_follower(struct rng *rng, unsigned leader)
{
	return (leader + 1 + (unsigned)rng_below(rng, ZK_SERVERS - 1)) % ZK_SERVERS;
}

static int some_holder(struct rng *rng)
{
	int16_t node = some_node(rng, false);

	for (unsigned i = 0; node != NOBODY && i < CLIENTS; i++)
		if (process_alive(i) && client_session(i) == tree_node(node)->session)
			return (int)i;
	return -1;
}

static void ambush(const struct fault *f, struct rng *rng)
{
	int holder = some_holder(rng);

	all.ambush.armed = true;
	all.ambush.stall_ns = 0;
	all.ambush.process = -1;
	all.ambush.by_proof = f->kind == FAULT_STALL_AMBUSH || rng_chance(rng, 2);
	all.ambush.single = !all.ambush.by_proof && rng_chance(rng, 2);
	all.ambush.after = (unsigned)rng_below(rng, f->kind == FAULT_STALL_AMBUSH ? 3 : all.ambush.single ? 1 : 4);
	all.ambush.isolates = rng_chance(rng, 3);
	all.ambush.delay = rng_chance(rng, 2) ? 1 : rng_below(rng, 5 * MS);
	all.ambush.length = f->length;
	if (f->kind != FAULT_STALL_AMBUSH || holder < 0)
		return;
	all.ambush.process = holder;
	all.ambush.stall_ns = process_hub((unsigned)holder)->lease.timeout_ns *
	                      (rng_chance(rng, 2) ? rng_between(rng, 350, 660) : rng_between(rng, 630, 664)) / 1000;
	all.ambush.stalls_io = rng_chance(rng, 2);
}

static void stall_to_deadline(struct rng *rng)
{
	int              holder = some_holder(rng);
	struct zkl__hub *hub = holder < 0 ? NULL : process_hub((unsigned)holder);
	int64_t          deadline = hub ? atomic_load(&hub->deadline_ns) : 0;
	int64_t          length = rng_between(rng, -2 * MS, 2 * MS);

	if (!deadline)
		return;
	if (rng_chance(rng, 2))
		length += rng_below(rng, hub->lease.timeout_ns / 6);
	TRACE("process %d: its protocol thread stalls until about the end of its lease", holder);
	length += process_true_time((unsigned)holder, deadline) - agenda_now();
	process_stall((unsigned)holder, THREAD_PROTOCOL, length);
}

static void rejoin(uint32_t process, uint32_t unused)
{
	(void)unused;
	zk_client_cut(process, false);
}

static void isolate(unsigned process, int64_t length)
{
	TRACE("network: client %u reaches no server", process);
	invariants_disturbed(agenda_now() + length + all.planned[0].timeout / 4);
	zk_client_cut(process, true);
	agenda_put(agenda_now() + length, rejoin, process, 0);
}

/* The leader dies, and this client reaches nobody: its session lives on with the timeout that it was made with. */
static void leave_alone(uint32_t process, uint32_t length_ms)
{
	int leader = zk_leader();

	if (leader < 0 || all.mended)
		return;
	zk_crash((unsigned)leader);
	agenda_put(agenda_now() + length_ms * MS / 4, restart, (uint32_t)leader, 0);
	isolate(process, length_ms * MS);
}

/* After it has moved to another server, which may grant another timeout. */
static void move_holder(unsigned process, const struct fault *f, struct rng *rng)
{
	uint32_t conn = client_conn(process);

	if (conn != NO_CONN)
		zk_conn_break(conn, false, false);
	agenda_put(agenda_now() + f->timeout / 10 + rng_below(rng, f->timeout / 2), leave_alone, process,
	           (uint32_t)((f->length + f->timeout / 2) / MS));
}

static void hit_servers(const struct fault *f, struct rng *rng)
{
	int      leader = zk_leader();
	int      holder;
	unsigned server = f->kind == FAULT_LEADER_DIES ? (unsigned)leader : (unsigned)rng_below(rng, ZK_SERVERS);

	if (leader < 0)
		return;
	switch (f->kind) {
	case FAULT_LEADER_DIES:
	case FAULT_SERVER_DIES:
		holder = some_holder(rng);
		if (f->kind == FAULT_LEADER_DIES && holder >= 0 && rng_chance(rng, 2)) {
			move_holder((unsigned)holder, f, rng);
			break;
		}
		zk_crash(server);
		agenda_put(agenda_now() + f->length, restart, server, 0);
		break;
	case FAULT_FOLLOWER_CUT:
		cut_servers((unsigned)leader, some_follower(rng, (unsigned)leader), f->length);
		break;
	case FAULT_LEADER_CUT:
		for (unsigned i = 0; i < ZK_SERVERS; i++)
			if (i != (unsigned)leader)
				cut_servers((unsigned)leader, i, f->length);
		break;
	default: /* FOLLOWER_LAGS */
		server = some_follower(rng, (unsigned)leader);
		TRACE("server %u: lags", server);
		zk_lag(server, f->length < f->timeout / 2 ? f->length : f->timeout / 2);
		agenda_put(agenda_now() + f->length, no_lag, server, 0);
		break;
	}
}

/* The server of this process from its leader. */
static void cut_process(unsigned process, int64_t length)
{
	uint32_t conn = process_alive(process) ? client_conn(process) : NO_CONN;
	int      leader = zk_leader();

	if (conn != NO_CONN && leader >= 0 && zk_conn_server(conn) != leader && !all.mended)
		cut_servers((unsigned)leader, (unsigned)zk_conn_server(conn), length);
}

static void spring(uint32_t process, uint32_t unused)
{
	(void)unused;
	if (all.ambush.isolates && !all.mended)
		isolate(process, all.ambush.length);
	else
		cut_process(process, all.ambush.length);
}

/* Right after a proof, so that the gap before the next one is as long as can be. */
static void stall_holder(unsigned process)
{
	TRACE("process %u: %s for %" PRId64 " ms", process,
	      all.ambush.stalls_io ? "its client's thread stalls" : "is paused", all.ambush.stall_ns / MS);
	if (all.ambush.stalls_io)
		process_stall(process, THREAD_IO, all.ambush.stall_ns);
	else
		process_pause(process, all.ambush.stall_ns);
	if (process_hub(process)->wanting == 0)
		invariants_excuse(process, process_hindered(process) + process_hub(process)->timeout_asked_ns);
	all.ambush.stall_ns = 0;
}

static bool rests_on_one_proof(unsigned process)
{
	const struct zkl__lease *lease = &process_hub(process)->lease;

	return lease->pair_ns + lease->timeout_ns / 2 < lease->newest_ns;
}

static void on_step(unsigned process, bool proof)
{
	if (!all.ambush.armed || all.ambush.by_proof != proof ||
	    (all.ambush.process >= 0 && all.ambush.process != (int)process) ||
	    (all.ambush.single && !rests_on_one_proof(process)) || (all.ambush.after && all.ambush.after--))
		return;
	if (all.ambush.stall_ns) {
		stall_holder(process);
		return;
	}
	all.ambush.armed = false;
	TRACE("network: an ambush for process %u", process);
	agenda_put(agenda_now() + all.ambush.delay, spring, process, 0);
}

void faults_on_grant(unsigned process)
{
	on_step(process, false);
}

void faults_on_proof(unsigned process)
{
	on_step(process, true);
}

/* The server of whoever holds. */
static void cut_holder(const struct fault *f, struct rng *rng)
{
	int holder = some_holder(rng);

	if (holder >= 0)
		cut_process((unsigned)holder, f->length);
}

static void hit_connection(const struct fault *f, uint32_t fault, struct rng *rng)
{
	unsigned process = some_process(rng);
	uint32_t conn = process_alive(process) ? client_conn(process) : NO_CONN;
	int64_t  extra = f->timeout / 2 < f->length ? f->timeout / 2 : f->length;
	bool     up = rng_chance(rng, 2);

	if (conn == NO_CONN)
		return;
	TRACE("network: %s hits client %u", faults_name(f->kind), process);
	switch (f->kind) {
	case FAULT_RESET:
		zk_conn_break(conn, rng_chance(rng, 2), up);
		break;
	case FAULT_SLOW:
		all.slowed[fault] = conn;
		zk_conn_slow(conn, extra);
		agenda_put(agenda_now() + f->length, speed_up, fault, conn);
		break;
	default:
		all.cut[fault] = conn;
		zk_conn_cut(conn, f->kind == FAULT_BLACK_HOLE || up, f->kind == FAULT_BLACK_HOLE || !up);
		agenda_put(agenda_now() + f->length, heal_conn, fault, conn);
		break;
	}
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

/* An idle client that cannot ping is not known to the lease: what it makes right after that is not judged. */
static void hinder(unsigned process, const struct hindrance *h)
{
	bool idle = process_alive(process) && process_hub(process)->wanting == 0;

	TRACE("process %u: %s for %" PRId64 " ms", process,
	      h->thread == THREADS           ? "is paused"
	      : h->thread == THREAD_IO       ? "its client's thread stalls"
	      : h->thread == THREAD_PROTOCOL ? "its protocol thread stalls"
	                                     : "its owners' thread stalls",
	      h->length / MS);
	if (h->thread == THREADS)
		process_pause(process, h->length);
	else
		process_stall(process, h->thread, h->length);
	if (idle && (h->thread == THREADS || h->thread == THREAD_IO))
		invariants_excuse(process, agenda_now() + h->length + h->timeout);
}

/* Now, or in the middle of what its protocol thread does. */
static void hit_threads(const struct fault *f, struct rng *rng)
{
	unsigned         process = some_process(rng);
	enum thread      thread = (enum thread)rng_below(rng, THREADS);
	struct hindrance hindrance = {f->kind == FAULT_PAUSE ? THREADS : thread, f->length, f->timeout};

	if ((hindrance.thread == THREADS || hindrance.thread == THREAD_PROTOCOL) && rng_chance(rng, 2))
		all.between[process] = hindrance;
	else
		hinder(process, &hindrance);
}

bool faults_between_mails(unsigned process)
{
	struct hindrance hindrance = all.between[process];
	int64_t          left = all.active - agenda_now();

	all.between[process].length = 0;
	if (hindrance.length > left)
		hindrance.length = left;
	if (hindrance.length <= 0)
		return false;
	invariants_disturbed(agenda_now() + hindrance.length + hindrance.timeout / 4);
	hinder(process, &hindrance);
	return true;
}

static void hit_process(const struct fault *f, struct rng *rng)
{
	unsigned process = some_process(rng);

	switch (f->kind) {
	case FAULT_KILL:
		process_kill(process, f->length);
		break;
	case FAULT_CLOSE:
		process_close(process, rng_chance(rng, 2) ? 1 : f->length, f->length);
		break;
	case FAULT_CANCEL:
		process_cancel(process);
		process_close(process, f->length, f->length);
		break;
	default:
		owner_free_handle((unsigned)rng_below(rng, owner_count()));
		break;
	}
}

static void operate(const struct fault *f, struct rng *rng)
{
	int16_t directory = owner_options_of((unsigned)rng_below(rng, owner_count()))->directory;
	int16_t node = some_node(rng, rng_chance(rng, 2));

	switch (f->kind) {
	case FAULT_DELETE:
		if (node != NOBODY)
			delete_now((uint32_t)node, 0);
		break;
	case FAULT_DELETE_TWO:
		delete_two(rng, MS);
		break;
	case FAULT_WRITE:
		if (node != NOBODY)
			zk_operator(DEED_WRITE, node, directory);
		break;
	case FAULT_FOREIGN:
		zk_operator(DEED_FOREIGN, NOBODY, directory);
		agenda_put(agenda_now() + f->length, remove_foreign, (uint32_t)directory, 0);
		break;
	case FAULT_JUNK:
		zk_operator(DEED_JUNK, NOBODY, directory);
		break;
	case FAULT_WIPE:
		wipe(directory);
		break;
	default:
		/* Again and again, since it is seldom empty. */
		for (int64_t at = 0; at < f->length; at += f->length / 16 + 1)
			agenda_put(agenda_now() + at, unmake_now, (uint32_t)directory, 0);
		break;
	}
}

static void strike(uint32_t fault, uint32_t unused)
{
	const struct fault *f = &all.planned[fault];
	struct rng          rng = rng_make(f->pick, 1);

	(void)unused;
	if (f->kind < FAULT_DELETE)
		invariants_disturbed(agenda_now() + f->length + f->timeout / 4);
	if (f->kind <= FAULT_FOLLOWER_LAGS)
		hit_servers(f, &rng);
	else if (f->kind == FAULT_ISOLATE)
		isolate(some_process(&rng), f->length);
	else if (f->kind == FAULT_HOLDER_CUT)
		cut_holder(f, &rng);
	else if (f->kind == FAULT_AMBUSH || f->kind == FAULT_STALL_AMBUSH)
		ambush(f, &rng);
	else if (f->kind == FAULT_TO_DEADLINE)
		stall_to_deadline(&rng);
	else if (f->kind <= FAULT_SLOW)
		hit_connection(f, fault, &rng);
	else if (f->kind <= FAULT_STALL)
		hit_threads(f, &rng);
	else if (f->kind <= FAULT_FREE)
		hit_process(f, &rng);
	else
		operate(f, &rng);
}

void faults_plan(const struct fault *fault)
{
	uint32_t index = all.count++;

	all.planned[index] = *fault;
	all.slowed[index] = all.cut[index] = NO_CONN;
	agenda_put(fault->at, strike, index, 0);
}

void faults_mend(unsigned processes)
{
	all.mended = true;
	for (unsigned i = 0; i < processes; i++)
		zk_client_cut(i, false);
	for (unsigned i = 0; i < ZK_SERVERS; i++) {
		zk_restart(i);
		zk_lag(i, 0);
		for (unsigned k = 0; k < i; k++)
			zk_heal(k, i);
	}
	for (unsigned i = 0; i < all.count; i++) {
		if (all.cut[i] != NO_CONN)
			zk_conn_heal(all.cut[i]);
		if (all.slowed[i] != NO_CONN)
			speed_up(i, all.slowed[i]);
	}
	for (unsigned i = 0; i < processes; i++)
		if (process_alive(i))
			client_resume(i);
}
