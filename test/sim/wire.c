/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>

#include "agenda.h"

enum { SLOTS = 4096 };

static struct {
	struct rng rng;
	uint32_t   next;
	struct {
		struct message message;
		struct wire   *wire;
		uint32_t       epoch;
	} slots[SLOTS];
} wires;

void wire_begin(uint64_t seed)
{
	wires.rng = rng_make(seed, 'w');
	wires.next = 0;
}

void wire_init(struct wire *wire, struct message *kept, unsigned room)
{
	wire->kept = kept;
	wire->room = room;
}

void wire_open(struct wire *wire, void (*arrive)(uint32_t, const struct message *), uint32_t owner, int64_t latency,
               int64_t spread)
{
	wire->arrive = arrive;
	wire->owner = owner;
	wire->epoch++;
	wire->latency = latency;
	wire->spread = spread;
	wire->last = 0;
	wire->cut = false;
	wire->held = 0;
}

void wire_close(struct wire *wire)
{
	wire->epoch++;
	wire->held = 0;
}

static void keep(struct wire *wire, const struct message *message)
{
	if (wire->held == wire->room) {
		fprintf(stderr, "sim: a wire holds too much\n");
		abort();
	}
	wire->kept[wire->held++] = *message;
}

static void arrive(uint32_t slot, uint32_t unused)
{
	struct wire   *wire = wires.slots[slot].wire;
	struct message message = wires.slots[slot].message;

	(void)unused;
	if (wires.slots[slot].epoch != wire->epoch)
		return;
	if (wire->cut)
		keep(wire, &message);
	else
		wire->arrive(wire->owner, &message);
}

void wire_send(struct wire *wire, const struct message *message)
{
	uint32_t slot = wires.next++ % SLOTS;
	int64_t  at = agenda_now() + wire->latency + rng_below(&wires.rng, wire->spread + 1);

	at = at > wire->last ? at : wire->last + 1;
	wire->last = at;
	wires.slots[slot].message = *message;
	wires.slots[slot].wire = wire;
	wires.slots[slot].epoch = wire->epoch;
	agenda_put(at, arrive, slot, 0);
}

void wire_cut(struct wire *wire)
{
	wire->cut = true;
}

void wire_heal(struct wire *wire)
{
	if (!wire->cut)
		return;
	wire->cut = false;
	/* It was late already: now it comes before what is still under way. */
	for (unsigned i = 0, count = wire->held; i < count; i++) {
		struct message message = wire->kept[i];
		uint32_t       epoch = wire->epoch;

		wire->arrive(wire->owner, &message);
		if (wire->epoch != epoch || wire->cut)
			break;
	}
	wire->held = 0;
}
