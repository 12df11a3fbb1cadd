/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are killed, stopped and restarted. These tests have the ensemble to themselves. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  10000
#define RESTART_MS 60000 /* for servers to come up, on a busy machine */

/* Side by side: a server that starts cannot serve before others have. */
static void all(const char *verb)
{
	ensemble_call calls[SERVERS_MAX];
	for (size_t i = 0; i < server_count(); i++)
		calls[i] = ensemble_begin(verb, (int)i + 1);
	for (size_t i = 0; i < server_count(); i++)
		EXPECT_INT(ensemble_end(&calls[i]), 0);
}

static void holder_of_a_dead_ensemble_is_lost_by_its_own_clock(void)
{
	lock_path path = new_path();
	net       n;
	int64_t   timeout_ms = tick_ms() * 8;
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, timeout_ms);
	recorder     events = RECORDER("holder");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	zkl_grant    grant = {0}, later = {0};
	prober       asking;
	seen         lost = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	prober_start(&asking, (contender){.lock = lock}, grant.token);
	wait_for_full_lease(s);
	all("kill");
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, 2 * timeout_ms, &lost));
	EXPECT_RANGE((lost.at_ns - net_last_proof_ns(&n)) / 1000000, timeout_ms * 5 / 16, timeout_ms);
	EXPECT_TRUE(atomic_load(&asking.last_yes_ns) <= lost.at_ns);
	int64_t   start_ms = now_ms();
	zkl_lock *other = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(other, 2000, &later, NULL), ZKL_ENOTCONN); /* CURATOR-559 */
	EXPECT_RANGE(now_ms() - start_ms, 1999, late(2000));
	all("start");
	EXPECT_RC(zkl_lock_check(lock, grant.token), ZKL_ELOST);
	EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, RESTART_MS, &later, NULL), ZKL_OK);
	EXPECT_TRUE(later.token > grant.token);
	EVENTUALLY(zkclient_count(observer(), path.text) == 1, 2 * timeout_ms);
	prober_stop(&asking);
	EXPECT_INT(atomic_load(&asking.yes_after_no), 0);
	EXPECT_INT(recorder_count(&events, ZKL_EV_LOST), 1);
	zkl_lock_free(lock);
	zkl_lock_free(other);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	net_close(&n);
	recorder_free(&events);
}

static void calls_keep_their_timeouts_while_all_servers_are_stopped(void)
{
	lock_path    path = new_path();
	int64_t      timeout_ms = tick_ms() * 8;
	zkl_session *s = session_open(all_servers(), timeout_ms), *fresh;
	zkl_lock    *lock = lock_new(s, path.text, NULL), *free_lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	zkl_peer     peer;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	all("pause");
	fresh = session_open(all_servers(), timeout_ms);
	zkl_lock *fresh_lock = lock_new(fresh, path.text, NULL);
	int64_t   start_ms = now_ms();
	EXPECT_RC(zkl_lock_release(lock, 1000, NULL), ZKL_ETIMEDOUT);
	EXPECT_RANGE(now_ms() - start_ms, 999, late(1000));
	start_ms = now_ms();
	EXPECT_TRUE(zkl_lock_acquire(free_lock, 2000, &grant, NULL) < 0);
	EXPECT_RANGE(now_ms() - start_ms, 1999, late(2000));
	start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(fresh_lock, 2000, &grant, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 1999, late(2000));
	start_ms = now_ms();
	EXPECT_TRUE(zkl_lock_holder(s, path.text, &peer, NULL) < 0);
	EXPECT_RANGE(now_ms() - start_ms, 0, late(timeout_ms / 2));
	start_ms = now_ms();
	zkl_session_close(fresh, 1000);
	EXPECT_RANGE(now_ms() - start_ms, 0, late(1000));
	start_ms = now_ms();
	EXPECT_RC(zkl_session_close(s, 1000), ZKL_ETIMEDOUT);
	EXPECT_RANGE(now_ms() - start_ms, 999, late(1000));
	zkl_lock_free(lock);
	zkl_lock_free(free_lock);
	zkl_lock_free(fresh_lock);
	all("resume");
	EXPECT_INT(ensemble("wait", 0), 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, 2 * timeout_ms);
}

/* A queue of two that hand the lock to and fro, and one lock that is held throughout. */
typedef struct pair {
	pthread_t    thread;
	zkl_lock    *lock;
	atomic_bool *stop;
	atomic_int  *inside, *overlaps, *grants;
	int          failure;
} pair;

static void *hand_to_and_fro(void *arg)
{
	pair *p = arg;
	while (!atomic_load(p->stop)) {
		zkl_grant grant;
		int       rc = zkl_lock_acquire(p->lock, RESTART_MS, &grant, NULL);
		if (rc == ZKL_ELOST)
			continue;
		if (rc != ZKL_OK) {
			p->failure = rc;
			break;
		}
		if (atomic_fetch_add(p->inside, 1) != 0)
			atomic_fetch_add(p->overlaps, 1);
		atomic_fetch_add(p->grants, 1);
		poll_pause();
		atomic_fetch_sub(p->inside, 1);
		rc = zkl_lock_release(p->lock, 0, NULL);
		if (rc != ZKL_OK && rc != ZKL_ENOTHELD)
			p->failure = rc;
	}
	return NULL;
}

/* Does `disturb` to the servers, while one lock is held and another one goes to and fro: neither notices much. False: they served
 * nobody for longer than a lease lasts behind a heartbeat that was just missed, as servers do on a busy machine, so that the
 * lock may have been lost. */
static bool nothing_is_lost_while(void (*disturb)(void))
{
	writer       plain;
	lock_path    path = new_path(), held_path = new_path();
	zkl_session *s[2] = {session_open(all_servers(), SESSION_MS), session_open(all_servers(), SESSION_MS)};
	zkl_session *holding = session_open(all_servers(), SESSION_MS); /* nothing proves it but its heartbeat */
	recorder     events = RECORDER("held throughout"), waiting_events = RECORDER("waits throughout");
	zkl_lock    *held = lock_new(holding, held_path.text, &events),
		 *waiting = lock_new(s[1], held_path.text, &waiting_events);
	zkl_grant   grant = {0};
	atomic_bool stop = false;
	atomic_int  inside = 0, overlaps = 0, grants = 0;
	pair        pairs[2];
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(waiting, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&waiting_events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	wait_for_full_lease(holding);
	for (int i = 0; i < 2; i++) {
		pairs[i] = (pair){.lock = lock_new(s[i], path.text, NULL),
		                  .stop = &stop,
		                  .inside = &inside,
		                  .overlaps = &overlaps,
		                  .grants = &grants};
		EXPECT_INT(pthread_create(&pairs[i].thread, NULL, hand_to_and_fro, &pairs[i]), 0);
	}
	EVENTUALLY(atomic_load(&grants) > 20, RESTART_MS);
	writer_start(&plain, all_servers());
	disturb();
	int before = atomic_load(&grants);
	EVENTUALLY(atomic_load(&grants) > before + 20, RESTART_MS);
	int64_t away_ms = writer_stop(&plain);
	bool    short_enough = away_ms < SESSION_MS * 11 / 24;
	if (short_enough) {
		EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
		EXPECT_INT(recorder_count(&events, ZKL_EV_LOST), 0);
		EXPECT_INT(recorder_count(&waiting_events, ZKL_EV_GRANTED), 0);
		EXPECT_INT(zkclient_count(observer(), held_path.text), 2);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		pthread_join(pairs[i].thread, NULL);
		EXPECT_RC(pairs[i].failure, ZKL_OK);
		zkl_lock_free(pairs[i].lock);
	}
	EXPECT_INT(atomic_load(&overlaps), 0);
	int rc = zkl_lock_release(held, ENOUGH_MS, NULL);
	EXPECT_TRUE(rc == ZKL_OK || (!short_enough && rc == ZKL_ENOTHELD));
	EXPECT_TRUE(recorder_wait(&waiting_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	EXPECT_RC(zkl_session_close(holding, ENOUGH_MS), ZKL_OK);
	for (int i = 0; i < 2; i++)
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text) + zkclient_count(observer(), held_path.text), 0);
	recorder_free(&events);
	recorder_free(&waiting_events);
	if (!short_enough)
		fprintf(stderr, "no server for %lld ms\n", (long long)away_ms);
	return short_enough;
}

static void costs_no_lock(void (*disturb)(void))
{
	bool short_enough = false;
	for (int tries = 0; !short_enough && tries < 5; tries++)
		short_enough = nothing_is_lost_while(disturb);
	EXPECT_TRUE(short_enough);
}

static void kill_the_leader(void)
{
	int leader = ensemble_leader();
	EXPECT_TRUE(leader > 0);
	EXPECT_INT(ensemble("kill", leader), 0);
	EVENTUALLY(ensemble_leader() > 0, RESTART_MS);
	let_pass(SESSION_MS); /* long enough for a lease to run out that was not renewed */
	EXPECT_INT(ensemble("start", leader), 0);
	EXPECT_INT(ensemble("wait", 0), 0);
}

static void killed_leader_costs_no_lock(void)
{
	costs_no_lock(kill_the_leader);
}

static void restart_one_after_the_other(void)
{
	for (int i = 1; i <= (int)server_count(); i++) {
		EXPECT_INT(ensemble("kill", i), 0);
		EXPECT_INT(ensemble("start", i), 0);
		EXPECT_INT(ensemble("wait", 0), 0);
		let_pass(SESSION_MS / 2); /* as a rolling restart should */
	}
}

static void rolling_restart_costs_no_lock(void)
{
	costs_no_lock(restart_one_after_the_other);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(calls_keep_their_timeouts_while_all_servers_are_stopped, 180)},
		{TEST(killed_leader_costs_no_lock, 600)},
		{TEST(rolling_restart_costs_no_lock, 900)},
		{TEST(holder_of_a_dead_ensemble_is_lost_by_its_own_clock, 180)},
		{0},
	};
	return harness_main(argc, argv, "servers", tests);
}
