/* SPDX-License-Identifier: Apache-2.0 */
/* What the library needs of the system is not there: memory, threads, descriptors.
 *
 * The linker puts the functions below in place of those of libc, for the library and this program, not for the ZooKeeper client,
 * which does not survive it (session.h). */
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  30000

/* ---- what fails ---- */

/* The nth call fails, and `burst` in all. */
typedef struct scarcity {
	atomic_bool armed;
	atomic_int  left, burst;
} scarcity;

static scarcity memory, threads;

static void arm(scarcity *s, int n, int burst)
{
	atomic_store(&s->left, n);
	atomic_store(&s->burst, burst);
	atomic_store(&s->armed, true);
}

/* Whether it has struck. */
static bool disarm(scarcity *s)
{
	atomic_store(&s->armed, false);
	return atomic_load(&s->left) < 1;
}

static bool strikes(scarcity *s)
{
	int left = atomic_load(&s->armed) ? atomic_fetch_sub(&s->left, 1) : 2;
	return left <= 1 && left > 1 - atomic_load(&s->burst);
}

/* The names that --wrap asks for. */
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t most);
void  __real_free(void *old);
int   __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
void  __wrap_free(void *old);
int   __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static bool no_memory(void)
{
	if (!strikes(&memory))
		return false;
	errno = ENOMEM;
	return true;
}

/* What was had and is not given back yet. LeakSanitizer sees none of it that the ZooKeeper client has lost (lsan.supp). */
static atomic_int kept;

static void *keep(void *had)
{
	atomic_fetch_add(&kept, had != NULL);
	return had;
}

void *__wrap_malloc(size_t size)
{
	return no_memory() ? NULL : keep(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return no_memory() ? NULL : keep(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	if (no_memory())
		return NULL;
	return old != NULL ? __real_realloc(old, size) : keep(__real_realloc(NULL, size));
}

char *__wrap_strdup(const char *text)
{
	return no_memory() ? NULL : keep(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t most)
{
	return no_memory() ? NULL : keep(__real_strndup(text, most));
}

void __wrap_free(void *old)
{
	atomic_fetch_sub(&kept, old != NULL);
	__real_free(old);
}

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return strikes(&threads) ? EAGAIN : __real_pthread_create(ret, attr, run, arg);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

/* ---- a whole life ---- */

static atomic_int grants, ends, leaders;

static void on_event(const zkl_event *ev, void *user)
{
	(void)user;
	if (ev->type == ZKL_EV_GRANTED)
		atomic_fetch_add(&grants, 1);
	else if (ev->type == ZKL_EV_ENDED)
		atomic_fetch_add(&ends, 1);
	else if (ev->type == ZKL_EV_LEADER)
		atomic_fetch_add(&leaders, 1);
}

static int lead(const zkl_grant *grant, void *user)
{
	(void)grant;
	(void)user;
	return 1;
}

/* What may come of it: the call itself found no memory; or mail was lost, and with it the session. */
static bool is_fair(int rc)
{
	return rc >= 0 || rc == ZKL_ENOMEM || rc == ZKL_ELOST || rc == ZKL_ENOTHELD || rc == ZKL_ENOTCONN ||
	       rc == ZKL_ETIMEDOUT || rc == ZKL_ESYS;
}

#define EXPECT_FAIR(call) expect_true(is_fair(call), __LINE__, __FILE__, #call)

/* Everything that the library can do, once. False where a call failed. */
static bool lives(zkl_session *s, const char *lock_at, const char *election_at)
{
	zkl_options   options = ZKL_OPTIONS_INIT;
	zkl_lock     *lock = NULL, *behind = NULL;
	zkl_election *election = NULL;
	zkl_grant     grant;
	zkl_peer      peer;
	zkl_error     error = {0};
	int           rc = 0;
	bool          good;
	options.on_event = on_event;
	options.data = "something to show";
	options.data_len = strlen("something to show");
	good = EXPECT_FAIR(rc = zkl_lock_new(s, lock_at, &options, &lock, &error)) && rc == 0;
	good = good && EXPECT_FAIR(rc = zkl_lock_new(s, lock_at, NULL, &behind, &error)) && rc == 0;
	good = good && EXPECT_FAIR(rc = zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error)) && rc == 0;
	if (good) {
		zkl_grant other;
		rc = zkl_lock_acquire(behind, 50, &other, NULL);
		EXPECT_TRUE(rc != 0 || zkl_lock_check(lock, grant.token) < 0);
		EXPECT_FAIR(rc);
		zkl_lock_release(behind, ENOUGH_MS, NULL);
		rc = zkl_lock_holder(s, lock_at, &peer, NULL);
		EXPECT_TRUE(is_fair(rc) || rc == ZKL_EZK); /* it could not keep what it read */
		good = EXPECT_FAIR(rc = zkl_lock_start(behind, ENOUGH_MS, &error)) && rc == 0;
		EXPECT_FAIR(zkl_lock_release(lock, ENOUGH_MS, NULL));
		EXPECT_FAIR(zkl_lock_release(behind, ENOUGH_MS, NULL));
	}
	options.flags = ZKL_OBSERVE;
	good = EXPECT_FAIR(rc = zkl_election_new(s, election_at, &options, &election, &error)) && rc == 0 && good;
	if (election != NULL) {
		rc = zkl_election_run(election, lead, NULL, &error);
		EXPECT_FAIR(rc);
		good = good && rc == 1;
		EXPECT_FAIR(zkl_election_leader(election, &peer));
		EXPECT_FAIR(zkl_election_campaign(election, NULL));
		EXPECT_FAIR(zkl_election_resign(election, ENOUGH_MS, NULL));
	}
	zkl_lock_free(lock);
	zkl_lock_free(behind);
	zkl_election_free(election);
	return good;
}

static bool life(const char *at, const char *lock_at, const char *election_at, unsigned flags)
{
	zkl_session_options options = session_options(at, SESSION_MS);
	zkl_session        *s = NULL;
	bool                good;
	int                 rc;
	options.flags = flags;
	rc = zkl_session_open(&options, &s, NULL);
	EXPECT_FAIR(rc);
	if (rc < 0)
		return false;
	good = lives(s, lock_at, election_at);
	if (flags & ZKL_MANUAL)
		zkl_session_process(s);
	EXPECT_FAIR(zkl_session_close(s, ENOUGH_MS));
	return good;
}

static int nodes_of(const lock_path *a, const lock_path *b)
{
	return zkclient_count(observer(), a->text) + zkclient_count(observer(), b->text);
}

/* ---- memory ---- */

static void live_without_memory(unsigned flags)
{
	lock_path lock_at = new_path(), election_at = new_path();
	EXPECT_TRUE(life(all_servers(), lock_at.text, election_at.text, flags));
	EXPECT_INT(nodes_of(&lock_at, &election_at), 0);
	const int before = atomic_load(&kept);
	for (int burst = 1; burst <= 10; burst *= 10) {
		const int step = burst == 1 ? rounds(2, 1) : rounds(5, 1), first = 1 + (int)(now_ns() / 1000 % step);
		int       n = first, failed = 0;
		bool      struck = true;
		for (; struck; n += step) {
			arm(&memory, n, burst);
			failed += !life(all_servers(), lock_at.text, election_at.text, flags);
			struck = disarm(&memory);
			EVENTUALLY(nodes_of(&lock_at, &election_at) == 0, 2 * SESSION_MS);
			EVENTUALLY(atomic_load(&kept) == before,
			           ENOUGH_MS); /* a thread may outlive a session by a little */
			if (atomic_load(&kept) != before) {
				fprintf(stderr, "%d allocations are kept since %d failed from the %d. on\n",
				        atomic_load(&kept) - before, burst, n);
				return;
			}
		}
		printf("%d from %d on, each %d., to %d, felt by %d lives ... ", burst, first, step, n - step, failed);
		EXPECT_RANGE(failed, 1, n);
		EXPECT_TRUE(life(all_servers(), lock_at.text, election_at.text, flags));
	}
}

static void life_without_memory_at_the_nth_call_ends_well(void)
{
	live_without_memory(0);
}

static void life_without_memory_and_without_an_event_thread_ends_well(void)
{
	live_without_memory(ZKL_MANUAL);
}

static log_counter losses = {.level = 3, .id = "memory"};

/* Nothing else would wake a session in which nobody is next: it has no heartbeat, and no end of a timeout to look at. */
static void lost_news_of_the_node_before_is_noticed_at_once(void)
{
	for (int burst = 1; burst <= 2; burst++) {
		lock_path           path = new_path();
		recorder            events = RECORDER("third");
		node                first, second;
		zkl_session        *s = NULL;
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		options.log = log_count;
		options.log_user = &losses;
		atomic_store(&losses.count, 0);
		EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
		zkl_lock *lock = lock_new(s, path.text, &events);
		first = foreign_contender(path.text, "_c_6f0a3a52-41c1-4d4e-8f0a-5d0e6b1c1001-lock-");
		second = foreign_contender(path.text, "_c_6f0a3a52-41c1-4d4e-8f0a-5d0e6b1c1002-lock-");
		EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
		/* Replies come in order: with this one its watches are in force. */
		EXPECT_RC(zkl_lock_holder(s, path.text, &(zkl_peer){0}, NULL), 3);
		arm(&memory, 1, burst);
		EXPECT_INT(zkclient_delete(observer(), second.path), ZOK);
		EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
		EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		EXPECT_TRUE(disarm(&memory));
		EXPECT_INT(atomic_load(&losses.count), 1);
		zkl_lock_free(lock);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		recorder_free(&events);
	}
}

/* Whose news come while the protocol thread is in the log hook: all are found together then. */
typedef struct busy_hook {
	const char *first, *second;
	atomic_int  losses;
} busy_hook;

static void lose_the_second_of_two_news(int level, const char *id, const char *message, void *user)
{
	busy_hook *h = user;
	(void)level;
	(void)message;
	if (strcmp(id, "memory") == 0)
		atomic_fetch_add(&h->losses, 1);
	if (strcmp(id, "foreign") != 0)
		return;
	arm(&memory, 2, 1);
	EXPECT_INT(zkclient_delete_both(observer(), h->first, h->second), ZOK);
	EVENTUALLY(atomic_load(&memory.left) < 1, ENOUGH_MS);
	EXPECT_TRUE(disarm(&memory));
}

#define IN_FRONT 3

/* Nobody is next, not even when one of those before is gone: who is has a heartbeat, which would find out by chance. */
static void lost_news_are_noticed_behind_others(void)
{
	lock_path           path[3] = {new_path(), new_path(), new_path()};
	recorder            events[2] = {RECORDER("heard"), RECORDER("unheard")};
	node                before[2][IN_FRONT];
	zkl_lock           *lock[3];
	busy_hook           hook = {.first = before[0][IN_FRONT - 1].path, .second = before[1][IN_FRONT - 1].path};
	zkl_session        *s = NULL;
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	options.log = lose_the_second_of_two_news;
	options.log_user = &hook;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	for (int i = 0; i < 3; i++)
		lock[i] = lock_new(s, path[i].text, i < 2 ? &events[i] : NULL);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < IN_FRONT; k++)
			before[i][k] = foreign_contender(path[i].text, "_c_6f0a3a52-41c1-4d4e-8f0a-5d0e6b1c1001-lock-");
		EXPECT_RC(zkl_lock_start(lock[i], ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
		/* Replies come in order: with this one its watches are in force. */
		EXPECT_RC(zkl_lock_holder(s, path[i].text, &(zkl_peer){0}, NULL), IN_FRONT + 1);
	}
	for (int k = 0; k < IN_FRONT; k++)
		foreign_contender(path[2].text, "4ab0c1d2e3f40516273849506172839a__lock__"); /* kazoo's: it is logged */
	EXPECT_RC(zkl_lock_start(lock[2], ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(atomic_load(&hook.losses) == 1, ENOUGH_MS);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < IN_FRONT - 1; k++)
			EXPECT_INT(zkclient_delete(observer(), before[i][k].path), ZOK);
		EXPECT_TRUE(recorder_wait(&events[i], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	}
	for (int i = 0; i < 3; i++)
		zkl_lock_free(lock[i]);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	for (int i = 0; i < 2; i++)
		recorder_free(&events[i]);
}

/* ---- threads ---- */

static void life_without_a_thread_ends_well(void)
{
	lock_path lock_at = new_path(), election_at = new_path();
	char      named[64];
	/* A name has to be resolved, on a thread of its own. */
	snprintf(named, sizeof named, "localhost%s", strchr(servers[0], ':'));
	for (unsigned flags = 0; flags <= ZKL_MANUAL; flags += ZKL_MANUAL) {
		int needed = flags & ZKL_MANUAL ? 1 : 2;
		for (int n = 1; n <= needed + 1; n++) {
			zkl_session_options options = session_options(named, SESSION_MS);
			zkl_session        *s = NULL;
			zkl_error           error = {0};
			options.flags = flags;
			arm(&threads, n, 1);
			int rc = zkl_session_open(&options, &s, &error);
			EXPECT_RC(rc, n <= needed ? ZKL_ESYS : ZKL_OK);
			EXPECT_INT(error.sys_errno, n <= needed ? EAGAIN : 0);
			if (rc == ZKL_OK) {
				zkl_grant grant;
				zkl_lock *lock = lock_new(s, lock_at.text, NULL);
				EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK); /* tried again */
				zkl_lock_free(lock);
				EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
			}
			EXPECT_TRUE(disarm(&threads));
		}
		EXPECT_TRUE(life(named, lock_at.text, election_at.text, 0));
	}
	EXPECT_INT(nodes_of(&lock_at, &election_at), 0);
}

/* ---- descriptors ---- */

#define DESCRIPTORS 100

/* Leaves so many descriptors; < 0: takes back what keep_descriptors() took. */
static void leave_descriptors(int spare)
{
	static struct rlimit before;
	static int           taken[DESCRIPTORS], count;
	if (count == 0) {
		getrlimit(RLIMIT_NOFILE, &before);
		struct rlimit few = {DESCRIPTORS, before.rlim_max};
		EXPECT_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
		for (int fd; (fd = dup(STDERR_FILENO)) >= 0;)
			taken[count++] = fd;
	}
	for (int i = 0; count > 0 && (spare < 0 || i < spare); i++)
		close(taken[--count]);
	if (spare < 0)
		EXPECT_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void session_without_descriptors_is_refused_or_comes_later(void)
{
	lock_path path = new_path();
	observer();
	for (int spare = 0; spare <= 8; spare++) {
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *s = NULL;
		zkl_error           error = {0};
		zkl_grant           grant;
		leave_descriptors(spare);
		int       rc = zkl_session_open(&options, &s, &error), got = 1;
		zkl_lock *lock = rc == ZKL_OK ? lock_new(s, path.text, NULL) : NULL;
		if (rc == ZKL_OK)
			got = zkl_lock_acquire(lock, 1000, &grant, NULL);
		leave_descriptors(-1);
		EXPECT_TRUE(rc == ZKL_OK || (rc == ZKL_ESYS && error.sys_errno == EMFILE));
		EXPECT_TRUE(rc != ZKL_OK || got == ZKL_OK || got == ZKL_ENOTCONN);
		EXPECT_TRUE(spare > 0 || rc == ZKL_ESYS);
		EXPECT_TRUE(spare < 8 || got == ZKL_OK);
		if (rc == ZKL_OK) {
			if (got != ZKL_OK)
				EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
			zkl_lock_free(lock);
			EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		}
	}
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

/* The ZooKeeper client gets no socket then, and tries again. */
static void connection_that_breaks_at_the_limit_of_descriptors_comes_back(void)
{
	static const rlim_t none = 3;
	lock_path           path = new_path();
	struct rlimit       before, few;
	zkl_stats           stats = ZKL_STATS_INIT;
	zkl_grant           grant = {0}, later = {0};
	recorder            events = RECORDER("holder");
	net                 n;
	net_open(&n, 1, 1);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, &events);
	getrlimit(RLIMIT_NOFILE, &before);
	few = (struct rlimit){none, before.rlim_max};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	wait_for_full_lease(s);
	for (int until_lost = 0; until_lost <= 1; until_lost++) {
		EXPECT_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
		net_cut(&n);
		EVENTUALLY(zkl_session_stats(s, &stats) == ZKL_OK && !stats.connected, ENOUGH_MS);
		if (until_lost)
			EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
		EXPECT_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
		EVENTUALLY(zkl_session_stats(s, &stats) == ZKL_OK && stats.connected, ENOUGH_MS);
		EXPECT_INT(zkl_lock_check(lock, grant.token) > 0, !until_lost);
	}
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &later, NULL), ZKL_OK);
	EXPECT_TRUE(later.token > grant.token);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	net_close(&n);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(life_without_memory_at_the_nth_call_ends_well, 1200)},
		{TEST(life_without_memory_and_without_an_event_thread_ends_well, 1200)},
		{TEST(lost_news_of_the_node_before_is_noticed_at_once, 120)},
		{TEST(lost_news_are_noticed_behind_others, 120)},
		{TEST(life_without_a_thread_ends_well, 120)},
		{TEST(session_without_descriptors_is_refused_or_comes_later, 180)},
		{TEST(connection_that_breaks_at_the_limit_of_descriptors_comes_back, 120)},
		{0},
	};
	return harness_main(argc, argv, "scarce", tests);
}
