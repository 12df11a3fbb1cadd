/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_FENCE_QUEUE_H
#define ZKLOCK_TEST_FENCE_QUEUE_H

/* queue.h: who waits for the lock of a fence's file. */

#include <stdbool.h>
#include <sys/types.h>

bool somebody_waits_for(const char *file);

/* Until it waits; false: it has ended. It is a child of ours, and stays to be waited for. */
bool child_waits_for(const char *file, pid_t child);

#endif
