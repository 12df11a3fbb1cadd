/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "path.h"

static zkl_error error;

/* "" where the path is good, else the message, which must be one line with the right code. */
static const char *verdict(const char *path, const char *chroot)
{
	int r;

	memset(&error, 0, sizeof error);
	r = zkl__lock_path_check(path, chroot, &error);
	CHECK_INT(r, r == 0 ? 0 : ZKL_EPATH);
	CHECK_INT(error.code, r);
	CHECK(!strchr(error.message, '\n') && strlen(error.message) < sizeof error.message - 1);
	return error.message;
}

static void good_paths_pass(void)
{
	static const char *const good[] = {"/a",
	                                   "/locks/job",
	                                   "/a/b/c/d/e/f",
	                                   "/a.b",
	                                   "/...",
	                                   "/.a",
	                                   "/a..",
	                                   "/ a b",
	                                   "/a:b,c;d=e",
	                                   "/zookeeper2",
	                                   "/a/zookeeper",
	                                   "/zookeepe",
	                                   "/\xc3\xa4\xc3\xb6",
	                                   "/\xe2\x82\xac",
	                                   "/~",
	                                   "/\xc2\xa0" /* U+00A0 */,
	                                   "/\xed\x9f\xbf" /* U+D7FF */,
	                                   "/\xef\xa4\x80" /* U+F900 */,
	                                   "/\xef\xbf\xaf" /* U+FFEF */,
	                                   "/a/123456789",
	                                   "/a/x-123456789",
	                                   "/a/0000000001-x",
	                                   "/users/1234567890",
	                                   "/users/x-1234567890",
	                                   "/a/lock-12345678901" /* a longer number */,
	                                   "/a/5f1d0c0a8a0b4b0f9f5f2f0123456789" /* a digest */};

	for (size_t i = 0; i < COUNT(good); i++)
		CHECK_STR(verdict(good[i], ""), "");
}

static void bad_path_is_refused_with_the_rule_that_it_breaks(void)
{
	static const struct {
		const char *path, *rule;
	} bad[] = {
		{NULL, "is empty"},
		{"", "is empty"},
		{"/", "is the root"},
		{"locks/a", "must begin with a slash"},
		{" /a", "must begin with a slash"},
		{"/a/", "must not end with a slash"},
		{"/a//b", "has an empty part (//)"},
		{"//a", "has an empty part (//)"},
		{"//", "has an empty part (//)"},
		{"/a/./b", "must not have a part . or .."},
		{"/a/../b", "must not have a part . or .."},
		{"/.", "must not have a part . or .."},
		{"/..", "must not have a part . or .."},
		{"/a/..", "must not have a part . or .."},
		{"/a\nb", "has a byte that is not printable UTF-8"},
		{"/a\tb", "has a byte that is not printable UTF-8"},
		{"/a\x7f", "has a byte that is not printable UTF-8"},
		{"/\x80", "has a byte that is not printable UTF-8"},
		{"/\xff", "has a byte that is not printable UTF-8"},
		{"/\xc3", "has a byte that is not printable UTF-8"}, /* cut */
		{"/\xc3/b", "has a byte that is not printable UTF-8"},
		{"/\xe2\x82", "has a byte that is not printable UTF-8"},
		{"/\xc0\xaf", "has a byte that is not printable UTF-8"}, /* a slash, overlong */
		{"/\xe0\x80\xaf", "has a byte that is not printable UTF-8"},
		{"/\xf0\x80\x80\xaf", "has a character of four bytes of UTF-8"},
		{"/\xe0\x83\xa4", "has a byte that is not printable UTF-8"},     /* U+00E4, overlong */
		{"/\xf0\x82\x82\xac", "has a character of four bytes of UTF-8"}, /* U+20AC, overlong */
		{"/\xc2\x85", "has a byte that is not printable UTF-8"},         /* U+0085, a control character */
		{"/\xed\xa0\x80", "has a byte that is not printable UTF-8"},     /* U+D800, a surrogate */
		{"/\xee\x80\x80", "has a byte that is not printable UTF-8"},     /* U+E000, private use */
		{"/\xef\xa3\xbf", "has a byte that is not printable UTF-8"},     /* U+F8FF */
		{"/\xef\xbf\xb0", "has a byte that is not printable UTF-8"},     /* U+FFF0 */
		{"/\xef\xbf\xbf", "has a byte that is not printable UTF-8"},
		{"/\xf0\x90\x80\x80", "has a character of four bytes of UTF-8, which ZooKeeper refuses"}, /* U+10000 */
		{"/a/\xf0\x9f\x98\x80/b", "has a character of four bytes of UTF-8, which ZooKeeper refuses"},
		{"/\xf4\x8f\xbf\xbf", "has a character of four bytes of UTF-8, which ZooKeeper refuses"}, /* U+10FFFF */
		{"/\xf8\x88\x80\x80\x80", "has a byte that is not printable UTF-8"},
		{"/zookeeper", "lies in /zookeeper, which is ZooKeeper's own"},
		{"/zookeeper/quota", "lies in /zookeeper, which is ZooKeeper's own"},
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		const char *message = verdict(bad[i].path, "");

		if (!CHECK(strncmp(message, "path", 4) == 0 && strstr(message, bad[i].rule)))
			printf("    %s: \"%s\"\n", bad[i].path, message);
	}
}

/* Our own, those of other recipes, and numbers that have run over. */
static void path_named_like_a_contender_is_refused(void)
{
	static const char *const bad[] = {"/locks/job/_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-lock-0000000001",
	                                  "/locks/job/_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-latch-0000000001",
	                                  "/locks/job/7f1d0c0a8a0b4b0f9f5f2f0b6c1a7e55__lock__0000000003",
	                                  "/locks/job/7f1d0c0a8a0b4b0f9f5f2f0b6c1a7e55__rlock__0000000003",
	                                  "/locks/job/lock-0000000002",
	                                  "/locks/job/latch-9999999999",
	                                  "/locks/job/_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-__READ__0000000002",
	                                  "/locks/job/_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-lock--000000005",
	                                  "/locks/job/lock-0000000002/below",
	                                  "/lock-0000000002"};

	for (size_t i = 0; i < COUNT(bad); i++) {
		CHECK(strstr(verdict(bad[i], ""), "has a part that is named like a contender's node"));
		CHECK(strstr(verdict(bad[i], "/root"), "has a part that is named like a contender's node"));
		CHECK_INT(zkl__node_path_check(bad[i], "", NULL), 0);
	}
}

static void message_shows_the_path_in_one_line_of_ascii(void)
{
	CHECK_STR(verdict("/a\nb", ""), "path \"/a\\x0ab\" has a byte that is not printable UTF-8");
	CHECK_STR(verdict("locks/a", ""), "path \"locks/a\" must begin with a slash");
}

static void length_is_limited_with_the_chroot_included(void)
{
	char path[10001];

	memset(path, 'x', sizeof path - 1);
	path[0] = '/';
	path[sizeof path - 1] = 0;
	CHECK_STR(verdict(path, ""), "path is 10000 bytes long, at most 190 are possible here");
	path[190] = 0;
	CHECK_STR(verdict(path, ""), "");
	CHECK_STR(verdict(path, "/root"), "path is 190 bytes long, at most 185 are possible here");
	path[185] = 0;
	CHECK_STR(verdict(path, "/root"), "");
	path[190] = 'x';
	path[185] = 'x';
	path[191] = 0;
	CHECK_STR(verdict(path, ""), "path is 191 bytes long, at most 190 are possible here");
}

static void names_of_zookeeper_are_free_below_a_chroot(void)
{
	CHECK_STR(verdict("/zookeeper/quota", "/app"), "");
	CHECK_STR(verdict("/quota", "/zookeepers"), "");
}

static void nothing_lies_below_a_chroot_in_zookeepers_own_nodes(void)
{
	CHECK_STR(verdict("/x", "/zookeeper"), "path \"/x\" lies in /zookeeper, which is ZooKeeper's own");
	CHECK_STR(verdict("/x", "/zookeeper/quota"), "path \"/x\" lies in /zookeeper, which is ZooKeeper's own");
}

static void error_may_be_not_wanted(void)
{
	CHECK_INT(zkl__lock_path_check("", "", NULL), ZKL_EPATH);
	CHECK_INT(zkl__lock_path_check("/a", "", NULL), 0);
}

static void message_names_what_was_wrong(void)
{
	CHECK_INT(zkl__path_check("chroot", "/a/", 100, &error), ZKL_EPATH);
	CHECK_STR(error.message, "chroot \"/a/\" must not end with a slash");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(good_paths_pass),
	                                          TEST(bad_path_is_refused_with_the_rule_that_it_breaks),
	                                          TEST(path_named_like_a_contender_is_refused),
	                                          TEST(message_shows_the_path_in_one_line_of_ascii),
	                                          TEST(length_is_limited_with_the_chroot_included),
	                                          TEST(names_of_zookeeper_are_free_below_a_chroot),
	                                          TEST(nothing_lies_below_a_chroot_in_zookeepers_own_nodes),
	                                          TEST(error_may_be_not_wanted),
	                                          TEST(message_names_what_was_wrong),
	                                          {0}};

	return check_main("path", tests, argc, argv);
}
