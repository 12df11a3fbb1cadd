/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <CUnit/Basic.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIPPED 77
#define PATHS_MAX    4096
#define POLL_NS      2000000

static const test  *running; /* the test that runs, NULL between two */
static const test  *all_tests;
static atomic_int   violations; /* of the events' grammar, in the test that runs */
static atomic_llong latest_ns;  /* how late a thread woke up since the test began, at most */

/* ---- surroundings ---- */

static char       *server_list[SERVERS_MAX];
const char *const *servers = (const char *const *)server_list;
static size_t      server_total;

static int64_t env_number(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);
	return text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : otherwise;
}

static bool read_servers(void)
{
	char *list = getenv("ZKLOCK_TEST_SERVERS"), *rest = NULL;
	if (list == NULL || *list == '\0')
		return false;
	list = strdup(list);
	for (char *one = strtok_r(list, ",", &rest); one != NULL && server_total < SERVERS_MAX;
	     one = strtok_r(NULL, ",", &rest))
		server_list[server_total++] = one;
	return server_total > 0;
}

size_t server_count(void)
{
	return server_total;
}

const char *all_servers(void)
{
	return getenv("ZKLOCK_TEST_SERVERS");
}

const char *backend(void)
{
	const char *name = getenv("ZKLOCK_TEST_BACKEND");
	return name != NULL ? name : "";
}

int64_t tick_ms(void)
{
	return env_number("ZKLOCK_TEST_TICK_MS", 500);
}

int64_t sync_limit(void)
{
	return env_number("ZKLOCK_TEST_SYNC_LIMIT", 30);
}

int rounds(int in_short_runs, int in_long_runs)
{
	return getenv("ZKLOCK_TEST_LONG") != NULL ? in_long_runs : in_short_runs;
}

bool under_valgrind(void)
{
	return getenv("ZKLOCK_TEST_VALGRIND") != NULL;
}

/* What is tested goes through several threads, each of which may be as late as one that only sleeps. */
int64_t late(int64_t ms)
{
	return ms + (under_valgrind() ? 10000 : 500) + 4 * atomic_load(&latest_ns) / 1000000;
}

static zkclient *the_observer;

zkclient *observer(void)
{
	if (the_observer == NULL)
		the_observer = zkclient_open(all_servers());
	if (the_observer == NULL) {
		fprintf(stderr, "no server of %s answers\n", all_servers());
		exit(EXIT_FAILURE);
	}
	return the_observer;
}

node foreign_contender(const char *path, const char *prefix)
{
	node made = {""};
	char asked[300];
	EXPECT_INT(zkclient_make_directory(observer(), path), ZOK);
	snprintf(asked, sizeof asked, "%s/%s", path, prefix);
	EXPECT_INT(
		zkclient_create(observer(), asked, "x", 1, ZOO_EPHEMERAL | ZOO_SEQUENCE, made.path, sizeof made.path),
		ZOK);
	return made;
}

const char *node_name(const node *n)
{
	return strrchr(n->path, '/') + 1;
}

static lock_path paths_made[PATHS_MAX];
static size_t    path_count;

lock_path new_path(void)
{
	static int number;
	lock_path  path;
	snprintf(path.text, sizeof path.text, "/zklock-test/%.60s.%d.%d", running != NULL ? running->name : "role",
	         (int)getpid(), ++number);
	if (running != NULL && path_count < PATHS_MAX)
		paths_made[path_count++] = path;
	return path;
}

static void remove_paths(void)
{
	while (path_count > 0)
		zkclient_delete_tree(observer(), paths_made[--path_count].text);
}

/* ---- time ---- */

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_ms(void)
{
	return now_ns() / 1000000;
}

void poll_pause(void)
{
	nanosleep(&(struct timespec){0, POLL_NS}, NULL);
}

void let_pass(int64_t ms)
{
	for (int64_t end_ms = now_ms() + ms; now_ms() < end_ms;)
		poll_pause();
}

/* ---- asserting ---- */

bool expect_true(bool met, int line, const char *file, const char *text)
{
	CU_assertImplementation(met, (unsigned)line, text, file, "", CU_FALSE);
	return met;
}

bool expect_int(int64_t value, int64_t wanted, int line, const char *file, const char *text)
{
	char what[400];
	snprintf(what, sizeof what, "%s is %lld, not %lld", text, (long long)value, (long long)wanted);
	return expect_true(value == wanted, line, file, what);
}

bool expect_rc(int64_t rc, int64_t wanted, int line, const char *file, const char *text)
{
	char what[400];
	snprintf(what, sizeof what, "%s is %lld %s, not %lld %s", text, (long long)rc,
	         rc < 0 ? zkl_error_name((int)rc) : "", (long long)wanted,
	         wanted < 0 ? zkl_error_name((int)wanted) : "");
	return expect_true(rc == wanted, line, file, what);
}

bool expect_range(int64_t value, int64_t from, int64_t to, int line, const char *file, const char *text)
{
	char what[400];
	snprintf(what, sizeof what, "%s is %lld, not %lld .. %lld", text, (long long)value, (long long)from,
	         (long long)to);
	return expect_true(value >= from && value <= to, line, file, what);
}

/* ---- sessions ---- */

static void log_line(int level, const char *id, const char *message, void *user)
{
	(void)user;
	fprintf(stderr, "%lld.%03lld <%d> %s: %s\n", (long long)(now_ms() / 1000), (long long)(now_ms() % 1000), level,
	        id, message);
}

zkl_session_options session_options(const char *at, int64_t timeout_ms)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	options.servers = at;
	options.timeout_ms = timeout_ms;
	if (getenv("ZKLOCK_TEST_VERBOSE") != NULL) {
		options.log = log_line;
		options.log_level = 7;
	}
	return options;
}

zkl_session *session_open(const char *at, int64_t timeout_ms)
{
	zkl_session_options options = session_options(at, timeout_ms);
	zkl_session        *s = NULL;
	zkl_error           error = {0};
	int                 rc = zkl_session_open(&options, &s, &error);
	if (!EXPECT_RC(rc, ZKL_OK))
		fprintf(stderr, "no session at %s: %s\n", at, error.message);
	return s;
}

/* In any thread. */
static int read_stats(zkl_session *s, zkl_stats *ret)
{
	*ret = (zkl_stats)ZKL_STATS_INIT;
	return zkl_session_stats(s, ret);
}

zkl_stats stats_of(zkl_session *s)
{
	zkl_stats stats;
	EXPECT_RC(read_stats(s, &stats), ZKL_OK);
	return stats;
}

int64_t session_timeout_ms(zkl_session *s)
{
	zkl_stats stats;
	read_stats(s, &stats);
	return stats.timeout_ms;
}

void log_count(int level, const char *id, const char *message, void *user)
{
	log_counter *c = user;
	(void)message;
	if (level == c->level && strcmp(id, c->id) == 0)
		atomic_fetch_add(&c->count, 1);
}

bool reach_full_lease(zkl_session *s)
{
	zkl_stats stats;
	read_stats(s, &stats);
	uint64_t wanted = stats.heartbeats + 6; /* also by a lease that is taken for full too early */
	int64_t  end_ms = now_ms() + 3 * stats.timeout_ms + 20000;
	bool     full = false;
	while (!full && now_ms() < end_ms) {
		poll_pause();
		read_stats(s, &stats);
		full = stats.heartbeats >= wanted && stats.lease_ms > stats.timeout_ms / 2;
	}
	return full;
}

void wait_for_full_lease(zkl_session *s)
{
	EXPECT_TRUE(reach_full_lease(s));
}

/* ---- proxies ---- */

void net_open(net *n, size_t first, size_t count)
{
	*n = (net){.count = count};
	CU_ASSERT_FATAL(first >= 1 && first + count - 1 <= server_total);
	for (size_t i = 0; i < count; i++) {
		n->at[i] = proxy_start(server_list[first - 1 + i]);
		CU_ASSERT_PTR_NOT_NULL_FATAL(n->at[i]);
		size_t len = strlen(n->servers);
		snprintf(n->servers + len, sizeof n->servers - len, "%s%s", i > 0 ? "," : "", proxy_address(n->at[i]));
	}
}

void net_close(net *n)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_stop(n->at[i]);
	n->count = 0;
}

/* At one moment: where the client comes to with its next connection, that is left alone. */
void net_cut(net *n)
{
	int64_t now = now_ns();

	for (size_t i = 0; i < n->count; i++)
		proxy_cut_older(n->at[i], now);
}

void net_set_door(net *n, proxy_door door)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_set_door(n->at[i], door);
}

void net_hold(net *n, unsigned directions)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_hold(n->at[i], directions);
}

void net_drop(net *n, bool dropping)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_drop(n->at[i], dropping);
}

int net_requests(net *n, int op)
{
	int sum = 0;
	for (size_t i = 0; i < n->count; i++)
		sum += proxy_count(n->at[i], op);
	return sum;
}

static int net_unanswered(net *n)
{
	int count = 0;
	for (size_t i = 0; i < n->count; i++)
		count += proxy_unanswered(n->at[i]);
	return count;
}

int net_settled_requests(net *n)
{
	int     count = -1;
	int64_t since_ms = now_ms();
	while (now_ms() - since_ms < 100) {
		int now = net_requests(n, OP_ANY) - net_requests(n, OP_MULTI);
		if (now != count || net_unanswered(n) > 0) {
			count = now;
			since_ms = now_ms();
		}
		poll_pause();
	}
	return count;
}

void net_reset_counts(net *n)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_reset_counts(n->at[i]);
}

void net_expire(net *n)
{
	int64_t id = 0;
	char    password[16];
	net_set_door(n, PROXY_REFUSING);
	net_cut(n);
	for (size_t i = 0; i < n->count; i++)
		if (proxy_session(n->at[i], &id, password))
			EXPECT_INT(zkclient_end_session(server_list[0], id, password), ZOK);
	net_set_door(n, PROXY_OPEN);
}

/* To ask the owner's own server again would end the owner's connection. */
void net_end_session(net *n)
{
	int64_t id = 0;
	char    password[16];
	EXPECT_TRUE(proxy_session(n->at[0], &id, password));
	zkclient_end_session(server_list[0], id, password);
	EVENTUALLY(zkclient_end_session(server_list[1], id, password) == ZSESSIONEXPIRED, 10000);
}

int64_t net_last_proof_ns(net *n)
{
	static const int quorum_ops[] = {OP_CREATE2, OP_CREATE, OP_MULTI, OP_SET_DATA};
	int64_t          newest = 0;
	for (size_t i = 0; i < n->count; i++)
		for (size_t k = 0; k < sizeof quorum_ops / sizeof *quorum_ops; k++) {
			int64_t at_ns = proxy_last_acked_ns(n->at[i], quorum_ops[k]);
			newest = at_ns > newest ? at_ns : newest;
		}
	return newest;
}

/* ---- events ---- */

static const char *event_name(int type)
{
	static const char *const names[] = {"-",       "WAITING", "GRANTED", "SUSPENDED",
	                                    "RESUMED", "LOST",    "ENDED",   "LEADER"};
	return type >= 0 && type <= ZKL_EV_LEADER ? names[type] : "?";
}

/* May `next` follow `last` (0: the attempt's first)? A grant is in force after GRANTED, SUSPENDED and RESUMED. */
static bool follows(int last, zkl_event_type next)
{
	bool granted = last == ZKL_EV_GRANTED || last == ZKL_EV_RESUMED;
	switch (next) {
	case ZKL_EV_WAITING:
	case ZKL_EV_GRANTED:
		return last == 0 || last == ZKL_EV_WAITING;
	case ZKL_EV_SUSPENDED:
		return granted;
	case ZKL_EV_RESUMED:
		return last == ZKL_EV_SUSPENDED;
	case ZKL_EV_LOST:
		return granted || last == ZKL_EV_SUSPENDED;
	case ZKL_EV_ENDED:
		return true;
	default:
		return false;
	}
}

static void print_seen(const seen *e)
{
	fprintf(stderr, "\t%lld.%03lld %-9s code %s ahead %u requeued %u lease %lld token %llu %s %s\n",
	        (long long)(e->at_ns / 1000000000), (long long)(e->at_ns / 1000000 % 1000), event_name((int)e->type),
	        e->code != 0 ? zkl_error_name(e->code) : "0", e->ahead, e->requeued, (long long)e->lease_ms,
	        (unsigned long long)e->token, e->node, e->message);
}

static void print_locked(recorder *r)
{
	fprintf(stderr, "events of %s:\n", r->name);
	for (size_t i = r->count > 40 ? r->count - 40 : 0; i < r->count; i++)
		print_seen(&r->list[i]);
}

void recorder_print(recorder *r)
{
	pthread_mutex_lock(&r->mutex);
	print_locked(r);
	pthread_mutex_unlock(&r->mutex);
}

void recorder_event(const zkl_event *ev, void *user)
{
	recorder *r = user;
	seen      e = {.type = ev->type,
	               .code = ev->code,
	               .at_ns = now_ns(),
	               .lease_ms = ev->lease_ms,
	               .ahead = ev->ahead,
	               .requeued = ev->requeued};
	if (ev->leader != NULL) {
		e.token = ev->leader->token;
		e.epoch = ev->leader->epoch;
		snprintf(e.id, sizeof e.id, "%s", ev->leader->id);
	}
	if (ev->grant != NULL) {
		e.token = ev->grant->token;
		e.epoch = ev->grant->epoch;
		snprintf(e.node, sizeof e.node, "%s", ev->grant->node);
	}
	if (ev->error != NULL)
		snprintf(e.message, sizeof e.message, "%s", ev->error->message);
	pthread_mutex_lock(&r->mutex);
	if (r->count == r->size) {
		r->size = r->size * 2 + 16;
		r->list = realloc(r->list, r->size * sizeof *r->list);
	}
	r->list[r->count++] = e;
	bool granted_once = r->state >= ZKL_EV_GRANTED, apart = ev->type == ZKL_EV_LEADER;
	if (apart) {
		if (ev->grant != NULL || (ev->code < 0) != (ev->error != NULL))
			atomic_fetch_add(&violations, 1);
	} else if (!follows(r->state, ev->type) || (ev->type == ZKL_EV_GRANTED && ev->grant == NULL) ||
	           (ev->type == ZKL_EV_ENDED && granted_once != (ev->grant != NULL))) {
		atomic_fetch_add(&violations, 1);
		fprintf(stderr, "the last event may not come here:\n");
		print_locked(r);
	}
	if (!apart)
		r->state = ev->type == ZKL_EV_ENDED ? 0 : (int)ev->type;
	pthread_cond_broadcast(&r->came);
	pthread_mutex_unlock(&r->mutex);
	if (r->then != NULL)
		r->then(ev, r);
}

void recorder_free(recorder *r)
{
	free(r->list);
	r->list = NULL;
	r->count = r->size = 0;
}

static seen *find_locked(recorder *r, zkl_event_type type, int nth)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->list[i].type == type && --nth == 0)
			return &r->list[i];
	return NULL;
}

int recorder_count(recorder *r, zkl_event_type type)
{
	int count = 0;
	pthread_mutex_lock(&r->mutex);
	for (size_t i = 0; i < r->count; i++)
		count += r->list[i].type == type;
	pthread_mutex_unlock(&r->mutex);
	return count;
}

int recorder_total(recorder *r)
{
	pthread_mutex_lock(&r->mutex);
	int count = (int)r->count;
	pthread_mutex_unlock(&r->mutex);
	return count;
}

bool recorder_wait(recorder *r, zkl_event_type type, int nth, int64_t timeout_ms, seen *ret)
{
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	end.tv_sec += timeout_ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&r->mutex);
	seen *e;
	for (int rc = 0; (e = find_locked(r, type, nth)) == NULL && rc == 0;)
		rc = pthread_cond_timedwait(&r->came, &r->mutex, &end);
	if (e != NULL && ret != NULL)
		*ret = *e;
	if (e == NULL) {
		fprintf(stderr, "no %s (%d.) within %lld ms\n", event_name((int)type), nth, (long long)timeout_ms);
		print_locked(r);
	}
	pthread_mutex_unlock(&r->mutex);
	return e != NULL;
}

static seen *newest_leader_locked(recorder *r)
{
	for (size_t i = r->count; i > 0; i--)
		if (r->list[i - 1].type == ZKL_EV_LEADER)
			return &r->list[i - 1];
	return NULL;
}

bool recorder_wait_leader(recorder *r, uint64_t token, int64_t timeout_ms, seen *ret)
{
	int64_t end_ms = now_ms() + timeout_ms;
	bool    met = false;
	while (!met) {
		pthread_mutex_lock(&r->mutex);
		const seen *e = newest_leader_locked(r);
		met = e != NULL && e->token == token && e->code == 0;
		if (met && ret != NULL)
			*ret = *e;
		pthread_mutex_unlock(&r->mutex);
		if (!met && now_ms() > end_ms) {
			recorder_print(r);
			return false;
		}
		if (!met)
			poll_pause();
	}
	return true;
}

zkl_election *election_new(zkl_session *s, const char *path, unsigned flags, recorder *r)
{
	zkl_options   options = ZKL_OPTIONS_INIT;
	zkl_election *election = NULL;
	options.flags = flags;
	if (r != NULL) {
		options.on_event = recorder_event;
		options.user = r;
	}
	EXPECT_RC(zkl_election_new(s, path, &options, &election, NULL), ZKL_OK);
	return election;
}

zkl_lock *lock_new(zkl_session *s, const char *path, recorder *r)
{
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_lock   *lock = NULL;
	if (r != NULL) {
		options.on_event = recorder_event;
		options.user = r;
	}
	EXPECT_RC(zkl_lock_new(s, path, &options, &lock, NULL), ZKL_OK);
	return lock;
}

int64_t contender_check(contender c, uint64_t token)
{
	return c.lock != NULL ? zkl_lock_check(c.lock, token) : zkl_election_check(c.election, token);
}

/* ---- acquiring in another thread ---- */

static void *acquire(void *arg)
{
	acquirer *a = arg;
	int64_t   start_ms = now_ms();
	a->rc = zkl_lock_acquire(a->lock, a->timeout_ms, &a->grant, &a->error);
	a->took_ms = now_ms() - start_ms;
	atomic_store(&a->done, true);
	return NULL;
}

void acquirer_start(acquirer *a, zkl_lock *lock, int64_t timeout_ms)
{
	*a = (acquirer){.lock = lock, .timeout_ms = timeout_ms};
	CU_ASSERT_FATAL(pthread_create(&a->thread, NULL, acquire, a) == 0);
}

int acquirer_join(acquirer *a)
{
	pthread_join(a->thread, NULL);
	return a->rc;
}

/* ---- asking all the time ---- */

static void *probe(void *arg)
{
	prober *p = arg;
	while (!atomic_load(&p->stop)) {
		int64_t before_ns = now_ns();
		if (contender_check(p->asked, p->token) > 0) {
			atomic_store(&p->last_yes_ns, before_ns);
			if (atomic_load(&p->first_no_ns) != 0)
				atomic_fetch_add(&p->yes_after_no, 1);
		} else if (atomic_load(&p->first_no_ns) == 0) {
			atomic_store(&p->first_no_ns, now_ns());
		}
		nanosleep(&(struct timespec){0, 200000}, NULL); /* the machine has other tests to run */
	}
	return NULL;
}

void prober_start(prober *p, contender asked, uint64_t token)
{
	p->asked = asked;
	p->token = token;
	atomic_store(&p->stop, false);
	atomic_store(&p->last_yes_ns, 0);
	atomic_store(&p->first_no_ns, 0);
	atomic_store(&p->yes_after_no, 0);
	CU_ASSERT_FATAL(pthread_create(&p->thread, NULL, probe, p) == 0);
}

void prober_stop(prober *p)
{
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
}

/* ---- what the servers themselves manage ---- */

void note_gap(atomic_llong *last_ns, atomic_llong *longest_ns)
{
	int64_t now = now_ns(), gap = now - atomic_exchange(last_ns, now);
	if (gap > atomic_load(longest_ns))
		atomic_store(longest_ns, gap);
}

static void *write_all_the_time(void *arg)
{
	writer   *w = arg;
	zkclient *c = zkclient_open(w->servers);
	while (c != NULL && !atomic_load(&w->stop)) {
		if (zkclient_set(c, w->path.text, "x", 1) == ZOK)
			note_gap(&w->last_ns, &w->longest_ns);
		poll_pause();
	}
	zkclient_close(c);
	return NULL;
}

void writer_start(writer *w, const char *servers_to_use)
{
	w->servers = servers_to_use;
	w->path = new_path();
	EXPECT_INT(zkclient_make_directory(observer(), w->path.text), ZOK);
	atomic_store(&w->stop, false);
	atomic_store(&w->last_ns, now_ns());
	atomic_store(&w->longest_ns, 0);
	CU_ASSERT_FATAL(pthread_create(&w->thread, NULL, write_all_the_time, w) == 0);
}

int64_t writer_stop(writer *w)
{
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
	return atomic_load(&w->longest_ns) / 1000000;
}

/* ---- servers ---- */

/* pid -1: it could not be run. What it prints goes to standard error, or can be read from `out`. */
static ensemble_call zk_begin(const char *verb, int server, bool keep_output)
{
	const char   *command = getenv("ZKLOCK_TEST_ZK");
	char          number[16];
	int           ends[2];
	ensemble_call call = {-1, -1};
	snprintf(number, sizeof number, "%d", server);
	if (command == NULL)
		command = "test/ensemble/zk";
	char *argv[] = {(char *)(uintptr_t)command, (char *)(uintptr_t)verb, server > 0 ? number : NULL, NULL};
	CU_ASSERT_FATAL(pipe2(ends, O_CLOEXEC) == 0);
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, keep_output ? ends[1] : STDERR_FILENO, STDOUT_FILENO);
	int rc = posix_spawn(&call.pid, command, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	call.out = ends[0];
	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", command, strerror(rc));
		call.pid = -1;
	}
	return call;
}

/* Exit status; 127: it could not be run. */
static int zk_end(ensemble_call *call, char *out, size_t size)
{
	size_t len = 0;
	int    status = 127 << 8;
	for (ssize_t n; len + 1 < size && (n = read(call->out, out + len, size - 1 - len)) > 0;)
		len += (size_t)n;
	out[len] = '\0';
	close(call->out);
	while (call->pid > 0 && waitpid(call->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ensemble_call ensemble_begin(const char *verb, int server)
{
	return zk_begin(verb, server, false);
}

int ensemble_end(ensemble_call *call)
{
	char none[1];
	return zk_end(call, none, sizeof none);
}

int ensemble(const char *verb, int server)
{
	ensemble_call call = ensemble_begin(verb, server);
	return ensemble_end(&call);
}

int ensemble_ask(const char *verb, int server, char *out, size_t size)
{
	ensemble_call call = zk_begin(verb, server, true);
	return zk_end(&call, out, size);
}

int ensemble_leader(void)
{
	char out[64];
	return ensemble_ask("leader", 0, out, sizeof out) == 0 ? atoi(out) : 0;
}

/* ---- the runner ---- */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t  changed;
	int64_t         end_ms; /* 0: no test runs */
} watchdog = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static void *note_lateness(void *unused)
{
	(void)unused;
	for (int64_t before_ns = now_ns(), late_ns;; before_ns = now_ns()) {
		poll_pause();
		late_ns = now_ns() - before_ns - POLL_NS;
		if (late_ns > atomic_load(&latest_ns))
			atomic_store(&latest_ns, late_ns);
	}
	return NULL;
}

static void *watch(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&watchdog.mutex);
	for (;;) {
		struct timespec next;
		clock_gettime(CLOCK_REALTIME, &next);
		next.tv_sec++;
		pthread_cond_timedwait(&watchdog.changed, &watchdog.mutex, &next);
		if (watchdog.end_ms != 0 && now_ms() > watchdog.end_ms) {
			fprintf(stderr, "\n%s: still running after %d s\n", running->name, running->deadline_s);
			abort();
		}
	}
}

static void set_watchdog(int64_t end_ms)
{
	pthread_mutex_lock(&watchdog.mutex);
	watchdog.end_ms = end_ms;
	pthread_cond_broadcast(&watchdog.changed);
	pthread_mutex_unlock(&watchdog.mutex);
}

static struct {
	const test *last;
	int         count;
	char        names[2000];
} skipped;

void harness_skip(const char *reason)
{
	size_t used = strlen(skipped.names);
	printf("SKIP %s: %s ... ", running->name, reason);
	if (running == skipped.last)
		return;
	snprintf(skipped.names + used, sizeof skipped.names - used, "%s%s", used > 0 ? ", " : "", running->name);
	skipped.last = running;
	skipped.count++;
}

static int64_t test_start_ms;

static void before_test(void)
{
	const char *name = CU_get_current_test()->pName;
	for (running = all_tests; strcmp(running->name, name) != 0;)
		running++;
	atomic_store(&violations, 0);
	atomic_store(&latest_ns, 0);
	test_start_ms = now_ms();
	set_watchdog(test_start_ms + running->deadline_s * 1000);
}

static void after_test(void)
{
	EXPECT_INT(atomic_load(&violations), 0);
	remove_paths();
	set_watchdog(0);
	printf("%.1f s ", (double)(now_ms() - test_start_ms) / 1000);
	running = NULL;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc <= 1;
}

int harness_main(int argc, char **argv, const char *suite, const test *tests)
{
	pthread_t watching, noting;
	int       wanted = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	zoo_set_debug_level((ZooLogLevel)0);
	if (!read_servers()) {
		printf("SKIP %s: ZKLOCK_TEST_SERVERS names no servers\n", suite);
		return EXIT_SKIPPED;
	}
	if (CU_initialize_registry() != CUE_SUCCESS)
		return EXIT_FAILURE;
	all_tests = tests;
	CU_pSuite all = CU_add_suite_with_setup_and_teardown(suite, NULL, NULL, before_test, after_test);
	for (const test *t = tests; t->name != NULL; t++)
		if (is_wanted(t->name, argc, argv) && CU_add_test(all, t->name, t->run) != NULL)
			wanted++;
	if (wanted == 0 || pthread_create(&watching, NULL, watch, NULL) != 0 ||
	    pthread_create(&noting, NULL, note_lateness, NULL) != 0) {
		fprintf(stderr, "%s: no such test\n", argv[0]);
		return EXIT_FAILURE;
	}
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	unsigned failures = CU_get_number_of_failures();
	zkclient_close(the_observer);
	CU_cleanup_registry();
	if (skipped.count > 0)
		printf("%d skipped: %s\n", skipped.count, skipped.names);
	return failures > 0 ? EXIT_FAILURE : skipped.count == wanted ? EXIT_SKIPPED : EXIT_SUCCESS;
}
