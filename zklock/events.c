/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "thread.h"

int zkl__events_init(struct zkl__events *e, pthread_mutex_t *mutex, bool manual)
{
	e->mutex = mutex;
	zkl__thread_init_condition(&e->filled);
	zkl__thread_init_condition(&e->returned);
	e->fd = manual ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	return manual && e->fd < 0 ? errno : 0;
}

void zkl__events_clear(struct zkl__events *e)
{
	if (e->fd >= 0)
		close(e->fd);
	pthread_cond_destroy(&e->filled);
	pthread_cond_destroy(&e->returned);
}

void zkl__events_push(struct zkl__events *e, struct zkl__source *source)
{
	uint64_t one = 1;

	if (source->queued || e->silent || !source->type->has_event(source))
		return;
	source->type->hold(source);
	source->queued = true;
	source->next_queued = NULL;
	*(e->last ? &e->last->next_queued : &e->first) = source;
	e->last = source;
	e->count++;
	if (e->fd < 0)
		pthread_cond_signal(&e->filled);
	else if (write(e->fd, &one, sizeof one) < 0)
		return; /* a full counter is readable, too */
}

static struct zkl__source *pop(struct zkl__events *e)
{
	struct zkl__source *source = e->first;

	e->first = source->next_queued;
	if (!e->first)
		e->last = NULL;
	e->count--;
	return source;
}

/* All events of the first source, which must exist; returns how many. */
static int deliver(struct zkl__events *e)
{
	struct zkl__source *source = pop(e);
	int                 count = 0;

	while (!e->silent && source->type->next_event(source, &e->delivery)) {
		e->called = e->delivery.owner;
		pthread_mutex_unlock(e->mutex);
		e->delivery.on_event(&e->delivery.event, e->delivery.user);
		pthread_mutex_lock(e->mutex);
		e->called = NULL;
		count++;
		pthread_cond_broadcast(&e->returned);
	}
	source->queued = false; /* only now: what came meanwhile was delivered, too */
	source->type->drop(source);
	return count;
}

static void *run(void *arg)
{
	struct zkl__events *e = arg;

	pthread_mutex_lock(e->mutex);
	e->deliverer = pthread_self();
	while (e->first || !e->ending) {
		if (e->first)
			deliver(e);
		else
			pthread_cond_wait(&e->filled, e->mutex);
	}
	pthread_mutex_unlock(e->mutex);
	return NULL;
}

int zkl__events_start(struct zkl__events *e)
{
	return zkl__thread_start(&e->thread, run, e);
}

int zkl__events_process(struct zkl__events *e)
{
	int      count = 0;
	uint64_t ignored;

	if (e->busy)
		return pthread_equal(e->deliverer, pthread_self()) ? ZKL_EDEADLK : ZKL_ESTATE;
	e->busy = true;
	e->deliverer = pthread_self();
	/* Those that are there now, so that it ends. */
	for (uint64_t left = e->count; left && e->first; left--)
		count += deliver(e);
	e->busy = false;
	if (!e->first && read(e->fd, &ignored, sizeof ignored) < 0)
		return count; /* it was not readable any more */
	return count;
}

bool zkl__events_inside(const struct zkl__events *e)
{
	return e->called && pthread_equal(e->deliverer, pthread_self());
}

void zkl__events_await(struct zkl__events *e, const void *owner)
{
	while (e->called && (!owner || e->called == owner) && !zkl__events_inside(e))
		pthread_cond_wait(&e->returned, e->mutex);
}

void zkl__events_end(struct zkl__events *e, bool silently)
{
	e->ending = true;
	e->silent = silently || e->fd >= 0;
	pthread_cond_signal(&e->filled);
	if (e->fd < 0) {
		pthread_mutex_unlock(e->mutex);
		pthread_join(e->thread, NULL);
		pthread_mutex_lock(e->mutex);
	}
	e->silent = true;
	zkl__events_await(e, NULL);
	while (e->first)
		deliver(e); /* to nobody */
}
