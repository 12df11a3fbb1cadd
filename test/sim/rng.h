/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_RNG_H
#define ZKLOCK_SIM_RNG_H

/* rng.h: chance, from a seed alone (splitmix64): the same on every machine. Who must not be disturbed by what others draw
 * has a generator of its own. One expression draws from it once only: in which order it would draw twice is the compiler's. */

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* A number that looks like chance, and tells one argument from another. */
uint64_t   rng_mix(uint64_t number);
struct rng rng_make(uint64_t seed, uint64_t stream);
uint64_t   rng_next(struct rng *rng);
/* 0 .. limit-1; limit > 0 */
int64_t rng_below(struct rng *rng, int64_t limit);
/* low .. high */
int64_t rng_between(struct rng *rng, int64_t low, int64_t high);
/* One time out of so many. */
bool rng_chance(struct rng *rng, int64_t of);
/* Mostly small, at times near the limit. */
int64_t rng_skewed(struct rng *rng, int64_t limit);

#endif
