/* SPDX-License-Identifier: Apache-2.0 */
#include "thread.h"

#include <stdatomic.h>
#include <time.h>

#include "attempts.h"

void zkl__thread_block_signals(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
}

int zkl__thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
	sigset_t before;
	int      error;

	zkl__thread_block_signals(&before);
	error = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}

void zkl__thread_init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

static atomic_uint    forks;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	atomic_fetch_add(&forks, 1);
	zkl__attempts_forked();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

void zkl__thread_watch_forks(void)
{
	pthread_once(&forks_once, watch_forks);
}

unsigned zkl__thread_forks(void)
{
	return atomic_load(&forks);
}
