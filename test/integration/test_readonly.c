/* SPDX-License-Identifier: Apache-2.0 */
/* A server that has lost its quorum and serves clients that want to read only (readonlymode.enabled). What it shows may be old,
 * and nothing can be proved by it: it is no ensemble. */
#include "harness.h"

#include <string.h>

#define SESSION_MS (tick_ms() * 20)
#define ENOUGH_MS  20000
#define RESTART_MS 120000

static bool reads_only(int server)
{
	char mode[40] = "";
	EXPECT_INT(ensemble_ask("mode", server, mode, sizeof mode), 0);
	return strncmp(mode, "read-only", 9) == 0;
}

static void read_only_server_is_no_ensemble(void)
{
	lock_path    path = new_path(), free_path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS), *fresh;
	recorder     events = RECORDER("held before");
	zkl_lock    *held = lock_new(s, path.text, &events), *other;
	zkl_grant    grant = {0}, none;
	zkl_error    error = {0};
	zkl_peer     peer;
	zkl_stats    stats = ZKL_STATS_INIT;
	if (server_count() != 3)
		SKIP("it takes three servers");
	EXPECT_INT(zkclient_make_directory(observer(), free_path.text), ZOK);
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(ensemble("kill", 2), 0);
	EXPECT_INT(ensemble("kill", 3), 0);
	EVENTUALLY(reads_only(1), RESTART_MS);
	/* A lock that is free there to see. */
	fresh = session_open(servers[0], SESSION_MS);
	other = lock_new(fresh, free_path.text, NULL);
	int64_t start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(other, 3000, &none, &error), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 2999, late(3000));
	EXPECT_TRUE(strstr(error.message, free_path.text) != NULL);
	start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(other, 0, &none, NULL), ZKL_ENOTCONN);
	EXPECT_RC(zkl_lock_holder(fresh, path.text, &peer, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 0, late(SESSION_MS));
	EXPECT_RC(zkl_session_stats(fresh, &stats), ZKL_OK);
	EXPECT_TRUE(!stats.connected && stats.timeout_ms == 0);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_LOST, 1, 2 * SESSION_MS, NULL));
	EXPECT_RC(zkl_lock_check(held, grant.token), ZKL_ELOST);
	EXPECT_TRUE(reads_only(1));
	EXPECT_INT(ensemble("start", 2), 0);
	EXPECT_INT(ensemble("start", 3), 0);
	EXPECT_INT(ensemble("wait", 0), 0);
	EXPECT_RC(zkl_lock_acquire(other, RESTART_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_ENOTHELD);
	zkl_lock_free(held);
	zkl_lock_free(other);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(fresh, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path.text) + zkclient_count(observer(), free_path.text), 0);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(read_only_server_is_no_ensemble, 400)},
		{0},
	};
	return harness_main(argc, argv, "readonly", tests);
}
