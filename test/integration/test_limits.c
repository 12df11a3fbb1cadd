/* SPDX-License-Identifier: Apache-2.0 */
/* Many: watches and locks in a session, waiters in a queue. */
#include "crowd.h"
#include "harness.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SESSION_MS    (tick_ms() * 20)
#define ENOUGH_MS     60000
#define CURATOR(uuid) "_c_" uuid "-lock-"
/* What a server takes in one packet by default (jute.maxbuffer). */
#define PACKET_MAX 0xfffff

static bool is_connected(zkl_session *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	return zkl_session_stats(s, &stats) == ZKL_OK && stats.connected;
}

/* Cuts the connection of the session behind the proxy and sees it come back, once. Bytes of the packet with its watches. */
static int cut_and_come_back(net *n, zkl_session *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	zkl_session_stats(s, &stats);
	uint64_t reconnects = stats.reconnects;
	net_reset_counts(n);
	net_cut(n);
	EVENTUALLY(net_requests(n, OP_SET_WATCHES) > 0 && is_connected(s), ENOUGH_MS);
	THROUGHOUT(is_connected(s), 1000);
	zkl_session_stats(s, &stats);
	EXPECT_INT((int64_t)(stats.reconnects - reconnects), 1);
	EXPECT_INT((int64_t)stats.expiries, 0);
	EXPECT_INT(net_requests(n, OP_SET_WATCHES), 1);
	return proxy_largest(n->at[0], OP_SET_WATCHES);
}

/* ---- bytes of watches (ZOOKEEPER-706) ---- */

enum { DIRECTORIES = 16 };

/* Paths as long as can be, so that little is needed to fill a packet. */
static void long_path(const lock_path *base, int directory, char ret[ZKL_PATH_MAX + 1])
{
	int len = snprintf(ret, ZKL_PATH_MAX + 1, "%.127s/%02d", base->text, directory % 100);
	memset(ret + len, 'x', (size_t)(ZKL_PATH_MAX - len));
	ret[ZKL_PATH_MAX] = '\0';
}

/* Queues more and more, until one is refused, which goes again. */
static void fill_session(crowd *c, const lock_path *base)
{
	zkl_error error = {0};
	int       rc = ZKL_OK;
	while (rc == ZKL_OK && c->count < 5000) {
		char path[ZKL_PATH_MAX + 1];
		long_path(base, c->count % DIRECTORIES, path);
		rc = crowd_start(c, path, &error);
		/* Not all at once: heartbeats queue behind what we ask for. */
		if (c->count % 100 == 0)
			EVENTUALLY(atomic_load(&c->waiting) + atomic_load(&c->granted) >= c->count, ENOUGH_MS);
	}
	EXPECT_RC(rc, ZKL_ENOMEM);
	EXPECT_TRUE(strstr(error.message, "use another session") != NULL);
	zkl_lock_free(c->locks[--c->count]);
}

static int places_of(const lock_path *base)
{
	int sum = 0;
	for (int i = 0; i < DIRECTORIES; i++) {
		char path[ZKL_PATH_MAX + 1];
		long_path(base, i, path);
		sum += zkclient_count(observer(), path);
	}
	return sum;
}

static void wait_for_watches(crowd *c, net *n)
{
	zkl_peer peer;
	EVENTUALLY(atomic_load(&c->waiting) == c->count - DIRECTORIES && atomic_load(&c->granted) == DIRECTORIES,
	           ENOUGH_MS);
	/* Each has listed, too. */
	EVENTUALLY(net_requests(n, OP_GET_CHILDREN2) + net_requests(n, OP_GET_DATA) >= 3 * c->count - DIRECTORIES,
	           ENOUGH_MS);
	/* Replies come in order, this one behind theirs. */
	EVENTUALLY(zkl_lock_holder(c->session, "/zklock-test/nothing", &peer, NULL) == 0, ENOUGH_MS);
}

/* All watches are armed again in one packet, and servers hang up on one above 1 MiB, again and again. */
static void session_full_of_watches_survives_cuts_and_refuses_more(void)
{
	lock_path base = new_path();
	net       n;
	net_open(&n, 1, 1);
	crowd *c = crowd_of(session_open(n.servers, SESSION_MS));
	fill_session(c, &base);
	wait_for_watches(c, &n);
	int bytes = cut_and_come_back(&n, c->session);
	printf("%d contenders with paths of %d bytes: %d bytes ... ", c->count, ZKL_PATH_MAX, bytes);
	EXPECT_RANGE(bytes, PACKET_MAX / 2, PACKET_MAX);
	EXPECT_INT(atomic_load(&c->lost), 0);
	EXPECT_INT(places_of(&base), c->count);
	/* An end makes room. */
	char path[ZKL_PATH_MAX + 1];
	long_path(&base, 0, path);
	EXPECT_RC(zkl_lock_release(c->locks[c->count - 1], ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(c->locks[c->count - 1], ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_RC(crowd_start(c, path, NULL), ZKL_ENOMEM);
	crowd_free(c);
	net_close(&n);
}

/* Who gives up leaves its watch on the node before it until that node goes; each time on another node, if others join. */
static void watches_left_behind_count_until_they_fire(void)
{
	enum { FREED = 24 };
	lock_path base = new_path();
	char      path[ZKL_PATH_MAX + 1];
	node      before[3 * FREED];
	int       left = 0;
	net       n;
	net_open(&n, 1, 1);
	crowd *c = crowd_of(session_open(n.servers, SESSION_MS));
	fill_session(c, &base);
	wait_for_watches(c, &n);
	for (int i = 0; i < FREED; i++) { /* the last in their queues */
		EXPECT_RC(zkl_lock_release(c->locks[c->count - 1], ENOUGH_MS, NULL), ZKL_OK);
		zkl_lock_free(c->locks[--c->count]);
	}
	recorder events = RECORDER("gives up");
	long_path(&base, DIRECTORIES, path);
	zkl_lock *lock = lock_new(c->session, path, &events);
	int       rc = ZKL_OK;
	for (; left < 3 * FREED && rc == ZKL_OK; left++) {
		before[left] = foreign_contender(path, CURATOR("3d1c9c1f-52b7-4a7e-9b0c-7a5f3f2d9002"));
		rc = zkl_lock_start(lock, ZKL_FOREVER, NULL);
		if (rc == ZKL_OK) {
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, left + 1, ENOUGH_MS, NULL));
			EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		}
	}
	EXPECT_RC(rc, ZKL_ENOMEM);
	EXPECT_RANGE(left, FREED, 3 * FREED);
	int bytes = cut_and_come_back(&n, c->session);
	printf("%d left behind: %d bytes ... ", left - 1, bytes);
	EXPECT_RANGE(bytes, PACKET_MAX / 2, PACKET_MAX);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_ENOMEM);
	for (int i = 0; i < left; i++)
		EXPECT_INT(zkclient_delete(observer(), before[i].path), ZOK);
	EVENTUALLY(zkl_lock_start(lock, ZKL_FOREVER, NULL) == ZKL_OK, ENOUGH_MS);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(lock);
	crowd_free(c);
	net_close(&n);
	recorder_free(&events);
}

/* A service that tries to get a lock with a timeout, over and over, while another one holds it for days. */
static void waits_given_up_behind_one_holder_leave_one_watch(void)
{
	lock_path path = new_path();
	net       n;
	int       count = rounds(150, 10000);
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	node         holder = foreign_contender(path.text, CURATOR("3d1c9c1f-52b7-4a7e-9b0c-7a5f3f2d9001"));
	recorder     events = RECORDER("gives up");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	for (int i = 1; i <= count; i++) {
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, i, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	}
	EXPECT_RANGE(cut_and_come_back(&n, s), (int64_t)strlen(holder.path), 2 * (int64_t)strlen(holder.path));
	EXPECT_INT(zkclient_delete(observer(), holder.path), ZOK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* ---- many locks in a session ---- */

static int64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();
	return (int64_t)info.uordblks + (int64_t)info.hblkhd;
}

static int heartbeats_in(net *n, int64_t ms)
{
	net_reset_counts(n);
	let_pass(ms);
	return net_requests(n, OP_MULTI);
}

static void many_locks_share_one_heartbeat_and_survive_a_cut(void)
{
	int      many = rounds(200, 10000);
	zkl_peer peer;
	char     base[32], path[64]; /* short, so that ten thousand fit: see session.h */
	net      n;
	snprintf(base, sizeof base, "/zkl-%d", (int)getpid());
	net_open(&n, 1, 1);
	crowd  *c = crowd_of(session_open(n.servers, SESSION_MS));
	int64_t start_ms = now_ms(), before = 0;
	for (int i = 0; i < many; i++) {
		snprintf(path, sizeof path, "%s/%d", base, i);
		EXPECT_RC(crowd_start(c, path, NULL), ZKL_OK);
		/* Not all at once: those who have not been granted yet need more room. */
		if (i % 100 == 99 || i == 0)
			EVENTUALLY(atomic_load(&c->granted) == i + 1, ENOUGH_MS);
		if (i == 0) {
			wait_for_full_lease(c->session);
			before = heap_bytes();
		}
	}
	EVENTUALLY(atomic_load(&c->granted) == many, ENOUGH_MS);
	printf("%d locks in %.1f s, %.0f bytes each ... ", many, (double)(now_ms() - start_ms) / 1000,
	       (double)(heap_bytes() - before) / (many - 1));
	EVENTUALLY(net_requests(&n, OP_GET_CHILDREN2) >= 2 * many,
	           ENOUGH_MS); /* each has listed, and watches its node */
	EVENTUALLY(zkl_lock_holder(c->session, "/zklock-test/nothing", &peer, NULL) == 0, ENOUGH_MS);
	int64_t timeout_ms = session_timeout_ms(c->session);
	wait_for_full_lease(c->session);
	/* A heartbeat each T/6, and one to spare on either side. */
	EXPECT_RANGE(heartbeats_in(&n, timeout_ms), 4, 7);
	int bytes = cut_and_come_back(&n, c->session);
	printf("%d bytes of watches ... ", bytes);
	EXPECT_RANGE(bytes, 60 * many, PACKET_MAX);
	EXPECT_INT(atomic_load(&c->lost), 0);
	EXPECT_INT(atomic_load(&c->ended), 0);
	for (int i = 0; i < many; i += many / 50) {
		snprintf(path, sizeof path, "%s/%d", base, i);
		EXPECT_INT(zkclient_count(observer(), path), 1);
	}
	start_ms = now_ms();
	crowd_free(c);
	printf("released in %.1f s ... ", (double)(now_ms() - start_ms) / 1000);
	EXPECT_INT(zkclient_delete_crowd(observer(), base), ZOK); /* each was empty */
	net_close(&n);
}

/* ---- many waiters ---- */

enum { SESSIONS = 10, SERVED = 20 };

static struct {
	pthread_mutex_t mutex;
	int             order[2000], count;
} served = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_grant(const zkl_event *ev, recorder *r)
{
	if (ev->type != ZKL_EV_GRANTED)
		return;
	pthread_mutex_lock(&served.mutex);
	served.order[served.count++] = atomic_load(&r->flag);
	pthread_mutex_unlock(&served.mutex);
}

static int served_count(void)
{
	pthread_mutex_lock(&served.mutex);
	int count = served.count;
	pthread_mutex_unlock(&served.mutex);
	return count;
}

static void release_costs_a_thousand_waiters_what_it_costs_one(void)
{
	lock_path    path = new_path();
	int          waiters = rounds(100, 1000), most = 0, sum = 0;
	net          n;
	zkl_session *s[SESSIONS];
	recorder    *events = calloc((size_t)waiters, sizeof *events);
	zkl_lock   **locks = calloc((size_t)waiters, sizeof(void *));
	node         holder = foreign_contender(path.text, CURATOR("d30c9a1b-7a11-4b5e-8e57-5f1b36a0c002"));
	served.count = 0;
	net_open(&n, 1, server_count());
	for (int i = 0; i < SESSIONS; i++)
		s[i] = session_open(n.servers, SESSION_MS);
	for (int i = 0; i < waiters; i++) {
		events[i] = (recorder)RECORDER("waiter");
		events[i].then = note_grant;
		atomic_store(&events[i].flag, i);
		locks[i] = lock_new(s[i % SESSIONS], path.text, &events[i]);
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	}
	for (int i = 0; i < SERVED; i++) {
		net_settled_requests(&n);
		net_reset_counts(&n);
		if (i == 0)
			EXPECT_INT(zkclient_delete(observer(), holder.path), ZOK);
		else
			EXPECT_RC(zkl_lock_release(locks[i - 1], 0, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		int requests = net_settled_requests(
			&n); /* its delete, the next one's mark, and that who is behind it looks */
		sum += requests;
		most = requests > most ? requests : most;
		EXPECT_INT(served_count(), i + 1);
	}
	printf("%d waiters: %.1f requests a release, at most %d ... ", waiters, (double)sum / SERVED, most);
	EXPECT_RANGE(most, 1, 6);
	for (int i = 0; i < served.count; i++)
		EXPECT_INT(served.order[i], i);
	for (int i = waiters - 1; i >= 0; i--)
		zkl_lock_free(locks[i]);
	for (int i = 0; i < SESSIONS; i++)
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	for (int i = 0; i < waiters; i++)
		recorder_free(&events[i]);
	free(events);
	free(locks);
	net_close(&n);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(session_full_of_watches_survives_cuts_and_refuses_more, 180)},
		{TEST(watches_left_behind_count_until_they_fire, 180)},
		{TEST(waits_given_up_behind_one_holder_leave_one_watch, 600)},
		{TEST(many_locks_share_one_heartbeat_and_survive_a_cut, 600)},
		{TEST(release_costs_a_thousand_waiters_what_it_costs_one, 300)},
		{0},
	};
	return harness_main(argc, argv, "limits", tests);
}
