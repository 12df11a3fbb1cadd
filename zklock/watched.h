/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_WATCHED_H
#define ZKLOCK_WATCHED_H

/* watched.h: how many bytes the client's watches take. Pure but for memory.
 *
 * When it has reconnected the client sends the paths of all its watches in one packet, and a server hangs up on a packet of
 * more than 1 MiB, on every reconnect (ZOOKEEPER-706). So each party reserves room for the paths that it may watch, for as
 * long as it is there, and whoever finds no room is refused.
 *
 * A party leaves its last watch behind when it goes before the watch has fired, since a watch cannot be taken back. Its
 * path is counted on, once however many have left one there, until it fires or the session ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The least that servers take by default is 1 MiB - 1; the rest is for the other parts of the packet, and for what an
 * operator can add by deleting nodes of ours. */
#define ZKL__WATCHED_MAX 900000

/* One request to watch. key 0: none. */
struct zkl__watch {
	uint64_t key, party;
	uint32_t id, bytes;
};

struct zkl__watched {
	size_t             bytes; /* reserved, and left behind */
	struct zkl__watch *left;
	size_t             left_count, left_room, left_bytes;
};

/* What a path takes in the packet. */
uint32_t zkl__watched_size(size_t path_length);
/* lasting: only the deletion of the node uses it up. */
uint64_t zkl__watched_key(const char *directory, const char *name, bool lasting);
bool     zkl__watched_has_room(const struct zkl__watched *watched, size_t bytes);
/* Whoever sent it has gone, or cares for it no more. */
void zkl__watched_leave(struct zkl__watched *watched, const struct zkl__watch *watch);
/* A watched node was deleted, or changed: that uses up what was left behind there, and `current` (NULL: none) if it is that. */
void zkl__watched_fired(struct zkl__watched *watched, struct zkl__watch *current, const char *directory,
                        const char *name, bool gone);
/* This request was answered with a no: it watches nothing. */
void zkl__watched_refused(struct zkl__watched *watched, uint64_t party, uint32_t id);
/* The session is over, and with it all that was left behind. */
void zkl__watched_forget(struct zkl__watched *watched);

#endif
