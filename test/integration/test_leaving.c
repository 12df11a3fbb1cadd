/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and sessions that end in the middle of an acquire, at each of its requests, and again while that is cleaned up: no
 * node is left, and nothing is asked of the servers after the end (CURATOR-3, -18, -79, -205, -462). */
#include "harness.h"

#include <stdio.h>

#define SESSION_MS     (tick_ms() * 20)
#define ENOUGH_MS      10000
#define LEAST_REQUESTS 4 /* create, list, two watches */

/* A lock, or an election, through one proxy. */
typedef struct remote {
	lock_path     path;
	net           n;
	zkl_session  *s;
	recorder      events;
	zkl_lock     *lock;
	zkl_election *election;
} remote;

typedef enum ending { BY_FREE, BY_CLOSE, BY_CLOSE_AT_ONCE, BY_RELEASE_AND_FREE, BY_RELEASE_AND_CLOSE, ENDINGS } ending;
static const char *const ending_names[] = {"free", "close", "close at once", "release, then free",
                                           "release, then close"};

static void remote_open(remote *r, bool election)
{
	*r = (remote){.path = new_path(), .events = RECORDER("remote")};
	net_open(&r->n, 1, 1);
	r->s = session_open(r->n.servers, SESSION_MS);
	if (election)
		r->election = election_new(r->s, r->path.text, 0, &r->events);
	else
		r->lock = lock_new(r->s, r->path.text, &r->events);
	EVENTUALLY(session_timeout_ms(r->s) > 0, ENOUGH_MS);
}

static void begin(remote *r)
{
	if (r->election != NULL)
		EXPECT_RC(zkl_election_campaign(r->election, NULL), ZKL_OK);
	else
		EXPECT_RC(zkl_lock_start(r->lock, ZKL_FOREVER, NULL), ZKL_OK);
}

static void let_go(remote *r)
{
	if (r->election != NULL)
		EXPECT_RC(zkl_election_resign(r->election, 0, NULL), ZKL_OK);
	else
		EXPECT_RC(zkl_lock_release(r->lock, 0, NULL), ZKL_OK);
}

static void free_handle(remote *r)
{
	zkl_election_free(r->election);
	zkl_lock_free(r->lock);
	r->election = NULL;
	r->lock = NULL;
}

static void close_session(remote *r, int64_t timeout_ms)
{
	EXPECT_TRUE(zkl_session_close(r->s, timeout_ms) <= 0);
	r->s = NULL;
}

static void remote_close(remote *r)
{
	free_handle(r);
	if (r->s != NULL)
		EXPECT_RC(zkl_session_close(r->s, ENOUGH_MS), ZKL_OK);
	recorder_free(&r->events);
	net_close(&r->n);
}

typedef struct closing {
	pthread_t thread;
	remote   *r;
} closing;

static void *close_in_thread(void *arg)
{
	close_session(((closing *)arg)->r, ENOUGH_MS);
	return NULL;
}

/* The second half comes while what the first one has begun is still unanswered. */
static void end_handle(remote *r, ending how, closing *c)
{
	c->r = NULL;
	switch (how) {
	case BY_RELEASE_AND_FREE:
		let_go(r);
		free_handle(r);
		break;
	case BY_FREE:
		free_handle(r);
		break;
	case BY_CLOSE_AT_ONCE:
		close_session(r, 0);
		break;
	case BY_RELEASE_AND_CLOSE:
		let_go(r);
		/* fall through */
	case BY_CLOSE: /* it waits for what is held up here */
	default:
		c->r = r;
		CU_ASSERT_FATAL(pthread_create(&c->thread, NULL, close_in_thread, c) == 0);
		EVENTUALLY((r->election != NULL ? zkl_election_campaign(r->election, NULL)
		                                : zkl_lock_start(r->lock, 0, NULL)) == ZKL_ESTATE,
		           ENOUGH_MS);
	}
}

/* What was held up goes on, or is gone with its connection: until all that follows is over. */
static void let_go_on(remote *r, closing *c, bool cut)
{
	bool     open = c->r == NULL && r->s != NULL;
	uint64_t before = open ? stats_of(r->s).reconnects : 0;
	if (cut)
		net_cut(&r->n);
	net_hold(&r->n, 0);
	if (c->r != NULL)
		pthread_join(c->thread, NULL);
	if (cut && open)
		EVENTUALLY(stats_of(r->s).reconnects > before, ENOUGH_MS);
	net_settled_requests(&r->n);
}

/* At the kth request, which waits with its connection, or whose reply does. False: there was no kth request. */
static bool end_at_request(int k, proxy_act act, ending how, bool election, bool cut)
{
	remote   r;
	closing  c;
	unsigned failures = CU_get_number_of_failures();
	remote_open(&r, election);
	node other = foreign_contender(r.path.text, election ? "_c_5d1d3c66-88b1-4c83-b3c5-9a3a4c11d001-latch-"
	                                                     : "_c_5d1d3c66-88b1-4c83-b3c5-9a3a4c11d001-lock-");
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_ANY, .nth = k, .act = act});
	begin(&r);
	bool struck = proxy_wait_struck(r.n.at[0], k <= LEAST_REQUESTS ? ENOUGH_MS : 300);
	proxy_arm(r.n.at[0], NULL);
	end_handle(&r, how, &c);
	let_go_on(&r, &c, cut);
	if (how == BY_CLOSE || how == BY_RELEASE_AND_CLOSE)
		EXPECT_INT(zkclient_count(observer(), r.path.text), 1);
	/* Closed without patience it goes with its session. */
	EVENTUALLY(zkclient_count(observer(), r.path.text) == 1, 3 * SESSION_MS);
	int heard = recorder_total(&r.events);
	net_reset_counts(&r.n);
	EXPECT_INT(zkclient_delete(observer(), other.path), ZOK);
	THROUGHOUT(zkclient_count(observer(), r.path.text) == 0, 20);
	EXPECT_INT(net_requests(&r.n, OP_ANY), 0);
	EXPECT_INT(recorder_count(&r.events, ZKL_EV_GRANTED), 0);
	if (how != BY_RELEASE_AND_FREE)
		EXPECT_INT(recorder_total(&r.events), heard);
	if (CU_get_number_of_failures() > failures)
		fprintf(stderr, "%s, %s at request %d, act %d%s\n", election ? "election" : "lock", ending_names[how],
		        k, (int)act, cut ? ", cut" : "");
	remote_close(&r);
	return struck;
}

static void at_every_request(bool election)
{
	static const proxy_act acts[] = {PROXY_HOLD_REQUEST, PROXY_HOLD_REPLY};
	for (ending how = 0; how < ENDINGS; how++)
		for (int first = 0; first < rounds(1, 4); first++) {
			int k = 1;
			while (k < 20 && end_at_request(k, acts[(k + first) % 2], how, election, (k + first) / 2 % 2))
				k++;
			EXPECT_RANGE(k, LEAST_REQUESTS, 19);
		}
}

static void lock_that_ends_at_any_request_leaves_nothing(void)
{
	at_every_request(false);
}

static void candidacy_that_ends_at_any_request_leaves_nothing(void)
{
	at_every_request(true);
}

/* The create is in flight when its owner lets go; what cleans up after it is held up at its kth request, and the session is
 * cancelled, the handle freed or the session closed in the middle of that. */
static bool end_cleaning_up_at_request(int k, ending how, proxy_act create)
{
	remote   r;
	closing  c = {.r = NULL};
	unsigned failures = CU_get_number_of_failures();
	remote_open(&r, false);
	EXPECT_INT(zkclient_make_directory(observer(), r.path.text), ZOK);
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_CREATE2, .nth = 1, .act = create, .door = PROXY_REFUSING});
	begin(&r);
	EXPECT_TRUE(proxy_wait_struck(r.n.at[0], ENOUGH_MS));
	let_go(&r);
	proxy_arm(r.n.at[0], &(proxy_rule){.op = OP_ANY, .nth = k, .act = PROXY_HOLD_REQUEST});
	proxy_set_door(r.n.at[0], PROXY_OPEN);
	net_hold(&r.n, 0);
	bool struck = proxy_wait_struck(r.n.at[0], k <= 2 ? ENOUGH_MS : 1000); /* a barrier and a list at least */
	proxy_arm(r.n.at[0], NULL);
	zkl_session_cancel(r.s);
	if (how == BY_FREE)
		free_handle(&r);
	else
		end_handle(&r, BY_CLOSE, &c);
	let_go_on(&r, &c, k % 2);
	EVENTUALLY(zkclient_count(observer(), r.path.text) == 0, 3 * SESSION_MS);
	net_reset_counts(&r.n);
	THROUGHOUT(zkclient_count(observer(), r.path.text) == 0, 20);
	EXPECT_INT(net_requests(&r.n, OP_ANY), 0);
	EXPECT_INT(recorder_count(&r.events, ZKL_EV_GRANTED), 0);
	if (CU_get_number_of_failures() > failures)
		fprintf(stderr, "%s at request %d of cleaning up, create %d\n", ending_names[how], k, (int)create);
	remote_close(&r);
	return struck;
}

static void second_cancel_while_a_lost_create_is_cleaned_up_leaves_nothing(void)
{
	static const proxy_act creates[] = {PROXY_LOSE_REPLY, PROXY_CUT_BEFORE};
	for (ending how = BY_FREE; how <= BY_CLOSE; how++)
		for (size_t i = 0; i < 2; i++) {
			int k = 1;
			while (k < 12 && end_cleaning_up_at_request(k, how, creates[i]))
				k++;
			EXPECT_RANGE(k, i == 0 ? 4 : 2, 11); /* barrier, list, delete */
		}
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(lock_that_ends_at_any_request_leaves_nothing, 300)},
		{TEST(candidacy_that_ends_at_any_request_leaves_nothing, 300)},
		{TEST(second_cancel_while_a_lost_create_is_cleaned_up_leaves_nothing, 180)},
		{0},
	};
	return harness_main(argc, argv, "leaving", tests);
}
