/* SPDX-License-Identifier: Apache-2.0 */
/* Elections: candidates, terms, and what is told of them. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000

/* ---- candidates ---- */

typedef struct candidate {
	net           way;
	zkl_session  *session;
	zkl_election *election;
	recorder      events;
} candidate;

/* A candidate in a session of its own, behind a proxy. */
static void candidate_open(candidate *c, const char *path, const char *name)
{
	static size_t opened;
	*c = (candidate){.events = RECORDER(name)};
	net_open(&c->way, opened++ % server_count() + 1, 1);
	c->session = session_open(c->way.servers, SESSION_MS);
	c->election = election_new(c->session, path, 0, &c->events);
}

static void candidate_close(candidate *c)
{
	zkl_election_free(c->election);
	zkl_session_close(c->session, ENOUGH_MS);
	net_close(&c->way);
	recorder_free(&c->events);
}

/* The nth time. */
static bool elected(candidate *c, int nth, seen *term)
{
	return recorder_wait(&c->events, ZKL_EV_GRANTED, nth, ENOUGH_MS, term);
}

/* Whose node does the election consist of? */
static void expect_nodes(const char *path, int count)
{
	EVENTUALLY(zkclient_count(observer(), path) == count, ENOUGH_MS);
}

static void candidates_node_is_named_like_curators_and_holds_the_id_alone(void)
{
	lock_path    path = new_path();
	zkl_options  options = ZKL_OPTIONS_INIT;
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("plain"), named_events = RECORDER("named");
	char         data[200] = "";
	int          len = sizeof data - 1;
	seen         term = {0};
	struct Stat  directory;
	options.data = "10.0.0.1:8080";
	options.data_len = strlen("10.0.0.1:8080");
	options.on_event = recorder_event;
	options.user = &named_events;
	zkl_election *plain = election_new(s, path.text, 0, &events), *named = NULL;
	EXPECT_RC(zkl_election_new(s, path.text, &options, &named, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(plain, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	const char *name = strrchr(term.node, '/') + 1;
	EXPECT_TRUE(strncmp(name, "_c_", 3) == 0 && strlen(name) == 3 + 36 + strlen("-latch-") + 10);
	EXPECT_TRUE(strstr(name, "-latch-0000000000") != NULL);
	EXPECT_INT((int64_t)term.epoch, 0);
	EXPECT_INT(zkclient_stat(observer(), path.text, &directory), ZOK);
	EXPECT_INT((int64_t)term.token, directory.czxid);
	EXPECT_INT(zkclient_get(observer(), term.node, data, &len), ZOK);
	char id[128];
	snprintf(id, sizeof id, ":%d integration_election", (int)getpid());
	EXPECT_TRUE(strstr(data, id) != NULL && strchr(data, '\n') == NULL);
	EXPECT_RC(zkl_election_campaign(named, NULL), ZKL_OK);
	expect_nodes(path.text, 2);
	EXPECT_RC(zkl_election_resign(plain, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&named_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	memset(data, 0, sizeof data);
	len = sizeof data - 1;
	EXPECT_INT(zkclient_get(observer(), term.node, data, &len), ZOK);
	EXPECT_TRUE(strcmp(data, "10.0.0.1:8080") == 0);
	zkl_election_free(plain);
	zkl_election_free(named);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&named_events);
}

/* Curator's LeaderLatch would lose its only watch to a change of the data. */
static void leaders_node_is_never_written_to(void)
{
	lock_path path = new_path();
	candidate a, b;
	seen      term = {0};
	candidate_open(&a, path.text, "first");
	candidate_open(&b, path.text, "second");
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&a, 1, NULL));
	EXPECT_RC(zkl_election_campaign(b.election, NULL), ZKL_OK);
	expect_nodes(path.text, 2);
	EXPECT_RC(zkl_election_resign(a.election, 0, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&b, 1, &term));
	wait_for_full_lease(b.session);
	net_cut(&b.way); /* also not after a reconnect */
	wait_for_full_lease(b.session);
	struct Stat stat;
	EXPECT_INT(zkclient_stat(observer(), term.node, &stat), ZOK);
	EXPECT_INT(stat.version, 0);
	EXPECT_INT(net_requests(&b.way, OP_SET_DATA), 0);
	candidate_close(&a);
	candidate_close(&b);
}

static void epochs_and_tokens_grow_with_each_term(void)
{
	enum { CANDIDATES = 3 };
	lock_path path = new_path();
	candidate all[CANDIDATES];
	seen      last = {0}, term = {0};
	for (int i = 0; i < CANDIDATES; i++) {
		candidate_open(&all[i], path.text, "one of three");
		EXPECT_RC(zkl_election_campaign(all[i].election, NULL), ZKL_OK);
		expect_nodes(path.text, i + 1);
	}
	for (int i = 0; i < 4 * CANDIDATES; i++) {
		candidate *c = &all[i % CANDIDATES]; /* in the order of their nodes */
		EXPECT_TRUE(elected(c, i / CANDIDATES + 1, &term));
		if (i > 0)
			EXPECT_TRUE(term.epoch > last.epoch && term.token > last.token);
		last = term;
		EXPECT_TRUE(zkl_election_check(c->election, term.token) > 0);
		EXPECT_RC(zkl_election_resign(c->election, 0, NULL), ZKL_OK);
		EXPECT_RC(zkl_election_check(c->election, term.token), ZKL_ENOTHELD);
		int waits = recorder_count(&c->events, ZKL_EV_WAITING);
		EXPECT_RC(zkl_election_campaign(c->election, NULL), ZKL_OK); /* at once */
		EXPECT_RC(zkl_election_campaign(c->election, NULL), ZKL_ESTATE);
		EXPECT_TRUE(
			recorder_wait(&c->events, ZKL_EV_WAITING, waits + 1, ENOUGH_MS, NULL)); /* its place is fixed */
	}
	for (int i = 0; i < CANDIDATES; i++)
		candidate_close(&all[i]);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

static void leader_whose_node_is_deleted_is_deposed_and_nothing_begins_by_itself(void)
{
	lock_path path = new_path();
	candidate a, b;
	seen      term = {0}, lost = {0}, ended = {0}, again = {0};
	candidate_open(&a, path.text, "deposed");
	candidate_open(&b, path.text, "next");
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&a, 1, &term));
	EXPECT_RC(zkl_election_campaign(b.election, NULL), ZKL_OK);
	expect_nodes(path.text, 2);
	EXPECT_INT(zkclient_delete(observer(), term.node), ZOK);
	EXPECT_TRUE(recorder_wait(&a.events, ZKL_EV_LOST, 1, ENOUGH_MS, &lost));
	EXPECT_TRUE(strstr(lost.message, "node was deleted") && strstr(lost.message, "resign"));
	EXPECT_INT((int64_t)lost.token, (int64_t)term.token);
	EXPECT_RC(zkl_election_check(a.election, term.token), ZKL_ELOST);
	EXPECT_TRUE(elected(&b, 1, NULL));
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_ESTATE); /* not before it has resigned */
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	EXPECT_RC(zkl_election_resign(a.election, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	EXPECT_TRUE(recorder_wait(&a.events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_INT(ended.code, ZKL_ELOST);
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_OK);
	expect_nodes(path.text, 2);
	EXPECT_RC(zkl_election_resign(b.election, 0, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&a, 2, &again));
	EXPECT_TRUE(again.epoch > term.epoch && again.token > term.token); /* the old leader wins again */
	EXPECT_INT(recorder_count(&a.events, ZKL_EV_LOST), 1);
	candidate_close(&a);
	candidate_close(&b);
}

/* A hundred expiries of the leader's session in a row. */
static void somebody_leads_again_after_each_expiry(void)
{
	lock_path path = new_path();
	candidate all[2];
	int       terms[2] = {0, 0}, leads = 0;
	seen      term = {0}, last = {0}, lost = {0};
	for (int i = 0; i < 2; i++) {
		candidate_open(&all[i], path.text, i ? "b" : "a");
		EXPECT_RC(zkl_election_campaign(all[i].election, NULL), ZKL_OK);
		expect_nodes(path.text, i + 1);
	}
	EXPECT_TRUE(elected(&all[0], ++terms[0], &last));
	for (int i = 0; i < 100; i++) {
		candidate *old = &all[leads], *next = &all[!leads];
		expect_nodes(path.text, 2);
		net_expire(&old->way);
		EXPECT_TRUE(recorder_wait(&next->events, ZKL_EV_GRANTED, ++terms[!leads], SESSION_MS + 2 * tick_ms(),
		                          &term));
		EXPECT_TRUE(term.epoch > last.epoch && term.token > last.token);
		last = term;
		EXPECT_TRUE(recorder_wait(&old->events, ZKL_EV_LOST, i / 2 + 1, ENOUGH_MS, &lost));
		EXPECT_RC(zkl_election_resign(old->election, 0, NULL), ZKL_ENOTHELD);
		EXPECT_RC(zkl_election_campaign(old->election, NULL), ZKL_OK);
		leads = !leads;
	}
	EXPECT_INT(recorder_count(&all[0].events, ZKL_EV_LOST), 50);
	EXPECT_INT(recorder_count(&all[1].events, ZKL_EV_LOST), 50);
	candidate_close(&all[0]);
	candidate_close(&all[1]);
}

/* An expired candidate that waits goes to the tail by itself, or ends where it was told not to. */
static void candidate_whose_session_expires_queues_again_or_ends_as_it_wants(void)
{
	lock_path path = new_path();
	candidate a, b;
	seen      ended = {0};
	candidate_open(&a, path.text, "leader");
	candidate_open(&b, path.text, "waiting");
	recorder      events = RECORDER("does not requeue");
	zkl_election *once = election_new(b.session, path.text, ZKL_NO_REQUEUE, &events);
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&a, 1, NULL));
	EXPECT_RC(zkl_election_campaign(b.election, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(once, NULL), ZKL_OK);
	expect_nodes(path.text, 3);
	net_expire(&b.way);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_INT(ended.code, ZKL_ELOST);
	expect_nodes(path.text, 2);
	EXPECT_RC(zkl_election_resign(a.election, 0, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&b, 1, NULL));
	zkl_election_free(once);
	candidate_close(&a);
	candidate_close(&b);
	recorder_free(&events);
}

static void leader_that_hears_nothing_is_told_stop_ms_before_its_lease_ends(void)
{
	lock_path   path = new_path();
	net         way;
	recorder    events = RECORDER("leader");
	zkl_options options = ZKL_OPTIONS_INIT;
	seen        term = {0}, lost = {0};
	net_open(&way, 1, server_count());
	zkl_session  *s = session_open(way.servers, SESSION_MS);
	zkl_election *e = NULL;
	prober        asking;
	options.on_event = recorder_event;
	options.user = &events;
	options.stop_ms = SESSION_MS / 8;
	EXPECT_RC(zkl_election_new(s, path.text, &options, &e, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	prober_start(&asking, (contender){.election = e}, term.token);
	wait_for_full_lease(s);
	net_hold(&way, PROXY_BOTH);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, 2 * SESSION_MS, &lost));
	EXPECT_TRUE(strstr(lost.message, "not confirmed the session in time") != NULL);
	int64_t proof_ns = net_last_proof_ns(&way);
	/* Within 200 ms of it, and what this machine was late by. */
	EXPECT_RANGE((lost.at_ns - proof_ns) / 1000000, SESSION_MS / 4,
	             late(SESSION_MS * 5 / 8 - SESSION_MS / 8) - 300);
	EXPECT_TRUE(atomic_load(&asking.last_yes_ns) - proof_ns <= (SESSION_MS * 5 / 8) * 1000000);
	EXPECT_TRUE(atomic_load(&asking.last_yes_ns) <= lost.at_ns);
	EXPECT_INT(recorder_count(&events, ZKL_EV_SUSPENDED), 1); /* it was warned */
	prober_stop(&asking);
	EXPECT_INT(atomic_load(&asking.yes_after_no), 0);
	net_hold(&way, 0);
	zkl_election_free(e);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&way);
	recorder_free(&events);
}

static void block_in_granted(const zkl_event *ev, recorder *r)
{
	while (ev->type == ZKL_EV_GRANTED && !atomic_load(&r->flag))
		poll_pause();
}

static void blocked_callback_delays_neither_the_heartbeat_nor_check(void)
{
	lock_path path = new_path();
	candidate a, b;
	seen      term = {0};
	candidate_open(&a, path.text, "blocked");
	candidate_open(&b, path.text, "next");
	a.events.then = block_in_granted;
	EXPECT_RC(zkl_election_campaign(a.election, NULL), ZKL_OK);
	EXPECT_TRUE(elected(&a, 1, &term));
	EXPECT_RC(zkl_election_campaign(b.election, NULL), ZKL_OK);
	THROUGHOUT(zkl_election_check(a.election, term.token) > 0, 2 * SESSION_MS);
	net_hold(&a.way, PROXY_BOTH);
	EVENTUALLY(zkl_election_check(a.election, term.token) == ZKL_ELOST, SESSION_MS); /* the answer is local */
	EXPECT_INT(recorder_count(&b.events, ZKL_EV_GRANTED), 0);
	EXPECT_INT(recorder_count(&a.events, ZKL_EV_LOST), 0);
	atomic_store(&a.events.flag, 1);
	EXPECT_TRUE(recorder_wait(&a.events, ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
	EXPECT_TRUE(elected(&b, 1, NULL));
	net_hold(&a.way, 0);
	candidate_close(&a);
	candidate_close(&b);
}

static void lock_and_election_refuse_each_others_directories(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	recorder      events = RECORDER("candidate");
	zkl_lock     *lock = lock_new(s, path.text, NULL);
	zkl_election *e = election_new(s, path.text, ZKL_OBSERVE, &events);
	zkl_grant     grant;
	zkl_peer      peer;
	zkl_error     error = {0};
	seen          ended = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &ended));
	EXPECT_INT(ended.code, ZKL_EPATH);
	EXPECT_TRUE(strstr(ended.message, path.text) && strstr(ended.message, "a path each"));
	EVENTUALLY(zkl_election_leader(e, &peer) == ZKL_EPATH, ENOUGH_MS);
	expect_nodes(path.text, 1);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_campaign(e, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
	for (int64_t timeout_ms = 0; timeout_ms <= ENOUGH_MS; timeout_ms += ENOUGH_MS) {
		EXPECT_RC(zkl_lock_acquire(lock, timeout_ms, &grant, &error), ZKL_EPATH);
		EXPECT_TRUE(strstr(error.message, "a path each") != NULL);
	}
	EXPECT_RC(zkl_lock_holder(s, path.text, &peer, &error), ZKL_EPATH);
	EXPECT_TRUE(strstr(error.message, "election") != NULL);
	expect_nodes(path.text, 1);
	zkl_lock_free(lock);
	zkl_election_free(e);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
}

static void calls_that_make_no_sense_say_so(void)
{
	lock_path     path = new_path();
	zkl_session  *s = session_open(all_servers(), SESSION_MS);
	zkl_election *e = election_new(s, path.text, 0, NULL), *none = NULL;
	zkl_options   options = ZKL_OPTIONS_INIT;
	zkl_peer      peer;
	zkl_error     error = {0};
	EXPECT_RC(zkl_election_campaign(e, &error), ZKL_EINVAL); /* nobody would hear of it */
	EXPECT_TRUE(strstr(error.message, "on_event") && strstr(error.message, "zkl_election_run"));
	EXPECT_RC(zkl_election_resign(e, 0, &error), ZKL_ENOTHELD);
	EXPECT_RC(zkl_election_leader(e, &peer), ZKL_ESTATE);
	EXPECT_RC(zkl_election_check(e, 0), ZKL_ENOTHELD);
	EXPECT_RC(zkl_election_check(e, 1), ZKL_ENOTHELD);
	EXPECT_RC(zkl_election_run(e, NULL, NULL, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_campaign(NULL, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_run(NULL, NULL, NULL, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_resign(NULL, 0, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_resign(NULL, 1, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_leader(NULL, &peer), ZKL_EINVAL);
	EXPECT_RC(zkl_election_check(NULL, 1), ZKL_EINVAL);
	EXPECT_RC(zkl_election_new(NULL, path.text, NULL, &none, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_new(s, path.text, NULL, NULL, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_new(s, "no/slash", NULL, &none, &error), ZKL_EPATH);
	options.flags = ZKL_OBSERVE << 1;
	EXPECT_RC(zkl_election_new(s, path.text, &options, &none, &error), ZKL_EINVAL);
	EXPECT_TRUE(none == NULL);
	zkl_election_free(NULL);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_RC(zkl_election_campaign(e, &error), ZKL_EINVAL);
	EXPECT_RC(zkl_election_leader(e, &peer), ZKL_ESTATE);
	zkl_election_free(e); /* after its session */
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(candidates_node_is_named_like_curators_and_holds_the_id_alone, 60)},
		{TEST(leaders_node_is_never_written_to, 60)},
		{TEST(epochs_and_tokens_grow_with_each_term, 60)},
		{TEST(leader_whose_node_is_deleted_is_deposed_and_nothing_begins_by_itself, 60)},
		{TEST(somebody_leads_again_after_each_expiry, 300)},
		{TEST(candidate_whose_session_expires_queues_again_or_ends_as_it_wants, 60)},
		{TEST(leader_that_hears_nothing_is_told_stop_ms_before_its_lease_ends, 60)},
		{TEST(blocked_callback_delays_neither_the_heartbeat_nor_check, 120)},
		{TEST(lock_and_election_refuse_each_others_directories, 60)},
		{TEST(calls_that_make_no_sense_say_so, 60)},
		{0},
	};
	return harness_main(argc, argv, "election", tests);
}
