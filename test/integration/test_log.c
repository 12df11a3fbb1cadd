/* SPDX-License-Identifier: Apache-2.0 */
/* What operators go by: ids and levels of the log, which stay, and the counters. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 8)
#define ENOUGH_MS  15000

typedef struct line {
	int  level;
	char id[32], message[400];
} line;

static struct {
	pthread_mutex_t mutex;
	line            list[400];
	int             count;
} noted = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note(int level, const char *id, const char *message, void *user)
{
	(void)user;
	pthread_mutex_lock(&noted.mutex);
	if (noted.count < 400) {
		line *l = &noted.list[noted.count++];
		l->level = level;
		snprintf(l->id, sizeof l->id, "%s", id);
		snprintf(l->message, sizeof l->message, "%s", message);
	}
	pthread_mutex_unlock(&noted.mutex);
}

/* How many lines with this id, on this level, whose text has this in it; < 0: one is on another level. */
static int lines(const char *id, int level, const char *text)
{
	int found = 0;
	pthread_mutex_lock(&noted.mutex);
	for (int i = 0; i < noted.count && found >= 0; i++)
		if (strcmp(noted.list[i].id, id) == 0 && strstr(noted.list[i].message, text) != NULL)
			found = noted.list[i].level == level ? found + 1 : -1;
	pthread_mutex_unlock(&noted.mutex);
	return found;
}

static zkl_session_options logged(const char *at, int log_level)
{
	zkl_session_options options = session_options(at, SESSION_MS);
	pthread_mutex_lock(&noted.mutex);
	noted.count = 0;
	pthread_mutex_unlock(&noted.mutex);
	options.log = note;
	options.log_level = log_level;
	return options;
}

static zkl_session *open_logged(const char *at, int log_level)
{
	zkl_session_options options = logged(at, log_level);
	zkl_session        *s = NULL;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	return s;
}

/* ---- the log ---- */

static void life_of_a_session_is_logged(void)
{
	lock_path path = new_path(), queue = new_path();
	node      before = foreign_contender(queue.text, "_c_3d7d7a5c-7b5c-4c8e-8b37-0f4b9d5a3001-lock-");
	net       n;
	char      id[64];
	zkl_grant grant;
	net_open(&n, 1, 1);
	zkl_session *s = open_logged(n.servers, 7);
	zkl_lock    *held = lock_new(s, path.text, NULL), *waiting = lock_new(s, queue.text, NULL);
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	snprintf(id, sizeof id, "session %#llx, timeout %lld ms", (unsigned long long)grant.session_id,
	         (long long)SESSION_MS);
	EXPECT_INT(lines("connected", 6, id), 1);
	EXPECT_RC(zkl_lock_start(waiting, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), queue.text) == 2, ENOUGH_MS);
	net_cut(&n);
	EVENTUALLY(lines("connected", 6, id) == 2, ENOUGH_MS);
	EXPECT_INT(lines("disconnected", 5, ""), 1);
	EXPECT_INT(lines("expired", 4, ""), 0);
	net_expire(&n);
	EVENTUALLY(lines("expired", 4, "") == 1, ENOUGH_MS);
	EVENTUALLY(lines("connected", 6, "") == 3, ENOUGH_MS);
	EXPECT_INT(lines("lost", 4, path.text), 1);
	EXPECT_INT(lines("requeued", 6, queue.text), 1);
	EXPECT_INT(lines("lost", 4, queue.text), 0);
	EXPECT_INT(zkclient_delete(observer(), before.path), ZOK);
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	net_close(&n);
}

static void log_level_is_kept_to(void)
{
	net       n;
	lock_path path = new_path();
	zkl_grant grant;
	net_open(&n, 1, 1);
	zkl_session *s = open_logged(n.servers, 4);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	net_expire(&n);
	EVENTUALLY(lines("expired", 4, "") == 1 && lines("lost", 4, path.text) == 1, ENOUGH_MS);
	EVENTUALLY(stats_of(s).connected, ENOUGH_MS);
	EXPECT_INT(lines("connected", 6, "") + lines("disconnected", 5, ""), 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	net_close(&n);
}

/* Read with its mark, and watched as the lowest. */
static void nodes_in_front_that_no_session_ends_are_logged(void)
{
	lock_path    path = new_path();
	char         first[300], second[300];
	recorder     events = RECORDER("behind directories");
	zkl_session *s = open_logged(all_servers(), 4);
	zkl_lock    *lock = lock_new(s, path.text, &events);
	snprintf(first, sizeof first, "%s/x-0000000000", path.text);
	snprintf(second, sizeof second, "%s/x-0000000001", path.text);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_make_directory(observer(), first), ZOK);
	EXPECT_INT(zkclient_make_directory(observer(), second), ZOK);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(lines("lasting", 4, second) == 1, ENOUGH_MS);
	EXPECT_INT(lines("lasting", 4, first), 0);
	EXPECT_INT(zkclient_delete(observer(), second), ZOK);
	EVENTUALLY(lines("lasting", 4, first) == 1, ENOUGH_MS);
	EXPECT_INT(zkclient_delete(observer(), first), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_INT(lines("lasting", 4, ""), 2);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
}

static void foreign_and_duplicate_nodes_are_logged(void)
{
	lock_path    path = new_path();
	node         first = foreign_contender(path.text, "4ab0c1d2e3f40516273849506172839a__lock__"); /* kazoo's */
	node         second = foreign_contender(path.text, "4ab0c1d2e3f40516273849506172839b__lock__");
	recorder     events = RECORDER("waiting");
	zkl_session *s = open_logged(all_servers(), 7);
	zkl_lock    *lock = lock_new(s, path.text, &events);
	char         own[300] = "";
	node         again;
	seen         e = {0};
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, &e));
	EXPECT_INT(lines("foreign", 4, path.text), 1);
	EXPECT_INT(lines("lasting", 4, ""), 0);
	/* The same name with another number, as only a second create of ours could have made it. */
	struct String_vector names = {0, NULL};
	EXPECT_INT(zkclient_children(observer(), path.text, &names), ZOK);
	if (EXPECT_INT(names.count, 3))
		snprintf(own, sizeof own, "%.*s", (int)strlen(names.data[2]) - 10, names.data[2]);
	deallocate_String_vector(&names);
	again = foreign_contender(path.text, own);
	EXPECT_INT(zkclient_delete(observer(), second.path), ZOK);
	EVENTUALLY(lines("duplicate", 4, again.path) == 1, ENOUGH_MS);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
}

/* An operator takes away what a holder needs to see of its own node. */
static void holder_that_cannot_watch_its_node_is_logged(void)
{
	struct ACL        nobody[] = {{0x02, {"world", "anyone"}}};
	struct ACL_vector acl = {1, nobody};
	lock_path         path = new_path();
	zkl_grant         grant;
	net               n;
	net_open(&n, 1, 1);
	zkl_session *s = open_logged(n.servers, 7);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_guard(observer(), grant.node, &acl), ZOK);
	net_cut(&n);
	EVENTUALLY(lines("not-watched", 4, grant.node) == 1, ENOUGH_MS);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	net_close(&n);
}

static void names_without_an_address_are_logged_and_tried_again(void)
{
	zkl_session *s = open_logged("no-such-host.invalid:2181", 4);
	EVENTUALLY(lines("resolve", 4, "no-such-host.invalid") >= 2, 4 * ENOUGH_MS);
	EVENTUALLY(lines("unreachable", 4, "trying on: no-such-host.invalid: ") == 1, ENOUGH_MS);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

/* Not before a session timeout of it has gone by, and not again as it goes on. */
static void outage_of_a_session_timeout_is_logged_once(void)
{
	lock_path path = new_path();
	net       n;
	char      named[100];
	zkl_grant grant;
	net_open(&n, 1, 1);
	net_set_door(&n, PROXY_REFUSING);
	snprintf(named, sizeof named, "%.80s: ", n.servers);
	int64_t      began = now_ns();
	zkl_session *s = open_logged(n.servers, 5);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EVENTUALLY(lines("unreachable", 4, named) == 1, ENOUGH_MS);
	EXPECT_INT(lines("unreachable", 4, "resolve"), 0);
	EXPECT_TRUE(now_ns() - began >= SESSION_MS * 1000000);
	EXPECT_RC(zkl_lock_acquire(lock, 2 * SESSION_MS, &grant, NULL), ZKL_ENOTCONN);
	EXPECT_INT(lines("unreachable", 4, ""), 1);
	net_set_door(&n, PROXY_OPEN);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	net_cut(&n); /* an outage that is over at once is none */
	EVENTUALLY(stats_of(s).reconnects == 1, ENOUGH_MS);
	net_set_door(&n, PROXY_REFUSING);
	net_cut(&n);
	EVENTUALLY(lines("disconnected", 5, "") == 2, ENOUGH_MS);
	EXPECT_INT(lines("unreachable", 4, ""), 1);
	EVENTUALLY(lines("unreachable", 4, named) == 2, ENOUGH_MS);
	net_set_door(&n, PROXY_OPEN);
	EVENTUALLY(stats_of(s).connected, ENOUGH_MS);
	EXPECT_INT(lines("unreachable", 4, ""), 2);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	net_close(&n);
}

/* Descriptors are left for the session, and none for the client. */
static void client_that_cannot_be_made_is_logged_and_tried_again(void)
{
	lock_path     path = new_path();
	zkl_grant     grant;
	struct rlimit before, few;
	int           fds[2];
	observer();
	EXPECT_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
	EXPECT_INT(pipe(fds), 0); /* the lowest ones that are free: the session will have these two numbers */
	few = before;
	few.rlim_cur = (rlim_t)fds[1] + 1;
	close(fds[0]);
	close(fds[1]);
	EXPECT_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	/* For a moment another thread may have one of them. */
	zkl_session_options options = logged(all_servers(), 4);
	zkl_session        *s = NULL;
	EVENTUALLY(zkl_session_open(&options, &s, NULL) == 0, ENOUGH_MS);
	EVENTUALLY(lines("client", 3, "") >= 2, ENOUGH_MS);
	EXPECT_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
	zkl_lock *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

/* ---- the counters ---- */

static void counters_say_what_happened(void)
{
	lock_path path = new_path();
	net       n;
	zkl_grant grant;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("counted");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_INT(stats_of(s).session_id, stats_of(s).timeout_ms ? stats_of(s).session_id : 0);
	for (int i = 0; i < 3; i++) {
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	}
	EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_ENOTHELD);
	zkl_stats first = stats_of(s);
	EXPECT_TRUE(first.connected && first.session_id == grant.session_id && first.timeout_ms == SESSION_MS);
	EXPECT_INT((int64_t)first.granted, 3);
	EXPECT_INT((int64_t)first.released, 3);
	EXPECT_INT((int64_t)first.not_held, 1);
	EXPECT_INT((int64_t)(first.lost + first.reconnects + first.expiries), 0);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EVENTUALLY(stats_of(s).heartbeats > first.heartbeats + 1 && stats_of(s).lease_ms > 0, ENOUGH_MS);
	net_cut(&n);
	EVENTUALLY(stats_of(s).reconnects == 1, ENOUGH_MS);
	EXPECT_INT((int64_t)stats_of(s).expiries, 0);
	net_expire(&n);
	EVENTUALLY(stats_of(s).expiries == 1 && stats_of(s).lost == 1, ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_ENOTHELD);
	EVENTUALLY(stats_of(s).connected, ENOUGH_MS);
	zkl_stats last = stats_of(s);
	EXPECT_TRUE(last.session_id != first.session_id);
	EXPECT_INT((int64_t)last.granted, 4);
	EXPECT_INT((int64_t)last.released, 3);
	EXPECT_INT((int64_t)last.not_held, 2);
	EXPECT_INT((int64_t)last.reconnects, 1);
	EXPECT_TRUE(last.lease_ms < 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	net_close(&n);
}

static void block_while_flag_is_one(const zkl_event *ev, recorder *r)
{
	(void)ev;
	while (atomic_load(&r->flag) == 1)
		poll_pause();
}

/* Callbacks that do not return show in two counters: events that wait, while heartbeats go on. */
static void slow_callbacks_and_late_heartbeats_show(void)
{
	lock_path path = new_path(), other = new_path();
	net       n;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	recorder     events = RECORDER("blocks"), other_events = RECORDER("waits for it");
	zkl_lock    *lock = lock_new(s, path.text, &events), *next = lock_new(s, other.text, &other_events);
	events.flag = 1;
	events.then = block_while_flag_is_one;
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_start(next, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(stats_of(s).events_queued == 1, ENOUGH_MS);
	uint64_t late = stats_of(s).heartbeats_late;
	net_hold(&n, PROXY_TO_CLIENT);
	EVENTUALLY(stats_of(s).heartbeats_late > late, ENOUGH_MS);
	net_hold(&n, 0);
	atomic_store(&events.flag, 0);
	EVENTUALLY(stats_of(s).events_queued == 0, ENOUGH_MS);
	zkl_lock_free(lock);
	zkl_lock_free(next);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&other_events);
	net_close(&n);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(life_of_a_session_is_logged, 90)},
		{TEST(log_level_is_kept_to, 60)},
		{TEST(nodes_in_front_that_no_session_ends_are_logged, 60)},
		{TEST(foreign_and_duplicate_nodes_are_logged, 60)},
		{TEST(holder_that_cannot_watch_its_node_is_logged, 60)},
		{TEST(names_without_an_address_are_logged_and_tried_again, 90)},
		{TEST(outage_of_a_session_timeout_is_logged_once, 90)},
		{TEST(client_that_cannot_be_made_is_logged_and_tried_again, 60)},
		{TEST(counters_say_what_happened, 90)},
		{TEST(slow_callbacks_and_late_heartbeats_show, 60)},
		{0},
	};
	return harness_main(argc, argv, "log", tests);
}
