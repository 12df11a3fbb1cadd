/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of watched paths: what is reserved, what is left behind, and who is refused. */
#include "watched.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "hub.h"

static struct zkl__watched w;

static void begin(void)
{
	memset(&w, 0, sizeof w);
}

static void leave(const char *name, bool lasting, uint64_t party, uint32_t id)
{
	struct zkl__watch watch = {zkl__watched_key("/a", name, lasting), party, id, zkl__watched_size(10)};

	zkl__watched_leave(&w, &watch);
}

static void finish(void)
{
	zkl__watched_forget(&w);
	CHECK_INT(w.bytes, 0);
	CHECK_INT(w.left_count, 0);
}

/* ---- what is left behind ------------------------------------------------------------------------------------------- */

static void same_path_counts_once(void)
{
	begin();
	leave("x", true, 1, 1);
	leave("x", true, 2, 1);
	CHECK_INT(w.bytes, 14);
	leave("y", true, 3, 1);
	CHECK_INT(w.bytes, 28);
	finish();
}

/* The client keeps watches of the two kinds apart. */
static void both_kinds_count(void)
{
	begin();
	leave("x", true, 1, 1);
	leave("x", false, 2, 1);
	CHECK_INT(w.bytes, 28);
	finish();
}

static void nothing_is_left_by_who_had_no_watch(void)
{
	struct zkl__watch none = {0};

	begin();
	zkl__watched_leave(&w, &none);
	CHECK_INT(w.bytes, 0);
	finish();
}

static void deletion_fires_both_kinds_and_a_change_only_one(void)
{
	begin();
	leave("x", true, 1, 1);
	leave("x", false, 2, 1);
	zkl__watched_fired(&w, NULL, "/a", "x", false);
	CHECK_INT(w.bytes, 14);
	zkl__watched_fired(&w, NULL, "/a", "x", false);
	CHECK_INT(w.bytes, 14);
	zkl__watched_fired(&w, NULL, "/a", "x", true);
	CHECK_INT(w.bytes, 0);
	leave("x", true, 1, 1);
	leave("x", false, 2, 1);
	zkl__watched_fired(&w, NULL, "/a", "x", true);
	CHECK_INT(w.bytes, 0);
	finish();
}

static void same_name_elsewhere_fires_nothing(void)
{
	begin();
	leave("x", true, 1, 1);
	zkl__watched_fired(&w, NULL, "/b", "x", true);
	zkl__watched_fired(&w, NULL, "/a/x", "", true);
	zkl__watched_fired(&w, NULL, "/a", "xx", true);
	CHECK_INT(w.bytes, 14);
	finish();
}

static void refused_request_watches_nothing(void)
{
	begin();
	leave("x", true, 7, 3);
	zkl__watched_refused(&w, 7, 2);
	zkl__watched_refused(&w, 8, 3);
	CHECK_INT(w.bytes, 14);
	zkl__watched_refused(&w, 7, 3);
	CHECK_INT(w.bytes, 0);
	finish();
}

static void many_are_told_apart(void)
{
	char name[16];

	begin();
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "%d", i);
		leave(name, true, 1, 1);
	}
	CHECK_INT(w.bytes, 14000);
	for (int i = 999; i >= 0; i -= 2) {
		snprintf(name, sizeof name, "%d", i);
		zkl__watched_fired(&w, NULL, "/a", name, true);
	}
	CHECK_INT(w.bytes, 7000);
	CHECK_INT(w.left_count, 500);
	finish();
}

/* ---- on a hub -------------------------------------------------------------------------------------------------------- */

static struct zkl__hub hub;
static int             sent;

static void send(void *world, uint64_t party, const struct zkl__request *request)
{
	(void)world;
	(void)party;
	(void)request;
	sent++;
}

static const struct zkl__port port = {.send = send};

static void hear_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	(void)party;
	(void)reply;
}

static const struct zkl__party_type type = {.reply = hear_reply};

static void begin_hub(void)
{
	zkl__hub_init(&hub, &port, NULL);
	hub.chroot_length = 5;
}

static void ask(struct zkl__party *party, enum zkl__op op, uint32_t id, const char *name)
{
	struct zkl__request request = {.op = op, .id = id, .directory = "/a", .name = name};

	zkl__hub_send(&hub, party, &request);
}

static void answer(uint64_t party, enum zkl__op op, uint32_t id, enum zkl__result result)
{
	struct zkl__reply reply = {.op = op, .id = id, .result = result};

	zkl__hub_reply(&hub, party, &reply);
}

static void room_is_reserved_from_join_to_part(void)
{
	struct zkl__party party = {.type = &type, .reserved = ZKL__WATCHED_MAX - 100};
	zkl_error         error = {0};

	begin_hub();
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	CHECK_INT(zkl__hub_check_room(&hub, 100, "/a", &error), 0);
	CHECK_INT(zkl__hub_check_room(&hub, 101, "/a", &error), ZKL_ENOMEM);
	CHECK_STR(error.message, "use another session for /a: this one would have too many nodes to watch");
	zkl__hub_reserve(&hub, &party, 50);
	CHECK_INT(zkl__hub_check_room(&hub, ZKL__WATCHED_MAX - 50, "/a", NULL), 0);
	CHECK_INT(zkl__hub_check_room(&hub, ZKL__WATCHED_MAX - 49, "/a", NULL), ZKL_ENOMEM);
	zkl__hub_part(&hub, &party);
	CHECK_INT(hub.watched.bytes, 0);
	zkl__hub_clear(&hub);
}

static void who_leaves_a_watch_leaves_its_bytes(void)
{
	struct zkl__party party = {.type = &type};

	begin_hub();
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	ask(&party, ZKL__LIST, 1, NULL); /* watches nothing */
	ask(&party, ZKL__WATCH, 2, "before");
	ask(&party, ZKL__WATCH, 3, "before");
	CHECK_INT(hub.watched.bytes, 0);
	ask(&party, ZKL__WATCH, 4, "another");
	CHECK_INT(hub.watched.bytes, 5 + 2 + 1 + 6 + 4);
	zkl__hub_part(&hub, &party);
	CHECK_INT(hub.watched.bytes, 5 + 2 + 1 + 6 + 4 + 5 + 2 + 1 + 7 + 4);
	zkl__hub_watch(&hub, 0, true, "/a", "before");
	zkl__hub_watch(&hub, 99, true, "/a", "another");
	CHECK_INT(hub.watched.bytes, 0);
	zkl__hub_clear(&hub);
}

static void watch_that_fired_or_was_refused_leaves_nothing(void)
{
	static const enum zkl__result no[] = {ZKL__NO_NODE, ZKL__DENIED, ZKL__REFUSED};
	struct zkl__party             party = {.type = &type};

	begin_hub();
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	ask(&party, ZKL__WATCH, 1, "x");
	zkl__hub_watch(&hub, zkl__watcher(party.id), true, "/a", "x");
	ask(&party, ZKL__WATCH_MARK, 2, "y");
	zkl__hub_watch(&hub, zkl__watcher(party.id), false, "/a", "y");
	for (uint32_t i = 0; i < COUNT(no); i++) {
		ask(&party, ZKL__WATCH, 10 + i, "z");
		answer(party.id, ZKL__WATCH, 10 + i, no[i]);
	}
	zkl__hub_part(&hub, &party);
	CHECK_INT(hub.watched.bytes, 0);
	/* also where the answer comes to who has left */
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	ask(&party, ZKL__WATCH, 20, "z");
	zkl__hub_part(&hub, &party);
	CHECK(hub.watched.bytes > 0);
	answer(party.id, ZKL__WATCH, 20, ZKL__UNKNOWN); /* an older one may be there */
	CHECK(hub.watched.bytes > 0);
	answer(party.id, ZKL__WATCH, 20, ZKL__NO_NODE);
	CHECK_INT(hub.watched.bytes, 0);
	zkl__hub_clear(&hub);
}

/* A change behind a watch for deletion alone; a watch for a node that is not there yet. */
static void watch_that_lasts_is_left_behind(void)
{
	struct zkl__party party = {.type = &type};

	begin_hub();
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	ask(&party, ZKL__WATCH, 1, "x");
	zkl__hub_watch(&hub, zkl__watcher(party.id), false, "/a", "x");
	zkl__hub_part(&hub, &party);
	CHECK_INT(hub.watched.bytes, 5 + 2 + 1 + 1 + 4);
	zkl__hub_expired(&hub);
	CHECK_INT(zkl__hub_join(&hub, &party), 0);
	ask(&party, ZKL__FIND_WATCH, 1, "x");
	answer(party.id, ZKL__FIND_WATCH, 1, ZKL__NO_NODE);
	zkl__hub_part(&hub, &party);
	CHECK_INT(hub.watched.bytes, 5 + 2 + 1 + 1 + 4);
	zkl__hub_clear(&hub);
}

static void end_of_the_session_forgets_watches_and_keeps_reservations(void)
{
	struct zkl__party gone = {.type = &type}, stays = {.type = &type, .reserved = 40};

	begin_hub();
	CHECK_INT(zkl__hub_join(&hub, &gone), 0);
	CHECK_INT(zkl__hub_join(&hub, &stays), 0);
	ask(&gone, ZKL__WATCH, 1, "x");
	ask(&stays, ZKL__WATCH, 1, "y");
	zkl__hub_part(&hub, &gone);
	zkl__hub_expired(&hub);
	CHECK_INT(hub.watched.bytes, 40);
	zkl__hub_part(&hub, &stays);
	CHECK_INT(hub.watched.bytes, 0);
	zkl__hub_clear(&hub);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(same_path_counts_once),
	                                          TEST(both_kinds_count),
	                                          TEST(nothing_is_left_by_who_had_no_watch),
	                                          TEST(deletion_fires_both_kinds_and_a_change_only_one),
	                                          TEST(same_name_elsewhere_fires_nothing),
	                                          TEST(refused_request_watches_nothing),
	                                          TEST(many_are_told_apart),
	                                          TEST(room_is_reserved_from_join_to_part),
	                                          TEST(who_leaves_a_watch_leaves_its_bytes),
	                                          TEST(watch_that_fired_or_was_refused_leaves_nothing),
	                                          TEST(watch_that_lasts_is_left_behind),
	                                          TEST(end_of_the_session_forgets_watches_and_keeps_reservations),
	                                          {0}};

	return check_main("watched", tests, argc, argv);
}
