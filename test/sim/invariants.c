/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's calls of zkl__contender_step() come here first (the linker's --wrap), so that each step of each contender is
 * seen: what went in, the state before and after, what came out. */
#include "invariants.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <zklock/zklock.h>

#include "agenda.h"
#include "client.h"
#include "coverage.h"
#include "faults.h"
#include "owner.h"
#include "process.h"
#include "report.h"

enum { ATTEMPTS = 4000 };
/* What is not asked at once is not saved up for long: so many requests at most. */
enum { MOST_REQUESTS = 12 };
#define MS INT64_C(1000000)

/* One attempt of a handle, as seen from outside. */
struct seen {
	struct zkl__attempt *attempt; /* while it is active */
	unsigned             process;
	int                  owner;
	int16_t              directory, session; /* session: of the grant */
	uint64_t             party, token;
	int16_t              node;                                         /* newest one */
	bool                 candidate, active, gone;                      /* gone: its process is */
	bool                 granted, lost, failed, left, expired, lapsed; /* lapsed: check() would have said no */
	int32_t              entitled_view;
	int                  allowance;
	int64_t              broken_at; /* true time when an operator deleted the node; 0: not */
	int64_t              granted_at;
	uint32_t             conn; /* that it was granted on */
};

static struct {
	struct seen attempts[ATTEMPTS];
	int16_t     count;
	unsigned    grants, losses;
	uint64_t    last_token[TREE_DIRECTORIES];
	int16_t     newest[TREE_DIRECTORIES];
	int16_t woken[TREE_NODES]; /* the contender that went on when this node went: 0: none, else its number + 1 */
	int64_t disturbed, excused[PROCESSES];
	int     observing[PROCESSES]; /* what an observer may ask, in requests */
	int64_t slow[PROCESSES];      /* when a proof was last answered later than the lease allows for */
	int64_t asked[PROCESSES]; /* by its clock: since when it waits for a proof that was asked for; 0: it does not */
} all;

void __real_zkl__contender_step(struct zkl__contender *c, const struct zkl__input *in, struct zkl__actions *out);
void __wrap_zkl__contender_step(struct zkl__contender *c, const struct zkl__input *in, struct zkl__actions *out);

/* ---- attempts ---------------------------------------------------------------------------------------------------- */

static struct seen *find(unsigned process, uint64_t party)
{
	for (int16_t i = all.count; i-- > 0;) {
		struct seen *s = &all.attempts[i];

		if (s->active && s->process == process && s->party == party)
			return s;
	}
	return NULL;
}

static int16_t index_of(const struct seen *s)
{
	return (int16_t)(s ? s - all.attempts : NOBODY);
}

static struct seen *begin(struct zkl__attempt *a, unsigned process)
{
	struct seen *s = &all.attempts[all.count++];

	if (all.count == ATTEMPTS) {
		report_failure(ROOM, "attempts without end");
		all.count--;
	}
	memset(s, 0, sizeof *s);
	s->attempt = a;
	s->process = process;
	s->owner = a->handle ? owner_of(a->handle) : -1;
	s->directory = strcmp(a->path, mail_paths[0]) == 0 ? 0 : 1;
	s->party = a->party.id;
	s->node = NOBODY;
	s->candidate = a->contender.flags & ZKL__CONTENDER_NO_MARK;
	s->active = true;
	s->allowance = MOST_REQUESTS;
	return s;
}

/* By its own clock, and as check() would say, without asking it: for how long may it act? */
static int64_t left(const struct seen *s)
{
	const struct zkl__attempt *a = s->attempt;

	if (!s->active || s->gone || !s->granted || s->lost || s->left || !a->handle ||
	    atomic_load(&a->handle->held) != s->token)
		return 0;
	return atomic_load(&a->hub->deadline_ns) - a->stop_ns - process_clock(s->process);
}

/* It counts in whole milliseconds. */
static bool may_act(const struct seen *s)
{
	return left(s) >= MS;
}

static bool excused(const struct seen *s)
{
	return s->broken_at || agenda_now() <= all.excused[s->process];
}

int16_t invariants_attempt(unsigned process, uint64_t party)
{
	return index_of(find(process, party));
}

/* ---- grants ------------------------------------------------------------------------------------------------------ */

static void check_overlap(const struct seen *s)
{
	for (int16_t i = all.count; i-- > 0;) {
		const struct seen *other = &all.attempts[i];

		if (other == s || !other->active || other->directory != s->directory || !may_act(other) ||
		    excused(other))
			continue;
		if (s->node != NOBODY && !tree_alive(s->node, tree_end()))
			continue; /* nothing was granted in ZooKeeper's order: another invariant's case */
		report_failure(OVERLAP, "%s is granted while %s may act for %" PRId64 " ms more",
		               tree_node(s->node)->name, tree_node(other->node)->name,
		               (atomic_load(&other->attempt->hub->deadline_ns) - process_clock(other->process)) / MS);
	}
}

static void check_grant(struct seen *s, const struct zkl__contender *c, int32_t view)
{
	int16_t                 node = tree_find(s->directory, c->name), lowest;
	const struct tree_node *n = node == NOBODY ? NULL : tree_node(node);
	uint64_t                token = zkl__contender_token(c);

	if (!n || n->attempt != index_of(s)) {
		report_failure(ONE_HOLDER, "granted by a node that is not its own: %s", c->name);
		return;
	}
	s->node = node;
	s->token = token;
	s->session = n->session;
	if (!tree_alive(node, view))
		report_failure(ONE_HOLDER,
		               "%s is granted by what was known when it was gone (born %d, died %d, view %d)", n->name,
		               n->born, n->died, view);
	if (atomic_load(&s->attempt->hub->deadline_ns) - s->attempt->stop_ns <= process_clock(s->process))
		report_failure(LEASE, "%s is granted without a live lease", n->name);
	if (token >= (uint64_t)tree_zxid(n->born))
		report_failure(TOKENS, "%s: token %" PRIu64 " is not below its czxid", n->name, token);
	if (n->sequence >= ZKL__SEQUENCE_END)
		report_failure(TOKENS, "%s is granted at the end of the sequence", n->name);
	if (!tree_alive(node, tree_end()))
		return;
	lowest = tree_lowest(s->directory, tree_end());
	if (lowest != node)
		report_failure(ONE_HOLDER, "%s is granted behind %s", n->name, tree_node(lowest)->name);
	if (token <= all.last_token[s->directory])
		report_failure(TOKENS, "%s: token %" PRIu64 " after %" PRIu64, n->name, token,
		               all.last_token[s->directory]);
	all.last_token[s->directory] = token;
	all.newest[s->directory] = index_of(s);
	check_overlap(s);
}

int16_t invariants_attempt_of_token(uint64_t token, unsigned owner)
{
	for (int16_t i = all.count; i-- > 0;)
		if (all.attempts[i].owner == (int)owner && all.attempts[i].token == token)
			return i;
	return NOBODY;
}

bool invariants_is_live(int16_t attempt)
{
	return attempt != NOBODY && !all.attempts[attempt].gone;
}

bool invariants_is_newest(int16_t attempt)
{
	const struct seen *s = &all.attempts[attempt];

	return all.newest[s->directory] == attempt && tree_alive(s->node, tree_end());
}

/* It acts, within the time that check() gave it. */
void invariants_act(int16_t attempt)
{
	const struct seen *s = &all.attempts[attempt];
	int16_t            newest = all.newest[s->directory];

	if (newest == attempt || excused(s) || newest == NOBODY || !tree_alive(all.attempts[newest].node, tree_end()))
		return;
	if (s->left)
		return; /* its own doing: it had let go before its act was over */
	if (all.attempts[newest].token > s->token)
		report_failure(OVERLAP, "%s acts after %s was granted", tree_node(s->node)->name,
		               tree_node(all.attempts[newest].node)->name);
}

/* For an answer it has T/24. */
void invariants_proven(unsigned process, int64_t took)
{
	if (took > process_hub(process)->lease.timeout_ns / 24)
		all.slow[process] = agenda_now();
	all.asked[process] = 0;
}

/* Or as good as late: check() counts in whole milliseconds. */
static bool answer_is_late(unsigned process)
{
	return all.asked[process] &&
	       process_clock(process) - all.asked[process] > process_hub(process)->lease.timeout_ns / 24 - MS;
}

/* Lost to the clock, though its proofs had a free way from the grant on. */
static void check_lasts(const struct seen *s, const struct zkl__input *in)
{
	if (in->type != ZKL__IN_LEASE_OVER || all.disturbed >= s->granted_at ||
	    process_hindered(s->process) >= s->granted_at || client_conn(s->process) != s->conn ||
	    all.slow[s->process] >= s->granted_at || answer_is_late(s->process))
		return;
	report_failure(LASTS, "process %u: %s is lost %" PRId64 " ms after it was granted, with nothing in the way",
	               s->process, tree_node(s->node)->name, (agenda_now() - s->granted_at) / MS);
}

/* ---- the ensemble's news ----------------------------------------------------------------------------------------- */

void invariants_created(int16_t node)
{
	const struct tree_node *n = tree_node(node);
	struct seen            *s = n->attempt == NOBODY ? NULL : &all.attempts[n->attempt];

	if (!s)
		return;
	/* A leader without a quorum can tell of an expiry before what was asked earlier is committed: then so is the end of
	 * the session, right behind it. */
	if (!s->active && !s->gone && n->session == client_session(s->process))
		report_failure(ORPHAN, "%s is created for a contender that is done", n->name);
	for (int16_t i = 0; i < node; i++)
		if (tree_node(i)->attempt == n->attempt && tree_node(i)->session == n->session &&
		    tree_alive(i, tree_end()))
			report_failure(ORPHAN, "%s is created beside %s", n->name, tree_node(i)->name);
	s->node = node;
	s->broken_at = 0;
}

void invariants_delete(const struct request *request)
{
	if (request->node != NOBODY && tree_alive(request->node, tree_end()) &&
	    tree_node(request->node)->attempt != request->attempt)
		report_failure(ONLY_OWN, "%s is deleted by another", tree_node(request->node)->name);
}

void invariants_mark(const struct request *request)
{
	if (request->node != NOBODY && tree_node(request->node)->attempt != request->attempt)
		report_failure(ONLY_OWN, "%s is marked by another", tree_node(request->node)->name);
}

/* How long news of a deleted node may take. */
static int64_t patience(const struct seen *s)
{
	return 8 * (process_latency(s->process) + process_spread(s->process) + 20 * MS) + 30 * MS;
}

static void told_by_now(uint32_t attempt, uint32_t conn)
{
	const struct seen *s = &all.attempts[attempt];

	/* A later node of the attempt may have been deleted meanwhile, whose time has not come. */
	if (!s->broken_at || agenda_now() < s->broken_at + patience(s) || client_conn(s->process) != conn ||
	    all.disturbed > s->broken_at || process_hindered(s->process) > s->broken_at)
		return;
	if (s->active && !s->gone && s->granted && !s->lost && !s->left)
		report_failure(TOLD, "%s was deleted by an operator, and its holder does not know",
		               tree_node(s->node)->name);
}

void invariants_broken(int16_t node)
{
	struct seen *s = tree_node(node)->attempt == NOBODY ? NULL : &all.attempts[tree_node(node)->attempt];

	if (!s || !s->active || s->gone || s->node != node)
		return;
	s->broken_at = agenda_now();
	agenda_put(agenda_now() + patience(s), told_by_now, (uint32_t)index_of(s), client_conn(s->process));
}

void invariants_session_over(int16_t session, unsigned process)
{
	for (int16_t i = all.count; i-- > 0;) {
		const struct seen *s = &all.attempts[i];

		if (s->process == process && s->session == session && s->granted && may_act(s) && !excused(s))
			report_failure(LEASE, "the session of %s is given up, which may act for %" PRId64 " ms more",
			               tree_node(s->node)->name,
			               (atomic_load(&s->attempt->hub->deadline_ns) - process_clock(process)) / MS);
	}
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* It has no node. */
static bool observes(const struct zkl__hub *hub, uint32_t slot)
{
	return slot < hub->slot_count && hub->slots[slot].party && !hub->slots[slot].party->type->node;
}

static bool is_observer(const struct zkl__hub *hub, uint64_t party)
{
	return observes(hub, (uint32_t)party) && hub->slots[(uint32_t)party].generation == (uint32_t)(party >> 32);
}

/* Of a list, of a watch, and of one that found more than the list did. */
static void allow_observer(unsigned process)
{
	int most = all.observing[process] + 3;

	all.observing[process] = most < MOST_REQUESTS ? most : MOST_REQUESTS;
}

void invariants_linked(unsigned process)
{
	allow_observer(process);
}

void invariants_heard(unsigned process, uint32_t watcher)
{
	if (observes(process_hub(process), watcher))
		allow_observer(process);
}

void invariants_request(unsigned process, uint64_t party, const struct zkl__request *request, bool session_open)
{
	struct seen *s = find(process, party);

	if (request->op == ZKL__PROVE && !all.asked[process])
		all.asked[process] = process_clock(process);
	if (!s && !is_observer(process_hub(process), party))
		report_failure(AFTER_END, "process %u: a request (%s) of a contender that is done", process,
		               zkl__op_name(request->op));
	if (!session_open)
		report_failure(AFTER_END, "process %u: a request (%s) while there is no session", process,
		               zkl__op_name(request->op));
	if (!s) {
		if (--all.observing[process] < 0)
			report_failure(REQUESTS, "too many requests of who observes, the last one a %s",
			               zkl__op_name(request->op));
		return;
	}
	if (request->op == ZKL__MARK && s->candidate)
		report_failure(NO_MARK, "a candidate's node is written to");
	if (request->op == ZKL__MARK && !s->granted)
		report_failure(ONLY_OWN, "%s is marked, but does not hold", request->name);
	if (request->op != ZKL__PROVE && --s->allowance < 0)
		report_failure(REQUESTS, "too many requests for what happened, the last one a %s",
		               zkl__op_name(request->op));
}

/* What an input is good for, in requests. */
static int allowance(const struct zkl__input *in)
{
	switch (in->type) {
	case ZKL__IN_REPLY:
		return in->reply->result == ZKL__DONE ? 0 : 5;
	case ZKL__IN_LINK_UP:
	case ZKL__IN_EXPIRED:
	case ZKL__IN_GONE:
		return 8;
	case ZKL__IN_CHANGED:
		return 1;
	default:
		return 4;
	}
}

static bool asks(const struct zkl__actions *out)
{
	for (unsigned i = 0; i < out->count; i++)
		if (out->list[i].type == ZKL__SEND)
			return true;
	return false;
}

/* One release, one waiter that goes on; but all who wait for a directory to be made anew, once in 2^31. */
static void check_herd(const struct seen *s, const struct zkl__input *in, const struct zkl__actions *out)
{
	int16_t node = (int16_t)(in->type == ZKL__IN_GONE ? tree_find(s->directory, in->name) : NOBODY);

	if (node == NOBODY || tree_node(node)->attempt == index_of(s) || !asks(out))
		return;
	if (all.woken[node] && all.woken[node] != index_of(s) + 1)
		report_failure(HERD, "the end of %s wakes more than one", tree_node(node)->name);
	all.woken[node] = (int16_t)(index_of(s) + 1);
}

static void check_requeued(const struct seen *s, const struct zkl__input *in)
{
	if (in->type == ZKL__IN_EXPIRED || s->node == NOBODY || !tree_alive(s->node, tree_end()))
		return;
	if (zk_session_over(tree_node(s->node)->session) || tree_node(s->node)->session != client_session(s->process))
		return;
	report_failure(PLACE, "%s goes to the tail, though its node is there", tree_node(s->node)->name);
}

static void check_done(struct seen *s, const struct zkl__input *in, const struct zkl__action *action)
{
	s->active = false;
	s->expired = in->type == ZKL__IN_EXPIRED; /* the leader has told so, but it may not be committed yet */
	if (action->error || s->gone || s->expired)
		return;
	for (int16_t i = tree_nodes(); i-- > 0;)
		if (tree_node(i)->attempt == index_of(s) && tree_alive(i, tree_end()) &&
		    tree_node(i)->session == client_session(s->process) && !zk_session_over(tree_node(i)->session))
			report_failure(ORPHAN, "a contender is done, and %s is there", tree_node(i)->name);
}

static void see(struct seen *s, const struct zkl__contender *c, const struct zkl__input *in,
                const struct zkl__action *action, int32_t view)
{
	switch (action->type) {
	case ZKL__TELL_GRANTED:
		if (s->granted || s->failed || s->left)
			report_failure(ONE_LOST, "granted twice, or after its end");
		s->granted = true;
		s->granted_at = agenda_now();
		s->conn = client_conn(s->process);
		all.grants++;
		check_grant(s, c, view);
		TRACE("contender %d: GRANTED by %s", index_of(s), c->name);
		faults_on_grant(s->process);
		break;
	case ZKL__TELL_LOST:
		if (!s->granted || s->lost)
			report_failure(ONE_LOST, "lost what was not held, or twice");
		s->lost = true;
		check_lasts(s, in);
		all.losses++;
		TRACE("contender %d: LOST", index_of(s));
		break;
	case ZKL__TELL_REQUEUED:
		TRACE("contender %d: requeued", index_of(s));
		check_requeued(s, in);
		break;
	case ZKL__TELL_FAILED:
		if (s->failed || s->granted)
			report_failure(ONE_LOST, "failed twice, or when held");
		s->failed = true;
		TRACE("contender %d: failed (%d): %s", index_of(s), action->error, action->text);
		break;
	case ZKL__TELL_DONE:
		TRACE("contender %d: done", index_of(s));
		check_done(s, in, action);
		break;
	default:
		break;
	}
}

void __wrap_zkl__contender_step(struct zkl__contender *c, const struct zkl__input *in, struct zkl__actions *out)
{
	struct zkl__attempt *a = (struct zkl__attempt *)(void *)((char *)c - offsetof(struct zkl__attempt, contender));
	unsigned             process = process_of(a->hub);
	enum zkl__state      before = c->state;
	struct seen         *s;
	int32_t              view = process_view(process);

	if (process_dead(process)) {
		__real_zkl__contender_step(c, in, out);
		return;
	}
	s = find(process, a->party.id);
	if (!s)
		s = begin(a, process);
	s->allowance += allowance(in);
	s->allowance = s->allowance < MOST_REQUESTS ? s->allowance : MOST_REQUESTS;
	if (a->pinned && in->type == ZKL__IN_LEAVE)
		report_failure(TERM, "%s goes while its term runs", c->name);
	__real_zkl__contender_step(c, in, out);
	coverage_contender(before, in);
	if (report_tracing && before != c->state)
		TRACE("contender %d: %s -> %s", index_of(s), zkl__state_name(before), zkl__state_name(c->state));
	if (before == ZKL__ENTITLED)
		view = s->entitled_view;
	if (out->count > ZKL__ACTIONS_MAX) {
		report_failure(REQUESTS, "more actions than there is room for");
		abort();
	}
	for (unsigned i = 0; i < out->count; i++)
		see(s, c, in, &out->list[i], view);
	if (c->state == ZKL__ENTITLED && before != ZKL__ENTITLED)
		s->entitled_view = view;
	/* Ownership ends before the delete is sent. */
	if (in->type == ZKL__IN_LEAVE && s->granted)
		s->left = true;
	if (before != ZKL__RENEWAL)
		check_herd(s, in, out);
}

/* A grant that was over for whoever might have asked stays over. */
void invariants_before(unsigned process)
{
	for (int16_t i = all.count; i-- > 0;) {
		struct seen *s = &all.attempts[i];

		if (s->process == process && s->active && s->granted && !s->lost && left(s) <= 0)
			s->lapsed = true;
	}
}

void invariants_after(unsigned process)
{
	for (int16_t i = all.count; i-- > 0;)
		if (all.attempts[i].process == process && all.attempts[i].lapsed && may_act(&all.attempts[i]))
			report_failure(NO_STAYS_NO, "%s may act again, though its lease was over",
			               tree_node(all.attempts[i].node)->name);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

void invariants_session_closed(unsigned process)
{
	for (int16_t i = all.count; i-- > 0;)
		if (all.attempts[i].process == process && all.attempts[i].active)
			all.attempts[i].gone = true;
}

void invariants_process_gone(unsigned process)
{
	all.observing[process] = MOST_REQUESTS;
	all.asked[process] = 0;
	for (int16_t i = all.count; i-- > 0;)
		if (all.attempts[i].process == process && all.attempts[i].active) {
			all.attempts[i].gone = true;
			all.attempts[i].active = false;
		}
}

/* ---- the schedule ------------------------------------------------------------------------------------------------ */

void invariants_disturbed(int64_t until)
{
	if (until > all.disturbed)
		all.disturbed = until;
}

void invariants_excuse(unsigned process, int64_t until)
{
	if (until > all.excused[process])
		all.excused[process] = until;
}

const char *invariants_rest(void)
{
	for (int16_t i = tree_nodes(); i-- > 0;)
		if (tree_node(i)->attempt != NOBODY && tree_alive(i, tree_end()))
			return tree_node(i)->name;
	for (int16_t i = all.count; i-- > 0;)
		if (all.attempts[i].active)
			return zkl__state_name(all.attempts[i].attempt->contender.state);
	return NULL;
}

unsigned invariants_grants(void)
{
	return all.grants;
}

unsigned invariants_losses(void)
{
	return all.losses;
}

void invariants_begin(void)
{
	all.count = 0;
	all.grants = all.losses = 0;
	for (int i = 0; i < TREE_DIRECTORIES; i++) {
		all.last_token[i] = 0;
		all.newest[i] = NOBODY;
	}
	memset(all.woken, 0, sizeof all.woken);
	all.disturbed = 0;
	memset(all.excused, 0, sizeof all.excused);
	memset(all.slow, 0, sizeof all.slow);
	memset(all.asked, 0, sizeof all.asked);
	for (int i = 0; i < PROCESSES; i++)
		all.observing[i] = MOST_REQUESTS;
}
