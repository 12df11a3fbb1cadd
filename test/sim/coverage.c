/* SPDX-License-Identifier: Apache-2.0 */
#include "coverage.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Inputs, with replies told apart by what they answer. */
enum { INPUTS = ZKL__IN_SETTLED + 1, OPS = ZKL__FIND_WATCH + 1 };

#define X(name) +1
enum { SUPERVISOR_STATES = 0 ZKL__SUPERVISOR_STATES(X), SUPERVISOR_EVENTS = 0 ZKL__SUPERVISOR_EVENTS(X) };
#undef X

static struct {
	uint64_t input[ZKL__STATES][INPUTS], reply[ZKL__STATES][OPS];
	uint64_t supervisor[SUPERVISOR_STATES][SUPERVISOR_EVENTS];
} counts;

void coverage_contender(enum zkl__state state, const struct zkl__input *in)
{
	if (in->type == ZKL__IN_REPLY)
		counts.reply[state][in->reply->op]++;
	else
		counts.input[state][in->type]++;
}

void coverage_supervisor(enum zkl__supervisor_state state, enum zkl__supervisor_event_type event)
{
	counts.supervisor[state][event]++;
}

void *coverage_counts(size_t *ret_size)
{
	*ret_size = sizeof counts;
	return &counts;
}

void coverage_add(const void *more)
{
	uint64_t       *to = (uint64_t *)(void *)&counts;
	const uint64_t *from = more;

	for (size_t i = 0; i < sizeof counts / sizeof *to; i++)
		to[i] += from[i];
}

bool coverage_print(void)
{
	static const char *const inputs[] = {"", "start", "leave",   "link-up",    "link-down",  "expired",
	                                     "", "gone",  "changed", "lease-live", "lease-over", "settled"};

	for (int i = 1; i < INPUTS; i++) {
		if (i == ZKL__IN_REPLY)
			continue;
		printf("%-12s", inputs[i]);
		for (int s = 0; s < ZKL__STATES; s++)
			printf(" %8" PRIu64, counts.input[s][i]);
		printf("\n");
	}
	for (int i = 1; i < OPS; i++) {
		printf("%-12s", zkl__op_name((enum zkl__op)i));
		for (int s = 0; s < ZKL__STATES; s++)
			printf(" %8" PRIu64, counts.reply[s][i]);
		printf("\n");
	}
	for (int i = 0; i < SUPERVISOR_EVENTS; i++) {
		printf("ev %2d       ", i);
		for (int s = 0; s < SUPERVISOR_STATES; s++)
			printf(" %8" PRIu64, counts.supervisor[s][i]);
		printf("\n");
	}
	return true;
}
