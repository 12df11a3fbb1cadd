/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_CHECK_H
#define ZKLOCK_TEST_CHECK_H

/* check.h: runs the tests of one file, and compares texts so that a failure shows both.
 *
 *     static void names_are_ordered(void) { CHECK(1 < 2); }
 *     int main(int argc, char **argv)
 *     {
 *             static const struct check_test tests[] = {TEST(names_are_ordered), {0}};
 *             return check_main("queue", tests, argc, argv);
 *     }
 *
 * An argument runs only those tests whose name contains it. */

#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check_test {
	const char *name;
	void (*run)(void);
};

#define TEST(function)                                                                                                 \
	{                                                                                                              \
#function, function                                                                                    \
	}
#define COUNT(array) (sizeof(array) / sizeof *(array))

#define CHECK(condition)            check_that((condition), #condition, __FILE__, __LINE__)
#define CHECK_INT(actual, expected) check_int((int64_t)(actual), (int64_t)(expected), #actual, __FILE__, __LINE__)
#define CHECK_STR(actual, expected) check_str((actual), (expected), #actual, __FILE__, __LINE__)
/* Ends the test with a message, made as by printf; a fuzzer says its seed with it. */
#define FAIL(...)                                                                                                      \
	do {                                                                                                           \
		char fail_text[400];                                                                                   \
		snprintf(fail_text, sizeof fail_text, __VA_ARGS__);                                                    \
		check_that(false, fail_text, __FILE__, __LINE__);                                                      \
	} while (0)

static inline bool check_that(bool good, const char *text, const char *file, int line)
{
	CU_assertImplementation(good, (unsigned)line, text, file, "", CU_FALSE);
	return good;
}

static inline bool check_int(int64_t actual, int64_t expected, const char *what, const char *file, int line)
{
	char text[200];

	snprintf(text, sizeof text, "%s is %" PRId64 ", not %" PRId64, what, actual, expected);
	return check_that(actual == expected, text, file, line);
}

static inline bool check_str(const char *actual, const char *expected, const char *what, const char *file, int line)
{
	char text[1200];

	snprintf(text, sizeof text, "%.150s\n       is: \"%.500s\"\n      not: \"%.500s\"", what,
	         actual ? actual : "(null)", expected);
	return check_that(actual && strcmp(actual, expected) == 0, text, file, line);
}

/* A generator whose sequence depends on its seed alone (splitmix64). */
static inline uint64_t check_random(uint64_t *seed)
{
	uint64_t z = (*seed += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* 0 .. limit-1 */
static inline int64_t check_below(uint64_t *seed, int64_t limit)
{
	return (int64_t)(check_random(seed) % (uint64_t)limit);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SLOW 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SLOW 5
#endif
#endif
#ifndef CHECK_SLOW
#define CHECK_SLOW 1
#endif

/* How often: ./dev test --long sets the variable; an instrumented program has less time. */
static inline uint64_t check_rounds(uint64_t in_short_runs, uint64_t in_long_runs)
{
	return (getenv("ZKLOCK_TEST_LONG") ? in_long_runs : in_short_runs) / CHECK_SLOW;
}

static inline int check_main(const char *subject, const struct check_test *tests, int argc, char **argv)
{
	CU_pSuite suite;
	unsigned  failed, run;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 2;
	suite = CU_add_suite(subject, NULL, NULL);
	for (; suite && tests->name; tests++)
		if (argc < 2 || strstr(tests->name, argv[1]))
			CU_add_test(suite, tests->name, tests->run);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
	run = CU_get_number_of_tests_run();
	CU_cleanup_registry();
	return failed || !run;
}

#endif
