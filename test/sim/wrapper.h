/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_WRAPPER_H
#define ZKLOCK_SIM_WRAPPER_H

/* wrapper.h: zklock-run's policy (the real supervisor) around a simulated command and its descendants. */

#include <zklock/zklock.h>

void wrapper_start(unsigned owner, unsigned process, uint64_t seed);
void wrapper_event(unsigned owner, const zkl_event *event);
void wrapper_forget(unsigned owner);
void wrapper_drain(unsigned owner);

#endif
