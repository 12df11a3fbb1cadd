/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_OBSERVER_H
#define ZKLOCK_OBSERVER_H

/* observer.h: who leads on a path, watched without being a candidate. A party on the hub (hub.h) and a source of events
 * (source.h): never blocks, no threads; all calls are made under the world's mutex. The state diagram opens observer.c. */

#include <zklock/zklock.h>

#include "hub.h"
#include "source.h"

struct zkl__observer;

struct zkl__observer_options {
	const char   *path; /* must live until close */
	bool          chroot;
	zkl_event_fn *on_event; /* NULL: none */
	void         *user;
	const void   *owner;
};

/* Bytes of paths that it may watch, see zkl__hub_check_room(). */
uint32_t zkl__observer_watch_size(const struct zkl__hub *hub, const char *path);
/* Begins to observe. NULL: no memory. */
struct zkl__observer *zkl__observer_new(struct zkl__hub *hub, const struct zkl__observer_options *options);
/* 1: *ret; 0: nobody; a ZKL_E*: it cannot be observed. */
int zkl__observer_leader(const struct zkl__observer *observer, zkl_peer *ret);
/* No event after it. */
void zkl__observer_close(struct zkl__observer *observer);

#endif
