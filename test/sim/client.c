/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "process.h"
#include "report.h"

enum { UNDER_WAY = 96, INBOX = 128, CLIENT_WATCHES = 64 };
#define NO_CONN UINT32_MAX

enum link { CLOSED, WAITING, CONNECTING, CONNECTED, EXPIRED };

struct client {
	enum link      link;
	uint32_t       life; /* of the handle: older timers mean nothing */
	int16_t        session;
	int64_t        timeout;
	uint32_t       conn;
	unsigned       order[ZK_SERVERS], cursor;
	int64_t        sent_ns, heard_ns; /* by its own clock */
	int32_t        seen;
	int32_t        sent[UNDER_WAY], queued[UNDER_WAY];
	unsigned       sent_count, queued_count;
	struct message inbox[INBOX];
	unsigned       inbox_count;
	bool           reading; /* it will look at the inbox */
	struct watch   watches[CLIENT_WATCHES];
	unsigned       watch_count;
	int64_t        timer_at; /* true time of the timer that is set; 0: none */
};

static struct client clients[CLIENTS];

static void io(uint32_t client, uint32_t life);

static void die(const char *what)
{
	fprintf(stderr, "sim: %s\n", what);
	abort();
}

static int64_t now_of(unsigned client)
{
	return process_clock(client);
}

static void wake(unsigned client)
{
	struct client *c = &clients[client];

	if (c->reading)
		return;
	c->reading = true;
	agenda_put(process_io_at(client), io, client, c->life);
}

static void timer(uint32_t client, uint32_t life)
{
	struct client *c = &clients[client];

	if (c->life != life || c->timer_at > agenda_now())
		return;
	c->timer_at = 0;
	wake(client);
}

static void set_timer(unsigned client)
{
	struct client *c = &clients[client];
	int64_t        due, at;

	if (c->link == CLOSED || c->link == EXPIRED || c->link == WAITING)
		return;
	due = c->heard_ns + c->timeout * 2 / 3 + 1;
	if (c->link == CONNECTED && !c->sent_count && c->sent_ns + c->timeout / 3 < due)
		due = c->sent_ns + c->timeout / 3;
	at = process_true_time(client, due);
	if (c->timer_at && c->timer_at <= at && c->timer_at > agenda_now())
		return;
	c->timer_at = at > agenda_now() ? at : agenda_now() + 1;
	agenda_put(c->timer_at, timer, client, c->life);
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static void dial(uint32_t client, uint32_t life)
{
	struct client *c = &clients[client];

	if (c->life != life || c->link != WAITING)
		return;
	c->link = CONNECTING;
	c->conn = zk_dial(client, c->order[c->cursor % ZK_SERVERS], process_latency(client), process_spread(client));
	c->heard_ns = c->sent_ns = now_of(client);
	c->inbox_count = 0;
	zk_conn_send(c->conn,
	             &(struct message){
			     .type = MSG_HELLO, .node = c->session, .view = c->seen, .bits = (uint64_t)c->timeout});
	set_timer(client);
}

/* The next server at once; at the end of the list a pause. */
static void try_next(unsigned client)
{
	struct client *c = &clients[client];

	c->link = WAITING;
	c->conn = NO_CONN;
	c->cursor++;
	agenda_put(process_io_at(client) + (c->cursor % ZK_SERVERS ? 1000 : c->timeout / 60), dial, client, c->life);
}

static void fail_requests(unsigned client, int zk_code)
{
	struct client *c = &clients[client];

	for (unsigned i = 0; i < c->sent_count; i++)
		process_mail_reply(client, c->sent[i], ZKL__UNKNOWN, zk_code, 0);
	for (unsigned i = 0; i < c->queued_count; i++)
		process_mail_reply(client, c->queued[i], ZKL__UNKNOWN, zk_code, 0);
	c->sent_count = c->queued_count = 0;
}

static void lose_connection(unsigned client, int zk_code)
{
	struct client *c = &clients[client];

	zk_conn_hang_up(c->conn);
	TRACE("client %u: no connection any more (%d)", client, zk_code);
	if (c->link == CONNECTED)
		process_mail(client, MAIL_DISCONNECTED);
	fail_requests(client, zk_code);
	c->inbox_count = 0;
	try_next(client);
}

static void expire(unsigned client)
{
	struct client *c = &clients[client];

	TRACE("client %u: session %d is over", client, c->session);
	zk_conn_hang_up(c->conn);
	c->link = EXPIRED;
	c->conn = NO_CONN;
	process_mail(client, MAIL_EXPIRED);
	fail_requests(client, -112);
	c->inbox_count = 0;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void transmit(unsigned client)
{
	struct client *c = &clients[client];

	for (unsigned i = 0; i < c->queued_count; i++) {
		if (c->sent_count == UNDER_WAY)
			die("too many requests under way");
		c->sent[c->sent_count++] = c->queued[i];
		zk_conn_send(c->conn, &(struct message){.type = MSG_REQUEST, .request = c->queued[i]});
		c->sent_ns = now_of(client);
	}
	c->queued_count = 0;
}

void client_send(unsigned client, int32_t request)
{
	struct client *c = &clients[client];
	enum zkl__op   op = zk_request(request)->op;
	bool           needs_link = op == ZKL__PROVE || op == ZKL__BARRIER;

	if (c->link == EXPIRED || (needs_link && c->link != CONNECTED)) {
		process_mail_reply(client, request, ZKL__UNKNOWN, -9, 0);
		return;
	}
	if (c->queued_count == UNDER_WAY)
		die("too many requests queued");
	c->queued[c->queued_count++] = request;
	if (c->link == CONNECTED)
		wake(client);
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

static void add_watch(struct client *c, const struct watch *watch)
{
	for (unsigned i = 0; i < c->watch_count; i++)
		if (c->watches[i].node == watch->node && c->watches[i].kind == watch->kind &&
		    c->watches[i].party == watch->party)
			return;
	if (c->watch_count == CLIENT_WATCHES)
		die("watches pile up at a client");
	c->watches[c->watch_count++] = *watch;
}

/* A watch is used up by its event. A deletion uses up all kinds: where a server tells it for each of them, the first one
 * counts. */
static void on_event(unsigned client, const struct message *m)
{
	struct client *c = &clients[client];
	bool           gone = m->type == MSG_GONE, directory = m->result >= WATCH_CHILDREN, watched = false;

	for (unsigned i = 0; i < c->watch_count; i++) {
		const struct watch *w = &c->watches[i];

		if (w->node != m->node || w->party != m->bits || directory != (w->kind >= WATCH_CHILDREN))
			continue;
		if (gone || w->kind == (enum watch_kind)m->result) {
			c->watches[i--] = c->watches[--c->watch_count];
			watched = true;
		}
	}
	if (watched)
		process_mail_watch(client, m->bits, gone, directory, m->node, m->view);
}

static void on_reply(unsigned client, const struct message *m)
{
	struct client        *c = &clients[client];
	const struct request *r = zk_request(m->request);
	struct watch          watch;

	if (!c->sent_count || c->sent[0] != m->request)
		die("a reply out of order");
	memmove(c->sent, c->sent + 1, --c->sent_count * sizeof *c->sent);
	if (m->view > c->seen)
		c->seen = m->view;
	if (zk_watch_of(r, (enum zkl__result)m->result, &watch))
		add_watch(c, &watch);
	process_mail_reply(client, m->request, (enum zkl__result)m->result, r->zk_code, m->view);
}

static void on_welcome(unsigned client, const struct message *m)
{
	struct client *c = &clients[client];

	if (m->node == NOBODY) {
		expire(client);
		return;
	}
	c->session = m->node;
	c->timeout = (int64_t)m->bits;
	c->link = CONNECTED;
	TRACE("client %u: connected to server %d, session %d, timeout %d ms", client, zk_conn_server(c->conn),
	      c->session, (int)(c->timeout / 1000000));
	process_mail_connected(client, zk_session_id(c->session), c->timeout);
	if (c->watch_count) {
		zk_conn_watches(c->conn, c->watches, c->watch_count, c->seen);
		zk_conn_send(c->conn, &(struct message){.type = MSG_WATCH_AGAIN});
		c->sent_ns = now_of(client);
	}
	/* A server tells it again what has fired. */
	transmit(client);
}

static void hear(unsigned client, const struct message *m)
{
	clients[client].heard_ns = now_of(client);
	switch ((enum message_type)m->type) {
	case MSG_WELCOME:
		on_welcome(client, m);
		break;
	case MSG_REPLY:
		on_reply(client, m);
		break;
	case MSG_GONE:
	case MSG_CHANGED:
		on_event(client, m);
		break;
	case MSG_CLOSED:
		lose_connection(client, -4);
		break;
	default:
		break;
	}
}

void client_hear(uint32_t client, uint32_t conn, const struct message *message)
{
	struct client *c = &clients[client];

	if (conn != c->conn || (c->link != CONNECTED && c->link != CONNECTING))
		return;
	if (c->inbox_count == INBOX)
		die("an inbox is full");
	c->inbox[c->inbox_count++] = *message;
	wake(client);
}

/* The thread's loop: the timeout is looked at before what has come is read. */
static void io(uint32_t client, uint32_t life)
{
	struct client *c = &clients[client];
	int64_t        now;

	if (c->life != life)
		return;
	if (process_io_at(client) > agenda_now()) {
		agenda_put(process_io_at(client), io, client, life);
		return;
	}
	c->reading = false;
	if (c->link != CONNECTED && c->link != CONNECTING)
		return;
	now = now_of(client);
	if (now - c->heard_ns > c->timeout * 2 / 3) {
		lose_connection(client, -7);
		return;
	}
	for (unsigned i = 0, count = c->inbox_count; i < count; i++) {
		uint32_t conn = c->conn;

		hear(client, &c->inbox[i]);
		if (c->conn != conn || c->life != life)
			return;
	}
	c->inbox_count = 0;
	if (c->link == CONNECTED) {
		transmit(client);
		if (!c->sent_count && now - c->sent_ns >= c->timeout / 3) {
			zk_conn_send(c->conn, &(struct message){.type = MSG_PING});
			c->sent_ns = now;
		}
	}
	set_timer(client);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

void client_resume(unsigned client)
{
	wake(client);
}

void client_open(unsigned client, int64_t timeout)
{
	struct client *c = &clients[client];
	unsigned       first = process_first_server(client);

	c->life++;
	c->link = WAITING;
	c->session = NOBODY;
	c->timeout = timeout;
	c->conn = NO_CONN;
	for (unsigned i = 0; i < ZK_SERVERS; i++)
		c->order[i] = (first + i) % ZK_SERVERS;
	c->cursor = 0;
	c->seen = 0;
	c->sent_count = c->queued_count = c->inbox_count = c->watch_count = 0;
	c->reading = false;
	c->timer_at = 0;
	agenda_put(process_io_at(client), dial, client, c->life);
}

void client_close(unsigned client)
{
	struct client *c = &clients[client];

	if (c->link == CONNECTED)
		zk_conn_send(c->conn, &(struct message){.type = MSG_CLOSE});
	client_kill(client);
	fail_requests(client, -116);
}

void client_kill(unsigned client)
{
	struct client *c = &clients[client];

	if (c->conn != NO_CONN && (c->link == CONNECTED || c->link == CONNECTING))
		zk_conn_hang_up(c->conn);
	c->life++;
	c->link = CLOSED;
	c->conn = NO_CONN;
}

bool client_connected(unsigned client)
{
	return clients[client].link == CONNECTED;
}

bool client_asked(unsigned client)
{
	return clients[client].link == CONNECTING || clients[client].link == CONNECTED;
}

uint32_t client_conn(unsigned client)
{
	const struct client *c = &clients[client];

	return c->link == CONNECTED || c->link == CONNECTING ? c->conn : NO_CONN;
}

int16_t client_session(unsigned client)
{
	return clients[client].session;
}

unsigned client_outstanding(unsigned client)
{
	return clients[client].sent_count + clients[client].queued_count;
}
