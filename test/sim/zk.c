/* SPDX-License-Identifier: Apache-2.0 */
#include "zk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "invariants.h"
#include "report.h"

enum { QUEUE = 64, WATCHES = 96, PENDING = 256, SERVER_CONNS = 48, HELD = 96, LINK_HELD = 1000 };
#define NO_CONN       UINT32_MAX
#define SESSION_MOVED (-118)

enum role { DOWN, LOOKING, FOLLOWING, LEADING };

/* A request that a server has taken from a connection and not answered yet. */
struct taken {
	int32_t request;
	bool    waits; /* for the leader */
};

struct conn {
	unsigned       client, server;
	int16_t        session;
	int32_t        seen;
	bool           open;  /* at the server */
	bool           ready; /* the session was found good */
	int64_t        timeout;
	struct wire    up, down;
	struct message kept_up[HELD], kept_down[HELD];
	struct taken   queue[QUEUE];
	unsigned       first, count;
	struct watch   watches[WATCHES], again[WATCHES];
	unsigned       watch_count, again_count;
	int32_t        again_seen;
};

/* A transaction that waits for its quorum. */
struct pending {
	enum message_type type; /* FORWARD, OPEN, END */
	int32_t           request;
	uint32_t          conn;
	int16_t           session;
	bool              refused; /* by the leader, in its place in the order */
	int               deed;    /* of an operator; 0: none */
	int16_t           node, directory;
	int64_t           proposed;
};

struct server {
	enum role role;
	int32_t   applied;
	unsigned  conns[SERVER_CONNS], conn_count;
	/* follower */
	int            leader;
	uint32_t       followed; /* its epoch */
	uint64_t       heard;    /* sessions since the last report */
	bool           report_due, report_held;
	struct wire    up, commits, answers;
	struct message kept_up[LINK_HELD], kept_commits[LINK_HELD], kept_answers[LINK_HELD];
	/* leader */
	uint32_t       epoch;
	struct pending pending[PENDING];
	unsigned       first, count;
	int64_t        expiry[ZK_SESSIONS];
	uint64_t       closing, armed;
};

struct session {
	unsigned client;
	int64_t  created_timeout, timeout;
	int      owner;
	int32_t  closed;
	uint32_t conn; /* newest one */
};

static struct {
	struct zk_options options;
	uint64_t          seed;
	int64_t           lag[ZK_SERVERS];
	bool              client_cut[ZK_CLIENTS], client_refused[ZK_CLIENTS];
	struct rng        rng;
	struct server     servers[ZK_SERVERS];
	bool              cut[ZK_SERVERS][ZK_SERVERS];
	uint32_t          cut_number[ZK_SERVERS][ZK_SERVERS];
	struct session    sessions[ZK_SESSIONS];
	int16_t           session_count;
	uint32_t          conn_count, epoch, requests;
	unsigned          elections, deeds;
	int               deed_code;
	struct conn       conns[ZK_CONNS];
	struct request    request[ZK_REQUESTS];
} zk;

static void look(uint32_t server, uint32_t unused);
static void flush(uint32_t conn);
static void arm_expiry(unsigned leader, int16_t session);

static void die(const char *what)
{
	fprintf(stderr, "sim: %s\n", what);
	abort();
}

/* ---- requests and sessions --------------------------------------------------------------------------------------- */

struct request *zk_new_request(int32_t *ret_index)
{
	struct request *request = &zk.request[zk.requests];

	if (zk.requests == ZK_REQUESTS - 1) {
		report_failure(ROOM, "requests without end");
		zk.requests--;
	}
	*ret_index = (int32_t)zk.requests++;
	memset(request, 0, sizeof *request);
	return request;
}

struct request *zk_request(int32_t index)
{
	return &zk.request[index];
}

int64_t zk_session_id(int16_t session)
{
	return 0x1000 + session;
}

int16_t zk_session_of(int64_t id)
{
	return (int16_t)(id - 0x1000);
}

bool zk_session_over(int16_t session)
{
	return zk.sessions[session].closed;
}

static int64_t granted_timeout(unsigned server, int64_t asked)
{
	const struct zk_options *o = &zk.options;

	return asked < o->timeout_min[server]   ? o->timeout_min[server]
	       : asked > o->timeout_max[server] ? o->timeout_max[server]
	                                        : asked;
}

/* ---- links between servers --------------------------------------------------------------------------------------- */

static bool linked(unsigned one, unsigned other)
{
	return !zk.cut[one][other];
}

/* As far as the follower knows: the other may be none any more. */
static bool believes_in(unsigned follower, unsigned leader)
{
	return zk.servers[follower].role == FOLLOWING && zk.servers[follower].leader == (int)leader;
}

static bool follows(unsigned follower, unsigned leader)
{
	return believes_in(follower, leader) && zk.servers[leader].role == LEADING &&
	       zk.servers[follower].followed == zk.servers[leader].epoch;
}

/* Can it commit? */
static bool has_quorum(unsigned leader)
{
	for (unsigned i = 0; i < ZK_SERVERS; i++)
		if (i != leader && follows(i, leader) && linked(i, leader))
			return true;
	return false;
}

int zk_leader(void)
{
	for (unsigned i = 0; i < ZK_SERVERS; i++)
		if (zk.servers[i].role == LEADING && has_quorum(i))
			return (int)i;
	return -1;
}

bool zk_server_up(unsigned server)
{
	return zk.servers[server].role != DOWN;
}

/* ---- sessions at the leader -------------------------------------------------------------------------------------- */

static bool closing(unsigned leader, int16_t session)
{
	return zk.sessions[session].closed || zk.servers[leader].closing >> session & 1;
}

static void touch(unsigned leader, int16_t session, int64_t timeout)
{
	struct server *l = &zk.servers[leader];
	int64_t        tick = zk.options.tick, expiry = ((agenda_now() + timeout) / tick + 1) * tick;

	if (closing(leader, session))
		return;
	if (expiry > l->expiry[session])
		l->expiry[session] = expiry;
	arm_expiry(leader, session);
}

static void propose(unsigned leader, const struct pending *pending);

static void expiry_due(uint32_t leader_epoch, uint32_t session)
{
	unsigned       leader = leader_epoch % ZK_SERVERS;
	struct server *l = &zk.servers[leader];

	if (l->role != LEADING || l->epoch != leader_epoch / ZK_SERVERS)
		return;
	l->armed &= ~(UINT64_C(1) << session);
	if (closing(leader, (int16_t)session))
		return;
	if (agenda_now() < l->expiry[session]) {
		arm_expiry(leader, (int16_t)session);
		return;
	}
	TRACE("server %u: session %u has expired", leader, session);
	l->closing |= UINT64_C(1) << session;
	propose(leader,
	        &(struct pending){.type = MSG_END, .request = NOBODY, .conn = NO_CONN, .session = (int16_t)session});
}

static void arm_expiry(unsigned leader, int16_t session)
{
	struct server *l = &zk.servers[leader];

	if (l->armed >> session & 1)
		return;
	l->armed |= UINT64_C(1) << session;
	agenda_put(l->expiry[session], expiry_due, l->epoch * ZK_SERVERS + leader, (uint32_t)session);
}

/* ---- sessions at a follower: the leader hears of them when it pings ---------------------------------------------- */

/* The next ping after now: each tick/2, each late by its own delay. */
static int64_t next_ping(unsigned server)
{
	int64_t  half = zk.options.tick / 2, now = agenda_now(), next = INT64_MAX;
	uint64_t phase = (server + zk.epoch + 1) * 0x9e3779b97f4a7c15;

	for (int64_t number = now / half - 4; number <= now / half + 1; number++) {
		struct rng rng = rng_make(zk.seed ^ (uint64_t)number, phase);
		int64_t at = number * half + (int64_t)(phase >> 40) % half + rng_below(&rng, zk.options.ping_delay + 1);

		if (at > now && at < next)
			next = at;
	}
	return next;
}

static void report_due(uint32_t server, uint32_t epoch)
{
	struct server *s = &zk.servers[server];

	if (s->role != FOLLOWING || s->followed != epoch || !s->report_due)
		return;
	if (!linked(server, (unsigned)s->leader)) {
		s->report_held = true;
		return;
	}
	s->report_due = s->report_held = false;
	wire_send(&s->up, &(struct message){.type = MSG_REPORT, .bits = s->heard});
	s->heard = 0;
}

static void hear_of(unsigned server, int16_t session, int64_t timeout)
{
	struct server *s = &zk.servers[server];

	if (session == NOBODY)
		return;
	if (s->role == LEADING) {
		touch(server, session, timeout);
	} else if (s->role == FOLLOWING) {
		s->heard |= UINT64_C(1) << session;
		if (!s->report_due) {
			s->report_due = true;
			agenda_put(next_ping(server), report_due, server, zk.servers[s->leader].epoch);
		}
	}
}

/* ---- connections at a server ------------------------------------------------------------------------------------- */

static void to_client(struct conn *c, struct message message)
{
	if (c->open)
		wire_send(&c->down, &message);
}

static void forget_conn(struct conn *c)
{
	struct server *s = &zk.servers[c->server];
	uint32_t       index = (uint32_t)(c - zk.conns);

	c->open = false;
	c->watch_count = 0;
	for (unsigned i = 0; i < s->conn_count; i++)
		if (s->conns[i] == index)
			s->conns[i--] = s->conns[--s->conn_count];
}

/* The server closes it. */
static void drop_conn(struct conn *c)
{
	to_client(c, (struct message){.type = MSG_CLOSED});
	forget_conn(c);
}

static void drop_all(struct server *s)
{
	while (s->conn_count)
		drop_conn(&zk.conns[s->conns[0]]);
}

/* What has become of what is watched; 0: nothing. */
static enum message_type fired(const struct watch *w, int32_t after, int32_t view)
{
	const struct tree_birth *directory = w->kind >= WATCH_CHILDREN ? tree_directory(w->node, view) : NULL;

	switch (w->kind) {
	case WATCH_END:
		return tree_alive(w->node, view) ? 0 : MSG_GONE;
	case WATCH_DATA:
		return !tree_alive(w->node, view) ? MSG_GONE : tree_changed(w->node, after, view) ? MSG_CHANGED : 0;
	case WATCH_CHILDREN:
		return !directory                                                               ? MSG_GONE
		       : directory->made > after || tree_children_changed(w->node, after, view) ? MSG_CHANGED
		                                                                                : 0;
	case WATCH_BIRTH:
		return directory ? MSG_CHANGED : 0;
	case WATCH_LIFE:
		return !directory ? MSG_GONE : directory->made > after ? MSG_CHANGED : 0;
	}
	return 0;
}

static void shuffle(struct watch *watches, unsigned count)
{
	for (unsigned i = count; i > 1; i--) {
		unsigned     j = (unsigned)rng_below(&zk.rng, i);
		struct watch swap = watches[j];

		watches[j] = watches[i - 1];
		watches[i - 1] = swap;
	}
}

static void fire_those(struct conn *c, int32_t view, bool nodes, bool directories)
{
	for (unsigned i = 0; i < c->watch_count; i++) {
		struct watch      w = c->watches[i];
		enum message_type type = fired(&w, view - 1, view);

		if (!type || !(w.kind >= WATCH_CHILDREN ? directories : nodes))
			continue;
		c->watches[i--] = c->watches[--c->watch_count];
		to_client(c, (struct message){.type = (uint8_t)type,
		                              .node = w.node,
		                              .bits = w.party,
		                              .view = view,
		                              .result = (uint8_t)w.kind});
	}
}

/* A node's end is told before its directory's change. The nodes of a session end in any order. */
static void fire(struct conn *c, int32_t view)
{
	if (tree_txn(view)->type == TXN_CLOSE) {
		shuffle(c->watches, c->watch_count);
		fire_those(c, view, true, true);
	} else {
		fire_those(c, view, true, false);
		fire_those(c, view, false, true);
	}
}

static void welcome(struct conn *c, bool good)
{
	c->ready = good;
	to_client(c, (struct message){.type = MSG_WELCOME,
	                              .node = (int16_t)(good ? c->session : NOBODY),
	                              .bits = (uint64_t)c->timeout});
	if (good)
		hear_of(c->server, c->session, c->timeout);
	else
		drop_conn(c);
}

/* The server applies one more transaction: watches fire before whoever asked for it is answered. */
static void apply_one(unsigned server)
{
	struct server         *s = &zk.servers[server];
	const struct tree_txn *txn = tree_txn(++s->applied);
	struct conn           *asked = txn->conn != NO_CONN ? &zk.conns[txn->conn] : NULL;

	if (txn->type != TXN_NOTHING)
		for (unsigned i = 0; i < s->conn_count; i++)
			fire(&zk.conns[s->conns[i]], s->applied);
	if (asked && asked->server == server && asked->open) {
		for (unsigned i = 0; txn->request != NOBODY && i < asked->count; i++)
			if (asked->queue[(asked->first + i) % QUEUE].request == txn->request)
				asked->queue[(asked->first + i) % QUEUE].waits = false;
		if (txn->request != NOBODY)
			flush(txn->conn);
		else if (!asked->ready && txn->type == TXN_NOTHING)
			welcome(asked, true);
	}
	for (unsigned i = 0; txn->type == TXN_CLOSE && i < s->conn_count; i++)
		if (zk.conns[s->conns[i]].session == txn->session)
			drop_conn(&zk.conns[s->conns[i--]]);
}

/* ---- commits ----------------------------------------------------------------------------------------------------- */

static void set_result(struct request *r, enum zkl__result result, int zk_code)
{
	r->result = result;
	r->zk_code = zk_code;
}

static void carry_out_create(struct request *r, int16_t session)
{
	r->node = tree_create(r->directory, r->kind, r->uuid, session, r->attempt);
	set_result(r, r->node == NOBODY ? ZKL__NO_NODE : ZKL__DONE, r->node == NOBODY ? -101 : 0);
	if (r->node != NOBODY)
		invariants_created(r->node);
}

static void carry_out(struct request *r, int16_t session)
{
	bool done = true;

	switch (r->op) {
	case ZKL__CREATE:
		carry_out_create(r, session);
		return;
	case ZKL__DELETE:
		invariants_delete(r);
		done = tree_delete(r->node, false);
		break;
	case ZKL__MARK:
		invariants_mark(r);
		done = tree_set(r->node, r->mark);
		break;
	case ZKL__MAKE_PATH:
		done = tree_make(r->directory);
		set_result(r, done ? ZKL__DONE : ZKL__EXISTS, done ? 0 : -110);
		return;
	case ZKL__RENEW:
		if (!tree_directory(r->directory, tree_end())) {
			done = false;
			tree_nothing();
			break;
		}
		done = tree_unmake(r->directory);
		set_result(r, done ? ZKL__DONE : ZKL__NOT_EMPTY, done ? 0 : -111);
		return;
	case ZKL__BARRIER:
		done = tree_directory(r->directory, tree_end());
		tree_nothing();
		break;
	case ZKL__GUARDED:
		done = tree_alive(r->node, tree_end());
		r->failed = done;
		if (!done) {
			tree_nothing();
			break;
		}
		done = tree_set(r->target, false);
		break;
	default: /* PROVE */
		done = tree_alive(r->node, tree_end());
		tree_nothing();
		break;
	}
	set_result(r, done ? ZKL__DONE : ZKL__NO_NODE, done ? 0 : -101);
}

static int carry_out_deed(const struct pending *p)
{
	bool done = true;

	switch ((enum zk_deed)p->deed) {
	case DEED_DELETE:
		done = tree_delete(p->node, true);
		if (done)
			invariants_broken(p->node);
		break;
	case DEED_WRITE:
		done = tree_set(p->node, false);
		break;
	case DEED_UNMAKE:
		done = tree_directory(p->directory, tree_end());
		if (!tree_unmake(p->directory) && done)
			return -111;
		break;
	case DEED_FOREIGN:
		done = tree_create_named(p->directory, "f00d-kazoo__lock__", true) != NOBODY;
		break;
	case DEED_JUNK:
		done = tree_create_named(p->directory, "read-me-", false) != NOBODY;
		break;
	case DEED_CHILD: /* of an ephemeral node: that has none */
		done = tree_alive(p->node, tree_end());
		tree_nothing();
		return done ? -108 : -101;
	}
	return done ? 0 : -101;
}

static void do_deed(const struct pending *p)
{
	zk.deed_code = carry_out_deed(p);
	zk.deeds++;
	TRACE("operator: deed %d on %s: %d", p->deed, p->node == NOBODY ? "directory" : tree_node(p->node)->name,
	      zk.deed_code);
}

static void commit(const struct pending *p)
{
	struct request *r = p->request == NOBODY ? NULL : &zk.request[p->request];

	tree_set_origin(p->request, p->conn);
	if (p->refused || p->type == MSG_OPEN) {
		tree_nothing();
	} else if (p->deed) {
		do_deed(p);
	} else if (p->type == MSG_END) {
		if (zk.sessions[p->session].closed)
			return;
		tree_close(p->session);
		zk.sessions[p->session].closed = tree_end();
		invariants_session_over(p->session, zk.sessions[p->session].client);
	} else {
		carry_out(r, p->session);
	}
	if (r)
		r->view = tree_end();
}

static void commit_due(uint32_t leader, uint32_t epoch)
{
	struct server *l = &zk.servers[leader];

	if (l->role != LEADING || l->epoch != epoch)
		return;
	while (l->count && l->pending[l->first].proposed + 2 * zk.options.latency <= agenda_now() &&
	       has_quorum(leader)) {
		struct pending p = l->pending[l->first];

		l->first = (l->first + 1) % PENDING;
		l->count--;
		commit(&p);
		for (unsigned i = 0; i < ZK_SERVERS; i++)
			if (i != leader && follows(i, leader))
				wire_send(&zk.servers[i].commits,
				          &(struct message){.type = MSG_COMMIT, .view = tree_end()});
		while (l->applied < tree_end())
			apply_one(leader);
	}
}

static void propose(unsigned leader, const struct pending *pending)
{
	struct server  *l = &zk.servers[leader];
	struct pending *p = &l->pending[(l->first + l->count) % PENDING];

	if (l->count == PENDING)
		die("too many proposals");
	*p = *pending;
	p->proposed = agenda_now();
	l->count++;
	agenda_put(p->proposed + 2 * zk.options.latency, commit_due, leader, l->epoch);
}

void zk_operator(enum zk_deed deed, int16_t node, int16_t directory)
{
	int leader = zk_leader();

	if (leader < 0)
		return;
	propose((unsigned)leader, &(struct pending){.type = MSG_FORWARD,
	                                            .request = NOBODY,
	                                            .conn = NO_CONN,
	                                            .deed = (int)deed,
	                                            .node = node,
	                                            .directory = directory,
	                                            .session = NOBODY});
}

unsigned zk_deeds(int *ret_zk_code)
{
	*ret_zk_code = zk.deed_code;
	return zk.deeds;
}

/* ---- what the leader is asked ------------------------------------------------------------------------------------ */

/* ZooKeeper's order of tests: is the session known, and is it this server's? */
static bool session_refused(unsigned leader, const struct conn *c)
{
	return closing(leader, c->session) || zk.sessions[c->session].owner != (int)c->server;
}

static void answer_session(unsigned leader, uint32_t conn)
{
	struct conn *c = &zk.conns[conn];
	bool         good = !closing(leader, c->session);

	if (good) {
		touch(leader, c->session, c->timeout);
		zk.sessions[c->session].owner = (int)c->server;
		zk.sessions[c->session].timeout = c->timeout;
	}
	if (c->server == leader)
		welcome(c, good);
	else
		wire_send(&zk.servers[c->server].answers,
		          &(struct message){.type = MSG_SESSION, .result = good, .bits = conn});
}

static void open_session(unsigned leader, uint32_t conn)
{
	struct conn    *c = &zk.conns[conn];
	struct session *s = &zk.sessions[zk.session_count];

	if (zk.session_count == ZK_SESSIONS - 1)
		die("too many sessions");
	c->session = zk.session_count++;
	*s = (struct session){.client = c->client,
	                      .created_timeout = c->timeout,
	                      .timeout = c->timeout,
	                      .owner = (int)c->server,
	                      .conn = conn};
	zk.servers[leader].expiry[c->session] = 0;
	touch(leader, c->session, c->timeout);
	propose(leader, &(struct pending){.type = MSG_OPEN, .request = NOBODY, .conn = conn, .session = c->session});
}

static void leader_asked(unsigned leader, const struct message *m)
{
	uint32_t     conn = (uint32_t)m->bits;
	struct conn *c = &zk.conns[conn];

	switch ((enum message_type)m->type) {
	case MSG_FORWARD: {
		bool refused = session_refused(leader, c);

		if (refused)
			set_result(&zk.request[m->request], ZKL__UNKNOWN,
			           closing(leader, c->session) ? -112 : SESSION_MOVED);
		propose(leader, &(struct pending){.type = MSG_FORWARD,
		                                  .request = m->request,
		                                  .conn = conn,
		                                  .session = c->session,
		                                  .refused = refused});
		break;
	}
	case MSG_OPEN:
		open_session(leader, conn);
		break;
	case MSG_END:
		if (session_refused(leader, c))
			break;
		zk.servers[leader].closing |= UINT64_C(1) << c->session;
		propose(leader,
		        &(struct pending){.type = MSG_END, .request = NOBODY, .conn = NO_CONN, .session = c->session});
		break;
	case MSG_SYNC:
		/* No quorum is asked (ZOOKEEPER-1675), unless proposals are under way. */
		if (c->server == leader) {
			for (unsigned i = 0; i < c->count; i++)
				if (c->queue[(c->first + i) % QUEUE].request == m->request)
					c->queue[(c->first + i) % QUEUE].waits = false;
			flush(conn);
		} else {
			wire_send(&zk.servers[c->server].commits, m);
		}
		break;
	case MSG_CHECK_SESSION:
		answer_session(leader, conn);
		break;
	case MSG_REPORT:
		for (int16_t i = 0; i < zk.session_count; i++)
			if (m->bits >> i & 1)
				touch(leader, i, zk.sessions[i].timeout);
		break;
	default:
		break;
	}
}

static void leader_hears(uint32_t follower, const struct message *m)
{
	struct server *s = &zk.servers[follower];

	if (s->role == FOLLOWING && follows(follower, (unsigned)s->leader))
		leader_asked((unsigned)s->leader, m);
}

static void ask_leader(unsigned server, const struct message *m)
{
	struct server *s = &zk.servers[server];

	if (s->role == LEADING)
		leader_asked(server, m);
	else if (s->role == FOLLOWING)
		wire_send(&s->up, m);
}

static void follower_hears(uint32_t follower, const struct message *m)
{
	struct server *s = &zk.servers[follower];
	struct conn   *c = &zk.conns[(uint32_t)m->bits];

	switch ((enum message_type)m->type) {
	case MSG_COMMIT:
		while (s->applied < m->view)
			apply_one(follower);
		break;
	case MSG_SYNC:
		for (unsigned i = 0; i < c->count; i++)
			if (c->queue[(c->first + i) % QUEUE].request == m->request)
				c->queue[(c->first + i) % QUEUE].waits = false;
		flush((uint32_t)m->bits);
		break;
	case MSG_SESSION:
		if (c->open)
			welcome(c, m->result);
		break;
	default:
		break;
	}
}

/* ---- what a server is asked -------------------------------------------------------------------------------------- */

static bool is_read(enum zkl__op op)
{
	return op == ZKL__LIST || op == ZKL__FIND || op == ZKL__WATCH || op == ZKL__WATCH_MARK || op == ZKL__READ ||
	       op == ZKL__READ_WATCH || op == ZKL__LIST_WATCH || op == ZKL__FIND_WATCH;
}

static void add_watch(struct conn *c, const struct watch *watch)
{
	for (unsigned i = 0; i < c->watch_count; i++)
		if (c->watches[i].node == watch->node && c->watches[i].kind == watch->kind &&
		    c->watches[i].party == watch->party)
			return;
	if (c->watch_count == WATCHES)
		die("watches pile up at a server");
	c->watches[c->watch_count++] = *watch;
}

bool zk_watch_of(const struct request *r, enum zkl__result result, struct watch *ret)
{
	ret->party = zkl__watcher(r->party);
	ret->node = (int16_t)(r->node == NOBODY ? r->directory : r->node);
	switch (r->op) {
	case ZKL__WATCH:
		ret->kind = WATCH_END;
		return result == ZKL__DONE;
	case ZKL__WATCH_MARK:
	case ZKL__READ_WATCH:
		ret->kind = WATCH_DATA;
		return result == ZKL__DONE;
	case ZKL__LIST_WATCH:
		ret->kind = WATCH_CHILDREN;
		return result == ZKL__DONE;
	case ZKL__FIND_WATCH:
		ret->kind = result == ZKL__DONE ? WATCH_LIFE : WATCH_BIRTH;
		return result == ZKL__DONE || result == ZKL__NO_NODE;
	default:
		return false;
	}
}

static void read_now(struct conn *c, struct request *r)
{
	int32_t      view = zk.servers[c->server].applied;
	bool         there = r->node == NOBODY ? tree_directory(r->directory, view) != NULL : tree_alive(r->node, view);
	struct watch watch;

	set_result(r, there ? ZKL__DONE : ZKL__NO_NODE, there ? 0 : -101);
	r->view = view;
	if (there && r->op == ZKL__WATCH_MARK)
		r->mark = tree_marked(r->node, view);
	if (zk_watch_of(r, r->result, &watch))
		add_watch(c, &watch);
}

/* Answers what can be answered, in order. */
static void flush(uint32_t conn)
{
	struct conn *c = &zk.conns[conn];

	while (c->open && c->count && !c->queue[c->first].waits) {
		int32_t         index = c->queue[c->first].request;
		struct request *r = &zk.request[index];

		c->first = (c->first + 1) % QUEUE;
		c->count--;
		if (r->zk_code == SESSION_MOVED) {
			drop_conn(c); /* ZOOKEEPER-710: or it would be so for ever */
			return;
		}
		if (is_read(r->op))
			read_now(c, r);
		else if (r->op == ZKL__SYNC)
			set_result(r, ZKL__DONE, 0);
		to_client(c, (struct message){.type = MSG_REPLY,
		                              .request = index,
		                              .result = (uint8_t)r->result,
		                              .view = zk.servers[c->server].applied});
	}
}

static void take(struct conn *c, int32_t request)
{
	struct request *r = &zk.request[request];
	struct taken   *t = &c->queue[(c->first + c->count) % QUEUE];
	uint32_t        conn = (uint32_t)(c - zk.conns);

	if (c->count == QUEUE)
		die("requests pile up at a server");
	c->count++;
	*t = (struct taken){request, !is_read(r->op)};
	if (t->waits)
		ask_leader(c->server, &(struct message){.type = r->op == ZKL__SYNC ? MSG_SYNC : MSG_FORWARD,
		                                        .request = request,
		                                        .bits = conn});
	else
		flush(conn);
}

static void greet(struct conn *c, const struct message *m)
{
	struct server *s = &zk.servers[c->server];
	uint32_t       conn = (uint32_t)(c - zk.conns);

	if ((s->role != LEADING && s->role != FOLLOWING) || m->view > s->applied) {
		drop_conn(c); /* it serves nobody, or is behind what the client has seen */
		return;
	}
	c->timeout = granted_timeout(c->server, (int64_t)m->bits);
	if (m->node == NOBODY) {
		ask_leader(c->server, &(struct message){.type = MSG_OPEN, .bits = conn});
		return;
	}
	c->session = m->node;
	for (unsigned i = 0; i < s->conn_count; i++)
		if (s->conns[i] != conn && zk.conns[s->conns[i]].session == c->session)
			drop_conn(&zk.conns[s->conns[i--]]);
	ask_leader(c->server, &(struct message){.type = MSG_CHECK_SESSION, .bits = conn});
}

/* What happened while the client was away fires now, in any order. */
static void watch_again(struct conn *c)
{
	int32_t view = zk.servers[c->server].applied;

	shuffle(c->again, c->again_count);
	for (unsigned i = 0; i < c->again_count; i++) {
		struct watch *w = &c->again[i];

		enum message_type type = fired(w, c->again_seen, view);

		if (type)
			to_client(c, (struct message){.type = (uint8_t)type,
			                              .node = w->node,
			                              .bits = w->party,
			                              .view = view,
			                              .result = (uint8_t)w->kind});
		else
			add_watch(c, w);
	}
}

static void server_hears(uint32_t conn, const struct message *m)
{
	struct conn *c = &zk.conns[conn];

	if (!c->open)
		return;
	if (m->type != MSG_HELLO && m->type != MSG_BYE)
		hear_of(c->server, (int16_t)(c->ready ? c->session : NOBODY), c->timeout);
	switch ((enum message_type)m->type) {
	case MSG_HELLO:
		greet(c, m);
		break;
	case MSG_PING:
		to_client(c, (struct message){.type = MSG_PONG});
		break;
	case MSG_REQUEST:
		take(c, m->request);
		break;
	case MSG_WATCH_AGAIN:
		watch_again(c);
		break;
	case MSG_CLOSE:
		ask_leader(c->server, &(struct message){.type = MSG_END, .bits = conn});
		break;
	case MSG_BYE:
		forget_conn(c);
		break;
	default:
		break;
	}
}

/* ---- clients' ends of connections -------------------------------------------------------------------------------- */

static void client_end_hears(uint32_t conn, const struct message *m)
{
	client_hear(zk.conns[conn].client, conn, m);
}

uint32_t zk_dial(unsigned client, unsigned server, int64_t latency, int64_t spread)
{
	uint32_t       index = zk.conn_count++;
	struct conn   *c = &zk.conns[index];
	struct server *s = &zk.servers[server];

	if (zk.conn_count == ZK_CONNS || s->conn_count == SERVER_CONNS)
		die("too many connections");
	c->client = client;
	c->server = server;
	c->session = NOBODY;
	c->open = s->role != DOWN && !zk.client_refused[client];
	c->ready = false;
	c->first = c->count = c->watch_count = c->again_count = 0;
	wire_init(&c->up, c->kept_up, HELD);
	wire_init(&c->down, c->kept_down, HELD);
	wire_open(&c->up, server_hears, index, latency + zk.options.reach[server], spread);
	wire_open(&c->down, client_end_hears, index, latency + zk.options.reach[server], spread);
	if (zk.client_cut[client])
		zk_conn_cut(index, true, true);
	if (c->open)
		s->conns[s->conn_count++] = index;
	else
		wire_send(&c->down, &(struct message){.type = MSG_CLOSED}); /* refused */
	return index;
}

void zk_conn_send(uint32_t conn, const struct message *message)
{
	wire_send(&zk.conns[conn].up, message);
}

void zk_conn_watches(uint32_t conn, const struct watch *watches, unsigned count, int32_t seen)
{
	struct conn *c = &zk.conns[conn];

	if (count > WATCHES)
		die("watches pile up at a client");
	if (count)
		memcpy(c->again, watches, count * sizeof *watches);
	c->again_count = count;
	c->again_seen = seen;
}

void zk_conn_hang_up(uint32_t conn)
{
	struct conn *c = &zk.conns[conn];

	wire_close(&c->down);
	wire_send(&c->up, &(struct message){.type = MSG_BYE});
}

int zk_conn_server(uint32_t conn)
{
	return (int)zk.conns[conn].server;
}

void zk_conn_break(uint32_t conn, bool lose_requests, bool lose_replies)
{
	struct conn *c = &zk.conns[conn];

	if (lose_replies)
		wire_close(&c->down);
	wire_send(&c->down, &(struct message){.type = MSG_CLOSED});
	if (lose_requests) {
		wire_close(&c->up);
		forget_conn(c);
	}
}

void zk_conn_cut(uint32_t conn, bool up, bool down)
{
	if (up)
		wire_cut(&zk.conns[conn].up);
	if (down)
		wire_cut(&zk.conns[conn].down);
}

void zk_conn_heal(uint32_t conn)
{
	wire_heal(&zk.conns[conn].up);
	wire_heal(&zk.conns[conn].down);
}

void zk_client_cut(unsigned client, bool cut)
{
	if (zk.client_cut[client] == cut)
		return;
	zk.client_cut[client] = cut;
	for (uint32_t i = 0; i < zk.conn_count; i++) {
		if (zk.conns[i].client != client)
			continue;
		if (cut)
			zk_conn_cut(i, true, true);
		else
			zk_conn_heal(i);
	}
}

void zk_client_refuse(unsigned client, bool refuse)
{
	zk.client_refused[client] = refuse;
}

void zk_conn_slow(uint32_t conn, int64_t extra)
{
	zk.conns[conn].up.latency += extra;
	zk.conns[conn].down.latency += extra;
}

/* ---- elections --------------------------------------------------------------------------------------------------- */

static void begin_looking(unsigned server)
{
	struct server *s = &zk.servers[server];
	bool           led = s->role == LEADING;

	TRACE("server %u: looks for a leader", server);
	s->role = LOOKING;
	for (unsigned i = 0; led && i < ZK_SERVERS; i++)
		if (believes_in(i, server) && linked(i, server))
			begin_looking(i);
	s->report_due = s->report_held = false;
	s->heard = 0;
	wire_close(&s->up);
	wire_close(&s->commits);
	wire_close(&s->answers);
	drop_all(s);
	agenda_put(agenda_now() + zk.options.election, look, server, 0);
}

static void follow(unsigned server, unsigned leader)
{
	struct server *s = &zk.servers[server];

	TRACE("server %u: follows %u", server, leader);
	s->role = FOLLOWING;
	s->leader = (int)leader;
	s->followed = zk.servers[leader].epoch;
	wire_open(&s->up, leader_hears, server, zk.options.latency, zk.options.spread);
	wire_open(&s->commits, follower_hears, server, zk.options.latency + zk.lag[server], zk.options.spread);
	wire_open(&s->answers, follower_hears, server, zk.options.latency, zk.options.spread);
	while (s->applied < zk.servers[leader].applied)
		apply_one(server);
	agenda_put(agenda_now(), commit_due, leader, zk.servers[leader].epoch);
}

/* Of what an old leader had proposed a beginning survives, as far as some follower had got it. */
static void settle_proposals(struct server *old)
{
	while (old->count) {
		struct pending p = old->pending[old->first];

		old->first = (old->first + 1) % PENDING;
		old->count--;
		/* proposed is 0 where no follower can have got it */
		if (!p.proposed || rng_chance(&zk.rng, 2))
			break;
		commit(&p);
	}
	old->count = 0;
}

static void lead(unsigned server)
{
	struct server *s = &zk.servers[server];

	tree_new_epoch();
	for (unsigned i = 0; i < ZK_SERVERS; i++)
		settle_proposals(&zk.servers[i]);
	s->role = LEADING;
	s->epoch = ++zk.epoch;
	s->closing = s->armed = 0;
	zk.elections++;
	TRACE("server %u: leads", server);
	for (int16_t i = 0; i < zk.session_count; i++) {
		s->expiry[i] = 0;
		if (!zk.sessions[i].closed)
			touch(server, i, zk.sessions[i].created_timeout);
	}
	while (s->applied < tree_end())
		apply_one(server);
}

static void look(uint32_t server, uint32_t unused)
{
	struct server *s = &zk.servers[server];
	int            leader = -1;

	(void)unused;
	if (s->role != LOOKING)
		return;
	for (unsigned i = 0; i < ZK_SERVERS; i++)
		if (i != server && zk.servers[i].role == LEADING && linked(i, server) &&
		    (leader < 0 || zk.servers[i].epoch > zk.servers[leader].epoch))
			leader = (int)i;
	if (leader >= 0 && zk.servers[leader].epoch == zk.epoch) {
		follow(server, (unsigned)leader);
		return;
	}
	for (unsigned i = 0; i < ZK_SERVERS && s->role == LOOKING; i++) {
		if (i == server || zk.servers[i].role != LOOKING || !linked(i, server))
			continue;
		lead(server);
		follow(i, server);
	}
	if (s->role == LOOKING)
		agenda_put(agenda_now() + zk.options.election, look, server, 0);
}

/* Proposals that only the leader itself can know of do not survive it. */
static void note_undelivered(unsigned leader)
{
	struct server *l = &zk.servers[leader];

	if (has_quorum(leader))
		return;
	for (unsigned i = 0; i < l->count; i++)
		l->pending[(l->first + i) % PENDING].proposed = 0;
}

static void quorum_check(uint32_t leader, uint32_t epoch)
{
	if (zk.servers[leader].role != LEADING || zk.servers[leader].epoch != epoch || has_quorum(leader))
		return;
	note_undelivered(leader);
	begin_looking(leader);
}

/* Where a follower's socket is closed its leader sees so within a tick. */
static void expect_quorum(unsigned leader)
{
	agenda_put(agenda_now() + 1 + rng_below(&zk.rng, zk.options.tick), quorum_check, leader,
	           zk.servers[leader].epoch);
}

void zk_crash(unsigned server)
{
	struct server *s = &zk.servers[server];
	bool           led = s->role == LEADING;

	if (s->role == DOWN)
		return;
	TRACE("server %u: dies", server);
	if (led)
		note_undelivered(server);
	if (s->role == FOLLOWING)
		expect_quorum((unsigned)s->leader);
	drop_all(s);
	wire_close(&s->up);
	wire_close(&s->commits);
	wire_close(&s->answers);
	s->role = DOWN;
	for (unsigned i = 0; led && i < ZK_SERVERS; i++)
		if (believes_in(i, server) && linked(i, server))
			begin_looking(i);
}

void zk_restart(unsigned server)
{
	if (zk.servers[server].role == DOWN)
		begin_looking(server);
}

static void cut_over(uint32_t pair, uint32_t number)
{
	unsigned one = pair / ZK_SERVERS, other = pair % ZK_SERVERS;

	if (!zk.cut[one][other] || zk.cut_number[one][other] != number)
		return;
	if (believes_in(one, other) || believes_in(other, one)) {
		unsigned follower = believes_in(one, other) ? one : other, leader = follower == one ? other : one;

		note_undelivered(leader);
		begin_looking(follower);
		agenda_put(agenda_now() + rng_below(&zk.rng, zk.options.tick), quorum_check, leader,
		           zk.servers[leader].epoch);
	}
}

void zk_cut(unsigned one, unsigned other)
{
	TRACE("network: servers %u and %u are cut off from each other", one, other);
	zk.cut[one][other] = zk.cut[other][one] = true;
	zk.cut_number[one][other]++;
	for (unsigned turn = 0; turn < 2; turn++) {
		unsigned follower = turn ? one : other, leader = turn ? other : one;

		if (!believes_in(follower, leader))
			continue;
		wire_cut(&zk.servers[follower].up);
		wire_cut(&zk.servers[follower].commits);
		wire_cut(&zk.servers[follower].answers);
	}
	agenda_put(agenda_now() + zk.options.sync_limit * zk.options.tick, cut_over, one * ZK_SERVERS + other,
	           zk.cut_number[one][other]);
}

static void ping_arrives(uint32_t server, uint32_t epoch)
{
	report_due(server, epoch);
}

void zk_heal(unsigned one, unsigned other)
{
	if (!zk.cut[one][other])
		return;
	TRACE("network: servers %u and %u reach each other", one, other);
	zk.cut[one][other] = zk.cut[other][one] = false;
	for (unsigned turn = 0; turn < 2; turn++) {
		unsigned       follower = turn ? one : other, leader = turn ? other : one;
		struct server *s = &zk.servers[follower];

		if (zk.servers[leader].role == LEADING)
			expect_quorum(leader);
		if (!believes_in(follower, leader))
			continue;
		if (!follows(follower, leader)) {
			begin_looking(follower);
			continue;
		}
		if (s->report_held)
			agenda_put(agenda_now() + 1, ping_arrives, follower, zk.servers[leader].epoch);
		wire_heal(&s->up);
		wire_heal(&s->commits);
		wire_heal(&s->answers);
		agenda_put(agenda_now() + 2 * zk.options.latency, commit_due, leader, zk.servers[leader].epoch);
	}
}

void zk_lag(unsigned server, int64_t extra)
{
	zk.lag[server] = extra;
	zk.servers[server].commits.latency = zk.options.latency + extra;
}

bool zk_healthy(void)
{
	int leader = zk_leader();

	for (unsigned i = 0; i < ZK_SERVERS; i++)
		if (leader < 0 || (i != (unsigned)leader && !follows(i, (unsigned)leader)) ||
		    zk.servers[i].applied != tree_end())
			return false;
	return zk.servers[leader].count == 0;
}

const char *zk_state(void)
{
	static char text[200];

	text[0] = 0;
	for (unsigned i = 0; i < ZK_SERVERS; i++) {
		const struct server *s = &zk.servers[i];
		size_t               used = strlen(text);

		snprintf(text + used, sizeof text - used, " server %u: role %d, leader %d, applied %d, %u pending;", i,
		         (int)s->role, s->leader, s->applied, s->count);
	}
	return text;
}

unsigned zk_elections(void)
{
	return zk.elections;
}

void zk_begin(const struct zk_options *options, uint64_t seed)
{
	zk.options = *options;
	zk.seed = seed;
	zk.rng = rng_make(seed, 'z');
	memset(zk.cut, 0, sizeof zk.cut);
	memset(zk.lag, 0, sizeof zk.lag);
	memset(zk.client_cut, 0, sizeof zk.client_cut);
	memset(zk.client_refused, 0, sizeof zk.client_refused);
	memset(zk.cut_number, 0, sizeof zk.cut_number);
	zk.session_count = 0;
	zk.conn_count = zk.epoch = zk.requests = 0;
	zk.elections = zk.deeds = 0;
	for (unsigned i = 0; i < ZK_SERVERS; i++) {
		struct server *s = &zk.servers[i];

		wire_init(&s->up, s->kept_up, LINK_HELD);
		wire_init(&s->commits, s->kept_commits, LINK_HELD);
		wire_init(&s->answers, s->kept_answers, LINK_HELD);
		s->role = LOOKING;
		s->applied = 0;
		s->conn_count = 0;
		s->heard = 0;
		s->report_due = s->report_held = false;
		s->first = s->count = 0;
		s->epoch = 0;
	}
	lead(0);
	follow(1, 0);
	follow(2, 0);
}
