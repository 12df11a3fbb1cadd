/* SPDX-License-Identifier: Apache-2.0 */
/* How people are told of a wait, and how often the servers are asked for that. */
#include "check.h"
#include "progress.h"

#define DAY INT64_C(86400000)
/* 2026-01-05 10:00:00 UTC */
#define NOW INT64_C(1767607200000)

static const char *line(const struct zkl__progress *progress)
{
	static char text[400];

	zkl__progress_line(progress, NOW, text, sizeof text);
	return text;
}

static const char *holder(const struct zkl__progress *progress)
{
	static char text[400];

	zkl__progress_holder(progress, NOW, text, sizeof text);
	return text;
}

static struct zkl__progress wait_of(uint32_t ahead, uint32_t waiting)
{
	struct zkl__progress progress = {
		.path = "/locks/job",
		.ahead = ahead,
		.looked = true,
		.holder = {.token = 17, .held_ms = NOW - 65000, .since_ms = NOW - 70000, .waiting = waiting}};

	snprintf(progress.holder.id, sizeof progress.holder.id, "web1:4711 backup");
	return progress;
}

static void line_says_what_is_known(void)
{
	struct zkl__progress progress = {.path = "/locks/job"};

	CHECK_STR(line(&progress), "waiting: /locks/job");
	progress.ahead = 3;
	CHECK_STR(line(&progress), "waiting, 3rd: /locks/job");
	progress = wait_of(2, 3);
	CHECK_STR(line(&progress), "waiting, 2nd of 3, held by web1:4711 backup since 09:58:55: /locks/job");
	/* What was told is newer than the look. */
	progress.ahead = 4;
	CHECK_STR(line(&progress), "waiting, 4th, held by web1:4711 backup since 09:58:55: /locks/job");
}

static void holder_is_told_with_its_token(void)
{
	struct zkl__progress progress = wait_of(2, 3);

	CHECK_STR(holder(&progress), "held by web1:4711 backup since 09:58:55, token 17, we are 2nd of 3 waiting");
	progress.ahead = 0;
	CHECK_STR(holder(&progress), "held by web1:4711 backup since 09:58:55, token 17, 3 waiting");
}

static void since_when_may_be_unknown_or_another_day(void)
{
	struct zkl__progress progress = wait_of(1, 1);

	progress.holder.held_ms = 0;
	CHECK_STR(line(&progress), "waiting, 1st of 1, held by web1:4711 backup, queued 09:58:50: /locks/job");
	progress.holder.held_ms = NOW - DAY;
	CHECK_STR(line(&progress), "waiting, 1st of 1, held by web1:4711 backup since 2026-01-04 10:00:00: /locks/job");
}

static void places_are_ordinals(void)
{
	static const struct {
		uint32_t    place;
		const char *text;
	} places[] = {{1, "1st"},   {2, "2nd"},     {3, "3rd"},    {4, "4th"},   {10, "10th"},
	              {11, "11th"}, {12, "12th"},   {13, "13th"},  {20, "20th"}, {21, "21st"},
	              {22, "22nd"}, {111, "111th"}, {123, "123rd"}};

	for (size_t i = 0; i < COUNT(places); i++) {
		struct zkl__progress progress = {.path = "/a", .ahead = places[i].place};
		char                 expected[40];

		snprintf(expected, sizeof expected, "waiting, %s: /a", places[i].text);
		CHECK_STR(line(&progress), expected);
	}
}

/* The bound of progress.h: ten looks a second at a lock, however many wait. */
static void looks_are_rarer_the_more_there_are(void)
{
	for (uint32_t waiting = 1; waiting < 5000; waiting = waiting * 3 / 2 + 1) {
		struct zkl__progress progress = wait_of(1, waiting);
		const int64_t        pause_ms = zkl__progress_pause_ms(&progress);

		CHECK(pause_ms >= 2000);
		CHECK((int64_t)waiting * 1000 <= 10 * pause_ms);
	}
	struct zkl__progress unknown = {.ahead = 1000};
	CHECK_INT(zkl__progress_pause_ms(&unknown), 100000);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(line_says_what_is_known),
	                                          TEST(holder_is_told_with_its_token),
	                                          TEST(since_when_may_be_unknown_or_another_day),
	                                          TEST(places_are_ordinals),
	                                          TEST(looks_are_rarer_the_more_there_are),
	                                          {0}};

	setenv("TZ", "UTC0", 1);
	return check_main("progress", tests, argc, argv);
}
