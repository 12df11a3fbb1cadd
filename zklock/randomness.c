/* SPDX-License-Identifier: Apache-2.0 */
#include "randomness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below: one lends at a time */
static pthread_once_t  once = PTHREAD_ONCE_INIT;
static char            lent[64];
static char           *random_state;
static unsigned short  drand48_state[3];

static void lock(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A child must find the sequences restored, and the mutex free. */
static void hold_forks(void)
{
	pthread_atfork(lock, unlock, unlock);
}

void zkl__randomness_lend(void)
{
	unsigned short other[3] = {0};

	pthread_once(&once, hold_forks);
	lock();
	random_state = initstate(1, lent, sizeof lent);
	memcpy(drand48_state, seed48(other), sizeof drand48_state);
}

void zkl__randomness_restore(void)
{
	setstate(random_state);
	seed48(drand48_state);
	unlock();
}
