/* SPDX-License-Identifier: Apache-2.0 */
/* zkl_election_run(): work that is bound to its term. */
#include "harness.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000

/* A run() in a thread of its own, whose terms end when the test says so. */
typedef struct office {
	pthread_t     thread;
	net           way;
	zkl_session  *session;
	zkl_election *election;
	recorder      events;
	atomic_int    terms, in_term, go_on; /* terms begun; one runs; how many may end */
	atomic_int    value;                 /* what the next one returns */
	atomic_int    resign, free_it;       /* what the next one does first */
	atomic_int    inside_rc;
	zkl_grant     grant; /* of the newest term */
	int           rc;
	zkl_error     error;
	atomic_bool   done;
} office;

static int term(const zkl_grant *grant, void *user)
{
	office *o = user;
	o->grant = *grant;
	atomic_store(&o->in_term, 1);
	int number = atomic_fetch_add(&o->terms, 1) + 1;
	if (atomic_exchange(&o->resign, 0))
		atomic_store(&o->inside_rc, zkl_election_resign(o->election, 0, NULL));
	if (atomic_exchange(&o->free_it, 0))
		zkl_election_free(o->election);
	while (atomic_load(&o->go_on) < number)
		poll_pause();
	atomic_store(&o->in_term, 0);
	return atomic_load(&o->value);
}

static void *run(void *arg)
{
	office *o = arg;
	o->rc = zkl_election_run(o->election, term, o, &o->error);
	atomic_store(&o->done, true);
	return NULL;
}

static void office_open(office *o, const char *path, unsigned flags)
{
	static size_t opened;
	*o = (office){.events = RECORDER("run")};
	net_open(&o->way, opened++ % server_count() + 1, 1);
	o->session = session_open(o->way.servers, SESSION_MS);
	o->election = election_new(o->session, path, flags, &o->events);
	CU_ASSERT_FATAL(pthread_create(&o->thread, NULL, run, o) == 0);
}

static int office_join(office *o)
{
	pthread_join(o->thread, NULL);
	return o->rc;
}

static void office_close(office *o)
{
	zkl_election_free(o->election);
	zkl_session_close(o->session, ENOUGH_MS);
	net_close(&o->way);
	recorder_free(&o->events);
}

static void end_term(office *o, int value)
{
	atomic_store(&o->value, value);
	atomic_fetch_add(&o->go_on, 1);
}

static void terms_alternate_until_one_returns_a_value(void)
{
	lock_path path = new_path();
	office    a, b;
	uint64_t  last = 0;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	office_open(&b, path.text, 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	for (int i = 0; i < 6; i++) {
		office *leads = i % 2 ? &b : &a;
		EVENTUALLY(atomic_load(&leads->terms) == i / 2 + 1 && atomic_load(&leads->in_term), ENOUGH_MS);
		EXPECT_TRUE(!atomic_load(&(i % 2 ? &a : &b)->in_term));
		EXPECT_TRUE(leads->grant.token > last);
		last = leads->grant.token;
		EXPECT_TRUE(zkl_election_check(leads->election, last) > 0);
		EVENTUALLY(zkclient_count(observer(), path.text) == (i < 5 ? 2 : 1), ENOUGH_MS);
		end_term(leads, i < 4 ? 0 : 7);
	}
	EXPECT_INT(office_join(&a), 7);
	EXPECT_INT(office_join(&b), 7);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	office_close(&a);
	office_close(&b);
}

/* Whoever else resigns asks the term to end; nobody follows before it has. */
static void nobody_is_elected_while_the_term_runs(void)
{
	lock_path path = new_path();
	office    a, b;
	zkl_error error = {0};
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	office_open(&b, path.text, 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EXPECT_RC(zkl_election_resign(a.election, 500, &error), ZKL_ETIMEDOUT);
	EXPECT_TRUE(strstr(error.message, "still goes on") != NULL);
	EXPECT_RC(zkl_election_check(a.election, a.grant.token), ZKL_ENOTHELD);
	THROUGHOUT(atomic_load(&b.terms) == 0, 2 * SESSION_MS);
	EXPECT_INT(recorder_count(&a.events, ZKL_EV_ENDED), 0);
	end_term(&a, 0);
	EXPECT_INT(office_join(&a), ZKL_ECANCELED);
	EXPECT_TRUE(strstr(a.error.message, "resigned") != NULL);
	EVENTUALLY(atomic_load(&b.terms) == 1, ENOUGH_MS);
	EXPECT_INT(recorder_count(&a.events, ZKL_EV_LOST), 0);
	atomic_store(&b.value, 1);
	atomic_store(&b.go_on, 1);
	office_join(&b);
	office_close(&a);
	office_close(&b);
}

static void term_may_resign_but_not_wait_for_itself(void)
{
	lock_path path = new_path();
	office    a;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	EXPECT_RC(zkl_election_run(a.election, term, &a, NULL), ZKL_ESTATE);
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_ESTATE);
	atomic_store(&a.resign, 1);
	end_term(&a, 0);
	EVENTUALLY(atomic_load(&a.terms) == 2, ENOUGH_MS);
	EXPECT_INT(atomic_load(&a.inside_rc), 0);
	EXPECT_RC(zkl_election_check(a.election, a.grant.token), ZKL_ENOTHELD);
	end_term(&a, 0);
	EXPECT_INT(office_join(&a), ZKL_ECANCELED);
	office_close(&a);
}

static int term_that_waits_for_itself(const zkl_grant *grant, void *user)
{
	(void)grant;
	return zkl_election_resign(*(zkl_election **)user, ENOUGH_MS, NULL) == ZKL_EDEADLK ? 5 : 6;
}

static void waiting_for_its_own_end_is_a_deadlock_that_is_refused(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	zkl_election *e = election_new(s, path.text, 0, NULL); /* needs no events */
	EXPECT_INT(zkl_election_run(e, term_that_waits_for_itself, &e, NULL), 5);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void deposed_term_is_followed_by_another_campaign(void)
{
	lock_path path = new_path();
	office    a;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	uint64_t first = a.grant.token;
	net_expire(&a.way);
	EVENTUALLY(zkl_election_check(a.election, first) == ZKL_ELOST, ENOUGH_MS);
	EXPECT_TRUE(recorder_wait(&a.events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_count(observer(), path.text), 0); /* not before the term has ended */
	end_term(&a, 0);
	EVENTUALLY(atomic_load(&a.terms) == 2, ENOUGH_MS);
	EXPECT_TRUE(a.grant.token > first);
	end_term(&a, 3);
	EXPECT_INT(office_join(&a), 3);
	office_close(&a);
}

static atomic_bool stalled, go_on;

static void stall(int number)
{
	(void)number;
	atomic_store(&stalled, true);
	while (!atomic_load(&go_on))
		poll_pause();
}

/* Its thread sleeps while it is elected and deposed: what was asked meanwhile is not forgotten by another campaign. */
static void run_that_was_resigned_while_its_thread_slept_begins_no_term(void)
{
	lock_path        path = new_path();
	office           a, b;
	seen             granted = {0};
	struct sigaction action = {.sa_handler = stall}, before;
	atomic_store(&stalled, false);
	atomic_store(&go_on, false);
	sigaction(SIGUSR1, &action, &before);
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	office_open(&b, path.text, 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	pthread_kill(b.thread, SIGUSR1);
	EVENTUALLY(atomic_load(&stalled), ENOUGH_MS);
	end_term(&a, 1);
	EXPECT_INT(office_join(&a), 1);
	EXPECT_TRUE(recorder_wait(&b.events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &granted));
	EXPECT_INT(zkclient_delete(observer(), granted.node), ZOK);
	EXPECT_TRUE(recorder_wait(&b.events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_election_resign(b.election, 0, NULL), ZKL_ENOTHELD);
	atomic_store(&go_on, true);
	EXPECT_INT(office_join(&b), ZKL_ECANCELED);
	EXPECT_INT(atomic_load(&b.terms), 0);
	sigaction(SIGUSR1, &before, NULL);
	office_close(&a);
	office_close(&b);
}

static int term_that_closes(const zkl_grant *grant, void *user)
{
	(void)grant;
	return zkl_session_close(user, ZKL_FOREVER) == ZKL_EDEADLK ? 5 : 6;
}

static int term_that_forks(const zkl_grant *grant, void *user)
{
	(void)grant;
	*(pid_t *)user = fork();
	return 5;
}

static void term_may_neither_close_its_session_nor_go_on_in_a_child(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	zkl_election *e = election_new(s, path.text, 0, NULL);
	pid_t         child = -1;
	int           status = -1;
	EXPECT_INT(zkl_election_run(e, term_that_closes, s, NULL), 5);
	int rc = zkl_election_run(e, term_that_forks, &child, NULL);
	if (child == 0)
		_exit(rc == ZKL_EFORKED ? 7 : 8);
	EXPECT_INT(rc, 5);
	EXPECT_TRUE(waitpid(child, &status, 0) == child && WIFEXITED(status));
	EXPECT_INT(WEXITSTATUS(status), 7);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void waiting_run_ends_when_it_is_resigned_or_cancelled(void)
{
	lock_path path = new_path();
	office    a, b;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	office_open(&b, path.text, 0);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EXPECT_RC(zkl_election_resign(b.election, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(office_join(&b), ZKL_ECANCELED);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zkl_session_cancel(a.session); /* what is held stays held */
	THROUGHOUT(zkl_election_check(a.election, a.grant.token) > 0, SESSION_MS / 2);
	end_term(&a, 0);
	EXPECT_INT(office_join(&a), ZKL_ECANCELED);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	office_close(&a);
	office_close(&b);
}

static void election_freed_in_its_term_is_gone_when_the_term_returns(void)
{
	lock_path path = new_path();
	office    a;
	a = (office){.events = RECORDER("freed")};
	a.session = session_open(all_servers(), SESSION_MS);
	a.election = election_new(a.session, path.text, ZKL_OBSERVE, &a.events);
	atomic_store(&a.free_it, 1);
	CU_ASSERT_FATAL(pthread_create(&a.thread, NULL, run, &a) == 0);
	EVENTUALLY(atomic_load(&a.terms) == 1 && !atomic_load(&a.free_it), ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	end_term(&a, 0);
	EXPECT_INT(office_join(&a), ZKL_ECANCELED);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	EXPECT_RC(zkl_session_close(a.session, ENOUGH_MS), ZKL_OK);
	recorder_free(&a.events);
}

static void *free_election(void *arg)
{
	zkl_election_free(arg);
	return NULL;
}

static void free_in_another_thread_waits_for_the_term(void)
{
	lock_path path = new_path();
	office    a;
	pthread_t freeing;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	CU_ASSERT_FATAL(pthread_create(&freeing, NULL, free_election, a.election) == 0);
	EVENTUALLY(zkl_election_check(a.election, a.grant.token) == ZKL_ENOTHELD, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	end_term(&a, 0);
	EXPECT_INT(office_join(&a), ZKL_ECANCELED);
	pthread_join(freeing, NULL);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	EXPECT_RC(zkl_session_close(a.session, ENOUGH_MS), ZKL_OK);
	net_close(&a.way);
	recorder_free(&a.events);
}

static void closing_the_session_waits_for_the_term_as_long_as_it_may(void)
{
	lock_path path = new_path();
	office    a;
	office_open(&a, path.text, 0);
	EVENTUALLY(atomic_load(&a.terms) == 1, ENOUGH_MS);
	int64_t start_ms = now_ms();
	EXPECT_RC(zkl_session_close(a.session, 1000), ZKL_ETIMEDOUT);
	EXPECT_RANGE(now_ms() - start_ms, 999,
	             late(6000)); /* the ZooKeeper client's own end takes seconds at the worst */
	EXPECT_TRUE(zkl_election_check(a.election, a.grant.token) < 0);
	EXPECT_TRUE(atomic_load(&a.in_term));
	end_term(&a, 0);
	EXPECT_TRUE(office_join(&a) == ZKL_ECANCELED || a.rc == ZKL_ESTATE);
	zkl_election_free(a.election);
	net_close(&a.way);
	recorder_free(&a.events);
}

static void run_on_a_foreign_or_forbidden_path_says_so(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	zkl_lock     *lock = lock_new(s, path.text, NULL);
	zkl_election *e = election_new(s, path.text, 0, NULL);
	zkl_grant     grant;
	zkl_error     error = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkl_election_run(e, term_that_waits_for_itself, &e, &error), ZKL_EPATH);
	EXPECT_TRUE(strstr(error.message, path.text) != NULL);
	zkl_lock_free(lock);
	EXPECT_INT(zkl_election_run(e, term_that_waits_for_itself, &e, &error), 5);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(terms_alternate_until_one_returns_a_value, 60)},
		{TEST(nobody_is_elected_while_the_term_runs, 60)},
		{TEST(term_may_resign_but_not_wait_for_itself, 60)},
		{TEST(waiting_for_its_own_end_is_a_deadlock_that_is_refused, 60)},
		{TEST(deposed_term_is_followed_by_another_campaign, 60)},
		{TEST(run_that_was_resigned_while_its_thread_slept_begins_no_term, 60)},
		{TEST(term_may_neither_close_its_session_nor_go_on_in_a_child, 60)},
		{TEST(waiting_run_ends_when_it_is_resigned_or_cancelled, 60)},
		{TEST(election_freed_in_its_term_is_gone_when_the_term_returns, 60)},
		{TEST(free_in_another_thread_waits_for_the_term, 60)},
		{TEST(closing_the_session_waits_for_the_term_as_long_as_it_may, 60)},
		{TEST(run_on_a_foreign_or_forbidden_path_says_so, 60)},
		{0},
	};
	return harness_main(argc, argv, "run", tests);
}
