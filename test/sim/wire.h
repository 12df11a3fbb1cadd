/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_WIRE_H
#define ZKLOCK_SIM_WIRE_H

/* wire.h: one direction of a TCP connection: what is sent arrives in order, after a while, or is held up while the network
 * is cut, or never once the connection is gone. */

#include "rng.h"

struct message {
	uint8_t  type, result;
	int16_t  node;
	int32_t  request, view;
	uint64_t bits;
};

struct wire {
	void (*arrive)(uint32_t owner, const struct message *message);
	uint32_t        owner, epoch;
	int64_t         latency, spread, last;
	bool            cut;
	unsigned        held, room;
	struct message *kept; /* what is held up */
};

void wire_begin(uint64_t seed);
/* Gives it room for so many messages that are held up. */
void wire_init(struct wire *wire, struct message *kept, unsigned room);
void wire_open(struct wire *wire, void (*arrive)(uint32_t, const struct message *), uint32_t owner, int64_t latency,
               int64_t spread);
void wire_send(struct wire *wire, const struct message *message);
/* What is under way is lost. */
void wire_close(struct wire *wire);
void wire_cut(struct wire *wire);
/* What was held up arrives. */
void wire_heal(struct wire *wire);

#endif
