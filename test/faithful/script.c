/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zklock/guarded.h>

#include "contender.h"
#include "node_data.h"

enum { TEXT = 64 * 1024, LINE = 300, LINES = 64, WORDS = 48, NUMBERS = 32, ZXIDS = 200, SESSIONS = 16 };
/* Whose replies are not written down. */
#define HIDDEN UINT64_C(0xffff)
#define MARK   '\1'

struct client {
	bool     open, connected, expired;
	bool     falls; /* it will hear that it is disconnected */
	bool     kept_away;
	bool     behind; /* its server hears of nothing */
	bool     sorts;  /* events come in any order */
	unsigned sessions, pending, lines;
	char     said[LINES][LINE];
};

static const char *const paths[] = {"/locks/a", "/elections/b"}, *const words[] = {"lock", "election"};

static struct {
	const struct stage *stage;
	struct client       clients[SCRIPT_CLIENTS];
	char                text[TEXT];
	size_t              length;
	char                names[2][NUMBERS][ZKL__NAME_MAX];
	struct {
		int64_t id;
		char    label[8];
	} sessions[SESSIONS];
	unsigned session_count;
	unsigned acting; /* whose turn it is, within a step */
	uint32_t last_id;
} run;

static _Noreturn void die(const char *what, const char *of)
{
	fprintf(stderr, "script: %s: %s\n%.*s", what, of, (int)run.length, run.text);
	abort();
}

/* ---- what is written down ------------------------------------------------------------------------------------------------ */

static void put(const char *format, ...)
{
	va_list list;
	int     more;

	va_start(list, format);
	more = vsnprintf(run.text + run.length, sizeof run.text - run.length, format, list);
	va_end(list);
	run.length += (size_t)more;
	if (run.length >= sizeof run.text)
		die("too long", "transcript");
}

static void say(unsigned client, uint64_t party, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void say(unsigned client, uint64_t party, const char *format, ...)
{
	struct client *c = &run.clients[client];
	char          *line = c->said[c->lines];
	int            length;
	va_list        list;

	if (c->lines++ == LINES)
		die("says too much", "client");
	length = snprintf(line, LINE, party > 1 ? "%c.%d " : "%c ", 'A' + (int)client, (int)party);
	va_start(list, format);
	vsnprintf(line + length, LINE - (size_t)length, format, list);
	va_end(list);
}

static const char *session_label(int64_t id)
{
	for (unsigned i = 0; i < run.session_count; i++)
		if (run.sessions[i].id == id)
			return run.sessions[i].label;
	return id ? "somebody" : "nobody";
}

static void meet_session(unsigned client, int64_t id)
{
	if (strcmp(session_label(id), "somebody") != 0)
		return;
	if (run.session_count == SESSIONS)
		die("too many", "sessions");
	run.sessions[run.session_count].id = id;
	snprintf(run.sessions[run.session_count++].label, sizeof run.sessions->label, "%c%u", 'A' + (int)client,
	         ++run.clients[client].sessions);
}

/* Also learns the name. "-": none. */
static const char *short_name(unsigned kind, const char *name)
{
	static char text[8][24];
	static int  next;
	int64_t     sequence = zkl__queue_sequence(name);

	next = (next + 1) % 8;
	if (!*name)
		return "-";
	snprintf(text[next], sizeof text[next], "#%" PRId64, sequence);
	if (sequence >= 0 && sequence < NUMBERS)
		memcpy(run.names[kind][sequence], name, strlen(name) + 1);
	return text[next];
}

/* ---- mail ---------------------------------------------------------------------------------------------------------------- */

static void hear_list(unsigned client, uint64_t party, unsigned kind, const struct zkl__reply *r)
{
	const struct zkl__queue *q = &r->queue;

	say(client, party,
	    "%s: %c%" PRId64
	    "%c of %s, next number %u, %u contenders, %u ahead, lowest %s, before us %s, ours %s of %u, "
	    "foreign %s, misplaced %s",
	    zkl__op_name(r->op), MARK, r->czxid, MARK, session_label(r->owner), r->created, q->contenders, q->ahead,
	    short_name(kind, q->lowest), short_name(kind, q->predecessor), short_name(kind, q->own), q->mine,
	    short_name(kind, q->foreign), short_name(kind, q->misplaced));
}

static void hear_done(unsigned client, uint64_t party, unsigned kind, const struct zkl__reply *r)
{
	switch (r->op) {
	case ZKL__LIST:
	case ZKL__LIST_WATCH:
		hear_list(client, party, kind, r);
		break;
	case ZKL__CREATE:
		say(client, party, "%s: %s, %c%" PRId64 "%c of %s", zkl__op_name(r->op), short_name(kind, r->name),
		    MARK, r->czxid, MARK, session_label(r->owner));
		break;
	case ZKL__FIND:
	case ZKL__FIND_WATCH:
	case ZKL__READ:
	case ZKL__READ_WATCH:
		say(client, party, "%s: %c%" PRId64 "%c of %s", zkl__op_name(r->op), MARK, r->czxid, MARK,
		    session_label(r->owner));
		break;
	case ZKL__WATCH:
		say(client, party, "%s: done, of %s", zkl__op_name(r->op), session_label(r->owner));
		break;
	case ZKL__WATCH_MARK:
		say(client, party, "%s: %s, of %s", zkl__op_name(r->op), r->marked ? "marked" : "not marked",
		    session_label(r->owner));
		break;
	default:
		say(client, party, "%s: done", zkl__op_name(r->op));
		break;
	}
}

static void hear_reply(unsigned client, const struct zkl__mail *mail)
{
	static const char *const results[] = {"done",   "no node",   "exists",  "not empty", "denied",
	                                      "barren", "unclaimed", "unknown", "refused"};
	const struct zkl__reply *r = &mail->reply;
	uint64_t                 party = mail->party & 0xffff;

	run.clients[client].pending--;
	if (party == HIDDEN)
		return;
	if (r->result == ZKL__DONE)
		hear_done(client, party, (unsigned)(mail->party >> 16), r);
	else if (r->op == ZKL__GUARDED && r->result != ZKL__UNKNOWN)
		say(client, party, "%s: %s (%d), %s", zkl__op_name(r->op), results[r->result], r->zk_code,
		    r->failed ? "the write" : "the check");
	else
		say(client, party, "%s: %s (%d)", zkl__op_name(r->op), results[r->result], r->zk_code);
}

static void hear_watch(unsigned client, const struct zkl__mail *mail)
{
	const char *what = mail->type == ZKL__MAIL_GONE ? "is gone" : "has changed";
	char        whole[ZKL__DIRECTORY_MAX + ZKL__NAME_MAX];
	unsigned    kind = 0;

	snprintf(whole, sizeof whole, "%s/%s", mail->directory, mail->reply.name);
	while (kind < 1 && strncmp(whole, paths[kind], strlen(paths[kind])) != 0)
		kind++;
	say(client, mail->watcher & 0xffff, "(%s%s %s)", words[kind],
	    strcmp(whole, paths[kind]) == 0 ? "" : short_name(kind, mail->reply.name), what);
}

static void hear(unsigned client, const struct zkl__mail *mail)
{
	struct client *c = &run.clients[client];

	switch (mail->type) {
	case ZKL__MAIL_CONNECTED:
		c->connected = true;
		c->sorts = true;
		meet_session(client, mail->session_id);
		say(client, 0, "CONNECTED %s, %" PRId64 " ms", session_label(mail->session_id),
		    mail->timeout_ns / 1000000);
		break;
	case ZKL__MAIL_DISCONNECTED:
		c->connected = c->falls = false;
		say(client, 0, "DISCONNECTED");
		break;
	case ZKL__MAIL_EXPIRED:
		c->connected = false;
		c->expired = true;
		say(client, 0, "EXPIRED");
		break;
	case ZKL__MAIL_REPLY:
		hear_reply(client, mail);
		break;
	case ZKL__MAIL_GONE:
	case ZKL__MAIL_CHANGED:
		hear_watch(client, mail);
		break;
	default:
		say(client, 0, "mail of type %d", (int)mail->type);
	}
}

static void hear_all(unsigned client)
{
	struct zkl__mail *mail = run.stage->take(client), *next;

	for (; mail; mail = next) {
		next = mail->next;
		hear(client, mail);
		zkl__mail_free(mail);
	}
}

/* ---- until nothing is under way ------------------------------------------------------------------------------------------ */

static bool is_settled(const struct client *c)
{
	return !c->open || (!c->pending && !c->falls && (c->connected || c->kept_away || c->expired));
}

static void wait_settled(void)
{
	bool settled = false;

	while (!settled) {
		settled = true;
		for (unsigned i = 0; i < SCRIPT_CLIENTS; i++) {
			if (run.clients[i].open)
				hear_all(i);
			settled = settled && is_settled(&run.clients[i]);
		}
		if (!settled && !run.stage->pump())
			die("it does not settle", "step");
	}
}

static void send_request(unsigned client, uint64_t party, struct zkl__request *request, enum script_fault fault)
{
	struct client *c = &run.clients[client];

	request->id = ++run.last_id;
	c->pending++;
	c->falls = c->falls || fault != FAULT_NONE;
	run.stage->send(client, party, request, fault);
}

/* A sync on each connection brings all events that came before it. */
static void settle(void)
{
	struct zkl__request sync = {.op = ZKL__SYNC, .directory = paths[0]};

	wait_settled();
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++)
		if (run.clients[i].open && run.clients[i].connected && !run.clients[i].behind)
			send_request(i, HIDDEN, &sync, FAULT_NONE);
	wait_settled();
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void write_down(struct client *c)
{
	unsigned first = 0;

	for (unsigned i = 0; c->sorts && i <= c->lines; i++) {
		if (i < c->lines && strstr(c->said[i], " (") && !strchr(c->said[i], ':'))
			continue;
		qsort(c->said + first, i - first, LINE, by_text);
		first = i + 1;
	}
	c->sorts = false;
	for (unsigned i = 0; i < c->lines; i++)
		put("%s\n", c->said[i]);
	c->lines = 0;
}

/* ---- steps --------------------------------------------------------------------------------------------------------------- */

struct words {
	char    *at[WORDS];
	unsigned count;
};

static bool is(const char *word, const char *wanted)
{
	return word && strcmp(word, wanted) == 0;
}

/* "lock#3": the directory, and the node's name or NULL. */
static unsigned parse_target(const char *word, const char **ret_name)
{
	unsigned    kind = word && strncmp(word, "election", 8) == 0 ? 1 : 0;
	const char *number = word ? strchr(word, '#') : NULL;

	if (!word || strncmp(word, words[kind], strlen(words[kind])) != 0)
		die("no directory", word ? word : "");
	*ret_name = NULL;
	if (number) {
		unsigned long n = strtoul(number + 1, NULL, 10);

		*ret_name = n < NUMBERS ? run.names[kind][n] : "";
		if (!**ret_name)
			die("nobody has heard of it", word);
	}
	return kind;
}

static enum zkl__op parse_op(const char *word)
{
	for (enum zkl__op op = ZKL__CREATE; op <= ZKL__GUARDED; op++)
		if (is(word, zkl__op_name(op)))
			return op;
	die("no such request", word);
}

static void ask(unsigned client, uint64_t party, enum zkl__op op, const char *target, enum script_fault fault)
{
	struct zkl__request request = {.op = op};
	char                data[ZKL__NODE_HEAD_MAX];
	unsigned            kind = parse_target(target, &request.name);

	request.directory = paths[kind];
	request.kind = kind ? ZKL__KIND_ELECTION : ZKL__KIND_LOCK;
	request.uuid = (struct zkl__uuid){client + 1, party << 16};
	request.data = data;
	request.data_len = zkl__node_data_print(data, sizeof data, &(struct zkl__identity){"host", "script", 1}, 0,
	                                        op == ZKL__MARK, NULL, 0);
	send_request(client, (uint64_t)kind << 16 | party, &request, fault);
}

static const char *path_of(char *ret, const char *target)
{
	const char *name;
	unsigned    kind = parse_target(target, &name);

	snprintf(ret, ZKL__DIRECTORY_MAX + ZKL__NAME_MAX, "%s/%s", paths[kind], name ? name : "");
	return ret;
}

/* Data of one contender's node, if another one is there. */
static void ask_guarded(unsigned client, uint64_t party, const char *guard, const char *target, enum script_fault fault)
{
	char                guard_path[ZKL__DIRECTORY_MAX + ZKL__NAME_MAX], path[ZKL__DIRECTORY_MAX + ZKL__NAME_MAX];
	zkl_write           write = {ZKL_WRITE_SET, path_of(path, target), "x", 1, -1};
	struct zkl__request request = {
		.op = ZKL__GUARDED, .directory = path_of(guard_path, guard), .writes = &write, .write_count = 1};

	send_request(client, party, &request, fault);
}

/* Of a session's end. */
static void expect_any_order(void)
{
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++)
		run.clients[i].sorts = true;
}

static void strike(unsigned client, enum script_blow blow)
{
	struct client *c = &run.clients[client];

	if (blow == BLOW_BACK)
		c->kept_away = false;
	else if (blow == BLOW_BEHIND || blow == BLOW_LEVEL)
		c->behind = blow == BLOW_BEHIND;
	else if (blow != BLOW_EXPIRE)
		c->falls = c->connected;
	c->kept_away = c->kept_away || blow == BLOW_AWAY || blow == BLOW_SILENT;
	if (blow == BLOW_EXPIRE)
		expect_any_order();
	run.stage->strike(client, blow);
}

static void open_client(unsigned client, const char *place)
{
	struct client *c = &run.clients[client];

	c->open = true;
	c->connected = c->expired = c->falls = c->kept_away = c->behind = false;
	c->pending = 0;
	run.stage->open(client, is(place, "follower") ? AT_FOLLOWER : is(place, "leader") ? AT_LEADER : ANYWHERE);
}

static void close_client(unsigned client)
{
	expect_any_order();
	run.stage->close(client);
	hear_all(client);
	run.clients[client].open = false;
}

static enum script_fault parse_fault(const char *word)
{
	static const char *const faults[] = {"request-lost", "reply-lost", "held"};

	for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
		if (is(word, faults[i]))
			return FAULT_NONE + 1 + i;
	return FAULT_NONE;
}

static void of_client(const struct words *w)
{
	static const char *const blows[] = {"cut", "away", "silent", "back", "expire", "behind", "level"};
	unsigned                 client = (unsigned)(w->at[0][0] - 'A');
	uint64_t                 party = w->at[0][1] == '.' ? strtoul(w->at[0] + 2, NULL, 10) : 1;

	if (client >= SCRIPT_CLIENTS || w->count < 2)
		die("no client", w->at[0]);
	/* What different clients send overtakes each other. */
	if (client != run.acting)
		wait_settled();
	run.acting = client;
	for (unsigned i = 0; i < sizeof blows / sizeof *blows; i++)
		if (is(w->at[1], blows[i])) {
			strike(client, (enum script_blow)i);
			return;
		}
	if (is(w->at[1], "open"))
		open_client(client, w->at[2]);
	else if (is(w->at[1], "close"))
		close_client(client);
	else if (parse_op(w->at[1]) == ZKL__GUARDED)
		ask_guarded(client, party, w->at[2], w->at[3], parse_fault(w->at[4]));
	else
		ask(client, party, parse_op(w->at[1]), w->at[2], parse_fault(w->at[3]));
}

static void of_operator(const struct words *w)
{
	static const char *const deeds[] = {"delete", "write", "child", "unmake", "foreign", "junk"};
	const char              *name;
	unsigned                 kind = parse_target(w->at[2], &name), deed = 0;

	while (deed < OPERATOR_JUNK && !is(w->at[1], deeds[deed]))
		deed++;
	put("operator: %d\n", run.stage->operate((enum script_deed)deed, paths[kind], name));
}

static void do_part(const struct words *w)
{
	if (!w->count)
		die("empty", "step");
	if (is(w->at[0], "operator"))
		of_operator(w);
	else
		of_client(w);
}

static void do_step(char *text)
{
	struct words w = {.count = 0};
	char        *rest = NULL;

	for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
		if (is(word, "+")) {
			do_part(&w);
			memset(&w, 0, sizeof w);
		} else if (w.count < WORDS - 1) {
			w.at[w.count++] = word;
		}
	}
	do_part(&w);
	settle();
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++)
		write_down(&run.clients[i]);
}

/* ---- transaction numbers in their order ---------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return left < right ? -1 : left > right;
}

static void number_transactions(char *ret)
{
	int64_t zxids[ZXIDS] = {0};
	size_t  count = 0, distinct = 0;
	char   *at = run.text;

	while ((at = strchr(at, MARK)) && count < ZXIDS) {
		zxids[count++] = strtoll(at + 1, &at, 10);
		at++;
	}
	qsort(zxids, count, sizeof *zxids, by_number);
	for (size_t i = 0; i < count; i++)
		if (!distinct || zxids[distinct - 1] != zxids[i])
			zxids[distinct++] = zxids[i];
	at = run.text;
	while (*at) {
		if (*at != MARK) {
			*ret++ = *at++;
			continue;
		}
		int64_t  zxid = strtoll(at + 1, &at, 10);
		int64_t *found = bsearch(&zxid, zxids, distinct, sizeof *zxids, by_number);

		at++;
		ret += sprintf(ret, "z%d", found ? (int)(found - zxids) + 1 : 0);
	}
	*ret = 0;
}

/* ---- a whole script ------------------------------------------------------------------------------------------------------ */

static char *read_file(const char *path)
{
	static char text[TEXT];
	FILE       *file = fopen(path, "r");
	size_t      length = file ? fread(text, 1, sizeof text - 1, file) : 0;

	if (!file)
		die("cannot be read", path);
	fclose(file);
	text[length] = 0;
	return text;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		die("cannot be written", path);
}

static int compare(const char *path, const char *wanted, const char *got)
{
	size_t same = 0;

	for (size_t i = 0; wanted[i] && wanted[i] == got[i]; i++)
		same = got[i] == '\n' ? i + 1 : same;
	if (strcmp(wanted, got) == 0)
		return 0;
	if (getenv("ZKLOCK_TEST_WRITE_SCRIPTS")) {
		write_file(path, got);
		return 0;
	}
	fprintf(stderr, "%s: in place of\n%.*s\nthere is\n%s", path, (int)strcspn(wanted + same, "\n"), wanted + same,
	        got + same);
	return 1;
}

int script_run(const char *path, const struct stage *stage)
{
	static char got[TEXT];
	const char *script = read_file(path);
	char        line[LINE];

	memset(&run, 0, sizeof run);
	run.stage = stage;
	stage->begin();
	for (const char *at = script; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
		if (strncmp(line, "> ", 2) == 0) {
			put("%s\n", line);
			do_step(line + 2);
		} else if (*line == '#' || !*line) {
			put("%s\n", line);
		}
	}
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++)
		if (run.clients[i].open)
			close_client(i);
	stage->end();
	number_transactions(got);
	return compare(path, script, got);
}
