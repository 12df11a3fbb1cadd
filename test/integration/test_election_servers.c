/* SPDX-License-Identifier: Apache-2.0 */
/* Elections while servers are restarted, killed and cut off. These tests have the ensemble to themselves. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000
#define RESTART_MS 60000 /* for servers to come up, on a busy machine */
#define CANDIDATES 5

/* What all candidates see of each other, by one clock. */
typedef struct house {
	atomic_int      leading; /* how many think at this moment that they lead */
	atomic_int      overlaps, terms;
	pthread_mutex_t mutex;
	uint64_t        last_epoch, last_token;
	int             out_of_order;
	atomic_llong    last_yes_ns; /* of whoever it was */
	atomic_bool     stop;
} house;

typedef struct candidate {
	pthread_t     thread;
	house        *house;
	zkl_session  *session;
	zkl_election *election;
	int           rc;
} candidate;

static void note_term(house *h, const zkl_grant *grant)
{
	pthread_mutex_lock(&h->mutex);
	if (atomic_fetch_add(&h->terms, 1) > 0 && (grant->epoch <= h->last_epoch || grant->token <= h->last_token))
		h->out_of_order++;
	h->last_epoch = grant->epoch;
	h->last_token = grant->token;
	pthread_mutex_unlock(&h->mutex);
}

/* Leads for a while, or until check() says no, which ends the lead before the function returns. */
static int term(const zkl_grant *grant, void *user)
{
	candidate *c = user;
	house     *h = c->house;
	int64_t    end_ms = now_ms() + SESSION_MS / 2;
	note_term(h, grant);
	if (atomic_fetch_add(&h->leading, 1) != 0)
		atomic_fetch_add(&h->overlaps, 1);
	while (!atomic_load(&h->stop) && now_ms() < end_ms && zkl_election_check(c->election, grant->token) > 0) {
		atomic_store(&h->last_yes_ns, now_ns());
		poll_pause();
	}
	atomic_fetch_sub(&h->leading, 1);
	return atomic_load(&h->stop);
}

static void *run(void *arg)
{
	candidate *c = arg;
	c->rc = zkl_election_run(c->election, term, c, NULL);
	return NULL;
}

static void candidates_open(candidate *all, house *h, const char *path)
{
	*h = (house){.mutex = PTHREAD_MUTEX_INITIALIZER};
	for (int i = 0; i < CANDIDATES; i++) {
		all[i] = (candidate){.house = h, .session = session_open(all_servers(), SESSION_MS)};
		all[i].election = election_new(all[i].session, path, ZKL_OBSERVE, NULL);
		CU_ASSERT_FATAL(pthread_create(&all[i].thread, NULL, run, &all[i]) == 0);
	}
	EVENTUALLY(zkclient_count(observer(), path) == CANDIDATES, ENOUGH_MS);
}

static void candidates_close(candidate *all, house *h, const char *path)
{
	atomic_store(&h->stop, true);
	for (int i = 0; i < CANDIDATES; i++) {
		pthread_join(all[i].thread, NULL);
		EXPECT_INT(all[i].rc, 1);
		zkl_election_free(all[i].election);
		EXPECT_RC(zkl_session_close(all[i].session, ENOUGH_MS), ZKL_OK);
	}
	EXPECT_INT(atomic_load(&h->overlaps), 0);
	EXPECT_INT(h->out_of_order, 0);
	EXPECT_INT(zkclient_count(observer(), path), 0);
}

static void expect_new_terms(house *h, int64_t within_ms)
{
	int before = atomic_load(&h->terms);
	EVENTUALLY(atomic_load(&h->terms) > before + 1, within_ms);
}

static void rolling_restart_under_five_candidates_never_has_two_leaders(void)
{
	lock_path path = new_path();
	candidate all[CANDIDATES];
	house     shared;
	candidates_open(all, &shared, path.text);
	expect_new_terms(&shared, ENOUGH_MS);
	for (int i = 1; i <= (int)server_count(); i++) {
		EXPECT_INT(ensemble("kill", i), 0);
		expect_new_terms(&shared, RESTART_MS);
		EXPECT_INT(ensemble("start", i), 0);
		EXPECT_INT(ensemble("wait", 0), 0);
		expect_new_terms(&shared, RESTART_MS);
	}
	candidates_close(all, &shared, path.text);
}

static void ensemble_that_loses_its_leader_twice_has_one_leader_of_ours_again(void)
{
	lock_path path = new_path();
	candidate all[CANDIDATES];
	house     shared;
	candidates_open(all, &shared, path.text);
	for (int i = 0; i < 2; i++) {
		int leader = ensemble_leader();
		EXPECT_TRUE(leader > 0);
		EXPECT_INT(ensemble("kill", leader), 0);
		EVENTUALLY(ensemble_leader() > 0, RESTART_MS);
		/* A server's leader is there: ours is within a session timeout and two ticks, and more terms follow. */
		expect_new_terms(&shared, 2 * SESSION_MS + 4 * tick_ms());
		EXPECT_INT(ensemble("start", leader), 0);
		EXPECT_INT(ensemble("wait", 0), 0);
	}
	candidates_close(all, &shared, path.text);
}

/* Servers that are stopped, and not dead, answer nobody and break no connection: a follower, then the servers' leader. */
static void stopped_servers_never_make_two_leaders(void)
{
	lock_path path = new_path();
	candidate all[CANDIDATES];
	house     shared;
	candidates_open(all, &shared, path.text);
	for (int i = 0; i < 2; i++) {
		int server = i ? ensemble_leader() : ensemble_leader() % 3 + 1;
		EXPECT_INT(ensemble("pause", server), 0);
		EVENTUALLY(ensemble_leader() > 0, RESTART_MS);
		expect_new_terms(&shared, RESTART_MS);
		EXPECT_INT(ensemble("resume", server), 0);
		EXPECT_INT(ensemble("wait", 0), 0);
	}
	candidates_close(all, &shared, path.text);
}

static bool all_see(zkl_election **seeing, uint64_t token)
{
	for (int i = 0; i < (int)server_count(); i++) {
		zkl_peer leader;
		if (zkl_election_leader(seeing[i], &leader) != 1 || leader.token != token)
			return false;
	}
	return true;
}

/* The view of a server that was cut off is old. Once it is back, all agree on the leader and its epoch. */
static void observers_of_all_servers_agree_after_a_heal(void)
{
	lock_path     path = new_path();
	zkl_session  *s[3], *leading;
	zkl_election *seeing[3];
	recorder      events = RECORDER("leads on"), other_events = RECORDER("next");
	seen          term = {0};
	int           leader = ensemble_leader(), cut_off = leader % 3 + 1;
	char          others[200];
	if (server_count() != 3 || ensemble("heal", 1) == 77)
		SKIP("this backend cannot cut a server off its peers");
	for (int i = 0; i < 3; i++) {
		s[i] = session_open(servers[i], SESSION_MS);
		seeing[i] = election_new(s[i], path.text, ZKL_OBSERVE, NULL);
	}
	snprintf(others, sizeof others, "%s,%s", servers[leader - 1], servers[(leader + 1) % 3]);
	leading = session_open(others, SESSION_MS);
	zkl_election *first = election_new(leading, path.text, 0, &events),
		     *second = election_new(leading, path.text, 0, &other_events);
	EXPECT_RC(zkl_election_campaign(first, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	EVENTUALLY(all_see(seeing, term.token), ENOUGH_MS);
	EXPECT_INT(ensemble("cut", cut_off), 0);
	EXPECT_RC(zkl_election_campaign(second, NULL), ZKL_OK);
	EXPECT_RC(zkl_election_resign(first, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&other_events, ZKL_EV_GRANTED, 1, ENOUGH_MS, &term));
	EXPECT_TRUE(!all_see(seeing, term.token));
	EXPECT_INT(ensemble("heal", cut_off), 0);
	EXPECT_INT(ensemble("wait", 0), 0);
	/* From here a second is wanted; the observer's client may still be in its pause before it connects again. */
	EVENTUALLY(all_see(seeing, term.token), ENOUGH_MS);
	for (int i = 0; i < 3; i++) {
		zkl_election_free(seeing[i]);
		zkl_session_close(s[i], ENOUGH_MS);
	}
	zkl_election_free(first);
	zkl_election_free(second);
	EXPECT_RC(zkl_session_close(leading, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&other_events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(rolling_restart_under_five_candidates_never_has_two_leaders, 400)},
		{TEST(ensemble_that_loses_its_leader_twice_has_one_leader_of_ours_again, 300)},
		{TEST(stopped_servers_never_make_two_leaders, 300)},
		{TEST(observers_of_all_servers_agree_after_a_heal, 120)},
		{0},
	};
	return harness_main(argc, argv, "election_servers", tests);
}
