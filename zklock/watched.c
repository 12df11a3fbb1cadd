/* SPDX-License-Identifier: Apache-2.0 */
#include "watched.h"

#include <stdlib.h>

#define LENGTH_BYTES 4 /* before each path */

uint32_t zkl__watched_size(size_t path_length)
{
	return (uint32_t)path_length + LENGTH_BYTES;
}

/* FNV-1a. Two paths with one key are counted as one, which does no harm. */
static uint64_t hash(uint64_t state, const char *text)
{
	for (; *text; text++)
		state = (state ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return state;
}

uint64_t zkl__watched_key(const char *directory, const char *name, bool lasting)
{
	uint64_t key = hash(hash(hash(UINT64_C(0xcbf29ce484222325), directory), "/"), name);

	key = key << 1 | lasting;
	return key ? key : 2;
}

bool zkl__watched_has_room(const struct zkl__watched *w, size_t bytes)
{
	return w->bytes + bytes <= ZKL__WATCHED_MAX;
}

static struct zkl__watch *find(struct zkl__watched *w, uint64_t key)
{
	for (size_t i = 0; i < w->left_count; i++)
		if (w->left[i].key == key)
			return &w->left[i];
	return NULL;
}

static bool make_room(struct zkl__watched *w)
{
	size_t             room = w->left_room ? w->left_room * 2 : 16;
	struct zkl__watch *left;

	if (w->left_count < w->left_room)
		return true;
	left = realloc(w->left, room * sizeof *left);
	if (!left)
		return false;
	w->left = left;
	w->left_room = room;
	return true;
}

void zkl__watched_leave(struct zkl__watched *w, const struct zkl__watch *watch)
{
	if (!watch->key || find(w, watch->key))
		return;
	/* Without memory for it it is counted to the session's end. */
	w->bytes += watch->bytes;
	w->left_bytes += watch->bytes;
	if (make_room(w))
		w->left[w->left_count++] = *watch;
}

static void drop(struct zkl__watched *w, struct zkl__watch *watch)
{
	w->bytes -= watch->bytes;
	w->left_bytes -= watch->bytes;
	*watch = w->left[--w->left_count];
}

static void use_up(struct zkl__watched *w, struct zkl__watch *current, uint64_t key)
{
	struct zkl__watch *watch = find(w, key);

	if (watch)
		drop(w, watch);
	if (current && current->key == key)
		current->key = 0;
}

void zkl__watched_fired(struct zkl__watched *w, struct zkl__watch *current, const char *directory, const char *name,
                        bool gone)
{
	use_up(w, current, zkl__watched_key(directory, name, false));
	if (gone)
		use_up(w, current, zkl__watched_key(directory, name, true));
}

void zkl__watched_refused(struct zkl__watched *w, uint64_t party, uint32_t id)
{
	for (size_t i = 0; i < w->left_count; i++)
		if (w->left[i].party == party && w->left[i].id == id) {
			drop(w, &w->left[i]);
			return;
		}
}

void zkl__watched_forget(struct zkl__watched *w)
{
	free(w->left);
	w->left = NULL;
	w->bytes -= w->left_bytes;
	w->left_count = w->left_room = w->left_bytes = 0;
}
