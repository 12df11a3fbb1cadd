/* SPDX-License-Identifier: Apache-2.0 */
/* Any thread may call anything, at any time but after the free. */
#include "harness.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zklock/guarded.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  10000

enum { SESSIONS = 2, LOCKS = 4, THREADS = 6, CALLS = 12 };

static struct {
	zkl_session     *s[SESSIONS];
	zkl_lock        *locks[LOCKS];
	zkl_election    *elections[2];
	const char      *path, *office, *data;
	_Atomic uint64_t tokens[LOCKS], terms[2]; /* the newest that somebody saw */
	atomic_bool      stop;
	atomic_int       granted, written, calls[CALLS], wrong;
} storm;

/* Attempts of one handle may follow each other so closely that their events mix. Each ends once, and the callbacks of a session
 * come one at a time. */
typedef struct hearer {
	atomic_int *inside; /* of the session */
	uint32_t    ended[1 << 16];
	int         events, wrong;
} hearer;

static void hear(const zkl_event *ev, void *user)
{
	hearer *h = user;
	if (atomic_fetch_add(h->inside, 1) != 0)
		h->wrong++;
	h->events++;
	if (ev->type == ZKL_EV_ENDED && h->ended[ev->attempt % (1 << 16)]++ != 0)
		h->wrong++;
	atomic_fetch_sub(h->inside, 1);
}

static hearer *hearer_new(atomic_int *inside)
{
	hearer *h = calloc(1, sizeof *h);
	CU_ASSERT_PTR_NOT_NULL_FATAL(h);
	h->inside = inside;
	return h;
}

static void hearer_free(hearer *h)
{
	EXPECT_TRUE(h->events > 0);
	EXPECT_INT(h->wrong, 0);
	free(h);
}

/* Which results a call may have while others do as they like with the same handle. */
static void expect_one_of(int rc, const int *possible)
{
	for (; rc < 0 && *possible != 0; possible++)
		if (rc == *possible)
			return;
	if (rc < 0)
		atomic_store(&storm.wrong, rc);
}
#define MAY_BE(rc, ...) expect_one_of((rc), (const int[]){__VA_ARGS__, 0})

static int short_term(const zkl_grant *grant, void *user)
{
	atomic_store((_Atomic uint64_t *)user, grant->token);
	sched_yield();
	return (int)(grant->token % 2);
}

/* By now the lock may be another's. */
static void write_guarded(zkl_session *s, const zkl_grant *grant)
{
	const zkl_write writes[] = {{ZKL_WRITE_SET, storm.data, "x", 1, -1}, {ZKL_WRITE_SET, storm.data, NULL, 0, -1}};
	int             rc = zkl_guarded_multi(s, grant, writes, 2, 1000, NULL);
	MAY_BE(rc, ZKL_ELOST, ZKL_ETIMEDOUT, ZKL_ENOTCONN);
	atomic_fetch_add(&storm.written, rc == ZKL_OK);
}

static void call_something(unsigned *random)
{
	int           what = rand_r(random) % CALLS, which = rand_r(random) % LOCKS;
	zkl_lock     *lock = storm.locks[which];
	zkl_session  *s = storm.s[which % SESSIONS];
	zkl_election *e = storm.elections[which % 2];
	zkl_grant     grant;
	zkl_peer      peer;
	zkl_error     error;
	zkl_stats     stats = ZKL_STATS_INIT;
	int           rc;
	atomic_fetch_add(&storm.calls[what], 1);
	switch (what) {
	case 0:
	case 1:
		rc = zkl_lock_acquire(lock, rand_r(random) % 100, &grant, &error);
		MAY_BE(rc, ZKL_ETIMEDOUT, ZKL_ENOTCONN, ZKL_EBUSY, ZKL_ECANCELED, ZKL_ESTATE, ZKL_ELOST);
		if (rc == ZKL_OK) {
			atomic_fetch_add(&storm.granted, 1);
			atomic_store(&storm.tokens[which], grant.token);
			if (what == 1)
				write_guarded(s, &grant);
		}
		break;
	case 2:
		MAY_BE(zkl_lock_start(lock, rand_r(random) % 2 ? 0 : ZKL_FOREVER, &error), ZKL_ESTATE);
		break;
	case 3:
	case 4:
		MAY_BE(zkl_lock_release(lock, rand_r(random) % 2 ? 0 : 20, &error), ZKL_ENOTHELD, ZKL_ETIMEDOUT);
		break;
	case 5:
		MAY_BE((int)zkl_lock_check(lock, atomic_load(&storm.tokens[which])), ZKL_ENOTHELD, ZKL_ELOST);
		break;
	case 6:
		MAY_BE(zkl_lock_holder(s, storm.path, &peer, &error), ZKL_ENOTCONN);
		MAY_BE(zkl_session_stats(s, &stats), ZKL_OK);
		break;
	case 7:
		rc = zkl_election_run(e, short_term, &storm.terms[which % 2], &error);
		MAY_BE(rc, ZKL_ECANCELED, ZKL_ESTATE, ZKL_ELOST);
		break;
	case 8:
		MAY_BE(zkl_election_resign(e, rand_r(random) % 2 ? 0 : 20, &error), ZKL_ENOTHELD, ZKL_ETIMEDOUT);
		break;
	case 10:
		MAY_BE(zkl_election_campaign(e, &error), ZKL_ESTATE);
		break;
	case 11:
		memset(&grant, 0, sizeof grant);
		snprintf(grant.node, sizeof grant.node, "%s/nobody", storm.path);
		MAY_BE(zkl_guarded_delete(s, &grant, storm.data, -1, 20, &error), ZKL_ELOST, ZKL_ETIMEDOUT,
		       ZKL_ENOTCONN);
		break;
	default:
		MAY_BE(zkl_election_leader(e, &peer), ZKL_OK);
		MAY_BE((int)zkl_election_check(e, atomic_load(&storm.terms[which % 2])), ZKL_ENOTHELD, ZKL_ELOST);
	}
}

static void *call_all_the_time(void *number)
{
	unsigned random = (unsigned)now_ns() + *(unsigned *)number;
	while (!atomic_load(&storm.stop))
		call_something(&random);
	return NULL;
}

/* Each call was made, and locks and offices were had. */
static bool storm_has_met_all(void)
{
	bool all = atomic_load(&storm.granted) > 0 && atomic_load(&storm.written) > 0 &&
	           atomic_load(&storm.terms[0]) + atomic_load(&storm.terms[1]) > 0;
	for (int i = 0; i < CALLS; i++)
		all = all && atomic_load(&storm.calls[i]) > 0;
	return all;
}

static zkl_session *open_connected(void)
{
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	EVENTUALLY(session_timeout_ms(s) > 0, ENOUGH_MS);
	return s;
}

static void all_calls_from_all_threads_at_once(void)
{
	lock_path  path = new_path(), office = new_path(), data = new_path();
	hearer    *events[LOCKS], *office_events[2];
	atomic_int inside[SESSIONS];
	pthread_t  threads[THREADS];
	unsigned   numbers[THREADS];
	storm.path = path.text;
	storm.office = office.text;
	storm.data = data.text;
	EXPECT_INT(zkclient_make_directory(observer(), data.text), ZOK);
	for (int i = 0; i < SESSIONS; i++)
		storm.s[i] = open_connected();
	for (int i = 0; i < SESSIONS; i++)
		atomic_init(&inside[i], 0);
	for (int i = 0; i < LOCKS; i++) {
		zkl_options options = ZKL_OPTIONS_INIT;
		options.on_event = hear;
		options.user = events[i] = hearer_new(&inside[i % SESSIONS]);
		EXPECT_RC(zkl_lock_new(storm.s[i % SESSIONS], path.text, &options, &storm.locks[i], NULL), ZKL_OK);
	}
	for (int i = 0; i < 2; i++) {
		zkl_options options = ZKL_OPTIONS_INIT;
		options.flags = ZKL_OBSERVE;
		options.on_event = hear;
		options.user = office_events[i] = hearer_new(&inside[i % SESSIONS]);
		EXPECT_RC(zkl_election_new(storm.s[i], office.text, &options, &storm.elections[i], NULL), ZKL_OK);
	}
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = (unsigned)i;
		CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, call_all_the_time, &numbers[i]) == 0);
	}
	let_pass(rounds(5000, 120000));
	EVENTUALLY(storm_has_met_all(), 6 * ENOUGH_MS); /* where a round trip takes longer than most of them wait */
	atomic_store(&storm.stop, true);
	/* Those that wait are let go of until all have come back. */
	for (int i = 0; i < THREADS; i++)
		while (pthread_tryjoin_np(threads[i], NULL) != 0) {
			for (int k = 0; k < LOCKS; k++)
				zkl_lock_release(storm.locks[k], 0, NULL);
			for (int k = 0; k < 2; k++)
				zkl_election_resign(storm.elections[k], 0, NULL);
			poll_pause();
		}
	EXPECT_RC(atomic_load(&storm.wrong), ZKL_OK);
	for (int i = 0; i < LOCKS; i++)
		zkl_lock_free(storm.locks[i]);
	for (int i = 0; i < 2; i++)
		zkl_election_free(storm.elections[i]);
	for (int i = 0; i < SESSIONS; i++)
		EXPECT_RC(zkl_session_close(storm.s[i], ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text) + zkclient_count(observer(), office.text), 0);
	for (int i = 0; i < LOCKS; i++)
		hearer_free(events[i]);
	for (int i = 0; i < 2; i++)
		hearer_free(office_events[i]);
}

/* Handles come and go beside the work of others. */
static void *come_and_go(void *path)
{
	unsigned random = (unsigned)now_ns();
	while (!atomic_load(&storm.stop)) {
		zkl_grant grant;
		zkl_lock *lock = lock_new(storm.s[0], ((lock_path *)path)->text, NULL);
		int       rc = zkl_lock_acquire(lock, rand_r(&random) % 50, &grant, NULL);
		MAY_BE(rc, ZKL_ETIMEDOUT, ZKL_ENOTCONN, ZKL_EBUSY);
		if (rc == ZKL_OK)
			atomic_fetch_add(&storm.granted, 1);
		zkl_lock_free(lock);
	}
	return NULL;
}

static void handles_come_and_go_in_all_threads(void)
{
	lock_path path = new_path();
	pthread_t threads[THREADS];
	atomic_store(&storm.stop, false);
	atomic_store(&storm.granted, 0);
	atomic_store(&storm.wrong, 0);
	storm.s[0] = open_connected();
	for (int i = 0; i < THREADS; i++)
		CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, come_and_go, &path) == 0);
	let_pass(rounds(3000, 60000));
	EVENTUALLY(atomic_load(&storm.granted) > 0,
	           ENOUGH_MS); /* where a round trip takes longer than most of them wait */
	atomic_store(&storm.stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_RC(atomic_load(&storm.wrong), ZKL_OK);
	EXPECT_RC(zkl_session_close(storm.s[0], ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(all_calls_from_all_threads_at_once, 300)},
		{TEST(handles_come_and_go_in_all_threads, 180)},
		{0},
	};
	return harness_main(argc, argv, "threads", tests);
}
