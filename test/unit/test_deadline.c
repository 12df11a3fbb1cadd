/* SPDX-License-Identifier: Apache-2.0 */
/* The deadline that front and warden share: it moves until it has passed, and then never again. */
#include "../../zklock/deadline.h"
#include "check.h"

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

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(deadline_moves_while_it_has_not_passed),
		TEST(deadline_that_has_passed_stays_passed),
		TEST(deadline_is_not_moved_by_who_comes_too_late),
		TEST(deadline_can_be_ended_early),
		{0},
	};

	return check_main("deadline", tests, argc, argv);
}
