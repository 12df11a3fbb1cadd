/* SPDX-License-Identifier: Apache-2.0 */
/* Names of servers: slow, dead, changed, of several addresses, and literal ones. What a name resolves to is this program's
 * business: the library's calls of getaddrinfo() come here (-Wl,--wrap). */
#include "../../zklock/look.h"
#include "harness.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#define SESSION_MS (tick_ms() * 8)
#define LONGEST_MS (tick_ms() * 20) /* what servers grant at most */
#define ENOUGH_MS  10000
#define NAMES      2

/* ---- the resolver ---- */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t  changed;
	const char     *name[NAMES], *addresses[NAMES]; /* "address,address"; NULL: cannot be resolved */
	int64_t         delay_ms;
	int             lookups, under_way, interruptible;
} dns = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret);

/* What names end with that are ours (RFC 6761). */
static bool is_ours(const char *host)
{
	size_t len = strlen(host);
	return len > 5 && strcmp(host + len - 5, ".test") == 0;
}

static const char *look_up_locked(const char *host)
{
	for (int i = 0; i < NAMES; i++)
		if (dns.name[i] != NULL && strcmp(dns.name[i], host) == 0)
			return dns.addresses[i];
	return NULL;
}

static bool blocks_all_signals(void)
{
	sigset_t mask;
	bool     all = pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0;
	for (int i = 1; i <= SIGRTMAX; i++)
		if (i != SIGKILL && i != SIGSTOP && (i < 32 || i >= SIGRTMIN)) /* those between are the C library's */
			all = all && sigismember(&mask, i) == 1;
	return all;
}

/* The answer is the one at the end of the delay. */
static const char *ask(const char *host)
{
	bool interruptible = !blocks_all_signals();
	pthread_mutex_lock(&dns.mutex);
	dns.interruptible += interruptible;
	dns.lookups++;
	dns.under_way++;
	for (int64_t end_ms = now_ms() + dns.delay_ms; dns.delay_ms > 0 && now_ms() < end_ms;) {
		struct timespec soon;
		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 50000000;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&dns.changed, &dns.mutex, &soon);
	}
	const char *found = look_up_locked(host);
	dns.under_way--;
	pthread_mutex_unlock(&dns.mutex);
	return found;
}

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **ret)
{
	if (!is_ours(host) || (hints->ai_flags & AI_NUMERICHOST))
		return __real_getaddrinfo(host, port, hints, ret);
	const char *found = ask(host);
	if (found == NULL)
		return EAI_AGAIN;
	for (char one[64]; *found != '\0'; found += *found == ',') {
		snprintf(one, sizeof one, "%.*s", (int)strcspn(found, ","), found);
		found += strlen(one);
		int rc = __real_getaddrinfo(one, port, hints, ret);
		if (rc != 0)
			return rc;
		while (*ret != NULL)
			ret = &(*ret)->ai_next;
	}
	return 0;
}

/* The nth name. Names and addresses are constants. */
static void dns_set(int nth, const char *name, const char *addresses)
{
	pthread_mutex_lock(&dns.mutex);
	dns.name[nth] = name;
	dns.addresses[nth] = addresses;
	pthread_mutex_unlock(&dns.mutex);
}

static void dns_set_delay(int64_t delay_ms)
{
	pthread_mutex_lock(&dns.mutex);
	dns.delay_ms = delay_ms;
	pthread_cond_broadcast(&dns.changed);
	pthread_mutex_unlock(&dns.mutex);
}

static int dns_lookups(void)
{
	pthread_mutex_lock(&dns.mutex);
	int lookups = dns.lookups;
	pthread_mutex_unlock(&dns.mutex);
	return lookups;
}

/* On threads that the application's signals may find. */
static int dns_interruptible(void)
{
	pthread_mutex_lock(&dns.mutex);
	int interruptible = dns.interruptible;
	pthread_mutex_unlock(&dns.mutex);
	return interruptible;
}

static bool dns_is_idle(void)
{
	pthread_mutex_lock(&dns.mutex);
	bool idle = dns.under_way == 0;
	pthread_mutex_unlock(&dns.mutex);
	return idle;
}

/* At the end of a test. */
static void dns_reset(void)
{
	for (int i = 0; i < NAMES; i++)
		dns_set(i, NULL, NULL);
	dns_set_delay(0);
	EVENTUALLY(dns_is_idle(), ENOUGH_MS);
}

/* ---- an ensemble that moves ---- */

/* One port at two addresses, with a server behind each; "zk.test" is the first. */
typedef struct place {
	proxy *old, *new;
	char   servers[32];
} place;

static void place_open(place *p)
{
	*p = (place){0};
	for (int i = 0; i < 20 && p->new == NULL; i++) {
		proxy_stop(p->old);
		p->old = proxy_start(servers[0]);
		CU_ASSERT_PTR_NOT_NULL_FATAL(p->old);
		p->new = proxy_start_at(servers[server_count() - 1], "127.0.0.2", proxy_port(p->old));
	}
	CU_ASSERT_PTR_NOT_NULL_FATAL(p->new);
	snprintf(p->servers, sizeof p->servers, "zk.test:%d", proxy_port(p->old));
	dns_set(0, "zk.test", "127.0.0.1");
}

static void place_close(place *p)
{
	proxy_stop(p->old);
	proxy_stop(p->new);
	dns_reset();
}

static void leave_old(place *p, proxy_door door)
{
	proxy_set_door(p->old, door);
	proxy_cut(p->old);
}

static bool is_connected(zkl_session *s)
{
	return stats_of(s).connected;
}

static int64_t cpu_ms(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

/* ---- slow and dead resolvers ---- */

static void expect_timeout_kept(zkl_lock *lock)
{
	zkl_grant grant;
	int64_t   start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(lock, 2000, &grant, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 1999, late(2000));
}

static void calls_keep_their_timeouts_while_names_do_not_resolve(void)
{
	static const int64_t delays_ms[] = {0, 2000, 60000};
	for (size_t i = 0; i < sizeof delays_ms / sizeof *delays_ms; i++) {
		lock_path path = new_path();
		place     p;
		zkl_grant grant;
		zkl_peer  peer;
		place_open(&p);
		dns_set(0, "zk.test", NULL);
		dns_set_delay(delays_ms[i]);
		int64_t      start_ms = now_ms();
		zkl_session *s = session_open(p.servers, SESSION_MS), *other = session_open(p.servers, SESSION_MS);
		zkl_lock    *lock = lock_new(s, path.text, NULL);
		EXPECT_RANGE(now_ms() - start_ms, 0, late(0));
		expect_timeout_kept(lock);
		start_ms = now_ms();
		EXPECT_RC(zkl_lock_holder(s, path.text, &peer, NULL), ZKL_ENOTCONN);
		EXPECT_RANGE(now_ms() - start_ms, SESSION_MS / 2 - 1, late(SESSION_MS / 2));
		start_ms = now_ms();
		EXPECT_RC(zkl_session_close(other, 1000), ZKL_OK);
		EXPECT_RANGE(now_ms() - start_ms, 0, late(0));
		dns_set(0, "zk.test", "127.0.0.1"); /* it comes back */
		dns_set_delay(0);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		zkl_lock_free(lock);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
		place_close(&p);
	}
}

static void calls_keep_their_timeouts_while_names_do_not_resolve_any_more(void)
{
	lock_path path = new_path();
	place     p;
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	int before = dns_lookups();
	dns_set_delay(60000);
	dns_set(0, "zk.test", NULL);
	leave_old(&p, PROXY_REFUSING);
	EVENTUALLY(dns_lookups() > before, ENOUGH_MS); /* one hangs */
	expect_timeout_kept(lock);
	zkl_lock_free(lock);
	int64_t start_ms = now_ms();
	zkl_session_close(s, 1000);
	EXPECT_RANGE(now_ms() - start_ms, 0, late(1000));
	place_close(&p);
}

/* Who is asked why no server was reached, as early as can be. */
static void name_is_not_said_to_resolve_to_nothing_before_it_was_looked_up(void)
{
	char why[250];
	dns_set_delay(60000);
	for (int i = 0; i < 50; i++) {
		zkl_session *s = session_open("zk.test:1", SESSION_MS);
		zkl__session_why_unreached(s, why, sizeof why);
		if (!EXPECT_TRUE(strcmp(why, "zk.test: not tried yet") == 0 ||
		                 strcmp(why, "zk.test: still being looked up") == 0))
			fprintf(stderr, "it says: %s\n", why);
		zkl_session_close(s, 0);
	}
	dns_reset();
	zkl_session *s = session_open("zk.test:1", SESSION_MS);
	EVENTUALLY((zkl__session_why_unreached(s, why, sizeof why), strcmp(why, "zk.test: does not resolve") == 0),
	           ENOUGH_MS);
	/* Nor is that forgotten while it is looked up again. */
	dns_set_delay(60000);
	int before = dns_lookups();
	EVENTUALLY(dns_lookups() > before, ENOUGH_MS);
	zkl__session_why_unreached(s, why, sizeof why);
	EXPECT_TRUE(strcmp(why, "zk.test: does not resolve") == 0);
	zkl_session_close(s, 0);
	dns_reset();
}

static void thread_that_resolves_names_blocks_all_signals(void)
{
	int before = dns_lookups();
	dns_set_delay(60000);
	zkl_session *s = session_open("zk.test:1", SESSION_MS);
	EVENTUALLY(dns_lookups() > before, ENOUGH_MS);
	EXPECT_INT(dns_interruptible(), 0);
	zkl_session_close(s, 0);
	dns_reset();
}

static void dead_dns_ends_no_lease(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant = {0};
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	recorder     events = RECORDER("holder");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	dns_set(0, "zk.test", NULL);
	int before = dns_lookups();
	THROUGHOUT(zkl_lock_check(lock, grant.token) > 0, 3 * session_timeout_ms(s));
	EXPECT_INT(recorder_count(&events, ZKL_EV_LOST), 0); /* a busy machine may be late with a proof, and say so */
	EVENTUALLY(recorder_count(&events, ZKL_EV_SUSPENDED) == recorder_count(&events, ZKL_EV_RESUMED), ENOUGH_MS);
	EXPECT_INT(dns_lookups(), before); /* who is connected asks nobody */
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
	recorder_free(&events);
}

/* CPU time of this process, in a stretch of two seconds. */
static void expect_idle(int64_t *passed_ms)
{
	int64_t cpu_before_ms = cpu_ms(), start_ms = now_ms();
	let_pass(2000);
	*passed_ms = now_ms() - start_ms;
	EXPECT_RANGE(cpu_ms() - cpu_before_ms, 0, *passed_ms / 10);
}

static void dead_dns_makes_nobody_busy(void)
{
	place   p;
	int64_t passed_ms;
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	dns_set(0, "zk.test", NULL);
	zkl_session *without_address = session_open(p.servers, SESSION_MS);
	leave_old(&p, PROXY_REFUSING);
	EVENTUALLY(!is_connected(s), ENOUGH_MS);
	int before = dns_lookups();
	expect_idle(&passed_ms);
	/* one in T/3, and one in half a second where there is no address at all */
	EXPECT_RANGE(dns_lookups() - before, 2, 1 + passed_ms / (SESSION_MS / 3) + 1 + passed_ms / 500);
	/* Lookups hang, and the time of the next one comes meanwhile. */
	dns_set_delay(60000);
	before = dns_lookups();
	EVENTUALLY(dns_lookups() == before + 2, ENOUGH_MS);
	proxy_set_door(p.old, PROXY_OPEN);
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	leave_old(&p, PROXY_REFUSING);
	EVENTUALLY(!is_connected(s), ENOUGH_MS);
	let_pass(SESSION_MS / 3);
	expect_idle(&passed_ms);
	EXPECT_INT(dns_lookups(), before + 2);
	proxy_set_door(p.old, PROXY_OPEN);
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_close(without_address, ENOUGH_MS);
	place_close(&p);
}

/* A server at a known address has said that it is over. */
static void expired_session_opens_anew_without_a_name(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant;
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	dns_set_delay(60000);
	net_expire(&(net){.at = {p.old}, .count = 1});
	EVENTUALLY(stats_of(s).expiries == 1, ENOUGH_MS);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
}

static void literal_address_waits_for_no_name_and_has_it_to_fall_back_on(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant;
	char      list[64];
	place_open(&p);
	dns_set(0, "zk.test", "127.0.0.2");
	dns_set_delay(60000);
	snprintf(list, sizeof list, "%s,%s", p.servers, proxy_address(p.old));
	zkl_session *s = session_open(list, LONGEST_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	int64_t id = stats_of(s).session_id;
	EXPECT_INT(dns_is_idle(), false);
	dns_set_delay(0);
	EVENTUALLY(dns_is_idle(), ENOUGH_MS);
	int      before = dns_lookups();
	uint64_t reconnects = stats_of(s).reconnects;
	leave_old(&p, PROXY_REFUSING);
	EVENTUALLY(stats_of(s).reconnects > reconnects, ENOUGH_MS); /* at once */
	EXPECT_TRUE(stats_of(s).session_id == id);
	EXPECT_INT(dns_lookups(), before);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
}

/* ---- other addresses ---- */

/* Returns once the session is at the new address. */
static void move(place *p, zkl_session *s, proxy_door door, unsigned silent)
{
	uint64_t reconnects = stats_of(s).reconnects;
	dns_set(0, "zk.test", "127.0.0.2");
	proxy_hold(p->old, silent);
	leave_old(p, door);
	EVENTUALLY(stats_of(s).reconnects > reconnects, ENOUGH_MS);
}

static void expect_same_children(const struct String_vector *before, const char *path)
{
	struct String_vector now = {0};
	EXPECT_INT(zkclient_children(observer(), path, &now), ZOK);
	EXPECT_INT(now.count, before->count);
	for (int i = 0; i < now.count && i < before->count; i++)
		EXPECT_TRUE(strcmp(now.data[i], before->data[i]) == 0);
	deallocate_String_vector(&now);
}

static void moved_waiter_keeps_its_place(proxy_door door, unsigned silent)
{
	lock_path            path = new_path();
	place                p;
	struct String_vector queue = {0};
	seen                 granted = {0};
	log_counter          moves = {.level = 5, .id = "moved"};
	zkl_session         *s = NULL;
	place_open(&p);
	zkl_session_options options = session_options(p.servers, LONGEST_MS);
	options.log = log_count;
	options.log_user = &moves;
	options.log_level = 5;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	node         first = foreign_contender(path.text, "_c_1c9f1f24-8a0a-4c7b-a1a1-7b0d5a5a5001-lock-");
	zkl_session *behind = session_open(all_servers(), LONGEST_MS);
	recorder     events = RECORDER("moves"), later = RECORDER("stays, behind it");
	zkl_lock    *lock = lock_new(s, path.text, &events), *last = lock_new(behind, path.text, &later);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_start(last, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&later, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_children(observer(), path.text, &queue), ZOK);
	EXPECT_INT(queue.count, 3);
	int64_t id = stats_of(s).session_id;
	EXPECT_TRUE(id != 0);
	EXPECT_INT(atomic_load(&moves.count), 0);
	move(&p, s, door, silent);
	EXPECT_INT(atomic_load(&moves.count), 1);
	EXPECT_TRUE(stats_of(s).session_id == id);
	EXPECT_INT((int64_t)stats_of(s).expiries, 0);
	expect_same_children(&queue, path.text);
	EXPECT_INT(recorder_count(&events, ZKL_EV_GRANTED) + recorder_count(&later, ZKL_EV_GRANTED), 0);
	EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &granted));
	EXPECT_INT(granted.requeued, 0);
	EXPECT_INT(recorder_count(&later, ZKL_EV_GRANTED), 0);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&later, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	zkl_lock_free(lock);
	zkl_lock_free(last);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(behind, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	deallocate_String_vector(&queue);
	place_close(&p);
	recorder_free(&events);
	recorder_free(&later);
}

static void waiter_keeps_its_place_when_the_old_address_refuses(void)
{
	moved_waiter_keeps_its_place(PROXY_REFUSING, 0);
}

static void waiter_keeps_its_place_when_the_old_address_is_gone(void)
{
	moved_waiter_keeps_its_place(PROXY_UNANSWERING, 0);
}

/* Something there accepts connections and says nothing. */
static void waiter_keeps_its_place_when_the_old_address_is_silent(void)
{
	moved_waiter_keeps_its_place(PROXY_OPEN, PROXY_BOTH);
}

static void holder_that_moves_in_time_keeps_its_lock(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant = {0};
	prober    asking;
	place_open(&p);
	zkl_session *s = session_open(p.servers, LONGEST_MS);
	recorder     events = RECORDER("holder");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	wait_for_full_lease(s);
	int lost = 0;
	for (; zkl_lock_check(lock, grant.token) < 0; lost++) { /* on a busy machine, before it was full */
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		wait_for_full_lease(s);
	}
	prober_start(&asking, (contender){.lock = lock}, grant.token);
	uint64_t beats = stats_of(s).heartbeats;
	EVENTUALLY(stats_of(s).heartbeats > beats, ENOUGH_MS);
	int     resumed = recorder_count(&events, ZKL_EV_RESUMED);
	int64_t id = stats_of(s).session_id;
	move(&p, s, PROXY_REFUSING, 0);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_RESUMED, resumed + 1, ENOUGH_MS, NULL));
	EXPECT_TRUE(stats_of(s).session_id == id);
	wait_for_full_lease(s);
	prober_stop(&asking);
	EXPECT_TRUE(atomic_load(&asking.first_no_ns) == 0);
	EXPECT_INT(recorder_count(&events, ZKL_EV_LOST), lost);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	/* Its own node is watched there, too. */
	struct String_vector children = {0};
	char                 own[300];
	EXPECT_INT(zkclient_children(observer(), path.text, &children), ZOK);
	snprintf(own, sizeof own, "%s/%s", path.text, children.count == 1 ? children.data[0] : "?");
	EXPECT_INT(zkclient_delete(observer(), own), ZOK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, lost + 1, ENOUGH_MS, NULL));
	deallocate_String_vector(&children);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
	recorder_free(&events);
}

static void holder_that_moves_too_late_is_lost_and_can_acquire_again(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant = {0}, later = {0};
	seen      lost = {0};
	prober    asking;
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	recorder     events = RECORDER("holder");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	prober_start(&asking, (contender){.lock = lock}, grant.token);
	wait_for_full_lease(s);
	leave_old(&p, PROXY_REFUSING);
	int64_t left_ns = now_ns();
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, ENOUGH_MS, &lost));
	int64_t end_ms = session_timeout_ms(s), late_ms = late(end_ms * 5 / 8); /* a busy machine may tell it late */
	EXPECT_RANGE((lost.at_ns - left_ns) / 1000000, 0, late_ms > end_ms ? late_ms : end_ms);
	EXPECT_TRUE(atomic_load(&asking.last_yes_ns) - left_ns < end_ms * 1000000);
	EXPECT_TRUE(atomic_load(&asking.last_yes_ns) <= lost.at_ns);
	dns_set(0, "zk.test", "127.0.0.2");
	EVENTUALLY(is_connected(s), ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &later, NULL), ZKL_OK);
	EXPECT_TRUE(later.token > grant.token);
	prober_stop(&asking);
	EXPECT_INT(atomic_load(&asking.yes_after_no), 0);
	EXPECT_INT(recorder_count(&events, ZKL_EV_LOST), 1);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
	recorder_free(&events);
}

/* Its servers had forgotten the session when it came. */
static void session_that_moves_after_its_end_is_replaced(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant = {0};
	int64_t   id = 0;
	char      password[16];
	place_open(&p);
	zkl_session *s = session_open(p.servers, SESSION_MS);
	recorder     events = RECORDER("waiter");
	zkl_lock    *lock = lock_new(s, path.text, &events);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	leave_old(&p, PROXY_REFUSING);
	EXPECT_INT(proxy_session(p.old, &id, password), 1);
	EXPECT_INT(zkclient_end_session(servers[0], id, password), ZOK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	dns_set(0, "zk.test", "127.0.0.2");
	EVENTUALLY(stats_of(s).expiries == 1, ENOUGH_MS);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_TRUE(stats_of(s).session_id != id);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
	recorder_free(&events);
}

/* Who has to show credentials shows them to the next servers, too; who observes looks again. */
static void moved_session_keeps_its_auth_and_its_view(void)
{
	lock_path path = new_path(), election_path = new_path();
	place     p;
	zkl_grant grant = {0};
	place_open(&p);
	zkl_session        *s = NULL, *leads = session_open(all_servers(), LONGEST_MS);
	zkl_session_options options = session_options(p.servers, LONGEST_MS);
	recorder            seen_leaders = RECORDER("observer"), first = RECORDER("leader");
	options.auth = "digest:user:password";
	EXPECT_INT(zkclient_make_directory(observer(), "/zklock-test"), ZOK); /* for everybody */
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock     *lock = lock_new(s, path.text, NULL);
	zkl_election *leader = election_new(leads, election_path.text, 0, &first);
	zkl_election *observed = election_new(s, election_path.text, ZKL_OBSERVE, &seen_leaders);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait_leader(&seen_leaders, 0, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_election_campaign(leader, NULL), ZKL_OK);
	seen led = {0};
	EXPECT_TRUE(recorder_wait(&first, ZKL_EV_GRANTED, 1, ENOUGH_MS, &led));
	EXPECT_TRUE(recorder_wait_leader(&seen_leaders, led.token, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	move(&p, s, PROXY_REFUSING, 0);
	EXPECT_INT(zkclient_count(observer(), path.text), ZNOAUTH);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_resign(leader, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait_leader(&seen_leaders, 0, ENOUGH_MS, NULL));
	zkl_election_free(leader);
	zkl_election_free(observed);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(leads, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK); /* its parent is everybody's */
	place_close(&p);
	recorder_free(&seen_leaders);
	recorder_free(&first);
}

/* ---- several ---- */

/* ZOOKEEPER-2466: the client may go on by two. */
static void only_live_address_of_many_is_found_again(void)
{
	lock_path path = new_path();
	place     p;
	zkl_grant grant = {0};
	char      list[64];
	place_open(&p);
	dns_set(0, "zk.test", "127.0.0.3,127.0.0.2,127.0.0.4");
	dns_set(1, "other.test", "127.0.0.5");
	snprintf(list, sizeof list, "missing.test:2181,other.test:%d,%s", proxy_port(p.new), p.servers);
	zkl_session *s = session_open(list, LONGEST_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	int64_t id = stats_of(s).session_id;
	dns_set(0, "zk.test", NULL); /* its addresses stay known */
	for (int i = 0; i < 3; i++) {
		proxy_set_door(p.new, PROXY_REFUSING);
		proxy_cut(p.new);
		EVENTUALLY(!is_connected(s), ENOUGH_MS);
		proxy_set_door(p.new, PROXY_OPEN);
		EVENTUALLY(is_connected(s), ENOUGH_MS);
	}
	EXPECT_TRUE(stats_of(s).session_id == id);
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) > 0);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	place_close(&p);
}

/* A lock at this list, and below a chroot. */
static void expect_lock_at(const char *list)
{
	lock_path path = new_path();
	char      text[200];
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	for (int i = 0; i < 2; i++) {
		zkl_grant grant = {0};
		snprintf(text, sizeof text, "%s%s", list, i > 0 ? path.text : "");
		zkl_session *s = session_open(text, SESSION_MS);
		zkl_lock    *lock = lock_new(s, i > 0 ? "/below" : path.text, NULL);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_TRUE(strncmp(grant.node, path.text, strlen(path.text)) == 0);
		zkl_lock_free(lock);
		EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	}
}

static void ipv6_is_as_good_as_ipv4(void)
{
	char   list[64];
	proxy *p = proxy_start_at(servers[0], "::1", 0);
	if (p == NULL)
		SKIP("this machine has no ::1");
	expect_lock_at(proxy_address(p));
	snprintf(list, sizeof list, "127.0.0.6:1,%s", proxy_address(p));
	expect_lock_at(list);
	dns_set(0, "zk.test", "127.0.0.6,::1");
	snprintf(list, sizeof list, "zk.test:%d", proxy_port(p));
	expect_lock_at(list);
	proxy_stop(p);
	dns_reset();
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(calls_keep_their_timeouts_while_names_do_not_resolve, 90)},
		{TEST(calls_keep_their_timeouts_while_names_do_not_resolve_any_more, 60)},
		{TEST(name_is_not_said_to_resolve_to_nothing_before_it_was_looked_up, 60)},
		{TEST(thread_that_resolves_names_blocks_all_signals, 60)},
		{TEST(dead_dns_ends_no_lease, 90)},
		{TEST(dead_dns_makes_nobody_busy, 60)},
		{TEST(expired_session_opens_anew_without_a_name, 60)},
		{TEST(literal_address_waits_for_no_name_and_has_it_to_fall_back_on, 60)},
		{TEST(waiter_keeps_its_place_when_the_old_address_refuses, 90)},
		{TEST(waiter_keeps_its_place_when_the_old_address_is_gone, 90)},
		{TEST(waiter_keeps_its_place_when_the_old_address_is_silent, 90)},
		{TEST(holder_that_moves_in_time_keeps_its_lock, 90)},
		{TEST(holder_that_moves_too_late_is_lost_and_can_acquire_again, 90)},
		{TEST(session_that_moves_after_its_end_is_replaced, 90)},
		{TEST(moved_session_keeps_its_auth_and_its_view, 90)},
		{TEST(only_live_address_of_many_is_found_again, 90)},
		{TEST(ipv6_is_as_good_as_ipv4, 90)},
		{0},
	};
	return harness_main(argc, argv, "names", tests);
}
