/* SPDX-License-Identifier: Apache-2.0 */
/* How long may an outage be that costs no lock? A measurement, no test: its numbers are the machine's as well.
 *
 * Links: each of a few holders closes in on its own bound by bisection; the least and the greatest one are printed, as
 * percentages of the session timeout T. Each outage begins at another moment of the heartbeat. The proxy keeps what is
 * silent and lets it go on at the end; where packets vanish, the wait for TCP's next retransmission is added, up to as long
 * again. Servers: the least lease that was left while one was killed and started again, or all were, one after the other. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#define ENOUGH_MS 60000
#define REPEATS   3
#define KINDS     5
#define VANISHING 4

static const char *const kind_names[KINDS] = {"broken, then refused", "silence both ways", "silence to the server",
                                              "silence to the client", "packets vanish both ways"};

typedef struct trial {
	pthread_t    thread;
	int          kind, survived, lost; /* percent of T: the greatest one survived, the least one not */
	unsigned     seed;
	int64_t      timeout_ms;
	bool         failed;
	lock_path    path;
	net          net;
	recorder     events;
	zkl_session *s;
	zkl_lock    *lock;
} trial;

static void begin_outage(trial *t)
{
	static const unsigned directions[KINDS] = {0, PROXY_BOTH, PROXY_TO_SERVER, PROXY_TO_CLIENT};
	if (t->kind == VANISHING) {
		net_drop(&t->net, true);
		return;
	}
	if (t->kind > 0) {
		net_hold(&t->net, directions[t->kind]);
		return;
	}
	net_set_door(&t->net, PROXY_REFUSING);
	net_cut(&t->net);
}

static void end_outage(trial *t)
{
	net_drop(&t->net, false);
	net_hold(&t->net, 0);
	net_set_door(&t->net, PROXY_OPEN);
}

static bool survives(trial *t, int percent)
{
	zkl_grant grant;
	int       lost;
	if (zkl_lock_acquire(t->lock, ENOUGH_MS, &grant, NULL) < 0 || !reach_full_lease(t->s)) {
		t->failed = true;
		return false;
	}
	lost = recorder_count(&t->events, ZKL_EV_LOST);
	let_pass(rand_r(&t->seed) % (t->timeout_ms / 6));
	begin_outage(t);
	let_pass(t->timeout_ms * percent / 100);
	end_outage(t);
	t->failed = !reach_full_lease(t->s) && zkl_lock_check(t->lock, grant.token) > 0;
	lost = recorder_count(&t->events, ZKL_EV_LOST) - lost;
	zkl_lock_release(t->lock, ENOUGH_MS, NULL);
	return lost == 0;
}

static void *close_in(void *arg)
{
	trial *t = arg;
	while (!t->failed && t->lost - t->survived > 1) {
		int percent = (t->lost + t->survived) / 2;
		*(survives(t, percent) ? &t->survived : &t->lost) = percent;
	}
	return NULL;
}

static void trial_begin(trial *t, int kind, int repeat, int64_t timeout_ms)
{
	*t = (trial){.kind = kind, .lost = 100, .seed = (unsigned)(kind * REPEATS + repeat), .timeout_ms = timeout_ms};
	t->events = (recorder)RECORDER(kind_names[kind]);
	t->path = new_path();
	net_open(&t->net, 1, server_count());
	t->s = session_open(t->net.servers, timeout_ms);
	t->lock = lock_new(t->s, t->path.text, &t->events);
	EXPECT_INT(pthread_create(&t->thread, NULL, close_in, t), 0);
}

static void trial_end(trial *t)
{
	pthread_join(t->thread, NULL);
	EXPECT_TRUE(!t->failed);
	EXPECT_INT(session_timeout_ms(t->s), t->timeout_ms);
	zkl_lock_free(t->lock);
	zkl_session_close(t->s, ENOUGH_MS);
	net_close(&t->net);
	recorder_free(&t->events);
}

static void links_at(int64_t timeout_ms)
{
	static trial trials[KINDS][REPEATS];
	int          kinds = proxy_can_drop() ? KINDS : VANISHING;
	for (int i = 0; i < kinds * REPEATS; i++)
		trial_begin(&trials[i / REPEATS][i % REPEATS], i / REPEATS, i % REPEATS, timeout_ms);
	for (int kind = 0; kind < kinds; kind++) {
		int least = 100, greatest = 0;
		for (int i = 0; i < REPEATS; i++) {
			trial_end(&trials[kind][i]);
			int survived = trials[kind][i].survived;
			least = survived < least ? survived : least;
			greatest = survived > greatest ? survived : greatest;
		}
		printf("\n%6lld  %-24s %3d .. %3d %% of T survived", (long long)timeout_ms, kind_names[kind], least,
		       greatest);
	}
	printf("\n%s", kinds < KINDS ? "packets may not be dropped here\n" : "");
}

static void links(void)
{
	links_at(4000);
	links_at(10000);
}

/* ---- servers ---- */

typedef struct watch {
	pthread_t    thread;
	zkl_session *s;
	atomic_bool  stop;
	int64_t      least_ms;
} watch;

static void *watch_lease(void *arg)
{
	watch *w = arg;
	while (!atomic_load(&w->stop)) {
		zkl_stats stats = ZKL_STATS_INIT;
		zkl_session_stats(w->s, &stats);
		w->least_ms = stats.lease_ms < w->least_ms ? stats.lease_ms : w->least_ms;
		poll_pause();
	}
	return NULL;
}

typedef enum victims { LEADER, FOLLOWER, ALL, VICTIMS } victims;

static const char *const victim_names[VICTIMS] = {"leader killed, started", "follower killed, started",
                                                  "all killed, started in turn"};

static void restart(int server)
{
	EXPECT_INT(ensemble("kill", server), 0);
	EXPECT_INT(ensemble("start", server), 0);
}

static void restart_victims(victims who)
{
	int leader = ensemble_leader();
	if (who != ALL)
		restart(who == LEADER ? leader : leader % (int)server_count() + 1);
	for (int i = 1; who == ALL && i <= (int)server_count(); i++) {
		restart(i);
		EXPECT_INT(ensemble("wait", 0), 0);
	}
}

static void restart_of(victims who, int64_t timeout_ms)
{
	lock_path    path = new_path();
	recorder     events = RECORDER("holder");
	zkl_session *s = session_open(all_servers(), timeout_ms);
	zkl_lock    *lock = lock_new(s, path.text, &events);
	zkl_grant    grant;
	int64_t      least_ms = timeout_ms, most_ms = 0;
	int          lost = 0;
	for (int i = 0; i < REPEATS; i++) {
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		wait_for_full_lease(s);
		watch w = {.s = s, .least_ms = timeout_ms};
		EXPECT_INT(pthread_create(&w.thread, NULL, watch_lease, &w), 0);
		restart_victims(who);
		atomic_store(&w.stop, true);
		pthread_join(w.thread, NULL);
		lost += zkl_lock_check(lock, grant.token) < 0;
		least_ms = w.least_ms < least_ms ? w.least_ms : least_ms;
		most_ms = w.least_ms > most_ms ? w.least_ms : most_ms;
		zkl_lock_release(lock, ENOUGH_MS, NULL);
	}
	printf("\n%6lld  %-27s %d of %d lost; least lease left %lld .. %lld %% of T", (long long)timeout_ms,
	       victim_names[who], lost, REPEATS, (long long)(least_ms * 100 / timeout_ms),
	       (long long)(most_ms * 100 / timeout_ms));
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void restarts(void)
{
	for (int64_t timeout_ms = 4000; timeout_ms <= 10000; timeout_ms += 6000)
		for (victims who = LEADER; who < VICTIMS; who++)
			restart_of(who, timeout_ms);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(links, 1800)},
		{TEST(restarts, 1800)},
		{0},
	};
	return harness_main(argc, argv, "outages", tests);
}
