/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define LOOK_LEAST_MS 2000
#define LOOK_EACH_MS  100

/* By our own time zone; of another day with the date. */
static void print_moment(int64_t at_ms, int64_t now_ms, char *ret, size_t size)
{
	const time_t at = at_ms / 1000, now = now_ms / 1000;
	struct tm    then = {0}, today = {0};

	localtime_r(&at, &then);
	localtime_r(&now, &today);
	const bool is_today = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
	if (strftime(ret, size, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &then) == 0)
		ret[0] = '\0';
}

/* "held by web1:4711 backup since 13:05:22". */
static int print_holder(const zkl_peer *holder, int64_t now_ms, char *ret, size_t size)
{
	const bool known = holder->held_ms != 0;
	char       moment[32];

	print_moment(known ? holder->held_ms : holder->since_ms, now_ms, moment, sizeof(moment));
	return snprintf(ret, size, "held by %s%s %s", holder->id, known ? " since" : ", queued", moment);
}

static const char *suffix_of(uint32_t number)
{
	const uint32_t tens = number / 10 % 10, ones = number % 10;

	if (tens == 1 || ones == 0 || ones > 3)
		return "th";
	return ones == 1 ? "st" : ones == 2 ? "nd" : "rd";
}

/* Who is next is first. What the library told may be newer than the look at the whole. */
static int print_place(const struct zkl__progress *progress, char *ret, size_t size)
{
	const uint32_t place = progress->ahead;
	int            length = snprintf(ret, size, "%" PRIu32 "%s", place, suffix_of(place));

	if (progress->looked && progress->holder.waiting >= place && length > 0 && (size_t)length < size)
		length += snprintf(ret + length, size - (size_t)length, " of %" PRIu32, progress->holder.waiting);
	return length;
}

void zkl__progress_holder(const struct zkl__progress *progress, int64_t now_ms, char *ret, size_t size)
{
	char who[256], place[32];

	print_holder(&progress->holder, now_ms, who, sizeof(who));
	if (progress->ahead > 0) {
		print_place(progress, place, sizeof(place));
		snprintf(ret, size, "%s, token %" PRIu64 ", we are %s waiting", who, progress->holder.token, place);
	} else {
		snprintf(ret, size, "%s, token %" PRIu64 ", %" PRIu32 " waiting", who, progress->holder.token,
		         progress->holder.waiting);
	}
}

void zkl__progress_line(const struct zkl__progress *progress, int64_t now_ms, char *ret, size_t size)
{
	char who[256] = "", place[32] = "";

	if (progress->looked)
		print_holder(&progress->holder, now_ms, who, sizeof(who));
	if (progress->ahead > 0)
		print_place(progress, place, sizeof(place));
	snprintf(ret, size, "waiting%s%s%s%s: %s", place[0] != '\0' ? ", " : "", place, who[0] != '\0' ? ", " : "", who,
	         progress->path);
}

int64_t zkl__progress_pause_ms(const struct zkl__progress *progress)
{
	const int64_t contenders = progress->looked ? (int64_t)progress->holder.waiting + 1 : progress->ahead;

	return contenders * LOOK_EACH_MS > LOOK_LEAST_MS ? contenders * LOOK_EACH_MS : LOOK_LEAST_MS;
}
