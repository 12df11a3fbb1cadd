/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_EVENTS_H
#define ZKLOCK_EVENTS_H

/* events.h: brings events to their owners, one at a time, with no lock held: on a thread of its own, or in whoever calls
 * process(). A source that has events is queued once; all its events are delivered before the next one's.
 *
 * All calls are made under the session's mutex, which is given up while a callback runs. */

#include <pthread.h>
#include <stdbool.h>

#include "source.h"

struct zkl__events {
	pthread_mutex_t     *mutex;
	pthread_cond_t       filled, returned;
	int                  fd; /* without a thread: readable while something is queued; else -1 */
	struct zkl__source  *first, *last;
	uint64_t             count;
	bool                 ending; /* the thread shall end when nothing is queued */
	bool                 silent; /* no further callback */
	bool                 busy;   /* somebody delivers: */
	pthread_t            deliverer, thread;
	const void          *called; /* whose callback runs; NULL: none */
	struct zkl__delivery delivery;
};

/* 0 or an errno. */
int  zkl__events_init(struct zkl__events *events, pthread_mutex_t *mutex, bool manual);
void zkl__events_clear(struct zkl__events *events);
/* Starts the thread. 0 or an errno. */
int  zkl__events_start(struct zkl__events *events);
void zkl__events_push(struct zkl__events *events, struct zkl__source *source);
/* Delivers what is queued now; returns how many, ZKL_ESTATE or ZKL_EDEADLK. */
int zkl__events_process(struct zkl__events *events);
/* Is this thread in a callback? */
bool zkl__events_inside(const struct zkl__events *events);
/* Waits until no callback of this owner (NULL: of any) runs in another thread. */
void zkl__events_await(struct zkl__events *events, const void *owner);
/* Ends delivery for good, after what is queued or (silently) at once; waits for the callback that runs. */
void zkl__events_end(struct zkl__events *events, bool silently);

#endif
