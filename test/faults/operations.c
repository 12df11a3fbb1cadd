/* SPDX-License-Identifier: Apache-2.0 */
#include "operations.h"

#include <stdio.h>

/* ---- acquiring ---- */

static void join(scene *s)
{
	party_join(s, OURS, 0);
}

static void start(scene *s)
{
	party_start(s, OURS, ZKL_FOREVER);
}

static void is_granted(scene *s)
{
	party_await(s, OURS, ZKL_EV_GRANTED, NULL);
}

static void join_behind_another(scene *s)
{
	join(s);
	party_hold(s, AHEAD);
}

static void is_queued_once(scene *s)
{
	party_await(s, OURS, ZKL_EV_WAITING, NULL);
	expect_nodes(s, 2);
}

static void first_makes_way(scene *s)
{
	party_let_go(s, AHEAD);
	is_granted(s);
}

/* ---- the grant of a waiter ---- */

static void queue_behind_two(scene *s)
{
	join_behind_another(s);
	party_queue(s, AHEAD_TOO);
	party_queue(s, OURS);
}

/* The one before us was not the first when we queued, so that we have to look who is left. */
static void both_make_way(scene *s)
{
	party_let_go(s, AHEAD_TOO);
	EVENTUALLY(party_count(s, OURS, ZKL_EV_WAITING) > 1 || proxy_wait_struck(s->way.at[0], 0), ENOUGH_MS);
	party_let_go(s, AHEAD);
}

/* ---- try ---- */

static void join_with_directory(scene *s)
{
	join(s);
	EXPECT_INT(zkclient_make_directory(observer(), s->path.text), ZOK);
}

static void try(scene *s)
{
	party_start(s, OURS, 0);
}

static bool gave_up(scene *s)
{
	seen ended = {0};
	if (party_count(s, OURS, ZKL_EV_ENDED) == 0)
		return false;
	party_await(s, OURS, ZKL_EV_ENDED, &ended);
	EXPECT_TRUE(ended.code == ZKL_ENOTCONN || ended.code == ZKL_ETIMEDOUT || ended.code == ZKL_EBUSY);
	return true;
}

static void is_granted_or_gave_up(scene *s)
{
	EVENTUALLY(party_count(s, OURS, ZKL_EV_GRANTED) > 0 || gave_up(s), ENOUGH_MS);
}

static void is_not_granted(scene *s)
{
	EVENTUALLY(gave_up(s), ENOUGH_MS);
	EXPECT_INT(party_count(s, OURS, ZKL_EV_GRANTED), 0);
}

static void first_lets_go(scene *s)
{
	party_let_go(s, AHEAD);
}

/* ---- holding ---- */

static void hold(scene *s)
{
	join(s);
	party_hold(s, OURS);
}

static bool is_proved(scene *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	zkl_session_stats(s->session, &stats);
	return stats.connected && stats.lease_ms > 0 && stats.heartbeats >= (uint64_t)s->heartbeats;
}

static void go_on(scene *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	zkl_session_stats(s->session, &stats);
	s->heartbeats = stats.heartbeats + 4;
}

static void is_held_or_told(scene *s)
{
	EVENTUALLY(party_count(s, OURS, ZKL_EV_LOST) > 0 || is_proved(s), ENOUGH_MS);
}

/* ---- leaving ---- */

static void let_go(scene *s)
{
	party_let_go(s, OURS);
}

static void has_ended_with(scene *s, int code, int nodes)
{
	seen ended = {0};
	party_await(s, OURS, ZKL_EV_ENDED, &ended);
	EXPECT_RC(ended.code, code);
	expect_nodes(s, nodes + party_count(s, WITNESS, ZKL_EV_GRANTED)); /* it may have been granted already */
}

static void is_released(scene *s)
{
	has_ended_with(s, 0, 0);
}

static void queue_behind_another(scene *s)
{
	join_behind_another(s);
	party_queue(s, OURS);
}

static void has_left_the_queue(scene *s)
{
	has_ended_with(s, ZKL_ECANCELED, 1);
}

static void cancel(scene *s)
{
	s->usable = false;
	zkl_session_cancel(s->session);
}

static void *close_session(void *arg)
{
	scene *s = arg;
	s->close_rc = zkl_session_close(s->session, session_ms());
	atomic_store(&s->closed, true);
	return NULL;
}

static void close_in_thread(scene *s)
{
	s->usable = false;
	s->closing = true;
	CU_ASSERT_FATAL(pthread_create(&s->closer, NULL, close_session, s) == 0);
}

static void is_closed(scene *s)
{
	EVENTUALLY(atomic_load(&s->closed), 2 * ENOUGH_MS);
	pthread_join(s->closer, NULL);
	EXPECT_TRUE(s->close_rc == ZKL_OK || s->close_rc == ZKL_ETIMEDOUT);
	expect_nodes(s, 0);
}

/* ---- observing ---- */

static void have_leader_and_next(scene *s)
{
	party_hold(s, AHEAD);
	party_queue(s, AHEAD_TOO);
}

static bool sees_leader(scene *s)
{
	zkl_peer peer = {0};
	return zkl_election_leader(s->parties[OURS].handle.election, &peer) == 1;
}

static void observe_a_change(scene *s)
{
	party_join(s, OURS, ZKL_OBSERVE);
	EVENTUALLY(sees_leader(s) || proxy_wait_struck(s->way.at[0], 0), ENOUGH_MS);
	party_let_go(s, AHEAD);
}

static void sees_the_new_leader(scene *s)
{
	seen elected = {0};
	party_await(s, AHEAD_TOO, ZKL_EV_GRANTED, &elected);
	EXPECT_TRUE(recorder_wait_leader(&s->parties[OURS].events, elected.token, ENOUGH_MS, NULL));
	expect_nodes(s, 1);
}

static void new_leader_resigns(scene *s)
{
	party_let_go(s, AHEAD_TOO);
}

const operation operations[] = {
	{"acquire", OP_BUT_PROOFS, 0, false, join, start, is_granted, NULL},
	{"queue", OP_BUT_PROOFS, 0, false, join_behind_another, start, is_queued_once, first_makes_way},
	{"grant", OP_ANY, 0, false, queue_behind_two, both_make_way, is_granted, NULL},
	{"try", OP_BUT_PROOFS, 0, false, join_with_directory, try, is_granted_or_gave_up, NULL},
	{"try-busy", OP_BUT_PROOFS, 0, false, join_behind_another, try, is_not_granted, first_lets_go},
	{"heartbeat", OP_MULTI, 2, false, hold, go_on, is_held_or_told, NULL},
	{"release", OP_BUT_PROOFS, 0, false, hold, let_go, is_released, NULL},
	{"withdraw", OP_BUT_PROOFS, 0, false, queue_behind_another, let_go, has_left_the_queue, first_lets_go},
	{"cancel", OP_BUT_PROOFS, 0, false, queue_behind_another, cancel, has_left_the_queue, first_lets_go},
	{"close", OP_BUT_PROOFS, 0, false, hold, close_in_thread, is_closed, NULL},
	{"campaign", OP_BUT_PROOFS, 0, true, join, start, is_granted, NULL},
	{"stand", OP_BUT_PROOFS, 0, true, join_behind_another, start, is_queued_once, first_makes_way},
	{"elected", OP_ANY, 0, true, queue_behind_two, both_make_way, is_granted, NULL},
	{"resign", OP_BUT_PROOFS, 0, true, hold, let_go, is_released, NULL},
	{"observe", OP_BUT_PROOFS, 0, true, have_leader_and_next, observe_a_change, sees_the_new_leader,
         new_leader_resigns},
	{0},
};
