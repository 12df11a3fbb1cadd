/* SPDX-License-Identifier: Apache-2.0 */
/* The children of a directory, one a line, as zkl__queue_look() sees them, for the last one that has a uuid. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "queue.h"

enum { NAMES = 40, NAME = 200 };

static char        rooms[NAMES][NAME];
static const char *names[NAMES], *backwards[NAMES];
static size_t      count;

/* A name in a directory is never empty, has neither NUL nor slash, and is there once. */
static bool is_new(const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return false;
	return *name && !strchr(name, '/');
}

static void read_names(const char *text, size_t size)
{
	count = 0;
	while (size && count < NAMES) {
		const char *newline = memchr(text, '\n', size);
		size_t      length = newline ? (size_t)(newline - text) : size;

		snprintf(rooms[count], NAME, "%.*s", (int)length, text);
		if (is_new(rooms[count])) {
			names[count] = rooms[count];
			count++;
		}
		text += length + (newline != NULL);
		size -= length + (newline != NULL);
	}
	for (size_t i = 0; i < count; i++)
		backwards[i] = names[count - 1 - i];
}

/* In the plainest way: a number of exactly ten digits, up to 2^31-1, or nothing, or an overrun. */
static void check_sequence(const char *name)
{
	int64_t sequence = zkl__queue_sequence(name);
	size_t  length = strlen(name);
	char    digits[16];

	MUST(sequence >= -2 && sequence <= INT32_MAX);
	MUST(sequence != -1 || !zkl__queue_is_taken(name));
	if (sequence < 0)
		return;
	MUST(length >= 10);
	snprintf(digits, sizeof digits, "%010d", (int)sequence);
	MUST(strcmp(name + length - 10, digits) == 0);
}

/* What we print is read again, whatever the uuid. */
static void check_own(enum zkl__kind kind, struct zkl__uuid uuid, int32_t sequence)
{
	char              name[ZKL__NAME_MAX];
	const char       *list = name;
	struct zkl__queue q;

	zkl__queue_prefix(kind, uuid, name);
	snprintf(name + strlen(name), sizeof name - strlen(name), "%010d", sequence);
	MUST(zkl__queue_is_taken(name));
	zkl__queue_look(&q, &list, 1, kind, uuid);
	MUST(q.overrun == (sequence < 0));
	if (sequence < 0)
		return;
	MUST(zkl__queue_sequence(name) == sequence && q.own_sequence == sequence);
	MUST(q.contenders == 1 && q.mine == 1 && q.ahead == 0 && !q.unreadable);
	MUST(strcmp(q.own, name) == 0 && strcmp(q.lowest, name) == 0);
	MUST(!*q.predecessor && !*q.foreign && !*q.misplaced && !*q.extra);
	/* One of the other kind is no native one here; before nobody it is not misplaced. */
	zkl__queue_look(&q, &list, 1, kind == ZKL__KIND_LOCK ? ZKL__KIND_ELECTION : ZKL__KIND_LOCK, uuid);
	MUST(q.mine == 0 && strcmp(q.foreign, name) == 0 && strcmp(q.misplaced, name) == 0);
}

static bool is_listed(const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* To who is not there, those at the end of the sequence are the last ones to wait for. */
static bool is_aside(const struct zkl__queue *q, int64_t sequence)
{
	return q->own_sequence < 0 && sequence >= ZKL__SEQUENCE_END;
}

/* Each name of the view is one of the list, and nobody stands between. */
static void check_view(const struct zkl__queue *q, const char *prefix)
{
	uint32_t contenders = 0, ahead = 0, mine = 0;
	int64_t  limit = q->own_sequence < 0 ? INT64_MAX : q->own_sequence;

	for (size_t i = 0; i < count; i++) {
		int64_t sequence = zkl__queue_sequence(names[i]);

		MUST(sequence != -2 || q->overrun);
		if (sequence < 0)
			continue;
		contenders++;
		ahead += sequence <= limit && strcmp(names[i], q->own) != 0;
		MUST(strlen(names[i]) < ZKL__NAME_MAX || q->unreadable);
		if (q->unreadable)
			continue;
		MUST(zkl__queue_sequence(q->lowest) <= sequence);
		if (strncmp(names[i], prefix, strlen(prefix)) == 0 && strlen(names[i]) == strlen(prefix) + 10) {
			MUST(*q->own && q->own_sequence <= sequence);
			mine++;
		}
		MUST(sequence > limit || strcmp(names[i], q->own) == 0 || is_aside(q, sequence) ||
		     zkl__queue_sequence(q->predecessor) >= sequence);
	}
	MUST(q->children == count && q->contenders == contenders && q->ahead == ahead);
	if (q->unreadable)
		return; /* nothing is granted, nor waited for */
	MUST(q->mine == mine);
	MUST(!*q->own == (q->own_sequence < 0) && (!*q->own || zkl__queue_sequence(q->own) == q->own_sequence));
	MUST(!*q->predecessor == !ahead && !*q->lowest == !contenders && !*q->own == !q->mine);
	MUST(!*q->extra == (q->mine < 2));
	MUST((!*q->own || is_listed(q->own)) && (!*q->predecessor || is_listed(q->predecessor)));
	MUST((!*q->lowest || is_listed(q->lowest)) && (!*q->foreign || is_listed(q->foreign)));
	MUST((!*q->extra || is_listed(q->extra)) && (!*q->misplaced || is_listed(q->misplaced)));
}

/* Who is before whom does not depend on the order in which a server lists them. */
static void check_same(const struct zkl__queue *q, const struct zkl__queue *other)
{
	MUST(q->contenders == other->contenders && q->mine == other->mine && q->overrun == other->overrun);
	MUST(q->unreadable == other->unreadable && q->own_sequence == other->own_sequence);
	MUST(!*q->foreign == !*other->foreign && q->ahead == other->ahead);
	if (q->unreadable)
		return;
	MUST(zkl__queue_sequence(q->lowest) == zkl__queue_sequence(other->lowest));
	MUST(zkl__queue_sequence(q->predecessor) == zkl__queue_sequence(other->predecessor) ||
	     (is_aside(q, zkl__queue_sequence(q->predecessor)) &&
	      is_aside(other, zkl__queue_sequence(other->predecessor))));
	MUST(!*q->misplaced == !*other->misplaced);
}

static void check_all(enum zkl__kind kind, struct zkl__uuid uuid)
{
	struct zkl__queue q, other;
	char              prefix[ZKL__NAME_MAX];

	zkl__queue_prefix(kind, uuid, prefix);
	zkl__queue_look(&q, names, count, kind, uuid);
	check_view(&q, prefix);
	zkl__queue_look(&other, backwards, count, kind, uuid);
	check_view(&other, prefix);
	check_same(&q, &other);
}

/* Of the last name that has one. */
static struct zkl__uuid find_uuid(void)
{
	struct zkl__uuid   uuid = {0};
	unsigned long long part[5];

	for (size_t i = 0; i < count; i++)
		if (sscanf(names[i], "_c_%8llx-%4llx-%4llx-%4llx-%12llx", part, part + 1, part + 2, part + 3,
		           part + 4) == 5)
			uuid = (struct zkl__uuid){part[0] << 32 | part[1] << 16 | part[2], part[3] << 48 | part[4]};
	return uuid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zkl__uuid uuid = {0};
	int32_t          sequence = 0;

	read_names((const char *)data, size);
	memcpy(&uuid, data, size < sizeof uuid ? size : sizeof uuid);
	memcpy(&sequence, data, size < sizeof sequence ? size : sizeof sequence);
	for (size_t i = 0; i < count; i++)
		check_sequence(names[i]);
	for (enum zkl__kind kind = ZKL__KIND_LOCK; kind <= ZKL__KIND_ELECTION; kind++) {
		check_own(kind, uuid, sequence);
		check_all(kind, find_uuid());
	}
	return 0;
}
