/* SPDX-License-Identifier: Apache-2.0 */
/* Directories whose sequence numbers are used up (ZOOKEEPER-3249): who is before the end finishes, then they are made anew.
 *
 * The servers begin with such directories (NearTheEnd.java), each NUMBERS_LEFT before the end. */
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION_MS   (tick_ms() * 8)
#define ENOUGH_MS    20000
#define NUMBERS_LEFT 4
#define FIRST        ((int64_t)0x7fffffff - 0xfffff) /* of those that are not granted any more */

/* The next one that nobody has used. */
static lock_path near_the_end(void)
{
	static int used;
	lock_path  path;
	snprintf(path.text, sizeof path.text, "/end/%d", used++);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	return path;
}

/* Takes the numbers that are left. */
static void use_up(const char *path)
{
	for (int i = 0; i < NUMBERS_LEFT; i++) {
		char child[300];
		snprintf(child, sizeof child, "%s/config-%d", path, i);
		EXPECT_INT(zkclient_create(observer(), child, NULL, 0, 0, NULL, 0), ZOK);
		EXPECT_INT(zkclient_delete(observer(), child), ZOK);
	}
}

static bool is_anew(const char *path)
{
	struct Stat stat;
	return zkclient_stat(observer(), path, &stat) == ZOK && stat.czxid > INT64_C(9) << 32;
}

static void tokens_grow_across_the_end(void)
{
	lock_path           path = near_the_end();
	log_counter         renewals = {.level = 4, .id = "renew"};
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;
	options.log = log_count;
	options.log_user = &renewals;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, NULL);
	zkl_grant grant, last = {0};
	for (int i = 0; i < NUMBERS_LEFT + 3; i++) {
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_TRUE(grant.token > last.token);
		EXPECT_INT((int64_t)grant.epoch, i < NUMBERS_LEFT ? FIRST - NUMBERS_LEFT + i : i - NUMBERS_LEFT);
		EXPECT_INT(is_anew(path.text), i >= NUMBERS_LEFT);
		EXPECT_INT(atomic_load(&renewals.count), i >= NUMBERS_LEFT);
		last = grant;
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

static void try_at_the_end_makes_the_directory_anew(void)
{
	lock_path    path = near_the_end();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL), *other = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	use_up(path.text);
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_OK);
	EXPECT_TRUE(is_anew(path.text) && grant.epoch == 0);
	EXPECT_RC(zkl_lock_acquire(other, 0, NULL, NULL), ZKL_EBUSY);
	zkl_lock_free(lock);
	zkl_lock_free(other);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- eight contenders ---- */

enum { CROWD = 8 };

typedef struct worker {
	pthread_t      thread;
	const char    *path;
	int            grants;
	atomic_ullong *mark; /* the newest token of all */
	atomic_int    *inside, *wrong;
} worker;

static void *work(void *arg)
{
	worker      *w = arg;
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, w->path, NULL);
	for (int i = 0; i < w->grants; i++) {
		zkl_grant grant;
		if (zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL) != ZKL_OK || atomic_fetch_add(w->inside, 1) != 0 ||
		    atomic_exchange(w->mark, grant.token) >= grant.token || zkl_lock_check(lock, grant.token) <= 0)
			atomic_fetch_add(w->wrong, 1);
		atomic_fetch_sub(w->inside, 1);
		if (zkl_lock_release(lock, ENOUGH_MS, NULL) != ZKL_OK)
			atomic_fetch_add(w->wrong, 1);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	return NULL;
}

static void eight_contenders_pass_the_end_one_at_a_time(void)
{
	for (int round = 0; round < rounds(3, 30); round++) {
		lock_path     path = near_the_end();
		worker        workers[CROWD];
		atomic_ullong mark = 0;
		atomic_int    inside = 0, wrong = 0;
		for (int i = 0; i < CROWD; i++) {
			workers[i] = (worker){
				.path = path.text, .grants = 5, .mark = &mark, .inside = &inside, .wrong = &wrong};
			pthread_create(&workers[i].thread, NULL, work, &workers[i]);
		}
		for (int i = 0; i < CROWD; i++)
			pthread_join(workers[i].thread, NULL);
		EXPECT_INT(atomic_load(&wrong), 0);
		EXPECT_TRUE(is_anew(path.text));
		EXPECT_INT(zkclient_count(observer(), path.text), 0);
	}
}

/* ---- who is there already ---- */

static void those_before_the_end_are_waited_for(void)
{
	lock_path    path = near_the_end();
	zkl_session *s = session_open(all_servers(), SESSION_MS), *other = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("behind the end");
	zkl_lock    *held = lock_new(s, path.text, NULL), *next = lock_new(s, path.text, NULL);
	zkl_lock    *late = lock_new(other, path.text, &events);
	acquirer     a;
	zkl_grant    grant;
	seen         granted = {0};
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	acquirer_start(&a, next, ENOUGH_MS);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	use_up(path.text);
	EXPECT_RC(zkl_lock_start(late, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS); /* its number is given back */
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(acquirer_join(&a), ZKL_OK);
	THROUGHOUT(recorder_count(&events, ZKL_EV_GRANTED) == 0, 300);
	EXPECT_TRUE(zkl_lock_check(next, a.grant.token) > 0);
	EXPECT_RC(zkl_lock_release(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &granted));
	EXPECT_TRUE(granted.token > a.grant.token && granted.epoch == 0);
	EXPECT_TRUE(is_anew(path.text));
	zkl_lock_free(held);
	zkl_lock_free(next);
	zkl_lock_free(late);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_close(other, ENOUGH_MS);
	recorder_free(&events);
}

static void who_gives_up_waiting_for_the_end_leaves_no_trace(void)
{
	lock_path    path = near_the_end();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *held = lock_new(s, path.text, NULL), *late = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	use_up(path.text);
	EXPECT_RC(zkl_lock_acquire(late, 500, NULL, NULL), ZKL_ETIMEDOUT);
	EXPECT_RC(zkl_lock_acquire(late, 0, NULL, NULL), ZKL_EBUSY);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
	zkl_lock_free(held);
	zkl_lock_free(late);
	zkl_session_close(s, ENOUGH_MS);
}

/* Curator's and kazoo's queue there as ever. */
static void foreign_contenders_that_go_are_waited_for(void)
{
	lock_path    path = near_the_end();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("behind foreign ones");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	node         before = foreign_contender(path.text, "f00d__lock__");
	use_up(path.text);
	node behind = foreign_contender(path.text, "f00d__lock__");
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_delete(observer(), before.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 2, ENOUGH_MS, NULL));
	THROUGHOUT(recorder_count(&events, ZKL_EV_GRANTED) == 0, 200);
	EXPECT_INT(zkclient_delete(observer(), behind.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_TRUE(is_anew(path.text));
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void foreign_contenders_that_keep_coming_end_the_attempt(void)
{
	lock_path    path = near_the_end();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("behind foreign ones");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	seen         ended = {0};
	use_up(path.text);
	node present = foreign_contender(path.text, "f00d__lock__");
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	for (int i = 1; recorder_count(&events, ZKL_EV_ENDED) == 0 && i < 100; i++) {
		EVENTUALLY(recorder_count(&events, ZKL_EV_WAITING) >= i || recorder_count(&events, ZKL_EV_ENDED) > 0,
		           ENOUGH_MS);
		node next = foreign_contender(path.text, "f00d__lock__");
		EXPECT_INT(zkclient_delete(observer(), present.path), ZOK);
		present = next;
	}
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_RC(ended.code, ZKL_EEXHAUSTED);
	EXPECT_TRUE(strstr(ended.message, "contenders of other clients") != NULL);
	EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

/* ---- where it cannot be done ---- */

static void expect_exhausted(const char *path, const char *text, int children)
{
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path, NULL);
	zkl_error    error = {0};
	for (int i = 0; i < 2; i++) {
		EXPECT_RC(zkl_lock_acquire(lock, i * ENOUGH_MS, NULL, &error), ZKL_EEXHAUSTED);
		EXPECT_TRUE(strstr(error.message, text) != NULL);
		EXPECT_INT(zkclient_count(observer(), path), children);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

static void child_that_is_no_contender_is_named_as_the_hindrance(void)
{
	lock_path path = near_the_end();
	char      child[300];
	use_up(path.text);
	snprintf(child, sizeof child, "%s/config", path.text);
	EXPECT_INT(zkclient_create(observer(), child, NULL, 0, 0, NULL, 0), ZOK);
	expect_exhausted(path.text, "children that are no contenders", 1);
	EXPECT_TRUE(!is_anew(path.text));
}

static void directory_that_may_not_be_deleted_is_named_as_the_hindrance(void)
{
	use_up("/closed/0");
	expect_exhausted("/closed/0", "its parent's ACL", 0);
	EXPECT_TRUE(!is_anew("/closed/0"));
}

/* ---- crashes ---- */

/* zklock-run, killed at its kth request. false: its command ran before that. */
static bool crash_at(int k, const char *path)
{
	int  out[2];
	bool struck = false, granted = false;
	net  way;
	net_open(&way, 1, 1);
	proxy_arm(way.at[0],
	          &(proxy_rule){.op = OP_ANY, .nth = k, .act = k % 2 ? PROXY_HOLD_REQUEST : PROXY_HOLD_REPLY});
	CU_ASSERT_FATAL(pipe(out) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		execl(getenv("ZKLOCK_RUN"), "zklock-run", "-s", way.servers, "-T", "4", path, "--", "sh", "-c",
		      "echo granted; exec sleep 1000", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while (!struck && !granted) {
		struct pollfd readable = {.fd = out[0], .events = POLLIN};
		granted = poll(&readable, 1, 0) == 1;
		struck = proxy_wait_struck(way.at[0], 10);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(out[0]);
	net_cut(&way);
	net_close(&way);
	return struck;
}

static void crash_at_each_request_of_a_renewal_stops_nobody(void)
{
	bool crashed = true;
	int  k = 1;
	for (; crashed && k < 30; k++) {
		lock_path    path = near_the_end();
		zkl_session *s;
		zkl_lock    *lock;
		zkl_grant    grant;
		use_up(path.text);
		crashed = crash_at(k, path.text);
		s = session_open(all_servers(), SESSION_MS);
		lock = lock_new(s, path.text, NULL);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS + SESSION_MS, &grant, NULL), ZKL_OK);
		EXPECT_TRUE(is_anew(path.text));
		/* What was killed may have queued behind us. */
		EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS + SESSION_MS);
		zkl_lock_free(lock);
		zkl_session_close(s, ENOUGH_MS);
	}
	EXPECT_RANGE(k, 9, 29); /* create, list, delete, list, the directory, the path, create, list at least */
}

/* ---- elections ---- */

static void candidates_and_observers_pass_the_end(void)
{
	lock_path     path = near_the_end();
	zkl_session  *s = session_open(all_servers(), SESSION_MS), *other = session_open(all_servers(), SESSION_MS);
	recorder      old_events = RECORDER("old"), new_events = RECORDER("new"), events = RECORDER("observer");
	zkl_election *old = election_new(s, path.text, 0, &old_events),
		     *new = election_new(s, path.text, 0, &new_events);
	zkl_election *watcher = election_new(other, path.text, ZKL_OBSERVE, &events);
	seen          before = {0}, after = {0};
	EXPECT_RC(zkl_election_campaign(old, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&old_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &before));
	EXPECT_TRUE(recorder_wait_leader(&events, before.token, ENOUGH_MS, NULL));
	use_up(path.text);
	EXPECT_RC(zkl_election_campaign(new, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&new_events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_election_resign(old, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&new_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &after));
	EXPECT_TRUE(after.token > before.token && after.epoch == 0);
	EXPECT_TRUE(recorder_wait_leader(&events, after.token, ENOUGH_MS, NULL));
	zkl_election_free(old);
	zkl_election_free(new);
	zkl_election_free(watcher);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_close(other, ENOUGH_MS);
	recorder_free(&old_events);
	recorder_free(&new_events);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(tokens_grow_across_the_end, 60)},
		{TEST(try_at_the_end_makes_the_directory_anew, 60)},
		{TEST(eight_contenders_pass_the_end_one_at_a_time, 300)},
		{TEST(those_before_the_end_are_waited_for, 60)},
		{TEST(who_gives_up_waiting_for_the_end_leaves_no_trace, 60)},
		{TEST(foreign_contenders_that_go_are_waited_for, 60)},
		{TEST(foreign_contenders_that_keep_coming_end_the_attempt, 60)},
		{TEST(child_that_is_no_contender_is_named_as_the_hindrance, 60)},
		{TEST(directory_that_may_not_be_deleted_is_named_as_the_hindrance, 60)},
		{TEST(crash_at_each_request_of_a_renewal_stops_nobody, 300)},
		{TEST(candidates_and_observers_pass_the_end, 60)},
		{0},
	};
	return harness_main(argc, argv, "renewal", tests);
}
