/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that take no digest credentials (zookeeper.DigestAuthenticationProvider.enabled=false): nothing is to be had. */
#include "harness.h"

#define ENOUGH_MS 30000

static log_counter refusals = {.level = 3, .id = "auth-failed"};

static void session_whose_auth_is_refused_says_so_once_and_ends_attempts(void)
{
	lock_path           path = new_path();
	zkl_session_options options = session_options(all_servers(), tick_ms() * 12);
	zkl_session        *s = NULL;
	zkl_grant           grant;
	options.auth = "digest:user:password";
	options.log = log_count;
	options.log_user = &refusals;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_EACCES);
	EXPECT_INT(atomic_load(&refusals.count), 1);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_EACCES);
	THROUGHOUT(atomic_load(&refusals.count) == 1, 1000); /* nobody tries again */
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(session_whose_auth_is_refused_says_so_once_and_ends_attempts, 90)},
		{0},
	};
	return harness_main(argc, argv, "denied", tests);
}
