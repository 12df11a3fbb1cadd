/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: who is served when, who wakes whom, and what foreign nodes and operators do to it. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS    (tick_ms() * 12)
#define ENOUGH_MS     10000
#define CURATOR(uuid) "_c_" uuid "-lock-"

/* The nth child (0, 1, ...) by sequence number. */
static node child(const char *path, int nth)
{
	struct String_vector names = {0, NULL};
	node                 found = {""};
	EXPECT_INT(zkclient_children(observer(), path, &names), ZOK);
	if (EXPECT_TRUE(nth < names.count))
		snprintf(found.path, sizeof found.path, "%s/%s", path, names.data[nth]);
	deallocate_String_vector(&names);
	return found;
}

static bool granted(recorder *r)
{
	return recorder_count(r, ZKL_EV_GRANTED) > 0;
}

/* ---- order ---- */

#define CONTENDERS 12

static void contenders_are_served_in_the_order_of_their_nodes(void)
{
	lock_path    path = new_path();
	zkl_session *s[4];
	recorder     events[CONTENDERS];
	zkl_lock    *locks[CONTENDERS];
	for (size_t i = 0; i < 4; i++)
		s[i] = session_open(all_servers(), SESSION_MS);
	for (size_t i = 0; i < CONTENDERS; i++) {
		events[i] = (recorder)RECORDER("contender");
		locks[i] = lock_new(s[i * 7 % 4], path.text, &events[i]);
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(zkclient_count(observer(), path.text) == (int)i + 1, ENOUGH_MS);
	}
	for (size_t i = 0; i < CONTENDERS; i++) {
		seen e;
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		for (size_t k = i + 1; k < CONTENDERS; k++)
			EXPECT_TRUE(!granted(&events[k]));
		if (i > 0 && recorder_wait(&events[i], ZKL_EV_WAITING, 1, 0, &e))
			EXPECT_RANGE(e.ahead, 1, (int64_t)i);
		EXPECT_RC(zkl_lock_release(locks[i], 0, NULL), ZKL_OK);
	}
	for (size_t i = 0; i < CONTENDERS; i++) {
		zkl_lock_free(locks[i]);
		recorder_free(&events[i]);
	}
	for (size_t i = 0; i < 4; i++)
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* Netflix/curator #115: the middle of the queue goes, and who was behind it thinks that it is next. */
static void end_of_a_waiter_grants_nothing_to_the_next_one(void)
{
	for (int by_expiry = 0; by_expiry <= 1; by_expiry++) {
		lock_path path = new_path();
		net       n;
		net_open(&n, 1, 1);
		zkl_session *plain = session_open(all_servers(), SESSION_MS),
			    *doomed = session_open(n.servers, SESSION_MS);
		recorder  events[4] = {RECORDER("first"), RECORDER("second"), RECORDER("third"), RECORDER("fourth")};
		zkl_lock *locks[4];
		seen      e;
		for (int i = 0; i < 4; i++) {
			zkl_options options = ZKL_OPTIONS_INIT;
			options.flags = ZKL_NO_REQUEUE;
			options.on_event = recorder_event;
			options.user = &events[i];
			EXPECT_RC(zkl_lock_new(i == 1 ? doomed : plain, path.text, &options, &locks[i], NULL), ZKL_OK);
			EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
			EVENTUALLY(zkclient_count(observer(), path.text) == i + 1, ENOUGH_MS);
		}
		if (by_expiry)
			net_expire(&n);
		else
			EXPECT_INT(zkclient_delete(observer(), child(path.text, 1).path), ZOK);
		EXPECT_TRUE(recorder_wait(&events[1], ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
		EXPECT_RC(e.code, ZKL_ELOST);
		EXPECT_INT(zkclient_count(observer(), path.text), 3);
		THROUGHOUT(!granted(&events[1]) && !granted(&events[2]) && !granted(&events[3]), 1500);
		EXPECT_RC(zkl_lock_release(locks[0], 0, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[2], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_TRUE(!granted(&events[3]));
		for (int i = 0; i < 4; i++)
			zkl_lock_free(locks[i]);
		zkl_session_close(plain, ENOUGH_MS);
		zkl_session_close(doomed, ENOUGH_MS);
		net_close(&n);
		for (int i = 0; i < 4; i++)
			recorder_free(&events[i]);
	}
}

/* ---- a crowd with accidents ---- */

static struct {
	pthread_mutex_t mutex;
	uint64_t        tokens[256];
	int             count;
} served = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_and_release(const zkl_event *ev, recorder *r)
{
	if (ev->type == ZKL_EV_GRANTED) {
		pthread_mutex_lock(&served.mutex);
		served.tokens[served.count++] = ev->grant->token;
		pthread_mutex_unlock(&served.mutex);
		zkl_lock_release(r->user, 0, NULL);
	}
}

static void crowd_with_deleted_nodes_is_served_in_order(void)
{
	enum { CROWD = 40, SESSIONS = 5 };
	lock_path    path = new_path();
	zkl_session *s[SESSIONS];
	recorder     events[CROWD];
	zkl_lock    *locks[CROWD];
	node         gate = foreign_contender(path.text, CURATOR("8b0f7c1e-0000-4000-8000-000000000000"));
	unsigned     random = (unsigned)now_ns();
	served.count = 0;
	for (int i = 0; i < SESSIONS; i++)
		s[i] = session_open(all_servers(), SESSION_MS);
	for (int i = 0; i < CROWD; i++) {
		events[i] = (recorder)RECORDER("one of the crowd");
		events[i].then = note_and_release;
		locks[i] = lock_new(s[i % SESSIONS], path.text, &events[i]);
		events[i].user = locks[i];
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
	}
	EVENTUALLY(zkclient_count(observer(), path.text) == CROWD + 1, ENOUGH_MS);
	for (int i = 0; i < 8; i++) /* who loses its node so queues again, at the tail */
		zkclient_delete(observer(), child(path.text, 1 + (int)(rand_r(&random) % (CROWD - 8))).path);
	EXPECT_INT(zkclient_delete(observer(), gate.path), ZOK);
	for (int i = 0; i < 8; i++) {
		struct String_vector names = {0, NULL};
		if (zkclient_children(observer(), path.text, &names) == ZOK && names.count > 3) {
			node victim;
			snprintf(victim.path, sizeof victim.path, "%s/%s", path.text,
			         names.data[2 + rand_r(&random) % 2]);
			zkclient_delete(observer(), victim.path);
		}
		deallocate_String_vector(&names);
	}
	for (int i = 0; i < CROWD; i++)
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_ENDED, 1, 2 * ENOUGH_MS, NULL));
	EXPECT_RANGE(served.count, CROWD - 8, CROWD); /* a holder may lose its node before it is told that it holds */
	for (int i = 1; i < served.count; i++)
		EXPECT_TRUE(served.tokens[i] > served.tokens[i - 1]);
	for (int i = 0; i < CROWD; i++) {
		zkl_lock_free(locks[i]);
		recorder_free(&events[i]);
	}
	for (int i = 0; i < SESSIONS; i++)
		zkl_session_close(s[i], ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* The sessions of some end while they wait or hold: who is left is served in the order of the numbers, each once. */
static void crowd_with_killed_sessions_is_served_in_order(void)
{
	enum { CROWD = 50, SESSIONS = 10, KILLS = 4 };
	lock_path    path = new_path();
	net          nets[SESSIONS];
	zkl_session *s[SESSIONS];
	recorder     events[CROWD];
	zkl_lock    *locks[CROWD];
	node         gate = foreign_contender(path.text, CURATOR("ffffffff-0000-4000-8000-000000000000"));
	unsigned     random = (unsigned)now_ns();
	int          granted_to = 0;
	served.count = 0;
	for (int i = 0; i < SESSIONS; i++) {
		net_open(&nets[i], 1 + (size_t)i % server_count(), 1);
		s[i] = session_open(nets[i].servers, SESSION_MS);
	}
	for (int i = 0; i < CROWD; i++) {
		events[i] = (recorder)RECORDER("one of the crowd");
		events[i].then = note_and_release;
		locks[i] = lock_new(s[i % SESSIONS], path.text, &events[i]);
		events[i].user = locks[i];
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
	}
	EVENTUALLY(zkclient_count(observer(), path.text) == CROWD + 1, 2 * ENOUGH_MS);
	for (int i = 0; i < KILLS; i++) {
		net_expire(&nets[2 * i + rand_r(&random) % 2]);
		if (i == KILLS / 2)
			EXPECT_INT(zkclient_delete(observer(), gate.path), ZOK);
	}
	for (int i = 0; i < CROWD; i++) {
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_ENDED, 1, 3 * ENOUGH_MS, NULL));
		granted_to += recorder_count(&events[i], ZKL_EV_GRANTED);
	}
	EXPECT_INT(served.count, granted_to);
	/* A holder whose session ends before it is told is not served. */
	EXPECT_RANGE(served.count, CROWD - KILLS, CROWD);
	for (int i = 1; i < served.count; i++)
		EXPECT_TRUE(served.tokens[i] > served.tokens[i - 1]);
	for (int i = 0; i < CROWD; i++) {
		zkl_lock_free(locks[i]);
		recorder_free(&events[i]);
	}
	for (int i = 0; i < SESSIONS; i++) {
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
		net_close(&nets[i]);
	}
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* ---- deletions at bad moments ---- */

/* CURATOR-504, CURATOR-645: an exists-watch on a node that has just gone; millions of nodes made in place of
 * waiting. */
static void predecessor_deleted_between_list_and_watch(void)
{
	for (int others_before = 0; others_before <= 1; others_before++) {
		lock_path path = new_path();
		net       n;
		node      first = {""}, predecessor;
		seen      e = {0};
		if (others_before)
			first = foreign_contender(path.text, CURATOR("2ed1bd0b-4f5a-4b36-a1f0-9d34b0f1f001"));
		predecessor = foreign_contender(path.text, CURATOR("2ed1bd0b-4f5a-4b36-a1f0-9d34b0f1f002"));
		net_open(&n, 1, 1);
		zkl_session *s = session_open(n.servers, SESSION_MS);
		recorder     events = RECORDER("waiter");
		zkl_lock    *lock = lock_new(s, path.text, &events);
		proxy_arm(n.at[0],
		          &(proxy_rule){
				  .op = OP_ANY, .nth = 1, .path = node_name(&predecessor), .act = PROXY_HOLD_REQUEST});
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(proxy_wait_struck(n.at[0], ENOUGH_MS));
		EXPECT_INT(zkclient_delete(observer(), predecessor.path), ZOK);
		net_hold(&n, 0);
		int64_t free_ns = now_ns();
		if (others_before) {
			THROUGHOUT(!granted(&events), 500);
			free_ns = now_ns();
			EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
		}
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
		EXPECT_RANGE((e.at_ns - free_ns) / 1000000, -100, late(500));
		EXPECT_INT(net_requests(&n, OP_CREATE2), 1);
		EXPECT_INT(zkclient_count(observer(), path.text), 1);
		EXPECT_TRUE(strcmp(child(path.text, 0).path, e.node) == 0);
		zkl_lock_free(lock);
		zkl_session_close(s, ENOUGH_MS);
		net_close(&n);
		recorder_free(&events);
	}
}

/* Without the watch on the own node answered first, thousands of such rounds in ten thousand granted wrongly. */
static void own_node_deleted_just_before_the_predecessor_grants_nothing(void)
{
	lock_path path = new_path();
	net       n;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, 4 * tick_ms());
	recorder     events = RECORDER("robbed");
	zkl_options  options = ZKL_OPTIONS_INIT;
	zkl_lock    *lock = NULL;
	options.flags = ZKL_NO_REQUEUE;
	options.on_event = recorder_event;
	options.user = &events;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &lock, NULL), ZKL_OK);
	for (int i = 1; i <= rounds(60, 1000); i++) {
		node predecessor = foreign_contender(path.text, CURATOR("5a1c0f77-9f6b-4c1e-8d55-1f7a52c4a001"));
		seen e = {0};
		int  waits = recorder_count(&events, ZKL_EV_WAITING); /* one that is robbed early never waits */
		net_reset_counts(&n);
		if (i % 4 == 0) /* only the first of its two watches is in force */
			proxy_arm(n.at[0], &(proxy_rule){.op = OP_GET_CHILDREN2,
			                                 .nth = 1,
			                                 .path = node_name(&predecessor),
			                                 .act = PROXY_HOLD_REQUEST});
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		if (i % 4 == 0) {
			EXPECT_TRUE(proxy_wait_struck(n.at[0], ENOUGH_MS));
			EVENTUALLY(proxy_unanswered(n.at[0]) == 0, ENOUGH_MS);
		} else if (i % 4 == 1) { /* it has its watches and proves its session */
			EVENTUALLY(net_requests(&n, OP_MULTI) > 0, ENOUGH_MS);
		} else if (i % 4 == 2) {
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, waits + 1, ENOUGH_MS, NULL));
		}
		EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
		EXPECT_INT(zkclient_delete_both(observer(), child(path.text, 1).path, predecessor.path), ZOK);
		net_hold(&n, 0);
		if (!EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, i, ENOUGH_MS, &e)))
			break;
		EXPECT_RC(e.code, ZKL_ELOST);
		EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* CURATOR-498, CURATOR-525, CURATOR-620: what two connections within a few milliseconds tell of the time between them comes in
 * any order, and grants nothing. */
static void nodes_deleted_between_two_connections_grant_nothing(void)
{
	lock_path path = new_path();
	net       n;
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("robbed");
	zkl_options  options = ZKL_OPTIONS_INIT;
	zkl_lock    *lock = NULL;
	unsigned     random = (unsigned)now_ns();
	options.flags = ZKL_NO_REQUEUE;
	options.on_event = recorder_event;
	options.user = &events;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &lock, NULL), ZKL_OK);
	for (int i = 1; i <= rounds(30, 500); i++) {
		node     predecessor = foreign_contender(path.text, CURATOR("5a1c0f77-9f6b-4c1e-8d55-1f7a52c4a003"));
		zkl_peer peer;
		seen     e = {0};
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, i, ENOUGH_MS, NULL));
		/* Replies come in order: with this one its watches are in force. */
		EVENTUALLY(zkl_lock_holder(s, path.text, &peer, NULL) == 2, ENOUGH_MS);
		net_hold(&n, PROXY_BOTH);
		net_cut(&n);
		EXPECT_INT(zkclient_delete_both(observer(), child(path.text, 1).path, predecessor.path), ZOK);
		net_hold(&n, 0);
		let_pass(rand_r(&random) % 10);
		net_cut(&n);
		if (!EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, i, ENOUGH_MS, &e)))
			break;
		EXPECT_RC(e.code, ZKL_ELOST);
		EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* CURATOR-604: what is found after a lost create has our name, and is not ours. */
static void node_with_our_name_of_another_session_grants_nothing(void)
{
	lock_path path = new_path();
	net       n;
	seen      e = {0};
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("finds its name");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_CREATE2, .nth = 1, .act = PROXY_LOSE_REPLY, .door = PROXY_REFUSING});
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], ENOUGH_MS));
	node made = child(path.text, 0);
	EXPECT_INT(zkclient_delete(observer(), made.path), ZOK);
	made.path[strlen(made.path) - strlen("0123456789")] = '\0';
	node other = foreign_contender(path.text, node_name(&made));
	net_set_door(&n, PROXY_OPEN);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.ahead, 1);
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	EXPECT_TRUE(!granted(&events));
	EXPECT_INT(zkclient_delete(observer(), other.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
	EXPECT_TRUE(strcmp(e.node, child(path.text, 0).path) == 0 && strcmp(e.node, other.path) != 0);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	net_close(&n);
	recorder_free(&events);
}

static void waiter_whose_node_is_deleted_queues_again(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("robbed");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	seen         e = {0};
	for (int i = 1; i <= 20; i++) {
		node predecessor = foreign_contender(path.text, CURATOR("5a1c0f77-9f6b-4c1e-8d55-1f7a52c4a002"));
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
		node own = child(path.text, 1);
		EXPECT_INT(zkclient_delete_both(observer(), own.path, predecessor.path), ZOK);
		if (!EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, i, ENOUGH_MS, &e)))
			break;
		EXPECT_TRUE(strcmp(e.node, own.path) != 0);
		EXPECT_TRUE(strcmp(e.node, child(path.text, 0).path) == 0);
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), path.text), 0);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void holder_whose_node_is_deleted_is_told_lost(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), 20 * tick_ms());
	recorder     events = RECORDER("robbed holder"), next_events = RECORDER("next");
	zkl_lock    *lock = lock_new(s, path.text, &events), *next = lock_new(s, path.text, &next_events);
	zkl_grant    grant = {0}, later = {0};
	seen         lost = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(next, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EXPECT_INT(zkclient_delete(observer(), grant.node), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, 600, &lost)); /* a heartbeat would come each T/12 or T/6 */
	EXPECT_RC(lost.code, ZKL_ELOST);
	EXPECT_TRUE(lost.token == grant.token);
	EXPECT_RC(zkl_lock_check(lock, grant.token), ZKL_ELOST);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL)); /* the session lives */
	EXPECT_RC(zkl_lock_release(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &later, NULL), ZKL_OK);
	EXPECT_TRUE(later.token > grant.token);
	zkl_lock_free(lock);
	zkl_lock_free(next);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
	recorder_free(&next_events);
}

/* zk-ruby #34: the lock directory is made anew and a stale release deletes a node that is not its own. */
static void release_deletes_only_its_own_node(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("robbed holder");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	zkl_grant    grant = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_delete_tree(observer(), path.text), ZOK);
	node other = foreign_contender(
		path.text, CURATOR("c7b4b6d0-2c3f-4b6f-9c55-0a0d6d6e7001")); /* has the same sequence number */
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	EXPECT_TRUE(strcmp(child(path.text, 0).path, other.path) == 0);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

/* ZooKeeper's own C recipe queues such a waiter again and makes it owner of what nobody asked for. */
static void who_gave_up_creates_nothing_when_its_predecessor_goes(void)
{
	lock_path path = new_path();
	net       n;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("gave up");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	zkl_grant    grant;
	int64_t      timeout_ms = 200;
	for (int i = 1; i <= 10; i++) {
		node predecessor = foreign_contender(path.text, CURATOR("91e27c55-66aa-4f0a-b6be-25c5a3f3a001"));
		net_reset_counts(&n);
		if (i % 2) {
			EXPECT_RC(zkl_lock_acquire(lock, timeout_ms, &grant, NULL), ZKL_ETIMEDOUT);
			for (; recorder_count(&events, ZKL_EV_WAITING) < i;
			     timeout_ms *= 2) { /* it did not come to wait */
				EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
				net_reset_counts(&n);
				EXPECT_RC(zkl_lock_acquire(lock, timeout_ms, &grant, NULL), ZKL_ETIMEDOUT);
			}
		} else {
			EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, i, ENOUGH_MS, NULL));
			EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_OK);
		}
		EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
		EXPECT_INT(zkclient_delete(observer(), predecessor.path), ZOK);
		THROUGHOUT(zkclient_count(observer(), path.text) == 0, 100);
		EXPECT_INT(net_requests(&n, OP_CREATE2) + net_requests(&n, OP_CREATE), 1);
		EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* ---- no herd ---- */

/* What a hand-over costs all of `waiters` together. */
static int requests_of_a_hand_over(int waiters)
{
	enum { SESSIONS = 4 };
	lock_path    path = new_path();
	net          n;
	zkl_session *s[SESSIONS];
	recorder     events[32];
	zkl_lock    *locks[32];
	node         holder = foreign_contender(path.text, CURATOR("d30c9a1b-7a11-4b5e-8e57-5f1b36a0c001"));
	net_open(&n, 1, server_count());
	for (int i = 0; i < SESSIONS; i++)
		s[i] = session_open(n.servers, SESSION_MS);
	for (int i = 0; i < waiters; i++) {
		events[i] = (recorder)RECORDER("waiter");
		locks[i] = lock_new(s[i % SESSIONS], path.text, &events[i]);
		EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	}
	EVENTUALLY(net_requests(&n, OP_MULTI) > 0, ENOUGH_MS);
	net_settled_requests(&n);
	net_reset_counts(&n);
	EXPECT_INT(zkclient_delete(observer(), holder.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events[0], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	int requests = net_settled_requests(&n); /* it marks its node, and the next one looks */
	for (int i = 1; i < waiters; i++)
		EXPECT_TRUE(!granted(&events[i]));
	for (int i = waiters - 1; i >= 0; i--)
		zkl_lock_free(locks[i]);
	for (int i = 0; i < SESSIONS; i++)
		zkl_session_close(s[i], ENOUGH_MS);
	for (int i = 0; i < waiters; i++)
		recorder_free(&events[i]);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	net_close(&n);
	return requests;
}

static void hand_over_costs_the_same_whatever_the_length_of_the_queue(void)
{
	int few = requests_of_a_hand_over(2), many = requests_of_a_hand_over(30);
	EXPECT_RANGE(few, 0, 6);
	EXPECT_RANGE(many, 0, 6);
}

/* ---- foreign nodes ---- */

/* ZOOKEEPER-2931, ZOOKEEPER-3162: order by the whole name instead of the number. */
static void order_is_by_sequence_whatever_the_uuids(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("between");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	node         first = foreign_contender(path.text, CURATOR("ffffffff-ffff-4fff-bfff-fffffffffffe"));
	node         before = foreign_contender(path.text, CURATOR("eeeeeeee-ffff-4fff-bfff-ffffffffffff"));
	zkl_peer     peer = {0};
	seen         e = {0};
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.ahead, 2);
	EVENTUALLY(zkl_lock_holder(s, path.text, &peer, NULL) == 3, ENOUGH_MS);
	EXPECT_INT((int64_t)peer.epoch, strtoll(first.path + strlen(first.path) - 10, NULL, 10));
	EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
	node behind = foreign_contender(path.text, CURATOR("00000000-0000-4000-8000-000000000000"));
	node last = foreign_contender(path.text, CURATOR("00000000-0000-4000-8000-000000000001"));
	EXPECT_INT(zkclient_delete(observer(), last.path), ZOK);
	THROUGHOUT(!granted(&events), 300);
	EXPECT_INT(zkclient_delete(observer(), before.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(lock);
	EXPECT_INT(zkclient_delete(observer(), behind.path), ZOK);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void contenders_of_other_recipes_block(void)
{
	static const char *const prefixes[] = {
		"7f1d0c0a8a0b4b0f9f5f2f0b6c1a7e55__lock__",       /* kazoo */
		"_c_e0a37a31-0c1f-49f0-8c5e-3b4f4f3d6a11-lease-", /* Curator's semaphore */
		"x-0123456789abcdef-",                            /* ZooKeeper's C recipe */
		"",                                               /* nothing but the number */
	};
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		lock_path path = new_path();
		recorder  events = RECORDER("behind a foreign contender");
		zkl_lock *lock = lock_new(s, path.text, &events);
		node      other = foreign_contender(path.text, prefixes[i]);
		zkl_grant grant;
		EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_EBUSY);
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
		THROUGHOUT(!granted(&events), 200);
		EXPECT_INT(zkclient_delete(observer(), other.path), ZOK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, 1000, NULL));
		zkl_lock_free(lock);
		recorder_free(&events);
	}
	zkl_session_close(s, ENOUGH_MS);
}

static void children_without_a_sequence_number_do_not_block(void)
{
	static const char *const names[] = {"config", "lock-123", "_c_x-lock-000000001", "0"};
	lock_path                path = new_path();
	zkl_session             *s = session_open(all_servers(), SESSION_MS);
	zkl_lock                *lock = lock_new(s, path.text, NULL);
	zkl_grant                grant;
	zkl_peer                 peer;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char full[300];
		snprintf(full, sizeof full, "%s/%s", path.text, names[i]);
		EXPECT_INT(zkclient_make_directory(observer(), full), ZOK);
	}
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_holder(s, path.text, &peer, NULL), 1);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* ZOOKEEPER-3249 and before: numbers that have run over are below zero and would jump the queue. */
static void negative_sequence_number_grants_nothing(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	char         full[300];
	snprintf(full, sizeof full, "%s/%s", path.text, CURATOR("5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001") "-2147483647");
	EXPECT_INT(zkclient_make_directory(observer(), full), ZOK);
	EXPECT_RC(zkl_lock_acquire(lock, 1000, &grant, NULL), ZKL_EEXHAUSTED);
	EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
	EXPECT_TRUE(zkl_lock_acquire(lock, 0, &grant, NULL) < 0);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* A holder writes into its node that it is the lowest, and its successor believes that and nothing else. */
static void data_written_by_others_makes_nobody_next(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("third");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	node         first = foreign_contender(path.text, CURATOR("0b9ad7bc-7d6b-4a30-9a3c-0d1a8a61b001"));
	node         second = foreign_contender(path.text, CURATOR("0b9ad7bc-7d6b-4a30-9a3c-0d1a8a61b002"));
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	for (int i = 0; i < 5; i++)
		EXPECT_INT(zkclient_set(observer(), second.path, "note", 4), ZOK);
	THROUGHOUT(!granted(&events), 200);
	EXPECT_INT(zkclient_set(observer(), second.path, "mark=lowest\n", 12), ZOK);
	EXPECT_INT(zkclient_delete(observer(), second.path), ZOK);
	THROUGHOUT(!granted(&events), 500);
	EXPECT_INT(zkclient_set(observer(), first.path, "note", 4), ZOK);
	THROUGHOUT(!granted(&events), 200);
	EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, 1000, NULL));
	EXPECT_INT(zkclient_set(observer(), child(path.text, 0).path, "an operator's note", 18), ZOK);
	THROUGHOUT(recorder_count(&events, ZKL_EV_LOST) == 0, 300);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(contenders_are_served_in_the_order_of_their_nodes, 60)},
		{TEST(end_of_a_waiter_grants_nothing_to_the_next_one, 60)},
		{TEST(crowd_with_deleted_nodes_is_served_in_order, 60)},
		{TEST(crowd_with_killed_sessions_is_served_in_order, 120)},
		{TEST(predecessor_deleted_between_list_and_watch, 60)},
		{TEST(own_node_deleted_just_before_the_predecessor_grants_nothing, 1800)},
		{TEST(nodes_deleted_between_two_connections_grant_nothing, 600)},
		{TEST(node_with_our_name_of_another_session_grants_nothing, 60)},
		{TEST(waiter_whose_node_is_deleted_queues_again, 60)},
		{TEST(holder_whose_node_is_deleted_is_told_lost, 60)},
		{TEST(release_deletes_only_its_own_node, 60)},
		{TEST(who_gave_up_creates_nothing_when_its_predecessor_goes, 60)},
		{TEST(hand_over_costs_the_same_whatever_the_length_of_the_queue, 60)},
		{TEST(order_is_by_sequence_whatever_the_uuids, 60)},
		{TEST(contenders_of_other_recipes_block, 60)},
		{TEST(children_without_a_sequence_number_do_not_block, 60)},
		{TEST(negative_sequence_number_grants_nothing, 60)},
		{TEST(data_written_by_others_makes_nobody_next, 60)},
		{0},
	};
	return harness_main(argc, argv, "queue", tests);
}
