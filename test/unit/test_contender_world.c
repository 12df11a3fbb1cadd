/* SPDX-License-Identifier: Apache-2.0 */
/* Contenders against a small ZooKeeper, in random schedules from a seed.
 *
 * The ensemble is one history of transactions; each session is connected to a server that has applied some beginning of it,
 * and catches up when it likes, or when it must: for a write. Requests of a session are carried out in order; replies, watch
 * events and news of the connection come back in one stream. A connection can break anywhere: some requests were carried out
 * and some not, and some are only queued and run on the next connection. Watches are set again then, and what was missed
 * fires in any order. Sessions expire, an operator deletes nodes and writes into them, leases end, owners change their minds.
 *
 * After each step: who is granted has the lowest node, tokens grow, nobody creates a node while an earlier one of his may
 * exist, who is done has left nothing. And when all failures stop and everything has come to rest, nobody is stuck. */
#include "check.h"

#include <zklock/zklock.h>

#include "contender.h"

enum { SESSIONS = 3, PER_SESSION = 2, CONTENDERS = SESSIONS * PER_SESSION, NODES = 400, QUEUE = 200, HISTORY = 2000 };
enum { STEPS = 400 };

struct node {
	char     name[ZKL__NAME_MAX];
	unsigned owner;                       /* contender */
	int64_t  session;                     /* id */
	int64_t  born, died, marked, changed; /* transactions; 0: not yet */
	int64_t  directory;                   /* birth of the directory it is in */
	unsigned attempt;
};

enum item_type { REQUEST, REPLY, EVENT_GONE, EVENT_CHANGED, NEWS_DOWN, NEWS_UP, NEWS_EXPIRED };

struct item {
	enum item_type    type;
	unsigned          contender, attempt; /* an attempt is a party of its own, which late replies do not find */
	enum zkl__op      op;
	uint32_t          id;
	struct zkl__uuid  uuid;
	char              name[ZKL__NAME_MAX];
	struct zkl__reply reply;
	int64_t           view; /* of the server that answered */
};

struct queue {
	struct item items[QUEUE];
	unsigned    count;
};

struct watch {
	unsigned contender, attempt, node;
	bool     data;
};

struct session {
	int64_t      id;
	bool         up;      /* connected, as the servers see it */
	int64_t      view;    /* what its server has applied */
	int64_t      seen;    /* newest transaction that the client knows of */
	int64_t      expired; /* transaction that ended it; 0: it lives */
	bool         lease;
	struct queue requests, stream;
	struct watch server_watches[QUEUE], client_watches[QUEUE];
	unsigned     server_watch_count, client_watch_count;
};

struct owner {
	struct zkl__contender contender;
	char                  predecessor[ZKL__NAME_MAX];
	bool                  active, settle, granted, lost, failed;
	unsigned              attempt;
	int64_t               entitled_view; /* of what made it our turn */
	struct item          *cause;         /* what is being dealt with */
};

static struct {
	uint64_t       seed;
	bool           quiet; /* no failures any more */
	struct session sessions[SESSIONS];
	struct owner   owners[CONTENDERS];
	struct node    nodes[NODES];
	unsigned       node_count;
	int64_t        end;                       /* newest transaction */
	int64_t        directory, directory_gone; /* when it was made, and deleted before */
	struct {
		int64_t made, gone;
	} directories[50];
	unsigned    directory_count;
	int64_t     next_sequence, session_ids;
	uint64_t    last_token;
	unsigned    grants;
	const char *wrong;
} w;

#define WRONG(text) (w.wrong = w.wrong ? w.wrong : (text))

static int64_t below(int64_t limit)
{
	return check_below(&w.seed, limit);
}

static bool chance(int64_t of)
{
	return below(of) == 0;
}

/* ---- the ensemble -------------------------------------------------------------------------------------------------------- */

static bool alive(const struct node *n, int64_t view)
{
	return n->born <= view && (!n->died || n->died > view);
}

/* The newest one: where a directory is made anew a name may come again. */
static struct node *find_node(const char *name)
{
	for (unsigned i = w.node_count; i-- > 0;)
		if (strcmp(w.nodes[i].name, name) == 0)
			return &w.nodes[i];
	return NULL;
}

/* Birth of the directory that is there at this view; 0: none. */
static int64_t directory_at(int64_t view)
{
	for (unsigned i = w.directory_count; i-- > 0;)
		if (w.directories[i].made <= view)
			return w.directories[i].gone && w.directories[i].gone <= view ? 0 : w.directories[i].made;
	return 0;
}

static struct item *append(struct queue *queue)
{
	struct item *item = &queue->items[queue->count];

	if (queue->count == QUEUE - 1)
		WRONG("a queue grows without end");
	else
		queue->count++;
	memset(item, 0, sizeof *item);
	return item;
}

static struct item take(struct queue *queue, unsigned i)
{
	struct item item = queue->items[i];

	memmove(&queue->items[i], &queue->items[i + 1], (--queue->count - i) * sizeof item);
	return item;
}

static void event(struct session *s, const struct watch *watch, const struct node *n, bool gone)
{
	struct item *item = append(&s->stream);

	item->type = gone ? EVENT_GONE : EVENT_CHANGED;
	item->contender = watch->contender;
	item->attempt = watch->attempt;
	item->view = s->view;
	snprintf(item->name, sizeof item->name, "%s", n->name);
}

/* The server applies one more transaction. */
static void apply(struct session *s)
{
	s->view++;
	for (unsigned i = 0; i < s->server_watch_count; i++) {
		struct watch       x = s->server_watches[i];
		const struct node *n = &w.nodes[x.node];

		if (n->died == s->view || (x.data && n->changed == s->view)) {
			s->server_watches[i--] = s->server_watches[--s->server_watch_count];
			event(s, &x, n, n->died == s->view);
		}
	}
}

static void catch_up(struct session *s)
{
	while (s->view < w.end)
		apply(s);
}

/* A new transaction. Where a node's data are changed twice the first change must have been applied before. */
static int64_t commit(void)
{
	if (w.end == HISTORY)
		WRONG("too many transactions");
	return ++w.end;
}

static void note_change(struct node *n)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		catch_up(&w.sessions[i]);
	n->changed = commit();
}

static void do_create(struct session *s, const struct item *request, struct zkl__reply *r)
{
	struct node *n = &w.nodes[w.node_count];
	char         prefix[ZKL__NAME_MAX];

	if (!directory_at(w.end)) {
		r->result = ZKL__NO_NODE;
		return;
	}
	if (w.node_count == NODES - 1) {
		WRONG("too many nodes");
		return;
	}
	zkl__queue_prefix(ZKL__KIND_LOCK, request->uuid, prefix);
	snprintf(n->name, sizeof n->name, "%.60s%010d", prefix, (int)w.next_sequence++);
	n->owner = request->contender;
	n->attempt = request->attempt;
	n->session = s->id;
	n->directory = directory_at(w.end);
	n->born = commit();
	for (unsigned i = 0; i < w.node_count; i++)
		if (w.nodes[i].owner == n->owner && w.nodes[i].session == n->session && alive(&w.nodes[i], w.end) &&
		    w.nodes[i].attempt == n->attempt)
			WRONG("a second node of the same attempt");
	w.node_count++;
	snprintf(r->name, sizeof r->name, "%s", n->name);
	r->czxid = n->born;
	r->owner = s->id;
}

static void do_list(struct session *s, const struct item *request, struct zkl__reply *r)
{
	const char *names[NODES];
	size_t      count = 0;

	r->queue.own_sequence = -1;
	if (!directory_at(s->view)) {
		r->result = ZKL__NO_NODE;
		return;
	}
	for (unsigned i = 0; i < w.node_count; i++)
		if (alive(&w.nodes[i], s->view))
			names[count++] = w.nodes[i].name;
	zkl__queue_look(&r->queue, names, count, ZKL__KIND_LOCK, request->uuid);
	r->czxid = directory_at(s->view);
}

static void do_watch(struct session *s, const struct item *request, struct zkl__reply *r)
{
	const struct node *n = find_node(request->name);

	if (!n || !alive(n, s->view)) {
		r->result = ZKL__NO_NODE;
		return;
	}
	r->marked = n->marked && n->marked <= s->view;
	s->server_watches[s->server_watch_count++ % QUEUE] = (struct watch){
		request->contender, request->attempt, (unsigned)(n - w.nodes), request->op == ZKL__WATCH_MARK};
	if (s->server_watch_count == QUEUE)
		WRONG("watches pile up at the server");
}

/* Through the quorum. */
static void do_write(const struct item *request, struct zkl__reply *r)
{
	struct node *n = find_node(request->name);

	if (!n || !alive(n, w.end)) {
		r->result = ZKL__NO_NODE;
	} else if (request->op == ZKL__DELETE) {
		if (n->owner != request->contender)
			WRONG("somebody else's node is deleted");
		n->died = commit();
	} else if (request->op == ZKL__MARK) {
		note_change(n);
		n->marked = n->marked ? n->marked : w.end;
	}
}

static void make_directory(void)
{
	w.directories[w.directory_count].made = commit();
	w.directories[w.directory_count].gone = 0;
	w.directory_count++;
	w.next_sequence = 0;
}

static void carry_out(struct session *s, const struct item *request, struct item *answer)
{
	struct zkl__reply *r = &answer->reply;
	const struct node *n;

	switch (request->op) {
	case ZKL__CREATE:
		do_create(s, request, r);
		catch_up(s);
		break;
	case ZKL__LIST:
		do_list(s, request, r);
		break;
	case ZKL__MAKE_PATH:
		if (directory_at(w.end))
			r->result = ZKL__EXISTS;
		else
			make_directory();
		catch_up(s);
		break;
	case ZKL__SYNC:
		catch_up(s);
		break;
	case ZKL__BARRIER:
		catch_up(s);
		r->result = directory_at(w.end) ? ZKL__DONE : ZKL__NO_NODE;
		break;
	case ZKL__FIND:
		n = find_node(request->name);
		r->result = n && alive(n, s->view) ? ZKL__DONE : ZKL__NO_NODE;
		r->owner = n ? n->session : 0;
		r->czxid = n ? n->born : 0;
		break;
	case ZKL__WATCH:
	case ZKL__WATCH_MARK:
		do_watch(s, request, r);
		break;
	case ZKL__MARK:
	case ZKL__DELETE:
	case ZKL__PROVE:
		do_write(request, r);
		catch_up(s);
		break;
	default: /* no contender's */
		FAIL("asked for %s", zkl__op_name(request->op));
		break;
	}
	answer->view = s->view;
}

static void answer(struct session *s, const struct item *request, bool unknown)
{
	struct item *reply = append(&s->stream);

	reply->type = REPLY;
	reply->contender = request->contender;
	reply->attempt = request->attempt;
	reply->op = reply->reply.op = request->op;
	reply->id = reply->reply.id = request->id;
	snprintf(reply->name, sizeof reply->name, "%s", request->name);
	snprintf(reply->reply.name, sizeof reply->reply.name, "%s", request->name);
	if (unknown) {
		reply->reply.result = ZKL__UNKNOWN;
		return;
	}
	/* What the write lets the server apply comes before its reply. */
	struct item filled = *reply;

	s->stream.count--;
	carry_out(s, request, &filled);
	*append(&s->stream) = filled;
}

static bool server_knows_of_expiry(const struct session *s)
{
	return s->expired && s->view >= s->expired;
}

static void serve(struct session *s)
{
	struct item request;

	if (!s->up || !s->requests.count || server_knows_of_expiry(s))
		return;
	/* A write of a session that is over is refused, and the connection closed. */
	if (s->expired && s->requests.items[0].op != ZKL__LIST && s->requests.items[0].op != ZKL__WATCH &&
	    s->requests.items[0].op != ZKL__WATCH_MARK && s->requests.items[0].op != ZKL__FIND) {
		catch_up(s);
		return;
	}
	request = take(&s->requests, 0);
	answer(s, &request, false);
}

/* ---- connections --------------------------------------------------------------------------------------------------------- */

static void news(struct session *s, enum item_type type)
{
	append(&s->stream)->type = type;
}

/* Of the requests the first ones fail, some of which were carried out; the others are only queued. */
static void break_connection(struct session *s)
{
	unsigned     failing = (unsigned)below(s->requests.count + 1), done = (unsigned)below(failing + 1);
	struct queue stream = s->stream;
	bool         received = below(2); /* what is on its way to the client */

	s->up = false;
	s->server_watch_count = 0;
	s->stream.count = 0;
	if (received) {
		s->stream = stream;
		news(s, NEWS_DOWN);
	} else {
		unsigned keep = 0;

		/* News of the connection cannot be lost, nor what came before them. */
		for (unsigned i = 0; i < stream.count; i++)
			if (stream.items[i].type >= NEWS_DOWN ||
			    (stream.items[i].type == REPLY && stream.items[i].reply.result == ZKL__UNKNOWN))
				keep = i + 1;
		for (unsigned i = 0; i < keep; i++)
			*append(&s->stream) = stream.items[i];
		news(s, NEWS_DOWN);
		for (unsigned i = keep; i < stream.count; i++)
			if (stream.items[i].type == REPLY)
				answer(s, &stream.items[i], true);
	}
	for (unsigned i = 0; i < failing; i++) {
		struct item request = take(&s->requests, 0), ignored = {0};

		if (i < done && !s->expired && request.op != ZKL__WATCH && request.op != ZKL__WATCH_MARK) {
			struct queue keep = s->stream;

			carry_out(s, &request, &ignored);
			s->stream = keep; /* the client hears nothing of it */
		}
		answer(s, &request, true);
	}
}

static void client_forgets(struct session *s, unsigned i)
{
	s->client_watches[i] = s->client_watches[--s->client_watch_count];
}

static bool same_watch(const struct watch *one, const struct watch *other)
{
	return one->contender == other->contender && one->attempt == other->attempt && one->node == other->node &&
	       one->data == other->data;
}

/* All that is on its way is read before the client connects anew: what the library has not looked at yet counts, too. */
static void note_watches(struct session *s, const struct item *item)
{
	const struct node *n = item->name[0] ? find_node(item->name) : NULL;

	if (item->type == EVENT_GONE || item->type == EVENT_CHANGED) {
		for (unsigned i = s->client_watch_count; i-- > 0;) {
			struct watch x = s->client_watches[i];

			if (&w.nodes[x.node] == n && x.contender == item->contender && x.attempt == item->attempt &&
			    (x.data || item->type == EVENT_GONE))
				client_forgets(s, i);
		}
	} else if (item->type == REPLY && item->reply.result == ZKL__DONE &&
	           (item->op == ZKL__WATCH || item->op == ZKL__WATCH_MARK)) {
		struct watch x = {item->contender, item->attempt, (unsigned)(n - w.nodes), item->op == ZKL__WATCH_MARK};

		for (unsigned i = 0; i < s->client_watch_count; i++)
			if (same_watch(&s->client_watches[i], &x))
				return;
		s->client_watches[s->client_watch_count++ % QUEUE] = x;
	}
	if (item->view > s->seen && item->type == REPLY)
		s->seen = item->view;
}

static void set_watches(struct session *s)
{
	unsigned order[QUEUE], count = s->client_watch_count;

	for (unsigned i = 0; i < count; i++)
		order[i] = i;
	for (unsigned i = count; i > 1; i--) {
		unsigned j = (unsigned)below(i), swap = order[j];

		order[j] = order[i - 1];
		order[i - 1] = swap;
	}
	for (unsigned i = 0; i < count; i++) {
		struct watch       x = s->client_watches[order[i]];
		const struct node *n = &w.nodes[x.node];

		if (!alive(n, s->view))
			event(s, &x, n, true);
		else if (x.data && n->changed > s->seen && n->changed <= s->view)
			event(s, &x, n, false);
		else
			s->server_watches[s->server_watch_count++] = x;
	}
}

static void connect_again(struct session *s)
{
	/* The client's own thread has read all that came. */
	for (unsigned i = 0; i < s->stream.count; i++)
		note_watches(s, &s->stream.items[i]);
	if (s->expired) {
		for (unsigned i = 0; i < s->stream.count; i++)
			if (s->stream.items[i].type == NEWS_EXPIRED)
				return;
		while (s->requests.count) {
			struct item request = take(&s->requests, 0);

			answer(s, &request, true);
		}
		news(s, NEWS_EXPIRED);
		return;
	}
	s->up = true;
	s->view = w.end;
	if (s->seen < w.end)
		s->view = s->seen + below(w.end - s->seen + 1);
	news(s, NEWS_UP);
	set_watches(s);
}

/* The lease has ended by then, that is what it is for. */
static void expire(struct session *s)
{
	if (s->expired || s->lease)
		return;
	s->expired = commit();
	for (unsigned i = 0; i < w.node_count; i++)
		if (w.nodes[i].session == s->id && alive(&w.nodes[i], w.end - 1) && w.nodes[i].born < w.end)
			w.nodes[i].died = w.end;
}

static void new_session(struct session *s)
{
	memset(s, 0, sizeof *s);
	s->id = ++w.session_ids;
	s->view = s->seen = w.end;
	s->up = true;
	news(s, NEWS_UP);
}

/* ---- contenders ------------------------------------------------------------------------------------------------------------ */

static struct session *session_of(const struct owner *o)
{
	return &w.sessions[(o - w.owners) / PER_SESSION];
}

static bool nothing_is_left(const struct owner *o)
{
	const struct session *s = session_of(o);

	for (unsigned i = 0; i < w.node_count; i++)
		if (alive(&w.nodes[i], w.end) && w.nodes[i].owner == o - w.owners && w.nodes[i].session == s->id &&
		    w.nodes[i].attempt == o->attempt)
			return false;
	for (unsigned i = 0; i < s->requests.count; i++)
		if (s->requests.items[i].op == ZKL__CREATE && s->requests.items[i].contender == o - w.owners &&
		    s->requests.items[i].attempt == o->attempt)
			return false;
	return true;
}

static void check_grant(struct owner *o, int64_t view)
{
	const struct node *own = find_node(o->contender.name);
	uint64_t           token = zkl__contender_token(&o->contender);

	w.grants++;
	if (!own || own->owner != o - w.owners)
		WRONG("granted without a node");
	if (w.wrong)
		return;
	if (!alive(own, view))
		WRONG("granted by what was known when our node was gone");
	for (unsigned i = 0; i < w.node_count; i++)
		if (alive(&w.nodes[i], w.end) && alive(own, w.end) &&
		    zkl__queue_sequence(w.nodes[i].name) < zkl__queue_sequence(own->name))
			WRONG("granted behind another");
	if (alive(own, w.end) && token <= w.last_token)
		WRONG("a token that does not grow");
	if (alive(own, w.end))
		w.last_token = token;
}

static void send(struct owner *o, const struct zkl__request *request)
{
	struct session *s = session_of(o);
	struct item    *item = append(&s->requests);

	item->type = REQUEST;
	item->contender = (unsigned)(o - w.owners);
	item->attempt = o->attempt;
	item->op = request->op;
	item->id = request->id;
	item->uuid = request->uuid;
	if (request->name)
		snprintf(item->name, sizeof item->name, "%s", request->name);
	if (!o->active)
		WRONG("a request after the end");
}

/* For one attempt; by the news of a session for the present one. */
static void step(struct owner *o, struct zkl__input *in, int64_t view)
{
	struct session     *s = session_of(o);
	struct zkl__actions actions = {0};
	enum zkl__state     before = o->contender.state;

	if (!o->active)
		return;
	in->lease_live = s->lease;
	in->session_id = s->id;
	memset(&actions, 0xa5, sizeof actions);
	zkl__contender_step(&o->contender, in, &actions);
	if (actions.count > ZKL__ACTIONS_MAX)
		WRONG("too many actions");
	for (unsigned i = 0; i < actions.count && !w.wrong; i++) {
		struct zkl__action *action = &actions.list[i];

		switch (action->type) {
		case ZKL__SEND:
			if (action->request.op == ZKL__CREATE && !nothing_is_left(o))
				WRONG("a create while an earlier one may exist");
			send(o, &action->request);
			break;
		case ZKL__ASK_PROOF: {
			struct zkl__request prove = {.op = ZKL__PROVE, .name = o->contender.name};

			send(o, &prove);
			break;
		}
		case ZKL__TELL_GRANTED:
			if (o->granted || o->lost)
				WRONG("granted twice");
			if (!s->lease)
				WRONG("granted without a lease");
			o->granted = true;
			o->contender.predecessor = NULL;
			check_grant(o, before == ZKL__ENTITLED ? o->entitled_view : view);
			break;
		case ZKL__TELL_SETTLE:
			o->settle = true;
			break;
		case ZKL__TELL_LOST:
			if (!o->granted || o->lost)
				WRONG("lost what was not held");
			o->lost = true;
			break;
		case ZKL__TELL_FAILED:
			if (o->failed || o->granted)
				WRONG("failed twice, or when held");
			o->failed = true;
			break;
		case ZKL__TELL_DONE:
			if (!s->expired && !nothing_is_left(o))
				WRONG("done, and something is left");
			o->active = false;
			break;
		case ZKL__TELL_WAITING:
		case ZKL__TELL_REQUEUED:
		case ZKL__WARN:
			break;
		}
	}
	if (o->contender.state == ZKL__ENTITLED && before != ZKL__ENTITLED)
		o->entitled_view = view;
}

static void input(struct owner *o, enum zkl__input_type type)
{
	struct zkl__input in = {.type = type};

	step(o, &in, w.end);
}

static void input_all(struct session *s, enum zkl__input_type type)
{
	for (int i = 0; i < PER_SESSION; i++)
		input(&w.owners[(s - w.sessions) * PER_SESSION + i], type);
}

/* A proof is read. It counts from when it was sent, so that it is worth nothing once the session is over. */
static void prove(struct session *s)
{
	if (s->expired)
		return;
	for (int i = 0; i < PER_SESSION; i++)
		if (w.owners[(s - w.sessions) * PER_SESSION + i].contender.state == ZKL__ENTITLED)
			input(&w.owners[(s - w.sessions) * PER_SESSION + i], ZKL__IN_LEASE_LIVE);
}

static void expired(struct session *s)
{
	struct queue left = s->stream;

	if (below(2)) /* what was under way may be told before or after */
		left.count = 0;
	new_session(s);
	s->stream.count = 0;
	input_all(s, ZKL__IN_EXPIRED);
	for (unsigned i = 0; i < left.count; i++) {
		struct zkl__reply reply = left.items[i].reply;
		struct zkl__input in = {.type = ZKL__IN_REPLY, .reply = &reply};

		reply.result = ZKL__UNKNOWN;
		if (left.items[i].type == REPLY && left.items[i].op != ZKL__PROVE &&
		    left.items[i].attempt == w.owners[left.items[i].contender].attempt)
			step(&w.owners[left.items[i].contender], &in, 0);
	}
	news(s, NEWS_UP);
}

/* The client reads the next thing from its stream. */
static void hear(struct session *s)
{
	struct item       item;
	struct owner     *o;
	struct zkl__input in = {0};
	bool              proof;

	if (!s->stream.count)
		return;
	item = take(&s->stream, 0);
	note_watches(s, &item);
	o = &w.owners[item.contender];
	in.reply = &item.reply;
	in.name = item.name;
	switch (item.type) {
	case REPLY:
		in.type = item.op == ZKL__PROVE ? ZKL__IN_GONE : ZKL__IN_REPLY;
		proof = (item.op == ZKL__CREATE || item.op == ZKL__MARK) ? item.reply.result == ZKL__DONE
		        : item.op == ZKL__PROVE                          ? item.reply.result != ZKL__UNKNOWN
		                                                         : false;
		s->lease = s->lease || (proof && !s->expired);
		if (item.attempt == o->attempt && (item.op != ZKL__PROVE || item.reply.result == ZKL__NO_NODE))
			step(o, &in, item.view);
		if (proof)
			prove(s);
		break;
	case EVENT_GONE:
	case EVENT_CHANGED:
		in.type = item.type == EVENT_GONE ? ZKL__IN_GONE : ZKL__IN_CHANGED;
		if (item.attempt == o->attempt)
			step(o, &in, item.view);
		break;
	case NEWS_DOWN:
		input_all(s, ZKL__IN_LINK_DOWN);
		break;
	case NEWS_UP:
		/* Heartbeats go out before all else. */
		for (int i = 0; i < PER_SESSION; i++) {
			struct owner       *x = &w.owners[(s - w.sessions) * PER_SESSION + i];
			struct zkl__request request = {.op = ZKL__PROVE, .name = x->contender.name};

			if (x->active && zkl__contender_wants_lease(&x->contender) && x->contender.sequence >= 0)
				send(x, &request);
		}
		input_all(s, ZKL__IN_LINK_UP);
		break;
	case NEWS_EXPIRED:
		expired(s);
		break;
	case REQUEST:
		break;
	}
}

static void start(struct owner *o, bool link)
{
	static const unsigned flags[] = {
		0, 0, 0, ZKL__CONTENDER_TRY, ZKL__CONTENDER_NO_MARK, ZKL__CONTENDER_NO_REQUEUE};
	struct zkl__input in = {.type = ZKL__IN_START,
	                        .uuid = {check_random(&w.seed), check_random(&w.seed) & ~UINT64_C(0xffff)}};
	struct session   *s = session_of(o);

	zkl__contender_init(&o->contender, flags[below(6)], o->predecessor);
	o->contender.link = link;
	o->contender.session_id = s->id;
	o->active = true;
	o->settle = o->granted = o->lost = o->failed = false;
	o->attempt++;
	step(o, &in, w.end);
}

/* Is the link up, as the session's contenders have been told? */
static bool link_is_up(const struct session *s)
{
	bool up = s->up;

	/* What is still in the stream has not been told. */
	for (unsigned i = s->stream.count; i-- > 0;) {
		if (s->stream.items[i].type == NEWS_UP)
			up = false;
		else if (s->stream.items[i].type == NEWS_DOWN)
			up = true;
	}
	return up;
}

static void operator(void)
{
	struct node *n = &w.nodes[below(w.node_count + 1)];
	unsigned     living = 0;

	for (unsigned i = 0; i < w.node_count; i++)
		living += alive(&w.nodes[i], w.end);
	if (!living && directory_at(w.end) && w.directory_count < 50) {
		w.directories[w.directory_count - 1].gone = commit();
		return;
	}
	if (n == &w.nodes[w.node_count] || !alive(n, w.end))
		return;
	if (below(2))
		n->died = commit();
	else
		note_change(n);
}

/* ---- a round --------------------------------------------------------------------------------------------------------------- */

static void begin(uint64_t seed)
{
	memset(&w, 0, sizeof w);
	w.seed = seed;
	w.end = 1000;
	if (below(2))
		make_directory();
	for (int i = 0; i < SESSIONS; i++)
		new_session(&w.sessions[i]);
	for (int i = 0; i < CONTENDERS; i++)
		w.owners[i].contender.sequence = -1;
}

static void owner_acts(struct owner *o)
{
	struct session *s = session_of(o);

	if (!o->active)
		start(o, link_is_up(s));
	else if (o->granted || chance(4))
		input(o, ZKL__IN_LEAVE);
}

static void lease_ends(struct session *s)
{
	s->lease = false;
	for (int i = 0; i < PER_SESSION; i++)
		if (w.owners[(s - w.sessions) * PER_SESSION + i].contender.state == ZKL__HELD)
			input(&w.owners[(s - w.sessions) * PER_SESSION + i], ZKL__IN_LEASE_OVER);
}

static void turn(void)
{
	struct session *s = &w.sessions[below(SESSIONS)];
	struct owner   *o = &w.owners[below(CONTENDERS)];

	switch (below(24)) {
	case 0:
		if (!w.quiet && s->up && chance(3))
			break_connection(s);
		break;
	case 1:
		if (!w.quiet && chance(6))
			expire(s);
		break;
	case 2:
		if (!w.quiet && chance(3))
			operator();
		break;
	case 3:
		if (!w.quiet && chance(3))
			lease_ends(s);
		break;
	case 4:
	case 5:
		if (!w.quiet)
			owner_acts(o);
		break;
	case 6:
	case 7:
		if (o->settle) {
			o->settle = false;
			input(o, ZKL__IN_SETTLED);
		}
		break;
	case 8:
	case 9:
		if (server_knows_of_expiry(s) && s->up)
			break_connection(s);
		else if (!s->up)
			connect_again(s);
		break;
	case 10:
	case 11:
		if (s->up && s->view < w.end)
			apply(s);
		break;
	case 12:
	case 13:
	case 14:
	case 15:
	case 16:
	case 17:
		serve(s);
		break;
	default:
		hear(s);
		break;
	}
}

static bool at_rest(void)
{
	for (int i = 0; i < SESSIONS; i++) {
		const struct session *s = &w.sessions[i];

		if (!s->up || s->expired || s->requests.count || s->stream.count || s->view < w.end)
			return false;
	}
	for (int i = 0; i < CONTENDERS; i++)
		if (w.owners[i].settle)
			return false;
	return true;
}

/* Nothing fails any more, and nothing is under way. */
static void check_rest(void)
{
	const struct node *lowest = NULL;

	for (unsigned i = 0; i < w.node_count; i++) {
		const struct node *n = &w.nodes[i];

		if (!alive(n, w.end))
			continue;
		if (!w.owners[n->owner].active || strcmp(w.owners[n->owner].contender.name, n->name) != 0)
			WRONG("a node that nobody knows of");
		if (!lowest || zkl__queue_sequence(n->name) < zkl__queue_sequence(lowest->name))
			lowest = n;
	}
	if (lowest && w.owners[lowest->owner].contender.state != ZKL__HELD &&
	    w.owners[lowest->owner].contender.state != ZKL__LOST)
		WRONG("who is first does not hold");
	for (int i = 0; i < CONTENDERS; i++) {
		const struct owner *o = &w.owners[i];
		const struct node  *n = find_node(o->contender.name);
		enum zkl__state     state = o->contender.state;

		if (state != ZKL__IDLE && state != ZKL__LOST &&
		    !((state == ZKL__HELD || state == ZKL__WAIT) && n && alive(n, w.end)))
			WRONG("somebody is stuck");
		if (state == ZKL__HELD && n != lowest)
			WRONG("somebody holds who is not first");
	}
}

static void play(uint64_t seed)
{
	begin(seed);
	for (int phase = 0; phase < 3 && !w.wrong; phase++) {
		w.quiet = false;
		for (int i = 0; i < STEPS && !w.wrong; i++)
			turn();
		w.quiet = true;
		for (int i = 0; i < 20000 && !w.wrong && !at_rest(); i++)
			turn();
		if (!w.wrong && !at_rest())
			WRONG("it does not come to rest");
		if (!w.wrong)
			check_rest();
	}
}

static void nobody_is_granted_wrongly_or_stuck_or_leaves_a_node_behind(void)
{
	uint64_t rounds = check_rounds(600, 20000), grants = 0;

	for (uint64_t seed = 1; seed <= rounds; seed++) {
		play(seed);
		grants += w.grants;
		if (w.wrong) {
			FAIL("seed %" PRIu64 ": %s", seed, w.wrong);
			return;
		}
	}
	CHECK(grants > 5 * rounds);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(nobody_is_granted_wrongly_or_stuck_or_leaves_a_node_behind),
	                                          {0}};

	return check_main("contender_world", tests, argc, argv);
}
