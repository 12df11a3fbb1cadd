/* SPDX-License-Identifier: Apache-2.0 */
/* The hub and the driver on a world that is made up: a scripted clock, a log of requests, and events that are delivered when
 * the test asks what was told.
 *
 *     start(a, 5000);  sent("create, list");     what was sent since the last look
 *     answer("create ok ours#5");                 the oldest request of that kind that has no answer
 *     told("GRANTED 9000");                       the events, with what is left of the lease in ms
 *     run_to(9000);  told("LOST");                timers on the way go off at their time
 *
 * T is 24 s: a single proof is worth 9 s, a heartbeat is due each 2 s until the first pair, then each 4 s. Requests of the
 * handles b and c have "b:" and "c:" before them. */
#include "check.h"

#include <stdarg.h>
#include <stdatomic.h>

#include <zklock/zklock.h>

#include "driver.h"
#include "words.h"

#define MS       INT64_C(1000000)
#define T_NS     (24000 * MS)
#define HANDLES  4
#define REQUESTS 64
#define GRAMMAR  64 /* attempts whose events are followed, the oldest are forgotten */

struct pending {
	uint64_t         party;
	enum zkl__op     op;
	uint32_t         id;
	struct zkl__uuid uuid;
	int64_t          sent_ns;
	char             name[ZKL__NAME_MAX];
	char             whose;
	enum zkl__kind   kind;
};

static struct {
	struct zkl__hub     hub;
	int64_t             now, creep; /* creep: how far each look at the clock moves it on */
	struct zkl__handle  handle[HANDLES];
	bool                used[HANDLES];
	struct pending      pending[REQUESTS];
	unsigned            pending_count;
	char                sent[2000], told[2000], beats[2000], logged[2000], data[2000];
	struct zkl__source *ready[REQUESTS];
	unsigned            ready_count, wakes, rearms;
	struct words        words;
	int64_t             session_id;
	bool                answer_beats; /* at once, with a good result */
	struct {
		uint64_t       party;
		zkl_event_type newest;
	} grammar[GRAMMAR];     /* the newest event of each attempt */
	zkl_grant grant;        /* of the newest event that had one */
	char      message[300]; /* of the newest event's error */
} w;

enum { a, b, c };

__attribute__((format(printf, 2, 3))) static void note(char text[2000], const char *format, ...)
{
	size_t  length = strlen(text);
	va_list args;

	if (length)
		length += (size_t)snprintf(text + length, 2000 - length, ", ");
	if (length >= 2000)
		return;
	va_start(args, format);
	vsnprintf(text + length, 2000 - length, format, args);
	va_end(args);
}

/* ---- the world ------------------------------------------------------------------------------------------------------------ */

static int64_t now_ms(void)
{
	return (w.now - 1000000 * MS) / MS;
}

static int64_t world_now(void *world)
{
	(void)world;
	return w.now += w.creep;
}

static int64_t world_wall(void *world)
{
	(void)world;
	return 1767225600000;
}

static struct zkl__uuid world_uuid(void *world)
{
	static uint64_t count;

	(void)world;
	return (struct zkl__uuid){0x1111111111114111, 0x8000000000000000 + (++count << 16)};
}

static char whose(uint64_t party)
{
	for (int i = 0; i < HANDLES; i++)
		for (struct zkl__attempt *x = w.used[i] ? w.handle[i].attempts : NULL; x; x = x->sibling)
			if (x->party.id == party)
				return (char)('a' + i);
	return '-';
}

static void world_send(void *world, uint64_t party, const struct zkl__request *request)
{
	struct pending *p = &w.pending[w.pending_count++];
	char            prefix[4] = "x:";

	(void)world;
	if (w.pending_count == REQUESTS) {
		FAIL("more requests than the test has room for");
		w.pending_count--;
	}
	*p = (struct pending){party, request->op, request->id, request->uuid, w.now, "", whose(party), request->kind};
	snprintf(p->name, sizeof p->name, "%s", request->name ? request->name : "");
	prefix[0] = p->whose;
	if (p->whose == 'a')
		prefix[0] = 0;
	if (request->op == ZKL__PROVE) {
		note(w.beats, "%" PRId64, now_ms());
		note(w.sent, "%sprove #%" PRId64, prefix, zkl__queue_sequence(request->name));
	} else if (request->name) {
		note(w.sent, "%s%s #%" PRId64, prefix, zkl__op_name(request->op), zkl__queue_sequence(request->name));
	} else {
		note(w.sent, "%s%s", prefix, zkl__op_name(request->op));
	}
	if (request->data)
		snprintf(w.data, sizeof w.data, "%.*s", (int)request->data_len, request->data);
}

static void world_wake(void *world)
{
	(void)world;
	w.wakes++;
}

static void world_rearm(void *world)
{
	(void)world;
	w.rearms++;
}

static void world_absolute(void *world, const char *directory, const char *name, char *ret, size_t size)
{
	(void)world;
	snprintf(ret, size, "/chroot%s/%s", directory, name);
}

static void world_ready(void *world, struct zkl__source *source)
{
	(void)world;
	if (source->queued || !source->type->has_event(source) || w.ready_count == REQUESTS)
		return;
	source->queued = true;
	source->type->hold(source);
	w.ready[w.ready_count++] = source;
}

static void world_log(void *world, int level, const char *id, const char *text, const char *subject)
{
	(void)world;
	(void)text;
	(void)subject;
	CHECK(level >= 3 && level <= 7);
	note(w.logged, "%s", id);
}

static const struct zkl__port port = {.now_ns = world_now,
                                      .wall_ms = world_wall,
                                      .uuid = world_uuid,
                                      .send = world_send,
                                      .wake = world_wake,
                                      .rearm = world_rearm,
                                      .absolute = world_absolute,
                                      .ready = world_ready,
                                      .log = world_log};

/* ---- what the test does ------------------------------------------------------------------------------------------------------ */

static void on_event(const zkl_event *ev, void *user)
{
	static const char *const names[] = {"?", "WAITING", "GRANTED", "SUSPENDED", "RESUMED", "LOST", "ENDED"};
	char                     prefix[4] = "x:";

	prefix[0] = (char)('a' + (struct zkl__handle *)user - w.handle);
	if (prefix[0] == 'a')
		prefix[0] = 0;
	if (ev->type == ZKL_EV_WAITING)
		note(w.told, ev->requeued ? "%sWAITING %u again %u" : "%sWAITING %u", prefix, ev->ahead, ev->requeued);
	else if (ev->type == ZKL_EV_LOST || ev->type == ZKL_EV_ENDED)
		note(w.told, ev->code ? "%s%s %s" : "%s%s", prefix, names[ev->type], zkl_error_name(ev->code) + 4);
	else
		note(w.told, "%s%s %" PRId64, prefix, names[ev->type], ev->lease_ms);
	CHECK(!ev->error == !ev->code);
	if (ev->grant)
		w.grant = *ev->grant;
	if (ev->error)
		snprintf(w.message, sizeof w.message, "%s", ev->error->message);
	CHECK((ev->grant != NULL) || ev->type == ZKL_EV_WAITING || ev->type == ZKL_EV_ENDED);
}

static bool begin_handle(int i, int64_t stop_ms, unsigned flags)
{
	zkl_options options = ZKL_OPTIONS_INIT;

	options.on_event = on_event;
	options.user = &w.handle[i];
	options.stop_ms = stop_ms;
	options.flags = flags;
	w.used[i] = true;
	return CHECK_INT(zkl__handle_init(&w.handle[i], &zkl__lock_type, &w.hub, "/locks/job", &options, NULL), 0);
}

static void end_handle(int i)
{
	w.used[i] = false;
	zkl__handle_close(&w.handle[i]);
	zkl__handle_clear(&w.handle[i]);
}

/* One handle, no link. */
static void begin_apart(void)
{
	memset(&w, 0, sizeof w);
	w.now = 1000000 * MS;
	w.session_id = 77;
	zkl__hub_init(&w.hub, &port, &w);
	w.hub.op_ns = 12000 * MS;
	w.hub.timeout_asked_ns = T_NS;
	snprintf(w.hub.identity.host, sizeof w.hub.identity.host, "web1");
	snprintf(w.hub.identity.program, sizeof w.hub.identity.program, "backup");
	begin_handle(a, 0, 0);
}

static void link_up(void)
{
	zkl__hub_link_up(&w.hub, w.session_id, T_NS);
}

static void link_down(void)
{
	zkl__hub_link_down(&w.hub);
}

static void begin(void)
{
	begin_apart();
	link_up();
}

static void fill_reply(struct zkl__reply *reply, const struct pending *p, const char *text)
{
	char words[300];

	memset(reply, 0, sizeof *reply);
	reply->op = p->op;
	reply->id = p->id;
	reply->sent_ns = p->sent_ns;
	reply->replied_ns = w.now;
	reply->owner = w.session_id;
	snprintf(reply->name, sizeof reply->name, "%s", p->name);
	snprintf(words, sizeof words, "%s", text);
	w.words.kind = p->kind;
	words_reply(&w.words, reply, p->uuid, words);
}

static void reply_to(unsigned i, const char *text)
{
	struct pending    p = w.pending[i];
	struct zkl__reply reply;

	memmove(&w.pending[i], &w.pending[i + 1], (--w.pending_count - i) * sizeof p);
	fill_reply(&reply, &p, text);
	zkl__hub_reply(&w.hub, p.party, &reply);
}

static void answer_at(const char *text, const char *file, int line)
{
	char   op[20], who = 'a';
	size_t length;

	if (text[1] == ':') {
		who = text[0];
		text += 2;
	}
	length = strcspn(text, " ");
	snprintf(op, sizeof op, "%.*s", (int)length, text);
	for (unsigned i = 0; i < w.pending_count; i++) {
		if ((w.pending[i].whose == who || w.pending[i].whose == '-') && w.pending[i].op == words_op(op)) {
			reply_to(i, text + length);
			return;
		}
	}
	check_that(false, text, file, line);
}

#define answer(text) answer_at(text, __FILE__, __LINE__)

/* All that is under way fails, as it does when a connection breaks. */
static void lose_requests(void)
{
	CHECK(!w.hub.link || !w.pending_count);
	while (w.pending_count)
		reply_to(0, "unknown");
}

static void forget_requests(void)
{
	w.pending_count = 0;
}

static void watch_event(bool gone, const char *word, int whose_event)
{
	char name[WORDS_NAME];

	words_name(&w.words, name, word, (struct zkl__uuid){0, 0});
	zkl__hub_watch(&w.hub, zkl__watcher(w.handle[whose_event].attempt->party.id), gone, w.handle[whose_event].path,
	               name);
}

static void gone(const char *word)
{
	watch_event(true, word, a);
}

static void answer_beats(void)
{
	for (unsigned i = 0; w.answer_beats && i < w.pending_count; i++)
		if (w.pending[i].op == ZKL__PROVE)
			reply_to(i--, "ok");
}

static void run_to(int64_t ms)
{
	int64_t target = (1000000 + ms) * MS;

	answer_beats();
	for (int turns = 0; zkl__hub_next_ns(&w.hub) <= target || atomic_load(&w.hub.latched); turns++) {
		if (turns == 10000) {
			FAIL("the timer is due at once, again and again");
			break;
		}
		if (zkl__hub_next_ns(&w.hub) > w.now && !atomic_load(&w.hub.latched))
			w.now = zkl__hub_next_ns(&w.hub);
		zkl__hub_timer(&w.hub);
		answer_beats();
	}
	w.now = target > w.now ? target : w.now;
}

/* WAITING* [GRANTED (SUSPENDED RESUMED)* [SUSPENDED] [LOST]] ENDED */
static void check_grammar(uint64_t party, zkl_event_type type)
{
	static const char *const may_follow[] = {[0] = "WGE",
	                                         [ZKL_EV_WAITING] = "WGE",
	                                         [ZKL_EV_GRANTED] = "SLE",
	                                         [ZKL_EV_SUSPENDED] = "RLE",
	                                         [ZKL_EV_RESUMED] = "SLE",
	                                         [ZKL_EV_LOST] = "E",
	                                         [ZKL_EV_ENDED] = ""};
	static const char        letters[] = "?WGSRLE";
	unsigned                 i = 0;

	while (i < GRAMMAR - 1 && w.grammar[i].party != party)
		i++;
	if (w.grammar[i].party != party) {
		memmove(w.grammar + 1, w.grammar, (GRAMMAR - 1) * sizeof *w.grammar);
		i = 0;
		w.grammar[0].party = party;
		w.grammar[0].newest = 0;
	}
	if (!strchr(may_follow[w.grammar[i].newest], letters[type]))
		FAIL("%c after %c", letters[type], letters[w.grammar[i].newest]);
	w.grammar[i].newest = type;
}

static void deliver(void)
{
	struct zkl__delivery delivery;

	while (w.ready_count) {
		struct zkl__source        *source = w.ready[0];
		const struct zkl__attempt *attempt = zkl__attempt_of(source);

		w.ready_count--;
		for (unsigned i = 0; i < w.ready_count; i++)
			w.ready[i] = w.ready[i + 1];
		source->queued = false;
		while (source->type->next_event(source, &delivery)) {
			check_grammar(attempt->party.id, delivery.event.type);
			delivery.on_event(&delivery.event, delivery.user);
		}
		source->type->drop(source);
	}
}

static void told_at(const char *expected, const char *file, int line)
{
	deliver();
	check_str(w.told, expected, "told", file, line);
	w.told[0] = 0;
}

#define told(expected) told_at(expected, __FILE__, __LINE__)

static void text_at(char text[2000], const char *what, const char *expected, const char *file, int line)
{
	check_str(text, expected, what, file, line);
	text[0] = 0;
}

#define sent(expected)   text_at(w.sent, "sent", expected, __FILE__, __LINE__)
#define beats(expected)  text_at(w.beats, "beats", expected, __FILE__, __LINE__)
#define logged(expected) text_at(w.logged, "logged", expected, __FILE__, __LINE__)

static int start(int i, int64_t timeout_ms)
{
	return zkl__handle_start(&w.handle[i], timeout_ms, NULL);
}

static int release(int i)
{
	return zkl__handle_release(&w.handle[i]);
}

static int64_t check(int i)
{
	return zkl__handle_check(&w.handle[i], w.grant.token);
}

/* Ends the session, so that every attempt is done, and sees that nothing is left. */
static void finish(void)
{
	zkl__hub_close(&w.hub);
	zkl__hub_expired(&w.hub);
	deliver();
	CHECK(!w.hub.first);
	CHECK_INT(w.hub.wanting, 0);
	for (int i = 0; i < HANDLES; i++) {
		if (!w.used[i])
			continue;
		CHECK(!w.handle[i].attempts && !w.handle[i].attempt);
		end_handle(i);
	}
	CHECK_INT(w.hub.watched.bytes, 0);
	zkl__hub_clear(&w.hub);
}

/* a holds the free lock, granted at 0 by a create that was sent then. */
static void begin_held(void)
{
	begin();
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	answer("create ok ours#5");
	answer("list #5");
	told("GRANTED 9000");
	sent("create, list");
}

/* a waits behind #3, the lowest; both watches are in force, and the first heartbeat was sent and answered at 0. */
static void begin_next(void)
{
	begin();
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	answer("create ok ours#5");
	answer("list #3 #5");
	answer("watch ok");
	answer("watch ok");
	told("WAITING 1");
	sent("create, list, watch #5, watch #3");
}

/* ---- events -------------------------------------------------------------------------------------------------------------------- */

static void free_lock_is_granted_and_released(void)
{
	begin_held();
	CHECK_INT(w.grant.token, 1005);
	CHECK_INT(w.grant.epoch, 5);
	CHECK_INT(w.grant.session_id, 77);
	CHECK_INT(w.grant.zxid, 1000 + INT64_C(4294967296));
	CHECK(strncmp(w.grant.node, "/chroot/locks/job/_c_11111111-1111-4111-8", 40) == 0);
	CHECK(strcmp(w.grant.node + strlen(w.grant.node) - 16, "-lock-0000000005") == 0);
	CHECK_INT(check(a), 9000);
	CHECK_INT(release(a), 0);
	sent("delete #5");
	told("");
	CHECK_INT(check(a), ZKL_ENOTHELD);
	answer("delete ok");
	told("ENDED");
	CHECK_INT(w.hub.counters.granted, 1);
	CHECK_INT(w.hub.counters.released, 1);
	CHECK_INT(w.hub.counters.lost, 0);
	finish();
}

static void node_says_who_we_are_since_when_and_with_what(void)
{
	zkl_options options = ZKL_OPTIONS_INIT;

	begin();
	end_handle(a);
	options.data = "mark=lowest\nmine";
	options.data_len = 16;
	w.used[a] = true;
	CHECK_INT(zkl__handle_init(&w.handle[a], &zkl__lock_type, &w.hub, "/locks/job", &options, NULL), 0);
	CHECK_INT(start(a, 1000), 0);
	CHECK_STR(w.data, "zklock 1\nid=web1:0 backup\nhost=web1\npid=0\nprogram=backup\nsince=1767225600000\n\n"
	                  "mark=lowest\nmine");
	finish();
}

static void mark_is_the_same_data_with_the_mark(void)
{
	begin_next();
	gone("#3");
	told("GRANTED 9000");
	run_to(1);
	sent("mark #5");
	CHECK_STR(w.data, "zklock 1\nid=web1:0 backup\nhost=web1\npid=0\nprogram=backup\nsince=1767225600000\n"
	                  "mark=lowest\n\n");
	finish();
}

static void waiting_is_told_as_it_changes_and_only_the_newest_of_it(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #2 #3 #4 #5");
	told("WAITING 3");
	answer("watch ok");
	answer("watch-mark ok");
	gone("#4");
	answer("list #2 #3 #5");
	answer("watch-mark ok");
	gone("#3");
	answer("list #2 #5");
	told("WAITING 1");
	answer("watch ok");
	gone("#2");
	told("GRANTED 9000");
	CHECK_INT(release(a), 0);
	answer("delete ok");
	told("ENDED");
	finish();
}

static void waiter_of_an_expired_session_is_told_that_it_queues_again(void)
{
	begin_next();
	zkl__hub_expired(&w.hub);
	forget_requests();
	told("");
	logged("requeued");
	w.session_id = 78;
	link_up();
	sent("create, list");
	answer("create ok ours#7");
	answer("list #3 #7");
	told("WAITING 1 again 1");
	finish();
}

static void no_requeue_ends_with_lost(void)
{
	begin();
	begin_handle(b, 0, ZKL_NO_REQUEUE);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#5");
	answer("b:list #3 #5");
	told("b:WAITING 1");
	zkl__hub_expired(&w.hub);
	told("b:ENDED ELOST");
	CHECK(!w.handle[b].attempt);
	finish();
}

static void failure_is_told_once_while_the_node_is_still_being_deleted(void)
{
	begin();
	start(a, 0);
	answer("sync ok");
	answer("list ok");
	answer("create ok ours#5");
	answer("list #4 #5");
	told("ENDED EBUSY");
	CHECK_STR(w.message, "/locks/job is held by another");
	sent("sync, list, create, list, delete #5");
	/* the handle is free again, its old node on its way out */
	CHECK_INT(start(a, 1000), 0);
	sent("create, list");
	answer("delete ok");
	told("");
	finish();
}

static void node_that_may_not_be_deleted_is_logged_and_told(void)
{
	begin_held();
	CHECK_INT(release(a), 0);
	answer("delete denied");
	told("ENDED EACCES");
	logged("not-deleted");
	finish();
}

static void no_event_without_a_callback(void)
{
	begin();
	end_handle(a);
	w.used[a] = true;
	CHECK_INT(zkl__handle_init(&w.handle[a], &zkl__lock_type, &w.hub, "/locks/job", NULL, NULL), 0);
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	CHECK_INT(w.ready_count, 0);
	CHECK(zkl__attempt_settled(w.handle[a].attempt));
	CHECK(zkl__attempt_accept(w.handle[a].attempt));
	finish();
}

/* ---- granted, and lost before it was told ------------------------------------------------------------------------------------------ */

static void grant_that_is_over_before_it_is_told_ends_lost_and_deletes(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	run_to(9000);
	told("ENDED ELOST");
	CHECK_STR(w.message, "/locks/job was lost before its grant could be told");
	CHECK(strstr(w.sent, "delete #5"));
	CHECK(!w.handle[a].attempt);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), ZKL_ENOTHELD);
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	finish();
}

/* The events thread looks at the clock itself: the protocol's timer may be late. */
static void grant_is_not_told_after_its_deadline_though_the_timer_is_late(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	w.now += 9001 * MS;
	told("ENDED ELOST");
	CHECK(strstr(w.sent, "delete #5"));
	finish();
}

static void node_gone_before_the_grant_is_told_ends_lost(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	gone("#5");
	told("ENDED ELOST");
	finish();
}

static void accept_takes_a_live_grant_only(void)
{
	struct zkl__attempt *attempt;

	begin();
	start(a, ZKL_FOREVER);
	attempt = w.handle[a].attempt;
	zkl__attempt_hold(attempt);
	CHECK(!zkl__attempt_settled(attempt));
	answer("create ok ours#5");
	answer("list #5");
	CHECK(zkl__attempt_settled(attempt));
	w.now += 9000 * MS;
	CHECK(!zkl__attempt_accept(attempt));
	CHECK_INT(zkl__attempt_error(attempt, NULL), ZKL_ELOST);
	CHECK(!w.handle[a].attempt);
	told("ENDED ELOST");
	zkl__attempt_drop(attempt);
	finish();
}

/* Between two looks at the clock the last millisecond can pass. Whoever is told nothing must be told the end. */
static void grant_that_ends_while_it_is_being_told_is_told_or_ended(void)
{
	for (int64_t creep = 1; creep < 1000; creep++) {
		begin();
		start(a, ZKL_FOREVER);
		answer("create ok ours#5");
		answer("list #5");
		w.now += 8998 * MS;
		w.creep = creep * MS / 300;
		deliver();
		w.creep = 0;
		run_to(9100);
		deliver();
		if (strstr(w.told, "GRANTED") ? !strstr(w.told, "LOST ELOST") : strcmp(w.told, "ENDED ELOST") != 0) {
			FAIL("with %" PRId64 " us between two looks: \"%.200s\"", creep * 1000 / 300, w.told);
			creep = 1000;
		}
		finish();
	}
}

static void lost_grant_that_was_accepted_by_a_call_is_told_to_its_callback(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	CHECK(zkl__attempt_accept(
		w.handle[a].attempt)); /* zkl_lock_acquire() returned; the events are still on their way */
	run_to(9000);
	deliver();
	CHECK(strstr(w.told, "GRANTED") && strstr(w.told, "LOST ELOST"));
	CHECK_INT(release(a), ZKL_ENOTHELD);
	finish();
}

/* ---- timeouts ------------------------------------------------------------------------------------------------------------------------ */

static void queued_in_vain_times_out_and_leaves(void)
{
	begin();
	start(a, 5000);
	answer("create ok ours#5");
	answer("list #3 #5");
	answer("watch ok");
	answer("watch ok");
	w.answer_beats = true;
	run_to(4999);
	told("WAITING 1");
	run_to(5000);
	told("ENDED ETIMEDOUT");
	CHECK_STR(w.message, "/locks/job is held by another: still queued at the timeout");
	CHECK(strstr(w.sent, "delete #5"));
	answer("delete ok");
	told("");
	finish();
}

static void no_server_until_the_timeout_is_not_connected(void)
{
	begin_apart();
	start(a, 5000);
	run_to(4999);
	told("");
	run_to(5000);
	told("ENDED ENOTCONN");
	CHECK_STR(w.message, "/locks/job cannot be had: no server of the ensemble answered in time");
	sent("");
	finish();
}

static void link_that_breaks_after_queueing_times_out(void)
{
	begin_next();
	end_handle(a);
	finish();
	begin();
	start(a, 5000);
	answer("create ok ours#5");
	answer("list #3 #5");
	link_down();
	lose_requests();
	run_to(5000);
	told("WAITING 1, ENDED ETIMEDOUT");
	sent("create, list, watch #5, watch #3");
	link_up();
	sent("delete #5");
	finish();
}

static void try_gives_up_after_its_patience(void)
{
	begin_apart();
	start(a, 0);
	run_to(11999);
	told("");
	run_to(12000);
	told("ENDED ENOTCONN");
	finish();
	begin();
	start(a, 0);
	run_to(12000); /* connected, but no answer */
	told("ENDED ENOTCONN");
	finish();
}

static void forever_never_times_out(void)
{
	begin_apart();
	start(a, ZKL_FOREVER);
	CHECK_INT(zkl__hub_next_ns(&w.hub), ZKL__NEVER);
	finish();
	begin_apart();
	start(a, INT64_MAX - 1);
	CHECK_INT(zkl__hub_next_ns(&w.hub), ZKL__NEVER);
	finish();
}

static void timeout_does_not_end_what_is_granted(void)
{
	begin();
	start(a, 5000);
	answer("create ok ours#5");
	answer("list #5");
	w.answer_beats = true;
	run_to(6000);
	told("GRANTED 9000");
	finish();
}

static void negative_timeout_is_refused(void)
{
	zkl_error error;

	begin();
	CHECK_INT(zkl__handle_start(&w.handle[a], -2, &error), ZKL_EINVAL);
	CHECK_STR(error.message, "timeout is -2 ms: 0 is a try, ZKL_FOREVER no limit");
	finish();
}

/* ---- one attempt at a time, cancel, release ------------------------------------------------------------------------------------------- */

static void second_start_is_refused_until_the_release(void)
{
	zkl_error error;

	begin();
	start(a, ZKL_FOREVER);
	CHECK_INT(zkl__handle_start(&w.handle[a], 1000, &error), ZKL_ESTATE);
	CHECK_STR(error.message, "/locks/job: an attempt is under way or a grant held, release it first");
	answer("create ok ours#5");
	answer("list #5");
	told("GRANTED 9000");
	CHECK_INT(start(a, 1000), ZKL_ESTATE);
	run_to(9000);
	told("LOST ELOST");
	CHECK_INT(zkl__handle_start(&w.handle[a], 1000, &error), ZKL_ESTATE);
	CHECK_STR(error.message, "/locks/job: a lost grant is not released yet, release it first");
	CHECK_INT(release(a), ZKL_ENOTHELD);
	CHECK_INT(start(a, 1000), 0);
	finish();
}

static void release_while_waiting_cancels(void)
{
	begin_next();
	CHECK_INT(release(a), 0);
	told("ENDED ECANCELED");
	sent("delete #5");
	CHECK_INT(release(a), ZKL_ENOTHELD);
	CHECK_INT(w.hub.counters.not_held, 1);
	finish();
}

static void restart_may_follow_release_at_once(void)
{
	begin_held();
	CHECK_INT(release(a), 0);
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	sent("delete #5, create, list");
	answer("delete ok");
	answer("create ok ours#6");
	answer("list #6");
	told("ENDED, GRANTED 9000");
	CHECK_INT(w.grant.epoch, 6);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1006), 9000);
	finish();
}

static void restart_before_the_link_is_back_leaves_one_node(void)
{
	begin_held();
	link_down();
	CHECK_INT(release(a), 0);
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	sent("");
	link_up();
	sent("delete #5, create, list");
	finish();
}

static void refusal_ends_what_waits_and_keeps_what_is_held(void)
{
	zkl_error error;

	begin_held();
	begin_handle(b, 0, 0);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#6");
	answer("b:list #5 #6");
	told("b:WAITING 1");
	zkl__hub_refuse(&w.hub, ZKL_ECANCELED);
	told("b:ENDED ECANCELED");
	CHECK_STR(w.message, "/locks/job is not waited for any more: the session was cancelled");
	CHECK_INT(check(a), 9000);
	CHECK_INT(zkl__handle_start(&w.handle[b], 1000, &error), ZKL_ECANCELED);
	CHECK_INT(release(a), 0);
	CHECK_INT(start(a, 1000), ZKL_ECANCELED);
	finish();
}

static void refused_credentials_end_every_attempt(void)
{
	begin_next();
	zkl__hub_refuse(&w.hub, ZKL_EACCES);
	told("ENDED EACCES");
	CHECK_STR(w.message, "/locks/job cannot be had: the servers refused the session's auth");
	CHECK_INT(start(a, 1000), ZKL_EACCES);
	finish();
}

static void closing_releases_what_is_held_and_ends_what_waits(void)
{
	begin_held();
	begin_handle(b, 0, 0);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#6");
	answer("b:list #5 #6");
	told("b:WAITING 1");
	sent("b:create, b:list, b:watch #6, b:watch #5");
	zkl__hub_close(&w.hub);
	sent("delete #5, b:delete #6");
	CHECK_INT(start(a, 1000), ZKL_ESTATE);
	answer("delete ok");
	CHECK(w.hub.first);
	answer("b:delete ok");
	CHECK(!w.hub.first);
	told("b:ENDED ESTATE, ENDED");
	finish();
}

/* ---- heartbeats ---------------------------------------------------------------------------------------------------------------------- */

static void heartbeats_are_quick_until_the_first_pair_then_steady(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(30000);
	beats("2000, 4000, 6000, 8000, 12000, 16000, 20000, 24000, 28000");
	told("");
	CHECK_INT(check(a), 28000 + 15000 - 30000);
	finish();
}

/* When the one at 28500 is sent the next one is not needed before 32500; its answer shows that the newest pair is too old. */
static void heartbeats_become_quick_with_the_answer_that_shows_the_need(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(16000);
	CHECK_INT(release(a), 0);
	answer("delete ok");
	told("ENDED");
	w.beats[0] = 0;
	run_to(24500);
	start(a, ZKL_FOREVER);
	answer("create ok ours#6");
	answer("list #6");
	told("GRANTED 14500");
	run_to(38000);
	beats("28500, 30500, 32500, 36500");
	finish();
}

static void heartbeats_stop_after_the_release(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(3000);
	beats("2000");
	CHECK_INT(release(a), 0);
	run_to(40000);
	beats("");
	finish();
}

static void acquire_after_a_long_pause_is_granted_by_its_create_alone(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(20000);
	CHECK_INT(release(a), 0);
	answer("delete ok");
	told("ENDED");
	w.beats[0] = 0;
	run_to(100000);
	beats("");
	start(a, ZKL_FOREVER);
	answer("create ok ours#6");
	answer("list #6");
	told("GRANTED 9000");
	finish();
}

static void acquire_right_after_a_stall_waits_for_a_pair(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(20000);
	w.now += 16000 * MS; /* nothing ran, not even the client's pings */
	CHECK_INT(release(a), ZKL_ENOTHELD);
	start(a, ZKL_FOREVER);
	answer("delete ok");
	answer("create ok ours#6");
	answer("list #6");
	/* The pair with the heartbeat at 20000 makes a lease until 43000, which no proof could extend before that. */
	told("LOST ELOST, ENDED ELOST");
	run_to(42999);
	told("");
	run_to(43000);
	told("GRANTED 15000");
	run_to(80000);
	told("");
	finish();
}

/* Less of a stall: the same pair lasts until the next one. */
static void acquire_after_a_short_stall_is_granted_at_once(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(20000);
	CHECK_INT(release(a), 0);
	w.now += 12000 * MS;
	start(a, ZKL_FOREVER);
	answer("delete ok");
	answer("create ok ours#6");
	answer("list #6");
	told("ENDED, GRANTED 11000");
	run_to(60000);
	told("");
	finish();
}

static void nobody_who_wants_the_lease_means_no_heartbeat(void)
{
	begin();
	start(a, 60000);
	answer("create ok ours#5");
	answer("list #3 #4 #5");
	answer("watch ok");
	answer("watch-mark ok");
	run_to(60000); /* also when a timer goes off */
	beats("");
	told("WAITING 2, ENDED ETIMEDOUT");
	finish();
}

static void heartbeats_begin_when_we_become_next(void)
{
	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #3 #4 #5");
	answer("watch ok");
	answer("watch-mark ok");
	w.answer_beats = true;
	run_to(60000);
	watch_event(false, "#4", a);
	answer("watch-mark ok marked");
	run_to(61000);
	beats("60000");
	gone("#4");
	told("GRANTED 8000");
	finish();
}

static void heartbeats_of_many_locks_are_one(void)
{
	begin_held();
	w.answer_beats = true;
	begin_handle(b, 0, 0);
	begin_handle(c, 0, 0);
	start(b, ZKL_FOREVER);
	start(c, ZKL_FOREVER);
	answer("b:create ok ours#6");
	answer("b:list #6");
	answer("c:create ok ours#7");
	answer("c:list #7");
	run_to(13000);
	beats("2000, 4000, 6000, 8000, 12000");
	told("b:GRANTED 14000, c:GRANTED 14000");
	w.sent[0] = 0;
	CHECK_INT(release(a), 0); /* another's node is proven with from now on */
	run_to(17000);
	beats("16000");
	sent("delete #5, b:prove #6");
	finish();
}

static void heartbeat_comes_first_when_the_link_is_back(void)
{
	begin_held();
	link_down();
	lose_requests();
	run_to(1000);
	w.sent[0] = 0;
	link_up();
	sent("prove #5, watch #5");
	finish();
}

static void heartbeat_without_an_answer_is_repeated_and_not_in_a_loop(void)
{
	begin_held();
	run_to(8999);
	/* at 2000 for the first time, then each 2000, though none is answered */
	beats("2000, 4000, 6000, 8000");
	CHECK_INT(w.hub.counters.heartbeats_late, 3);
	finish();
}

static void no_heartbeat_without_a_link(void)
{
	begin_held();
	link_down();
	run_to(8999);
	beats("");
	finish();
}

static void node_that_a_heartbeat_does_not_find_is_lost_and_the_session_proven(void)
{
	begin_held();
	run_to(2000);
	answer("prove no-node");
	told("LOST ELOST");
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 9000 * MS);
	CHECK_INT(release(a), ZKL_ENOTHELD);
	told("ENDED ELOST");
	finish();
}

static void reads_prove_nothing(void)
{
	begin_held();
	run_to(1);
	sent("watch #5");
	w.now += 2000 * MS;
	answer("watch ok");
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 6999 * MS);
	run_to(2001);
	answer("prove unknown");
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 6999 * MS);
	finish();
}

static void mark_is_a_proof(void)
{
	begin_next();
	run_to(1000);
	gone("#3");
	told("GRANTED 8000");
	run_to(1001);
	answer("mark ok");
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 9000 * MS);
	finish();
}

/* ---- our turn without a lease --------------------------------------------------------------------------------------------------------- */

static void turn_without_a_lease_is_granted_with_the_proof(void)
{
	begin();
	start(a, ZKL_FOREVER);
	w.now += 8000 * MS; /* the create takes so long that its proof is hardly worth anything */
	answer("create ok ours#5");
	answer("list #5");
	told("");
	CHECK(strstr(w.sent, "watch #5, prove #5"));
	w.now += 10 * MS;
	answer("prove ok");
	told("GRANTED 8990");
	finish();
}

static void proof_of_one_grants_all_who_are_entitled(void)
{
	begin();
	begin_handle(b, 0, 0);
	start(a, ZKL_FOREVER);
	start(b, ZKL_FOREVER);
	w.now += 8000 * MS;
	answer("create ok ours#5");
	answer("list #5");
	answer("b:create ok ours#6");
	answer("b:list #6");
	told("");
	sent("create, list, b:create, b:list, watch #5, prove #5, b:watch #6"); /* one under way is as good */
	answer("prove ok");
	told("GRANTED 9000, b:GRANTED 9000");
	finish();
}

static void lease_must_be_worth_something_beyond_the_stop_time(void)
{
	begin();
	begin_handle(b, 6000, 0);
	start(b, ZKL_FOREVER);
	w.now += 2500 * MS;
	answer("b:create ok ours#5");
	answer("b:list #5"); /* 6500 are left */
	told("");
	sent("b:create, b:list, b:watch #5, b:prove #5");
	answer("b:prove ok");
	told("b:GRANTED 3000");
	finish();
}

/* ---- suspended, resumed, lost --------------------------------------------------------------------------------------------------------- */

static void overdue_proofs_suspend_and_a_proof_resumes(void)
{
	begin_held();
	run_to(7999);
	told("");
	run_to(8000);
	told("SUSPENDED 1000");
	answer("prove ok");
	told("RESUMED 3000"); /* sent at 2000 */
	finish();
}

static void broken_link_suspends_until_a_proof(void)
{
	begin_held();
	run_to(1);
	answer("watch ok");
	link_down();
	told("SUSPENDED 8999");
	lose_requests();
	run_to(1000);
	link_up();
	told("");
	answer("prove ok");
	told("RESUMED 9000");
	finish();
}

static void suspended_and_resumed_at_once_is_not_worth_an_event(void)
{
	begin_held();
	link_down();
	link_up();
	answer("prove ok");
	told("");
	finish();
}

static void waiter_is_not_told_of_suspension(void)
{
	begin_next();
	link_down();
	told("");
	finish();
}

/* The suspension is the session's: what a new session grants is not suspended. */
static void suspension_ends_with_the_session(void)
{
	begin_next();
	link_down();
	lose_requests();
	zkl__hub_expired(&w.hub);
	w.session_id = 78;
	link_up();
	answer("create ok ours#7");
	answer("list #7");
	told("GRANTED 9000");
	finish();
}

static void lost_is_told_once_at_the_deadline(void)
{
	begin_held();
	link_down();
	told("SUSPENDED 9000");
	run_to(8999);
	told("");
	run_to(9000);
	told("LOST ELOST");
	CHECK_INT(check(a), ZKL_ELOST);
	run_to(30000);
	link_up();
	gone("#5");
	zkl__hub_expired(&w.hub);
	told("");
	CHECK_INT(w.hub.counters.lost, 1);
	CHECK_INT(release(a), ZKL_ENOTHELD);
	told("ENDED ELOST");
	finish();
}

static void lost_comes_the_stop_time_before_the_deadline(void)
{
	begin();
	begin_handle(b, 6000, 0);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#5");
	answer("b:list #5");
	told("b:GRANTED 3000");
	CHECK_INT(check(b), 3000);
	run_to(2998);
	CHECK_INT(check(b), 2);
	told("");
	run_to(3000);
	told("b:LOST ELOST");
	CHECK_INT(check(b), ZKL_ELOST);
	finish();
}

static void node_of_the_lost_stays_until_the_release(void)
{
	begin_held();
	run_to(9000);
	told("LOST ELOST");
	CHECK(!strstr(w.sent, "delete"));
	run_to(60000);
	CHECK(!strstr(w.sent, "delete"));
	CHECK_INT(release(a), ZKL_ENOTHELD);
	CHECK(strstr(w.sent, "delete #5"));
	answer("delete ok");
	told("ENDED ELOST");
	finish();
}

static void late_proof_does_not_revive_a_grant(void)
{
	begin_held();
	run_to(2000);
	w.now = (1000000 + 9000) * MS; /* the timer is late, and the proof was sent in time */
	answer("prove ok");
	told("LOST ELOST");
	CHECK_INT(check(a), ZKL_ELOST);
	run_to(9500);
	CHECK_INT(check(a), ZKL_ELOST);
	finish();
}

static void check_that_said_no_is_final_though_a_proof_comes_in_the_same_instant(void)
{
	begin_held();
	run_to(2000);
	w.now = (1000000 + 9000) * MS;
	CHECK_INT(check(a), ZKL_ELOST);
	CHECK(w.wakes == 1);
	answer("prove ok");
	CHECK_INT(check(a), ZKL_ELOST);
	told("LOST ELOST");
	CHECK_INT(w.hub.counters.lost, 1);
	finish();
}

/* check() stops at less than a millisecond; the deadline itself is not there yet. */
static void check_that_said_no_early_ends_the_grant(void)
{
	begin_held();
	run_to(2000);
	w.now = (1000000 + 9000) * MS - MS / 2;
	CHECK_INT(check(a), ZKL_ELOST);
	answer("prove ok"); /* would be good until 11000 */
	CHECK_INT(check(a), ZKL_ELOST);
	told("LOST ELOST");
	finish();
	begin_held();
	run_to(2000);
	w.now = (1000000 + 9000) * MS - MS / 2;
	CHECK_INT(check(a), ZKL_ELOST);
	zkl__hub_timer(&w.hub);
	told("LOST ELOST");
	finish();
	begin_held();
	w.now = (1000000 + 9000) * MS - MS / 2;
	CHECK_INT(check(a), ZKL_ELOST);
	CHECK_INT(release(a), ZKL_ENOTHELD);
	told("LOST ELOST");
	answer("delete ok");
	told("ENDED ELOST");
	finish();
}

static void check_of_one_does_not_end_the_grant_of_another(void)
{
	begin_held();
	begin_handle(b, 6000, 0);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#6");
	answer("b:list #6");
	told("b:GRANTED 3000");
	w.now = (1000000 + 3000) * MS;
	CHECK_INT(zkl__handle_check(&w.handle[b], 1006), ZKL_ELOST);
	zkl__hub_timer(&w.hub);
	told("b:LOST ELOST");
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), 6000);
	finish();
}

static void check_knows_only_its_own_token(void)
{
	begin_held();
	CHECK_INT(zkl__handle_check(&w.handle[a], 0), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1004), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1006), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), 9000);
	run_to(9000);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), ZKL_ELOST);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1004), ZKL_ENOTHELD);
	CHECK_INT(release(a), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_check(&w.handle[a], 1005), ZKL_ENOTHELD);
	finish();
}

static void release_after_the_deadline_says_not_held_though_the_timer_is_late(void)
{
	begin_held();
	w.now = (1000000 + 9000) * MS;
	CHECK_INT(release(a), ZKL_ENOTHELD);
	told("LOST ELOST");
	answer("delete ok");
	told("ENDED ELOST");
	finish();
}

static void expiry_is_lost_for_the_holder_and_its_handle_can_be_used_again(void)
{
	begin_held();
	zkl__hub_expired(&w.hub);
	forget_requests();
	told("LOST ELOST");
	CHECK_INT(check(a), ZKL_ELOST);
	w.session_id = 78;
	link_up();
	CHECK_INT(check(a), ZKL_ELOST);
	CHECK_INT(release(a), ZKL_ENOTHELD);
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	answer("create ok ours#9");
	answer("list #9");
	told("ENDED ELOST, GRANTED 9000");
	CHECK_INT(w.hub.counters.expiries, 1);
	finish();
}

static void lease_of_a_session_ends_with_it(void)
{
	begin_held();
	w.answer_beats = true;
	run_to(20000);
	zkl__hub_expired(&w.hub);
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 0);
	w.session_id = 78;
	link_up();
	CHECK_INT(zkl__hub_left_ns(&w.hub, 0), 0);
	finish();
}

static void shorter_timeout_of_the_servers_shortens_the_lease_at_once(void)
{
	for (int64_t back = 1000; back < 1500; back += 100) {
		begin_held();
		run_to(1);
		link_down();
		lose_requests();
		run_to(back);
		zkl__hub_link_up(&w.hub, 77, 4000 * MS); /* a single proof is worth 1.5 s now */
		deliver();
		w.told[0] = 0;
		run_to(1499);
		told("");
		run_to(1500);
		told("LOST ELOST");
		finish();
	}
}

/* Else the thread in acquire() waits for the servers' word on a delete that may never come. */
static void grant_that_was_released_before_the_waiting_thread_saw_it_is_settled(void)
{
	struct zkl__attempt *attempt;

	begin();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
	told("GRANTED 9000");
	attempt = w.handle[a].attempt;
	zkl__attempt_hold(attempt);
	link_down();
	CHECK_INT(zkl__handle_release(&w.handle[a]), 0);
	CHECK(zkl__attempt_settled(attempt));
	CHECK(!zkl__attempt_accept(attempt));
	CHECK_INT(zkl__attempt_error(attempt, NULL), ZKL_ECANCELED);
	zkl__attempt_drop(attempt);
	w.sent[0] = 0;
	finish();
}

/* ---- a handshake that was long on its way ---------------------------------------------------------------------------------------------- */

static bool asked;

static bool world_asked(void *world)
{
	(void)world;
	return asked;
}

/* Looked at each second: T/24. */
static void connect_with(int64_t answer_ms)
{
	static struct zkl__port with_asked;

	begin_apart();
	with_asked = port;
	with_asked.asked = world_asked;
	w.hub.port = &with_asked;
	asked = false;
	zkl__hub_connecting(&w.hub);
	run_to(20000);
	asked = true;
	run_to(20000 + answer_ms);
	link_up();
	start(a, ZKL_FOREVER);
	answer("create ok ours#5");
	answer("list #5");
}

/* The servers count the session's time from when they were asked, so that its first proof is as good as one after a stall. */
static void first_grant_after_a_slow_handshake_waits_for_a_second_proof(void)
{
	connect_with(9500);
	told("");
	sent("create, list, watch #5, prove #5");
	w.answer_beats = true;
	run_to(29500 + 6000);
	told("");
	run_to(29500 + 7000);
	told("GRANTED 15000");
	w.sent[0] = 0;
	finish();
}

static void first_grant_after_a_quick_handshake_waits_for_nothing(void)
{
	connect_with(6500); /* and less than a second until it is asked: not more than T/3 */
	told("GRANTED 9000");
	sent("create, list");
	finish();
}

/* ---- elections ------------------------------------------------------------------------------------------------------------------------ */

static void begin_candidate(int i, const char *data)
{
	zkl_options options = ZKL_OPTIONS_INIT;

	options.on_event = on_event;
	options.user = &w.handle[i];
	options.data = data;
	options.data_len = data ? strlen(data) : 0;
	w.used[i] = true;
	CHECK_INT(zkl__handle_init(&w.handle[i], &zkl__election_type, &w.hub, "/elections/job", &options, NULL), 0);
}

/* What Curator's LeaderLatch keeps there, too. */
static void candidates_node_holds_its_data_or_its_id_and_nothing_else(void)
{
	begin();
	begin_candidate(b, NULL);
	begin_candidate(c, "10.0.0.1:8080");
	start(b, ZKL_FOREVER);
	CHECK_STR(w.data, "web1:0 backup");
	start(c, ZKL_FOREVER);
	CHECK_STR(w.data, "10.0.0.1:8080");
	finish();
}

/* Curator's LeaderLatch would be woken by a change of data, and by nothing after it. */
static void leader_that_had_to_wait_watches_its_node_and_writes_nothing(void)
{
	begin();
	begin_candidate(b, NULL);
	start(b, ZKL_FOREVER);
	sent("b:create, b:list");
	answer("b:create ok ours#5");
	answer("b:list #4 #5");
	told("b:WAITING 1");
	sent("b:watch #5, b:watch #4");
	answer("b:watch ok");
	answer("b:watch ok");
	watch_event(true, "#4", b);
	told("b:GRANTED 9000");
	sent("");
	run_to(1);
	sent("");
	finish();
}

static void candidate_of_a_locks_directory_ends_with_a_clear_error(void)
{
	begin();
	begin_candidate(b, NULL);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#5");
	answer("b:list lock#4 #5");
	told("b:ENDED EPATH");
	CHECK_STR(w.message,
	          "/elections/job has contenders of the other kind: a lock and an election need a path each");
	finish();
}

static void lead(void)
{
	begin();
	begin_candidate(b, NULL);
	start(b, ZKL_FOREVER);
	answer("b:create ok ours#5");
	answer("b:list #5");
	told("b:GRANTED 9000");
	sent("b:create, b:list");
}

/* The work goes on: nobody may follow yet. */
static void pinned_grant_keeps_its_node_until_it_is_unpinned(void)
{
	lead();
	zkl__handle_pin(&w.handle[b]);
	CHECK_INT(zkl__handle_release(&w.handle[b]), 0);
	CHECK_INT(zkl__handle_check(&w.handle[b], w.grant.token), ZKL_ENOTHELD);
	CHECK_INT(zkl__handle_start(&w.handle[b], ZKL_FOREVER, NULL), ZKL_ESTATE);
	CHECK_INT(zkl__handle_release(&w.handle[b]), 0); /* again */
	w.answer_beats = true;
	run_to(60000); /* heartbeats go on */
	CHECK(!strstr(w.sent, "delete"));
	w.sent[0] = 0;
	told("");
	CHECK(zkl__handle_unpin(&w.handle[b]));
	sent("b:delete #5");
	answer("b:delete ok");
	told("b:ENDED");
	CHECK_INT(w.hub.counters.lost, 0);
	finish();
}

static void pinned_grant_that_was_not_released_stays_held(void)
{
	lead();
	zkl__handle_pin(&w.handle[b]);
	CHECK(!zkl__handle_unpin(&w.handle[b]));
	CHECK(zkl__handle_check(&w.handle[b], w.grant.token) > 0);
	finish();
}

static void pinned_grant_can_be_lost_before_and_after_its_release(void)
{
	for (int released_first = 0; released_first < 2; released_first++) {
		lead();
		zkl__handle_pin(&w.handle[b]);
		if (released_first)
			CHECK_INT(zkl__handle_release(&w.handle[b]), 0);
		watch_event(true, "#5", b);
		told("b:LOST ELOST"); /* for the work that still goes on */
		CHECK_INT(zkl__handle_check(&w.handle[b], w.grant.token), ZKL_ELOST);
		if (!released_first)
			CHECK_INT(zkl__handle_release(&w.handle[b]), ZKL_ENOTHELD);
		CHECK(zkl__handle_unpin(&w.handle[b]));
		told("b:ENDED ELOST");
		finish();
	}
}

static void closing_waits_for_the_pinned(void)
{
	lead();
	zkl__handle_pin(&w.handle[b]);
	zkl__hub_close(&w.hub);
	sent("");
	CHECK(w.hub.first != NULL);
	CHECK(zkl__handle_unpin(&w.handle[b]));
	sent("b:delete #5");
	answer("b:delete ok");
	told("b:ENDED");
	CHECK(w.hub.first == NULL);
	finish();
}

/* ---- the stop time ------------------------------------------------------------------------------------------------------------------- */

static void stop_time_of_more_than_a_quarter_is_refused(void)
{
	zkl_options        options = ZKL_OPTIONS_INIT;
	zkl_error          error;
	struct zkl__handle handle;

	begin_apart();
	options.stop_ms = 6001;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	CHECK_STR(error.message,
	          "zkl_options.stop_ms is 6001, at most 6000 fits the session's timeout, margin and heartbeat");
	options.stop_ms = -1;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	finish();
}

/* It would be lost again and again, and the servers would answer all the time. */
static void stop_time_that_leaves_no_heartbeat_of_the_lease_is_refused(void)
{
	zkl_options        options = ZKL_OPTIONS_INIT;
	zkl_error          error;
	struct zkl__handle handle;

	begin_apart();
	w.hub.lease_options.margin_ns = 15000 * MS; /* the lease is 9 s, a heartbeat 4 s, T/24 1 s */
	options.stop_ms = 4001;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	CHECK(strstr(error.message, "stop_ms is 4001, at most 4000 fits"));
	options.stop_ms = 4000;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), 0);
	zkl__handle_clear(&handle);
	finish();
}

static void stop_time_that_the_servers_made_too_long_ends_the_attempt(void)
{
	begin_apart();
	begin_handle(b, 6000, 0);
	start(b, ZKL_FOREVER);
	zkl__hub_link_up(&w.hub, 77, 20000 * MS);
	told("b:ENDED EINVAL");
	CHECK_STR(w.message,
	          "/locks/job cannot be held: stop_ms is too long for the session timeout that the servers granted");
	CHECK_INT(start(b, 1000), ZKL_EINVAL);
	CHECK_INT(start(a, 1000), 0);
	finish();
}

/* There would never be a live lease: better said than waited for. */
static void lease_options_that_do_not_fit_what_the_servers_granted_end_the_attempt(void)
{
	begin_apart();
	w.hub.lease_options.heartbeat_ns = 8000 * MS; /* T/3 of what was asked for */
	start(a, ZKL_FOREVER);
	zkl__hub_link_up(&w.hub, 77, 12000 * MS);
	told("ENDED EINVAL");
	CHECK(strstr(w.message, "heartbeat_ms") && strstr(w.message, "granted"));
	CHECK_INT(start(a, 1000), ZKL_EINVAL);
	sent("");
	finish();
}

static void options_that_make_no_sense_are_refused(void)
{
	zkl_options        options = ZKL_OPTIONS_INIT;
	struct zkl__handle handle;
	zkl_error          error;
	char               data[1001] = "";

	begin_apart();
	options.size = 8;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	CHECK(strstr(error.message, "zkl_options.size") && strstr(error.message, "ZKL_OPTIONS_INIT"));
	options = (zkl_options)ZKL_OPTIONS_INIT;
	options.flags = 2;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	options.flags = 0;
	options.data = data;
	options.data_len = 1001;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	CHECK_STR(error.message, "zkl_options.data_len is 1001, at most 1000 is possible");
	options.data = NULL;
	options.data_len = 1;
	CHECK_INT(zkl__handle_init(&handle, &zkl__lock_type, &w.hub, "/x", &options, &error), ZKL_EINVAL);
	finish();
}

/* ---- clearing a handle ------------------------------------------------------------------------------------------------------------------ */

static void cleared_handle_leaves_in_the_background_and_is_told_nothing(void)
{
	begin_held();
	end_handle(a);
	sent("-:delete #5");
	link_down();
	answer("delete unknown");
	link_up();
	sent("-:delete #5");
	answer("delete ok");
	told("");
	CHECK(!w.hub.first);
	finish();
}

static void handle_can_be_cleared_at_every_step_of_an_attempt(void)
{
	static const char *const steps[] = {"",       "create ok ours#5", "list #3 #5", "watch ok", "watch ok",
	                                    "gone#3", "settle",           "mark ok",    "release",  "delete ok"};

	for (size_t stop = 0; stop <= COUNT(steps); stop++) {
		for (int delivered = 0; delivered < 2; delivered++) {
			begin();
			start(a, ZKL_FOREVER);
			for (size_t i = 0; i < stop && i < COUNT(steps); i++) {
				if (strcmp(steps[i], "gone#3") == 0)
					gone("#3");
				else if (strcmp(steps[i], "settle") == 0)
					run_to(1);
				else if (strcmp(steps[i], "release") == 0)
					release(a);
				else if (steps[i][0])
					answer(steps[i]);
				if (delivered)
					deliver();
			}
			w.told[0] = 0;
			end_handle(a);
			while (w.pending_count)
				reply_to(0, "ok ours#5");
			while (w.pending_count)
				reply_to(0, "ok");
			told("");
			if (!CHECK(!w.hub.first))
				printf("    after %zu steps\n", stop);
			finish();
		}
	}
}

static void several_attempts_of_one_handle_end_in_order(void)
{
	begin();
	for (int i = 0; i < 20; i++) {
		CHECK_INT(start(a, ZKL_FOREVER), 0);
		CHECK_INT(release(a), 0);
	}
	told("ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, "
	     "ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, "
	     "ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, ENDED ECANCELED, "
	     "ENDED ECANCELED, ENDED ECANCELED");
	end_handle(a);
	while (w.pending_count)
		reply_to(0, "denied");
	CHECK(!w.hub.first);
	finish();
}

/* ---- parties --------------------------------------------------------------------------------------------------------------------------- */

static unsigned heard;

static void hear_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	(void)party;
	(void)reply;
	heard++;
}

static void reply_to_a_party_that_has_left_finds_nobody(void)
{
	static const struct zkl__party_type type = {.reply = hear_reply};
	struct zkl__party                   first = {.type = &type}, second = {.type = &type};
	struct zkl__reply                   reply = {.op = ZKL__READ};
	uint64_t                            old;

	begin();
	heard = 0;
	CHECK_INT(zkl__hub_join(&w.hub, &first), 0);
	old = first.id;
	zkl__hub_reply(&w.hub, old, &reply);
	CHECK_INT(heard, 1);
	zkl__hub_part(&w.hub, &first);
	zkl__hub_reply(&w.hub, old, &reply);
	zkl__hub_watch(&w.hub, zkl__watcher(old), true, "/x", "x");
	CHECK_INT(heard, 1);
	CHECK_INT(zkl__hub_join(&w.hub, &second), 0); /* in the same place, with another number */
	zkl__hub_reply(&w.hub, old, &reply);
	CHECK_INT(heard, 1);
	zkl__hub_watch(&w.hub, zkl__watcher(second.id), true, "/x", "x");
	zkl__hub_reply(&w.hub, second.id, &reply);
	CHECK_INT(heard, 2);
	zkl__hub_reply(&w.hub, 0, &reply);
	zkl__hub_reply(&w.hub, UINT64_MAX, &reply);
	CHECK_INT(heard, 2);
	zkl__hub_part(&w.hub, &second);
	finish();
}

/* The next attempt has the watcher of the one that gave up, so that the client keeps one watch of theirs and not two. What
 * the old one was for is told to the new one, too. */
static void watch_of_who_gave_up_comes_back_to_the_next_attempt(void)
{
	uint32_t watcher;

	begin_next();
	watcher = zkl__watcher(w.handle[a].attempt->party.id);
	release(a);
	answer("delete ok");
	told("ENDED ECANCELED");
	CHECK_INT(w.hub.watched.bytes, strlen("/locks/job/") + 55 + 4);
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	CHECK_INT(zkl__watcher(w.handle[a].attempt->party.id), watcher);
	answer("create ok ours#6");
	answer("list #3 #6");
	answer("watch ok");
	answer("watch ok");
	told("WAITING 1");
	zkl__hub_watch(&w.hub, watcher, true, "/locks/other", w.handle[a].attempt->contender.predecessor);
	told("");
	zkl__hub_watch(&w.hub, watcher, true, "/locks/job", w.handle[a].attempt->contender.predecessor);
	told("GRANTED 9000");
	CHECK_INT(w.hub.watched.bytes, strlen("/locks/job/") + 56 + 4);
	finish();
}

static void session_that_has_no_room_for_a_watch_refuses_to_start(void)
{
	size_t    own = strlen("/locks/job/") + 56 + 4, before = strlen("/locks/job/") + 127 + 4;
	zkl_error error = {0};

	begin();
	w.hub.watched.bytes = ZKL__WATCHED_MAX - own - before + 1;
	CHECK_INT(zkl__handle_start(&w.handle[a], ZKL_FOREVER, &error), ZKL_ENOMEM);
	CHECK_STR(error.message, "use another session for /locks/job: this one would have too many nodes to watch");
	CHECK(!w.handle[a].attempt && !w.hub.first);
	/* A try waits for nobody. */
	CHECK_INT(start(a, 0), 0);
	release(a);
	forget_requests();
	w.hub.watched.bytes = ZKL__WATCHED_MAX - own - before;
	CHECK_INT(start(a, ZKL_FOREVER), 0);
	CHECK_INT(w.hub.watched.bytes, ZKL__WATCHED_MAX);
	w.hub.watched.bytes = own + before;
	answer("create ok ours#5");
	answer("list #5");
	/* Who holds watches its own node alone. */
	CHECK_INT(w.hub.watched.bytes, own);
	finish();
}

static void hub_has_room_for_many_parties(void)
{
	static const struct zkl__party_type type = {.reply = hear_reply};
	static struct zkl__party            party[3000];
	struct zkl__reply                   reply = {.op = ZKL__READ};

	begin();
	for (size_t i = 0; i < COUNT(party); i++) {
		party[i] = (struct zkl__party){.type = &type};
		CHECK_INT(zkl__hub_join(&w.hub, &party[i]), 0);
	}
	heard = 0;
	for (size_t i = 0; i < COUNT(party); i++)
		zkl__hub_reply(&w.hub, party[i].id, &reply);
	CHECK_INT(heard, COUNT(party));
	for (size_t i = 0; i < COUNT(party); i++)
		zkl__hub_part(&w.hub, &party[(i * 7) % COUNT(party)]);
	CHECK(!w.hub.first && !w.hub.last);
	finish();
}

/* ---- random lives ------------------------------------------------------------------------------------------------------------------------ */

static void random_answer(uint64_t *seed)
{
	struct pending *p = &w.pending[0];
	char            text[120] = "ok";
	int64_t         own = -1;

	for (int i = 0; i < HANDLES; i++)
		for (struct zkl__attempt *x = w.used[i] ? w.handle[i].attempts : NULL; x; x = x->sibling)
			if (x->party.id == p->party)
				own = x->contender.sequence;
	if (p->op == ZKL__CREATE)
		snprintf(text, sizeof text, "ok ours#%d", 10 + (int)check_below(seed, 100000));
	else if (p->op == ZKL__LIST && own >= 0)
		snprintf(text, sizeof text, "ok %s#%" PRId64, check_below(seed, 2) ? "#1 " : "", own);
	if (check_below(seed, 15) == 0)
		snprintf(text, sizeof text, "%s", check_below(seed, 2) ? "no-node" : "denied");
	reply_to(0, text);
}

static void random_event(uint64_t *seed, int i)
{
	struct zkl__attempt *x = w.used[i] ? w.handle[i].attempt : NULL;

	if (!x)
		return;
	if (!x->contender.predecessor || check_below(seed, 4) == 0)
		zkl__hub_watch(&w.hub, zkl__watcher(x->party.id), true, x->path, x->contender.name);
	else
		zkl__hub_watch(&w.hub, zkl__watcher(x->party.id), check_below(seed, 2), x->path,
		               x->contender.predecessor);
}

static void random_step(uint64_t *seed)
{
	int i = (int)check_below(seed, HANDLES);

	switch (check_below(seed, 16)) {
	case 0:
	case 1:
		if (!w.used[i])
			begin_handle(i, check_below(seed, 2) ? 0 : 5000, (unsigned)check_below(seed, 2));
		start(i, check_below(seed, 3) == 0 ? 0 : check_below(seed, 2) ? ZKL_FOREVER : check_below(seed, 20000));
		break;
	case 2:
		if (w.used[i])
			release(i);
		break;
	case 3:
		if (w.used[i] && check_below(seed, 6) == 0)
			end_handle(i);
		break;
	case 4:
		random_event(seed, i);
		break;
	case 5:
		if (check_below(seed, 3) == 0) {
			link_down();
			lose_requests();
		}
		break;
	case 6:
		if (!w.hub.link)
			link_up();
		break;
	case 7:
		if (check_below(seed, 12) == 0) {
			zkl__hub_expired(&w.hub);
			lose_requests();
			w.session_id++;
		}
		break;
	case 8:
		deliver();
		w.told[0] = w.sent[0] = w.beats[0] = w.logged[0] = 0;
		break;
	case 9:
		if (w.used[i] && w.handle[i].attempt && w.handle[i].attempt->token)
			zkl__handle_check(&w.handle[i], w.handle[i].attempt->token);
		break;
	case 10:
		if (w.used[i] && w.handle[i].attempt && zkl__attempt_settled(w.handle[i].attempt))
			zkl__attempt_accept(w.handle[i].attempt);
		break;
	case 11:
		run_to(now_ms() + check_below(seed, check_below(seed, 3) ? 500 : 12000));
		break;
	default:
		if (w.pending_count)
			random_answer(seed);
		break;
	}
}

/* And the deadline never falls within a session. */
static void random_lives_keep_the_grammar_and_leave_nothing(void)
{
	uint64_t rounds = check_rounds(1500, 50000);
	unsigned before = CU_get_number_of_failures();

	for (uint64_t round = 0; round < rounds && CU_get_number_of_failures() == before; round++) {
		uint64_t seed = round;
		int64_t  deadline = 0, session = 0;

		begin();
		for (int step = 0; step < 200 && CU_get_number_of_failures() == before; step++) {
			random_step(&seed);
			if (w.session_id != session)
				deadline = 0;
			session = w.session_id;
			if (atomic_load(&w.hub.deadline_ns) < deadline)
				FAIL("the deadline fell");
			deadline = atomic_load(&w.hub.deadline_ns);
			if (w.pending_count > REQUESTS - 10) {
				link_down();
				lose_requests();
			}
		}
		link_down();
		lose_requests();
		finish();
		if (CU_get_number_of_failures() != before)
			FAIL("seed %" PRIu64, round);
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(free_lock_is_granted_and_released),
		TEST(node_says_who_we_are_since_when_and_with_what),
		TEST(mark_is_the_same_data_with_the_mark),
		TEST(waiting_is_told_as_it_changes_and_only_the_newest_of_it),
		TEST(waiter_of_an_expired_session_is_told_that_it_queues_again),
		TEST(no_requeue_ends_with_lost),
		TEST(failure_is_told_once_while_the_node_is_still_being_deleted),
		TEST(node_that_may_not_be_deleted_is_logged_and_told),
		TEST(no_event_without_a_callback),
		TEST(grant_that_is_over_before_it_is_told_ends_lost_and_deletes),
		TEST(grant_is_not_told_after_its_deadline_though_the_timer_is_late),
		TEST(node_gone_before_the_grant_is_told_ends_lost),
		TEST(accept_takes_a_live_grant_only),
		TEST(grant_that_ends_while_it_is_being_told_is_told_or_ended),
		TEST(lost_grant_that_was_accepted_by_a_call_is_told_to_its_callback),
		TEST(queued_in_vain_times_out_and_leaves),
		TEST(no_server_until_the_timeout_is_not_connected),
		TEST(link_that_breaks_after_queueing_times_out),
		TEST(try_gives_up_after_its_patience),
		TEST(forever_never_times_out),
		TEST(timeout_does_not_end_what_is_granted),
		TEST(negative_timeout_is_refused),
		TEST(second_start_is_refused_until_the_release),
		TEST(release_while_waiting_cancels),
		TEST(restart_may_follow_release_at_once),
		TEST(restart_before_the_link_is_back_leaves_one_node),
		TEST(refusal_ends_what_waits_and_keeps_what_is_held),
		TEST(refused_credentials_end_every_attempt),
		TEST(closing_releases_what_is_held_and_ends_what_waits),
		TEST(heartbeats_are_quick_until_the_first_pair_then_steady),
		TEST(heartbeats_become_quick_with_the_answer_that_shows_the_need),
		TEST(heartbeats_stop_after_the_release),
		TEST(acquire_after_a_long_pause_is_granted_by_its_create_alone),
		TEST(acquire_right_after_a_stall_waits_for_a_pair),
		TEST(acquire_after_a_short_stall_is_granted_at_once),
		TEST(nobody_who_wants_the_lease_means_no_heartbeat),
		TEST(heartbeats_begin_when_we_become_next),
		TEST(heartbeats_of_many_locks_are_one),
		TEST(heartbeat_comes_first_when_the_link_is_back),
		TEST(heartbeat_without_an_answer_is_repeated_and_not_in_a_loop),
		TEST(no_heartbeat_without_a_link),
		TEST(node_that_a_heartbeat_does_not_find_is_lost_and_the_session_proven),
		TEST(reads_prove_nothing),
		TEST(mark_is_a_proof),
		TEST(turn_without_a_lease_is_granted_with_the_proof),
		TEST(proof_of_one_grants_all_who_are_entitled),
		TEST(lease_must_be_worth_something_beyond_the_stop_time),
		TEST(overdue_proofs_suspend_and_a_proof_resumes),
		TEST(broken_link_suspends_until_a_proof),
		TEST(suspended_and_resumed_at_once_is_not_worth_an_event),
		TEST(waiter_is_not_told_of_suspension),
		TEST(suspension_ends_with_the_session),
		TEST(lost_is_told_once_at_the_deadline),
		TEST(lost_comes_the_stop_time_before_the_deadline),
		TEST(node_of_the_lost_stays_until_the_release),
		TEST(late_proof_does_not_revive_a_grant),
		TEST(check_that_said_no_is_final_though_a_proof_comes_in_the_same_instant),
		TEST(check_that_said_no_early_ends_the_grant),
		TEST(check_of_one_does_not_end_the_grant_of_another),
		TEST(check_knows_only_its_own_token),
		TEST(release_after_the_deadline_says_not_held_though_the_timer_is_late),
		TEST(expiry_is_lost_for_the_holder_and_its_handle_can_be_used_again),
		TEST(lease_of_a_session_ends_with_it),
		TEST(shorter_timeout_of_the_servers_shortens_the_lease_at_once),
		TEST(grant_that_was_released_before_the_waiting_thread_saw_it_is_settled),
		TEST(first_grant_after_a_slow_handshake_waits_for_a_second_proof),
		TEST(first_grant_after_a_quick_handshake_waits_for_nothing),
		TEST(candidates_node_holds_its_data_or_its_id_and_nothing_else),
		TEST(leader_that_had_to_wait_watches_its_node_and_writes_nothing),
		TEST(candidate_of_a_locks_directory_ends_with_a_clear_error),
		TEST(pinned_grant_keeps_its_node_until_it_is_unpinned),
		TEST(pinned_grant_that_was_not_released_stays_held),
		TEST(pinned_grant_can_be_lost_before_and_after_its_release),
		TEST(closing_waits_for_the_pinned),
		TEST(stop_time_of_more_than_a_quarter_is_refused),
		TEST(stop_time_that_leaves_no_heartbeat_of_the_lease_is_refused),
		TEST(stop_time_that_the_servers_made_too_long_ends_the_attempt),
		TEST(lease_options_that_do_not_fit_what_the_servers_granted_end_the_attempt),
		TEST(options_that_make_no_sense_are_refused),
		TEST(cleared_handle_leaves_in_the_background_and_is_told_nothing),
		TEST(handle_can_be_cleared_at_every_step_of_an_attempt),
		TEST(several_attempts_of_one_handle_end_in_order),
		TEST(reply_to_a_party_that_has_left_finds_nobody),
		TEST(watch_of_who_gave_up_comes_back_to_the_next_attempt),
		TEST(session_that_has_no_room_for_a_watch_refuses_to_start),
		TEST(hub_has_room_for_many_parties),
		TEST(random_lives_keep_the_grammar_and_leave_nothing),
		{0}};

	return check_main("driver", tests, argc, argv);
}
