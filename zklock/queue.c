/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIGITS 10

/* What stands between uuid and number, by kind. */
static const char *const tags[] = {[ZKL__KIND_LOCK] = "-lock-", [ZKL__KIND_ELECTION] = "-latch-"};

void zkl__uuid_text(struct zkl__uuid uuid, char text[ZKL__UUID_MAX])
{
	snprintf(text, ZKL__UUID_MAX, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64,
	         uuid.high >> 32, uuid.high >> 16 & 0xffff, uuid.high & 0xffff, uuid.low >> 48,
	         uuid.low & 0xffffffffffff);
}

void zkl__queue_prefix(enum zkl__kind kind, struct zkl__uuid uuid, char name[ZKL__NAME_MAX])
{
	char text[ZKL__UUID_MAX];

	zkl__uuid_text(uuid, text);
	snprintf(name, ZKL__NAME_MAX, "_c_%s%s", text, tags[kind]);
}

int64_t zkl__queue_sequence(const char *name)
{
	size_t  length = strlen(name), digits = 0;
	int64_t number = 0;

	while (digits < length && isdigit((unsigned char)name[length - 1 - digits]))
		digits++;
	/* The server prints "%010d": -5 is "-000000005", with one digit less. Behind our prefix that makes two dashes. */
	if (digits >= DIGITS - 1 && length - digits >= 2 && name[length - digits - 1] == '-' &&
	    name[length - digits - 2] == '-')
		return -2;
	if (digits < DIGITS)
		return -1;
	for (const char *c = name + length - DIGITS; *c; c++)
		number = number * 10 + (*c - '0');
	/* Behind a prefix without a dash at its end -2147483648 has only one: no true number is so great. */
	return number > INT32_MAX ? -2 : number;
}

bool zkl__queue_is_taken(const char *name)
{
	static const char *const before[] = {"lock-", "latch-", "lock__"};
	size_t                   length = strlen(name);
	bool                     taken = strncmp(name, "_c_", 3) == 0;

	for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
		size_t word = strlen(before[i]), tail = word + DIGITS;

		taken |= length >= tail && memcmp(name + length - tail, before[i], word) == 0;
	}
	return taken && zkl__queue_sequence(name) != -1;
}

static bool is_ours(const char *name, const char *prefix)
{
	const size_t length = strlen(prefix);

	return strncmp(name, prefix, length) == 0 && strlen(name) == length + DIGITS;
}

/* Named as this library and Curator (InterProcessMutex, LeaderLatch) name a contender of this kind? */
static bool is_native(const char *name, enum zkl__kind kind)
{
	size_t length = strlen(name), tail = strlen(tags[kind]) + DIGITS;

	return length == 3 + ZKL__UUID_MAX - 1 + tail && strncmp(name, "_c_", 3) == 0 &&
	       strncmp(name + length - tail, tags[kind], strlen(tags[kind])) == 0;
}

static void note_ours(struct zkl__queue *q, const char *name, int64_t sequence)
{
	q->mine++;
	if (q->own_sequence < 0 || sequence < q->own_sequence) {
		memcpy(q->extra, q->own, ZKL__NAME_MAX);
		snprintf(q->own, ZKL__NAME_MAX, "%s", name);
		q->own_sequence = sequence;
	} else {
		snprintf(q->extra, ZKL__NAME_MAX, "%s", name);
	}
}

/* Those before us; all, where we are not there. */
static void look_ahead(struct zkl__queue *q, const char *const *names, size_t count, enum zkl__kind kind)
{
	enum zkl__kind other = kind == ZKL__KIND_LOCK ? ZKL__KIND_ELECTION : ZKL__KIND_LOCK;
	int64_t        before = -2;

	/* A second node with our number can only come from a sequence that stuck: it blocks us, and we it. */
	for (size_t i = 0; i < count; i++) {
		int64_t sequence = zkl__queue_sequence(names[i]);

		if (sequence < 0 || strcmp(names[i], q->own) == 0)
			continue;
		if (q->own_sequence >= 0 && sequence > q->own_sequence)
			continue;
		q->ahead++;
		if (is_native(names[i], other))
			snprintf(q->misplaced, ZKL__NAME_MAX, "%s", names[i]);
		/* Who came at the end of the sequence makes room by itself. */
		if (q->own_sequence < 0 && sequence >= ZKL__SEQUENCE_END)
			sequence = -1;
		if (sequence > before) {
			before = sequence;
			snprintf(q->predecessor, ZKL__NAME_MAX, "%s", names[i]);
		}
	}
}

void zkl__queue_look(struct zkl__queue *q, const char *const *names, size_t count, enum zkl__kind kind,
                     struct zkl__uuid uuid)
{
	char    prefix[ZKL__NAME_MAX];
	int64_t lowest = INT64_MAX;

	memset(q, 0, sizeof *q);
	q->children = (uint32_t)count;
	q->own_sequence = -1;
	zkl__queue_prefix(kind, uuid, prefix);
	for (size_t i = 0; i < count; i++) {
		int64_t sequence = zkl__queue_sequence(names[i]);

		if (sequence == -2)
			q->overrun = true;
		if (sequence < 0)
			continue;
		q->contenders++;
		if (strlen(names[i]) >= ZKL__NAME_MAX) {
			q->unreadable = true;
			continue;
		}
		if (is_ours(names[i], prefix))
			note_ours(q, names[i], sequence);
		if (sequence < lowest) {
			lowest = sequence;
			snprintf(q->lowest, ZKL__NAME_MAX, "%s", names[i]);
		}
		if (!is_native(names[i], kind))
			snprintf(q->foreign, ZKL__NAME_MAX, "%s", names[i]);
	}
	look_ahead(q, names, count, kind);
}
