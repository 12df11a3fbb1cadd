/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: what is made under them is for their owner only, and who may not is told so, not kept waiting. */
#include "harness.h"

#include <string.h>

#define SESSION_MS (8 * tick_ms())
#define ENOUGH_MS  10000

static zkl_session *open_as(const char *auth)
{
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;

	options.auth = auth;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	return s;
}

static void expect_denied(const char *auth, const char *path)
{
	zkl_session *s = open_as(auth);
	zkl_lock    *lock = lock_new(s, path, NULL);
	zkl_grant    grant;
	zkl_peer     peer;
	zkl_error    error = {0};

	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, path) && strstr(error.message, "auth"));
	EXPECT_INT(error.zk_code, ZNOAUTH);
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, &error), ZKL_EACCES);
	EXPECT_RC(zkl_lock_holder(s, path, &peer, &error), ZKL_EACCES);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void what_credentials_made_is_for_their_owner_only(void)
{
	lock_path path = new_path();

	/* Its parents are everybody's. */
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);

	zkl_session *s = open_as("digest:owner:secret"), *same = open_as("digest:owner:secret");
	zkl_lock    *lock = lock_new(s, path.text, NULL), *next = lock_new(same, path.text, NULL);
	zkl_grant    grant, later;
	zkl_peer     peer;
	char         data[2000];
	int          length = sizeof data;

	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_get(observer(), grant.node, data, &length), ZNOAUTH);
	EXPECT_INT(zkclient_count(observer(), path.text), ZNOAUTH);
	expect_denied("digest:other:secret", path.text);
	expect_denied(NULL, path.text);
	EXPECT_INT(zkl_lock_holder(same, path.text, &peer, NULL), 1);
	EXPECT_INT((int64_t)peer.token, (int64_t)grant.token);
	EXPECT_RC(zkl_lock_start(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EVENTUALLY(zkl_lock_holder(same, path.text, &peer, NULL) == 1 && peer.token > grant.token, ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &later, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_lock_free(next);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(same, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK); /* the parent's ACL governs that */
}

static void auth_of_another_form_is_refused(void)
{
	static const char *const wrong[] = {"", "digest", "digest:", "digest:user", "user:password", "ip:127.0.0.1"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *s = NULL;
		zkl_error           error = {0};

		options.auth = wrong[i];
		EXPECT_RC(zkl_session_open(&options, &s, &error), ZKL_EINVAL);
		EXPECT_TRUE(strstr(error.message, "digest:user:password") != NULL);
	}
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(what_credentials_made_is_for_their_owner_only, 60)},
		{TEST(auth_of_another_form_is_refused, 20)},
		{0},
	};
	return harness_main(argc, argv, "access", tests);
}
