/* SPDX-License-Identifier: Apache-2.0 */
/* Many clients cycle through one lock while their links bounce and the servers are restarted one after the other: somebody gets
 * it all the time (kazoo #170: a waiter that sleeps on after a reconnect; kazoo #282: an acquire that hangs after an expiry). */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#define SESSION_MS  (tick_ms() * 20)
#define ENOUGH_MS   20000
#define PROGRESS_MS 5000

enum { CLIENTS = 20 };

static struct {
	atomic_bool  stop;
	atomic_int   inside, overlaps, grants, failures;
	atomic_llong last_ns, longest_ns; /* between two grants */
} ring;

static void *cycle(void *arg)
{
	zkl_lock *lock = arg;
	while (!atomic_load(&ring.stop)) {
		zkl_grant grant;
		int       rc = zkl_lock_acquire(lock, 120000, &grant, NULL);
		if (rc == ZKL_ELOST)
			continue;
		if (rc != ZKL_OK) {
			fprintf(stderr, "acquire: %s\n", zkl_error_name(rc));
			atomic_fetch_add(&ring.failures, 1);
			break;
		}
		if (atomic_fetch_add(&ring.inside, 1) != 0 && zkl_lock_check(lock, grant.token) > 0)
			atomic_fetch_add(&ring.overlaps, 1);
		note_gap(&ring.last_ns, &ring.longest_ns);
		atomic_fetch_add(&ring.grants, 1);
		poll_pause();
		atomic_fetch_sub(&ring.inside, 1);
		rc = zkl_lock_release(lock, 0, NULL);
		if (rc != ZKL_OK && rc != ZKL_ENOTHELD)
			atomic_fetch_add(&ring.failures, 1);
	}
	return NULL;
}

static void *restart_servers(void *times)
{
	for (int i = 0; i < *(int *)times; i++) {
		int server = i % (int)server_count() + 1;
		if (ensemble("kill", server) != 0 || ensemble("start", server) != 0 || ensemble("wait", 0) != 0)
			atomic_fetch_add(&ring.failures, 1);
	}
	return NULL;
}

static void lock_goes_on_while_links_bounce_and_servers_roll(void)
{
	lock_path    path = new_path();
	writer       plain;
	net          nets[CLIENTS];
	zkl_session *s[CLIENTS];
	zkl_lock    *locks[CLIENTS];
	pthread_t    threads[CLIENTS], restarter;
	unsigned     random = (unsigned)now_ns();
	int          restarts = rounds(3, 30), cuts = 0;
	atomic_store(&ring.last_ns, now_ns());
	for (int i = 0; i < CLIENTS; i++) {
		net_open(&nets[i], 1, server_count());
		s[i] = session_open(nets[i].servers, SESSION_MS);
		locks[i] = lock_new(s[i], path.text, NULL);
		CU_ASSERT_FATAL(pthread_create(&threads[i], NULL, cycle, locks[i]) == 0);
	}
	writer_start(&plain, all_servers());
	EVENTUALLY(atomic_load(&ring.grants) > CLIENTS, ENOUGH_MS);
	atomic_store(&ring.longest_ns, 0); /* connecting is not what is tested */
	CU_ASSERT_FATAL(pthread_create(&restarter, NULL, restart_servers, &restarts) == 0);
	while (pthread_tryjoin_np(restarter, NULL) != 0) {
		net_cut(&nets[rand_r(&random) % CLIENTS]);
		cuts++;
		let_pass(100 + rand_r(&random) % 400);
	}
	int before = atomic_load(&ring.grants);
	EVENTUALLY(atomic_load(&ring.grants) > before + 2 * CLIENTS, ENOUGH_MS);
	atomic_store(&ring.stop, true);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	int64_t unwritable_ms = writer_stop(&plain);
	EXPECT_TRUE(cuts > 5);
	EXPECT_INT(atomic_load(&ring.failures), 0);
	EXPECT_INT(atomic_load(&ring.overlaps), 0);
	printf("%d grants, %d cuts, longest pause %lld ms, of the servers %lld ms ... ", atomic_load(&ring.grants),
	       cuts, (long long)(atomic_load(&ring.longest_ns) / 1000000), (long long)unwritable_ms);
	EXPECT_RANGE(atomic_load(&ring.longest_ns) / 1000000, 0, PROGRESS_MS + unwritable_ms);
	for (int i = 0; i < CLIENTS; i++) {
		zkl_lock_free(locks[i]);
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
		net_close(&nets[i]);
	}
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(lock_goes_on_while_links_bounce_and_servers_roll, 1500)},
		{0},
	};
	return harness_main(argc, argv, "progress", tests);
}
