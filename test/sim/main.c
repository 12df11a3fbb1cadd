/* SPDX-License-Identifier: Apache-2.0 */
/* sim: schedules from seeds, until one fails or all have passed.
 *
 *     sim [--schedules N] [--seed S] [--jobs J]     N schedules from seed S on; without N until stopped
 *     sim --seed S --replay [--without MASK]        one, with its trace */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coverage.h"
#include "schedule.h"

int main(int argc, char **argv)
{
	uint64_t seed = 1, n = 1000, without = 0;
	bool     replay = false, cover = false, hunt = false;
	unsigned failed = 0, bad[INVARIANT_COUNT] = {0};
	uint64_t events = 0, grants = 0, losses = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--schedules"))
			n = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--without"))
			without = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--replay"))
			replay = true;
		else if (!strcmp(argv[i], "--hunt"))
			hunt = true;
		else if (!strcmp(argv[i], "--coverage"))
			cover = true;
	}
	if (replay)
		n = 1;
	for (uint64_t i = 0; i < n; i++) {
		struct schedule_result r;

		schedule_run(seed + i, without, replay, &r);
		events += r.events;
		grants += r.grants;
		losses += r.losses;
		if (r.failed) {
			failed++;
			if (bad[r.invariant]++ < 5)
				printf("seed %" PRIu64 ": %s: %s\n", seed + i, invariant_name(r.invariant), r.text);
			if (hunt)
				return 1;
		}
	}
	if (cover)
		coverage_print(true);
	printf("%" PRIu64 " events, %" PRIu64 " grants, %" PRIu64 " losses\n", events, grants, losses);
	printf("%" PRIu64 " passed, %u failed\n", n - failed, failed);
	return failed != 0;
}
