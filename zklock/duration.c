/* SPDX-License-Identifier: Apache-2.0 */
#include "duration.h"
#include "message.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* 0: no such unit. */
static int64_t unit_ms(const char *suffix)
{
	static const struct {
		char    name[3];
		int64_t ms;
	} units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", INT64_C(60) * 1000}, {"h", INT64_C(60) * 60 * 1000}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(suffix, units[i].name) == 0)
			return units[i].ms;
	}
	return 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* 0.DIGITS of a unit, rounded up. Digits beyond the twelfth only round. */
static int64_t fraction_ms(const char *digits, size_t count, int64_t unit)
{
	int64_t numerator = 0, denominator = 1;
	bool    more = false;

	for (size_t i = 0; i < count; i++) {
		if (i < 12) {
			numerator = numerator * 10 + (digits[i] - '0');
			denominator *= 10;
		} else {
			more = more || digits[i] != '0';
		}
	}
	/* unit is at most 3.6e6: no overflow below 1e12 * 3.6e6. */
	const int64_t product = numerator * unit;
	return product / denominator + (product % denominator != 0 || more);
}

int zkl__duration_parse(const char *text, int64_t *ret_ms)
{
	const int64_t most = INT64_MAX / 2 / 1000000; /* a sum with another time must fit too, in nanoseconds */
	size_t        whole = 0, part = 0;
	int64_t       value = 0;

	while (is_digit(text[whole])) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, text[whole] - '0', &value))
			return -1;
		whole++;
	}
	const char *fraction = text + whole + (text[whole] == '.');
	while (fraction != text + whole && is_digit(fraction[part]))
		part++;

	const int64_t unit = unit_ms(fraction + part);
	if (whole + part == 0 || unit == 0 || __builtin_mul_overflow(value, unit, &value) || value > most)
		return -1;
	value += fraction_ms(fraction, part, unit);
	if (value > most)
		return -1;
	*ret_ms = value;
	return 0;
}

#define WRONG(...) (snprintf(why, ZKL__WHY_MAX, __VA_ARGS__), -1)

int zkl__duration_option(const char *option, const char *text, int64_t least_ms, int64_t *ret_ms, char *why)
{
	if (zkl__duration_parse(text, ret_ms) < 0)
		return WRONG("%s: \"%.200s\" is not a duration: give seconds, or a number with ms, s, m or h", option,
		             text);
	if (*ret_ms < least_ms)
		return WRONG("%s: \"%.200s\" is too short: at least %" PRId64 " ms", option, text, least_ms);
	return 0;
}
