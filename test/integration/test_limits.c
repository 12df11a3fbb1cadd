/* SPDX-License-Identifier: Apache-2.0 */
/* Many: locks in a session, waiters in a queue, watches that are left behind. */
#include "harness.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS    (tick_ms() * 20)
#define ENOUGH_MS     30000
#define CURATOR(uuid) "_c_" uuid "-lock-"
/* What a server takes in one packet by default (jute.maxbuffer). */
#define PACKET_MAX 0xfffff

/* Counted here, since a recorder for each of ten thousand would keep them all. */
typedef struct crowd {
	atomic_int waiting, granted, lost, ended;
} crowd;

static void count_event(const zkl_event *ev, void *user)
{
	crowd *c = user;
	if (ev->type == ZKL_EV_WAITING)
		atomic_fetch_add(&c->waiting, 1);
	else if (ev->type == ZKL_EV_GRANTED)
		atomic_fetch_add(&c->granted, 1);
	else if (ev->type == ZKL_EV_LOST)
		atomic_fetch_add(&c->lost, 1);
	else if (ev->type == ZKL_EV_ENDED)
		atomic_fetch_add(&c->ended, 1);
}

static zkl_lock *crowd_lock(zkl_session *s, const char *path, crowd *c)
{
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_lock   *lock = NULL;
	options.on_event = count_event;
	options.user = c;
	EXPECT_RC(zkl_lock_new(s, path, &options, &lock, NULL), ZKL_OK);
	return lock;
}

/* As many as it takes to be refused; the last one is. Returns how many were not. */
static int start_until_refused(zkl_session *s, const char *base, zkl_lock **locks, int most, crowd *c)
{
	zkl_error error = {0};
	int       count = 0, rc = ZKL_OK;
	while (count < most && rc == ZKL_OK) {
		char path[ZKL_PATH_MAX + 1];
		snprintf(path, sizeof path, "%s/%d", base, count);
		locks[count] = crowd_lock(s, path, c);
		rc = zkl_lock_start(locks[count++], ZKL_FOREVER, &error);
	}
	EXPECT_RC(rc, ZKL_ENOMEM);
	EXPECT_TRUE(strstr(error.message, "use another session") != NULL);
	return count - 1;
}

/* A directory with a path as long as can be, so that little is needed to fill a packet. */
static void long_path(const lock_path *path, char ret[ZKL_PATH_MAX + 1])
{
	size_t len = strlen(path->text);
	memset(ret, 'x', ZKL_PATH_MAX + 1);
	memcpy(ret, path->text, len);
	ret[len] = '/';
	ret[ZKL_PATH_MAX - 5] = '\0';
}

static int64_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();
	return (int64_t)(info.uordblks + info.hblkhd);
}

/* ZOOKEEPER-706: all watches are armed again in one packet, which servers refuse above 1 MiB, on every reconnect. */
static void session_full_of_watches_survives_a_cut(void)
{
	enum { MOST = 6000 };
	lock_path   path = new_path();
	char        base[ZKL_PATH_MAX + 1];
	zkl_lock  **locks = calloc(MOST, sizeof *locks);
	crowd       c = {0};
	net         n;
	zkl_grant   grant;
	zkl_stats   stats = ZKL_STATS_INIT;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	long_path(&path, base);
	int fits = start_until_refused(s, base, locks, MOST, &c);
	EVENTUALLY(atomic_load(&c.granted) == fits, 4 * ENOUGH_MS);
	/* Who holds watches one node in place of two: there is room for others. */
	EXPECT_RC(zkl_lock_acquire(locks[fits], ENOUGH_MS, &grant, NULL), ZKL_OK);
	int more = fits + 1;
	for (int rc = ZKL_OK; rc == ZKL_OK && more < MOST; more++) {
		char one[ZKL_PATH_MAX + 1];
		snprintf(one, sizeof one, "%s/%d", base, more);
		locks[more] = crowd_lock(s, one, &c);
		rc = zkl_lock_acquire(locks[more], ENOUGH_MS, &grant, NULL);
		EXPECT_TRUE(rc == ZKL_OK || rc == ZKL_ENOMEM);
	}
	more--; /* the last one was refused */
	EXPECT_RANGE(more, fits + 1, MOST - 2);
	let_pass(100); /* the last ones set their watches 1 ms after the grant */
	net_reset_counts(&n);
	net_cut(&n);
	EVENTUALLY(net_requests(&n, OP_SET_WATCHES) > 0, ENOUGH_MS);
	EVENTUALLY(zkl_session_stats(s, &stats) == ZKL_OK && stats.connected && stats.lease_ms > 0, ENOUGH_MS);
	THROUGHOUT(zkl_session_stats(s, &stats) == ZKL_OK && stats.connected, 2000);
	EXPECT_INT(net_requests(&n, OP_SET_WATCHES), 1);
	int bytes = proxy_largest(n.at[0], OP_SET_WATCHES);
	EXPECT_RANGE(bytes, 200 * more, PACKET_MAX);
	EXPECT_INT(stats.reconnects, 1);
	EXPECT_INT(stats.expiries, 0);
	EXPECT_INT(atomic_load(&c.lost), 0);
	printf("%d started at once, %d held, %d bytes of watches ... ", fits, more, bytes);
	EXPECT_INT(zkclient_count(observer(), base), more);
	for (int i = 0; i <= more; i++)
		zkl_lock_free(locks[i]);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	free(locks);
}

/* The watch of who gave up stays until the node goes. It must not count again for each who comes after. */
static void waits_given_up_behind_one_holder_leave_one_watch(void)
{
	lock_path path = new_path();
	net       n;
	int       count = rounds(300, 20000);
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	node         holder = foreign_contender(path.text, CURATOR("3d1c9c1f-52b7-4a7e-9b0c-7a5f3f2d9001"));
	recorder     events = RECORDER("gives up");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	int64_t      before = 0;
	for (int i = 1; i <= count; i++) {
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
		events.count = 0;
		before = i == 100 ? heap_bytes() : before;
	}
	printf("%.1f bytes of heap a round ... ", (double)(heap_bytes() - before) / (count - 100));
	net_reset_counts(&n);
	net_cut(&n);
	EVENTUALLY(net_requests(&n, OP_SET_WATCHES) > 0, ENOUGH_MS);
	/* At most two parties took turns, whose kind of watch was the same. */
	EXPECT_RANGE(proxy_largest(n.at[0], OP_SET_WATCHES), strlen(holder.path), 2 * strlen(holder.path));
	EXPECT_INT(zkclient_delete(observer(), holder.path), ZOK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* Each time behind another node that stays: then each leaves a watch, until the session is full, and the packet is not. */
static void waits_given_up_behind_new_nodes_are_refused_in_time(void)
{
	lock_path path = new_path();
	char      base[ZKL_PATH_MAX + 1];
	net       n;
	int       most = rounds(400, 6000), left = 0, rc = ZKL_OK;
	zkl_error error = {0};
	zkl_stats stats = ZKL_STATS_INIT;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	crowd        c = {0};
	long_path(&path, base);
	/* Short runs begin with a session that is nearly full. */
	int        filled = rounds(1300, 0);
	zkl_lock **fill = calloc((size_t)filled + 1, sizeof *fill);
	for (int i = 0; i < filled; i++) {
		char one[ZKL_PATH_MAX + 1];
		snprintf(one, sizeof one, "%s/%d", base, i);
		fill[i] = crowd_lock(s, one, &c);
		EXPECT_RC(zkl_lock_start(fill[i], ZKL_FOREVER, NULL), ZKL_OK);
	}
	EVENTUALLY(atomic_load(&c.granted) == filled, 2 * ENOUGH_MS);
	strcpy(base + strlen(base), "/q");
	recorder  events = RECORDER("gives up");
	zkl_lock *lock = lock_new(s, base, &events);
	while (left < most && rc == ZKL_OK) {
		foreign_contender(base, CURATOR("3d1c9c1f-52b7-4a7e-9b0c-7a5f3f2d9002"));
		rc = zkl_lock_start(lock, ZKL_FOREVER, &error);
		if (rc != ZKL_OK)
			break;
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
		events.count = 0;
		left++;
	}
	printf("%d given up, last %s ... ", left, zkl_error_name(rc));
	net_reset_counts(&n);
	net_cut(&n);
	EVENTUALLY(net_requests(&n, OP_SET_WATCHES) > 0, ENOUGH_MS);
	EVENTUALLY(zkl_session_stats(s, &stats) == ZKL_OK && stats.connected, ENOUGH_MS);
	THROUGHOUT(zkl_session_stats(s, &stats) == ZKL_OK && stats.connected, 1000);
	int bytes = proxy_largest(n.at[0], OP_SET_WATCHES);
	printf("%d bytes ... ", bytes);
	EXPECT_RANGE(bytes, 200 * (left + filled), PACKET_MAX);
	for (int i = 0; i < filled; i++)
		zkl_lock_free(fill[i]);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	free(fill);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(session_full_of_watches_survives_a_cut, 180)},
		{TEST(waits_given_up_behind_one_holder_leave_one_watch, 600)},
		{TEST(waits_given_up_behind_new_nodes_are_refused_in_time, 600)},
		{0},
	};
	return harness_main(argc, argv, "limits", tests);
}
