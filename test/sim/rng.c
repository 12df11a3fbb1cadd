/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

uint64_t rng_mix(uint64_t number)
{
	number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
	number = (number ^ number >> 27) * 0x94d049bb133111eb;
	return number ^ number >> 31;
}

uint64_t rng_next(struct rng *rng)
{
	return rng_mix(rng->state += 0x9e3779b97f4a7c15);
}

struct rng rng_make(uint64_t seed, uint64_t stream)
{
	struct rng rng = {seed ^ stream * 0xd1342543de82ef95};

	rng_next(&rng);
	return rng;
}

int64_t rng_below(struct rng *rng, int64_t limit)
{
	return (int64_t)(rng_next(rng) >> 1) % limit;
}

int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
	return low + rng_below(rng, high - low + 1);
}

bool rng_chance(struct rng *rng, int64_t of)
{
	return rng_below(rng, of) == 0;
}

int64_t rng_skewed(struct rng *rng, int64_t limit)
{
	return 1 + rng_below(rng, limit >> rng_below(rng, 8) | 1);
}
