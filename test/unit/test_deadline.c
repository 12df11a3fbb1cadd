/* SPDX-License-Identifier: Apache-2.0 */
/* The deadline that front and warden share: it moves until it has passed, and then never again. */
#include "../../zklock/deadline.h"

#include <CUnit/Basic.h>

static void deadline_moves_while_it_has_not_passed(void)
{
	struct zkl__deadline d;

	zkl__deadline_init(&d);
	CU_ASSERT_FALSE(zkl__deadline_passed(&d, INT64_MAX / 2));
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 100, 200));
	CU_ASSERT_FALSE(zkl__deadline_passed(&d, 199));
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 199, 300));
	CU_ASSERT_EQUAL(zkl__deadline_ns(&d), 300);
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 200, 250));
	CU_ASSERT_EQUAL(zkl__deadline_ns(&d), 250);
}

static void deadline_that_has_passed_stays_passed(void)
{
	struct zkl__deadline d;

	zkl__deadline_init(&d);
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 100, 200));
	CU_ASSERT_TRUE(zkl__deadline_passed(&d, 200));
	CU_ASSERT_FALSE(zkl__deadline_move(&d, 150, 900));
	CU_ASSERT_TRUE(zkl__deadline_passed(&d, 150));
	CU_ASSERT_EQUAL(zkl__deadline_ns(&d), 200);
}

static void deadline_is_not_moved_by_who_comes_too_late(void)
{
	struct zkl__deadline d;

	zkl__deadline_init(&d);
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 100, 200));
	CU_ASSERT_FALSE(zkl__deadline_move(&d, 200, 900));
	CU_ASSERT_TRUE(zkl__deadline_passed(&d, 0));
}

static void deadline_can_be_ended_early(void)
{
	struct zkl__deadline d;

	zkl__deadline_init(&d);
	CU_ASSERT_TRUE(zkl__deadline_move(&d, 100, 200));
	zkl__deadline_end(&d, 150);
	CU_ASSERT_TRUE(zkl__deadline_passed(&d, 0));
	CU_ASSERT_EQUAL(zkl__deadline_ns(&d), 150);
	zkl__deadline_end(&d, 120);
	CU_ASSERT_EQUAL(zkl__deadline_ns(&d), 150);
}

#define TEST(name)                                                                                                     \
	{                                                                                                              \
#name, name                                                                                            \
	}

int main(void)
{
	CU_TestInfo  tests[] = {TEST(deadline_moves_while_it_has_not_passed),
	                        TEST(deadline_that_has_passed_stays_passed),
	                        TEST(deadline_is_not_moved_by_who_comes_too_late), TEST(deadline_can_be_ended_early),
	                        CU_TEST_INFO_NULL};
	CU_SuiteInfo suites[] = {{"deadline", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};

	if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS)
		return 1;
	CU_basic_run_tests();
	const unsigned failures = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failures == 0 ? 0 : 1;
}
