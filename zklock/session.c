/* SPDX-License-Identifier: Apache-2.0 */
/* A session with its threads.
 *
 *     client's threads --mail--> protocol thread --events--> event thread, or zkl_session_process()
 *                                      |
 *     calls of the application ----> [mutex] hub, attempts <-- the same functions, whichever thread is first
 *
 * The protocol thread empties the mailbox, runs the hub's timers, and makes a new client after an expiry. Names are resolved
 * on a thread for the occasion, which only leaves what it found: no call waits for it, and no lease. One mutex; none is held while user code runs, but for the log hook. */
#include <zklock/session.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "attempts.h"
#include "client.h"
#include "error.h"
#include "events.h"
#include "identities.h"
#include "look.h"
#include "servers.h"
#include "session_core.h"
#include "session_options.h"
#include "thread.h"

#define MS       INT64_C(1000000)
#define RETRY_NS (500 * MS)
#define LOOK_NS  (10000 * MS) /* between two looks at the names, at most */

struct waiter {
	pthread_cond_t            cond;
	const struct zkl__source *source; /* NULL: anything */
	struct waiter            *next;
};

struct zkl_session {
	struct zkl__hub        hub;
	pthread_mutex_t        mutex; /* of all below, and of the hub and all that belongs to it */
	unsigned               references, generation;
	unsigned               flags;
	struct zkl__servers    servers;
	char                  *auth, *numeric; /* numeric: the addresses in use; NULL: none yet */
	struct zkl__identities others;
	int64_t                timeout_ms;
	zkl_log_fn            *log;
	void                  *log_user;
	int                    log_level;

	struct zkl__client *client;              /* NULL: none now */
	bool                denied;              /* there will be none again: the servers refused the session's auth */
	bool                resolving, resolved; /* a thread is at it; it has left what it found */
	bool                looked_up;           /* every host, once at least */
	char               *found;
	int64_t     retry_ns; /* when to go on to a connection, while there is none and nothing is being resolved */
	int64_t     alone_ns; /* since when there is none */
	int64_t     tell_ns;  /* when to say so; ZKL__NEVER: there is one, or it was said */
	int         wake_fd, timer_fd;
	int64_t     timer_ns; /* what timer_fd is set to */
	atomic_bool cancelled;

	pthread_t protocol_thread;
	bool      awake;    /* it will look at the hub's next time before it sleeps */
	bool      stopping; /* it shall end */
	bool      stopped;  /* it has ended the session */

	struct zkl__events  events;
	struct waiter      *waiters;
	struct zkl__worker *workers;
};

/* ---- fork ---------------------------------------------------------------------------------------------------------------- */

static bool is_forked(const zkl_session *s)
{
	return s->generation != zkl__thread_forks();
}

/* ---- clock and waiting ----------------------------------------------------------------------------------------------------- */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t boot_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

bool zkl__session_wait(zkl_session *s, const struct zkl__source *source, int64_t until_ns)
{
	struct waiter   self = {.source = source, .next = s->waiters};
	struct waiter **link = &s->waiters;
	int             error = 0;

	zkl__thread_init_condition(&self.cond);
	s->waiters = &self; /* cppcheck-suppress autoVariables ; it is taken out again below */
	if (until_ns == ZKL__NEVER) {
		pthread_cond_wait(&self.cond, &s->mutex);
	} else {
		int64_t         at = clock_ns(CLOCK_MONOTONIC) + (until_ns - boot_ns());
		struct timespec limit = {at / 1000000000, at % 1000000000};

		if (at > 0)
			error = pthread_cond_timedwait(&self.cond, &s->mutex, &limit);
	}
	while (*link != &self)
		link = &(*link)->next;
	*link = self.next;
	pthread_cond_destroy(&self.cond);
	return error != ETIMEDOUT && (until_ns == ZKL__NEVER || boot_ns() < until_ns);
}

static void wake_waiters(zkl_session *s, const struct zkl__source *source)
{
	for (struct waiter *w = s->waiters; w; w = w->next)
		if (!source || !w->source || w->source == source)
			pthread_cond_signal(&w->cond);
}

void zkl__session_changed(zkl_session *s)
{
	wake_waiters(s, NULL);
}

/* ---- the hub's world --------------------------------------------------------------------------------------------------------- */

static int64_t world_now(void *world)
{
	(void)world;
	return boot_ns();
}

static int64_t world_wall(void *world)
{
	(void)world;
	return clock_ns(CLOCK_REALTIME) / MS;
}

static struct zkl__uuid world_uuid(void *world)
{
	struct zkl__uuid uuid;

	(void)world;
	while (getrandom(&uuid, sizeof uuid, 0) != (ssize_t)sizeof uuid) {
	}
	uuid.high = (uuid.high & ~UINT64_C(0xf000)) | 0x4000;
	uuid.low = (uuid.low & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
	return uuid;
}

static void world_send(void *world, uint64_t party, const struct zkl__request *request)
{
	zkl_session *s = world;

	if (s->client)
		zkl__client_send(s->client, party, request);
}

static bool world_asked(void *world)
{
	const zkl_session *s = world;

	return s->client && zkl__client_asked(s->client);
}

static void world_wake(void *world)
{
	uint64_t one = 1;
	ssize_t  written = write(((zkl_session *)world)->wake_fd, &one, sizeof one);

	(void)written; /* a full counter wakes, too */
}

/* Under the mutex. */
static void world_rearm(void *world)
{
	if (!((zkl_session *)world)->awake)
		world_wake(world);
}

static void world_absolute(void *world, const char *directory, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s%s/%s", ((zkl_session *)world)->servers.chroot, directory, name);
}

static void world_ready(void *world, struct zkl__source *source)
{
	zkl_session *s = world;

	wake_waiters(s, source);
	zkl__events_push(&s->events, source);
}

static void world_log(void *world, int level, const char *id, const char *text, const char *subject)
{
	zkl_session *s = world;
	char         line[400];

	if (!s->log || level > s->log_level)
		return;
	snprintf(line, sizeof line, "%s%s%s", subject ? subject : "", subject ? ": " : "", text);
	s->log(level, id, line, s->log_user);
}

static const struct zkl__port port = {.now_ns = world_now,
                                      .wall_ms = world_wall,
                                      .uuid = world_uuid,
                                      .send = world_send,
                                      .asked = world_asked,
                                      .wake = world_wake,
                                      .rearm = world_rearm,
                                      .absolute = world_absolute,
                                      .ready = world_ready,
                                      .log = world_log};

/* ---- no server in reach -------------------------------------------------------------------------------------------------------- */

static void begin_outage(zkl_session *s)
{
	s->alone_ns = boot_ns();
	s->tell_ns = s->alone_ns + zkl__hub_timeout_ns(&s->hub);
}

static size_t tell_of_names(const zkl_session *s, char *ret, size_t size)
{
	size_t used = 0;

	*ret = 0;
	for (unsigned i = 0; i < s->servers.count && used < size; i++)
		if (!s->servers.list[i].resolves)
			used += (size_t)snprintf(ret + used, size - used, "%s%s: %s", used ? "; " : "",
			                         s->servers.list[i].host,
			                         s->looked_up   ? "does not resolve"
			                         : s->resolving ? "still being looked up"
			                                        : "not tried yet");
	return used < size ? used : size - 1;
}

static void tell_why_unreached(const zkl_session *s, char *ret, size_t size)
{
	size_t used = tell_of_names(s, ret, size);

	if (!s->numeric || used + 3 > size)
		return;
	if (used)
		used += (size_t)snprintf(ret + used, size - used, "; ");
	zkl__attempts_tell(s->numeric, ret + used, size - used);
}

void zkl__session_why_unreached(zkl_session *s, char *ret, size_t size)
{
	pthread_mutex_lock(&s->mutex);
	tell_why_unreached(s, ret, size);
	pthread_mutex_unlock(&s->mutex);
}

static void tell_of_outage(zkl_session *s, int64_t now)
{
	char text[400], why[300];

	s->tell_ns = ZKL__NEVER;
	tell_why_unreached(s, why, sizeof why);
	snprintf(text, sizeof text, "no server has been reached for %" PRId64 " ms, trying on: %s",
	         (now - s->alone_ns) / MS, why);
	world_log(s, LOG_WARNING, "unreachable", text, NULL);
}

/* ---- client: made, made anew ------------------------------------------------------------------------------------------------- */

static void client_wake(void *arg)
{
	world_wake(arg);
}

/* Names are resolved again after a third of T without a connection: what is held then has time left to move. */
static void look_again_later(zkl_session *s)
{
	int64_t wait = zkl__hub_timeout_ns(&s->hub) / 3;

	wait = s->resolved ? 0 : wait < RETRY_NS ? RETRY_NS : wait > LOOK_NS ? LOOK_NS : wait;
	s->retry_ns = zkl__servers_are_numeric(&s->servers) ? ZKL__NEVER : boot_ns() + wait;
}

static void make_client(zkl_session *s)
{
	struct zkl__client_options options = {.servers = s->numeric,
	                                      .chroot = s->servers.chroot,
	                                      .auth = s->auth,
	                                      .others = &s->others,
	                                      .timeout_ms = s->timeout_ms,
	                                      .now_ns = boot_ns,
	                                      .wake = client_wake,
	                                      .wake_arg = s};

	zkl__hub_connecting(&s->hub);
	s->client = zkl__client_new(&options);
	if (s->client) {
		look_again_later(s);
		return;
	}
	s->retry_ns = boot_ns() + RETRY_NS;
	world_log(s, LOG_ERR, "client", "the ZooKeeper client cannot be made, trying again", strerror(errno));
}

static void *resolve(void *arg)
{
	zkl_session *s = arg;
	char        *found = zkl__servers_resolve(&s->servers, false);

	pthread_mutex_lock(&s->mutex);
	zkl__servers_note(&s->servers);
	s->found = found;
	s->resolving = false;
	s->resolved = s->looked_up = true;
	s->retry_ns = boot_ns();
	pthread_mutex_unlock(&s->mutex);
	world_wake(s);
	zkl__session_drop(s);
	return NULL;
}

static void begin_to_resolve(zkl_session *s)
{
	pthread_t thread;

	s->references++;
	s->resolving = true;
	if (zkl__thread_start(&thread, resolve, s) == 0) {
		pthread_detach(thread);
		return;
	}
	s->references--;
	s->resolving = false;
	s->retry_ns = boot_ns() + RETRY_NS;
	world_log(s, LOG_ERR, "client", "no thread to resolve names, trying again", NULL);
}

static void use_addresses(zkl_session *s, char *numeric)
{
	free(s->numeric);
	s->numeric = numeric;
}

/* Of a client without a connection: it knows the old addresses only, and would try them for ever. */
static bool move_client(zkl_session *s, const char *found)
{
	bool held = zkl__hub_left_ns(&s->hub, 0) > 0;

	if (!zkl__client_move(s->client, found, !held))
		return false;
	world_log(s, LOG_NOTICE, "moved", "other addresses were found, going on there", s->servers.list[0].host);
	return true;
}

static void take_addresses(zkl_session *s)
{
	char *found = s->found;
	bool  is_new = zkl__servers_have_new(found, s->numeric);

	if (is_new && s->client && !move_client(s, found)) {
		s->retry_ns = boot_ns() + RETRY_NS;
		return;
	}
	s->found = NULL;
	s->resolved = false;
	look_again_later(s);
	if (is_new)
		use_addresses(s, found);
	else
		free(found);
	if (!s->numeric) {
		s->retry_ns = boot_ns() + RETRY_NS;
		world_log(s, LOG_WARNING, "resolve", "no address found, trying again", s->servers.list[0].host);
	} else if (!s->client) {
		make_client(s);
	}
}

/* The connection broke. What was found while there was one may be old: it is good enough only to add to what is in use, as
 * names do to the literal addresses beside them. */
static void go_on_after_break(zkl_session *s)
{
	if (s->resolved && zkl__servers_have_new(s->numeric, s->found)) {
		free(s->found);
		s->found = NULL;
		s->resolved = false;
	}
	look_again_later(s);
}

/* At first, before any name is resolved: literal addresses need not wait for names beside them. */
static void begin_client(zkl_session *s)
{
	s->numeric = zkl__servers_resolve(&s->servers, true);
	zkl__servers_note(&s->servers);
	if (s->numeric)
		make_client(s);
	/* Addresses, too, when there was no memory for them. */
	if (!s->numeric || !zkl__servers_are_numeric(&s->servers))
		begin_to_resolve(s);
	else
		s->looked_up = true;
}

static bool may_go_on(const zkl_session *s)
{
	return !s->hub.link && !s->resolving;
}

/* When retry_ns has come. */
static void go_on(zkl_session *s)
{
	s->retry_ns = ZKL__NEVER;
	if (s->denied)
		return;
	if (s->resolved)
		take_addresses(s);
	else if (!s->client && s->numeric)
		make_client(s);
	else
		begin_to_resolve(s);
}

/* ---- protocol thread ---------------------------------------------------------------------------------------------------------- */

static void hand_out(zkl_session *s, struct zkl__mail *mail)
{
	char text[80];

	switch (mail->type) {
	case ZKL__MAIL_CONNECTED:
		snprintf(text, sizeof text, "session %#" PRIx64 ", timeout %" PRId64 " ms", (uint64_t)mail->session_id,
		         mail->timeout_ns / MS);
		world_log(s, LOG_INFO, "connected", text, NULL);
		if (s->hub.lease.timeout_ns && s->hub.lease.timeout_ns != mail->timeout_ns)
			world_log(s, LOG_WARNING, "timeout-changed",
			          "the servers disagree on the session timeout; set them alike", NULL);
		zkl__hub_link_up(&s->hub, mail->session_id, mail->timeout_ns);
		s->tell_ns = ZKL__NEVER;
		zkl__attempts_forget();
		zkl__session_changed(s);
		break;
	case ZKL__MAIL_DISCONNECTED:
		if (s->hub.link) {
			world_log(s, LOG_NOTICE, "disconnected", "the connection broke, looking for a server", NULL);
			begin_outage(s);
		}
		zkl__hub_link_down(&s->hub);
		go_on_after_break(s);
		zkl__session_changed(s);
		break;
	case ZKL__MAIL_REPLY:
		zkl__hub_reply(&s->hub, mail->party, &mail->reply);
		break;
	case ZKL__MAIL_GONE:
	case ZKL__MAIL_CHANGED:
		zkl__hub_watch(&s->hub, mail->watcher, mail->type == ZKL__MAIL_GONE, mail->directory, mail->reply.name);
		break;
	case ZKL__MAIL_EXPIRED: /* these end the client */
	case ZKL__MAIL_AUTH_FAILED:
	case ZKL__MAIL_LOST:
		break;
	}
}

/* What is left of a client whose session is over. Nothing of it says anything about the next session. */
static void discard(zkl_session *s, struct zkl__mail *mail)
{
	for (struct zkl__mail *next; mail; mail = next) {
		next = mail->next;
		if (mail->type == ZKL__MAIL_REPLY) {
			mail->reply.result = ZKL__UNKNOWN;
			hand_out(s, mail);
		}
		zkl__mail_free(mail);
	}
}

static void end_client(zkl_session *s)
{
	struct zkl__client *client = s->client;
	struct zkl__mail   *left;

	s->client = NULL;
	zkl__hub_expired(&s->hub);
	zkl__session_changed(s);
	pthread_mutex_unlock(&s->mutex);
	left = zkl__client_free(client);
	pthread_mutex_lock(&s->mutex);
	discard(s, left);
}

/* The client is of no more use. */
static void replace_client(zkl_session *s, enum zkl__mail_type why)
{
	bool reached = s->hub.link || why != ZKL__MAIL_LOST; /* it is a server that said so */

	if (why == ZKL__MAIL_AUTH_FAILED) {
		world_log(s, LOG_ERR, "auth-failed", "the servers refused the session's auth", NULL);
		s->denied = true;
		zkl__hub_refuse(&s->hub, ZKL_EACCES);
	} else if (why == ZKL__MAIL_LOST) {
		world_log(s, LOG_ERR, "memory", "out of memory, opening a new session", NULL);
	} else {
		world_log(s, LOG_WARNING, "expired", "the session is over, opening a new one", NULL);
	}
	end_client(s);
	if (reached)
		begin_outage(s);
	if (s->denied)
		s->tell_ns = ZKL__NEVER;
	/* A server at the addresses in use has just said so. */
	if (!s->stopping && !s->denied)
		make_client(s);
}

static void empty_mailbox(zkl_session *s)
{
	struct zkl__mail *mail = s->client ? zkl__client_take(s->client) : NULL;

	while (mail) {
		struct zkl__mail   *next = mail->next;
		enum zkl__mail_type type = mail->type;
		bool end = type == ZKL__MAIL_EXPIRED || type == ZKL__MAIL_AUTH_FAILED || type == ZKL__MAIL_LOST;

		if (!end)
			hand_out(s, mail);
		zkl__mail_free(mail);
		mail = next;
		if (end) {
			discard(s, mail);
			replace_client(s, type);
			return;
		}
	}
}

static void set_timer(zkl_session *s)
{
	int64_t           at = zkl__hub_next_ns(&s->hub);
	struct itimerspec spec = {0};

	if (s->retry_ns < at && may_go_on(s))
		at = s->retry_ns;
	if (s->tell_ns < at)
		at = s->tell_ns;
	if (at == s->timer_ns)
		return;
	s->timer_ns = at;
	if (at != ZKL__NEVER) {
		at = at > 1 ? at : 1; /* 0 would stop it */
		spec.it_value = (struct timespec){at / 1000000000, at % 1000000000};
	}
	timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void drain(int fd)
{
	uint64_t count;
	ssize_t  got = read(fd, &count, sizeof count);

	(void)got;
}

static void do_what_is_due(zkl_session *s)
{
	empty_mailbox(s);
	if (atomic_load(&s->cancelled) && s->hub.refused != ZKL_ECANCELED) {
		zkl__hub_refuse(&s->hub, ZKL_ECANCELED);
		zkl__session_changed(s);
	}
	if (may_go_on(s) && boot_ns() >= s->retry_ns)
		go_on(s);
	if (boot_ns() >= s->tell_ns)
		tell_of_outage(s, boot_ns());
	zkl__hub_timer(&s->hub);
}

static void *run_protocol(void *arg)
{
	zkl_session  *s = arg;
	struct pollfd fds[] = {{.fd = s->wake_fd, .events = POLLIN}, {.fd = s->timer_fd, .events = POLLIN}};

	pthread_mutex_lock(&s->mutex);
	s->awake = true;
	begin_outage(s);
	begin_client(s);
	while (!s->stopping) {
		set_timer(s);
		s->awake = false;
		pthread_mutex_unlock(&s->mutex);
		poll(fds, 2, -1);
		if (fds[0].revents)
			drain(s->wake_fd);
		pthread_mutex_lock(&s->mutex);
		s->awake = true;
		if (fds[1].revents) {
			drain(s->timer_fd);
			s->timer_ns = 0;
		}
		do_what_is_due(s);
	}
	if (s->client)
		end_client(s);
	else
		zkl__hub_expired(&s->hub);
	s->stopped = true;
	zkl__session_changed(s);
	pthread_mutex_unlock(&s->mutex);
	zkl__session_drop(s);
	return NULL;
}

/* ---- events -------------------------------------------------------------------------------------------------------------------- */

int zkl_session_process(zkl_session *s)
{
	int r = zkl__session_usable(s, NULL);

	if (r < 0 || !(s->flags & ZKL_MANUAL))
		return r < 0 ? r : ZKL_EINVAL;
	pthread_mutex_lock(&s->mutex);
	r = zkl__events_process(&s->events);
	pthread_mutex_unlock(&s->mutex);
	return r;
}

int zkl_session_fd(const zkl_session *s)
{
	int r = zkl__session_usable(s, NULL);

	if (r < 0)
		return r;
	return s->flags & ZKL_MANUAL ? s->events.fd : ZKL_EINVAL;
}

/* ---- for lock and election ------------------------------------------------------------------------------------------------------- */

int zkl__session_usable(const zkl_session *s, zkl_error *reterr)
{
	if (!s)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "the session is NULL");
	if (is_forked(s))
		return zkl__error(reterr, ZKL_EFORKED, 0, 0,
		                  "the session belongs to the parent process; open one in the child");
	return 0;
}

int zkl__session_may_block(zkl_session *s, zkl_error *reterr)
{
	bool inside;

	pthread_mutex_lock(&s->mutex);
	inside = zkl__events_inside(&s->events);
	pthread_mutex_unlock(&s->mutex);
	if (inside)
		return zkl__error(
			reterr, ZKL_EDEADLK, 0, 0,
			"a callback may not wait: call this from another thread, or one that does not wait (start, campaign, a "
			"release with a timeout of 0)");
	return 0;
}

void zkl__session_lock(zkl_session *s)
{
	pthread_mutex_lock(&s->mutex);
}

void zkl__session_unlock(zkl_session *s)
{
	pthread_mutex_unlock(&s->mutex);
}

struct zkl__hub *zkl__session_hub(zkl_session *s)
{
	return &s->hub;
}

const char *zkl__session_chroot(const zkl_session *s)
{
	return s->servers.chroot;
}

void zkl__session_await_callback(zkl_session *s, const void *owner)
{
	zkl__events_await(&s->events, owner);
}

void zkl__session_begin_work(zkl_session *s, struct zkl__worker *worker)
{
	worker->thread = pthread_self();
	worker->next = s->workers;
	s->workers = worker;
}

void zkl__session_end_work(zkl_session *s, const struct zkl__worker *worker)
{
	struct zkl__worker **link = &s->workers;

	while (*link != worker)
		link = &(*link)->next;
	*link = worker->next;
}

static bool is_worker(const zkl_session *s)
{
	for (const struct zkl__worker *w = s->workers; w; w = w->next)
		if (pthread_equal(w->thread, pthread_self()))
			return true;
	return false;
}

void zkl__session_hold(zkl_session *s)
{
	s->references++;
}

/* ---- life --------------------------------------------------------------------------------------------------------------------- */

static void free_memory(zkl_session *s)
{
	zkl__hub_clear(&s->hub);
	zkl__servers_clear(&s->servers);
	if (s->auth)
		explicit_bzero(s->auth, strlen(s->auth));
	free(s->auth);
	zkl__identities_clear(&s->others);
	free(s->numeric);
	free(s->found);
	free(s);
}

static void free_session(zkl_session *s)
{
	if (s->wake_fd >= 0)
		close(s->wake_fd);
	if (s->timer_fd >= 0)
		close(s->timer_fd);
	zkl__events_clear(&s->events);
	pthread_mutex_destroy(&s->mutex);
	free_memory(s);
}

void zkl__session_drop(zkl_session *s)
{
	unsigned left;

	/* In a child nobody else is there, and the mutex may be held by a thread that is not. */
	if (is_forked(s)) {
		if (--s->references == 0)
			free_memory(s);
		return;
	}
	pthread_mutex_lock(&s->mutex);
	left = --s->references;
	pthread_mutex_unlock(&s->mutex);
	if (!left)
		free_session(s);
}

static zkl_session *new_session(const zkl_session_options *o)
{
	zkl_session *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	zkl__hub_init(&s->hub, &port, s);
	s->hub.lease_options = (struct zkl__lease_options){o->margin_ms * MS, o->heartbeat_ms * MS, o->tick_ms * MS};
	s->timeout_ms = o->timeout_ms ? o->timeout_ms : ZKL__DEFAULT_TIMEOUT_MS;
	s->hub.timeout_asked_ns = s->timeout_ms * MS;
	s->hub.op_ns = (o->op_ms ? o->op_ms : s->timeout_ms / 2) * MS;
	zkl__lease_begin(&s->hub.lease, &s->hub.lease_options);
	zkl__session_identify(&s->hub.identity, o->name);
	pthread_mutex_init(&s->mutex, NULL);
	s->references = 1;
	s->generation = zkl__thread_forks();
	s->flags = o->flags;
	s->log = o->log;
	s->log_user = o->log_user;
	s->log_level = o->log_level;
	s->retry_ns = s->tell_ns = ZKL__NEVER;
	s->wake_fd = s->timer_fd = s->events.fd = -1;
	return s;
}

static int start_threads(zkl_session *s)
{
	int error = s->flags & ZKL_MANUAL ? 0 : zkl__events_start(&s->events);

	if (error)
		return error;
	s->references++; /* the protocol thread's */
	error = zkl__thread_start(&s->protocol_thread, run_protocol, s);
	if (!error)
		return 0;
	pthread_mutex_lock(&s->mutex);
	s->references--;
	zkl__events_end(&s->events, true);
	pthread_mutex_unlock(&s->mutex);
	return error;
}

/* All that can fail. 0 or an errno. */
static int begin(zkl_session *s, const zkl_session_options *options)
{
	int error = zkl__events_init(&s->events, &s->mutex, s->flags & ZKL_MANUAL);

	if (error)
		return error;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0)
		return errno;
	s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->timer_fd < 0)
		return errno;
	if (options->auth) {
		s->auth = strdup(options->auth);
		if (!s->auth)
			return ENOMEM;
	}
	if (!zkl__identities_parse(&s->others, options->others))
		return ENOMEM;
	return start_threads(s);
}

int zkl_session_open(const zkl_session_options *options, zkl_session **ret, zkl_error *reterr)
{
	struct zkl__servers servers;
	zkl_session        *s;
	int                 error, r;

	if (!ret)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "ret is NULL");
	r = zkl__session_options_check(options, &servers, reterr);
	if (r < 0)
		return r;
	zkl__thread_watch_forks();
	s = new_session(options);
	if (!s) {
		zkl__servers_clear(&servers);
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a session");
	}
	s->servers = servers;
	s->hub.chroot_length = strlen(servers.chroot);
	error = begin(s, options);
	if (error) {
		free_session(s);
		return zkl__error(reterr, error == ENOMEM ? ZKL_ENOMEM : ZKL_ESYS, 0, error,
		                  "cannot get the threads and descriptors of a session: %s", strerror(error));
	}
	*ret = s;
	return 0;
}

void zkl_session_cancel(zkl_session *s)
{
	if (!s)
		return;
	atomic_store(&s->cancelled, true);
	world_wake(s);
}

int zkl_session_stats(const zkl_session *session, zkl_stats *ret)
{
	zkl_session                *s = (zkl_session *)session;
	const struct zkl__counters *c;
	int                         r = zkl__session_usable(s, NULL);
	int64_t                     left;

	if (r < 0 || !ret || ret->size < sizeof *ret)
		return r < 0 ? r : ZKL_EINVAL;
	pthread_mutex_lock(&s->mutex);
	c = &s->hub.counters;
	left = zkl__hub_left_ns(&s->hub, 0);
	ret->connected = s->hub.link;
	ret->session_id = s->hub.session_id;
	ret->timeout_ms = s->hub.lease.timeout_ns / MS;
	ret->lease_ms = left > 0 ? left / MS : -1;
	ret->granted = c->granted;
	ret->lost = c->lost;
	ret->released = c->released;
	ret->not_held = c->not_held;
	ret->heartbeats = c->heartbeats;
	ret->heartbeats_late = c->heartbeats_late;
	ret->reconnects = c->reconnects;
	ret->expiries = c->expiries;
	ret->events_queued = s->events.count;
	pthread_mutex_unlock(&s->mutex);
	return 0;
}

int zkl_session_close(zkl_session *s, int64_t timeout_ms)
{
	int64_t until;
	bool    joined, clean;

	if (!s)
		return 0;
	if (is_forked(s)) {
		zkl__session_drop(s);
		return ZKL_EFORKED;
	}
	if (timeout_ms < ZKL_FOREVER)
		return ZKL_EINVAL;
	pthread_mutex_lock(&s->mutex);
	if (zkl__events_inside(&s->events) || is_worker(s)) {
		pthread_mutex_unlock(&s->mutex);
		return ZKL_EDEADLK;
	}
	until = zkl__until(&s->hub, timeout_ms);
	zkl__hub_close(&s->hub);
	while (s->hub.first && zkl__session_wait(s, NULL, until)) {
	}
	clean = !s->hub.first;
	s->stopping = true;
	world_wake(s);
	while (!s->stopped && zkl__session_wait(s, NULL, until)) {
	}
	joined = s->stopped;
	/* The events so far are delivered, unless there is no time for it. */
	zkl__events_end(&s->events, !joined);
	pthread_mutex_unlock(&s->mutex);
	if (joined)
		pthread_join(s->protocol_thread, NULL);
	else
		pthread_detach(s->protocol_thread);
	zkl__session_drop(s);
	return joined && clean ? 0 : ZKL_ETIMEDOUT;
}
