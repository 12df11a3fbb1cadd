/* SPDX-License-Identifier: Apache-2.0 */
/* Servers with different session limits (maxSessionTimeout of the third is 6000): a reconnect changes the timeout. */
#include "harness.h"
#include "proxy.h"

#include <stdio.h>

#define LONG_MS   10000
#define SHORT_MS  6000
#define ENOUGH_MS 30000

static log_counter changes = {.level = 4, .id = "timeout-changed"};

static void move(net *from, net *to)
{
	net_set_door(to, PROXY_OPEN);
	net_set_door(from, PROXY_REFUSING);
	net_cut(from);
}

static void lease_follows_the_least_timeout_that_servers_granted(void)
{
	lock_path path = new_path();
	net       usual, limited;
	char      both[600];
	zkl_grant grant;
	recorder  events = RECORDER("holder"), next = RECORDER("next in line");
	seen      lost = {0}, granted = {0};
	net_open(&usual, 1, 1);
	net_open(&limited, 3, 1);
	net_set_door(&limited, PROXY_REFUSING);
	snprintf(both, sizeof both, "%s,%s", usual.servers, limited.servers);
	zkl_session_options options = session_options(both, LONG_MS);
	zkl_session        *s = NULL, *other = session_open(servers[1], LONG_MS);
	options.log = log_count;
	options.log_user = &changes;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, &events), *waiting = lock_new(other, path.text, &next);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	wait_for_full_lease(s);
	EXPECT_INT(stats_of(s).timeout_ms, LONG_MS);
	EXPECT_TRUE(stats_of(s).lease_ms > SHORT_MS * 5 / 8);
	EXPECT_INT(atomic_load(&changes.count), 0);
	move(&usual, &limited);
	EVENTUALLY(stats_of(s).timeout_ms == SHORT_MS, ENOUGH_MS);
	EXPECT_TRUE(stats_of(s).lease_ms <= SHORT_MS * 5 / 8);
	EXPECT_INT(atomic_load(&changes.count), 1);
	/* Back where more could be granted, the client asks for what it had last. */
	move(&limited, &usual);
	EVENTUALLY(stats_of(s).reconnects == 2, ENOUGH_MS);
	EXPECT_INT(stats_of(s).timeout_ms, SHORT_MS);
	EXPECT_INT(atomic_load(&changes.count), 1);
	move(&usual, &limited);
	EVENTUALLY(stats_of(s).reconnects == 3, ENOUGH_MS);
	/* Nobody else is granted it before the holder has stopped. */
	EXPECT_RC(zkl_lock_start(waiting, ZKL_FOREVER, NULL), ZKL_OK);
	net_hold(&limited, PROXY_BOTH);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, late(SHORT_MS), &lost));
	EXPECT_TRUE(zkl_lock_check(lock, grant.token) < 0);
	EXPECT_TRUE(recorder_wait(&next, ZKL_EV_GRANTED, 1, ENOUGH_MS, &granted));
	EXPECT_TRUE(lost.at_ns < granted.at_ns);
	net_hold(&limited, 0);
	zkl_lock_free(lock);
	zkl_lock_free(waiting);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(other, ENOUGH_MS), ZKL_OK);
	recorder_free(&events);
	recorder_free(&next);
	net_close(&usual);
	net_close(&limited);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(lease_follows_the_least_timeout_that_servers_granted, 120)},
		{0},
	};
	return harness_main(argc, argv, "disagree", tests);
}
