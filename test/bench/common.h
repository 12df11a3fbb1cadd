/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_BENCH_COMMON_H
#define ZKLOCK_BENCH_COMMON_H

/* common.h: the clock that all processes share, a session, and the end of a program that cannot go on. */

#include <stdint.h>
#include <zklock/session.h>

/* Connected, or the program ends. */
zkl_session *connected_session(const char *servers, int session_ms);
int64_t now_ns(void); /* CLOCK_MONOTONIC, which is also Java's System.nanoTime() and Python's time.monotonic_ns() */
/* One line to standard error, and the end with status 1. */
_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);

#endif
