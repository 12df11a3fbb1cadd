/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_RESOURCE_H
#define ZKLOCK_SIM_RESOURCE_H

/* resource.h: what a lock protects. It refuses a token lower than the greatest seen. */

#include <stdint.h>

#include "rng.h"

void resource_begin(void);
/* After check() has given the attempt so much time: the write comes at some moment of it, or later if the process cannot
 * run by then. */
void resource_write_later(int16_t directory, unsigned process, int16_t attempt, uint64_t token, int64_t left_ns,
                          struct rng *rng);

#endif
