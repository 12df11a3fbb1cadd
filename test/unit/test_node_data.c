/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "node_data.h"

static const struct zkl__identity who = {"web1", "backup", 4711};

#define HEAD   "zklock 1\nid=web1:4711 backup\nhost=web1\npid=4711\nprogram=backup\nsince=1767225600000\n"
#define MARKED HEAD "mark=lowest\n\n"

static char   text[ZKL__NODE_HEAD_MAX + 1000];
static size_t length;

static void print(bool marked, const char *own, size_t own_len)
{
	memset(text, '#', sizeof text);
	length = zkl__node_data_print(text, sizeof text, &who, 1767225600000, marked, own, own_len);
}

static bool is(const char *expected)
{
	return length == strlen(expected) && memcmp(text, expected, length) == 0;
}

/* What a reader gets of some data. */
static char        id[ZKL__NODE_ID_MAX];
static const char *own;
static size_t      own_len;

static void read_data(const char *data, size_t len)
{
	memset(id, '#', sizeof id);
	zkl__node_data_read(data, len, id, &own, &own_len);
}

#define READ(literal)      read_data(literal, sizeof(literal) - 1)
#define IS_MARKED(literal) zkl__node_data_is_marked(literal, sizeof(literal) - 1)

/* ---- print ---------------------------------------------------------------------------------------------------------------- */

static void data_says_who_it_is(void)
{
	print(false, NULL, 0);
	CHECK(is(HEAD "\n"));
	CHECK(!zkl__node_data_is_marked(text, length));
	read_data(text, length);
	CHECK_STR(id, "web1:4711 backup");
	CHECK_INT(own_len, 0);
}

static void mark_stands_in_the_head(void)
{
	print(true, NULL, 0);
	CHECK(is(MARKED));
	CHECK(zkl__node_data_is_marked(text, length));
	read_data(text, length);
	CHECK_STR(id, "web1:4711 backup");
	CHECK_INT(own_len, 0);
}

static void own_data_follows_byte_by_byte(void)
{
	static const char bytes[] = "a\0b\n\n\nmark=lowest\n\xff\x80";

	for (int marked = 0; marked < 2; marked++) {
		print(marked, bytes, sizeof bytes);
		CHECK(zkl__node_data_is_marked(text, length) == marked);
		read_data(text, length);
		CHECK_STR(id, "web1:4711 backup");
		CHECK_INT(own_len, sizeof bytes);
		CHECK(memcmp(own, bytes, sizeof bytes) == 0);
	}
}

static void head_of_the_longest_identity_fits_with_the_most_data(void)
{
	static char          most[1000];
	struct zkl__identity longest = {.pid = INT64_MIN};

	memset(longest.host, 'h', sizeof longest.host - 1);
	memset(longest.program, 'p', sizeof longest.program - 1);
	memset(most, 'd', sizeof most);
	length = zkl__node_data_print(text, sizeof text, &longest, INT64_MIN, true, most, sizeof most);
	CHECK(length > sizeof most);
	CHECK(zkl__node_data_is_marked(text, length));
	read_data(text, length);
	CHECK_INT(own_len, sizeof most);
}

static void data_that_does_not_fit_is_cut_behind_its_head(void)
{
	char   small[160];
	size_t head = strlen(HEAD "\n"), got;

	got = zkl__node_data_print(small, head + 4, &who, 1767225600000, false, "abcdef", 6);
	CHECK_INT(got, head + 4);
	CHECK(memcmp(small + head, "abcd", 4) == 0);
	CHECK_INT(zkl__node_data_print(small, head, &who, 1767225600000, false, "abcdef", 6), 0);
}

/* ---- mark ------------------------------------------------------------------------------------------------------------------ */

static void mark_counts_only_in_the_head(void)
{
	CHECK(IS_MARKED(MARKED));
	CHECK(IS_MARKED(MARKED "own data"));
	CHECK(IS_MARKED("zklock 1\nmark=lowest\n\n"));
	CHECK(IS_MARKED("zklock 1\nfuture=key\nmark=lowest\nother=key\n\n"));
	CHECK(!IS_MARKED(HEAD "\nmark=lowest\n\n"));
	CHECK(!IS_MARKED(HEAD "\n\nmark=lowest\n\n"));
	CHECK(!IS_MARKED(HEAD "mark=lowest\n")); /* cut: the head has no end */
	CHECK(!IS_MARKED("zklock 1\nmark=lowest"));
	CHECK(!IS_MARKED("zklock 1\nmark=lowest "
	                 "\n\n"));
	CHECK(!IS_MARKED("zklock 1\nmark=highest\n\n"));
	CHECK(!IS_MARKED("zklock 1\nxmark=lowest\n\n"));
	CHECK(!IS_MARKED("zklock 1\nid=mark=lowest\n\n"));
}

static void foreign_data_is_never_marked(void)
{
	CHECK(!IS_MARKED(""));
	CHECK(!IS_MARKED("mark=lowest\n\n"));
	CHECK(!IS_MARKED("\nmark=lowest\n\n"));
	CHECK(!IS_MARKED("zklock 2\nmark=lowest\n\n"));
	CHECK(!IS_MARKED("zklock 10\nmark=lowest\n\n"));
	CHECK(!IS_MARKED(" zklock 1\nmark=lowest\n\n"));
	CHECK(!IS_MARKED("zklock 1 \nmark=lowest\n\n"));
	CHECK(!zkl__node_data_is_marked(NULL, 0));
}

/* ---- read ------------------------------------------------------------------------------------------------------------------- */

static void unknown_keys_are_skipped(void)
{
	READ("zklock 1\nfuture=1\nid=web2:1 x\nlater=2\n\ndata");
	CHECK_STR(id, "web2:1 x");
	CHECK_INT(own_len, 4);
	CHECK(memcmp(own, "data", 4) == 0);
}

static void foreign_data_is_shown_escaped_and_is_all_its_own(void)
{
	READ("192.168.0.1");
	CHECK_STR(id, "192.168.0.1");
	CHECK_INT(own_len, 11);
	READ("a\nb\\c\x01\x7f\xc3\xa4");
	CHECK_STR(id, "a\\x0ab\\x5cc\\x01\\x7f\\xc3\\xa4");
	CHECK_INT(own_len, 9);
	READ("");
	CHECK_STR(id, "");
	CHECK_INT(own_len, 0);
	read_data(NULL, 0);
	CHECK_STR(id, "");
	READ("zklock 2\nid=web1:1 x\n\n");
	CHECK_STR(id, "zklock 2\\x0aid=web1:1 x\\x0a\\x0a");
	READ("zklock 1\nhost=x\n\n"); /* without an id */
	CHECK_STR(id, "zklock 1\\x0ahost=x\\x0a\\x0a");
}

static void head_without_an_end_is_foreign(void)
{
	READ("zklock 1\nid=web1:1 x\n");
	CHECK_STR(id, "zklock 1\\x0aid=web1:1 x\\x0a");
	CHECK_INT(own_len, 21);
}

static void id_in_the_own_data_does_not_count(void)
{
	READ("zklock 1\nid=true\n\n\nid=false\n\n");
	CHECK_STR(id, "true");
	READ("zklock 1\nhost=x\n\nid=false\n\n");
	CHECK(strncmp(id, "zklock 1", 8) == 0);
}

static void id_is_escaped_and_cut(void)
{
	char long_id[400] = "zklock 1\nid=";

	READ("zklock 1\nid=a\x1b[31mb\n\n");
	CHECK_STR(id, "a\\x1b[31mb");
	memset(long_id + 12, '\x02', 300);
	memcpy(long_id + 312, "\n\nx", 4);
	read_data(long_id, 315);
	CHECK_INT(strlen(id), 124); /* whole escapes only */
	CHECK_INT(own_len, 1);
}

static void random_bytes_are_read_without_harm(void)
{
	uint64_t seed = 5;

	for (int round = 0; round < 20000; round++) {
		static const char *const pieces[] = {"zklock 1\n", "\n",   "id=", "mark=lowest",
		                                     "=",          "\n\n", "x",   "\xff"};
		char                     data[200];
		size_t                   used = 0;
		char                    *copy;

		for (int64_t n = check_below(&seed, 12); n > 0; n--)
			used += (size_t)snprintf(data + used, sizeof data - used, "%s", pieces[check_below(&seed, 8)]);
		copy = malloc(used ? used : 1); /* so that a sanitizer sees every step beyond the end */
		if (!CHECK(copy != NULL))
			return;
		memcpy(copy, data, used);
		zkl__node_data_is_marked(copy, used);
		read_data(copy, used);
		if (own + own_len != copy + used || strlen(id) >= sizeof id)
			FAIL("round %d: the own data do not end with the data", round);
		free(copy);
	}
}

static void printable_is_cut_to_its_buffer(void)
{
	char ret[6];

	zkl__printable(ret, sizeof ret, "abcdefgh", 8);
	CHECK_STR(ret, "abcde");
	zkl__printable(ret, sizeof ret, "abc\nd", 5); /* an escape is whole or not there */
	CHECK_STR(ret, "abc");
	zkl__printable(ret, 1, "abc", 3);
	CHECK_STR(ret, "");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(data_says_who_it_is),
	                                          TEST(mark_stands_in_the_head),
	                                          TEST(own_data_follows_byte_by_byte),
	                                          TEST(head_of_the_longest_identity_fits_with_the_most_data),
	                                          TEST(data_that_does_not_fit_is_cut_behind_its_head),
	                                          TEST(mark_counts_only_in_the_head),
	                                          TEST(foreign_data_is_never_marked),
	                                          TEST(unknown_keys_are_skipped),
	                                          TEST(foreign_data_is_shown_escaped_and_is_all_its_own),
	                                          TEST(head_without_an_end_is_foreign),
	                                          TEST(id_in_the_own_data_does_not_count),
	                                          TEST(id_is_escaped_and_cut),
	                                          TEST(random_bytes_are_read_without_harm),
	                                          TEST(printable_is_cut_to_its_buffer),
	                                          {0}};

	return check_main("node_data", tests, argc, argv);
}
