/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CHAOS_ACT_H
#define ZKLOCK_CHAOS_ACT_H

/* act.h: what a process does while it believes that it holds, and the history of it.
 *
 *     acts_open -> (note)* -> for each hold: act until it says no, or for acts_length_ns() -> ...
 *
 * An act adds one to a number in a file, which nobody guards, and one to a number that a register guards by the tokens that
 * it is shown. The history is lines, each one write to a file that only this process appends to; so a kill loses the line
 * of the act under way and no other. history.py has the list. Moments are CLOCK_BOOTTIME in ns, past any shim. */

#include <stdbool.h>
#include <stdint.h>

int64_t now_ns(void);
/* A number from 0 to most - 1. */
int64_t any_below(int64_t most);
void    pause_ms(int64_t ms);

/* The folder of the run; the history's name is RESOURCE.NAME. */
void acts_open(const char *folder, const char *name, unsigned seed, int64_t session_ms);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Works for a while, less than the session timeout unless it is told to stay, as long as may(token) says by > 0 that it
 * holds for so many ms more; false: it said no. */
typedef int64_t may_fn(uint64_t token);
bool            acts_work(uint64_t token, int64_t least_ms, int64_t most_ms, may_fn *may, const volatile bool *stop);

#endif
