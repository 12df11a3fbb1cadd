/* SPDX-License-Identifier: Apache-2.0 */
/* Locks by name, and under which of them a process runs. */
#include "../../zklock/nesting.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMED(servers, path, expected)                                                                                 \
	do {                                                                                                           \
		char *name = zkl__nesting_name((servers), (path));                                                     \
		CU_ASSERT_STRING_EQUAL(name, (expected));                                                              \
		free(name);                                                                                            \
	} while (0)

static void names_of_locks_are_canonical(void)
{
	NAMED("h", "/a", "h:2181/a");
	NAMED("h:1,g", "/a", "h:1,g:2181/a");
	NAMED("h:1, g:2/c", "/a", "h:1,g:2/c/a");
	NAMED("h:1/", "/a", "h:1/a");
	NAMED("[::1],[::2]:9/c/d", "/a", "[::1]:2181,[::2]:9/c/d/a");
}

static void same_lock_has_the_same_path_and_a_server_in_common(void)
{
	CU_ASSERT_TRUE(zkl__nesting_is_same("h:1/a", "h:1/a"));
	CU_ASSERT_TRUE(zkl__nesting_is_same("h:1,g:1/a", "i:1,G:1/a"));
	CU_ASSERT_FALSE(zkl__nesting_is_same("h:1/a", "h:1/b"));
	CU_ASSERT_FALSE(zkl__nesting_is_same("h:1/a", "h:1/a/b"));
	CU_ASSERT_FALSE(zkl__nesting_is_same("h:1/a", "h:11/a"));
	CU_ASSERT_FALSE(zkl__nesting_is_same("h:1/a", "/a"));
}

static void only_entries_of_ancestors_count(void)
{
	char *kept;

	CU_ASSERT_FALSE(zkl__nesting_check(NULL, "h:1/a", &kept));
	CU_ASSERT_STRING_EQUAL(kept, "");
	free(kept);
	CU_ASSERT_FALSE(zkl__nesting_check("nonsense\n1:99999999:h:1/a\n:\n", "h:1/a", &kept));
	CU_ASSERT_STRING_EQUAL(kept, "");
	free(kept);
}

static void descendant_of_the_holder_is_nested(void)
{
	int status = -1;

	CU_ASSERT_EQUAL(zkl__nesting_export("", "h:1/a", getpid()), 0);
	if (fork() == 0) {
		char      *kept, *again;
		const bool same = zkl__nesting_check(getenv("ZKLOCK_HELD"), "h:1/a", &kept);
		const bool other = zkl__nesting_check(kept, "h:1/b", &again);
		_exit(same && !other && strcmp(kept, again) == 0 ? 0 : 1);
	}
	wait(&status);
	CU_ASSERT_EQUAL(status, 0);
	unsetenv("ZKLOCK_HELD");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(names_of_locks_are_canonical),
		TEST(same_lock_has_the_same_path_and_a_server_in_common),
		TEST(only_entries_of_ancestors_count),
		TEST(descendant_of_the_holder_is_nested),
		{0},
	};

	return check_main("nesting", tests, argc, argv);
}
