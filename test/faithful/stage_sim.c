/* SPDX-License-Identifier: Apache-2.0 */
/* The simulation's client and servers, in virtual time. It stands where test/sim/process.c does, and is as quick as can be. */
#include <stdio.h>
#include <stdlib.h>

#include "../sim/client.h"
#include "agenda.h"
#include "invariants.h"
#include "mail.h"
#include "process.h"
#include "report.h"
#include "script.h"

#define MS      INT64_C(1000000)
#define TIMEOUT (SCRIPT_TIMEOUT_MS * MS)
/* Longer than anything takes, an expiry above all. */
#define PATIENCE (10 * TIMEOUT)
/* In which what was sent has arrived. */
#define A_MOMENT (20 * MS)

static struct {
	struct zkl__mail *first, **last;
} mailboxes[SCRIPT_CLIENTS];

static unsigned first_server[SCRIPT_CLIENTS];
static uint32_t held[SCRIPT_CLIENTS]; /* connections; UINT32_MAX: none */

/* ---- what a process is to its client --------------------------------------------------------------------------------------- */

int64_t process_clock(unsigned process)
{
	(void)process;
	return agenda_now();
}

int64_t process_true_time(unsigned process, int64_t clock)
{
	(void)process;
	return clock;
}

int64_t process_io_at(unsigned process)
{
	(void)process;
	return agenda_now();
}

int64_t process_latency(unsigned process)
{
	(void)process;
	return MS / 2;
}

int64_t process_spread(unsigned process)
{
	(void)process;
	return MS / 4;
}

unsigned process_first_server(unsigned process)
{
	return first_server[process];
}

static struct zkl__mail *post(unsigned client, enum zkl__mail_type type)
{
	struct zkl__mail *mail = calloc(1, sizeof *mail);

	if (!mail)
		abort();
	mail->type = type;
	*mailboxes[client].last = mail;
	mailboxes[client].last = &mail->next;
	return mail;
}

void process_mail(unsigned process, enum mail_type type)
{
	post(process, type == MAIL_EXPIRED ? ZKL__MAIL_EXPIRED : ZKL__MAIL_DISCONNECTED);
}

void process_mail_connected(unsigned process, int64_t session_id, int64_t timeout)
{
	struct zkl__mail *mail = post(process, ZKL__MAIL_CONNECTED);

	mail->session_id = session_id;
	mail->timeout_ns = timeout;
}

void process_mail_reply(unsigned process, int32_t request, enum zkl__result result, int zk_code, int32_t view)
{
	struct zkl__mail *mail = post(process, ZKL__MAIL_REPLY);

	mail->party = zk_request(request)->party;
	mail_reply(&mail->reply,
	           &(struct mail){
			   .type = MAIL_REPLY, .request = request, .result = result, .zk_code = zk_code, .view = view});
	mail->reply.data = NULL;
}

void process_mail_watch(unsigned process, uint64_t party, bool gone, bool directory, int16_t node, int32_t view)
{
	struct zkl__mail *mail = post(process, gone ? ZKL__MAIL_GONE : ZKL__MAIL_CHANGED);
	struct mail       seen = {.type = MAIL_WATCH, .directory = directory, .node = node, .view = view};

	mail->watcher = zkl__watcher(party);
	snprintf(mail->directory, sizeof mail->directory, "%s", mail_watched_directory(&seen));
	snprintf(mail->reply.name, sizeof mail->reply.name, "%s", mail_watched_name(&seen));
}

/* ---- whoever acts here, nothing is to be judged ------------------------------------------------------------------------------ */

void invariants_created(int16_t node)
{
	(void)node;
}

void invariants_delete(const struct request *request)
{
	(void)request;
}

void invariants_mark(const struct request *request)
{
	(void)request;
}

void invariants_broken(int16_t node)
{
	(void)node;
}

void invariants_session_over(int16_t session, unsigned process)
{
	(void)session;
	(void)process;
}

/* ---- the stage --------------------------------------------------------------------------------------------------------------- */

static void begin(void)
{
	struct zk_options options = {
		.tick = 500 * MS, .sync_limit = 40, .election = 200 * MS, .latency = MS / 2, .spread = MS / 4};

	for (unsigned i = 0; i < ZK_SERVERS; i++) {
		options.timeout_min[i] = 2 * options.tick;
		options.timeout_max[i] = 20 * options.tick;
	}
	report_begin(false);
	agenda_begin();
	wire_begin(1);
	tree_begin(0, -1);
	zk_begin(&options, 1);
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++) {
		mailboxes[i].first = NULL;
		mailboxes[i].last = &mailboxes[i].first;
		held[i] = UINT32_MAX;
	}
}

static void end(void)
{
}

static unsigned server_at(unsigned client, enum script_place place)
{
	unsigned leader = (unsigned)zk_leader();

	return place == ANYWHERE ? client % ZK_SERVERS : place == AT_LEADER ? leader : (leader + 1) % ZK_SERVERS;
}

static void open_client(unsigned client, enum script_place place)
{
	first_server[client] = server_at(client, place);
	client_open(client, TIMEOUT);
}

static void wait_moment(void)
{
	int64_t until = agenda_now() + A_MOMENT;

	while (agenda_step(until))
		;
}

static bool pump(void)
{
	return agenda_step(agenda_now() + PATIENCE);
}

static void send_request(unsigned client, uint64_t party, const struct zkl__request *request, enum script_fault fault)
{
	uint32_t        conn = client_conn(client);
	int32_t         index;
	struct request *r = zk_new_request(&index);

	mail_request(r, party, request);
	if (fault == FAULT_REQUEST_LOST || fault == FAULT_HELD)
		zk_conn_cut(conn, true, fault == FAULT_HELD);
	client_send(client, index);
	if (fault == FAULT_HELD) {
		held[client] = conn;
		return;
	}
	while (fault == FAULT_REPLY_LOST && !r->view && pump())
		;
	if (fault == FAULT_REQUEST_LOST)
		wait_moment();
	if (fault != FAULT_NONE)
		zk_conn_break(conn, true, true);
}

static void wait_over(unsigned client)
{
	while (!zk_session_over(client_session(client)) && pump())
		;
}

/* The real one waits until the servers have heard of it. */
static void close_client(unsigned client)
{
	bool connected = client_connected(client);

	client_close(client);
	if (connected)
		wait_over(client);
}

static void strike(unsigned client, enum script_blow blow)
{
	switch (blow) {
	case BLOW_AWAY:
		zk_client_refuse(client, true);
		zk_conn_break(client_conn(client), true, true);
		break;
	case BLOW_CUT:
		zk_conn_break(client_conn(client), true, true);
		break;
	case BLOW_SILENT:
		zk_client_cut(client, true);
		break;
	case BLOW_BACK:
		zk_client_refuse(client, false);
		zk_client_cut(client, false);
		if (held[client] != UINT32_MAX)
			zk_conn_heal(held[client]);
		held[client] = UINT32_MAX;
		wait_moment();
		break;
	case BLOW_EXPIRE:
		wait_over(client);
		break;
	case BLOW_BEHIND:
		zk_cut(first_server[client], (unsigned)zk_leader());
		break;
	case BLOW_LEVEL:
		zk_heal(first_server[client], (unsigned)zk_leader());
		break;
	}
}

static int operate(enum script_deed deed, const char *directory, const char *name)
{
	static const enum zk_deed deeds[] = {DEED_DELETE, DEED_WRITE, DEED_CHILD, DEED_UNMAKE, DEED_FOREIGN, DEED_JUNK};
	struct request            target;
	int                       code;
	unsigned                  before = zk_deeds(&code);

	mail_request(&target, 0, &(struct zkl__request){.directory = directory, .name = name});
	zk_operator(deeds[deed], target.node, target.directory);
	while (zk_deeds(&code) == before && pump())
		;
	return code;
}

static struct zkl__mail *take(unsigned client)
{
	struct zkl__mail *mail = mailboxes[client].first;

	mailboxes[client].first = NULL;
	mailboxes[client].last = &mailboxes[client].first;
	return mail;
}

const struct stage stage_sim = {.begin = begin,
                                .end = end,
                                .open = open_client,
                                .close = close_client,
                                .send = send_request,
                                .strike = strike,
                                .operate = operate,
                                .take = take,
                                .pump = pump};
