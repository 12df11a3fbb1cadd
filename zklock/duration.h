/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_DURATION_H
#define ZKLOCK_DURATION_H

/* duration.h: how long, as a command line says it. */

#include <stdint.h>

/* "90", "1.5", ".5", "250ms", "2s", "1.5m", "12h": milliseconds, rounded up, so that nothing that is waited for is over
 * too early. Always with a point, whatever the locale. -1: not a duration, or more than 146 years. */
int zkl__duration_parse(const char *text, int64_t *ret_ms);

/* As the value of this option. -1: what is wrong is said in one line, in ret_why of ZKL__WHY_MAX bytes. */
int zkl__duration_option(const char *option, const char *text, int64_t least_ms, int64_t *ret_ms, char *ret_why);

#endif
