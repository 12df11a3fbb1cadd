/* SPDX-License-Identifier: Apache-2.0 */
/* One thread, one mutex that it lets go of only to poll. Calls note what they want, wake the thread, and wait until
 * it has been done.
 *
 *     client --> up.in --[rule]--> up.out --> server
 *     client <-- down.out <--[rule]-- down.in <-- server
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define FILLERS   8   /* connections that fill the backlog of a door that answers nobody */
#define OP_OFFSET 16  /* the least request type is -11 */
#define OPS       160 /* the greatest one is 107 */
#define XID_WATCH (-1)
#define FDS       1024 /* no descriptor of this program is greater */

typedef struct buffer {
	char  *bytes;
	size_t len, size;
} buffer;

typedef struct stream {
	buffer  in, out;
	bool    greeted; /* the first frame, which has no header, has passed */
	bool    ended;   /* the sender has closed */
	int64_t not_before_ns;
} stream;

typedef struct request {
	int32_t xid, op;
	int64_t seen_ns;
	bool    marked; /* the rule strikes at its reply */
	bool    second; /* the copy of a request, whose reply is not for the client */
} request;

typedef struct conn {
	struct conn   *next;
	int            client, server; /* descriptors; server is -1 once nothing more is to come from it */
	int64_t        since_ns;
	stream         up, down;
	buffer         again; /* a reply that is to come a second time */
	request       *due;   /* requests without a reply yet */
	size_t         due_len, due_size;
	struct pollfd *client_poll, *server_poll;
} conn;

struct proxy {
	pthread_t               thread;
	pthread_mutex_t         mutex;
	pthread_cond_t          changed;
	struct sockaddr_storage upstream;
	socklen_t               upstream_len;
	struct sockaddr_storage own;
	char                    address[64];
	int                     listener, wakeup, fillers[FILLERS];
	conn                   *conns;
	size_t                  conn_count;
	struct pollfd          *polls;
	uint64_t                asked, done; /* calls made, calls carried out */
	bool                    quit;
	int64_t                 cut_ns; /* to be cut: what is older than this */
	proxy_door              door, door_now;
	unsigned                held;
	bool                    dropping, dropping_now;
	proxy_rule              rule; /* act 0: none */
	bool                    struck;
	int                     counts[OPS], largest[OPS];
	int64_t                 acked_ns[OPS];
	int64_t                 session_id;
	char                    password[16];
};

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *must(void *memory)
{
	if (memory == NULL)
		abort();
	return memory;
}

static size_t op_slot(int op)
{
	int slot = op + OP_OFFSET;
	return slot >= 0 && slot < OPS ? (size_t)slot : 0;
}

static bool is_of(int wanted, int op)
{
	if (wanted == OP_ANY)
		return op != OP_PING && op != OP_CLOSE_SESSION;
	if (wanted == OP_BUT_PROOFS)
		return op != OP_PING && op != OP_MULTI;
	return op == wanted;
}

static void buffer_append(buffer *b, const char *bytes, size_t len)
{
	if (b->len + len > b->size) {
		b->size = (b->len + len) * 2;
		b->bytes = must(realloc(b->bytes, b->size));
	}
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
}

static void buffer_drop(buffer *b, size_t len)
{
	b->len -= len;
	if (b->len > 0)
		memmove(b->bytes, b->bytes + len, b->len);
}

static int32_t int_at(const char *bytes)
{
	uint32_t wire;
	memcpy(&wire, bytes, sizeof wire);
	return (int32_t)ntohl(wire);
}

/* Length of the first frame with its header, 0 while it is not complete. */
static size_t frame_len(const buffer *b)
{
	if (b->len < 4)
		return 0;
	size_t len = (size_t)(uint32_t)int_at(b->bytes) + 4;
	return b->len >= len ? len : 0;
}

/* ---- connections ---- */

static void reset_on_close(int fd)
{
	struct linger now = {1, 0};
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static void close_with_reset(int fd)
{
	reset_on_close(fd);
	close(fd);
}

static void conn_end(proxy *p, conn *c)
{
	close(c->client);
	if (c->server >= 0)
		close(c->server);
	for (conn **at = &p->conns; *at != NULL; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	p->conn_count--;
	free(c->up.in.bytes);
	free(c->up.out.bytes);
	free(c->down.in.bytes);
	free(c->down.out.bytes);
	free(c->again.bytes);
	free(c->due);
	free(c);
}

static void conn_reset(proxy *p, conn *c)
{
	reset_on_close(c->client);
	conn_end(p, c);
}

static void conn_accept(proxy *p)
{
	int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;
	if (client < 0)
		return;
	int server = socket(p->upstream.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server < 0 ||
	    (connect(server, (struct sockaddr *)&p->upstream, p->upstream_len) < 0 && errno != EINPROGRESS)) {
		close_with_reset(client);
		if (server >= 0)
			close(server);
		return;
	}
	setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	conn *c = must(calloc(1, sizeof *c));
	c->since_ns = now_ns();
	c->client = client;
	c->server = server;
	c->next = p->conns;
	p->conns = c;
	p->conn_count++;
}

/* The client has got the reply that it was meant to get; it finds the end of the stream behind it. A reset could
 * overtake the reply, so what it still sends is read and dropped until it closes. */
static void conn_end_behind_reply(conn *c)
{
	close(c->server);
	c->server = -1;
	c->up.out.len = c->down.in.len = 0;
	c->down.ended = true;
}

/* ---- the rule ---- */

static void strike(proxy *p)
{
	p->rule.act = 0;
	p->struck = true;
	p->door = p->rule.door;
	pthread_cond_broadcast(&p->changed);
}

static bool rule_matches(proxy *p, int op, const char *frame, size_t len)
{
	const proxy_rule *rule = &p->rule;
	if (rule->act == 0 || rule->nth <= 0)
		return false;
	if (!is_of(rule->op, op))
		return false;
	if (rule->path != NULL && memmem(frame, len, rule->path, strlen(rule->path)) == NULL)
		return false;
	return --p->rule.nth == 0;
}

static void due_push(conn *c, request r)
{
	if (c->due_len == c->due_size) {
		c->due_size = c->due_size * 2 + 16;
		c->due = must(realloc(c->due, c->due_size * sizeof *c->due));
	}
	c->due[c->due_len++] = r;
}

static request *due_find(conn *c, int32_t xid)
{
	for (size_t i = 0; i < c->due_len; i++)
		if (c->due[i].xid == xid)
			return &c->due[i];
	return NULL;
}

static void due_remove(conn *c, request *r)
{
	size_t at = (size_t)(r - c->due);
	memmove(r, r + 1, (--c->due_len - at) * sizeof *r);
}

/* Does the client wait for a reply that it checks the order of? Its numbers for pings, watches and credentials are below 0. */
static bool is_awaited(const conn *c)
{
	for (size_t i = 0; i < c->due_len; i++)
		if (c->due[i].xid > 0 && c->due[i].op != OP_CLOSE_SESSION && !c->due[i].second)
			return true;
	return false;
}

static void repeat_reply(proxy *p, conn *c)
{
	if (c->again.len == 0 || !is_awaited(c))
		return;
	buffer_append(&c->down.out, c->again.bytes, c->again.len);
	c->again.len = 0;
	strike(p);
}

static void note_request(proxy *p, const request *r, size_t len)
{
	size_t slot = op_slot(r->op);
	p->counts[slot]++;
	if ((int)len - 4 > p->largest[slot])
		p->largest[slot] = (int)len - 4;
}

/* What an armed rule does at its request. */
typedef enum fate { FORWARDED, FORWARDED_TWICE, SWALLOWED, HELD, RESET } fate;

static fate fate_of(proxy *p, request *r)
{
	switch (p->rule.act) {
	case PROXY_CUT_BEFORE:
		strike(p);
		return RESET;
	case PROXY_HOLD_REQUEST:
	case PROXY_HOLD_ALL:
		p->held |= p->rule.act == PROXY_HOLD_ALL ? PROXY_BOTH : PROXY_TO_SERVER;
		strike(p);
		return HELD;
	case PROXY_SWALLOW_REQUEST:
		strike(p);
		return SWALLOWED;
	case PROXY_DOUBLE_REQUEST:
		strike(p);
		return FORWARDED_TWICE;
	default:
		r->marked = true;
		return FORWARDED;
	}
}

/* Frames from the client. false: the connection is to be reset. */
static bool pump_up(proxy *p, conn *c)
{
	stream *s = &c->up;
	for (size_t len; !(p->held & PROXY_TO_SERVER) && (len = frame_len(&s->in)) > 0; buffer_drop(&s->in, len)) {
		if (c->server < 0)
			continue;
		if (s->greeted) {
			request r = {int_at(s->in.bytes + 4), int_at(s->in.bytes + 8), now_ns(), false, false};
			fate    f = rule_matches(p, r.op, s->in.bytes, len) ? fate_of(p, &r) : FORWARDED;
			if (f == HELD)
				return true;
			note_request(p, &r, len);
			if (f == RESET)
				return false;
			if (f == SWALLOWED)
				continue;
			due_push(c, r);
			if (f == FORWARDED_TWICE) {
				buffer_append(&s->out, s->in.bytes, len);
				r.second = true;
				due_push(c, r);
			}
		}
		s->greeted = true;
		buffer_append(&s->out, s->in.bytes, len);
	}
	return true;
}

/* ConnectResponse: version, timeout, session id, password. */
static void note_session(proxy *p, const char *frame, size_t len)
{
	if (len < 4 + 4 + 4 + 8 + 4 + 16)
		return;
	p->session_id = (int64_t)((uint64_t)(uint32_t)int_at(frame + 12) << 32 | (uint32_t)int_at(frame + 16));
	memcpy(p->password, frame + 24, sizeof p->password);
}

/* Frames from the server. false: the connection is to be reset. */
static bool pump_down(proxy *p, conn *c)
{
	stream *s = &c->down;
	repeat_reply(p, c);
	for (size_t len; !(p->held & PROXY_TO_CLIENT) && (len = frame_len(&s->in)) > 0; buffer_drop(&s->in, len)) {
		if (s->not_before_ns > now_ns())
			return true;
		request  *r = NULL;
		proxy_act act = 0;
		if (!s->greeted)
			note_session(p, s->in.bytes, len);
		else if (int_at(s->in.bytes + 4) != XID_WATCH)
			r = due_find(c, int_at(s->in.bytes + 4));
		s->greeted = true;
		if (r != NULL && r->marked && p->rule.act != 0) {
			act = p->rule.act;
			r->marked = false;
			if (act != PROXY_DOUBLE_REPLY)
				strike(p);
		}
		if (act == PROXY_LOSE_REPLY)
			return false;
		if (act == PROXY_DELAY_REPLY) {
			s->not_before_ns = now_ns() + p->rule.delay_ms * 1000000;
			return true;
		}
		if (act == PROXY_HOLD_REPLY) {
			p->held |= PROXY_TO_CLIENT;
			return true;
		}
		bool swallowed = act == PROXY_SWALLOW_REPLY || (r != NULL && r->second);
		if (r != NULL && !swallowed)
			p->acked_ns[op_slot(r->op)] = r->seen_ns;
		if (r != NULL)
			due_remove(c, r);
		if (!swallowed)
			buffer_append(&s->out, s->in.bytes, len);
		if (act == PROXY_DOUBLE_REPLY) {
			buffer_append(&c->again, s->in.bytes, len);
			repeat_reply(p, c);
		}
		if (act == PROXY_CUT_AFTER_REPLY) {
			conn_end_behind_reply(c);
			return true;
		}
	}
	return true;
}

/* ---- bytes ---- */

static void read_some(int fd, stream *s)
{
	char    bytes[16384];
	ssize_t n = recv(fd, bytes, sizeof bytes, 0);
	if (n > 0)
		buffer_append(&s->in, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		s->ended = true;
}

/* false: the receiver is gone. */
static bool write_some(int fd, stream *s)
{
	if (s->out.len == 0)
		return true;
	ssize_t n = send(fd, s->out.bytes, s->out.len, MSG_NOSIGNAL);
	if (n > 0)
		buffer_drop(&s->out, (size_t)n);
	return n > 0 || errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
}

/* Moves what can be moved. Ends the connection when either side is gone and its last bytes have been handed on. */
static void conn_advance(proxy *p, conn *c)
{
	bool up_open = !(p->held & PROXY_TO_SERVER), down_open = !(p->held & PROXY_TO_CLIENT);
	if (!pump_up(p, c) || !pump_down(p, c) || (up_open && c->server >= 0 && !write_some(c->server, &c->up)) ||
	    (down_open && !write_some(c->client, &c->down))) {
		conn_reset(p, c);
		return;
	}
	bool up_done = c->up.ended && c->up.out.len == 0 && up_open;
	bool down_done = c->down.ended && c->down.out.len == 0 && down_open && frame_len(&c->down.in) == 0;
	if (down_done && c->server < 0)
		shutdown(c->client, SHUT_WR);
	if (up_done || (down_done && c->server >= 0))
		conn_end(p, c);
}

/* ---- the door ---- */

static socklen_t own_len(const struct sockaddr_storage *own)
{
	return own->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static int socket_at(struct sockaddr_storage *own)
{
	int fd = socket(own->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd >= 0 && bind(fd, (struct sockaddr *)own, own_len(own)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A port that was asked for by number stays bound while the socket does not listen. Hence twice: any port, then
 * this one. */
static int listener_open(struct sockaddr_storage *own)
{
	socklen_t len = sizeof *own;
	int       any = socket_at(own);
	if (any < 0 || getsockname(any, (struct sockaddr *)own, &len) < 0)
		return -1;
	int fd = socket_at(own);
	close(any);
	if (fd >= 0 && listen(fd, 64) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* The kernel drops SYNs while the backlog is full; loopback completes a connect at once or not at all. */
static void fill_backlog(proxy *p)
{
	listen(p->listener, 0);
	for (int i = 0; i < FILLERS; i++) {
		p->fillers[i] = socket(p->own.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(p->fillers[i], (struct sockaddr *)&p->own, own_len(&p->own)) == 0)
			continue;
		struct pollfd ready = {p->fillers[i], POLLOUT, 0};
		if (poll(&ready, 1, 20) == 0)
			break;
	}
}

static void empty_backlog(proxy *p)
{
	for (int i = 0; i < FILLERS; i++)
		if (p->fillers[i] >= 0) {
			close_with_reset(p->fillers[i]);
			p->fillers[i] = -1;
		}
	for (int fd; (fd = accept(p->listener, NULL, NULL)) >= 0;)
		close_with_reset(fd);
}

static void turn_door(proxy *p)
{
	if (p->door_now == p->door)
		return;
	if (p->door_now == PROXY_UNANSWERING)
		empty_backlog(p);
	if (p->door == PROXY_REFUSING)
		shutdown(p->listener, SHUT_RD); /* Linux: no longer listening, still bound */
	else if (p->door == PROXY_UNANSWERING)
		fill_backlog(p);
	else
		listen(p->listener, 64);
	p->door_now = p->door;
}

/* ---- packets that vanish ---- */

/* The other end of this connection, if it is in this process; -1. */
static int other_end(int fd)
{
	struct sockaddr_storage wanted = {0}, own;
	socklen_t               wanted_len = sizeof wanted, len;
	if (getpeername(fd, (struct sockaddr *)&wanted, &wanted_len) < 0)
		return -1;
	for (int other = 0; other < FDS; other++) {
		memset(&own, 0, sizeof own);
		len = sizeof own;
		if (getsockname(other, (struct sockaddr *)&own, &len) == 0 && len == wanted_len &&
		    memcmp(&own, &wanted, len) == 0)
			return other;
	}
	return -1;
}

/* The kernel drops what comes for this socket, before TCP has seen it. */
static bool drop_at(int fd, bool dropping)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog  program = {1, &nothing};
	int                unused = 0;
	if (fd < 0)
		return true;
	if (dropping)
		return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
	return setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0;
}

bool proxy_can_drop(void)
{
	int  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool can = fd >= 0 && drop_at(fd, true);
	close(fd);
	return can;
}

static void turn_dropping(proxy *p)
{
	if (p->dropping_now == p->dropping)
		return;
	p->dropping_now = p->dropping;
	drop_at(p->listener, p->dropping);
	for (conn *c = p->conns; c != NULL; c = c->next) {
		drop_at(c->client, p->dropping);
		drop_at(other_end(c->client), p->dropping);
	}
}

/* ---- the thread ---- */

static void obey(proxy *p)
{
	for (conn *c = p->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (c->since_ns < p->cut_ns)
			conn_reset(p, c);
	}
	p->cut_ns = 0;
	for (conn *c = p->conns, *next; c != NULL; c = next) {
		next = c->next;
		conn_advance(p, c);
	}
	turn_door(p);
	turn_dropping(p);
	p->done = p->asked;
	pthread_cond_broadcast(&p->changed);
}

static struct pollfd *want(struct pollfd *at, int fd, bool in, bool out)
{
	*at = (struct pollfd){in || out ? fd : -1, (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0)), 0};
	return at;
}

/* Fills p->polls: the listener, the wake-up, two for each connection. A held direction is not even polled, so that
 * it says nothing of a hang-up. Returns how long to poll. */
static int plan_poll(proxy *p)
{
	bool    up_open = !(p->held & PROXY_TO_SERVER), down_open = !(p->held & PROXY_TO_CLIENT);
	int64_t wake_ns = 0;
	p->polls = must(realloc(p->polls, (p->conn_count * 2 + 2) * sizeof *p->polls));
	want(&p->polls[0], p->listener, p->door_now == PROXY_OPEN, false);
	want(&p->polls[1], p->wakeup, true, false);
	struct pollfd *at = p->polls + 2;
	for (conn *c = p->conns; c != NULL; c = c->next) {
		c->client_poll = want(at++, c->client, up_open && !c->up.ended, down_open && c->down.out.len > 0);
		c->server_poll = want(at++, c->server, down_open && !c->down.ended, up_open && c->up.out.len > 0);
		if (c->down.not_before_ns > now_ns() && (wake_ns == 0 || c->down.not_before_ns < wake_ns))
			wake_ns = c->down.not_before_ns;
	}
	return wake_ns == 0 ? -1 : (int)((wake_ns - now_ns()) / 1000000 + 1);
}

static void *relay(void *arg)
{
	proxy *p = arg;
	pthread_mutex_lock(&p->mutex);
	for (obey(p); !p->quit; obey(p)) {
		int      timeout = plan_poll(p);
		nfds_t   count = p->conn_count * 2 + 2;
		uint64_t calls;
		pthread_mutex_unlock(&p->mutex);
		poll(p->polls, count, timeout);
		pthread_mutex_lock(&p->mutex);
		if (p->polls[1].revents != 0 && read(p->wakeup, &calls, sizeof calls) < 0)
			abort();
		for (conn *c = p->conns; c != NULL; c = c->next) {
			if (c->client_poll->revents & (POLLIN | POLLERR | POLLHUP))
				read_some(c->client, &c->up);
			if (c->server_poll->revents & (POLLIN | POLLERR | POLLHUP))
				read_some(c->server, &c->down);
		}
		if (p->polls[0].revents != 0)
			conn_accept(p);
	}
	while (p->conns != NULL)
		conn_end(p, p->conns);
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* ---- calls ---- */

static void carry_out(proxy *p)
{
	uint64_t mine = ++p->asked, one = 1;
	if (write(p->wakeup, &one, sizeof one) < 0)
		abort();
	while (p->done < mine)
		pthread_cond_wait(&p->changed, &p->mutex);
}

static bool resolve(proxy *p, const char *upstream)
{
	char            host[128];
	const char     *colon = strrchr(upstream, ':');
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
	if (colon == NULL || (size_t)(colon - upstream) >= sizeof host)
		return false;
	memcpy(host, upstream, (size_t)(colon - upstream));
	host[colon - upstream] = '\0';
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return false;
	memcpy(&p->upstream, found->ai_addr, found->ai_addrlen);
	p->upstream_len = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

static void set_own(proxy *p, const char *address, int port)
{
	struct sockaddr_in  *v4 = (struct sockaddr_in *)&p->own;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&p->own;
	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
	}
}

int proxy_port(const proxy *p)
{
	return ntohs(p->own.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&p->own)->sin6_port
	                                          : ((const struct sockaddr_in *)&p->own)->sin_port);
}

proxy *proxy_start(const char *upstream)
{
	return proxy_start_at(upstream, "127.0.0.1", 0);
}

proxy *proxy_start_at(const char *upstream, const char *address, int port)
{
	proxy *p = must(calloc(1, sizeof *p));
	set_own(p, address, port);
	memset(p->fillers, -1, sizeof p->fillers);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, &clock);
	pthread_condattr_destroy(&clock);
	p->wakeup = eventfd(0, EFD_CLOEXEC);
	p->listener = listener_open(&p->own);
	if (!resolve(p, upstream) || p->wakeup < 0 || p->listener < 0 ||
	    pthread_create(&p->thread, NULL, relay, p) != 0) {
		fprintf(stderr, "no proxy for %s: %s\n", upstream, strerror(errno));
		close(p->wakeup);
		close(p->listener);
		free(p);
		return NULL;
	}
	snprintf(p->address, sizeof p->address, p->own.ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", address,
	         proxy_port(p));
	return p;
}

void proxy_stop(proxy *p)
{
	if (p == NULL)
		return;
	pthread_mutex_lock(&p->mutex);
	p->quit = true;
	carry_out(p);
	pthread_mutex_unlock(&p->mutex);
	pthread_join(p->thread, NULL);
	empty_backlog(p);
	close(p->listener);
	close(p->wakeup);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->mutex);
	free(p->polls);
	free(p);
}

const char *proxy_address(const proxy *p)
{
	return p->address;
}

void proxy_cut(proxy *p)
{
	proxy_cut_older(p, INT64_MAX);
}

void proxy_cut_older(proxy *p, int64_t than_ns)
{
	pthread_mutex_lock(&p->mutex);
	p->cut_ns = than_ns;
	carry_out(p);
	pthread_mutex_unlock(&p->mutex);
}

void proxy_set_door(proxy *p, proxy_door door)
{
	pthread_mutex_lock(&p->mutex);
	p->door = door;
	carry_out(p);
	pthread_mutex_unlock(&p->mutex);
}

void proxy_hold(proxy *p, unsigned directions)
{
	pthread_mutex_lock(&p->mutex);
	p->held = directions;
	carry_out(p);
	pthread_mutex_unlock(&p->mutex);
}

void proxy_drop(proxy *p, bool dropping)
{
	pthread_mutex_lock(&p->mutex);
	p->dropping = dropping;
	carry_out(p);
	pthread_mutex_unlock(&p->mutex);
}

void proxy_arm(proxy *p, const proxy_rule *rule)
{
	pthread_mutex_lock(&p->mutex);
	p->rule = rule != NULL ? *rule : (proxy_rule){0};
	p->struck = false;
	for (conn *c = p->conns; c != NULL; c = c->next) {
		c->again.len = 0;
		for (size_t i = 0; i < c->due_len; i++)
			c->due[i].marked = false;
	}
	pthread_mutex_unlock(&p->mutex);
}

int proxy_wait_struck(proxy *p, int64_t timeout_ms)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	end.tv_sec += timeout_ms / 1000 + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&p->mutex);
	for (int rc = 0; !p->struck && rc == 0;)
		rc = pthread_cond_timedwait(&p->changed, &p->mutex, &end);
	bool struck = p->struck;
	pthread_mutex_unlock(&p->mutex);
	return struck;
}

int proxy_count(proxy *p, int op)
{
	int sum = 0;
	pthread_mutex_lock(&p->mutex);
	for (int i = 0; i < OPS; i++)
		if (is_of(op, i - OP_OFFSET))
			sum += p->counts[i];
	pthread_mutex_unlock(&p->mutex);
	return sum;
}

void proxy_reset_counts(proxy *p)
{
	pthread_mutex_lock(&p->mutex);
	memset(p->counts, 0, sizeof p->counts);
	memset(p->largest, 0, sizeof p->largest);
	pthread_mutex_unlock(&p->mutex);
}

int proxy_unanswered(proxy *p)
{
	int count = 0;
	pthread_mutex_lock(&p->mutex);
	for (const conn *c = p->conns; c != NULL; c = c->next)
		count += (int)c->due_len;
	pthread_mutex_unlock(&p->mutex);
	return count;
}

int proxy_largest(proxy *p, int op)
{
	pthread_mutex_lock(&p->mutex);
	int bytes = p->largest[op_slot(op)];
	pthread_mutex_unlock(&p->mutex);
	return bytes;
}

int64_t proxy_last_acked_ns(proxy *p, int op)
{
	pthread_mutex_lock(&p->mutex);
	int64_t ns = p->acked_ns[op_slot(op)];
	pthread_mutex_unlock(&p->mutex);
	return ns;
}

size_t proxy_clients(proxy *p)
{
	pthread_mutex_lock(&p->mutex);
	size_t count = p->conn_count;
	pthread_mutex_unlock(&p->mutex);
	return count;
}

int proxy_session(proxy *p, int64_t *id, char password[16])
{
	pthread_mutex_lock(&p->mutex);
	*id = p->session_id;
	memcpy(password, p->password, sizeof p->password);
	pthread_mutex_unlock(&p->mutex);
	return *id != 0;
}
