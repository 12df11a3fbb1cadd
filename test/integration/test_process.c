/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has but one of: signals, descriptors, locale, and its children. The library is a guest. */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  10000

/* ---- fork ---- */

/* Exit status of the child, 128 + the number of a signal that it died by. */
static int end_of(pid_t pid)
{
	int status = 0;
	EXPECT_TRUE(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int never(const zkl_grant *grant, void *user)
{
	(void)grant;
	(void)user;
	return 99;
}

static void child_of_a_fork_cannot_use_elections_and_harms_none(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	recorder      events = RECORDER("leader"), next_events = RECORDER("next in line");
	zkl_election *leader = election_new(s, path.text, ZKL_OBSERVE, &events);
	zkl_election *next = election_new(s, path.text, 0, &next_events);
	seen          e;
	EXPECT_RC(zkl_election_campaign(leader, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
	EXPECT_RC(zkl_election_campaign(next, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		zkl_election *made = NULL;
		zkl_peer      peer;
		int           wrong = 0;
		alarm(20);
		wrong |= zkl_election_check(leader, e.token) == ZKL_EFORKED ? 0 : 1;
		wrong |= zkl_election_campaign(next, NULL) == ZKL_EFORKED ? 0 : 2;
		wrong |= zkl_election_resign(leader, 100, NULL) == ZKL_EFORKED ? 0 : 4;
		wrong |= zkl_election_leader(leader, &peer) == ZKL_EFORKED ? 0 : 8;
		wrong |= zkl_election_run(next, never, NULL, NULL) == ZKL_EFORKED ? 0 : 16;
		wrong |= zkl_election_new(s, path.text, NULL, &made, NULL) == ZKL_EFORKED ? 0 : 32;
		wrong |= zkl_session_process(s) == ZKL_EFORKED && zkl_session_fd(s) == ZKL_EFORKED ? 0 : 64;
		zkl_session_cancel(s);
		zkl_election_free(leader);
		zkl_election_free(next);
		_exit(wrong || zkl_session_close(s, 100) != ZKL_EFORKED ? 128 | wrong : 0);
	}
	EXPECT_INT(end_of(pid), 0);
	EXPECT_TRUE(zkl_election_check(leader, e.token) > 0);
	EXPECT_RC(zkl_election_resign(leader, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&next_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_election_free(leader);
	zkl_election_free(next);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&next_events);
}

typedef struct cycler {
	pthread_t   thread;
	zkl_lock   *lock;
	atomic_bool stop;
	int         cycles, failure;
} cycler;

static void *cycle(void *arg)
{
	cycler *c = arg;
	while (!atomic_load(&c->stop) && c->failure == 0) {
		zkl_grant grant;
		c->failure = zkl_lock_acquire(c->lock, ENOUGH_MS, &grant, NULL);
		if (c->failure == 0)
			c->failure = zkl_lock_release(c->lock, 0, NULL);
		c->cycles += c->failure == 0;
	}
	return NULL;
}

static void cycler_start(cycler *c, zkl_session *s, const char *path)
{
	*c = (cycler){.lock = lock_new(s, path, NULL)};
	CU_ASSERT_FATAL(pthread_create(&c->thread, NULL, cycle, c) == 0);
}

static void cycler_stop(cycler *c)
{
	atomic_store(&c->stop, true);
	pthread_join(c->thread, NULL);
	zkl_lock_free(c->lock);
}

/* Whatever lock of ours another thread has at that moment. */
static void forks_in_the_middle_of_work_block_no_child(void)
{
	if (under_valgrind())
		SKIP("with threads taking turns, its own lock can keep a child of theirs from its first instruction");
	lock_path    path = new_path(), own = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, own.text, NULL);
	zkl_grant    grant = {0};
	cycler       c;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	cycler_start(&c, s, path.text);
	fflush(NULL);
	for (int i = 0; i < rounds(60, 1000); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			alarm(20);
			bool right = zkl_lock_check(lock, grant.token) == ZKL_EFORKED;
			zkl_lock_free(lock);
			right = zkl_session_close(s, ZKL_FOREVER) == ZKL_EFORKED && right;
			_exit(right ? 0 : 1);
		}
		if (!EXPECT_INT(end_of(pid), 0))
			break;
	}
	cycler_stop(&c);
	EXPECT_RC(c.failure, ZKL_OK);
	EXPECT_TRUE(c.cycles > 0);
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) > 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), own.text) + zkclient_count(observer(), path.text), 0);
}

static void child_opens_a_session_of_its_own(void)
{
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
	SKIP("the sanitizers do not bear a fork beside threads: one ends the child, one's malloc can hang in it");
#endif
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *own = NULL;
		zkl_lock           *other = NULL;
		zkl_stats           stats = ZKL_STATS_INIT;
		zkl_error           error = {0};
		zkl_grant           got;
		alarm(60);
		int wrong = zkl_session_open(&options, &own, &error) != 0 ||
		            zkl_lock_new(own, path.text, NULL, &other, &error) != 0 ||
		            zkl_lock_acquire(other, 4 * ENOUGH_MS, &got, &error) != 0 || got.token <= grant.token;
		if (wrong && zkl_session_stats(own, &stats) == 0)
			fprintf(stderr, "child: %s; connected %d, lease %lld ms, %llu heartbeats, %llu reconnects\n",
			        error.message, stats.connected, (long long)stats.lease_ms,
			        (unsigned long long)stats.heartbeats, (unsigned long long)stats.reconnects);
		zkl_lock_free(other);
		_exit(wrong || zkl_session_close(own, ENOUGH_MS) != 0);
	}
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, 2 * ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(end_of(pid), 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

/* ---- threads and signals ---- */

typedef struct numbers {
	int    list[256];
	size_t count;
} numbers;

static numbers entries_of(const char *folder)
{
	numbers found = {.count = 0};
	DIR    *dir = opendir(folder);
	CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
	for (struct dirent *d = readdir(dir); d != NULL && found.count < 256; d = readdir(dir))
		if (d->d_name[0] != '.' && !(strstr(folder, "fd") && atoi(d->d_name) == dirfd(dir)))
			found.list[found.count++] = atoi(d->d_name);
	closedir(dir);
	return found;
}

static bool has(const numbers *n, int number)
{
	for (size_t i = 0; i < n->count; i++)
		if (n->list[i] == number)
			return true;
	return false;
}

static uint64_t blocked_signals(int thread)
{
	char               name[64], line[200];
	unsigned long long mask = 0;
	snprintf(name, sizeof name, "/proc/self/task/%d/status", thread);
	FILE *f = fopen(name, "re");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "SigBlk: %llx", &mask) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return mask;
}

/* All but those that cannot be blocked, and the two of the C library. */
static uint64_t blockable_signals(void)
{
	sigset_t all;
	uint64_t mask = 0;
	sigfillset(&all);
	for (int i = 1; i <= 64; i++)
		if (sigismember(&all, i) == 1 && i != SIGKILL && i != SIGSTOP && (i < 32 || i >= SIGRTMIN))
			mask |= UINT64_C(1) << (i - 1);
	return mask;
}

static void threads_of_the_library_block_all_signals(void)
{
	if (under_valgrind())
		SKIP("there, what a thread blocks is not to be seen from outside");
	lock_path path = new_path();
	observer();
	numbers      before = entries_of("/proc/self/task");
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	sigset_t     mask;
	int          seen_threads = 0;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	numbers after = entries_of("/proc/self/task");
	for (size_t i = 0; i < after.count; i++)
		if (!has(&before, after.list[i])) {
			seen_threads++;
			EXPECT_TRUE((blocked_signals(after.list[i]) & blockable_signals()) == blockable_signals());
		}
	EXPECT_INT(seen_threads, 4);
	/* And the caller's own mask is what it was. */
	EXPECT_INT(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	EXPECT_INT(sigismember(&mask, SIGTERM), 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EVENTUALLY(entries_of("/proc/self/task").count == before.count, ENOUGH_MS);
}

static atomic_int pipes_broken;

static void note_broken_pipe(int number)
{
	(void)number;
	atomic_fetch_add(&pipes_broken, 1);
}

static void broken_connections_raise_no_sigpipe(void)
{
	lock_path        path = new_path();
	struct sigaction noting = {.sa_handler = note_broken_pipe}, before;
	sigset_t         pending;
	net              n;
	cycler           c;
	int              cuts = 0;
	net_open(&n, 1, server_count());
	sigaction(SIGPIPE, &noting, &before);
	zkl_session *s = session_open(n.servers, SESSION_MS);
	cycler_start(&c, s, path.text);
	for (int64_t end_ms = now_ms() + 3000; now_ms() < end_ms; cuts++) {
		net_cut(&n);
		let_pass(100);
	}
	cycler_stop(&c);
	EXPECT_RC(c.failure, ZKL_OK);
	EXPECT_TRUE(cuts > 5);
	EXPECT_INT(atomic_load(&pipes_broken), 0);
	EXPECT_INT(sigpending(&pending), 0);
	EXPECT_INT(sigismember(&pending, SIGPIPE), 0);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	sigaction(SIGPIPE, &before, NULL);
	net_close(&n);
}

static _Atomic(zkl_session *) to_cancel;

static void cancel_from_handler(int number)
{
	(void)number;
	zkl_session_cancel(atomic_load(&to_cancel));
}

/* The signal finds a thread that waits, or one in the middle of any call. */
static void session_is_cancelled_from_a_signal_handler(void)
{
	struct sigaction handling = {.sa_handler = cancel_from_handler}, before;
	unsigned         random_state = (unsigned)now_ns();
	sigaction(SIGUSR1, &handling, &before);
	for (int i = 0; i < rounds(10, 200); i++) {
		enum { WAITERS = 3 };
		lock_path    path = new_path(), busy = new_path();
		zkl_session *s = session_open(all_servers(), SESSION_MS);
		zkl_lock    *held = lock_new(s, path.text, NULL), *cycled = lock_new(s, busy.text, NULL);
		zkl_lock    *waiting[WAITERS];
		acquirer     a[WAITERS];
		zkl_grant    grant = {0}, other;
		EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
		for (int k = 0; k < WAITERS; k++) {
			waiting[k] = lock_new(s, path.text, NULL);
			acquirer_start(&a[k], waiting[k], ZKL_FOREVER);
		}
		EVENTUALLY(zkclient_count(observer(), path.text) == 1 + WAITERS, ENOUGH_MS);
		atomic_store(&to_cancel, s);
		if (i % 2) {
			pthread_kill(a[i % WAITERS].thread, SIGUSR1);
		} else {
			int              rc = 0;
			struct itimerval soon = {.it_value = {0, 1 + rand_r(&random_state) % 30000}};
			struct sigaction at_alarm = handling, old;
			sigaction(SIGALRM, &at_alarm, &old);
			setitimer(ITIMER_REAL, &soon, NULL);
			while (rc == 0) {
				rc = zkl_lock_acquire(cycled, ENOUGH_MS, &other, NULL);
				if (rc == 0)
					rc = zkl_lock_release(cycled, 0, NULL);
			}
			EXPECT_RC(rc, ZKL_ECANCELED);
			sigaction(SIGALRM, &old, NULL);
		}
		for (int k = 0; k < WAITERS; k++)
			EXPECT_RC(acquirer_join(&a[k]), ZKL_ECANCELED);
		EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
		EVENTUALLY(zkclient_count(observer(), path.text) == 1, ENOUGH_MS);
		for (int k = 0; k < WAITERS; k++)
			zkl_lock_free(waiting[k]);
		zkl_lock_free(held);
		zkl_lock_free(cycled);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), busy.text), 0);
	}
	sigaction(SIGUSR1, &before, NULL);
}

static struct {
	_Atomic(zkl_lock *)     lock;
	_Atomic(zkl_election *) election;
	atomic_ullong           token, term;
	atomic_int              yes, no;
	pthread_t               in; /* the thread that makes the calls; one of the others watches over the time */
} asked;

static void ask_in_handler(int number)
{
	(void)number;
	if (!pthread_equal(pthread_self(), asked.in))
		return;
	bool may = zkl_lock_check(atomic_load(&asked.lock), atomic_load(&asked.token)) > 0 &&
	           zkl_election_check(atomic_load(&asked.election), atomic_load(&asked.term)) > 0;
	atomic_fetch_add(may ? &asked.yes : &asked.no, 1);
}

/* Over and over, in the middle of any call of the same session. */
static void check_is_asked_in_a_signal_handler(void)
{
	lock_path        path = new_path(), office = new_path(), busy = new_path();
	struct sigaction asking = {.sa_handler = ask_in_handler, .sa_flags = SA_RESTART};
	struct sigaction ignoring = {.sa_handler = SIG_IGN}; /* from then on: the last one may be late */
	struct itimerval often = {{0, 300}, {0, 300}}, never_again = {{0, 0}, {0, 0}};
	zkl_session     *s = session_open(all_servers(), SESSION_MS);
	zkl_lock        *lock = lock_new(s, path.text, NULL), *cycled = lock_new(s, busy.text, NULL);
	recorder         events = RECORDER("leader");
	zkl_election    *election = election_new(s, office.text, 0, &events);
	zkl_grant        grant = {0}, other;
	seen             e = {0};
	int              rc = 0;
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(election, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &e));
	asked.in = pthread_self();
	atomic_store(&asked.lock, lock);
	atomic_store(&asked.election, election);
	atomic_store(&asked.token, grant.token);
	atomic_store(&asked.term, e.token);
	sigaction(SIGALRM, &asking, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int64_t end_ms = now_ms() + rounds(1000, 20000); rc == 0 && now_ms() < end_ms;) {
		for (int i = 0; i < 200; i++)
			EXPECT_RC(zkl_lock_release(cycled, 0, NULL), ZKL_ENOTHELD);
		rc = zkl_lock_acquire(cycled, ENOUGH_MS, &other, NULL);
		if (rc == 0)
			rc = zkl_lock_release(cycled, 0, NULL);
	}
	setitimer(ITIMER_REAL, &never_again, NULL);
	sigaction(SIGALRM, &ignoring, NULL);
	EXPECT_RC(rc, ZKL_OK);
	EXPECT_TRUE(atomic_load(&asked.yes) > 0);
	EXPECT_INT(atomic_load(&asked.no), 0);
	zkl_lock_free(lock);
	zkl_lock_free(cycled);
	zkl_election_free(election);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
}

/* ---- descriptors ---- */

/* Once what earlier tests have closed is gone, too: a proxy's thread may still be at it. */
static numbers settled_descriptors(void)
{
	numbers before, after = entries_of("/proc/self/fd");
	do {
		before = after;
		let_pass(100);
		after = entries_of("/proc/self/fd");
	} while (memcmp(&before, &after, sizeof before) != 0);
	return after;
}

static void descriptors_of_the_library_are_close_on_exec_and_all_are_closed(void)
{
	lock_path path = new_path();
	observer();
	for (int manual = 0; manual <= 1; manual++) {
		numbers             before = settled_descriptors(), after;
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *s = NULL;
		zkl_grant           grant;
		int                 ours = 0, of_the_client = 0;
		options.flags = manual ? ZKL_MANUAL : 0;
		EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
		zkl_lock *lock = lock_new(s, path.text, NULL);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		after = entries_of("/proc/self/fd");
		for (size_t i = 0; i < after.count; i++) {
			char name[64], target[100] = "";
			if (has(&before, after.list[i]))
				continue;
			snprintf(name, sizeof name, "/proc/self/fd/%d", after.list[i]);
			EXPECT_TRUE(readlink(name, target, sizeof target - 1) > 0);
			if (strncmp(target, "socket:", 7) == 0 || strncmp(target, "pipe:", 5) == 0) {
				of_the_client++; /* close-on-exec or not: the headers say so */
			} else {
				ours++;
				EXPECT_TRUE(fcntl(after.list[i], F_GETFD) & FD_CLOEXEC);
			}
		}
		EXPECT_INT(ours, 2 + manual);     /* to wake it, its timer; that of zkl_session_fd() */
		EXPECT_INT(of_the_client, 1 + 2); /* its socket, its pipe */
		zkl_lock_free(lock);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		EXPECT_INT((int64_t)entries_of("/proc/self/fd").count, (int64_t)before.count);
	}
}

/* ---- locale ---- */

/* One with a decimal comma, and letters above 127; it is compiled where the system has none. */
static bool use_comma_locale(char *folder)
{
	char command[300];
	if (mkdtemp(folder) == NULL || setenv("LOCPATH", folder, 1) != 0)
		return false;
	snprintf(command, sizeof command, "localedef -i de_DE -f ISO-8859-1 %s/de_DE >/dev/null 2>&1", folder);
	if (system(command) != 0) /* NOLINT(cert-env33-c): the words are ours */
		return false;
	return setlocale(LC_ALL, "de_DE") != NULL && localeconv()->decimal_point[0] == ',';
}

static void remove_comma_locale(const char *folder)
{
	char command[300];
	setlocale(LC_ALL, "C");
	unsetenv("LOCPATH");
	snprintf(command, sizeof command, "rm -rf %s", folder);
	EXPECT_INT(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void live_and_look(void)
{
	static const char foreign[] = "h\xe4user \x84 1.5";
	lock_path         path = new_path();
	zkl_session      *s = session_open(all_servers(), SESSION_MS);
	zkl_lock         *lock = lock_new(s, path.text, NULL);
	zkl_grant         grant = {0};
	zkl_peer          peer;
	char              pid[32], sequence[32];
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	snprintf(sequence, sizeof sequence, "-lock-%010d", (int)grant.epoch);
	snprintf(pid, sizeof pid, ":%d ", (int)getpid());
	EXPECT_TRUE(strstr(grant.node, sequence) != NULL);
	EXPECT_INT(zkl_lock_holder(s, path.text, &peer, NULL), 1);
	EXPECT_TRUE(peer.token == grant.token && strstr(peer.id, pid) != NULL);
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) > 0);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	node other = foreign_contender(path.text, "_c_0c3ab2a0-3a40-4d08-8f7b-6d5a4ff80d01-lock-");
	EXPECT_INT(zkclient_set(observer(), other.path, foreign, sizeof foreign - 1), ZOK);
	EXPECT_INT(zkl_lock_holder(s, path.text, &peer, NULL), 1);
	EXPECT_TRUE(strcmp(peer.id, "h\\xe4user \\x84 1.5") == 0 || strcmp(peer.id, "h\\xE4user \\x84 1.5") == 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void decimal_comma_and_other_letters_change_nothing(void)
{
	char folder[] = "/tmp/zklock-locale-XXXXXX";
	if (!use_comma_locale(folder)) {
		remove_comma_locale(folder);
		SKIP("no locale with a decimal comma (package locales)");
	}
	live_and_look();
	EXPECT_TRUE(localeconv()->decimal_point[0] == ',');
	remove_comma_locale(folder);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(child_of_a_fork_cannot_use_elections_and_harms_none, 60)},
		{TEST(forks_in_the_middle_of_work_block_no_child, 300)},
		{TEST(child_opens_a_session_of_its_own, 90)},
		{TEST(threads_of_the_library_block_all_signals, 60)},
		{TEST(broken_connections_raise_no_sigpipe, 60)},
		{TEST(session_is_cancelled_from_a_signal_handler, 300)},
		{TEST(check_is_asked_in_a_signal_handler, 90)},
		{TEST(descriptors_of_the_library_are_close_on_exec_and_all_are_closed, 60)},
		{TEST(decimal_comma_and_other_letters_change_nothing, 60)},
		{0},
	};
	return harness_main(argc, argv, "process", tests);
}
