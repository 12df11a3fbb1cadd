/* SPDX-License-Identifier: Apache-2.0 */
/* The lock as its header describes it: grants, tokens, events, errors, timeouts, closing. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zklock/guarded.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000 /* for anything that needs a few round trips, on a busy machine */

/* ---- grants ---- */

static void one_node_while_held_none_after(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant = {0};
	zkl_peer     peer = {0};
	struct Stat  stat;
	char         own[64];
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	EXPECT_TRUE(strncmp(grant.node, path.text, strlen(path.text)) == 0);
	EXPECT_TRUE(strstr(grant.node, "/_c_") != NULL && strstr(grant.node, "-lock-") != NULL);
	EXPECT_INT(zkclient_stat(observer(), grant.node, &stat), ZOK);
	EXPECT_TRUE(stat.ephemeralOwner == grant.session_id && stat.czxid == grant.zxid);
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) > 0);
	EXPECT_RC(zkl_lock_check(lock, grant.token + 1), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_check(lock, 0), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_holder(s, path.text, &peer, NULL), 1);
	EXPECT_TRUE(peer.token == grant.token && peer.epoch == grant.epoch && peer.waiting == 0);
	snprintf(own, sizeof own, ":%d ", (int)getpid());
	EXPECT_TRUE(strstr(peer.id, own) != NULL);
	EXPECT_RANGE(peer.since_ms / 1000, time(NULL) - 60, time(NULL) + 60);
	EXPECT_INT(peer.held_ms, peer.since_ms);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	EXPECT_RC(zkl_lock_check(lock, grant.token), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_holder(s, path.text, &peer, NULL), 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void token_is_the_directorys_birth_plus_the_epoch_and_grows(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	uint64_t     last = 0;
	for (int i = 0; i < 50; i++) {
		zkl_grant   grant = {0};
		struct Stat directory;
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_INT(zkclient_stat(observer(), path.text, &directory), ZOK);
		EXPECT_TRUE(grant.token == (uint64_t)directory.czxid + grant.epoch);
		EXPECT_TRUE(grant.token > last && grant.token < (uint64_t)grant.zxid);
		EXPECT_INT((int64_t)grant.epoch, strtoll(grant.node + strlen(grant.node) - 10, NULL, 10));
		last = grant.token;
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		if (i % 10 == 9)
			EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
		if (i % 20 == 19)
			EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

static void no_stays_a_no_for_its_token(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    first = {0}, second = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &first, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_check(lock, first.token), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &second, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_check(lock, first.token), ZKL_ENOTHELD);
	EXPECT_TRUE(zkl_lock_check(lock, second.token) > 0);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* ---- events ---- */

static void events_of_a_wait_a_grant_and_a_release(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     first_events = RECORDER("first"), second_events = RECORDER("second");
	zkl_lock    *first = lock_new(s, path.text, &first_events), *second = lock_new(s, path.text, &second_events);
	seen         e;
	EXPECT_RC(zkl_lock_start(first, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&first_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
	EXPECT_RANGE(e.lease_ms, 1, SESSION_MS);
	EXPECT_TRUE(zkl_lock_check(first, e.token) > 0);
	EXPECT_RC(zkl_lock_start(second, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&second_events, ZKL_EV_WAITING, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.ahead, 1);
	EXPECT_INT(e.requeued, 0);
	EXPECT_RC(zkl_lock_release(first, 0, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&first_events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.code, 0);
	EXPECT_TRUE(recorder_wait(&second_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(second, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&second_events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.code, 0);
	EXPECT_INT(recorder_count(&first_events, ZKL_EV_WAITING), 0);
	EXPECT_INT(recorder_total(&first_events), 2);
	zkl_lock_free(first);
	zkl_lock_free(second);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&first_events);
	recorder_free(&second_events);
}

static void block_while_flag_is_one(const zkl_event *ev, recorder *r)
{
	(void)ev;
	while (atomic_load(&r->flag) == 1)
		poll_pause();
}

static void a_blocked_callback_delays_no_other_lock_and_no_heartbeat(void)
{
	lock_path    path = new_path(), other_path = new_path();
	int64_t      timeout_ms = tick_ms() * 4;
	zkl_session *s = session_open(servers[0], timeout_ms);
	recorder     events = RECORDER("blocked");
	zkl_lock    *held = lock_new(s, path.text, NULL), *blocked = lock_new(s, path.text, &events);
	zkl_lock    *other = lock_new(s, other_path.text, NULL);
	zkl_grant    grant = {0}, other_grant = {0};
	int          cycles = 0;
	bool         kept = true;
	writer       plain;
	writer_start(&plain, servers[0]); /* what this server manages */
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	events.then = block_while_flag_is_one;
	atomic_store(&events.flag, 1);
	EXPECT_RC(zkl_lock_start(blocked, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	/* By its heartbeat alone, and then beside others. */
	for (int64_t end_ms = now_ms() + 2 * timeout_ms; kept && now_ms() < end_ms; poll_pause())
		kept = zkl_lock_check(held, grant.token) > 0;
	for (; cycles <= 10; cycles++) {
		EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &other_grant, NULL), ZKL_OK);
		kept = kept && zkl_lock_check(held, grant.token) > 0;
		int rc = zkl_lock_release(other, ENOUGH_MS, NULL);
		EXPECT_TRUE(rc == ZKL_OK || rc == ZKL_ENOTHELD);
		kept = kept && rc == ZKL_OK;
	}
	EXPECT_TRUE(writer_stop(&plain) > timeout_ms / 4 || kept);
	atomic_store(&events.flag, 0);
	zkl_lock_free(blocked);
	zkl_lock_free(held);
	zkl_lock_free(other);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

/* acquire() says it first: by the time that the callbacks come to it, what they would tell of is over. */
static void events_that_come_after_the_release_keep_their_grammar(void)
{
	for (int lost_meanwhile = 0; lost_meanwhile <= 1; lost_meanwhile++) {
		lock_path path = new_path(), blocked_path = new_path();
		net       n;
		seen      e = {0};
		zkl_grant grant = {0};
		net_open(&n, 1, server_count());
		zkl_session *s = session_open(n.servers, 4 * tick_ms());
		recorder     blocking = RECORDER("blocks the callbacks"), events = RECORDER("released meanwhile");
		zkl_lock    *first = lock_new(s, blocked_path.text, &blocking), *lock = lock_new(s, path.text, &events);
		blocking.then = block_while_flag_is_one;
		atomic_store(&blocking.flag, 1);
		EXPECT_RC(zkl_lock_start(first, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&blocking, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		if (lost_meanwhile) {
			net_hold(&n, PROXY_BOTH);
			EVENTUALLY(zkl_lock_check(lock, grant.token) == ZKL_ELOST, ENOUGH_MS);
			atomic_store(&blocking.flag, 0);
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
			net_hold(&n, 0);
		}
		EXPECT_RC(zkl_lock_release(lock, 0, NULL), lost_meanwhile ? ZKL_ENOTHELD : ZKL_OK);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		atomic_store(&blocking.flag, 0);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
		EXPECT_RC(e.code, lost_meanwhile ? ZKL_ELOST : ZKL_OK);
		zkl_lock_free(first);
		zkl_lock_free(lock);
		zkl_session_close(s, ENOUGH_MS);
		net_close(&n);
		recorder_free(&blocking);
		recorder_free(&events);
	}
}

/* What a callback got that called what would block it. */
static struct {
	zkl_session *session;
	zkl_lock    *own, *other;
	const char  *path;
	int          acquire, release, holder, close, release_at_once;
} in_callback;

static void call_all(const zkl_event *ev, recorder *r)
{
	zkl_grant grant;
	zkl_peer  peer;
	(void)r;
	if (ev->type != ZKL_EV_GRANTED)
		return;
	in_callback.acquire = zkl_lock_acquire(in_callback.other, 1000, &grant, NULL);
	in_callback.release = zkl_lock_release(in_callback.own, 1000, NULL);
	in_callback.holder = zkl_lock_holder(in_callback.session, in_callback.path, &peer, NULL);
	in_callback.close = zkl_session_close(in_callback.session, 1000);
	in_callback.release_at_once = zkl_lock_release(in_callback.own, 0, NULL);
}

static void blocking_calls_in_a_callback_say_edeadlk(void)
{
	lock_path    path = new_path(), other_path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("own");
	zkl_lock    *own = lock_new(s, path.text, &events), *other = lock_new(s, other_path.text, NULL);
	seen         e;
	events.then = call_all;
	in_callback.session = s;
	in_callback.own = own;
	in_callback.other = other;
	in_callback.path = path.text;
	EXPECT_RC(zkl_lock_start(own, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.code, 0);
	EXPECT_RC(in_callback.acquire, ZKL_EDEADLK);
	EXPECT_RC(in_callback.release, ZKL_EDEADLK);
	EXPECT_RC(in_callback.holder, ZKL_EDEADLK);
	EXPECT_RC(in_callback.close, ZKL_EDEADLK);
	EXPECT_RC(in_callback.release_at_once, ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), other_path.text), 0);
	zkl_lock_free(own);
	zkl_lock_free(other);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void free_own_lock(const zkl_event *ev, recorder *r)
{
	if (ev->type == ZKL_EV_GRANTED) {
		zkl_lock_free(r->user);
		atomic_store(&r->flag, 1);
	}
}

static void free_in_the_own_callback_is_the_last_one(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	for (int i = 0; i < 20; i++) {
		recorder  events = RECORDER("freed in its callback");
		zkl_lock *lock = lock_new(s, path.text, &events);
		events.then = free_own_lock;
		events.user = lock;
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		EXPECT_INT(recorder_total(&events), 1);
		recorder_free(&events);
	}
	zkl_session_close(s, ENOUGH_MS);
}

static void linger(const zkl_event *ev, recorder *r)
{
	(void)ev;
	atomic_store(&r->flag, 1);
	for (int i = 0; i < 25; i++)
		poll_pause();
	atomic_store(&r->flag, 2);
}

/* Lets go and begins again while the other thread frees the handle: both find it whole, and it leaves nothing. */
static void release_and_start(const zkl_event *ev, recorder *r)
{
	if (ev->type != ZKL_EV_GRANTED)
		return;
	atomic_store(&r->flag, 1);
	while (zkl_lock_start(r->user, ENOUGH_MS, NULL) != ZKL_ESTATE || atomic_load(&r->flag) != 2) {
		zkl_lock_release(r->user, 0, NULL);
		poll_pause();
	}
}

static void handle_is_whole_until_its_callback_has_returned(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("freed meanwhile");
	zkl_lock    *lock = lock_new(s, path.text, &events);

	events.then = release_and_start;
	events.user = lock;
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
	atomic_store(&events.flag, 2);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	recorder_free(&events);
}

typedef struct closing {
	net          n;
	zkl_session *s;
} closing;

/* Once it was asked who holds, and the answer is missing. */
static void *close_while_asked(void *arg)
{
	closing *c = arg;
	while (net_requests(&c->n, OP_SYNC) == 0)
		poll_pause();
	zkl_session_close(c->s, 0);
	return NULL;
}

static void holder_bears_that_its_session_is_closed(void)
{
	closing   c;
	pthread_t thread;
	zkl_peer  peer;

	net_open(&c.n, 1, 1);
	c.s = session_open(c.n.servers, SESSION_MS);
	EVENTUALLY(session_timeout_ms(c.s) > 0, ENOUGH_MS);
	net_hold(&c.n, PROXY_TO_CLIENT);
	EXPECT_INT(pthread_create(&thread, NULL, close_while_asked, &c), 0);
	EXPECT_RC(zkl_lock_holder(c.s, "/locks/nowhere", &peer, NULL), ZKL_ESTATE);
	pthread_join(thread, NULL);
	net_close(&c.n);
}

static void free_waits_for_a_callback_in_another_thread(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	for (int i = 0; i < 10; i++) {
		recorder  events = RECORDER("freed meanwhile");
		zkl_lock *lock = lock_new(s, path.text, &events);
		events.then = linger;
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(atomic_load(&events.flag) != 0, ENOUGH_MS);
		zkl_lock_free(lock);
		EXPECT_INT(atomic_load(&events.flag), 2);
		int count = recorder_total(&events);
		THROUGHOUT(recorder_total(&events) == count, 20);
		recorder_free(&events);
	}
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- errors of state ---- */

static void release_of_nothing_says_enotheld(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	zkl_error    error = {0};
	EXPECT_RC(zkl_lock_release(lock, 0, &error), ZKL_ENOTHELD);
	EXPECT_TRUE(error.code == ZKL_ENOTHELD && error.message[0] != '\0');
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	zkl_lock_free(lock);
	zkl_lock_free(NULL);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_RC(zkl_session_close(NULL, 0), ZKL_OK);
}

static void second_start_says_estate_until_released(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("started twice");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	zkl_grant    grant;
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_ESTATE);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_start(lock, 0, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 2, ENOUGH_MS, NULL));
	zkl_lock_free(lock);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void refuses_options_that_do_not_fit(void)
{
	lock_path    path = new_path();
	char         data[ZKL_DATA_MAX + 1] = {0};
	zkl_options  too_late = ZKL_OPTIONS_INIT, too_much = ZKL_OPTIONS_INIT, fits = ZKL_OPTIONS_INIT;
	zkl_lock    *lock = NULL;
	zkl_error    error = {0};
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	too_late.stop_ms = SESSION_MS / 4 + 1;
	fits.stop_ms = SESSION_MS / 4;
	too_much.data = data;
	too_much.data_len = sizeof data;
	EXPECT_RC(zkl_lock_new(s, path.text, &too_late, &lock, &error), ZKL_EINVAL);
	EXPECT_TRUE(strchr(error.message, '\n') == NULL && strlen(error.message) > 10);
	EXPECT_RC(zkl_lock_new(s, path.text, &too_much, &lock, &error), ZKL_EINVAL);
	EXPECT_TRUE(lock == NULL);
	EXPECT_RC(zkl_lock_new(s, path.text, &fits, &lock, &error), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_options no_margin = session_options(all_servers(), SESSION_MS),
			    nowhere = session_options(NULL, SESSION_MS);
	no_margin.margin_ms = 1;
	EXPECT_RC(zkl_session_open(&no_margin, &s, &error), ZKL_EINVAL);
	EXPECT_TRUE(strstr(error.message, "margin") != NULL);
	no_margin.margin_ms = SESSION_MS / 2;
	no_margin.heartbeat_ms = SESSION_MS * 11 / 24;
	EXPECT_RC(zkl_session_open(&no_margin, &s, &error), ZKL_EINVAL);
	EXPECT_TRUE(strstr(error.message, "heartbeat_ms") != NULL);
	no_margin.heartbeat_ms = SESSION_MS / 3;
	no_margin.margin_ms = SESSION_MS * 5 / 8 + 1;
	EXPECT_RC(zkl_session_open(&no_margin, &s, &error), ZKL_EINVAL);
	EXPECT_TRUE(strstr(error.message, "at most") != NULL);
	EXPECT_RC(zkl_session_open(&nowhere, &s, &error), ZKL_EINVAL);
}

static void child_of_a_fork_gets_eforked_and_harms_nothing(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant = {0};
	zkl_peer     peer;
	zkl_stats    stats = ZKL_STATS_INIT;
	int          status = 0;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		const zkl_write write = {ZKL_WRITE_SET, path.text, NULL, 0, -1};
		zkl_lock       *made = NULL;
		int             wrong = 0;
		wrong |= zkl_lock_check(lock, grant.token) == ZKL_EFORKED ? 0 : 1;
		wrong |= zkl_lock_start(lock, 0, NULL) == ZKL_EFORKED ? 0 : 2;
		wrong |= zkl_lock_acquire(lock, 100, &grant, NULL) == ZKL_EFORKED ? 0 : 4;
		wrong |= zkl_lock_release(lock, 100, NULL) == ZKL_EFORKED ? 0 : 8;
		wrong |= zkl_lock_holder(s, path.text, &peer, NULL) == ZKL_EFORKED ? 0 : 16;
		wrong |= zkl_session_stats(s, &stats) == ZKL_EFORKED ? 0 : 32;
		wrong |= zkl_lock_new(s, path.text, NULL, &made, NULL) == ZKL_EFORKED ? 0 : 64;
		wrong |= zkl_guarded_multi(s, &grant, &write, 1, 100, NULL) == ZKL_EFORKED &&
		                         zkl_guarded_set(s, &grant, path.text, NULL, 0, -1, 100, NULL) == ZKL_EFORKED &&
		                         zkl_guarded_create(s, &grant, path.text, NULL, 0, 100, NULL) == ZKL_EFORKED &&
		                         zkl_guarded_delete(s, &grant, path.text, -1, 100, NULL) == ZKL_EFORKED
		                 ? 0
		                 : 128;
		zkl_lock_free(lock);
		zkl_session_close(s, 100);
		_exit(wrong);
	}
	EXPECT_TRUE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	EXPECT_INT(WEXITSTATUS(status), 0);
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) > 0);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- try ---- */

static void try_gets_a_free_lock(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant = {0};
	for (int i = 0; i < 20; i++) { /* the first one finds no directory, and no connection either */
		EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_release(lock, i % 2 ? ENOUGH_MS : 0, NULL), ZKL_OK);
	}
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

static void try_right_behind_a_release_does_not_meet_our_own_node(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant = {0};

	for (int i = 0; i < 50; i++) {
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_release(lock, 0, NULL), ZKL_OK);
		/* Given up before it has begun. */
		EXPECT_RC(zkl_lock_start(lock, 0, NULL), ZKL_OK);
		EXPECT_RC(zkl_lock_release(lock, i % 2 ? ENOUGH_MS : 0, NULL), ZKL_OK);
	}
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, INT64_MAX), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* kazoo #732: tries in vain that write, or leave nodes behind. */
static void try_of_a_busy_lock_writes_nothing(void)
{
	lock_path path = new_path();
	net       n;
	net_open(&n, 1, server_count());
	zkl_session *holding = session_open(all_servers(), SESSION_MS), *trying = session_open(n.servers, SESSION_MS);
	zkl_lock    *held = lock_new(holding, path.text, NULL);
	recorder     events = RECORDER("tries");
	zkl_lock    *tried = lock_new(trying, path.text, &events);
	zkl_grant    grant;
	zkl_peer     peer;
	seen         e;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	/* A leader's sync does not wait for what a follower has already acknowledged: its own tree may be a moment behind. */
	EVENTUALLY(zkl_lock_holder(trying, path.text, &peer, NULL) == 1, ENOUGH_MS);
	int tries = 0;
	while (tries < rounds(200, 30000) && EXPECT_RC(zkl_lock_acquire(tried, 0, &grant, NULL), ZKL_EBUSY))
		tries++;
	EXPECT_RC(zkl_lock_start(tried, 0, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, tries + 1, ENOUGH_MS, &e)); /* each try has one */
	EXPECT_RC(e.code, ZKL_EBUSY);
	EXPECT_INT(net_requests(&n, OP_CREATE2) + net_requests(&n, OP_CREATE), 0);
	EXPECT_INT(net_requests(&n, OP_DELETE) + net_requests(&n, OP_SET_DATA) + net_requests(&n, OP_MULTI), 0);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	int rc = zkl_lock_release(held, ENOUGH_MS, NULL); /* its lease does not matter here */
	EXPECT_TRUE(rc == ZKL_OK || rc == ZKL_ENOTHELD);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	EXPECT_RC(zkl_lock_acquire(tried, 0, &grant, NULL), ZKL_OK);
	zkl_lock_free(held);
	zkl_lock_free(tried);
	zkl_session_close(holding, ENOUGH_MS);
	zkl_session_close(trying, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* ---- timeouts and cancelling ---- */

static void acquire_times_out_in_time_and_leaves_no_node(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *held = lock_new(s, path.text, NULL), *waiting = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	static const int64_t timeouts_ms[] = {1, 50, 300, 2000};
	for (size_t i = 0; i < sizeof timeouts_ms / sizeof *timeouts_ms; i++) {
		zkl_error error = {0};
		int64_t   start_ns = now_ns();
		EXPECT_RC(zkl_lock_acquire(waiting, timeouts_ms[i], &grant, &error), ZKL_ETIMEDOUT);
		EXPECT_RANGE((now_ns() - start_ns) / 1000, timeouts_ms[i] * 1000, late(timeouts_ms[i]) * 1000);
		EXPECT_RC(error.code, ZKL_ETIMEDOUT);
		EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
	}
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	zkl_session_close(s, ENOUGH_MS);
}

/* CURATOR-559: a timeout that does not hold while nobody answers. */
static void acquire_keeps_its_timeout_while_no_server_answers(void)
{
	static const struct {
		proxy_door door;
		unsigned   held;
	} outages[] = {{PROXY_REFUSING, 0}, {PROXY_UNANSWERING, 0}, {PROXY_OPEN, PROXY_BOTH}};
	for (size_t i = 0; i < 3; i++) {
		lock_path path = new_path();
		net       n;
		net_open(&n, 1, server_count());
		net_set_door(&n, outages[i].door);
		net_hold(&n, outages[i].held);
		zkl_session *s = session_open(n.servers, SESSION_MS);
		zkl_lock    *lock = lock_new(s, path.text, NULL);
		zkl_grant    grant;
		zkl_error    error = {0};
		int64_t      start_ns = now_ns();
		EXPECT_RC(zkl_lock_acquire(lock, 2000, &grant, &error), ZKL_ENOTCONN);
		EXPECT_RANGE((now_ns() - start_ns) / 1000, 2000 * 1000, late(2000) * 1000);
		net_set_door(&n, PROXY_OPEN);
		net_hold(&n, 0);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS * 2, &grant, NULL), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), path.text), 1);
		zkl_lock_free(lock);
		zkl_session_close(s, ENOUGH_MS);
		net_close(&n);
	}
}

static void try_and_holder_keep_op_ms_while_no_server_answers(void)
{
	net       n;
	lock_path path = new_path();
	net_open(&n, 1, server_count());
	net_hold(&n, PROXY_BOTH);
	zkl_session_options options = session_options(n.servers, SESSION_MS);
	zkl_session        *s = NULL;
	zkl_grant           grant;
	zkl_peer            peer;
	options.op_ms = 700;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, NULL);
	int64_t   start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 699, late(700));
	start_ms = now_ms();
	EXPECT_RC(zkl_lock_holder(s, path.text, &peer, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 699, late(700));
	zkl_lock_free(lock);
	zkl_session_close(s, 0);
	net_close(&n);
}

static void release_in_another_thread_cancels_an_acquire(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("cancelled");
	zkl_lock    *held = lock_new(s, path.text, NULL), *waiting = lock_new(s, path.text, &events);
	zkl_grant    grant;
	acquirer     a;
	seen         e;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	acquirer_start(&a, waiting, ZKL_FOREVER);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(waiting, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(acquirer_join(&a), ZKL_ECANCELED);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_ECANCELED);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

static void session_cancel_ends_waits_and_keeps_grants(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("waiting"), held_events = RECORDER("held");
	zkl_lock    *held = lock_new(s, path.text, &held_events), *waiting = lock_new(s, path.text, &events);
	zkl_grant    grant = {0}, none;
	acquirer     a;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	acquirer_start(&a, waiting, ZKL_FOREVER);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	zkl_session_cancel(s);
	zkl_session_cancel(NULL);
	EXPECT_RC(acquirer_join(&a), ZKL_ECANCELED);
	EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
	EXPECT_RC(zkl_lock_acquire(waiting, 0, &none, NULL), ZKL_ECANCELED);
	EXPECT_RC(zkl_lock_acquire(waiting, ENOUGH_MS, &none, NULL), ZKL_ECANCELED);
	EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
	EXPECT_INT(recorder_count(&held_events, ZKL_EV_LOST) + recorder_count(&held_events, ZKL_EV_ENDED), 0);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
	recorder_free(&held_events);
}

/* ---- closing ---- */

static void close_releases_all_and_then_handles_say_estate(void)
{
	lock_path    path = new_path(), other_path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("waiting");
	zkl_lock    *held = lock_new(s, path.text, NULL), *waiting = lock_new(s, path.text, &events);
	zkl_lock    *other = lock_new(s, other_path.text, NULL);
	zkl_grant    grant = {0};
	acquirer     a;
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &grant, NULL), ZKL_OK);
	acquirer_start(&a, waiting, ZKL_FOREVER);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RANGE(acquirer_join(&a), ZKL_ECANCELED, ZKL_ESTATE);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	EXPECT_INT(zkclient_count(observer(), other_path.text), 0);
	EXPECT_TRUE(zkl_lock_check(other, grant.token) < 0);
	EXPECT_RC(zkl_lock_start(held, 0, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_lock_acquire(held, 0, &grant, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_lock_release(held, 0, NULL), ZKL_ESTATE);
	zkl_lock_free(held);
	zkl_lock_free(waiting);
	zkl_lock_free(other);
	recorder_free(&events);
}

static void close_keeps_its_timeout_while_servers_are_silent(void)
{
	static const int64_t timeouts_ms[] = {0, 1000};
	for (size_t i = 0; i < 4; i++) {
		lock_path path = new_path();
		net       n;
		net_open(&n, 1, server_count());
		zkl_session *s = session_open(n.servers, 4 * tick_ms());
		zkl_lock    *lock = lock_new(s, path.text, NULL);
		zkl_grant    grant;
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		net_hold(&n, PROXY_BOTH);
		if (i >= 2) {
			net_set_door(&n, PROXY_REFUSING);
			net_cut(&n);
		}
		int64_t start_ms = now_ms(), timeout_ms = timeouts_ms[i % 2];
		EXPECT_RC(zkl_session_close(s, timeout_ms), ZKL_ETIMEDOUT);
		EXPECT_RANGE(now_ms() - start_ms, timeout_ms - 1, late(timeout_ms));
		zkl_lock_free(lock);
		net_close(&n);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, 12 * tick_ms());
	}
}

static void close_without_any_connection_is_quick(void)
{
	net n;
	net_open(&n, 1, server_count());
	net_set_door(&n, PROXY_REFUSING);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	int64_t      start_ms = now_ms();
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_RANGE(now_ms() - start_ms, 0, late(0));
	net_close(&n);
}

/* ---- who holds ---- */

static void holder_shows_the_holders_data(void)
{
	static const char data[] = "primary\0 at\nport=5432\n\n\xff";
	lock_path         path = new_path();
	zkl_session      *s = session_open(all_servers(), SESSION_MS);
	zkl_options       options = ZKL_OPTIONS_INIT;
	zkl_lock         *lock = NULL, *waiting = lock_new(s, path.text, NULL);
	zkl_grant         grant = {0};
	zkl_peer          peer = {0};
	options.data = data;
	options.data_len = sizeof data;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &lock, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(waiting, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EVENTUALLY(zkl_lock_holder(s, path.text, &peer, NULL) == 2, ENOUGH_MS); /* its server may lag */
	EXPECT_TRUE(peer.token == grant.token && peer.waiting == 1);
	EXPECT_TRUE(peer.data_len == sizeof data && memcmp(peer.data, data, sizeof data) == 0);
	zkl_lock_free(waiting);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* Makes a contender of somebody else's and asks who holds. */
static zkl_peer holder_with_data(zkl_session *s, const char *data, int len)
{
	lock_path path = new_path();
	zkl_peer  peer = {0};
	char      name[300], made[300] = "";
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	snprintf(name, sizeof name, "%s/_c_0dc8d27c-3d1f-4d3a-b4ea-0ef7f9f6c8a1-lock-", path.text);
	EXPECT_INT(zkclient_create(observer(), name, data, len, ZOO_EPHEMERAL | ZOO_SEQUENCE, made, sizeof made), ZOK);
	EVENTUALLY(zkl_lock_holder(s, path.text, &peer, NULL) == 1, ENOUGH_MS);
	EXPECT_INT(zkclient_delete(observer(), made), ZOK);
	return peer;
}

static void holder_bears_data_that_is_not_ours(void)
{
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	char         big[3000];
	zkl_peer     peer = holder_with_data(s, "10.0.0.7", 8); /* as Curator's recipes write it */
	EXPECT_TRUE(strcmp(peer.id, "10.0.0.7") == 0);
	peer = holder_with_data(s, "a\n\x1b\xff\\", 5);
	EXPECT_TRUE(strncmp(peer.id, "a\\x", 3) == 0 && strstr(peer.id, "\\xff") != NULL);
	for (const char *c = peer.id; *c != '\0'; c++)
		EXPECT_TRUE(*c >= 0x20 && *c < 0x7f);
	memset(big, 0x80, sizeof big);
	peer = holder_with_data(s, big, sizeof big);
	EXPECT_TRUE(strlen(peer.id) < sizeof peer.id);
	EXPECT_INT(peer.data_len, sizeof big);
	peer = holder_with_data(s, NULL, 0);
	EXPECT_INT(peer.data_len, 0);
	peer = holder_with_data(s, "zklock 1", 8); /* a version and nothing behind it */
	peer = holder_with_data(s, "zklock 1\nid=", 12);
	zkl_session_close(s, ENOUGH_MS);
}

static void holder_skips_keys_that_it_does_not_know(void)
{
	static const char data[] = "zklock 1\nid=web1:17 backup\ncolour=blue\nhost=web1\npid=17\n\nown";
	zkl_session      *s = session_open(all_servers(), SESSION_MS);
	zkl_peer          peer = holder_with_data(s, data, (int)sizeof data - 1);
	EXPECT_TRUE(strcmp(peer.id, "web1:17 backup") == 0);
	EXPECT_TRUE(peer.data_len == 3 && memcmp(peer.data, "own", 3) == 0);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- stop_ms ---- */

static void stop_ms_comes_off_the_lease(void)
{
	lock_path    path = new_path(), other_path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_options  options = ZKL_OPTIONS_INIT;
	zkl_lock    *early = NULL, *late = lock_new(s, other_path.text, NULL);
	zkl_grant    early_grant = {0}, late_grant = {0};
	options.stop_ms = SESSION_MS / 4;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &early, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(early, ENOUGH_MS, &early_grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(late, ENOUGH_MS, &late_grant, NULL), ZKL_OK);
	int64_t best = INT64_MAX;
	for (int i = 0; i < 20; i++) { /* the shortest distance: a proof may come between the two looks */
		int64_t left_early = zkl_lock_check(early, early_grant.token),
			left_late = zkl_lock_check(late, late_grant.token);
		EXPECT_TRUE(left_early > 0 && left_late > 0);
		best = left_late - left_early < best ? left_late - left_early : best;
		poll_pause();
	}
	EXPECT_RANGE(best, options.stop_ms - 50, options.stop_ms + 50);
	zkl_lock_free(early);
	zkl_lock_free(late);
	zkl_session_close(s, ENOUGH_MS);
}

static void stop_ms_that_a_shortened_timeout_cannot_hold_ends_the_attempt(void)
{
	lock_path path = new_path();
	net       n;
	net_open(&n, 1, 1);
	net_set_door(&n, PROXY_REFUSING);
	zkl_session *s = session_open(n.servers, tick_ms() * 40); /* servers grant 20 ticks at most */
	recorder     events = RECORDER("stops too early");
	zkl_options  options = ZKL_OPTIONS_INIT;
	zkl_lock    *lock = NULL;
	seen         e = {0};
	options.on_event = recorder_event;
	options.user = &events;
	options.stop_ms = tick_ms() * 8;
	EXPECT_RC(zkl_lock_new(s, path.text, &options, &lock, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	net_set_door(&n, PROXY_OPEN);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, 2 * ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EINVAL);
	EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

/* ---- a loop of the caller's own ---- */

static struct {
	zkl_session *session;
	pthread_t    loop;
	bool         elsewhere; /* a callback ran in another thread */
	int          process;
} manual;

static void note_thread(const zkl_event *ev, recorder *r)
{
	(void)ev;
	(void)r;
	manual.elsewhere |= !pthread_equal(pthread_self(), manual.loop);
	manual.process = zkl_session_process(manual.session);
}

/* Polls and processes until the nth event of this type has come. */
static bool process_until(zkl_session *s, recorder *r, zkl_event_type type, int nth)
{
	for (int64_t end_ms = now_ms() + ENOUGH_MS; recorder_count(r, type) < nth && now_ms() < end_ms;) {
		struct pollfd ready = {zkl_session_fd(s), POLLIN, 0};
		if (poll(&ready, 1, 100) == 1)
			EXPECT_TRUE(zkl_session_process(s) >= 0);
	}
	return recorder_count(r, type) >= nth;
}

static void manual_session_delivers_in_process_only(void)
{
	lock_path           path = new_path();
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	recorder            events = RECORDER("manual"), other_events = RECORDER("other");
	zkl_session        *s = NULL;
	options.flags = ZKL_MANUAL;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, &events), *other = lock_new(s, path.text, &other_events);
	manual.session = s;
	manual.loop = pthread_self();
	manual.elsewhere = false;
	events.then = other_events.then = note_thread;
	int fd = zkl_session_fd(s);
	EXPECT_TRUE(fd >= 0);
	EXPECT_RC(zkl_session_process(s), 0);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	struct pollfd ready = {fd, POLLIN, 0};
	EXPECT_INT(poll(&ready, 1, ENOUGH_MS), 1);
	EXPECT_INT(poll(&ready, 1, ENOUGH_MS), 1); /* level-triggered */
	EXPECT_INT(recorder_total(&events), 0);
	EXPECT_TRUE(process_until(s, &events, ZKL_EV_GRANTED, 1));
	EXPECT_RC(manual.process, ZKL_EDEADLK);
	EXPECT_INT(poll(&ready, 1, 0), 0);
	EXPECT_RC(zkl_lock_start(other, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(process_until(s, &other_events, ZKL_EV_WAITING, 1));
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(process_until(s, &events, ZKL_EV_ENDED, 1));
	EXPECT_TRUE(process_until(s, &other_events, ZKL_EV_GRANTED, 1));
	EXPECT_INT(zkl_session_fd(s), fd);
	EXPECT_TRUE(!manual.elsewhere);
	zkl_lock_free(lock);
	zkl_lock_free(other);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	s = session_open(all_servers(), SESSION_MS);
	EXPECT_RC(zkl_session_fd(s), ZKL_EINVAL);
	EXPECT_RC(zkl_session_process(s), ZKL_EINVAL);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
	recorder_free(&other_events);
}

/* ---- threads ---- */

typedef struct cycler {
	pthread_t   thread;
	zkl_lock   *lock;
	int         cycles, failures;
	uint64_t    last_token;
	atomic_int *inside, *overlaps;
} cycler;

static void *cycle(void *arg)
{
	cycler *c = arg;
	for (int i = 0; i < c->cycles; i++) {
		zkl_grant grant = {0};
		if (zkl_lock_acquire(c->lock, 2 * ENOUGH_MS, &grant, NULL) != ZKL_OK || grant.token <= c->last_token) {
			c->failures++;
			break;
		}
		c->last_token = grant.token;
		if (atomic_fetch_add(c->inside, 1) != 0)
			atomic_fetch_add(c->overlaps, 1);
		if (zkl_lock_check(c->lock, grant.token) <= 0)
			c->failures++;
		sched_yield();
		atomic_fetch_sub(c->inside, 1);
		if (zkl_lock_release(c->lock, i % 3 ? 0 : ENOUGH_MS, NULL) != ZKL_OK)
			c->failures++;
	}
	return NULL;
}

static void exclude_each_other(zkl_session *const sessions[], size_t count, int cycles)
{
	lock_path  path = new_path();
	atomic_int inside = 0, overlaps = 0;
	cycler     cyclers[8];
	for (size_t i = 0; i < count; i++) {
		cyclers[i] = (cycler){.lock = lock_new(sessions[i], path.text, NULL),
		                      .cycles = cycles,
		                      .inside = &inside,
		                      .overlaps = &overlaps};
		EXPECT_INT(pthread_create(&cyclers[i].thread, NULL, cycle, &cyclers[i]), 0);
	}
	for (size_t i = 0; i < count; i++) {
		pthread_join(cyclers[i].thread, NULL);
		EXPECT_INT(cyclers[i].failures, 0);
		zkl_lock_free(cyclers[i].lock);
	}
	EXPECT_INT(atomic_load(&overlaps), 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
}

/* ZooKeeper's own C recipe lets both own the lock: it knows contenders by their session. */
static void two_handles_of_one_session_exclude_each_other(void)
{
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	exclude_each_other((zkl_session *[]){s, s}, 2, rounds(200, 3000));
	zkl_session_close(s, ENOUGH_MS);
}

static void handles_of_several_sessions_exclude_each_other(void)
{
	zkl_session *a = session_open(all_servers(), SESSION_MS), *b = session_open(all_servers(), SESSION_MS);
	exclude_each_other((zkl_session *[]){a, b, a, b}, 4, rounds(100, 1500));
	zkl_session_close(a, ENOUGH_MS);
	zkl_session_close(b, ENOUGH_MS);
}

typedef struct releaser {
	pthread_t   thread;
	zkl_lock   *lock;
	atomic_bool stop;
	int         wrong;
} releaser;

static void *release_all_the_time(void *arg)
{
	releaser *r = arg;
	unsigned  random = (unsigned)now_ns();
	for (int i = 0; !atomic_load(&r->stop); i++) {
		int rc = zkl_lock_release(r->lock, 0, NULL);
		if (rc != ZKL_OK && rc != ZKL_ENOTHELD)
			r->wrong = rc;
		/* Some round trips or less, so that it meets every step; at times long enough for a grant on any machine. */
		nanosleep(&(struct timespec){0, i % 16 ? rand_r(&random) % 5000000 : 100000000}, NULL);
	}
	return NULL;
}

/* CURATOR-376 */
static void release_in_one_thread_while_another_acquires(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	releaser     r = {.lock = lock_new(s, path.text, NULL)};
	int          granted = 0, cancelled = 0;
	EXPECT_INT(pthread_create(&r.thread, NULL, release_all_the_time, &r), 0);
	for (int i = 0; i < rounds(5000, 100000); i++) {
		zkl_grant grant = {0};
		int       rc = zkl_lock_acquire(r.lock, ENOUGH_MS, &grant, NULL);
		granted += rc == ZKL_OK;
		cancelled += rc == ZKL_ECANCELED;
		if (rc != ZKL_OK && rc != ZKL_ECANCELED) {
			EXPECT_RC(rc, ZKL_OK);
			break;
		}
		if (rc == ZKL_OK) {
			rc = zkl_lock_release(r.lock, 0, NULL);
			if (rc != ZKL_OK && rc != ZKL_ENOTHELD)
				EXPECT_RC(rc, ZKL_OK);
		}
	}
	atomic_store(&r.stop, true);
	pthread_join(r.thread, NULL);
	EXPECT_RC(r.wrong, ZKL_OK);
	EXPECT_TRUE(granted > 0 && cancelled > 0);
	zkl_lock_free(r.lock);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	zkl_session_close(s, ENOUGH_MS);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(one_node_while_held_none_after, 60)},
		{TEST(token_is_the_directorys_birth_plus_the_epoch_and_grows, 60)},
		{TEST(no_stays_a_no_for_its_token, 60)},
		{TEST(events_of_a_wait_a_grant_and_a_release, 60)},
		{TEST(a_blocked_callback_delays_no_other_lock_and_no_heartbeat, 60)},
		{TEST(events_that_come_after_the_release_keep_their_grammar, 60)},
		{TEST(blocking_calls_in_a_callback_say_edeadlk, 60)},
		{TEST(free_in_the_own_callback_is_the_last_one, 60)},
		{TEST(free_waits_for_a_callback_in_another_thread, 60)},
		{TEST(handle_is_whole_until_its_callback_has_returned, 60)},
		{TEST(holder_bears_that_its_session_is_closed, 60)},
		{TEST(release_of_nothing_says_enotheld, 60)},
		{TEST(second_start_says_estate_until_released, 60)},
		{TEST(refuses_options_that_do_not_fit, 60)},
		{TEST(child_of_a_fork_gets_eforked_and_harms_nothing, 60)},
		{TEST(try_gets_a_free_lock, 60)},
		{TEST(try_right_behind_a_release_does_not_meet_our_own_node, 60)},
		{TEST(try_of_a_busy_lock_writes_nothing, 600)},
		{TEST(acquire_times_out_in_time_and_leaves_no_node, 60)},
		{TEST(acquire_keeps_its_timeout_while_no_server_answers, 120)},
		{TEST(try_and_holder_keep_op_ms_while_no_server_answers, 60)},
		{TEST(release_in_another_thread_cancels_an_acquire, 60)},
		{TEST(session_cancel_ends_waits_and_keeps_grants, 60)},
		{TEST(close_releases_all_and_then_handles_say_estate, 60)},
		{TEST(close_keeps_its_timeout_while_servers_are_silent, 120)},
		{TEST(close_without_any_connection_is_quick, 60)},
		{TEST(holder_shows_the_holders_data, 60)},
		{TEST(holder_bears_data_that_is_not_ours, 60)},
		{TEST(holder_skips_keys_that_it_does_not_know, 60)},
		{TEST(stop_ms_comes_off_the_lease, 60)},
		{TEST(stop_ms_that_a_shortened_timeout_cannot_hold_ends_the_attempt, 60)},
		{TEST(manual_session_delivers_in_process_only, 60)},
		{TEST(two_handles_of_one_session_exclude_each_other, 600)},
		{TEST(handles_of_several_sessions_exclude_each_other, 600)},
		{TEST(release_in_one_thread_while_another_acquires, 900)},
		{0},
	};
	return harness_main(argc, argv, "lock", tests);
}
