/* SPDX-License-Identifier: Apache-2.0 */
/* What many locks, and a full disk, make of a server's end. These tests have the ensemble to themselves. */
#include "crowd.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  30000
#define SERVE_MS   60000 /* for servers to come up, on a busy machine */

/* Number of the server that the session behind these proxies talks to: the one that its heartbeats go through. */
static int server_of(net *n)
{
	int found = 0;
	net_reset_counts(n);
	EVENTUALLY(net_requests(n, OP_MULTI) > 0, ENOUGH_MS);
	for (size_t i = 0; i < n->count; i++)
		if (proxy_count(n->at[i], OP_MULTI) > 0)
			found = (int)i + 1;
	return found;
}

static void many_locks_survive_the_end_of_their_server(void)
{
	int  many = rounds(200, 10000);
	char base[32], path[64]; /* short, so that ten thousand fit */
	net  n;
	snprintf(base, sizeof base, "/zkl-%d", (int)getpid());
	net_open(&n, 1, server_count());
	crowd *c = crowd_of(session_open(n.servers, SESSION_MS));
	for (int i = 0; i < many; i++) {
		snprintf(path, sizeof path, "%s/%d", base, i);
		EXPECT_RC(crowd_start(c, path, NULL), ZKL_OK);
		if (i % 100 == 99) /* heartbeats queue behind what we ask for */
			EVENTUALLY(atomic_load(&c->granted) == i + 1, ENOUGH_MS);
	}
	EVENTUALLY(atomic_load(&c->granted) == many, ENOUGH_MS);
	wait_for_full_lease(c->session);
	int server = server_of(&n);
	EXPECT_INT(ensemble("kill", server), 0);
	EVENTUALLY(net_requests(&n, OP_SET_WATCHES) > 0, ENOUGH_MS);
	EXPECT_INT(ensemble("start", server), 0);
	EXPECT_INT(ensemble("wait", 0), 0);
	let_pass(SESSION_MS); /* long enough for a lease to run out that was not renewed */
	EXPECT_INT(atomic_load(&c->lost), 0);
	EXPECT_INT(atomic_load(&c->ended), 0);
	for (int i = 0; i < many; i += many / 50) {
		snprintf(path, sizeof path, "%s/%d", base, i);
		EXPECT_INT(zkclient_count(observer(), path), 1);
	}
	crowd_free(c);
	EXPECT_INT(zkclient_delete_crowd(observer(), base), ZOK); /* each was empty */
	net_close(&n);
}

/* A server that cannot write its log joins the others, serves for a moment, and leaves again, over and over; what it was asked
 * meanwhile it never answers. A holder who met it may lose, and is told so before the next one holds. */
static void full_disk_of_a_server_breaks_no_promise(void)
{
	lock_path path = new_path(), busy_path = new_path();
	net       n;
	recorder  events = RECORDER("holder"), next_events = RECORDER("next");
	zkl_grant grant = {0}, later = {0};
	uint64_t  newest = 0;
	int       grants = 0;
	seen      lost = {0}, granted = {0};
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, SESSION_MS), *other = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, &events), *next = lock_new(other, path.text, &next_events),
		 *busy = lock_new(other, busy_path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(next, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	wait_for_full_lease(s);
	int server = server_of(&n), full = ensemble("fill", server);
	if (full == 77)
		harness_skip("this ensemble has no small disks");
	else
		EXPECT_INT(full, 0);
	/* The other session may have met it as well, and then stands still until its client gives that connection up. */
	for (int64_t end_ms = now_ms() + 2 * SESSION_MS, most_ms = end_ms + 2 * SERVE_MS;
	     full == 0 && (now_ms() < end_ms || (grants < 20 && now_ms() < most_ms));) {
		int rc = zkl_lock_acquire(busy, ENOUGH_MS, &later, NULL);
		EXPECT_TRUE(rc == ZKL_OK || rc == ZKL_ELOST || rc == ZKL_ENOTCONN);
		if (rc == ZKL_OK) {
			grants++;
			EXPECT_TRUE(later.token > newest);
			newest = later.token;
		}
		zkl_lock_release(busy, ENOUGH_MS, NULL);
		poll_pause();
	}
	EXPECT_RANGE(grants, full == 0 ? 20 : 0, 1000000);
	EXPECT_INT(ensemble("kill", server), 0);
	EXPECT_INT(ensemble("start", server), 0);
	EXPECT_INT(ensemble("wait", 0), 0);
	bool was_lost = recorder_count(&events, ZKL_EV_LOST) > 0;
	printf("%d grants meanwhile, the holder has %s ... ", grants, was_lost ? "lost" : "kept its lock");
	EXPECT_INT(zkl_lock_check(lock, grant.token) > 0, !was_lost);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), was_lost ? ZKL_ENOTHELD : ZKL_OK);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_GRANTED, 1, SERVE_MS, &granted));
	EXPECT_TRUE(granted.token > grant.token);
	if (was_lost && EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, 0, &lost)))
		EXPECT_TRUE(lost.at_ns < granted.at_ns);
	zkl_lock_free(lock);
	zkl_lock_free(next);
	zkl_lock_free(busy);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(other, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text) + zkclient_count(observer(), busy_path.text), 0);
	net_close(&n);
	recorder_free(&events);
	recorder_free(&next_events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(many_locks_survive_the_end_of_their_server, 600)},
		{TEST(full_disk_of_a_server_breaks_no_promise, 300)},
		{0},
	};
	return harness_main(argc, argv, "limits_servers", tests);
}
