/* SPDX-License-Identifier: Apache-2.0 */
/* The observer of an election, as a transcript:
 *
 *     T("list #3 #5", "read-watch #3");         the reply to the newest request, and what is sent then
 *     T("read data=web1", "leader 3 web1");     and what is told
 *
 * "up", "down", "gone #3", "changed #3" and "later" (what is due is done) are what else happens. */
#include "check.h"

#include <stdarg.h>

#include "observer.h"
#include "words.h"

#define MS   INT64_C(1000000)
#define T_NS (24000 * MS)

static struct {
	struct zkl__hub       hub;
	struct zkl__observer *observer;
	struct zkl__source   *ready;
	struct words          words;
	uint64_t              party;
	enum zkl__op          op; /* the newest request, its id and name */
	uint32_t              id;
	char                  name[ZKL__NAME_MAX];
	int64_t               now;
	char                  done[1000];
} w;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	size_t  length = strlen(w.done);
	va_list args;

	if (length)
		length += (size_t)snprintf(w.done + length, sizeof w.done - length, ", ");
	va_start(args, format);
	vsnprintf(w.done + length, sizeof w.done - length, format, args);
	va_end(args);
}

/* ---- the world ------------------------------------------------------------------------------------------------------------- */

static int64_t world_now(void *world)
{
	(void)world;
	return w.now;
}

static void world_send(void *world, uint64_t party, const struct zkl__request *request)
{
	(void)world;
	w.party = party;
	w.op = request->op;
	w.id = request->id;
	snprintf(w.name, sizeof w.name, "%s", request->name ? request->name : "");
	CHECK_INT(request->kind, ZKL__KIND_ELECTION);
	if (request->name)
		note("%s #%" PRId64, zkl__op_name(request->op), zkl__queue_sequence(request->name));
	else
		note(request->directory[0] ? "%s" : "%s chroot", zkl__op_name(request->op));
}

static void world_rearm(void *world)
{
	(void)world;
}

static void world_ready(void *world, struct zkl__source *source)
{
	(void)world;
	if (source->type->has_event(source))
		w.ready = source;
}

static const struct zkl__port port = {
	.now_ns = world_now, .send = world_send, .rearm = world_rearm, .wake = world_rearm, .ready = world_ready};

static void on_event(const zkl_event *ev, void *user)
{
	(void)user;
	CHECK_INT(ev->type, ZKL_EV_LEADER);
	CHECK(!ev->grant && !ev->attempt && !ev->error == !ev->code);
	if (ev->leader)
		note("leader %" PRIu64 " %s", ev->leader->epoch, ev->leader->id);
	else
		note(ev->code ? "unseen %s" : "nobody", zkl_error_name(ev->code) + 4);
}

static void begin(bool chroot)
{
	struct zkl__observer_options options = {
		.path = "/elections/job", .chroot = chroot, .on_event = on_event, .owner = &w};

	memset(&w, 0, sizeof w);
	w.now = 1000000 * MS;
	w.words.kind = ZKL__KIND_ELECTION;
	zkl__hub_init(&w.hub, &port, &w);
	w.hub.timeout_asked_ns = T_NS;
	w.observer = zkl__observer_new(&w.hub, &options);
}

static void end(void)
{
	zkl__observer_close(w.observer);
	CHECK(w.hub.first == NULL);
	zkl__hub_clear(&w.hub);
}

/* ---- what happens ------------------------------------------------------------------------------------------------------------ */

static void reply_with(uint32_t id, const char *text)
{
	struct zkl__reply reply = {.op = w.op, .id = id};
	char              words[200];

	snprintf(words, sizeof words, "%s", text);
	words_reply(&w.words, &reply, (struct zkl__uuid){0, 0}, words);
	zkl__hub_reply(&w.hub, w.party, &reply);
}

static void watch(bool gone, const char *word)
{
	char name[WORDS_NAME];

	words_name(&w.words, name, word, (struct zkl__uuid){0, 0});
	zkl__hub_watch(&w.hub, zkl__watcher(w.party), gone, "/elections/job", name);
}

static void happen(const char *text)
{
	const char *rest = strchr(text, ' ');

	rest = rest ? rest + 1 : "";
	if (strcmp(text, "up") == 0)
		zkl__hub_link_up(&w.hub, 77, T_NS);
	else if (strcmp(text, "down") == 0)
		zkl__hub_link_down(&w.hub);
	else if (strcmp(text, "later") == 0) {
		w.now += T_NS;
		zkl__hub_timer(&w.hub);
	} else if (strncmp(text, "gone ", 5) == 0)
		watch(true, rest);
	else if (strncmp(text, "changed ", 8) == 0)
		watch(false, rest);
	else if (strncmp(text, "old ", 4) == 0)
		reply_with(w.id - 1, rest);
	else
		reply_with(w.id, text);
}

static void transcript(const char *text, const char *expected, const char *file, int line)
{
	struct zkl__delivery delivery;

	w.done[0] = 0;
	happen(text);
	if (w.ready && w.ready->type->next_event(w.ready, &delivery)) {
		CHECK(delivery.owner == &w);
		delivery.on_event(&delivery.event, delivery.user);
		CHECK(!w.ready->type->has_event(w.ready));
	}
	w.ready = NULL;
	check_str(w.done, expected, text, file, line);
}
#define T(text, expected) transcript(text, expected, __FILE__, __LINE__)

/* ---- tests ------------------------------------------------------------------------------------------------------------------- */

static void see_leader(void)
{
	begin(false);
	T("up", "list");
	T("ok #5 #3 #9", "read-watch #3");
	T("ok data=web1", "leader 3 web1");
}

static void lowest_is_read_and_told_and_followed(void)
{
	zkl_peer peer;

	see_leader();
	CHECK_INT(zkl__observer_leader(w.observer, &peer), 1);
	CHECK_INT(peer.token, WORDS_BIRTH + 3);
	CHECK_INT(peer.waiting, 2);
	T("gone #3", "list");
	T("ok #5 #9", "read-watch #5");
	T("ok data=web2", "leader 5 web2");
	end();
}

static void others_wake_nobody(void)
{
	see_leader();
	T("gone #5", "");
	T("changed #9", "");
	end();
}

static void leader_that_changes_its_data_is_told_again(void)
{
	see_leader();
	T("changed #3", "read-watch #3");
	T("ok data=web1", ""); /* the same */
	T("changed #3", "read-watch #3");
	T("ok data=web9", "leader 3 web9");
	end();
}

static void leader_that_goes_before_it_is_read_is_never_told(void)
{
	begin(false);
	T("up", "list");
	T("ok #3 #5", "read-watch #3");
	T("no-node", "list");
	T("ok #5", "read-watch #5");
	T("ok data=web2", "leader 5 web2");
	end();
}

static void empty_directory_is_watched_for_a_child(void)
{
	begin(false);
	T("up", "list");
	T("ok", "list-watch");
	T("ok", "nobody");
	CHECK_INT(zkl__observer_leader(w.observer, NULL), 0);
	T("changed job", "list");
	T("ok #0", "read-watch #0");
	T("ok data=a", "leader 0 a");
	T("changed job", ""); /* a watch of before */
	T("gone #0", "list");
	T("ok", "list-watch");
	T("ok #1", "read-watch #1"); /* between the two lists */
	T("no-node", "list");
	T("ok", "list-watch");
	T("ok", "nobody");
	T("gone job", "list");
	T("no-node", "find-watch");
	T("no-node", ""); /* still nobody */
	end();
}

static void missing_directory_is_waited_for(void)
{
	begin(false);
	T("up", "list");
	T("no-node", "find-watch");
	T("no-node", "nobody");
	T("changed job", "list");
	T("ok", "list-watch");
	T("ok", "");
	T("changed job", "list");
	T("no-node", "find-watch");
	T("ok", "list"); /* between the two */
	end();
}

static void missing_chroot_is_an_error_and_looked_for_again(void)
{
	zkl_peer peer;

	begin(true);
	T("up", "list");
	T("no-node", "find chroot");
	T("no-node", "unseen EPATH");
	CHECK_INT(zkl__observer_leader(w.observer, &peer), ZKL_EPATH);
	T("later", "list");
	T("no-node", "find chroot");
	T("no-node", ""); /* told already */
	T("later", "list");
	T("no-node", "find chroot");
	T("ok", "find-watch");
	T("no-node", "nobody");
	end();
}

static void who_came_at_the_end_of_the_sequence_leads_nobody(void)
{
	begin(false);
	T("up", "list");
	T("ok #2146435072", "list-watch");
	T("ok #2146435072", "nobody");
	T("gone job", "list"); /* to be made anew */
	T("no-node", "find-watch");
	end();
}

static void what_cannot_be_seen_is_said_once_and_tried_again(void)
{
	static const struct {
		const char *reply, *told;
	} each[] = {{"denied", "unseen EACCES"},
	            {"refused", "unseen EZK"},
	            {"ok lock#3", "unseen EPATH"},
	            {"ok long#3", "unseen EPATH"},
	            {"ok over #3", "unseen EEXHAUSTED"}};

	for (size_t i = 0; i < COUNT(each); i++) {
		begin(false);
		T("up", "list");
		T(each[i].reply, each[i].told);
		T("later", "list");
		T(each[i].reply, "");
		T("later", "list");
		T("ok #4", "read-watch #4");
		T("denied", i ? "unseen EACCES" : "");
		T("later", "list");
		T("ok #4", "read-watch #4");
		T("ok data=x", "leader 4 x");
		end();
	}
}

/* Once lowest, always lowest while it exists: a restarted server is not met by a list from each observer. */
static void after_a_reconnect_the_leader_is_read_not_listed(void)
{
	see_leader();
	T("down", "");
	T("gone #3", ""); /* nothing is concluded from the gap */
	T("up", "read-watch #3");
	T("ok data=web1", "");
	T("down", "");
	T("up", "read-watch #3");
	T("unknown", "");
	T("down", "");
	T("up", "read-watch #3");
	T("no-node", "list");
	end();
}

static void older_replies_mean_nothing(void)
{
	begin(false);
	T("up", "list");
	T("down", "");
	T("up", "list");
	T("old #3", "");
	T("unknown", "");
	T("ok #4", "read-watch #4");
	end();
}

static void closed_session_and_refused_auth_end_it(void)
{
	see_leader();
	zkl__hub_refuse(&w.hub, ZKL_ECANCELED); /* waits end, observing goes on */
	T("gone #3", "list");
	zkl__hub_refuse(&w.hub, ZKL_EACCES);
	T("old #3", "unseen EACCES");
	zkl__hub_close(&w.hub);
	CHECK(w.hub.first == NULL);
	end();
}

/* An event that was queued when the observer was closed finds nobody. */
static void closed_observer_tells_nothing_more(void)
{
	struct zkl__delivery delivery;
	struct zkl__source  *source;

	see_leader();
	happen("changed #3");
	happen("ok data=new");
	source = w.ready;
	CHECK(source && source->type->has_event(source));
	source->type->hold(source);
	end();
	CHECK(!source->type->has_event(source));
	CHECK(!source->type->next_event(source, &delivery));
	source->type->drop(source);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(lowest_is_read_and_told_and_followed),
		TEST(others_wake_nobody),
		TEST(leader_that_changes_its_data_is_told_again),
		TEST(leader_that_goes_before_it_is_read_is_never_told),
		TEST(empty_directory_is_watched_for_a_child),
		TEST(missing_directory_is_waited_for),
		TEST(missing_chroot_is_an_error_and_looked_for_again),
		TEST(who_came_at_the_end_of_the_sequence_leads_nobody),
		TEST(what_cannot_be_seen_is_said_once_and_tried_again),
		TEST(after_a_reconnect_the_leader_is_read_not_listed),
		TEST(older_replies_mean_nothing),
		TEST(closed_session_and_refused_auth_end_it),
		TEST(closed_observer_tells_nothing_more),
		{0},
	};

	return check_main("observer", tests, argc, argv);
}
