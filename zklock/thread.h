/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_THREAD_H
#define ZKLOCK_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Starts a thread for which no signal of the application is. 0 or an errno. */
int zkl__thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);
/* Blocks all signals; what is started meanwhile inherits that. */
void zkl__thread_block_signals(sigset_t *before);
/* A condition that waits by CLOCK_MONOTONIC. */
void zkl__thread_init_condition(pthread_cond_t *condition);

/* How many forks lie between the process that began to watch for them and this one. Who notes the number sees by it that
 * this is a child now. zkl__thread_forks() is async-signal-safe. */
void     zkl__thread_watch_forks(void);
unsigned zkl__thread_forks(void);

#endif
