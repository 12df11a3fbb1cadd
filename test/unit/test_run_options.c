/* SPDX-License-Identifier: Apache-2.0 */
/* What zklock-run was asked for: durations, the command line. */
#include "../../zklock/duration.h"
#include "../../zklock/run_options.h"
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <zklock/zklock.h>

/* ---- durations ---- */

static int64_t duration(const char *text)
{
	int64_t ms = -1;

	return zkl__duration_parse(text, &ms) == 0 ? ms : -1;
}

static void durations_are_seconds_or_carry_a_unit(void)
{
	CU_ASSERT_EQUAL(duration("0"), 0);
	CU_ASSERT_EQUAL(duration("90"), 90000);
	CU_ASSERT_EQUAL(duration("1.5"), 1500);
	CU_ASSERT_EQUAL(duration(".5"), 500);
	CU_ASSERT_EQUAL(duration("5."), 5000);
	CU_ASSERT_EQUAL(duration("250ms"), 250);
	CU_ASSERT_EQUAL(duration("0.1s"), 100);
	CU_ASSERT_EQUAL(duration("2s"), 2000);
	CU_ASSERT_EQUAL(duration("1.5m"), 90000);
	CU_ASSERT_EQUAL(duration("0.25h"), 900000);
	CU_ASSERT_EQUAL(duration("12h"), 43200000);
	CU_ASSERT_EQUAL(duration("00007"), 7000);
}

static void durations_are_rounded_up(void)
{
	CU_ASSERT_EQUAL(duration("0.0001"), 1);
	CU_ASSERT_EQUAL(duration("1.0000000000000000001"), 1001);
	CU_ASSERT_EQUAL(duration("1.0000000000000000000"), 1000);
	CU_ASSERT_EQUAL(duration("1.5ms"), 2);
	CU_ASSERT_EQUAL(duration("0.999999999999999h"), 3600000);
}

static void what_is_no_duration_is_refused(void)
{
	static const char *const wrong[] = {"",    ".",     "s",     "ms",   "-1",       "+1",  "-0", "nan", "inf",
	                                    "1e3", "0x1",   "1,5",   " 1",   "1 ",       "1 s", "1S", "1d",  "1mss",
	                                    "1..", "1.2.3", "1m30s", "five", "\xd9\xa1", "1\n", "--1"};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CU_ASSERT_EQUAL(duration(wrong[i]), -1);
}

static void durations_that_overflow_are_refused(void)
{
	CU_ASSERT_EQUAL(duration("9223372036854775807"), -1);
	CU_ASSERT_EQUAL(duration("9223372036854775808ms"), -1);
	CU_ASSERT_EQUAL(duration("99999999999999999999999999999999999"), -1);
	CU_ASSERT_EQUAL(duration("2562047788h"), -1);
	CU_ASSERT_EQUAL(duration("4611686018427ms"), 4611686018427);
	CU_ASSERT_EQUAL(duration("4611686018428ms"), -1);
	CU_ASSERT_EQUAL(duration("4611686018427.1ms"), -1);
}

/* ---- the command line ---- */

static char why[ZKL__WHY_MAX];

/* NULL ends the arguments. 0 or -1, as the parser says. What it found points into a copy that stays. */
static int parse(struct zkl__run_options *options, char **arguments)
{
	static char *argv[32];
	int          argc = 0;

	for (; (argv[argc] = arguments[argc]) != NULL; argc++)
		continue;
	why[0] = '\0';
	return zkl__run_options_parse(argc, argv, options, why);
}
#define PARSE(options, ...) parse((options), (char *[]){(char[]){"zklock-run"}, __VA_ARGS__, NULL})
#define REFUSES(part, ...)                                                                                             \
	do {                                                                                                           \
		struct zkl__run_options refused;                                                                       \
		CU_ASSERT_EQUAL(PARSE(&refused, __VA_ARGS__), -1);                                                     \
		CU_ASSERT_PTR_NOT_NULL(strstr(why, (part)));                                                           \
	} while (0)

static void defaults_are_those_of_the_manual(void)
{
	struct zkl__run_options o;

	CU_ASSERT_EQUAL(PARSE(&o, "/a", "true"), 0);
	CU_ASSERT_PTR_NULL(o.servers);
	CU_ASSERT_EQUAL(o.wait_ms, ZKL_FOREVER);
	CU_ASSERT_EQUAL(o.timeout_ms, 10000);
	CU_ASSERT_EQUAL(o.grace_ms, 1250);
	CU_ASSERT_EQUAL(o.connect_ms, 30000);
	CU_ASSERT_EQUAL(o.min_hold_ms, 0);
	CU_ASSERT_EQUAL(o.max_hold_ms, 0);
	CU_ASSERT_EQUAL(o.margin_ms, 0);
	CU_ASSERT_PTR_NULL(o.auth_file);
	CU_ASSERT_PTR_NULL(o.name);
	CU_ASSERT_FALSE(o.wait_all);
	CU_ASSERT_FALSE(o.leader);
	CU_ASSERT_EQUAL(o.busy_status, 75);
}

static void options_are_read_in_both_forms(void)
{
	struct zkl__run_options o;

	CU_ASSERT_EQUAL(PARSE(&o, "-s", "h:1", "-w", "2", "-E", "9", "-T", "4", "-k", "1", "--min-hold", "60s",
	                      "--connect-timeout=3", "--max-hold", "1h", "--margin=2s", "--name", "a job", "--wait-all",
	                      "--auth-file", "f", "-v", "/a", "true"),
	                0);
	CU_ASSERT_STRING_EQUAL(o.servers, "h:1");
	CU_ASSERT_EQUAL(o.wait_ms, 2000);
	CU_ASSERT_EQUAL(o.busy_status, 9);
	CU_ASSERT_EQUAL(o.timeout_ms, 4000);
	CU_ASSERT_EQUAL(o.grace_ms, 1000);
	CU_ASSERT_EQUAL(o.min_hold_ms, 60000);
	CU_ASSERT_EQUAL(o.connect_ms, 3000);
	CU_ASSERT_TRUE(o.verbose);
	CU_ASSERT_EQUAL(o.max_hold_ms, 3600000);
	CU_ASSERT_EQUAL(o.margin_ms, 2000);
	CU_ASSERT_STRING_EQUAL(o.name, "a job");
	CU_ASSERT_STRING_EQUAL(o.auth_file, "f");
	CU_ASSERT_TRUE(o.wait_all);
	CU_ASSERT_EQUAL(PARSE(&o, "--leader", "--wait-all", "--max-hold", "1h", "/a", "true"), 0);
	CU_ASSERT_TRUE(o.leader);
	CU_ASSERT_EQUAL(o.wait_ms, ZKL_FOREVER);
	CU_ASSERT_EQUAL(PARSE(&o, "--servers=h:2", "--nonblock", "--conflict-exit-code=0", "--session-timeout=8s",
	                      "--kill-after=0", "--quiet", "/a", "true"),
	                0);
	CU_ASSERT_STRING_EQUAL(o.servers, "h:2");
	CU_ASSERT_EQUAL(o.wait_ms, 0);
	CU_ASSERT_EQUAL(o.busy_status, 0);
	CU_ASSERT_EQUAL(o.grace_ms, 0);
	CU_ASSERT_TRUE(o.quiet);
}

static void options_end_at_the_path(void)
{
	struct zkl__run_options o;

	CU_ASSERT_EQUAL(PARSE(&o, "-n", "/a", "cmd", "-v", "--help", "--", "-x"), 0);
	CU_ASSERT_FALSE(o.verbose);
	CU_ASSERT_STRING_EQUAL(o.command[0], "cmd");
	CU_ASSERT_STRING_EQUAL(o.command[1], "-v");
	CU_ASSERT_STRING_EQUAL(o.command[3], "--");
	CU_ASSERT_STRING_EQUAL(o.command[4], "-x");
	CU_ASSERT_EQUAL(PARSE(&o, "/a", "--", "cmd", "--"), 0);
	CU_ASSERT_STRING_EQUAL(o.command[0], "cmd");
	CU_ASSERT_EQUAL(PARSE(&o, "/a", "--", "--", "x"), 0);
	CU_ASSERT_STRING_EQUAL(o.command[0], "--");
	CU_ASSERT_EQUAL(PARSE(&o, "/a", "--", "-n"), 0);
	CU_ASSERT_STRING_EQUAL(o.command[0], "-n");
	CU_ASSERT_EQUAL(PARSE(&o, "--", "/a", "cmd"), 0);
	CU_ASSERT_STRING_EQUAL(o.path, "/a");
}

static void wrong_command_lines_are_refused_with_a_reason(void)
{
	REFUSES("no PATH", "-n");
	REFUSES("no COMMAND", "/a");
	REFUSES("no COMMAND", "/a", "--");
	REFUSES("PATH begins with \"/\", and \"locks/a\" does not: did you mean \"/locks/a\"? zklock-run [OPTION...] PATH",
	        "locks/a", "true");
	REFUSES("\"true\" does not: did you mean", "--", "true");
	REFUSES("and \"\" does not", "", "true");
	REFUSES("\"-n\" comes behind PATH, and options before it: zklock-run [OPTION...] PATH", "/a", "-n", "--",
	        "true");
	REFUSES("\"--wait=5\" comes behind PATH", "-q", "/a", "--wait=5", "true");
	REFUSES("option \"-x\" is unknown", "-x", "/a", "true");
	REFUSES("option \"-x\" is unknown", "--quiet", "-xn", "/a", "true");
	REFUSES("option \"-x\" is unknown", "-nxq", "/a", "true");
	REFUSES("option \"-\xc3\xa4\" is unknown", "-\xc3\xa4", "/a", "true");
	REFUSES("option \"--frob\" is unknown", "--frob", "/a", "true");
	REFUSES("option \"--quiet=1\" takes no value", "--quiet=1", "/a", "true");
	REFUSES("option \"--ma\" may be --max-hold, --margin:", "--ma", "1", "/a", "true");
	REFUSES("option \"--w\" may be --wait, --wait-all:", "--w=1", "/a", "true");
	REFUSES("option \"-w\" needs a value", "-w");
	REFUSES("option \"-w\" needs a value", "-vw");
	REFUSES("option \"--wait\" needs a value", "--wait");
	REFUSES("exclude", "-n", "-w", "1", "/a", "true");
	REFUSES("exclude", "-v", "-q", "/a", "true");
	REFUSES("-w: \"soon\"", "-w", "soon", "/a", "true");
	REFUSES("too short", "-T", "0", "/a", "true");
	REFUSES("too short", "--connect-timeout", "0", "/a", "true");
	REFUSES("exit status", "-E", "256", "/a", "true");
	REFUSES("exit status", "-E", "-1", "/a", "true");
	REFUSES("exit status", "-E", "7x", "/a", "true");
	REFUSES("no server", "-s", "", "/a", "true");
	REFUSES("at least 100 ms", "-T", "99ms", "/a", "true");
	REFUSES("-T: more than a day", "-T", "1000h", "/a", "true");
	REFUSES("-n has no meaning", "-n", "--leader", "/a", "true");
	REFUSES("-w has no meaning", "--leader", "-w", "1", "/a", "true");
	REFUSES("-E has no meaning", "--leader", "-E", "75", "/a", "true");
	REFUSES("--min-hold has no meaning", "--leader", "--min-hold", "0", "/a", "true");
	REFUSES("too short", "--max-hold", "0", "/a", "true");
	REFUSES("--max-hold is less than --min-hold", "--max-hold", "1", "--min-hold", "2", "/a", "true");
	REFUSES("--auth-file: no file", "--auth-file", "", "/a", "true");
	REFUSES("--name: give 1 to 64", "--name=", "/a", "true");
	REFUSES("not 65", "--name", "12345678901234567890123456789012345678901234567890123456789012345", "/a", "true");
	REFUSES("printable", "--name", "two\nlines", "/a", "true");
	REFUSES("printable", "--name", "caf\xc3\xa9", "/a", "true");
	REFUSES("printable", "--name", "a\\b", "/a", "true");
}

static void what_would_be_right_is_said_of_long_arguments_too(void)
{
	char long_one[2000];

	memset(long_one, 'x', sizeof long_one);
	long_one[sizeof long_one - 1] = '\0';
	REFUSES("give seconds", "-w", long_one, "/a", "true");
	REFUSES("from 0 to 255", "-E", long_one, "/a", "true");
	REFUSES("not 1999", "--name", long_one, "/a", "true");
	REFUSES("PATH [--] COMMAND [ARG...]", long_one, "true");
	long_one[0] = long_one[1] = '-';
	REFUSES("is unknown: see zklock-run --help", long_one, "/a", "true");
	REFUSES("PATH [--] COMMAND [ARG...]", "/a", long_one);
	memset(long_one, '0', sizeof long_one - 1);
	REFUSES("too short: at least 1 ms", "--connect-timeout", long_one, "/a", "true");
}

static void long_options_may_be_cut(void)
{
	struct zkl__run_options o;

	CU_ASSERT_EQUAL(PARSE(&o, "--serv", "h:1", "--nonb", "/a", "true"), 0);
	CU_ASSERT_STRING_EQUAL(o.servers, "h:1");
	CU_ASSERT_EQUAL(o.wait_ms, 0);
}

static void what_does_not_fit_the_session_timeout_is_refused(void)
{
	struct zkl__run_options o;

	REFUSES("at most a quarter of it, 1000 ms", "-T", "4", "-k", "1.001", "/a", "true");
	REFUSES("--margin: 3749 ms does not fit into a session timeout of 10000 ms: give from 3750 to 6250 ms",
	        "--margin", "3.749", "/a", "true");
	REFUSES("from 3000 to 5000 ms", "-T", "8", "--margin", "5.001", "/a", "true");
	REFUSES("--margin: \"0\" is too short", "--margin", "0", "/a", "true");
	REFUSES("at most 7916 ms, or a longer -T", "--margin", "6", "-k", "1.917", "/a", "true");
	CU_ASSERT_EQUAL(PARSE(&o, "--margin", "6", "-k", "1.5", "/a", "true"), 0);
	CU_ASSERT_EQUAL(zkl__run_options_fit(&o, 12000, true, why), 0);
	CU_ASSERT_EQUAL(zkl__run_options_fit(&o, 5999, true, why), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "-k: a grace of 1500 ms"));
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "that the servers granted, 5999 ms"));
	CU_ASSERT_EQUAL(PARSE(&o, "--margin", "6", "/a", "true"), 0);
	CU_ASSERT_EQUAL(zkl__run_options_fit(&o, 20000, true, why), -1);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "from 7500 to 12500 ms"));
}

static void help_and_version_need_nothing_else(void)
{
	struct zkl__run_options o;

	CU_ASSERT_EQUAL(PARSE(&o, "--help"), 0);
	CU_ASSERT_EQUAL(o.what, ZKL__RUN_HELP);
	CU_ASSERT_EQUAL(PARSE(&o, "-n", "--version", "nonsense"), 0);
	CU_ASSERT_EQUAL(o.what, ZKL__RUN_VERSION);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(durations_are_seconds_or_carry_a_unit),
		TEST(durations_are_rounded_up),
		TEST(what_is_no_duration_is_refused),
		TEST(durations_that_overflow_are_refused),
		TEST(defaults_are_those_of_the_manual),
		TEST(options_are_read_in_both_forms),
		TEST(options_end_at_the_path),
		TEST(wrong_command_lines_are_refused_with_a_reason),
		TEST(help_and_version_need_nothing_else),
		TEST(what_would_be_right_is_said_of_long_arguments_too),
		TEST(long_options_may_be_cut),
		TEST(what_does_not_fit_the_session_timeout_is_refused),
		{0},
	};

	return check_main("run_options", tests, argc, argv);
}
