/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "queue.h"

#define A "_c_aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define B "_c_bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
#define C "_c_cccccccc-cccc-4ccc-8ccc-cccccccccccc"

static const struct zkl__uuid uuid_b = {0xbbbbbbbbbbbb4bbb, 0x8bbbbbbbbbbbbbbb};

/* The queue as the contender B sees it. */
static struct zkl__queue look(const char *const *names)
{
	struct zkl__queue queue;
	size_t            count = 0;

	while (names[count])
		count++;
	zkl__queue_look(&queue, names, count, ZKL__KIND_LOCK, uuid_b);
	return queue;
}

#define LOOK(...) look((const char *const[]){__VA_ARGS__, NULL})

/* ---- names -------------------------------------------------------------------------------------------------------------- */

static void our_name_is_curators_protected_name(void)
{
	char name[ZKL__NAME_MAX], text[ZKL__UUID_MAX];

	zkl__uuid_text(uuid_b, text);
	CHECK_STR(text, "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb");
	zkl__queue_prefix(ZKL__KIND_LOCK, uuid_b, name);
	CHECK_STR(name, B "-lock-");
	zkl__uuid_text((struct zkl__uuid){0, 0}, text);
	CHECK_STR(text, "00000000-0000-0000-0000-000000000000");
	zkl__uuid_text((struct zkl__uuid){UINT64_MAX, UINT64_MAX}, text);
	CHECK_STR(text, "ffffffff-ffff-ffff-ffff-ffffffffffff");
	zkl__uuid_text((struct zkl__uuid){0x0123456789abcdef, 0xfedcba9876543210}, text);
	CHECK_STR(text, "01234567-89ab-cdef-fedc-ba9876543210");
}

static void sequence_is_the_number_in_exactly_the_last_ten_digits(void)
{
	static const struct {
		const char *name;
		int64_t     sequence;
	} cases[] = {
		{A "-lock-0000000000", 0},
		{A "-lock-0000000005", 5},
		{A "-lock-2147483647", INT32_MAX},
		{A "-latch-0000000017", 17},                                /* Curator's LeaderLatch */
		{"lock-0000000042", 42},                                    /* Curator without protection */
		{"6b1fd0b0fe9b4ac39a5eb9fbd6bb4a35__lock__0000000023", 23}, /* kazoo */
		{"6b1fd0b0fe9b4ac39a5eb9fbd6bb4a35__rlock__0000000024", 24},
		{"x-184236-0000000009", 9}, /* ZooKeeper's own C recipe */
		{"0000000003", 3},          /* nothing but the number */
		{"-0000000003", 3},
		{"node70000000003", 3}, /* more digits than ten: the rest belongs to the prefix */
		{"900000000010000000004", 4},
		/* too few */
		{"", -1},
		{"lock-", -1},
		{"lock", -1},
		{"lock-000000005", -1},
		{"lock-5", -1},
		{"5", -1},
		{"lock-0000000005 ", -1},
		{"lock-0000000005x", -1},
		{"lock-00000x0005", -1},
		{"lock-00000-0005", -1},
		{"lock-0000000005-meta", -1},
		{"lock-\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0\xd9\xa0", -1}, /* digits of another script */
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		if (!CHECK_INT(zkl__queue_sequence(cases[i].name), cases[i].sequence))
			printf("    %s\n", cases[i].name);
}

static void sequence_that_ran_over_is_recognised_in_each_form(void)
{
	static const char *const names[] = {
		A "-lock--2147483648",
		A "-lock--2147483647",
		A "-lock--1000000000",
		A "-lock--999999999",
		A "-lock--000000005",
		A "-lock--000000001",
		"--2147483648",
		"--000000005",
		/* behind a prefix that does not end with a dash only the size of the number tells */
		"uuid__lock__-2147483648",
		"x2147483648",
		"x9999999999",
	};

	for (size_t i = 0; i < COUNT(names); i++)
		if (!CHECK_INT(zkl__queue_sequence(names[i]), -2))
			printf("    %s\n", names[i]);
	CHECK(LOOK(A "-lock-0000000001", B "-lock-0000000002", C "-lock--000000005").overrun);
	CHECK(LOOK(B "-lock-2147483647", C "-lock--2147483648").overrun);
	CHECK(!LOOK(B "-lock-2147483647").overrun);
}

static void child_whose_number_ran_over_is_not_counted(void)
{
	struct zkl__queue queue = LOOK(B "-lock-0000000002", C "-lock--2147483648");

	CHECK_INT(queue.contenders, 1);
	CHECK_INT(queue.ahead, 0);
	CHECK_STR(queue.lowest, B "-lock-0000000002");
}

static void limit_of_the_sequence_lies_well_before_2_to_the_31(void)
{
	CHECK_INT(ZKL__SEQUENCE_END, INT64_C(2147483648) - 1048576);
}

/* ---- order -------------------------------------------------------------------------------------------------------------- */

static void empty_directory_has_nobody(void)
{
	struct zkl__queue queue;

	zkl__queue_look(&queue, NULL, 0, ZKL__KIND_LOCK, uuid_b);
	CHECK_INT(queue.contenders, 0);
	CHECK_INT(queue.ahead, 0);
	CHECK_INT(queue.mine, 0);
	CHECK_INT(queue.own_sequence, -1);
	CHECK(!queue.overrun && !queue.unreadable);
	CHECK_STR(queue.own, "");
	CHECK_STR(queue.predecessor, "");
	CHECK_STR(queue.lowest, "");
	CHECK_STR(queue.foreign, "");
}

static void alone_we_are_lowest(void)
{
	struct zkl__queue queue = LOOK(B "-lock-0000000000");

	CHECK_INT(queue.contenders, 1);
	CHECK_INT(queue.ahead, 0);
	CHECK_INT(queue.mine, 1);
	CHECK_INT(queue.own_sequence, 0);
	CHECK_STR(queue.own, B "-lock-0000000000");
	CHECK_STR(queue.lowest, B "-lock-0000000000");
	CHECK_STR(queue.predecessor, "");
}

/* ZOOKEEPER-3162: comparing whole names orders by the random part. */
static void order_is_by_number_and_not_by_name(void)
{
	struct zkl__queue queue = LOOK(C "-lock-0000000001", B "-lock-0000000002", A "-lock-0000000003");

	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, C "-lock-0000000001");
	CHECK_STR(queue.lowest, C "-lock-0000000001");
	queue = LOOK(A "-lock-0000000003", B "-lock-0000000002", C "-lock-0000000001");
	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, C "-lock-0000000001");
	queue = LOOK(B "-lock-0000000009", A "-lock-0000000010");
	CHECK_INT(queue.ahead, 0);
}

static void predecessor_is_the_highest_of_those_before_us(void)
{
	struct zkl__queue queue = LOOK(A "-lock-0000000007", C "-lock-0000000003", B "-lock-0000000008",
	                               A "-lock-0000000005", C "-lock-0000000009", A "-lock-0000000006");

	CHECK_INT(queue.contenders, 6);
	CHECK_INT(queue.ahead, 4);
	CHECK_STR(queue.predecessor, A "-lock-0000000007");
	CHECK_STR(queue.lowest, C "-lock-0000000003");
	CHECK_STR(queue.own, B "-lock-0000000008");
}

static void everybody_is_before_who_is_not_there(void)
{
	struct zkl__queue queue = LOOK(A "-lock-0000000007", C "-lock-0000000003");

	CHECK_INT(queue.mine, 0);
	CHECK_INT(queue.own_sequence, -1);
	CHECK_INT(queue.ahead, 2);
	CHECK_STR(queue.own, "");
	CHECK_STR(queue.lowest, C "-lock-0000000003");
}

/* A counter that sticks at 2^31-1 hands out the same number twice: neither may think that it is the lowest. */
static void ties_block_each_other(void)
{
	struct zkl__queue queue = LOOK(A "-lock-2147483647", B "-lock-2147483647");

	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, A "-lock-2147483647");
	queue = LOOK(B "-lock-2147483647", C "-lock-2147483647");
	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, C "-lock-2147483647");
}

static void children_without_a_number_are_no_contenders(void)
{
	static const char ours[] = B "-lock-0000000004";
	struct zkl__queue queue = LOOK("config", "lock-5", ours, "leader-000000001", "");

	CHECK_INT(queue.contenders, 1);
	CHECK_INT(queue.ahead, 0);
	CHECK_STR(queue.lowest, ours);
	CHECK_STR(queue.foreign, "");
	CHECK(!queue.overrun);
}

static void foreign_contender_blocks_and_is_named(void)
{
	struct zkl__queue queue = LOOK("uuid__lock__0000000003", B "-lock-0000000004");

	CHECK_INT(queue.contenders, 2);
	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, "uuid__lock__0000000003");
	CHECK_STR(queue.foreign, "uuid__lock__0000000003");
	CHECK_STR(LOOK(A "-latch-0000000003", B "-lock-0000000004").foreign, A "-latch-0000000003");
	CHECK_STR(LOOK(A "-latch-0000000003", B "-lock-0000000004").misplaced, A "-latch-0000000003");
	CHECK_STR(LOOK(A "-latch-0000000005", B "-lock-0000000004").misplaced, "");
	CHECK_STR(LOOK(A "-latch-0000000005").misplaced, A "-latch-0000000005");
	CHECK_STR(LOOK("uuid__lock__0000000003", B "-lock-0000000004").misplaced, "");
	CHECK_STR(LOOK(A "-lock-0000000003", B "-lock-0000000004").foreign, "");
	CHECK_STR(LOOK("lock-0000000003", B "-lock-0000000004").foreign, "lock-0000000003");
}

/* ---- ours --------------------------------------------------------------------------------------------------------------- */

static void ours_is_told_by_the_whole_uuid(void)
{
	CHECK_INT(LOOK("_c_bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbc-lock-0000000001").mine, 0);
	CHECK_INT(LOOK("x" B "-lock-0000000001").mine, 0);
	CHECK_INT(LOOK(B "-latch-0000000001").mine, 0);
	CHECK_INT(LOOK(B "-lock-00000000001").mine, 0);
	CHECK_INT(LOOK(B "-lock-0000000001").mine, 1);
}

static void of_two_of_ours_the_lowest_counts_and_the_other_is_named(void)
{
	struct zkl__queue queue = LOOK(A "-lock-0000000003", B "-lock-0000000008", B "-lock-0000000005");

	CHECK_INT(queue.mine, 2);
	CHECK_INT(queue.own_sequence, 5);
	CHECK_STR(queue.own, B "-lock-0000000005");
	CHECK_STR(queue.extra, B "-lock-0000000008");
	CHECK_INT(queue.ahead, 1);
	CHECK_STR(queue.predecessor, A "-lock-0000000003");
	queue = LOOK(B "-lock-0000000005", B "-lock-0000000008", A "-lock-0000000003");
	CHECK_STR(queue.own, B "-lock-0000000005");
	CHECK_STR(queue.extra, B "-lock-0000000008");
}

/* ---- names that do not fit ------------------------------------------------------------------------------------------------ */

static void contender_with_a_longer_name_is_reported_and_still_counted(void)
{
	char              fits[ZKL__NAME_MAX], longer[ZKL__NAME_MAX + 1];
	struct zkl__queue queue;

	memset(fits, 'x', sizeof fits);
	memcpy(fits + sizeof fits - 11, "0000000001", 11);
	memset(longer, 'x', sizeof longer);
	memcpy(longer + sizeof longer - 11, "0000000001", 11);
	CHECK_INT(zkl__queue_sequence(longer), 1);
	queue = LOOK(longer, B "-lock-0000000004");
	CHECK(queue.unreadable);
	CHECK_INT(queue.contenders, 2);
	CHECK_INT(queue.ahead, 1);
	queue = LOOK(fits, B "-lock-0000000004");
	CHECK(!queue.unreadable);
	CHECK_STR(queue.predecessor, fits);
}

static void very_long_name_without_a_number_is_ignored(void)
{
	char              name[5001];
	struct zkl__queue queue;

	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = 0;
	queue = LOOK(name, B "-lock-0000000004");
	CHECK(!queue.unreadable);
	CHECK_INT(queue.contenders, 1);
	CHECK_INT(queue.ahead, 0);
}

/* Against the plainest count, with a thousand random directories. */
static void random_directories_are_counted_right(void)
{
	uint64_t seed = 1;

	for (int round = 0; round < 1000; round++) {
		char        text[12][ZKL__NAME_MAX];
		const char *names[13] = {0};
		int64_t     before = -1, own = -1;
		unsigned    count = (unsigned)check_below(&seed, 12), ahead = 0;

		for (unsigned i = 0; i < count; i++) {
			int64_t number = check_below(&seed, 20);

			snprintf(text[i], sizeof text[i], "%s-lock-%010d", own < 0 && number % 4 == 0 ? B : A,
			         (int)number);
			if (own < 0 && number % 4 == 0)
				own = number;
			names[i] = text[i];
		}
		for (unsigned i = 0; i < count; i++) {
			int64_t number = atoll(text[i] + strlen(text[i]) - 10);

			if (text[i][3] == 'b' || (own >= 0 && number > own))
				continue;
			ahead++;
			before = number > before ? number : before;
		}
		struct zkl__queue queue = look(names);

		if (queue.ahead != ahead || queue.own_sequence != own || queue.contenders != count ||
		    (ahead && zkl__queue_sequence(queue.predecessor) != before)) {
			FAIL("round %d: ahead %u, not %u", round, queue.ahead, ahead);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(our_name_is_curators_protected_name),
	                                          TEST(sequence_is_the_number_in_exactly_the_last_ten_digits),
	                                          TEST(sequence_that_ran_over_is_recognised_in_each_form),
	                                          TEST(child_whose_number_ran_over_is_not_counted),
	                                          TEST(limit_of_the_sequence_lies_well_before_2_to_the_31),
	                                          TEST(empty_directory_has_nobody),
	                                          TEST(alone_we_are_lowest),
	                                          TEST(order_is_by_number_and_not_by_name),
	                                          TEST(predecessor_is_the_highest_of_those_before_us),
	                                          TEST(everybody_is_before_who_is_not_there),
	                                          TEST(ties_block_each_other),
	                                          TEST(children_without_a_number_are_no_contenders),
	                                          TEST(foreign_contender_blocks_and_is_named),
	                                          TEST(ours_is_told_by_the_whole_uuid),
	                                          TEST(of_two_of_ours_the_lowest_counts_and_the_other_is_named),
	                                          TEST(contender_with_a_longer_name_is_reported_and_still_counted),
	                                          TEST(very_long_name_without_a_number_is_ignored),
	                                          TEST(random_directories_are_counted_right),
	                                          {0}};

	return check_main("queue", tests, argc, argv);
}
