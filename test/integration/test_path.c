/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and chroots: what is refused, that nothing is then made on the servers, and what is made where all is well. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000

static bool is_one_plain_line(const char *message)
{
	size_t len = strlen(message);
	return len > 10 && strpbrk(message, "\n\r\x1b") == NULL;
}

static void hostile_paths_are_refused_and_nothing_is_made(void)
{
	static char very_long[10002], too_long[ZKL_PATH_MAX + 2];
	memset(very_long, 'a', 10000);
	memset(too_long, 'a', ZKL_PATH_MAX + 1);
	very_long[0] = too_long[0] = '/';
	static const struct {
		const char *path, *rule; /* the message contains the rule's word */
	} hostile[] = {
		{"", "empty"},
		{"/", "root"},
		{"locks/a", "slash"},
		{"/a//b", "empty"},
		{"//a", "empty"},
		{"/a/", "slash"},
		{"/a/../b", " .."},
		{"/..", " .."},
		{"/a/./b", " . "},
		{"/a/.", " . "},
		{very_long, "190"},
		{too_long, "190"},
		{"/a/\xff\xfe", "UTF-8"},
		{"/a/\xc0\xaf", "UTF-8"},         /* overlong */
		{"/a/\xed\xa0\x80", "UTF-8"},     /* a surrogate */
		{"/a/\xf4\x90\x80\x80", "UTF-8"}, /* beyond the last character */
		{"/a/\xe2\x82", "UTF-8"},         /* cut off */
		{"/a\nb", "print"},
		{"/a\x7f", "print"},
		{"/a\xc2\x85", "print"},
		{"/a/\xf0\x9f\x98\x80", "four bytes of UTF-8"},
		{"/a/_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-lock-0000000001", "named like a contender's node"},
		{"/a/latch-0000000001/b", "named like a contender's node"},
		{"/zookeeper", "zookeeper"},
		{"/zookeeper/x", "zookeeper"},
	};
	net n;
	net_open(&n, 1, server_count());
	zkl_session *s = session_open(n.servers, SESSION_MS);
	zkl_options  options = ZKL_OPTIONS_INIT;
	options.flags = ZKL_OBSERVE;
	EVENTUALLY(session_timeout_ms(s) > 0, ENOUGH_MS);
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		zkl_lock     *lock = NULL;
		zkl_election *election = NULL;
		zkl_peer      peer;
		zkl_error     made = {0}, asked = {0};
		EXPECT_RC(zkl_lock_new(s, hostile[i].path, NULL, &lock, &made), ZKL_EPATH);
		EXPECT_TRUE(lock == NULL);
		EXPECT_RC(zkl_election_new(s, hostile[i].path, &options, &election, NULL), ZKL_EPATH);
		EXPECT_TRUE(election == NULL);
		EXPECT_RC(zkl_lock_holder(s, hostile[i].path, &peer, &asked), ZKL_EPATH);
		if (!EXPECT_TRUE(is_one_plain_line(made.message) && strcasestr(made.message, hostile[i].rule) != NULL))
			fprintf(stderr, "for \"%.40s\": %s\n", hostile[i].path, made.message);
		EXPECT_TRUE(strcmp(made.message, asked.message) == 0);
		zkl_lock_free(lock);
	}
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_INT(net_requests(&n, OP_ANY), 0);
	net_close(&n);
}

static void longest_and_oddest_paths_work(void)
{
	lock_path    base = new_path();
	char         longest[ZKL_PATH_MAX + 1], odd[ZKL_PATH_MAX + 1];
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_grant    grant = {0};
	snprintf(longest, sizeof longest, "%s/%*s", base.text, (int)(ZKL_PATH_MAX - strlen(base.text) - 1), "x");
	snprintf(odd, sizeof odd, "%s/b\xc3\xa4r %%s {0}/...", base.text);
	const char *paths[] = {longest, odd};
	for (size_t i = 0; i < 2; i++) {
		zkl_lock *lock = lock_new(s, paths[i], NULL);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), paths[i]), 1);
		EXPECT_TRUE(strncmp(grant.node, paths[i], strlen(paths[i])) == 0);
		EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
		zkl_lock_free(lock);
	}
	EXPECT_INT((int64_t)strlen(longest), ZKL_PATH_MAX);
	zkl_session_close(s, ENOUGH_MS);
}

/* Each side of each border in PathUtils.validatePath, beside what the servers say of it. */
static void characters_are_refused_as_servers_refuse_them(void)
{
	static const char *const parts[] = {
		"\x01",
		"\x1e",
		"\x1f",
		" ",
		"~",
		"\x7f",
		"\xc2\x80",
		"\xc2\x9f",
		"\xc2\xa0",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xef\xa3\xbf",
		"\xef\xa4\x80",
		"\xef\xbf\xaf",
		"\xef\xbf\xb0",
		"\xef\xbf\xbd",
		"\xef\xbf\xbf",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xff",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};
	lock_path    base = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	EXPECT_INT(zkclient_make_directory(observer(), base.text), ZOK);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		char      path[ZKL_PATH_MAX + 1];
		zkl_lock *lock = NULL;
		snprintf(path, sizeof path, "%s/a%sb", base.text, parts[i]);
		int servers_say = zkclient_make_directory(observer(), path),
		    we_say = zkl_lock_new(s, path, NULL, &lock, NULL);
		if (!EXPECT_TRUE(servers_say == ZOK ? we_say == ZKL_OK
		                                    : servers_say == ZBADARGUMENTS && we_say == ZKL_EPATH))
			fprintf(stderr, "for part %zu: %d, %d\n", i, servers_say, we_say);
		zkl_lock_free(lock);
	}
	zkl_session_close(s, ENOUGH_MS);
}

static void parents_of_a_nested_path_are_made(void)
{
	lock_path    base = new_path();
	char         path[ZKL_PATH_MAX + 1];
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	zkl_grant    grant;
	struct Stat  stat;
	snprintf(path, sizeof path, "%s/a/b/c/d", base.text);
	zkl_lock *lock = lock_new(s, path, NULL);
	zkl_peer  peer;
	EXPECT_RC(zkl_lock_holder(s, path, &peer, NULL), 0);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), path), 1);
	EXPECT_INT(zkclient_stat(observer(), path, &stat), ZOK);
	EXPECT_TRUE(stat.ephemeralOwner == 0);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	EXPECT_INT(zkclient_count(observer(), path), 0);
	EXPECT_INT(zkclient_stat(observer(), path, &stat),
	           ZOK); /* directories stay, and are not containers that are reaped */
}

static void chroot_that_exists_is_a_prefix(void)
{
	lock_path root = new_path();
	char      with_chroot[600], full[ZKL_PATH_MAX + 1];
	zkl_grant grant = {0};
	zkl_peer  peer = {0};
	EXPECT_INT(zkclient_make_directory(observer(), root.text), ZOK);
	snprintf(with_chroot, sizeof with_chroot, "%s%s", all_servers(), root.text);
	snprintf(full, sizeof full, "%s/locks/job", root.text);
	zkl_session *s = session_open(with_chroot, SESSION_MS), *plain = session_open(all_servers(), SESSION_MS);
	zkl_lock    *lock = lock_new(s, "/locks/job", NULL), *same = lock_new(plain, full, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), full), 1);
	EXPECT_TRUE(strncmp(grant.node, full, strlen(full)) == 0);
	EXPECT_RC(zkl_lock_holder(s, "/locks/job", &peer, NULL), 1);
	EXPECT_TRUE(peer.token == grant.token);
	EXPECT_RC(zkl_lock_acquire(same, 0, &grant, NULL), ZKL_EBUSY); /* it is the same lock */
	zkl_lock_free(lock);
	zkl_lock_free(same);
	zkl_session_close(s, ENOUGH_MS);
	zkl_session_close(plain, ENOUGH_MS);
}

static void chroot_counts_towards_the_longest_path(void)
{
	char chroot[600], path[ZKL_PATH_MAX + 1];
	snprintf(chroot, sizeof chroot, "%s/0123456789", all_servers());
	zkl_session *s = session_open(chroot, SESSION_MS);
	zkl_lock    *lock = NULL;
	zkl_error    error;
	snprintf(path, sizeof path, "/%*s", ZKL_PATH_MAX - 11, "x");
	EXPECT_RC(zkl_lock_new(s, path, NULL, &lock, &error), ZKL_EPATH);
	zkl_session_close(s, ENOUGH_MS);
}

static void missing_chroot_is_epath_and_never_made(void)
{
	lock_path   root = new_path();
	char        with_chroot[600];
	struct Stat stat;
	net         n;
	net_open(&n, 1, server_count());
	snprintf(with_chroot, sizeof with_chroot, "%s%s", n.servers, root.text);
	zkl_session *s = session_open(with_chroot, SESSION_MS);
	recorder     events = RECORDER("without a chroot");
	zkl_lock    *lock = lock_new(s, "/locks/job", &events);
	zkl_grant    grant;
	zkl_peer     peer;
	zkl_error    error = {0};
	seen         e = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EPATH);
	EXPECT_TRUE(is_one_plain_line(error.message) && strstr(error.message, "chroot") != NULL);
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_EPATH);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EPATH);
	EXPECT_RC(zkl_lock_holder(s, "/locks/job", &peer, &error), ZKL_EPATH);
	EXPECT_TRUE(is_one_plain_line(error.message) && strstr(error.message, "chroot") != NULL);
	EXPECT_INT(zkclient_stat(observer(), root.text, &stat), ZNONODE);
	EXPECT_INT(zkclient_make_directory(observer(), root.text), ZOK); /* the operator sees to it, and all is well */
	EXPECT_RC(zkl_lock_holder(s, "/locks/job", &peer, NULL), 0);     /* the lock's own directory may be missing */
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	net_close(&n);
	recorder_free(&events);
}

static void hostile_chroots_and_hosts_are_refused_on_open(void)
{
	static const char *const tails[] = {"/a//b", "/a/", "/../a", "/a\xff"};
	zkl_session             *s = NULL;
	zkl_error                error;
	char                     at[600];
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
		zkl_session_options options = session_options(at, SESSION_MS);
		snprintf(at, sizeof at, "%s%s", all_servers(), tails[i]);
		error = (zkl_error){0};
		int rc = zkl_session_open(&options, &s, &error);
		EXPECT_TRUE(rc == ZKL_EINVAL || rc == ZKL_EPATH);
		if (!EXPECT_TRUE(is_one_plain_line(error.message)))
			fprintf(stderr, "for \"%s\": %d %s\n", tails[i], rc, error.message);
	}
	static const char *const hosts[] = {"",          ",",    "host:", "host:0", "host:65536",
	                                    "host:port", "[::1", ":2181", "/chroot"};
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		zkl_session_options options = session_options(hosts[i], SESSION_MS);
		error = (zkl_error){0};
		int rc = zkl_session_open(&options, &s, &error);
		if (!EXPECT_RC(rc, ZKL_EINVAL) || !EXPECT_TRUE(is_one_plain_line(error.message)))
			fprintf(stderr, "for \"%s\": %s\n", hosts[i], error.message);
		if (rc == ZKL_OK)
			zkl_session_close(s, 0);
	}
}

/* At one and below it, at once and in steps. */
static void ephemeral_parents_are_epath(void)
{
	lock_path    base = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	char         parent[ZKL_PATH_MAX + 1];
	snprintf(parent, sizeof parent, "%s/session", base.text);
	EXPECT_INT(zkclient_make_directory(observer(), base.text), ZOK);
	EXPECT_INT(zkclient_create(observer(), parent, "x", 1, ZOO_EPHEMERAL, NULL, 0), ZOK);
	static const char *const below[] = {"", "/a", "/a/b"};
	for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
		char      path[ZKL_PATH_MAX + 1];
		zkl_grant grant;
		zkl_error error = {0};
		snprintf(path, sizeof path, "%.150s%s", parent, below[i]);
		zkl_lock *lock = lock_new(s, path, NULL);
		EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EPATH);
		EXPECT_TRUE(is_one_plain_line(error.message) && strstr(error.message, "ephemeral") != NULL);
		EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, NULL), ZKL_EPATH);
		zkl_lock_free(lock);
	}
	EXPECT_INT(zkclient_delete(observer(), parent), ZOK);
	zkl_session_close(s, ENOUGH_MS);
}

static void locks_below_zookeepers_own_nodes_are_refused_by_chroot_too(void)
{
	char at[600];
	snprintf(at, sizeof at, "%s/zookeeper", all_servers());
	zkl_session_options options = session_options(at, SESSION_MS);
	zkl_session        *s = NULL;
	zkl_lock           *lock = NULL;
	if (zkl_session_open(&options, &s, NULL) != ZKL_OK)
		return;
	EXPECT_RC(zkl_lock_new(s, "/x", NULL, &lock, NULL), ZKL_EPATH);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* Names are resolved by the library, and not all of them have to be known. */
static void a_host_that_does_not_resolve_keeps_nobody_from_the_others(void)
{
	lock_path path = new_path();
	char      at[600];
	zkl_grant grant;
	snprintf(at, sizeof at, "no-such-host.invalid:2181,%s", all_servers());
	zkl_session *s = session_open(at, SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, 3 * ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

static void no_host_that_resolves_is_enotconn_in_time(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open("no-such-host.invalid:2181", SESSION_MS);
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	int64_t      start_ms = now_ms();
	EXPECT_RC(zkl_lock_acquire(lock, 1000, &grant, NULL), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 999, late(1000));
	zkl_lock_free(lock);
	zkl_session_close(s, 0);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(hostile_paths_are_refused_and_nothing_is_made, 60)},
		{TEST(longest_and_oddest_paths_work, 60)},
		{TEST(characters_are_refused_as_servers_refuse_them, 60)},
		{TEST(parents_of_a_nested_path_are_made, 60)},
		{TEST(chroot_that_exists_is_a_prefix, 60)},
		{TEST(chroot_counts_towards_the_longest_path, 60)},
		{TEST(missing_chroot_is_epath_and_never_made, 60)},
		{TEST(hostile_chroots_and_hosts_are_refused_on_open, 60)},
		{TEST(ephemeral_parents_are_epath, 60)},
		{TEST(locks_below_zookeepers_own_nodes_are_refused_by_chroot_too, 60)},
		{TEST(a_host_that_does_not_resolve_keeps_nobody_from_the_others, 60)},
		{TEST(no_host_that_resolves_is_enotconn_in_time, 60)},
		{0},
	};
	return harness_main(argc, argv, "path", tests);
}
