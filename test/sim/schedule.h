/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_SCHEDULE_H
#define ZKLOCK_SIM_SCHEDULE_H

/* schedule.h: one seed, one world, one run: what kind of ensemble and processes there are, what goes wrong and when; then
 * everything is mended, and all must come to rest. */

#include <stdbool.h>
#include <stdint.h>

#include "report.h"

/* Parts of a schedule that can be left out, so that a failure can be shown with few of them: faults, then owners. */
enum { SCHEDULE_FAULTS = 40, SCHEDULE_PARTS = 48 };

struct schedule_result {
	bool           failed;
	enum invariant invariant;
	char           text[300];
	uint64_t       events, digest;
	unsigned       faults, owners, grants, losses, elections;
	int64_t        length_ns;
};

/* without: a bit for each part that is left out. */
void schedule_run(uint64_t seed, uint64_t without, bool trace, struct schedule_result *ret);
/* Is it one? */
bool schedule_has_part(uint64_t seed, unsigned part);

#endif
