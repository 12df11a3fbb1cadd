/* SPDX-License-Identifier: Apache-2.0 */
#include "resource.h"

#include <inttypes.h>

#include "agenda.h"
#include "invariants.h"
#include "process.h"
#include "report.h"

enum { WRITES = 512 };

static struct {
	struct {
		uint64_t mark;
		int16_t  by; /* attempt */
	} of[TREE_DIRECTORIES];
	struct {
		int16_t  directory, attempt;
		unsigned process;
		uint64_t token;
		int64_t  by_ns; /* the owner's clock: later it may not act */
	} writes[WRITES];
	uint32_t next;
} resource;

void resource_begin(void)
{
	for (int i = 0; i < TREE_DIRECTORIES; i++) {
		resource.of[i].mark = 0;
		resource.of[i].by = NOBODY;
	}
	resource.next = 0;
}

static void admit(int16_t directory, int16_t attempt, uint64_t token)
{
	if (token < resource.of[directory].mark) {
		TRACE("resource %d: refuses token %" PRIu64, directory, token);
		if (invariants_is_newest(attempt))
			report_failure(FENCING, "the newest holder is refused: %" PRIu64 " after %" PRIu64, token,
			               resource.of[directory].mark);
		return;
	}
	if (token == resource.of[directory].mark && attempt != resource.of[directory].by)
		report_failure(FENCING, "two grants with the token %" PRIu64, token);
	resource.of[directory].mark = token;
	resource.of[directory].by = attempt;
}

static void write_now(uint32_t slot, uint32_t unused)
{
	unsigned process = resource.writes[slot].process;
	int16_t  attempt = resource.writes[slot].attempt;
	int64_t  at = process_thread_at(process, THREAD_OWNER);

	(void)unused;
	if (at > agenda_now()) {
		agenda_put(at, write_now, slot, 0);
		return;
	}
	if (!invariants_is_live(attempt))
		return; /* the process is gone */
	if (process_clock(process) <= resource.writes[slot].by_ns)
		invariants_act(attempt);
	admit(resource.writes[slot].directory, attempt, resource.writes[slot].token);
}

void resource_write_later(int16_t directory, unsigned process, int16_t attempt, uint64_t token, int64_t left_ns,
                          struct rng *rng)
{
	uint32_t slot = resource.next++ % WRITES;
	int64_t  by_ns = process_clock(process) + left_ns;
	int64_t  latest = process_true_time(process, by_ns) - agenda_now();

	resource.writes[slot].directory = directory;
	resource.writes[slot].attempt = attempt;
	resource.writes[slot].process = process;
	resource.writes[slot].token = token;
	resource.writes[slot].by_ns = by_ns;
	/* Now, some time, or at the last moment. */
	agenda_put(agenda_now() + (rng_chance(rng, 8) ? latest : rng_skewed(rng, latest > 1 ? latest : 1)), write_now,
	           slot, 0);
}
