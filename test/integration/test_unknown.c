/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of which nobody knows whether they were carried out: no node too many, none left behind, nobody stuck. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  10000

/* A session through proxies in front of some servers, with one lock. */
typedef struct remote {
	lock_path    path;
	net          n;
	zkl_session *s;
	recorder     events;
	zkl_lock    *lock;
} remote;

static void remote_open(remote *r, size_t count)
{
	*r = (remote){.path = new_path(), .events = RECORDER("remote")};
	net_open(&r->n, 1, count);
	r->s = session_open(r->n.servers, SESSION_MS);
	r->lock = lock_new(r->s, r->path.text, &r->events);
	EVENTUALLY(session_timeout_ms(r->s) > 0, ENOUGH_MS);
}

/* Ends in good order: nothing is left but directories. */
static void remote_close(remote *r)
{
	zkl_lock_free(r->lock);
	EVENTUALLY(zkclient_count(observer(), r->path.text) == 0, ENOUGH_MS);
	EXPECT_RC(zkl_session_close(r->s, ENOUGH_MS), ZKL_OK);
	net_close(&r->n);
	recorder_free(&r->events);
}

/* The proxy that the session is connected through. */
static proxy *way_of(remote *r)
{
	zkl_stats stats = ZKL_STATS_INIT;
	int64_t   id;
	char      password[16];
	zkl_session_stats(r->s, &stats);
	for (size_t i = 0; i < r->n.count; i++)
		if (proxy_session(r->n.at[i], &id, password) && id == stats.session_id)
			return r->n.at[i];
	CU_FAIL_FATAL("the session is connected through no proxy");
	return NULL;
}

/* ---- the create ---- */

/* go-zookeeper #229, zk-ruby #54: the create was carried out and its reply lost. With one server the
 * session comes back to it, with three to another one that may not have heard of the node yet. */
static void lost_create_makes_one_node(void)
{
	static const proxy_act acts[] = {PROXY_LOSE_REPLY, PROXY_CUT_BEFORE, PROXY_CUT_AFTER_REPLY};
	for (size_t count = 1; count <= server_count(); count += 2)
		for (size_t i = 0; i < 3; i++)
			for (int directory_there = 0; directory_there <= 1; directory_there++) {
				remote    r;
				zkl_grant grant = {0};
				remote_open(&r, count);
				if (directory_there)
					EXPECT_INT(zkclient_make_directory(observer(), r.path.text), ZOK);
				proxy *way = way_of(&r);
				proxy_arm(way, &(proxy_rule){.op = OP_CREATE2,
				                             .nth = 1,
				                             .act = acts[i],
				                             .door = count > 1 ? PROXY_REFUSING : PROXY_OPEN});
				EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
				EXPECT_TRUE(proxy_wait_struck(way, 0));
				EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
				struct Stat stat;
				EXPECT_INT(zkclient_stat(observer(), grant.node, &stat), ZOK);
				EXPECT_TRUE(stat.ephemeralOwner == grant.session_id && stat.czxid == grant.zxid);
				EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
				EXPECT_INT(zkclient_count(observer(), r.path.text), 0);
				net_set_door(&r.n, PROXY_OPEN);
				remote_close(&r);
			}
}

static void lost_create_behind_a_holder_keeps_one_place(void)
{
	remote       r;
	zkl_session *other = session_open(all_servers(), SESSION_MS);
	remote_open(&r, 1);
	zkl_lock *held = lock_new(other, r.path.text, NULL);
	zkl_grant grant;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_CREATE2, .nth = 1, .act = PROXY_LOSE_REPLY});
	EXPECT_RC(zkl_lock_start(r.lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_count(observer(), r.path.text), 2);
	EXPECT_INT(net_requests(&r.n, OP_CREATE2), 1);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(held);
	zkl_session_close(other, ENOUGH_MS);
	remote_close(&r);
}

typedef enum leaving { BY_RELEASE, BY_TIMEOUT, BY_FREE, BY_CANCEL, LEAVINGS } leaving;

/* kazoo #732, CURATOR-79: whoever is cancelled while it does not know has something to clean up later. */
static void leaving_while_the_create_is_unknown_leaves_no_node(void)
{
	for (leaving how = 0; how < LEAVINGS; how++)
		for (int carried_out = 0; carried_out <= 1; carried_out++) {
			remote   r;
			acquirer a;
			remote_open(&r, 1);
			EXPECT_INT(zkclient_make_directory(observer(), r.path.text), ZOK);
			proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_CREATE2,
			                                   .nth = 1,
			                                   .act = carried_out ? PROXY_LOSE_REPLY : PROXY_CUT_BEFORE,
			                                   .door = PROXY_REFUSING});
			acquirer_start(&a, r.lock, how == BY_TIMEOUT ? 500 : ZKL_FOREVER);
			EXPECT_TRUE(proxy_wait_struck(r.n.at[0], ENOUGH_MS));
			EXPECT_INT(zkclient_count(observer(), r.path.text), carried_out);
			if (how == BY_RELEASE)
				EXPECT_RC(zkl_lock_release(r.lock, 0, NULL), ZKL_OK);
			if (how == BY_CANCEL)
				zkl_session_cancel(r.s);
			if (how == BY_FREE) { /* free is not for a handle in use: the owner lets go first */
				EXPECT_RC(zkl_lock_release(r.lock, 0, NULL), ZKL_OK);
				acquirer_join(&a);
				zkl_lock_free(r.lock);
				r.lock = NULL;
			} else {
				int rc = acquirer_join(&a);
				EXPECT_TRUE(how == BY_TIMEOUT ? rc == ZKL_ETIMEDOUT || rc == ZKL_ENOTCONN
				                              : rc == ZKL_ECANCELED);
			}
			proxy_set_door(r.n.at[0], PROXY_OPEN);
			EVENTUALLY(zkclient_count(observer(), r.path.text) == 0, SESSION_MS * 3 / 4);
			EXPECT_INT(net_requests(&r.n, OP_CREATE2), 1);
			if (how == BY_RELEASE ||
			    how == BY_TIMEOUT) { /* the handle is as good as new, the session too */
				zkl_grant grant;
				EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
				EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
			}
			remote_close(&r);
		}
}

/* The connection breaks again, and again, while it looks for what became of its create. */
static void cuts_during_the_search_for_a_lost_create(void)
{
	for (int nth = 1;; nth++) {
		remote    r;
		zkl_grant grant;
		acquirer  a;
		remote_open(&r, 1);
		EXPECT_INT(zkclient_make_directory(observer(), r.path.text), ZOK);
		proxy_arm(r.n.at[0],
		          &(proxy_rule){.op = OP_CREATE2, .nth = 1, .act = PROXY_LOSE_REPLY, .door = PROXY_REFUSING});
		acquirer_start(&a, r.lock, 2 * ENOUGH_MS);
		EXPECT_TRUE(proxy_wait_struck(r.n.at[0], ENOUGH_MS));
		proxy_arm(
			r.n.at[0],
			&(proxy_rule){.op = OP_ANY, .nth = nth, .act = nth % 2 ? PROXY_LOSE_REPLY : PROXY_CUT_BEFORE});
		proxy_set_door(r.n.at[0], PROXY_OPEN);
		EXPECT_RC(acquirer_join(&a), ZKL_OK);
		bool struck = proxy_wait_struck(r.n.at[0], 0);
		proxy_arm(r.n.at[0], NULL);
		EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
		EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), r.path.text), 0);
		EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		remote_close(&r);
		if (!struck || nth > 30)
			break;
	}
}

/* CURATOR-604, CURATOR-696: after an expiry the list may still show the node of the session before. */
static void node_of_an_earlier_session_grants_nothing(void)
{
	for (int i = 0; i < rounds(5, 50); i++) {
		remote      r;
		acquirer    a;
		struct Stat stat;
		remote_open(&r, 1);
		EXPECT_INT(zkclient_make_directory(observer(), r.path.text), ZOK);
		proxy_arm(r.n.at[0],
		          &(proxy_rule){.op = OP_CREATE2, .nth = 1, .act = PROXY_LOSE_REPLY, .door = PROXY_REFUSING});
		acquirer_start(&a, r.lock, 2 * ENOUGH_MS);
		EXPECT_TRUE(proxy_wait_struck(r.n.at[0], ENOUGH_MS));
		net_expire(&r.n);
		EXPECT_RC(acquirer_join(&a), ZKL_OK);
		EXPECT_INT(zkclient_stat(observer(), a.grant.node, &stat), ZOK);
		EXPECT_TRUE(stat.ephemeralOwner == a.grant.session_id);
		EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
		EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
		remote_close(&r);
	}
}

/* The session is ended by its id while its owner reconnects. A server may then keep the connection, as if the session were
 * alive, and refuse each request. */
static void session_that_is_ended_during_a_reconnect_is_opened_anew(void)
{
	for (int i = 0; i < rounds(15, 200); i++) {
		remote    r;
		zkl_grant grant;
		remote_open(&r, 1);
		EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		int64_t before = grant.session_id;
		net_cut(&r.n);
		net_end_session(&r.n);
		EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
		EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_TRUE(grant.session_id != before);
		EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
		remote_close(&r);
	}
}

/* ---- the delete ---- */

/* CURATOR-202, CURATOR-678, vault #4491: the successor waited for a whole session timeout, or for ever. */
static void release_while_the_link_is_down_deletes_the_node_when_it_is_back(void)
{
	remote       r;
	zkl_session *other = session_open(all_servers(), SESSION_MS);
	recorder     next_events = RECORDER("successor");
	zkl_grant    grant;
	seen         e = {0}, ended = {0};
	remote_open(&r, server_count());
	zkl_lock *next = lock_new(other, r.path.text, &next_events);
	EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(next, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	net_set_door(&r.n, PROXY_REFUSING);
	net_cut(&r.n);
	int64_t cut_ms = now_ms();
	EXPECT_RC(zkl_lock_release(r.lock, 300, NULL), ZKL_ETIMEDOUT);
	EXPECT_RC(zkl_lock_check(r.lock, grant.token), ZKL_ENOTHELD);
	EXPECT_INT(recorder_count(&next_events, ZKL_EV_GRANTED), 0);
	net_set_door(&r.n, PROXY_OPEN);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
	EXPECT_RANGE(e.at_ns / 1000000 - cut_ms, 300, SESSION_MS / 2);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_INT(ended.code, 0);
	zkl_lock_free(next);
	zkl_session_close(other, ENOUGH_MS);
	remote_close(&r);
	recorder_free(&next_events);
}

static void lost_delete_is_made_again(void)
{
	static const proxy_act acts[] = {PROXY_LOSE_REPLY,      PROXY_CUT_BEFORE,    PROXY_CUT_AFTER_REPLY,
	                                 PROXY_SWALLOW_REQUEST, PROXY_SWALLOW_REPLY, PROXY_DOUBLE_REQUEST};
	for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
		remote    r;
		zkl_grant grant;
		remote_open(&r, 1);
		EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_DELETE, .nth = 1, .act = acts[i]});
		EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_TRUE(proxy_wait_struck(r.n.at[0], 0));
		EXPECT_INT(zkclient_count(observer(), r.path.text), 0);
		remote_close(&r);
	}
}

/* start() may follow release() at once, also while the old node's delete is not answered: the new place has a node
 * of its own, and the old delete takes only the old one. */
static void new_attempt_while_the_old_delete_is_unknown(void)
{
	remote    r;
	zkl_grant first = {0}, second = {0};
	remote_open(&r, 1);
	EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &first, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_DELETE, .nth = 1, .act = PROXY_LOSE_REPLY, .door = PROXY_REFUSING});
	EXPECT_RC(zkl_lock_release(r.lock, 0, NULL), ZKL_OK);
	EXPECT_TRUE(proxy_wait_struck(r.n.at[0], ENOUGH_MS));
	EXPECT_RC(zkl_lock_start(r.lock, ZKL_FOREVER, NULL), ZKL_OK);
	proxy_set_door(r.n.at[0], PROXY_OPEN);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_GRANTED, 2, ENOUGH_MS, NULL));
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
	EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &second, NULL), ZKL_OK);
	EXPECT_TRUE(second.token > first.token);
	remote_close(&r);
}

/* ---- what comes twice ---- */

/* Waits, holds and releases; the kth request is carried out twice, or its reply comes twice. false: it did not. What comes
 * not at all is the business of test/faults. */
static bool live_twice(int k, proxy_act act)
{
	remote       r;
	zkl_session *other = session_open(all_servers(), SESSION_MS);
	zkl_grant    grant = {0};
	acquirer     a;
	unsigned     failures = CU_get_number_of_failures();
	remote_open(&r, 1);
	zkl_lock *held = lock_new(other, r.path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_ANY, .nth = k, .act = act});
	acquirer_start(&a, r.lock, 3 * ENOUGH_MS);
	EVENTUALLY(recorder_count(&r.events, ZKL_EV_WAITING) > 0, ENOUGH_MS);
	EVENTUALLY(zkclient_count(observer(), r.path.text) == 2, ENOUGH_MS); /* its second node goes */
	EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
	EXPECT_INT(recorder_count(&r.events, ZKL_EV_GRANTED), 0);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(acquirer_join(&a), ZKL_OK);
	EXPECT_TRUE(zkl_lock_check(r.lock, a.grant.token) > 0);
	net_settled_requests(&r.n);
	EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
	EXPECT_TRUE(zkl_lock_check(r.lock, a.grant.token) > 0);
	EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_count(observer(), r.path.text), 0);
	bool struck = proxy_wait_struck(r.n.at[0], 0);
	EXPECT_RC(zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), r.path.text), 0);
	EXPECT_INT(recorder_count(&r.events, ZKL_EV_LOST), 0);
	if (CU_get_number_of_failures() > failures)
		fprintf(stderr, "by request %d, act %d\n", k, (int)act);
	zkl_lock_free(held);
	zkl_session_close(other, ENOUGH_MS);
	remote_close(&r);
	return struck;
}

static void every_frame_of_a_life_twice(proxy_act act)
{
	int k = 1;
	while (k < 60 && live_twice(k, act))
		k++;
	EXPECT_RANGE(k, 5, 40); /* create, list, two watches at least */
}

static void every_request_of_a_life_carried_out_twice(void)
{
	every_frame_of_a_life_twice(PROXY_DOUBLE_REQUEST);
}

static void every_reply_of_a_life_twice(void)
{
	every_frame_of_a_life_twice(PROXY_DOUBLE_REPLY);
}

static void every_frame_of_a_try_twice(void)
{
	static const proxy_act acts[] = {PROXY_DOUBLE_REQUEST, PROXY_DOUBLE_REPLY};
	for (size_t i = 0; i < 2; i++)
		for (int k = 1, struck = 1; struck && k < 30; k++) {
			remote    r;
			zkl_grant grant = {0};
			remote_open(&r, 1);
			proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_ANY, .nth = k, .act = acts[i]});
			EXPECT_RC(zkl_lock_acquire(r.lock, 0, &grant, NULL), ZKL_OK);
			EVENTUALLY(zkclient_count(observer(), r.path.text) == 1, ENOUGH_MS);
			EXPECT_RC(zkl_lock_release(r.lock, ENOUGH_MS, NULL), ZKL_OK);
			EVENTUALLY(zkclient_count(observer(), r.path.text) == 0, ENOUGH_MS);
			struck = proxy_wait_struck(r.n.at[0], 0);
			remote_close(&r);
		}
}

/* ---- leaving ---- */

/* Cancelled at the moment of the kth request. */
static void leaving_at_every_request_leaves_no_node(void)
{
	for (int k = 1, struck = 1; struck && k < 40; k++)
		for (int behind = 0; behind <= 1; behind++) {
			remote       r;
			zkl_session *other = session_open(all_servers(), SESSION_MS);
			zkl_grant    grant;
			unsigned     failures = CU_get_number_of_failures();
			remote_open(&r, 1);
			zkl_lock *held = lock_new(other, r.path.text, NULL);
			if (behind)
				EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
			proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_ANY, .nth = k, .act = PROXY_HOLD_REQUEST});
			EXPECT_RC(zkl_lock_start(r.lock, ZKL_FOREVER, NULL), ZKL_OK);
			struck = proxy_wait_struck(r.n.at[0], 1000);
			proxy_arm(r.n.at[0], NULL);
			EXPECT_RC(zkl_lock_release(r.lock, 0, NULL), ZKL_OK);
			if (k % 2)
				net_cut(&r.n); /* the held request is gone with its connection, or else it goes on */
			net_hold(&r.n, 0);
			EVENTUALLY(zkclient_count(observer(), r.path.text) == behind, ENOUGH_MS);
			if (CU_get_number_of_failures() > failures)
				fprintf(stderr, "released at request %d, %s\n", k, behind ? "behind another" : "alone");
			EXPECT_TRUE(recorder_wait(&r.events, ZKL_EV_ENDED, 1, ENOUGH_MS, NULL));
			zkl_lock_free(held);
			zkl_session_close(other, ENOUGH_MS);
			remote_close(&r);
		}
}

/* ---- many at once ---- */

typedef struct worker {
	pthread_t     thread;
	zkl_lock     *lock;
	atomic_bool  *stop;
	atomic_int   *inside, *overlaps, *grants;
	atomic_llong *last_ns, *longest_ns; /* between two grants of anybody */
	int           failures;
} worker;

static void note_progress(worker *w)
{
	int64_t last = atomic_exchange(w->last_ns, now_ns()), gap = now_ns() - last;
	if (gap > atomic_load(w->longest_ns))
		atomic_store(w->longest_ns, gap);
	atomic_fetch_add(w->grants, 1);
}

static void *work(void *arg)
{
	worker *w = arg;
	while (!atomic_load(w->stop)) {
		zkl_grant grant;
		int       rc = zkl_lock_acquire(w->lock, 2 * ENOUGH_MS, &grant, NULL);
		if (rc != ZKL_OK && rc != ZKL_ELOST) {
			fprintf(stderr, "acquire: %s\n", zkl_error_name(rc));
			w->failures++;
			break;
		}
		if (rc != ZKL_OK)
			continue;
		if (atomic_fetch_add(w->inside, 1) != 0 && zkl_lock_check(w->lock, grant.token) > 0)
			atomic_fetch_add(w->overlaps, 1);
		note_progress(w);
		atomic_fetch_sub(w->inside, 1);
		rc = zkl_lock_release(w->lock, 0, NULL);
		if (rc != ZKL_OK && rc != ZKL_ENOTHELD)
			w->failures++;
	}
	return NULL;
}

/* kazoo #170, kazoo #282: a waiter that sleeps on after a reconnect, an acquire that hangs. */
static void queue_goes_on_while_links_break(void)
{
	enum { WORKERS = 12, NETS = 4 };
	lock_path    path = new_path();
	net          nets[NETS];
	zkl_session *s[NETS];
	worker       workers[WORKERS];
	atomic_bool  stop = false;
	atomic_int   inside = 0, overlaps = 0, grants = 0;
	atomic_llong last_ns = now_ns(), longest_ns = 0;
	unsigned     random = (unsigned)now_ns();
	for (int i = 0; i < NETS; i++) {
		net_open(&nets[i], 1, server_count());
		s[i] = session_open(nets[i].servers, SESSION_MS);
	}
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (worker){.lock = lock_new(s[i % NETS], path.text, NULL),
		                      .stop = &stop,
		                      .inside = &inside,
		                      .overlaps = &overlaps,
		                      .grants = &grants,
		                      .last_ns = &last_ns,
		                      .longest_ns = &longest_ns};
		EXPECT_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int64_t end_ms = now_ms() + rounds(10000, 120000); now_ms() < end_ms;) {
		int before = atomic_load(&grants);
		net_cut(&nets[rand_r(&random) % NETS]);
		EVENTUALLY(atomic_load(&grants) > before + (int)(rand_r(&random) % 20), 5000);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(workers[i].thread, NULL);
		EXPECT_INT(workers[i].failures, 0);
		zkl_lock_free(workers[i].lock);
	}
	EXPECT_INT(atomic_load(&overlaps), 0);
	EXPECT_RANGE(atomic_load(&longest_ns) / 1000000, 0, late(5000));
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	for (int i = 0; i < NETS; i++) {
		EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
		net_close(&nets[i]);
	}
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(lost_create_makes_one_node, 120)},
		{TEST(lost_create_behind_a_holder_keeps_one_place, 60)},
		{TEST(leaving_while_the_create_is_unknown_leaves_no_node, 120)},
		{TEST(cuts_during_the_search_for_a_lost_create, 120)},
		{TEST(node_of_an_earlier_session_grants_nothing, 300)},
		{TEST(session_that_is_ended_during_a_reconnect_is_opened_anew, 300)},
		{TEST(release_while_the_link_is_down_deletes_the_node_when_it_is_back, 60)},
		{TEST(lost_delete_is_made_again, 60)},
		{TEST(new_attempt_while_the_old_delete_is_unknown, 60)},
		{TEST(every_request_of_a_life_carried_out_twice, 180)},
		{TEST(every_reply_of_a_life_twice, 180)},
		{TEST(every_frame_of_a_try_twice, 180)},
		{TEST(leaving_at_every_request_leaves_no_node, 180)},
		{TEST(queue_goes_on_while_links_break, 300)},
		{0},
	};
	return harness_main(argc, argv, "unknown", tests);
}
