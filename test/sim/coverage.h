/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_COVERAGE_H
#define ZKLOCK_SIM_COVERAGE_H

/* coverage.h: which state x event pairs of contender and supervisor were reached, against those that are possible. */

#include <stdbool.h>
#include <stddef.h>

#include "contender.h"
#include "supervisor.h"

void coverage_contender(enum zkl__state state, const struct zkl__input *in);
void coverage_supervisor(enum zkl__supervisor_state state, enum zkl__supervisor_event_type event);
/* The counts, to be added up over workers. */
void *coverage_counts(size_t *ret_size);
void  coverage_add(const void *more);
/* Prints the tables; false: a pair that is possible was not reached, or one that is not. Says so, and also where there were
 * too few steps to demand any. */
bool coverage_print(void);

#endif
