/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_AGENDA_H
#define ZKLOCK_SIM_AGENDA_H

/* agenda.h: virtual time. What will happen, in order; of two things at one moment the one that was put first. */

#include <stdbool.h>
#include <stdint.h>

typedef void agenda_fn(uint32_t a, uint32_t b);

void    agenda_begin(void);
int64_t agenda_now(void);
/* Not in the past: an earlier moment is now. */
void agenda_put(int64_t at, agenda_fn *fn, uint32_t a, uint32_t b);
/* Lets the next thing happen; false: there is none, or it lies after the limit, to which time then moves on. */
bool agenda_step(int64_t until);
/* So many have happened. */
uint64_t agenda_count(void);
/* Of their moments. */
uint64_t agenda_digest(void);

#endif
