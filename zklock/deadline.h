/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_DEADLINE_H
#define ZKLOCK_DEADLINE_H

/* deadline.h: the moment at which the command must begin to stop, shared by two processes.
 *
 * The front moves it on while the lease lives; front and warden both ask whether it has passed. The first who finds it
 * passed latches it: from then on it has passed for both, and no later proof moves it. So neither can believe in a
 * lease on which the other has already acted.
 *
 * Lives in memory that both map. Time comes in as CLOCK_BOOTTIME nanoseconds; nothing here reads a clock. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Between processes an atomic works only when it needs no lock. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && sizeof(int64_t) == sizeof(long long), "64-bit atomics must be lock-free");

struct zkl__deadline {
	_Atomic int64_t word; /* nanoseconds, made even; the lowest bit: passed */
};

/* No deadline yet. */
void zkl__deadline_init(struct zkl__deadline *deadline);

/* Moves it to `until_ns`. False: it had passed, nothing was moved. */
bool zkl__deadline_move(struct zkl__deadline *deadline, int64_t now_ns, int64_t until_ns);

/* It passes now, if it had not before. */
void zkl__deadline_end(struct zkl__deadline *deadline, int64_t now_ns);

/* Has it passed? Once true, always true. */
bool zkl__deadline_passed(struct zkl__deadline *deadline, int64_t now_ns);

/* When it passes or has passed; far in the future while there is none. */
int64_t zkl__deadline_ns(struct zkl__deadline *deadline);

#endif
