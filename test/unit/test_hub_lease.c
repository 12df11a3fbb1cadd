/* SPDX-License-Identifier: Apache-2.0 */
/* The lease as the hub keeps it, against what a leader knows of the session.
 *
 * A client behind a follower: the follower reports whom it has heard when the leader asks, each tick/2 and up to T/24 late;
 * with the report the session's time begins anew. A proof passes the leader at once and is no report; a reconnect is. The
 * client takes locks that are free and releases them, sends what the hub wants, pings each T/3 while it is idle, and its
 * connection breaks now and then. While heartbeats flow the whole process stalls for up to 2T/3. Whenever a proof is answered
 * the follower could have been cut off right behind it: then the last report before it is all that the leader ever hears, and
 * no deadline may be later than T after that. */
#include "check.h"

#include <stdatomic.h>

#include <zklock/zklock.h>

#include "driver.h"
#include "words.h"

#define NS      INT64_C(1000000000)
#define T_NS    (24 * NS)
#define HANDLES 2
#define MOST    4000

enum { STEPS = 150 };

struct answer {
	uint64_t          party;
	int64_t           committed, arrives;
	bool              lost;
	struct zkl__reply reply;
};

static struct {
	uint64_t           seed;
	struct zkl__hub    hub;
	struct zkl__handle handle[HANDLES];
	int64_t            now, stall_at, stalled_until;
	/* What the follower and the leader hear. */
	int64_t  tick, phase, late[64], packets[MOST], contacts[MOST];
	unsigned packet_count, contact_count;
	int64_t  last_sent, last_received;
	/* Answers on their way, in order. */
	struct answer answers[64];
	unsigned      answer_count;
	int64_t       owner_at[HANDLES];
	/* The connection breaks, the hub hears of it, it is back, and the hub hears of that. */
	int64_t  break_at, down_at, back_at, up_at;
	bool     connected;
	uint32_t sequence;
	bool     stalls;
	int64_t  least_slack;
} w;

static int64_t below(int64_t limit)
{
	return check_below(&w.seed, limit);
}

/* Often one of the ends, else between. */
static int64_t between(int64_t from, int64_t to)
{
	int64_t kind = below(4);

	return kind == 0 ? from : kind == 1 ? to : from + below(to - from + 1);
}

/* ---- the leader ------------------------------------------------------------------------------------------------------------- */

static int64_t report(int64_t j)
{
	int64_t at = w.phase + j * (w.tick / 2) + w.late[j % 64];
	int64_t before = w.phase + (j - 1) * (w.tick / 2) + w.late[(j - 1) % 64];

	return at > before ? at : before;
}

/* When the leader last heard of the client, at the time `at`. */
static int64_t touched(int64_t at)
{
	int64_t newest = 0;

	for (unsigned i = w.contact_count; i-- > 0;) {
		if (w.contacts[i] <= at) {
			newest = w.contacts[i];
			break;
		}
	}
	for (int64_t j = (at - w.phase) / (w.tick / 2) + 1; j > 1; j--) {
		int64_t upto = report(j), from = report(j - 1);

		if (upto > at)
			continue;
		if (upto <= newest)
			return newest;
		for (unsigned i = w.packet_count; i-- > 0 && w.packets[i] > from;)
			if (w.packets[i] <= upto)
				return upto;
	}
	return newest;
}

/* ---- the world --------------------------------------------------------------------------------------------------------------- */

static int64_t world_now(void *world)
{
	(void)world;
	return w.now;
}

static struct zkl__uuid world_uuid(void *world)
{
	(void)world;
	return (struct zkl__uuid){check_random(&w.seed), check_random(&w.seed)};
}

static void hear(void)
{
	if (w.connected)
		w.packets[w.packet_count++ % MOST] = w.now;
	w.last_sent = w.now;
}

static void world_send(void *world, uint64_t party, const struct zkl__request *request)
{
	struct answer     *x = &w.answers[w.answer_count++];
	struct zkl__reply *r = &x->reply;
	bool               reads = request->op == ZKL__LIST || request->op == ZKL__WATCH;
	int64_t            trip = between(0, reads || below(10) ? T_NS / 100 : below(2) ? T_NS / 4 : 2 * T_NS / 3);

	(void)world;
	hear();
	memset(x, 0, sizeof *x);
	x->party = party;
	x->lost = !w.connected;
	x->committed = w.now + between(0, trip);
	x->arrives = w.now + trip;
	if (w.answer_count > 1 && !x[-1].lost && x->arrives < x[-1].arrives)
		x->arrives = x[-1].arrives;
	if (x->committed > x->arrives)
		x->committed = x->arrives;
	r->op = request->op;
	r->id = request->id;
	r->sent_ns = w.now;
	r->czxid = request->op == ZKL__LIST ? 1000 : INT64_C(4294967296) + w.sequence;
	if (request->op == ZKL__CREATE) {
		char prefix[ZKL__NAME_MAX];

		zkl__queue_prefix(request->kind, request->uuid, prefix);
		snprintf(r->name, sizeof r->name, "%.60s%010u", prefix, (unsigned)w.sequence++);
	} else if (request->op == ZKL__LIST) {
		/* The lock is free: our own node, if it is there. */
		for (unsigned i = 0; i + 1 < w.answer_count; i++) {
			const char *names[] = {w.answers[i].reply.name};

			if (w.answers[i].reply.op == ZKL__CREATE && w.answers[i].party == party)
				zkl__queue_look(&r->queue, names, 1, request->kind, request->uuid);
		}
		for (int i = 0; i < HANDLES; i++) {
			const struct zkl__attempt *attempt = w.handle[i].attempt;
			const char                *names[] = {attempt ? attempt->contender.name : ""};

			if (attempt && attempt->party.id == party && attempt->contender.sequence >= 0)
				zkl__queue_look(&r->queue, names, 1, request->kind, request->uuid);
		}
	} else if (request->name) {
		snprintf(r->name, sizeof r->name, "%s", request->name);
	}
}

static void world_wake(void *world)
{
	(void)world;
}

static void world_absolute(void *world, const char *directory, const char *name, char *ret, size_t size)
{
	(void)world;
	snprintf(ret, size, "%s/%s", directory, name);
}

static void world_ready(void *world, struct zkl__source *source)
{
	(void)world;
	(void)source;
}

static void world_log(void *world, int level, const char *id, const char *text, const char *subject)
{
	(void)world;
	(void)level;
	(void)id;
	(void)text;
	(void)subject;
}

static const struct zkl__port port = {.now_ns = world_now,
                                      .wall_ms = world_now,
                                      .uuid = world_uuid,
                                      .send = world_send,
                                      .wake = world_wake,
                                      .rearm = world_wake,
                                      .absolute = world_absolute,
                                      .ready = world_ready,
                                      .log = world_log};

static void choose_options(struct zkl__lease_options *o)
{
	struct zkl__lease_limits limits;

	do {
		*o = (struct zkl__lease_options){0};
		if (below(3) == 0)
			o->heartbeat_ns = between(T_NS / 24, T_NS / 2);
		if (below(3) == 0)
			o->margin_ns = between(T_NS / 24, T_NS * 5 / 8);
		if (below(3) == 0)
			o->tick_ns = w.tick;
		zkl__lease_limits(o, T_NS, &limits);
	} while (limits.stop_max < 0);
}

static void begin(uint64_t seed, bool stalls)
{
	memset(&w, 0, sizeof w);
	w.seed = seed;
	w.stalls = stalls;
	w.now = 100 * T_NS;
	w.tick = between(T_NS / 12, T_NS / 2);
	w.phase = w.now - 20 * T_NS - below(w.tick);
	for (int i = 0; i < 64; i++)
		w.late[i] = between(0, T_NS / 24);
	w.stall_at = w.back_at = w.down_at = w.up_at = ZKL__NEVER;
	w.connected = true;
	w.break_at = below(3) ? ZKL__NEVER : w.now + below(4 * T_NS);
	w.least_slack = INT64_MAX;
	zkl__hub_init(&w.hub, &port, &w);
	choose_options(&w.hub.lease_options);
	zkl__lease_begin(&w.hub.lease, &w.hub.lease_options);
	w.hub.op_ns = T_NS / 2;
	w.hub.timeout_asked_ns = T_NS;
	for (int i = 0; i < HANDLES; i++) {
		zkl__handle_init(&w.handle[i], &zkl__lock_type, &w.hub, i ? "/b" : "/a", NULL, NULL);
		w.owner_at[i] = w.now + (i ? below(4 * T_NS) : between(0, T_NS));
	}
	w.contacts[w.contact_count++] = w.now;
	w.last_sent = w.last_received = w.now;
	zkl__hub_link_up(&w.hub, 77, T_NS);
}

static void end(void)
{
	zkl__hub_close(&w.hub);
	zkl__hub_expired(&w.hub);
	for (int i = 0; i < HANDLES; i++) {
		zkl__handle_close(&w.handle[i]);
		zkl__handle_clear(&w.handle[i]);
	}
	zkl__hub_clear(&w.hub);
}

/* ---- what happens ------------------------------------------------------------------------------------------------------------- */

static bool take_answer(void)
{
	struct answer x = w.answers[0];
	bool          proof = x.reply.op == ZKL__CREATE || x.reply.op == ZKL__MARK || x.reply.op == ZKL__PROVE;
	int64_t       deadline, slack;

	memmove(w.answers, w.answers + 1, --w.answer_count * sizeof x);
	x.reply.replied_ns = w.last_received = w.now;
	/* The leader may have given the session up before: then nothing is left to check. */
	if (proof && touched(x.committed) + T_NS <= x.committed)
		return false;
	zkl__hub_reply(&w.hub, x.party, &x.reply);
	deadline = atomic_load(&w.hub.deadline_ns);
	if (!proof || !deadline)
		return true;
	slack = touched(x.committed) + T_NS - deadline;
	if (slack < w.least_slack)
		w.least_slack = slack;
	return true;
}

static void owner_acts(int i)
{
	struct zkl__handle *h = &w.handle[i];

	if (!h->attempt) {
		zkl__handle_start(h, ZKL_FOREVER, NULL);
	} else if (zkl__attempt_settled(h->attempt)) {
		zkl__attempt_accept(h->attempt);
		if (h->attempt)
			zkl__handle_release(h);
		if (below(2)) /* and takes it again at once */
			zkl__handle_start(h, ZKL_FOREVER, NULL);
	}
	w.owner_at[i] = w.now + (below(3) ? below(T_NS) : between(0, 3 * T_NS));
}

static void connection_breaks(void)
{
	w.connected = false;
	for (unsigned i = 0; i < w.answer_count; i++)
		w.answers[i].lost = true;
	w.break_at = ZKL__NEVER;
	w.back_at = w.now + between(0, below(2) ? T_NS / 3 : T_NS / 2);
	w.down_at = w.now + between(0, T_NS / 100);
}

/* The handshake is heard by the leader itself. */
static void connection_is_back(void)
{
	w.connected = true;
	w.back_at = ZKL__NEVER;
	w.break_at = w.now + below(6 * T_NS);
	w.contacts[w.contact_count++ % MOST] = w.now;
	w.last_sent = w.last_received = w.now;
	w.up_at = w.now + between(0, T_NS / 100);
}

static void hub_hears_of_the_break(void)
{
	w.down_at = ZKL__NEVER;
	zkl__hub_link_down(&w.hub);
	for (unsigned i = 0; i < w.answer_count;) {
		struct answer x = w.answers[i];

		if (!x.lost) {
			i++;
			continue;
		}
		memmove(&w.answers[i], &w.answers[i + 1], (--w.answer_count - i) * sizeof x);
		x.reply.result = ZKL__UNKNOWN;
		x.reply.replied_ns = w.now;
		zkl__hub_reply(&w.hub, x.party, &x.reply);
	}
}

static void hub_hears_of_the_connection(void)
{
	w.up_at = ZKL__NEVER;
	zkl__hub_link_up(&w.hub, 77, T_NS);
}

static int64_t earliest(int64_t at, int64_t other)
{
	return other < at ? other : at;
}

/* The next thing that happens; whatever falls into a stall happens at its end. */
static bool step(void)
{
	int64_t ping = w.connected && !w.answer_count ? w.last_sent + T_NS / 3 : ZKL__NEVER;
	int64_t answer = w.answer_count && !w.answers[0].lost ? w.answers[0].arrives : ZKL__NEVER;
	int64_t timer = zkl__hub_next_ns(&w.hub), up = w.down_at == ZKL__NEVER ? w.up_at : ZKL__NEVER;
	int64_t at = earliest(
		earliest(earliest(ping, answer), earliest(timer, w.owner_at[0])),
		earliest(earliest(w.owner_at[1], w.break_at), earliest(w.back_at, earliest(w.down_at, up))));

	if (w.stalls && w.hub.wanting && w.stall_at == ZKL__NEVER && below(12) == 0) {
		/* Between now and the next thing. */
		w.stall_at = w.now + below((at > w.now ? at - w.now : 0) + 1);
		w.stalled_until = w.stall_at + between(0, 2 * T_NS / 3);
	}
	if (w.stall_at != ZKL__NEVER) {
		if (at >= w.stall_at)
			at = at > w.stalled_until ? at : w.stalled_until;
		w.stall_at = at > w.stalled_until ? ZKL__NEVER : w.stall_at;
	}
	w.now = at > w.now ? at : w.now;
	/* The client hangs up before it reads when it has heard nothing for long. */
	if (w.connected && w.now - w.last_received > 2 * T_NS / 3 && w.now > w.last_sent + T_NS / 3)
		w.break_at = w.now;
	for (;;) {
		switch (below(8)) { /* what comes at the same time comes in any order */
		case 0:
			if (answer <= w.now)
				return take_answer();
			break;
		case 1:
			if (timer <= w.now) {
				zkl__hub_timer(&w.hub);
				return true;
			}
			break;
		case 2:
		case 3: {
			int i = (int)below(2);

			if (w.owner_at[i] <= w.now) {
				owner_acts(i);
				return true;
			}
			break;
		}
		case 4:
			if (ping <= w.now) {
				hear();
				w.last_received = w.now;
				return true;
			}
			break;
		case 5:
			if (w.break_at <= w.now && w.down_at == ZKL__NEVER && w.up_at == ZKL__NEVER) {
				connection_breaks();
				return true;
			}
			if (w.break_at <= w.now) { /* one at a time */
				w.break_at = w.now + T_NS / 50;
				return true;
			}
			break;
		case 6:
			if (w.back_at <= w.now) {
				connection_is_back();
				return true;
			}
			break;
		default:
			if (w.down_at <= w.now) {
				hub_hears_of_the_break();
				return true;
			}
			if (up <= w.now) {
				hub_hears_of_the_connection();
				return true;
			}
			break;
		}
	}
}

static void play(bool stalls)
{
	uint64_t rounds = check_rounds(2000, 100000);
	int64_t  least = INT64_MAX;

	for (uint64_t round = 0; round < rounds; round++) {
		begin(round, stalls);
		for (int i = 0; i < STEPS && w.least_slack >= 0; i++)
			if (!step())
				break;
		if (w.least_slack < 0) {
			FAIL("seed %" PRIu64 ": a deadline is %" PRId64 " ms too late", round,
			     -w.least_slack / 1000000);
			round = rounds;
		}
		least = w.least_slack < least ? w.least_slack : least;
		end();
	}
	/* The model comes near the worst case, else it would show nothing. */
	CHECK(least < 3 * NS / 2);
}

static void deadline_is_never_later_than_the_leaders(void)
{
	play(false);
}

static void deadline_is_never_later_than_the_leaders_when_the_process_stalls(void)
{
	play(true);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(deadline_is_never_later_than_the_leaders),
		TEST(deadline_is_never_later_than_the_leaders_when_the_process_stalls),
		{0}};

	return check_main("hub_lease", tests, argc, argv);
}
