/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <stdio.h>

static const char *const names[PARTIES] = {"ours", "ahead", "ahead too", "witness"};

int64_t session_ms(void)
{
	return 15 * tick_ms();
}

/* A yes of the other and then one of ours, which began before: both held at once. */
static void look_for_overlap(const zkl_event *ev, recorder *r)
{
	party *granted = (party *)r;
	scene *s = granted->scene;
	if (ev->type != ZKL_EV_GRANTED)
		return;
	for (int i = 0; i < PARTIES; i++) {
		party   *other = &s->parties[i];
		uint64_t token = atomic_load(&other->token);
		if (other != granted && token != 0 && contender_check(other->handle, token) > 0 &&
		    contender_check(granted->handle, ev->grant->token) > 0) {
			fprintf(stderr, "%s is granted %llu while %s holds %llu\n", r->name,
			        (unsigned long long)ev->grant->token, other->events.name, (unsigned long long)token);
			atomic_fetch_add(&s->overlaps, 1);
		}
		if (other != granted && token >= ev->grant->token) {
			fprintf(stderr, "%s is granted %llu after %llu\n", r->name,
			        (unsigned long long)ev->grant->token, (unsigned long long)token);
			atomic_fetch_add(&s->overlaps, 1);
		}
	}
	atomic_store(&granted->token, ev->grant->token);
}

void party_join(scene *s, int who, unsigned flags)
{
	party       *p = &s->parties[who];
	zkl_session *session = who == OURS ? s->session : s->others;
	if (s->election)
		p->handle.election = election_new(session, s->path.text, flags, &p->events);
	else
		p->handle.lock = lock_new(session, s->path.text, &p->events);
}

void party_start(scene *s, int who, int64_t timeout_ms)
{
	contender c = s->parties[who].handle;
	EXPECT_RC(s->election ? zkl_election_campaign(c.election, NULL) : zkl_lock_start(c.lock, timeout_ms, NULL),
	          ZKL_OK);
}

void party_let_go(scene *s, int who)
{
	contender c = s->parties[who].handle;
	int       rc = s->election ? zkl_election_resign(c.election, 0, NULL) : zkl_lock_release(c.lock, 0, NULL);
	EXPECT_TRUE(rc == ZKL_OK || rc == ZKL_ENOTHELD);
	s->parties[who].not_held += rc == ZKL_ENOTHELD;
}

int party_count(scene *s, int who, zkl_event_type type)
{
	return recorder_count(&s->parties[who].events, type);
}

void party_await(scene *s, int who, zkl_event_type type, seen *ret)
{
	EXPECT_TRUE(recorder_wait(&s->parties[who].events, type, 1, ENOUGH_MS, ret));
}

void party_hold(scene *s, int who)
{
	party_start(s, who, ZKL_FOREVER);
	party_await(s, who, ZKL_EV_GRANTED, NULL);
	net_settled_requests(&s->way);
}

void party_queue(scene *s, int who)
{
	party_start(s, who, ZKL_FOREVER);
	party_await(s, who, ZKL_EV_WAITING, NULL);
	net_settled_requests(&s->way);
}

void expect_nodes(scene *s, int count)
{
	EVENTUALLY(zkclient_count(observer(), s->path.text) == count, ENOUGH_MS);
}

void scene_open(scene *s, bool election, size_t ways)
{
	*s = (scene){.election = election, .path = new_path(), .usable = true};
	net_open(&s->way, 1, ways);
	for (size_t i = 1; i < ways; i++)
		proxy_set_door(s->way.at[i], PROXY_REFUSING);
	s->session = session_open(s->way.servers, session_ms());
	s->others = session_open(all_servers(), 20 * tick_ms());
	for (int i = 0; i < PARTIES; i++) {
		party *p = &s->parties[i];
		p->events = (recorder)RECORDER(names[i]);
		p->events.then = look_for_overlap;
		p->scene = s;
		if (i != OURS)
			party_join(s, i, 0);
	}
	EVENTUALLY(session_timeout_ms(s->session) > 0, ENOUGH_MS);
	net_set_door(&s->way, PROXY_OPEN);
}

bool scene_holds(scene *s)
{
	return !s->closing && party_count(s, OURS, ZKL_EV_GRANTED) > 0 && party_count(s, OURS, ZKL_EV_ENDED) == 0;
}

/* Who holds lets go only when somebody waits. */
static void hand_over(scene *s)
{
	if (party_count(s, WITNESS, ZKL_EV_GRANTED) == 0)
		party_start(s, WITNESS, ZKL_FOREVER);
	if (scene_holds(s)) {
		EVENTUALLY(party_count(s, WITNESS, ZKL_EV_WAITING) + party_count(s, WITNESS, ZKL_EV_GRANTED) > 0,
		           ENOUGH_MS);
		party_let_go(s, OURS);
	}
	party_await(s, WITNESS, ZKL_EV_GRANTED, NULL);
	expect_nodes(s, 1);
	party_let_go(s, WITNESS);
	party_await(s, WITNESS, ZKL_EV_ENDED, NULL);
	expect_nodes(s, 0);
}

static void use_again(scene *s)
{
	party *ours = &s->parties[OURS];
	int    grants = party_count(s, OURS, ZKL_EV_GRANTED), ends = party_count(s, OURS, ZKL_EV_ENDED);
	party_start(s, OURS, ZKL_FOREVER);
	EXPECT_TRUE(recorder_wait(&ours->events, ZKL_EV_GRANTED, grants + 1, ENOUGH_MS, NULL));
	party_let_go(s, OURS);
	EXPECT_TRUE(recorder_wait(&ours->events, ZKL_EV_ENDED, ends + 1, ENOUGH_MS, NULL));
	expect_nodes(s, 0);
}

void scene_prove(scene *s)
{
	hand_over(s);
	if (s->usable) {
		/* The attempt before may not have heard yet that its node is gone. */
		if (party_count(s, OURS, ZKL_EV_WAITING) + party_count(s, OURS, ZKL_EV_GRANTED) > 0)
			party_await(s, OURS, ZKL_EV_ENDED, NULL);
		use_again(s);
	}
	EXPECT_INT(atomic_load(&s->overlaps), 0);
	EXPECT_INT(party_count(s, OURS, ZKL_EV_LOST), s->parties[OURS].not_held);
	EXPECT_INT(zkclient_count(observer(), s->path.text), 0);
	if (CU_get_number_of_failures() > 0)
		for (int i = 0; i < PARTIES; i++)
			recorder_print(&s->parties[i].events);
}

void scene_close(scene *s)
{
	for (int i = 0; i < PARTIES; i++) {
		zkl_lock_free(s->parties[i].handle.lock);
		zkl_election_free(s->parties[i].handle.election);
		recorder_free(&s->parties[i].events);
	}
	if (!s->closing)
		zkl_session_close(s->session, ENOUGH_MS);
	zkl_session_close(s->others, ENOUGH_MS);
	net_close(&s->way);
}
