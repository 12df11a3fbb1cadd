/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap. */
#include "agenda.h"

#include <stdio.h>
#include <stdlib.h>

#include "rng.h"

#define ENTRIES 8192

struct entry {
	int64_t    at;
	uint32_t   order, a, b;
	agenda_fn *fn;
};

static struct {
	int64_t      now;
	uint32_t     order, count;
	uint64_t     happened, digest;
	struct entry heap[ENTRIES];
} agenda;

void agenda_begin(void)
{
	agenda.now = 0;
	agenda.order = agenda.count = 0;
	agenda.happened = agenda.digest = 0;
}

int64_t agenda_now(void)
{
	return agenda.now;
}

uint64_t agenda_count(void)
{
	return agenda.happened;
}

uint64_t agenda_digest(void)
{
	return agenda.digest;
}

static bool before(const struct entry *one, const struct entry *other)
{
	return one->at < other->at || (one->at == other->at && one->order < other->order);
}

void agenda_put(int64_t at, agenda_fn *fn, uint32_t a, uint32_t b)
{
	struct entry entry = {at < agenda.now ? agenda.now : at, agenda.order++, a, b, fn};
	uint32_t     i = agenda.count++;

	if (agenda.count == ENTRIES) {
		fprintf(stderr, "sim: the agenda is full\n");
		abort();
	}
	for (uint32_t parent; i > 0; i = parent) {
		parent = (i - 1) / 2;
		if (!before(&entry, &agenda.heap[parent]))
			break;
		agenda.heap[i] = agenda.heap[parent];
	}
	agenda.heap[i] = entry;
}

static struct entry take(void)
{
	struct entry first = agenda.heap[0], last = agenda.heap[--agenda.count];
	uint32_t     i = 0;

	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < agenda.count && before(&agenda.heap[child + 1], &agenda.heap[child]))
			child++;
		if (child >= agenda.count || before(&last, &agenda.heap[child]))
			break;
		agenda.heap[i] = agenda.heap[child];
		i = child;
	}
	agenda.heap[i] = last;
	return first;
}

bool agenda_step(int64_t until)
{
	struct entry next;

	if (!agenda.count || agenda.heap[0].at > until) {
		agenda.now = until > agenda.now ? until : agenda.now;
		return false;
	}
	next = take();
	agenda.now = next.at;
	agenda.happened++;
	agenda.digest = rng_mix(agenda.digest ^ (uint64_t)next.at);
	next.fn(next.a, next.b);
	return true;
}
