/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SOURCE_H
#define ZKLOCK_SOURCE_H

/* source.h: whoever has events for an owner: an attempt (driver.h), or who observes an election (observer.h). What it has
 * to tell lies in itself, so that telling needs no memory. All calls are made under the world's mutex. */

#include <stdbool.h>

#include <zklock/zklock.h>

struct zkl__source;

/* An event with what it points to. */
struct zkl__delivery {
	zkl_event_fn *on_event;
	void         *user;
	const void   *owner; /* whose callback it is: whoever frees that waits for it */
	zkl_event     event;
	zkl_grant     grant;
	zkl_error     error;
	zkl_peer      leader;
};

struct zkl__source_type {
	bool (*has_event)(const struct zkl__source *source);
	/* The next event; false: none. */
	bool (*next_event)(struct zkl__source *source, struct zkl__delivery *ret);
	/* It lives as long as somebody holds it. */
	void (*hold)(struct zkl__source *source);
	void (*drop)(struct zkl__source *source);
};

struct zkl__source {
	const struct zkl__source_type *type;
	bool                           queued; /* for the world: it is in its list of those with events */
	struct zkl__source            *next_queued;
};

#endif
