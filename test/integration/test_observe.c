/* SPDX-License-Identifier: Apache-2.0 */
/* Who observes an election: what it is told, and what that costs the servers. */
#include "harness.h"

#include <string.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000

typedef struct observing {
	net           way;
	zkl_session  *session;
	zkl_election *election;
	recorder      events;
} observing;

static void observing_open(observing *o, const char *path)
{
	*o = (observing){.events = RECORDER("observer")};
	net_open(&o->way, 1, 1);
	o->session = session_open(o->way.servers, SESSION_MS);
	o->election = election_new(o->session, path, ZKL_OBSERVE, &o->events);
}

static void observing_close(observing *o)
{
	zkl_election_free(o->election);
	EXPECT_RC(zkl_session_close(o->session, ENOUGH_MS), ZKL_OK);
	net_close(&o->way);
	recorder_free(&o->events);
}

static node candidate(const char *path)
{
	return foreign_contender(path, "_c_12345678-1234-4234-8234-123456789012-latch-");
}

static uint64_t token_of(const char *path, const node *n)
{
	struct Stat directory;
	EXPECT_INT(zkclient_stat(observer(), path, &directory), ZOK);
	return (uint64_t)directory.czxid + strtoull(n->path + strlen(n->path) - 10, NULL, 10);
}

static void observer_is_told_the_present_leader_first_and_each_change(void)
{
	lock_path path = new_path();
	node      first = candidate(path.text), second = candidate(path.text);
	observing o;
	seen      leader = {0};
	zkl_peer  peer = {0};
	observing_open(&o, path.text);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &first), ENOUGH_MS, &leader));
	EXPECT_INT(recorder_total(&o.events), 1);
	EXPECT_RC(zkl_election_leader(o.election, &peer), 1);
	EXPECT_INT((int64_t)peer.epoch, 0);
	EXPECT_INT(peer.waiting, 1);
	EXPECT_INT(zkclient_delete(observer(), first.path), ZOK);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &second), ENOUGH_MS, &leader));
	EXPECT_INT((int64_t)leader.epoch, 1);
	EXPECT_INT(zkclient_delete(observer(), second.path), ZOK);
	EXPECT_TRUE(recorder_wait_leader(&o.events, 0, ENOUGH_MS, NULL));
	EXPECT_RC(zkl_election_leader(o.election, &peer), 0);
	node third = candidate(path.text);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &third), ENOUGH_MS, NULL));
	EXPECT_INT(recorder_total(&o.events), 4);
	observing_close(&o);
}

static void observer_sees_what_the_leader_shows_and_its_changes(void)
{
	lock_path path = new_path();
	node      leader = candidate(path.text);
	observing o;
	zkl_peer  peer = {0};
	EXPECT_INT(zkclient_set(observer(), leader.path, "web\t1", 5), ZOK);
	observing_open(&o, path.text);
	EVENTUALLY(zkl_election_leader(o.election, &peer) == 1, ENOUGH_MS);
	EXPECT_TRUE(strcmp(peer.id, "web\\x091") == 0 && peer.data_len == 5 && memcmp(peer.data, "web\t1", 5) == 0);
	EXPECT_INT(zkclient_set(observer(), leader.path, "web2", 4), ZOK);
	EVENTUALLY(zkl_election_leader(o.election, &peer) == 1 && strcmp(peer.id, "web2") == 0, ENOUGH_MS);
	observing_close(&o);
}

static void observer_of_a_path_that_is_not_there_waits_for_it(void)
{
	lock_path   path = new_path();
	char        below[200];
	observing   o;
	struct Stat stat;
	snprintf(below, sizeof below, "%s/of/a/service", path.text);
	observing_open(&o, below);
	for (int i = 0; i < 2; i++) { /* also when it was deleted */
		EXPECT_TRUE(recorder_wait_leader(&o.events, 0, ENOUGH_MS, NULL));
		EXPECT_INT(zkclient_stat(observer(), path.text, &stat), ZNONODE); /* it makes nothing */
		EXPECT_INT(zkclient_make_directory(observer(), below), ZOK);
		node leader = candidate(below);
		EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(below, &leader), ENOUGH_MS, NULL));
		EXPECT_INT(zkclient_delete_tree(observer(), path.text), ZOK);
	}
	EXPECT_TRUE(recorder_wait_leader(&o.events, 0, ENOUGH_MS, NULL));
	observing_close(&o);
}

/* A change costs one list and one read, candidates who come and go behind the leader cost nothing, a reconnect one read. */
static void observer_asks_once_per_change_and_never_polls(void)
{
	lock_path path = new_path();
	node      all[5];
	observing o;
	for (int i = 0; i < 5; i++)
		all[i] = candidate(path.text);
	observing_open(&o, path.text);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &all[0]), ENOUGH_MS, NULL));
	EXPECT_INT(net_requests(&o.way, OP_ANY), 2);
	EXPECT_INT(net_requests(&o.way, OP_GET_CHILDREN2), 1);
	net_reset_counts(&o.way);
	EXPECT_INT(zkclient_delete(observer(), all[1].path), ZOK);
	node late = candidate(path.text);
	EXPECT_INT(zkclient_delete(observer(), all[4].path), ZOK);
	THROUGHOUT(net_requests(&o.way, OP_ANY) == 0, SESSION_MS);
	EXPECT_INT(zkclient_delete(observer(), all[0].path), ZOK);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &all[2]), ENOUGH_MS, NULL));
	EXPECT_INT(net_requests(&o.way, OP_GET_CHILDREN2), 1);
	EXPECT_INT(net_requests(&o.way, OP_GET_DATA), 1);
	net_reset_counts(&o.way);
	net_cut(&o.way);
	EVENTUALLY(net_requests(&o.way, OP_GET_DATA) == 1, ENOUGH_MS);
	THROUGHOUT(net_requests(&o.way, OP_GET_CHILDREN2) == 0 && net_requests(&o.way, OP_GET_DATA) == 1, SESSION_MS);
	EXPECT_INT(recorder_total(&o.events), 2); /* nothing has changed */
	EXPECT_INT(zkclient_delete(observer(), all[3].path), ZOK);
	EXPECT_INT(zkclient_delete(observer(), all[2].path), ZOK);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &late), ENOUGH_MS, NULL));
	EXPECT_INT(net_requests(&o.way, OP_GET_CHILDREN2), 1);
	observing_close(&o);
}

static void observer_sees_changes_that_it_was_away_for(void)
{
	lock_path path = new_path();
	node      first = candidate(path.text), second = candidate(path.text);
	observing o;
	zkl_peer  peer = {0};
	observing_open(&o, path.text);
	EXPECT_TRUE(recorder_wait_leader(&o.events, token_of(path.text, &first), ENOUGH_MS, NULL));
	for (int i = 0; i < 2; i++) {
		if (i == 0) {
			net_set_door(&o.way, PROXY_REFUSING);
			net_cut(&o.way);
		} else {
			net_expire(&o.way); /* in a new session, too */
			net_set_door(&o.way, PROXY_REFUSING);
			net_cut(&o.way);
		}
		EXPECT_INT(zkclient_delete(observer(), i ? second.path : first.path), ZOK);
		EXPECT_RC(zkl_election_leader(o.election, &peer), 1); /* as last seen */
		net_set_door(&o.way, PROXY_OPEN);
		EXPECT_TRUE(recorder_wait_leader(&o.events, i ? 0 : token_of(path.text, &second), ENOUGH_MS, NULL));
	}
	observing_close(&o);
}

static void leader_observes_itself(void)
{
	lock_path path = new_path();
	observing o;
	seen      term = {0}, leader = {0};
	observing_open(&o, path.text);
	EXPECT_RC(zkl_election_campaign(o.election, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&o.events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	EXPECT_TRUE(recorder_wait_leader(&o.events, term.token, ENOUGH_MS, &leader));
	EXPECT_INT((int64_t)leader.epoch, (int64_t)term.epoch);
	EXPECT_RC(zkl_election_resign(o.election, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait_leader(&o.events, 0, ENOUGH_MS, NULL));
	observing_close(&o);
}

static void what_cannot_be_observed_is_said_and_tried_again(void)
{
	lock_path path = new_path();
	char      at[600];
	recorder  events = RECORDER("observer");
	zkl_peer  peer;
	snprintf(at, sizeof at, "%s%s", all_servers(), path.text);
	zkl_session  *s = session_open(at, SESSION_MS); /* its chroot is missing */
	zkl_election *e = election_new(s, "/service", ZKL_OBSERVE, &events);
	EVENTUALLY(zkl_election_leader(e, &peer) == ZKL_EPATH, ENOUGH_MS);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EVENTUALLY(zkl_election_leader(e, &peer) == 0, SESSION_MS + ENOUGH_MS);
	EVENTUALLY(recorder_count(&events, ZKL_EV_LEADER) == 2, ENOUGH_MS);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
}

/* With the session's auth the election is its own to change and everybody's to see. */
static void everybody_may_read_what_credentials_made(void)
{
	lock_path           path = new_path();
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;
	recorder            events = RECORDER("with auth"), other_events = RECORDER("without");
	seen                term = {0}, ended = {0};
	observing           o;
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
	options.auth = "digest:owner:secret";
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_election *e = election_new(s, path.text, 0, &events);
	EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	observing_open(&o, path.text);
	EXPECT_TRUE(recorder_wait_leader(&o.events, term.token, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_delete(observer(), term.node), ZNOAUTH);
	EXPECT_INT(zkclient_set(observer(), term.node, "x", 1), ZNOAUTH);
	zkl_election *other = election_new(o.session, path.text, 0, &other_events);
	EXPECT_RC(zkl_election_campaign(other, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&other_events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_INT(ended.code, ZKL_EACCES);
	zkl_election_free(other);
	observing_close(&o);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&other_events);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
}

static void free_in_the_callback(const zkl_event *ev, recorder *r)
{
	(void)ev;
	zkl_election_free(r->user);
	r->user = NULL;
	atomic_store(&r->flag, 1);
}

static void observer_is_freed_in_its_own_callback(void)
{
	lock_path    path = new_path();
	node         leader = candidate(path.text);
	recorder     events = RECORDER("freed in its callback");
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	events.then = free_in_the_callback;
	pthread_mutex_lock(&events.mutex); /* no event before user is set */
	events.user = election_new(s, path.text, ZKL_OBSERVE, &events);
	pthread_mutex_unlock(&events.mutex);
	EVENTUALLY(atomic_load(&events.flag) == 1, ENOUGH_MS);
	EXPECT_INT(zkclient_delete(observer(), leader.path), ZOK);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(recorder_total(&events), 1);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(observer_is_told_the_present_leader_first_and_each_change, 60)},
		{TEST(observer_sees_what_the_leader_shows_and_its_changes, 60)},
		{TEST(observer_of_a_path_that_is_not_there_waits_for_it, 60)},
		{TEST(observer_asks_once_per_change_and_never_polls, 60)},
		{TEST(observer_sees_changes_that_it_was_away_for, 60)},
		{TEST(leader_observes_itself, 60)},
		{TEST(what_cannot_be_observed_is_said_and_tried_again, 60)},
		{TEST(everybody_may_read_what_credentials_made, 60)},
		{TEST(observer_is_freed_in_its_own_callback, 60)},
		{0},
	};
	return harness_main(argc, argv, "observe", tests);
}
