/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_ALARM_H
#define ZKLOCK_ALARM_H

/* alarm.h: a descriptor that becomes readable at a moment of CLOCK_BOOTTIME, the clock that leases run on: it also
 * counts while the machine is suspended, so what became due meanwhile is due at once. */

#include <stdint.h>

#define ZKL__NS_PER_MS INT64_C(1000000)
#define ZKL__NEVER     (INT64_MAX / 2) /* far away, and something may be added to it */

int64_t zkl__alarm_now(void);

/* Close-on-exec. -1: errno. */
int zkl__alarm_open(void);

/* In place of what was set before; in the past: readable at once. */
void zkl__alarm_set(int alarm, int64_t at_ns);

#endif
