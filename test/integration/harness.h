/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_HARNESS_H
#define ZKLOCK_TEST_HARNESS_H

/* harness.h: what the integration tests share: servers from the environment, paths of their own, deadlines, a
 * recorder of events that knows their grammar, faults of servers.
 *
 *     static const test tests[] = {{TEST(free_lock_is_granted, 20)}, ..., {0}};
 *     int main(int argc, char **argv) { return harness_main(argc, argv, "lock", tests); }
 *
 * With arguments only the tests of these names run. What was skipped is said in the last line, and by status 77 where
 * nothing is left. The environment:
 *     ZKLOCK_TEST_SERVERS     host:port,host:port,host:port; the nth is server n of ZKLOCK_TEST_ZK. Required (else 77)
 *     ZKLOCK_TEST_TICK_MS     their tickTime (500)
 *     ZKLOCK_TEST_SYNC_LIMIT  their syncLimit (30)
 *     ZKLOCK_TEST_BACKEND     what runs them: compose, process, ...
 *     ZKLOCK_TEST_ZK          the command that does things to servers (test/ensemble/zk)
 *     ZKLOCK_TEST_LONG        set: full counts in place of short ones
 *     ZKLOCK_TEST_VERBOSE     set: the library's log on standard error
 *
 * A test that goes on beyond its deadline ends the process, and its name is printed. Only a test's own thread may
 * use the macros that assert. */

#include "proxy.h"
#include "zkclient.h"

#include <CUnit/CUnit.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zklock/election.h>
#include <zklock/lock.h>

#define SERVERS_MAX 7

/* ---- tests ---- */

typedef struct test {
	const char *name;
	void (*run)(void);
	int deadline_s;
} test;
#define TEST(name, deadline_s) #name, name, deadline_s

int harness_main(int argc, char **argv, const char *suite, const test *tests);

/* Ends a test that this ensemble cannot serve. */
#define SKIP(reason)                                                                                                   \
	do {                                                                                                           \
		harness_skip(reason);                                                                                  \
		return;                                                                                                \
	} while (0)
void harness_skip(const char *reason);

/* ---- surroundings ---- */

extern const char *const *servers; /* "host:port" each, in the order of their numbers, which begin with 1 */
size_t                    server_count(void);
const char               *all_servers(void);
const char               *backend(void);
int64_t                   tick_ms(void);
int64_t                   sync_limit(void);
int                       rounds(int in_short_runs, int in_long_runs);
bool                      under_valgrind(void);
/* When what takes so long may come at the latest: half a second later, and what this machine was late by in this test. */
int64_t late(int64_t ms);

/* A path that no other test uses, also in other processes. It is removed after the test, with what is below it. */
typedef struct lock_path {
	char text[128];
} lock_path;
lock_path new_path(void);

/* An observer and operator, for the test's own thread, connected straight to all servers. */
zkclient *observer(void);

/* A contender of somebody else's under the path, which is made if need be: an ephemeral node of the observer's
 * session. The server appends the sequence number to the prefix. */
typedef struct node {
	char path[300];
} node;
node        foreign_contender(const char *path, const char *prefix);
const char *node_name(const node *n); /* without the path */

/* ---- time ---- */

int64_t now_ns(void); /* CLOCK_BOOTTIME, as the library's lease */
int64_t now_ms(void);
void    poll_pause(void);     /* between two looks at a condition */
void    let_pass(int64_t ms); /* where the passing of time is what is tested, never to wait for something */

/* Asserts that the condition becomes true in time. */
#define EVENTUALLY(condition, within_ms)                                                                               \
	do {                                                                                                           \
		int64_t eventually_end_ms = now_ms() + (within_ms);                                                    \
		bool    eventually_met = (condition);                                                                  \
		while (!eventually_met && now_ms() < eventually_end_ms) {                                              \
			poll_pause();                                                                                  \
			eventually_met = (condition);                                                                  \
		}                                                                                                      \
		expect_true(eventually_met, __LINE__, __FILE__, #condition " within " #within_ms " ms");               \
	} while (0)

/* Asserts that the condition stays true for so long. */
#define THROUGHOUT(condition, for_ms)                                                                                  \
	do {                                                                                                           \
		int64_t throughout_end_ms = now_ms() + (for_ms);                                                       \
		bool    throughout_met = (condition);                                                                  \
		while (throughout_met && now_ms() < throughout_end_ms) {                                               \
			poll_pause();                                                                                  \
			throughout_met = (condition);                                                                  \
		}                                                                                                      \
		expect_true(throughout_met, __LINE__, __FILE__, #condition " throughout " #for_ms " ms");              \
	} while (0)

/* Assert and print what came in its place. */
#define EXPECT_RC(call, wanted)   expect_rc((call), (wanted), __LINE__, __FILE__, #call)
#define EXPECT_INT(value, wanted) expect_int((value), (wanted), __LINE__, __FILE__, #value)
#define EXPECT_TRUE(condition)    expect_true((condition), __LINE__, __FILE__, #condition)
/* from <= value <= to */
#define EXPECT_RANGE(value, from, to) expect_range((value), (from), (to), __LINE__, __FILE__, #value)

bool expect_rc(int64_t rc, int64_t wanted, int line, const char *file, const char *text);
bool expect_int(int64_t value, int64_t wanted, int line, const char *file, const char *text);
bool expect_true(bool met, int line, const char *file, const char *text);
bool expect_range(int64_t value, int64_t from, int64_t to, int line, const char *file, const char *text);

/* ---- sessions ---- */

/* Default options, asserted to open. */
zkl_session *session_open(const char *at, int64_t timeout_ms);
/* The options of session_open(), to be changed before zkl_session_open(). */
zkl_session_options session_options(const char *at, int64_t timeout_ms);
/* T as granted, 0 before the first connection. */
int64_t   session_timeout_ms(zkl_session *s);
zkl_stats stats_of(zkl_session *s);
/* Counts the lines of one id on one level: log_count() is the hook, a log_counter its log_user. */
typedef struct log_counter {
	int         level;
	const char *id;
	atomic_int  count;
} log_counter;
void log_count(int level, const char *id, const char *message, void *user);
/* Waits until heartbeats have been flowing for a while, and the lease has its full length, five eighths of T, which is seen right
 * behind a proof: less an eighth for the proof and for looking. True if it has. */
bool reach_full_lease(zkl_session *s);
void wait_for_full_lease(zkl_session *s); /* asserted */

/* ---- proxies in front of several servers ---- */

typedef struct net {
	proxy *at[SERVERS_MAX];
	size_t count;
	char   servers[SERVERS_MAX * 32];
} net;

/* Proxies for `count` servers from the first-th (1, 2, ...) on. */
void net_open(net *n, size_t first, size_t count);
void net_close(net *n);
void net_cut(net *n);
void net_set_door(net *n, proxy_door door);
void net_hold(net *n, unsigned directions);
void net_drop(net *n, bool dropping);
int  net_requests(net *n, int op);
/* Requests but heartbeats, once all are answered and none has come for a while. */
int  net_settled_requests(net *n);
void net_reset_counts(net *n);
/* Ends the session that was granted last through these proxies, as an expiry does, while its owner is kept away. */
void net_expire(net *n);
/* The same while its owner is connected to the first server, and may go on. */
void net_end_session(net *n);
/* When the newest quorum operation that was answered had been sent, as seen by the proxies: no later than the
 * library's proof. */
int64_t net_last_proof_ns(net *n);

/* ---- events ---- */

typedef struct seen {
	zkl_event_type type;
	int            code;
	int64_t        at_ns, lease_ms;
	uint32_t       ahead, requeued;
	uint64_t       token, epoch; /* of the grant; LEADER: of the leader, token 0: there is none */
	char           node[256];
	char           message[244];
	char           id[128]; /* LEADER */
} seen;

/* Keeps all events of one handle in order. An event that breaks their grammar, see zkl_event_type, fails the test. LEADER
 * events have none. */
typedef struct recorder {
	pthread_mutex_t mutex;
	pthread_cond_t  came;
	const char     *name;
	seen           *list;
	size_t          count, size;
	int             state;                                 /* the last event's type; 0: between two attempts */
	void (*then)(const zkl_event *ev, struct recorder *r); /* called with each event, after it was noted */
	void      *user;
	atomic_int flag;
} recorder;

#define RECORDER(title)                                                                                                \
	{                                                                                                              \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER, .name = (title)                  \
	}

void recorder_event(const zkl_event *ev, void *user); /* zkl_options.on_event, user is the recorder */
void recorder_free(recorder *r);
/* How many events of this type have come; how many in all. */
int recorder_count(recorder *r, zkl_event_type type);
int recorder_total(recorder *r);
/* Waits for the nth (1, 2, ...) event of this type; *ret (may be NULL) is it. */
bool recorder_wait(recorder *r, zkl_event_type type, int nth, int64_t timeout_ms, seen *ret);
void recorder_print(recorder *r);

/* Waits until the newest LEADER event tells of this token (0: of nobody). */
bool recorder_wait_leader(recorder *r, uint64_t token, int64_t timeout_ms, seen *ret);

/* A lock, or an election, whose events are recorded. */
zkl_lock     *lock_new(zkl_session *s, const char *path, recorder *r);
zkl_election *election_new(zkl_session *s, const char *path, unsigned flags, recorder *r);

/* Either, for tests of both. */
typedef struct contender {
	zkl_lock     *lock; /* or: */
	zkl_election *election;
} contender;

int64_t contender_check(contender c, uint64_t token);

/* ---- acquiring in another thread ---- */

typedef struct acquirer {
	pthread_t   thread;
	zkl_lock   *lock;
	int64_t     timeout_ms, took_ms;
	atomic_bool done;
	int         rc; /* this and the rest once it is done */
	zkl_grant   grant;
	zkl_error   error;
} acquirer;

void acquirer_start(acquirer *a, zkl_lock *lock, int64_t timeout_ms);
int  acquirer_join(acquirer *a); /* what acquire() returned */

/* ---- asking all the time ---- */

/* A thread that asks check() over and over. A yes is stamped with the moment before the call. */
typedef struct prober {
	pthread_t    thread;
	contender    asked;
	uint64_t     token;
	atomic_bool  stop;
	atomic_llong last_yes_ns, first_no_ns; /* 0: none */
	atomic_int   yes_after_no;
} prober;

void prober_start(prober *p, contender asked, uint64_t token);
void prober_stop(prober *p);

/* ---- what the servers themselves manage ---- */

/* Keeps the time between two of a kind, at most. */
void note_gap(atomic_llong *last_ns, atomic_llong *longest_ns);

/* A plain client that writes all the time: an ensemble without a leader serves nobody. */
typedef struct writer {
	pthread_t    thread;
	const char  *servers;
	lock_path    path;
	atomic_bool  stop;
	atomic_llong last_ns, longest_ns; /* between two writes */
} writer;

/* servers: as zkl_session_open takes them, until writer_stop(). */
void writer_start(writer *w, const char *servers);
/* For how long nothing could be written, at most, in ms. A lease that is lost on a machine so busy that this comes near to it shows
 * nothing. */
int64_t writer_stop(writer *w);

/* ---- servers ---- */

/* Runs ZKLOCK_TEST_ZK with this verb (and server number, 0: none); its exit status. 77: cannot be done here. */
int ensemble(const char *verb, int server);
/* The same in two parts, for something to happen meanwhile. */
typedef struct ensemble_call {
	pid_t pid;
	int   out;
} ensemble_call;
ensemble_call ensemble_begin(const char *verb, int server);
int           ensemble_end(ensemble_call *call);
/* The same, and what it prints. */
int ensemble_ask(const char *verb, int server, char *out, size_t size);
/* Number of the leader, 0 if there is none. */
int ensemble_leader(void);

#endif
