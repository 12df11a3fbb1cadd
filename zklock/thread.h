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

#endif
