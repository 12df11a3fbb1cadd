/* SPDX-License-Identifier: Apache-2.0 */
/* The lease: who loses touch with the servers says no in time, once, for good; who does not keeps its lock. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 8)
#define ENOUGH_MS  10000

/* A session through proxies that holds one lock. */
typedef struct holder {
	lock_path    path;
	net          n;
	zkl_session *s;
	recorder     events;
	zkl_lock    *lock;
	zkl_grant    grant;
	prober       asking;
} holder;

static void holder_open(holder *h, size_t server_number, size_t count, int64_t timeout_ms)
{
	*h = (holder){.path = new_path(), .events = RECORDER("holder")};
	net_open(&h->n, server_number, count);
	h->s = session_open(h->n.servers, timeout_ms);
	h->lock = lock_new(h->s, h->path.text, &h->events);
	EXPECT_RC(zkl_lock_acquire(h->lock, 2 * ENOUGH_MS, &h->grant, NULL), ZKL_OK);
	prober_start(&h->asking, (contender){.lock = h->lock}, h->grant.token);
}

static void holder_close(holder *h)
{
	prober_stop(&h->asking);
	EXPECT_INT(atomic_load(&h->asking.yes_after_no), 0);
	zkl_lock_free(h->lock);
	zkl_session_close(h->s, ENOUGH_MS);
	net_close(&h->n);
	recorder_free(&h->events);
}

static bool still_held(const holder *h)
{
	return zkl_lock_check(h->lock, h->grant.token) > 0;
}

/* Of several that are held side by side: their heartbeats flow alike. */
static bool have_full_leases(holder *h, size_t count)
{
	bool full = reach_full_lease(h[0].s);
	for (size_t i = 0; i < count; i++) {
		while (still_held(&h[i]) && stats_of(h[i].s).lease_ms <= session_timeout_ms(h[i].s) / 2)
			poll_pause();
		full = full && still_held(&h[i]);
	}
	return full;
}

/* The first lease of a grant is short: on a busy machine it can be over before the first heartbeats are answered. */
static void holders_open(holder *h, size_t count, int64_t timeout_ms)
{
	bool full = false;
	for (size_t i = 0; i < count; i++)
		holder_open(&h[i], 1, server_count(), timeout_ms);
	for (int tries = 0; !full && tries < 5; tries++) {
		full = have_full_leases(h, count);
		for (size_t i = 0; i < count; i++) {
			if (!still_held(&h[i])) {
				holder_close(&h[i]);
				holder_open(&h[i], 1, server_count(), timeout_ms);
			}
		}
	}
	EXPECT_TRUE(full);
}

/* It has said LOST once, and goes on to say no while proofs come again; what was lost is released with a word, and
 * then the handle is as good as new (consul #4902). */
static void expect_lost_once_and_for_good(holder *h)
{
	zkl_grant later = {0};
	seen      lost = {0};
	EXPECT_TRUE(recorder_wait(&h->events, ZKL_EV_LOST, 1, 2 * ENOUGH_MS, &lost));
	EXPECT_RC(lost.code, ZKL_ELOST);
	EXPECT_TRUE(lost.token == h->grant.token);
	EXPECT_RC(zkl_lock_check(h->lock, h->grant.token), ZKL_ELOST);
	THROUGHOUT(zkl_lock_check(h->lock, h->grant.token) == ZKL_ELOST, SESSION_MS / 2);
	EXPECT_INT(recorder_count(&h->events, ZKL_EV_LOST), 1);
	EXPECT_INT(recorder_count(&h->events, ZKL_EV_ENDED), 0);
	EXPECT_RC(zkl_lock_start(h->lock, 0, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_lock_release(h->lock, 0, NULL), ZKL_ENOTHELD);
	EXPECT_TRUE(recorder_wait(&h->events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_acquire(h->lock, 2 * ENOUGH_MS, &later, NULL), ZKL_OK);
	EXPECT_TRUE(later.token > h->grant.token);
	EXPECT_RC(zkl_lock_check(h->lock, h->grant.token) > 0, 0);
	EXPECT_INT(recorder_count(&h->events, ZKL_EV_LOST), 1);
	EXPECT_RC(zkl_lock_release(h->lock, ENOUGH_MS, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), h->path.text) == 0, ENOUGH_MS);
}

/* LOST before a session timeout has passed since the last proof, and not at once: heartbeats that came late on a
 * busy machine make the lease shorter than its 5T/8, but no shorter than half of that. */
static void expect_lost_in_time(holder *h)
{
	seen    lost = {0}, suspended = {0};
	int64_t timeout_ns = session_timeout_ms(h->s) * 1000000;
	EXPECT_TRUE(recorder_wait(&h->events, ZKL_EV_LOST, 1, 2 * SESSION_MS, &lost));
	int64_t proof_ns = net_last_proof_ns(&h->n);
	EXPECT_TRUE(atomic_load(&h->asking.last_yes_ns) - proof_ns < timeout_ns);
	int64_t end_ms = timeout_ns / 1000000, late_ms = late(end_ms * 5 / 8); /* a busy machine may tell it late */
	EXPECT_RANGE((lost.at_ns - proof_ns) / 1000000, end_ms * 5 / 16, late_ms > end_ms ? late_ms : end_ms);
	EXPECT_TRUE(atomic_load(&h->asking.last_yes_ns) <= lost.at_ns); /* check() runs ahead of the event */
	EXPECT_TRUE(recorder_wait(&h->events, ZKL_EV_SUSPENDED, 1, 0, &suspended));
	EXPECT_TRUE(suspended.at_ns <= lost.at_ns);
}

/* ---- outages that cost the lease ---- */

static void silence_costs_the_lease_by_the_own_clock(void)
{
	static const unsigned directions[] = {PROXY_BOTH, PROXY_TO_SERVER, PROXY_TO_CLIENT};
	holder                h[3];
	holders_open(h, 3, SESSION_MS);
	for (size_t i = 0; i < 3; i++)
		net_hold(&h[i].n, directions[i]);
	for (size_t i = 0; i < 3; i++) {
		expect_lost_in_time(&h[i]);
		net_hold(&h[i].n, 0); /* late proofs come now */
	}
	for (size_t i = 0; i < 3; i++) {
		expect_lost_once_and_for_good(&h[i]);
		holder_close(&h[i]);
	}
}

static void refused_connections_cost_the_lease_by_the_own_clock(void)
{
	holder h;
	holders_open(&h, 1, SESSION_MS);
	net_set_door(&h.n, PROXY_REFUSING);
	net_cut(&h.n);
	expect_lost_in_time(&h);
	net_set_door(&h.n, PROXY_OPEN);
	expect_lost_once_and_for_good(&h);
	holder_close(&h);
}

/* CURATOR-460: nothing of ours reaches the server, while watch events come and keep the client from noticing. */
static void watch_events_prove_nothing(void)
{
	enum { WATCHES = 8 };
	holder    h;
	lock_path paths[WATCHES];
	recorder  waiting[WATCHES];
	zkl_lock *locks[WATCHES];
	node      watched[WATCHES];
	holder_open(&h, 1, 1, SESSION_MS);
	for (int i = 0; i < WATCHES; i++) {
		paths[i] = new_path();
		waiting[i] = (recorder)RECORDER("waiter");
		for (int k = 0; k < 2; k++) /* behind two: then the second one's data is watched */
			watched[i] = foreign_contender(paths[i].text, "_c_1c9f1f24-8a0a-4c7b-a1a1-7b0d5a5a5001-lock-");
		locks[i] = lock_new(h.s, paths[i].text, &waiting[i]);
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&waiting[i], ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	}
	wait_for_full_lease(h.s);
	net_hold(&h.n, PROXY_TO_SERVER);
	for (int i = 0; i < WATCHES; i++) { /* spread over T */
		EXPECT_INT(zkclient_set(observer(), watched[i].path, "y", 1), ZOK);
		int64_t next_ms = now_ms() + SESSION_MS / WATCHES;
		EVENTUALLY(now_ms() >= next_ms, SESSION_MS);
	}
	expect_lost_in_time(&h);
	for (int i = 0; i < WATCHES; i++)
		EXPECT_INT(recorder_count(&waiting[i], ZKL_EV_GRANTED), 0);
	net_hold(&h.n, 0);
	expect_lost_once_and_for_good(&h);
	for (int i = 0; i < WATCHES; i++)
		zkl_lock_free(locks[i]);
	holder_close(&h);
	for (int i = 0; i < WATCHES; i++)
		recorder_free(&waiting[i]);
}

static void stop_ms_is_told_that_much_earlier(void)
{
	holder      h;
	lock_path   path = new_path();
	recorder    events = RECORDER("stops early");
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_lock   *early = NULL;
	zkl_grant   grant = {0};
	seen        lost_early = {0}, lost = {0};
	holder_open(&h, 1, server_count(), SESSION_MS);
	options.on_event = recorder_event;
	options.user = &events;
	options.stop_ms = SESSION_MS / 4;
	EXPECT_RC(zkl_lock_new(h.s, path.text, &options, &early, NULL), ZKL_OK);
	bool held = false;
	int  lost_before = 0;
	for (int tries = 0; !held && tries < 5; tries++) { /* on a busy machine the short lease can be over before */
		EXPECT_RC(zkl_lock_acquire(early, ENOUGH_MS, &grant, NULL), ZKL_OK);
		wait_for_full_lease(h.s);
		net_hold(&h.n, PROXY_BOTH);
		held = zkl_lock_check(early, grant.token) > 0;
		if (!held) {
			net_hold(&h.n, 0);
			EXPECT_RC(zkl_lock_release(early, ENOUGH_MS, NULL), ZKL_ENOTHELD);
			lost_before = recorder_count(&events, ZKL_EV_LOST);
		}
	}
	EXPECT_TRUE(held);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, lost_before + 1, 2 * SESSION_MS, &lost_early));
	EXPECT_RC(zkl_lock_check(early, grant.token), ZKL_ELOST);
	EXPECT_TRUE(zkl_lock_check(h.lock, h.grant.token) > 0);
	EXPECT_TRUE(recorder_wait(&h.events, ZKL_EV_LOST, 1, 2 * SESSION_MS, &lost));
	int64_t late_ms = late(0) - 500; /* either of them, on a busy machine */
	EXPECT_RANGE((lost.at_ns - lost_early.at_ns) / 1000000, options.stop_ms / 2 - late_ms,
	             options.stop_ms * 2 + late_ms);
	net_hold(&h.n, 0);
	EXPECT_RC(zkl_lock_release(early, 0, NULL), ZKL_ENOTHELD);
	zkl_lock_free(early);
	expect_lost_once_and_for_good(&h);
	holder_close(&h);
	recorder_free(&events);
}

/* At once, or when its lease is over already. */
static void expired_session_costs_the_lock_once(void)
{
	for (int lost_before = 0; lost_before <= 1; lost_before++) {
		holder h;
		holders_open(&h, 1, SESSION_MS);
		if (lost_before) {
			net_hold(&h.n, PROXY_BOTH);
			EXPECT_TRUE(recorder_wait(&h.events, ZKL_EV_LOST, 1, 2 * SESSION_MS, NULL));
			net_hold(&h.n, 0);
		}
		net_expire(&h.n);
		EVENTUALLY(stats_of(h.s).expiries == 1, 2 * ENOUGH_MS);
		expect_lost_once_and_for_good(&h);
		zkl_stats stats = stats_of(h.s);
		EXPECT_INT((int64_t)stats.expiries, 1);
		EXPECT_INT((int64_t)stats.lost, 1);
		EXPECT_INT((int64_t)stats.granted, 2);
		holder_close(&h);
	}
}

static void block_while_flag_is_one(const zkl_event *ev, recorder *r)
{
	(void)ev;
	while (atomic_load(&r->flag) == 1)
		poll_pause();
}

/* CURATOR-54, etcd #9921: the lease is over before the callback could say that it has begun. */
static void grant_that_is_over_before_its_event_is_never_told(void)
{
	lock_path path = new_path(), blocked_path = new_path();
	net       n;
	zkl_stats stats = ZKL_STATS_INIT;
	seen      e = {0};
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     blocking = RECORDER("blocks the callbacks"), events = RECORDER("granted meanwhile");
	zkl_lock    *first = lock_new(s, blocked_path.text, &blocking), *lock = lock_new(s, path.text, &events);
	blocking.then = block_while_flag_is_one;
	atomic_store(&blocking.flag, 1);
	EXPECT_RC(zkl_lock_start(first, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&blocking, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY((zkl_session_stats(s, &stats), stats.granted == 2), ENOUGH_MS);
	net_hold(&n, PROXY_BOTH);
	EVENTUALLY((zkl_session_stats(s, &stats), stats.lease_ms < 0), 2 * SESSION_MS);
	atomic_store(&blocking.flag, 0);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_ELOST);
	EXPECT_INT(recorder_total(&events), 1);
	EXPECT_TRUE(recorder_wait(&blocking, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	net_hold(&n, 0);
	zkl_lock_free(first);
	zkl_lock_free(lock);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&blocking);
	recorder_free(&events);
}

/* ---- outages that cost nothing ---- */

/* In percent of T: a connection may be broken for a quarter, and packets may vanish for an eighth, since what was sent meanwhile
 * is sent again as much later. */
enum { BROKEN_PERCENT = 24, SILENT_PERCENT = 12 };
typedef enum outage { BROKEN, SILENT, DROPPING, CUT_AGAIN, OUTAGES } outage;

static void outage_begins(holder *h, outage kind)
{
	switch (kind) {
	case BROKEN:
		net_set_door(&h->n, PROXY_REFUSING);
		net_cut(&h->n);
		break;
	case SILENT:
		net_hold(&h->n, PROXY_BOTH);
		break;
	case DROPPING: /* where that is not permitted: the same as the one before */
		if (proxy_can_drop())
			net_drop(&h->n, true);
		else
			net_hold(&h->n, PROXY_BOTH);
		break;
	case CUT_AGAIN: /* two reconnects within a few milliseconds */
	default:
		for (int k = 0; k < 5; k++) {
			net_cut(&h->n);
			let_pass(5 * k);
		}
	}
}

static void outage_ends(holder *h)
{
	net_set_door(&h->n, PROXY_OPEN);
	net_hold(&h->n, 0);
	net_drop(&h->n, false);
}

/* Once it is over. */
static void expect_suspended_at_most(holder *h, int times, int *before)
{
	EVENTUALLY(recorder_count(&h->events, ZKL_EV_RESUMED) == recorder_count(&h->events, ZKL_EV_SUSPENDED),
	           ENOUGH_MS);
	EXPECT_RANGE(recorder_count(&h->events, ZKL_EV_SUSPENDED) - *before, 0, times);
	*before = recorder_count(&h->events, ZKL_EV_SUSPENDED);
	EXPECT_INT(recorder_count(&h->events, ZKL_EV_LOST), 0);
	EXPECT_TRUE(still_held(h));
	EXPECT_TRUE(atomic_load(&h->asking.first_no_ns) == 0);
}

/* consul #5437, marathon #4266. All kinds at once, each to a holder of its own. */
static void short_outages_cost_a_suspension_at_most(void)
{
	holder   h[OUTAGES];
	int      suspended[OUTAGES] = {0}, creates[OUTAGES];
	int64_t  timeout_ms = tick_ms() * 12;
	unsigned random = (unsigned)now_ns();
	holders_open(h, OUTAGES, timeout_ms);
	for (outage kind = 0; kind < OUTAGES; kind++)
		creates[kind] = net_requests(&h[kind].n, OP_CREATE2);
	for (int i = 0; i < rounds(1, 20); i++) {
		EXPECT_TRUE(have_full_leases(h, OUTAGES));
		for (outage kind = 0; kind < OUTAGES; kind++) /* a late proof is none */
			suspended[kind] = recorder_count(&h[kind].events, ZKL_EV_SUSPENDED);
		let_pass(rand_r(&random) % (timeout_ms / 6)); /* at any moment of the heartbeat */
		for (outage kind = 0; kind < OUTAGES; kind++)
			outage_begins(&h[kind], kind);
		let_pass(timeout_ms * SILENT_PERCENT / 100);
		outage_ends(&h[SILENT]);
		outage_ends(&h[DROPPING]);
		let_pass(timeout_ms * (BROKEN_PERCENT - SILENT_PERCENT) / 100);
		outage_ends(&h[BROKEN]);
		EXPECT_TRUE(have_full_leases(h, OUTAGES));
		for (outage kind = 0; kind < OUTAGES; kind++)
			expect_suspended_at_most(&h[kind], kind == CUT_AGAIN ? 5 : 1, &suspended[kind]);
	}
	for (outage kind = 0; kind < OUTAGES; kind++) {
		EXPECT_INT(zkclient_count(observer(), h[kind].path.text), 1);
		EXPECT_INT(net_requests(&h[kind].n, OP_CREATE2), creates[kind]);
		EXPECT_INT((int64_t)stats_of(h[kind].s).expiries, 0);
		EXPECT_RC(zkl_lock_release(h[kind].lock, ENOUGH_MS, NULL), ZKL_OK);
		holder_close(&h[kind]);
	}
}

/* dotnet-etcd #321: a lock that nobody touches is given up by its own keep-alive. */
static void idle_holder_keeps_its_lock(void)
{
	bool shown = false;
	/* Where a busy machine cannot keep up with a short timeout, a longer one shows it. */
	for (int64_t timeout_ms = tick_ms() * 4; !shown && timeout_ms <= tick_ms() * 16; timeout_ms *= 2) {
		holder h;
		writer plain;
		holder_open(&h, 1, server_count(), timeout_ms);
		bool full = have_full_leases(&h, 1), kept = full;
		writer_start(&plain, all_servers());
		for (int64_t end_ms = now_ms() + 10 * timeout_ms; kept && now_ms() < end_ms; poll_pause())
			kept = still_held(&h);
		int64_t unwritable_ms = writer_stop(&plain);
		shown = kept || (full && unwritable_ms < timeout_ms / 4);
		EXPECT_TRUE(kept || !shown);
		if (!kept)
			EXPECT_TRUE(recorder_wait(&h.events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_release(h.lock, ENOUGH_MS, NULL), kept ? ZKL_OK : ZKL_ENOTHELD);
		EXPECT_INT(recorder_count(&h.events, ZKL_EV_LOST), kept ? 0 : 1);
		holder_close(&h);
	}
	EXPECT_TRUE(shown);
}

static void heartbeats_flow_only_while_somebody_holds_or_is_next(void)
{
	lock_path path = new_path(), other_path = new_path();
	net       n;
	zkl_grant grant;
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, SESSION_MS), *other = session_open(all_servers(), SESSION_MS);
	zkl_lock    *locks[10], *first = lock_new(other, other_path.text, NULL),
			     *second = lock_new(other, other_path.text, NULL);
	zkl_lock *third = lock_new(s, other_path.text, NULL);
	EVENTUALLY(session_timeout_ms(s) > 0, ENOUGH_MS);
	EXPECT_RC(zkl_lock_acquire(first, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(second, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), other_path.text) == 2, ENOUGH_MS);
	EXPECT_RC(zkl_lock_start(third, ZKL_FOREVER, NULL), ZKL_OK); /* waits, but is not next */
	EVENTUALLY(zkclient_count(observer(), other_path.text) == 3, ENOUGH_MS);
	net_reset_counts(&n);
	let_pass(SESSION_MS);
	EXPECT_INT(net_requests(&n, OP_MULTI), 0);
	for (int i = 0; i < 10; i++) { /* ten locks, one heartbeat */
		char name[200];
		snprintf(name, sizeof name, "%s/%d", path.text, i);
		locks[i] = lock_new(s, name, NULL);
		EXPECT_RC(zkl_lock_acquire(locks[i], ENOUGH_MS, &grant, NULL), ZKL_OK);
	}
	wait_for_full_lease(s);
	net_reset_counts(&n);
	let_pass(2 * SESSION_MS);
	EXPECT_RANGE(net_requests(&n, OP_MULTI), 9, 16); /* each T/6 */
	EXPECT_INT(net_requests(&n, OP_ANY) - net_requests(&n, OP_MULTI), 0);
	for (int i = 0; i < 10; i++)
		zkl_lock_free(locks[i]);
	zkl_lock_free(first);
	zkl_lock_free(second);
	zkl_lock_free(third);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_close(other, ENOUGH_MS);
	net_close(&n);
}

/* ---- expiry while waiting ---- */

/* CURATOR-73, zk-ruby #91 */
static void waiter_that_expires_queues_again(void)
{
	lock_path path = new_path();
	net       n;
	node      predecessor = foreign_contender(path.text, "_c_63b8a1a5-9a34-4b93-9f0c-6a1f04f5d001-lock-");
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("waiter");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	seen         e = {0};
	int          expiries = rounds(8, 50);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	for (int i = 1; i <= expiries; i++) {
		if (i == expiries) { /* a real one, by silence */
			net_hold(&n, PROXY_BOTH);
			EVENTUALLY(zkclient_count(observer(), path.text) == 1, SESSION_MS + 6 * tick_ms());
			net_hold(&n, 0);
		} else {
			net_expire(&n);
		}
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, i + 1, 2 * ENOUGH_MS, &e));
		EXPECT_INT(e.requeued, i);
		EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
		EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
	}
	EXPECT_INT(zkclient_delete(observer(), predecessor.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

static void waiter_that_expires_ends_when_told_not_to_queue_again(void)
{
	lock_path   path = new_path();
	net         n;
	recorder    events = RECORDER("waiter");
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_lock   *lock = NULL;
	seen        e = {0};
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	foreign_contender(path.text, "_c_63b8a1a5-9a34-4b93-9f0c-6a1f04f5d002-lock-");
	options.flags = ZKL_NO_REQUEUE;
	options.on_event = recorder_event;
	options.user = &events;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &lock, NULL), ZKL_OK);
	for (int i = 1; i <= 3; i++) {
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, i, ENOUGH_MS, NULL));
		net_expire(&n);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, i, ENOUGH_MS, &e));
		EXPECT_RC(e.code, ZKL_ELOST);
		EXPECT_INT(zkclient_count(observer(), path.text), 1);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* ---- processes that are stopped ---- */

/* This program again, as a process of its own that can be stopped. It says on standard output what happens to it. */
typedef struct child {
	pid_t pid;
	int   from, to; /* its standard output, its standard input */
	char  line[2000], unread[2000];
} child;

static void child_start(child *c, const char *role, const char *path, int64_t timeout_ms)
{
	int         out[2], in[2];
	char        timeout[24];
	const char *argv[] = {program_invocation_name, "role", role, path, timeout, NULL};
	*c = (child){.pid = -1};
	snprintf(timeout, sizeof timeout, "%lld", (long long)timeout_ms);
	CU_ASSERT_FATAL(pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0);
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
	EXPECT_INT(posix_spawn(&c->pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environ), 0);
	posix_spawn_file_actions_destroy(&files);
	close(out[1]);
	close(in[0]);
	c->from = out[0];
	c->to = in[1];
}

/* Reads its lines until one begins so, which is then in c->line. */
static bool child_says(child *c, const char *beginning, int64_t timeout_ms)
{
	for (int64_t end_ms = now_ms() + timeout_ms;;) {
		char *newline = strchr(c->unread, '\n');
		if (newline != NULL) {
			*newline = '\0';
			snprintf(c->line, sizeof c->line, "%s", c->unread);
			memmove(c->unread, newline + 1, strlen(newline + 1) + 1);
			if (strncmp(c->line, beginning, strlen(beginning)) == 0)
				return true;
			continue;
		}
		struct pollfd ready = {c->from, POLLIN, 0};
		size_t        len = strlen(c->unread);
		int64_t       left_ms = end_ms - now_ms();
		if (left_ms <= 0 || poll(&ready, 1, (int)left_ms) != 1)
			return false;
		ssize_t n = read(c->from, c->unread + len, sizeof c->unread - 1 - len);
		if (n <= 0)
			return false;
		c->unread[len + (size_t)n] = '\0';
	}
}

static void child_ask(child *c, const char *line)
{
	EXPECT_TRUE(write(c->to, line, strlen(line)) == (ssize_t)strlen(line));
}

static void child_end(child *c)
{
	int status = 0;
	close(c->to); /* a role ends with its standard input */
	if (c->pid > 0) {
		kill(c->pid, SIGCONT);
		waitpid(c->pid, &status, 0);
		EXPECT_INT(status, 0);
	}
	close(c->from);
}

static void stop_for(child *c, int64_t ms)
{
	kill(c->pid, SIGSTOP);
	let_pass(ms);
	kill(c->pid, SIGCONT);
}

static const char *const event_words[] = {"", "waiting", "granted", "suspended", "resumed", "lost", "ended"};

static void say_event(const zkl_event *ev, void *user)
{
	char line[400];
	(void)user;
	snprintf(line, sizeof line, "%s %d token %llu node %s\n", event_words[ev->type], ev->code,
	         ev->grant != NULL ? (unsigned long long)ev->grant->token : 0,
	         ev->grant != NULL ? ev->grant->node : "-");
	if (write(STDOUT_FILENO, line, strlen(line)) < 0)
		_exit(EXIT_FAILURE);
}

/* role stopped PATH T: holds in a session that delivers nothing unasked, asks check() all the time, and says what
 * the first answer was after a pause: no event can have been delivered before it. */
static int role_stopped(const char *path, int64_t timeout_ms)
{
	zkl_session_options options = session_options(getenv("ZKLOCK_TEST_SERVERS"), timeout_ms);
	zkl_options         lock_options = ZKL_OPTIONS_INIT;
	zkl_session        *s = NULL;
	zkl_lock           *lock = NULL;
	zkl_grant           grant = {0};
	options.flags = ZKL_MANUAL;
	lock_options.on_event = say_event;
	if (zkl_session_open(&options, &s, NULL) != ZKL_OK ||
	    zkl_lock_new(s, path, &lock_options, &lock, NULL) != ZKL_OK ||
	    zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL) != ZKL_OK)
		return EXIT_FAILURE;
	printf("held %llu\n", (unsigned long long)grant.token);
	for (int64_t last_ms = now_ms(), now; (now = now_ms()) - last_ms < timeout_ms; last_ms = now)
		if (zkl_lock_check(lock, grant.token) <= 0)
			printf("no before any pause\n");
	int64_t first = zkl_lock_check(lock, grant.token);
	printf("first check %lld\n", (long long)first);
	for (char c; read(STDIN_FILENO, &c, 1) > 0;)
		continue;
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	return EXIT_SUCCESS;
}

/* role events PATH T: queues, and says each event; "c" asks check(), "r" releases, "o PATH" acquires another lock and holds it for
 * a while. */
static int role_events(const char *path, int64_t timeout_ms)
{
	zkl_session_options options = session_options(getenv("ZKLOCK_TEST_SERVERS"), timeout_ms);
	zkl_options         lock_options = ZKL_OPTIONS_INIT;
	zkl_session        *s = NULL;
	zkl_lock           *lock = NULL;
	lock_options.on_event = say_event;
	if (zkl_session_open(&options, &s, NULL) != ZKL_OK ||
	    zkl_lock_new(s, path, &lock_options, &lock, NULL) != ZKL_OK ||
	    zkl_lock_start(lock, ZKL_FOREVER, NULL) != ZKL_OK)
		return EXIT_FAILURE;
	char               line[128], other_path[120];
	zkl_lock          *other = NULL;
	unsigned long long token = 0;
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (sscanf(line, "c %llu", &token) == 1)
			printf("check %lld\n", (long long)zkl_lock_check(lock, token));
		if (line[0] == 'r')
			printf("release %d\n", zkl_lock_release(lock, ENOUGH_MS, NULL));
		if (line[0] == 'o' && sscanf(line, "o %119s", other_path) == 1 &&
		    zkl_lock_new(s, other_path, NULL, &other, NULL) == ZKL_OK) {
			int rc = zkl_lock_acquire(other, ENOUGH_MS, NULL, NULL);
			printf("other %d, full lease %d\n", rc, reach_full_lease(s));
		}
	}
	zkl_lock_free(other);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	return EXIT_SUCCESS;
}

static uint64_t token_in(const char *line)
{
	const char *at = strpbrk(line, "0123456789");
	const char *token = strstr(line, "token ");
	return strtoull(token != NULL ? token + 6 : at != NULL ? at : "0", NULL, 10);
}

/* Two at a time. */
static void first_check_of_a_stopped_holder_says_no(void)
{
	for (int i = 0; i < rounds(1, 10); i++) {
		lock_path    path[2] = {new_path(), new_path()};
		child        c[2];
		uint64_t     token[2];
		zkl_session *s = session_open(all_servers(), SESSION_MS);
		zkl_lock    *next[2];
		acquirer     a[2];
		for (int k = 0; k < 2; k++)
			child_start(&c[k], "stopped", path[k].text, SESSION_MS);
		for (int k = 0; k < 2; k++) {
			EXPECT_TRUE(child_says(&c[k], "held", 2 * ENOUGH_MS));
			token[k] = token_in(c[k].line);
			next[k] = lock_new(s, path[k].text, NULL);
			acquirer_start(&a[k], next[k], ZKL_FOREVER);
			EVENTUALLY(zkclient_count(observer(), path[k].text) == 2, ENOUGH_MS);
		}
		kill(c[1].pid, SIGSTOP);
		stop_for(&c[0], 2 * SESSION_MS);
		kill(c[1].pid, SIGCONT);
		for (int k = 0; k < 2; k++) {
			EXPECT_TRUE(child_says(&c[k], "first check", ENOUGH_MS));
			EXPECT_RC(strtoll(c[k].line + strlen("first check "), NULL, 10), ZKL_ELOST);
			/* Somebody else holds, with a token that refuses the old one. */
			EXPECT_RC(acquirer_join(&a[k]), ZKL_OK);
			EXPECT_TRUE(a[k].grant.token > token[k]);
			child_end(&c[k]);
			EXPECT_TRUE(zkl_lock_check(next[k], a[k].grant.token) > 0);
			zkl_lock_free(next[k]);
		}
		zkl_session_close(s, ENOUGH_MS);
	}
}

static void stopped_waiter_keeps_its_place(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("behind the stopped one");
	zkl_lock    *first = lock_new(s, path.text, NULL), *third = lock_new(s, path.text, &events);
	zkl_grant    grant;
	child        c;
	EXPECT_RC(zkl_lock_acquire(first, ENOUGH_MS, &grant, NULL), ZKL_OK);
	child_start(&c, "events", path.text, SESSION_MS);
	EXPECT_TRUE(child_says(&c, "waiting", 2 * ENOUGH_MS));
	EXPECT_RC(zkl_lock_start(third, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 3, ENOUGH_MS);
	stop_for(&c, SESSION_MS * 3 / 4);
	let_pass(SESSION_MS / 4);
	EXPECT_INT(zkclient_count(observer(), path.text), 3);
	EXPECT_RC(zkl_lock_release(first, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(child_says(&c, "granted", ENOUGH_MS));
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
	child_ask(&c, "r\n");
	EXPECT_TRUE(child_says(&c, "release 0", ENOUGH_MS));
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	child_end(&c);
	zkl_lock_free(first);
	zkl_lock_free(third);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

/* Its operations end without a result and its session lives: what it held is lost all the same, and proofs come too
 * late. */
static void holder_stopped_beyond_its_lease_is_told_lost_once(void)
{
	lock_path path = new_path(), other_path = new_path();
	child     c;
	char      ask[140];
	child_start(&c, "events", path.text, SESSION_MS);
	EXPECT_TRUE(child_says(&c, "granted", 2 * ENOUGH_MS));
	uint64_t token = token_in(c.line);
	let_pass(SESSION_MS);
	stop_for(&c, SESSION_MS * 3 / 4);
	EXPECT_TRUE(child_says(&c, "lost", ENOUGH_MS));
	snprintf(ask, sizeof ask, "o %s\n", other_path.text); /* the session is proved again */
	child_ask(&c, ask);
	EXPECT_TRUE(child_says(&c, "other 0, full lease 1", 5 * ENOUGH_MS));
	snprintf(ask, sizeof ask, "c %llu\n", (unsigned long long)token);
	child_ask(&c, ask);
	EXPECT_TRUE(child_says(&c, "check", ENOUGH_MS));
	EXPECT_RC(strtoll(c.line + strlen("check "), NULL, 10), ZKL_ELOST);
	EXPECT_INT(zkclient_count(observer(), path.text), 1); /* it keeps others out until it says that it is through */
	child_ask(&c, "r\n");
	EXPECT_TRUE(child_says(&c, "release", ENOUGH_MS));
	EXPECT_RC(strtoll(c.line + strlen("release "), NULL, 10), ZKL_ENOTHELD);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	close(c.to);
	c.to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	EXPECT_TRUE(!child_says(&c, "lost", 2000)); /* to its end */
	child_end(&c);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(silence_costs_the_lease_by_the_own_clock, 180)},
		{TEST(refused_connections_cost_the_lease_by_the_own_clock, 60)},
		{TEST(watch_events_prove_nothing, 60)},
		{TEST(stop_ms_is_told_that_much_earlier, 60)},
		{TEST(expired_session_costs_the_lock_once, 60)},
		{TEST(grant_that_is_over_before_its_event_is_never_told, 60)},
		{TEST(short_outages_cost_a_suspension_at_most, 900)},
		{TEST(idle_holder_keeps_its_lock, 300)},
		{TEST(heartbeats_flow_only_while_somebody_holds_or_is_next, 60)},
		{TEST(waiter_that_expires_queues_again, 300)},
		{TEST(waiter_that_expires_ends_when_told_not_to_queue_again, 60)},
		{TEST(first_check_of_a_stopped_holder_says_no, 600)},
		{TEST(stopped_waiter_keeps_its_place, 60)},
		{TEST(holder_stopped_beyond_its_lease_is_told_lost_once, 60)},
		{0},
	};
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 5 && strcmp(argv[1], "role") == 0)
		return strcmp(argv[2], "stopped") == 0 ? role_stopped(argv[3], atoll(argv[4]))
		                                       : role_events(argv[3], atoll(argv[4]));
	return harness_main(argc, argv, "lease", tests);
}
