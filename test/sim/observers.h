/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_OBSERVERS_H
#define ZKLOCK_SIM_OBSERVERS_H

/* observers.h: who watches an election without standing in it: one a process, or none. */

#include <stdbool.h>
#include <stdint.h>

void observers_begin(void);
/* This process observes this directory. */
void observers_add(unsigned process, int16_t directory);
/* The process has been started, or is gone. */
void observers_start(unsigned process);
void observers_forget(unsigned process);
/* Nobody leads any more: does each say so? */
bool observers_at_rest(void);

#endif
