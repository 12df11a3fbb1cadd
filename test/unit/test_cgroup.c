/* SPDX-License-Identifier: Apache-2.0 */
/* Where the directory of our own cgroup is, by what /proc says, and what is told of one. */
#include "../../zklock/cgroup.h"
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOUND(mount, own, expected)                                                                                    \
	do {                                                                                                           \
		char path[256] = "";                                                                                   \
		CU_ASSERT_TRUE(zkl__cgroup_directory((mount), (own), path, sizeof(path)));                             \
		CU_ASSERT_STRING_EQUAL(path, (expected));                                                              \
	} while (0)

#define NOT_FOUND(mount, own)                                                                                          \
	do {                                                                                                           \
		char path[256];                                                                                        \
		CU_ASSERT_FALSE(zkl__cgroup_directory((mount), (own), path, sizeof(path)));                            \
	} while (0)

static void directory_is_below_the_mount(void)
{
	const char *whole = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate";

	FOUND(whole, "/", "/sys/fs/cgroup");
	FOUND(whole, "/a.slice/b", "/sys/fs/cgroup/a.slice/b");
	FOUND("41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 none rw", "/a", "/sys/fs/cgroup/unified/a");
}

static void part_of_the_hierarchy_is_mounted_alone(void)
{
	const char *part = "35 24 0:30 /docker/1 /cg rw - cgroup2 cgroup2 rw";

	FOUND(part, "/docker/1", "/cg");
	FOUND(part, "/docker/1/a", "/cg/a");
	NOT_FOUND(part, "/docker");
	NOT_FOUND(part, "/docker/12");
	NOT_FOUND(part, "/");
}

static void blanks_in_names_are_escaped(void)
{
	FOUND("35 24 0:30 /a\\040b /c\\134\\011d rw - cgroup2 cgroup2 rw", "/a b/e", "/c\\\td/e");
}

static void other_file_systems_and_places_outside_do_not_count(void)
{
	NOT_FOUND("39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", "/");
	NOT_FOUND("39 31 0:36 / /cgroup2 rw - tmpfs - cgroup2 rw", "/");
	NOT_FOUND("35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw", "/../other");
	NOT_FOUND("", "/");
	NOT_FOUND("35 24", "/");
	NOT_FOUND(" - cgroup2 x", "/");
}

static void path_that_is_too_long_is_none(void)
{
	const char *mount = "35 24 0:30 / /sys rw - cgroup2 cgroup2 rw";
	char        path[8];

	CU_ASSERT_TRUE(zkl__cgroup_directory(mount, "/ab", path, sizeof(path)));
	CU_ASSERT_FALSE(zkl__cgroup_directory(mount, "/abc", path, sizeof(path)));
}

/* One of our own, where it can be had: the kernel goes on saying what nobody has heard. */
static void wait_is_over_once_for_each_change(void)
{
	struct zkl__cgroup cgroup;

	zkl__cgroup_open(&cgroup, "unit");
	const pid_t pid = zkl__cgroup_fork(&cgroup);
	if (pid == 0) {
		for (;;)
			pause();
	}
	CU_ASSERT_TRUE_FATAL(pid > 0);
	const int     watch = zkl__cgroup_watch(&cgroup);
	struct pollfd events = {.fd = watch, .events = POLLPRI};
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (cgroup.error == 0) {
		zkl__cgroup_wait(watch, 10000);
		CU_ASSERT_FALSE(zkl__cgroup_is_populated(&cgroup));
		CU_ASSERT_EQUAL(poll(&events, 1, 0), 0);
		close(watch);
		zkl__cgroup_remove(&cgroup);
	}
	zkl__cgroup_close(&cgroup);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(directory_is_below_the_mount),
		TEST(part_of_the_hierarchy_is_mounted_alone),
		TEST(blanks_in_names_are_escaped),
		TEST(other_file_systems_and_places_outside_do_not_count),
		TEST(path_that_is_too_long_is_none),
		TEST(wait_is_over_once_for_each_change),
		{0},
	};

	return check_main("cgroup", tests, argc, argv);
}
