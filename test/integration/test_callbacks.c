/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks: one at a time, and what may be freed and closed in them and beside them. What concerns one lock alone is tested
 * in test_lock.c. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  10000

/* ---- one at a time ---- */

static struct {
	atomic_int inside, most, calls;
} at_once;

static void count_inside(const zkl_event *ev, recorder *r)
{
	int now = atomic_fetch_add(&at_once.inside, 1) + 1;
	if (now > atomic_load(&at_once.most))
		atomic_store(&at_once.most, now);
	atomic_fetch_add(&at_once.calls, 1);
	sched_yield();
	if (ev->type == ZKL_EV_GRANTED && r->user != NULL)
		zkl_lock_release(r->user, 0, NULL);
	atomic_fetch_sub(&at_once.inside, 1);
}

static void callbacks_of_a_session_come_one_at_a_time(void)
{
	enum { LOCKS = 8 };
	lock_path     paths[LOCKS], office = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	recorder      events[LOCKS], leader_events = RECORDER("candidate and observer");
	zkl_lock     *locks[LOCKS];
	zkl_election *election;
	atomic_store(&at_once.most, 0);
	atomic_store(&at_once.calls, 0);
	leader_events.then = count_inside;
	election = election_new(s, office.text, ZKL_OBSERVE, &leader_events);
	EXPECT_RC(zkl_election_campaign(election, NULL), ZKL_OK);
	for (int i = 0; i < LOCKS; i++) {
		paths[i] = new_path();
		events[i] = (recorder)RECORDER("one of many");
		locks[i] = lock_new(s, paths[i / 2].text, &events[i]);
		events[i].then = count_inside;
		events[i].user = locks[i];
	}
	for (int round = 1; round <= rounds(10, 200); round++) {
		for (int i = 0; i < LOCKS; i++)
			EXPECT_RC(zkl_lock_start(locks[i], ZKL_FOREVER, NULL), ZKL_OK);
		for (int i = 0; i < LOCKS; i++)
			EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_ENDED, round, ENOUGH_MS, NULL));
	}
	EXPECT_TRUE(recorder_wait(&leader_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	EXPECT_INT(atomic_load(&at_once.most), 1);
	EXPECT_TRUE(atomic_load(&at_once.calls) > 2 * LOCKS);
	for (int i = 0; i < LOCKS; i++)
		zkl_lock_free(locks[i]);
	zkl_election_free(election);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	for (int i = 0; i < LOCKS; i++)
		recorder_free(&events[i]);
	recorder_free(&leader_events);
}

/* ---- freed in a callback ---- */

typedef struct victims {
	zkl_lock     *lock;
	zkl_election *election;
} victims;

static void free_others(const zkl_event *ev, recorder *r)
{
	victims *v = r->user;
	if (ev->type != ZKL_EV_GRANTED)
		return;
	zkl_lock_free(v->lock);
	zkl_election_free(v->election);
	atomic_store(&r->flag, 1);
}

/* Of the same session: one that waits, and one that leads and observes, with events on their way. */
static void other_handles_are_freed_in_a_callback(void)
{
	for (int i = 0; i < rounds(15, 300); i++) {
		lock_path    path = new_path(), other_path = new_path(), office = new_path();
		zkl_session *s = session_open(all_servers(), SESSION_MS);
		recorder     events = RECORDER("frees the others"), lock_events = RECORDER("freed lock");
		recorder     office_events = RECORDER("freed election");
		node      other = foreign_contender(other_path.text, "_c_6a2d70f2-6a61-4a0e-a0b4-34a1c2b6e001-lock-");
		victims   v;
		zkl_lock *lock = lock_new(s, path.text, &events);
		v.lock = lock_new(s, other_path.text, &lock_events);
		v.election = election_new(s, office.text, ZKL_OBSERVE, &office_events);
		events.then = free_others;
		events.user = &v;
		if (i % 3) {
			EXPECT_RC(zkl_lock_start(v.lock, ZKL_FOREVER, NULL), ZKL_OK);
			EXPECT_RC(zkl_election_campaign(v.election, NULL), ZKL_OK);
		}
		if (i % 3 == 2)
			EXPECT_TRUE(recorder_wait(&office_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
		int heard = recorder_total(&lock_events) + recorder_total(&office_events);
		EXPECT_INT(zkclient_delete(observer(), other.path), ZOK);
		EVENTUALLY(zkclient_count(observer(), other_path.text) + zkclient_count(observer(), office.text) == 0,
		           ENOUGH_MS);
		EXPECT_INT(recorder_total(&lock_events) + recorder_total(&office_events), heard);
		zkl_lock_free(lock);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		recorder_free(&events);
		recorder_free(&lock_events);
		recorder_free(&office_events);
	}
}

static void free_own_election(const zkl_event *ev, recorder *r)
{
	if (ev->type != ZKL_EV_GRANTED)
		return;
	zkl_election_free(r->user);
	atomic_store(&r->flag, 1);
}

static void election_is_freed_in_its_own_callback_while_it_leads(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	for (int i = 0; i < 10; i++) {
		recorder      events = RECORDER("freed in its callback");
		zkl_election *e;
		events.then = free_own_election;
		pthread_mutex_lock(&events.mutex); /* an observer's first event must not come before user is set */
		e = election_new(s, path.text, i % 2 ? ZKL_OBSERVE : 0, &events);
		events.user = e;
		pthread_mutex_unlock(&events.mutex);
		EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
		EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
		int heard = recorder_total(&events);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		EXPECT_INT(recorder_total(&events), heard);
		recorder_free(&events);
	}
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void free_own_lock(const zkl_event *ev, recorder *r)
{
	if (ev->type != ZKL_EV_GRANTED)
		return;
	zkl_lock_free(r->user);
	atomic_store(&r->flag, 1);
}

static zkl_session *manual_session(void)
{
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;
	options.flags = ZKL_MANUAL;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	return s;
}

static void handles_are_freed_in_their_own_callbacks_in_process(void)
{
	lock_path    path = new_path(), office = new_path();
	zkl_session *s = manual_session();
	for (int i = 0; i < 10; i++) {
		recorder      events = RECORDER("freed lock"), office_events = RECORDER("freed election");
		zkl_lock     *lock = lock_new(s, path.text, &events);
		zkl_election *e = election_new(s, office.text, i % 2 ? ZKL_OBSERVE : 0, &office_events);
		events.then = free_own_lock;
		events.user = lock;
		office_events.then = free_own_election;
		office_events.user = e;
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
		EVENTUALLY(zkl_session_process(s) >= 0 && atomic_load(&events.flag) == 1 &&
		                   atomic_load(&office_events.flag) == 1,
		           ENOUGH_MS);
		int heard = recorder_total(&events) + recorder_total(&office_events);
		EVENTUALLY(zkclient_count(observer(), path.text) + zkclient_count(observer(), office.text) == 0,
		           ENOUGH_MS);
		EXPECT_RC(zkl_session_process(s), 0);
		EXPECT_INT(recorder_total(&events) + recorder_total(&office_events), heard);
		recorder_free(&events);
		recorder_free(&office_events);
	}
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

/* ---- calls that would block ---- */

static struct {
	zkl_session  *session;
	zkl_election *election, *other;
	int           resign, run, close, process, resign_at_once;
} in_callback;

static int no_term(const zkl_grant *grant, void *user)
{
	(void)grant;
	(void)user;
	return 99;
}

static void call_what_blocks(const zkl_event *ev, recorder *r)
{
	(void)r;
	if (ev->type != ZKL_EV_GRANTED)
		return;
	in_callback.resign = zkl_election_resign(in_callback.election, 1000, NULL);
	in_callback.run = zkl_election_run(in_callback.other, no_term, NULL, NULL);
	in_callback.close = zkl_session_close(in_callback.session, ZKL_FOREVER);
	in_callback.process = zkl_session_process(in_callback.session);
	in_callback.resign_at_once = zkl_election_resign(in_callback.election, 0, NULL);
}

static void blocking_calls_in_an_elections_callback_say_edeadlk(void)
{
	for (int manual = 0; manual <= 1; manual++) {
		lock_path           path = new_path();
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		recorder            events = RECORDER("blocks"), other_events = RECORDER("other");
		seen                e = {0};
		memset(&in_callback, 0, sizeof in_callback);
		options.flags = manual ? ZKL_MANUAL : 0;
		EXPECT_RC(zkl_session_open(&options, &in_callback.session, NULL), ZKL_OK);
		in_callback.election = election_new(in_callback.session, path.text, 0, &events);
		in_callback.other = election_new(in_callback.session, path.text, 0, &other_events);
		events.then = call_what_blocks;
		EXPECT_RC(zkl_election_campaign(in_callback.election, NULL), ZKL_OK);
		if (manual)
			EVENTUALLY(zkl_session_process(in_callback.session) >= 0 &&
			                   recorder_count(&events, ZKL_EV_ENDED) == 1,
			           ENOUGH_MS);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
		EXPECT_RC(e.code, ZKL_OK);
		EXPECT_RC(in_callback.resign, ZKL_EDEADLK);
		EXPECT_RC(in_callback.run, ZKL_EDEADLK);
		EXPECT_RC(in_callback.close, ZKL_EDEADLK);
		EXPECT_RC(in_callback.process, manual ? ZKL_EDEADLK : ZKL_EINVAL);
		EXPECT_RC(in_callback.resign_at_once, ZKL_OK);
		zkl_election_free(in_callback.election);
		zkl_election_free(in_callback.other);
		EXPECT_RC(zkl_session_close(in_callback.session, ENOUGH_MS), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), path.text), 0);
		recorder_free(&events);
		recorder_free(&other_events);
	}
}

/* ---- beside callbacks ---- */

static void block_while_flag_is_one(const zkl_event *ev, recorder *r)
{
	(void)ev;
	while (atomic_load(&r->flag) == 1)
		poll_pause();
	if (atomic_load(&r->flag) == 2)
		atomic_store(&r->flag, 3);
}

typedef struct freeing {
	pthread_t     thread;
	zkl_lock     *lock;
	zkl_election *election;
	zkl_session  *session;
	int           rc;
	atomic_bool   done;
} freeing;

static void *free_it(void *arg)
{
	freeing *f = arg;
	zkl_lock_free(f->lock);
	zkl_election_free(f->election);
	if (f->session != NULL)
		f->rc = zkl_session_close(f->session, ENOUGH_MS);
	atomic_store(&f->done, true);
	return NULL;
}

static void freeing_start(freeing *f)
{
	CU_ASSERT_FATAL(pthread_create(&f->thread, NULL, free_it, f) == 0);
}

/* Of a manual session: calls process() until a callback has been blocked, and has returned. */
typedef struct processing {
	pthread_t    thread;
	zkl_session *session;
	recorder    *until;
} processing;

static void *process(void *arg)
{
	processing *p = arg;
	while (atomic_load(&p->until->flag) != 3 && zkl_session_process(p->session) >= 0)
		poll_pause();
	return NULL;
}

static void processing_start(processing *p)
{
	CU_ASSERT_FATAL(pthread_create(&p->thread, NULL, process, p) == 0);
}

/* Who frees its own handle waits for its own callback, and for no other one. */
static void free_waits_for_callbacks_of_its_own_handle_only(void)
{
	for (int i = 0; i < 4; i++) {
		bool         election = i % 2 != 0, manual = i / 2 != 0;
		lock_path    path = new_path(), other_path = new_path();
		zkl_session *s = manual ? manual_session() : session_open(all_servers(), SESSION_MS);
		recorder     events = RECORDER("blocks"), other_events = RECORDER("other");
		freeing      own = {0}, other = {0};
		processing   loop = {.session = s, .until = &events};
		events.flag = 1;
		if (manual)
			processing_start(&loop);
		events.then = block_while_flag_is_one;
		other.lock = lock_new(s, other_path.text, &other_events);
		if (election) {
			own.election = election_new(s, path.text, 0, &events);
			EXPECT_RC(zkl_election_campaign(own.election, NULL), ZKL_OK);
		} else {
			own.lock = lock_new(s, path.text, &events);
			EXPECT_RC(zkl_lock_start(own.lock, ZKL_FOREVER, NULL), ZKL_OK);
		}
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_session_process(s),
		          manual ? ZKL_ESTATE : ZKL_EINVAL); /* the callback blocks another thread */
		EXPECT_RC(zkl_lock_start(other.lock, ZKL_FOREVER, NULL), ZKL_OK);
		freeing_start(&other);
		EVENTUALLY(atomic_load(&other.done), ENOUGH_MS);
		freeing_start(&own);
		/* It lets go at once, and waits. */
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		EXPECT_TRUE(!atomic_load(&own.done));
		atomic_store(&events.flag, 2);
		pthread_join(own.thread, NULL);
		pthread_join(other.thread, NULL);
		EXPECT_INT(atomic_load(&events.flag), 3);
		if (manual)
			pthread_join(loop.thread, NULL);
		EXPECT_INT(recorder_total(&events), 1);
		EXPECT_INT(recorder_total(&other_events), 0);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		recorder_free(&events);
		recorder_free(&other_events);
	}
}

/* heron #2907: closing while a callback runs, which does not end before it may. */
static void close_waits_for_the_callback_that_runs_and_none_comes_after(void)
{
	for (int manual = 0; manual <= 1; manual++) {
		lock_path    path = new_path();
		zkl_session *s = manual ? manual_session() : session_open(all_servers(), SESSION_MS);
		recorder     events = RECORDER("blocks"), next_events = RECORDER("next");
		zkl_lock    *lock = lock_new(s, path.text, &events), *next = lock_new(s, path.text, &next_events);
		freeing      closing = {.session = s};
		processing   loop = {.session = s, .until = &events};
		events.flag = 1;
		events.then = block_while_flag_is_one;
		if (manual)
			processing_start(&loop);
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_start(next, ZKL_FOREVER, NULL), ZKL_OK);
		freeing_start(&closing);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		EXPECT_TRUE(!atomic_load(&closing.done));
		atomic_store(&events.flag, 2);
		if (manual)
			pthread_join(loop.thread, NULL);
		pthread_join(closing.thread, NULL);
		EXPECT_RC(closing.rc, ZKL_OK);
		int heard = recorder_total(&events) + recorder_total(&next_events);
		EXPECT_RC(zkl_lock_start(lock, 0, NULL), ZKL_ESTATE);
		THROUGHOUT(recorder_total(&events) + recorder_total(&next_events) == heard, 50);
		zkl_lock_free(lock);
		zkl_lock_free(next);
		recorder_free(&events);
		recorder_free(&next_events);
	}
}

/* What came before the close is told before it returns. In process() nobody is told any more. */
static void close_delivers_what_is_queued_but_not_of_a_manual_session(void)
{
	for (int manual = 0; manual <= 1; manual++) {
		lock_path    path = new_path(), other_path = new_path();
		zkl_session *s = manual ? manual_session() : session_open(all_servers(), SESSION_MS);
		recorder     events = RECORDER("blocks"), other_events = RECORDER("queued");
		zkl_lock *lock = lock_new(s, path.text, &events), *other = lock_new(s, other_path.text, &other_events);
		freeing   closing = {.session = s};
		node      ahead = foreign_contender(other_path.text, "_c_6a2d70f2-6a61-4a0e-a0b4-34a1c2b6e002-lock-");
		events.flag = 1;
		events.then = block_while_flag_is_one;
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		if (!manual)
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_RC(zkl_lock_start(other, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(stats_of(s).events_queued == (manual ? 2 : 1), ENOUGH_MS);
		freeing_start(&closing);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		if (!manual) /* for so long that all but the callback is over */
			THROUGHOUT(!atomic_load(&closing.done), 500);
		EXPECT_INT(recorder_total(&other_events), 0);
		atomic_store(&events.flag, 2);
		pthread_join(closing.thread, NULL);
		EXPECT_RC(closing.rc, ZKL_OK);
		EXPECT_INT(recorder_count(&other_events, ZKL_EV_WAITING), !manual);
		EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED), !manual);
		EXPECT_INT(zkclient_delete(observer(), ahead.path), ZOK);
		zkl_lock_free(lock);
		zkl_lock_free(other);
		recorder_free(&events);
		recorder_free(&other_events);
	}
}

/* One thread waits for a callback to free its handle, while that callback frees another handle: none waits for ever. */
static void free_partner(const zkl_event *ev, recorder *r)
{
	if (ev->type != ZKL_EV_GRANTED)
		return;
	atomic_store(&r->flag, 1);
	while (atomic_load(&r->flag) == 1)
		poll_pause();
	zkl_lock_free(r->user);
}

static void callback_that_frees_does_not_meet_who_waits_for_it(void)
{
	for (int i = 0; i < 10; i++) {
		lock_path    path = new_path();
		zkl_session *s = session_open(all_servers(), SESSION_MS);
		recorder     events = RECORDER("frees its partner"), partner_events = RECORDER("partner");
		freeing      own = {.lock = lock_new(s, path.text, &events)};
		events.then = free_partner;
		events.user = lock_new(s, path.text, &partner_events);
		EXPECT_RC(zkl_lock_start(own.lock, ZKL_FOREVER, NULL), ZKL_OK);
		EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
		EXPECT_RC(zkl_lock_start(events.user, ZKL_FOREVER, NULL), ZKL_OK);
		freeing_start(&own);
		EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
		atomic_store(&events.flag, 2);
		pthread_join(own.thread, NULL);
		EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		recorder_free(&events);
		recorder_free(&partner_events);
	}
}

/* ---- beside calls that wait ---- */

static int term_of_the_winner(const zkl_grant *grant, void *user)
{
	(void)grant;
	return *(int *)user;
}

typedef struct campaigner {
	pthread_t     thread;
	zkl_election *election;
	int           rc;
} campaigner;

static void *campaign(void *arg)
{
	campaigner *c = arg;
	int         value = 7;
	c->rc = zkl_election_run(c->election, term_of_the_winner, &value, NULL);
	return NULL;
}

static void close_ends_those_who_wait(void)
{
	enum { WAITERS = 6 };
	for (int i = 0; i < rounds(5, 100); i++) {
		lock_path    path = new_path(), office = new_path();
		zkl_session *other = session_open(all_servers(), SESSION_MS),
			    *s = session_open(all_servers(), SESSION_MS);
		zkl_lock  *held = lock_new(other, path.text, NULL), *waiting[WAITERS];
		zkl_grant  grant;
		acquirer   a[WAITERS];
		campaigner c;
		node       leader = foreign_contender(office.text, "_c_be2b7e3a-8c5c-4ac7-b0a2-9f1d4d57b001-latch-");
		EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
		for (int k = 0; k < WAITERS; k++) {
			waiting[k] = lock_new(s, path.text, NULL);
			acquirer_start(&a[k], waiting[k], ZKL_FOREVER);
		}
		c.election = election_new(s, office.text, ZKL_OBSERVE, NULL);
		CU_ASSERT_FATAL(pthread_create(&c.thread, NULL, campaign, &c) == 0);
		if (i % 2)
			EVENTUALLY(zkclient_count(observer(), path.text) == WAITERS + 1, ENOUGH_MS);
		/* Else some are in the middle of queueing, or have not begun. */
		EVENTUALLY(zkclient_count(observer(), office.text) == 2, ENOUGH_MS);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		for (int k = 0; k < WAITERS; k++)
			EXPECT_RC(acquirer_join(&a[k]), ZKL_ESTATE);
		pthread_join(c.thread, NULL);
		EXPECT_RC(c.rc, ZKL_ESTATE);
		EXPECT_INT(zkclient_count(observer(), path.text), 1);
		EXPECT_INT(zkclient_count(observer(), office.text), 1);
		EXPECT_INT(zkclient_delete(observer(), leader.path), ZOK);
		for (int k = 0; k < WAITERS; k++)
			zkl_lock_free(waiting[k]);
		zkl_election_free(c.election);
		zkl_lock_free(held);
		EXPECT_RC(zkl_session_close(other, ENOUGH_MS), ZKL_OK);
	}
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(callbacks_of_a_session_come_one_at_a_time, 120)},
		{TEST(other_handles_are_freed_in_a_callback, 300)},
		{TEST(election_is_freed_in_its_own_callback_while_it_leads, 60)},
		{TEST(handles_are_freed_in_their_own_callbacks_in_process, 60)},
		{TEST(blocking_calls_in_an_elections_callback_say_edeadlk, 60)},
		{TEST(free_waits_for_callbacks_of_its_own_handle_only, 60)},
		{TEST(close_waits_for_the_callback_that_runs_and_none_comes_after, 60)},
		{TEST(close_delivers_what_is_queued_but_not_of_a_manual_session, 60)},
		{TEST(callback_that_frees_does_not_meet_who_waits_for_it, 60)},
		{TEST(close_ends_those_who_wait, 300)},
		{0},
	};
	return harness_main(argc, argv, "callbacks", tests);
}
