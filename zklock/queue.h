/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_QUEUE_H
#define ZKLOCK_QUEUE_H

/* queue.h: the children of a lock directory, and whom a contender waits for. Pure.
 *
 * A contender's node is "_c_<uuid>-lock-<sequence>", Apache Curator's name for a protected lock node, or, in an election,
 * "_c_<uuid>-latch-<sequence>", that of its LeaderLatch. Order is by the number in exactly the last ten digits, whatever
 * stands before them (ZOOKEEPER-3162: comparing whole names grants in the wrong order). A child without such a number is no
 * contender. A foreign child with one blocks like any other, but a lock's contender has no place in an election, nor a
 * candidate in a lock's queue. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the longest node name that is handled, with its NUL: our own have 56, Curator's and kazoo's are alike. */
#define ZKL__NAME_MAX 128
/* Of one of ours: a candidate's, with a negative number. */
#define ZKL__OWN_NAME_MAX 58
/* A uuid in text, with its NUL. */
#define ZKL__UUID_MAX 37
/* From here on nobody queues, and the directory is made anew once it is empty: the server's counter sticks at 2^31-1 and hands
 * out the same number twice (ZOOKEEPER-3249). */
#define ZKL__SEQUENCE_END ((int64_t)0x7fffffff - 0xfffff)

struct zkl__uuid {
	uint64_t high, low;
};

/* What a directory is for. */
enum zkl__kind { ZKL__KIND_LOCK, ZKL__KIND_ELECTION };

/* One look at the whole queue, from the point of view of the contender with a certain uuid. */
struct zkl__queue {
	uint32_t children;             /* all, contenders or not */
	uint32_t contenders;           /* all */
	uint32_t ahead;                /* before us; all, where we are not there */
	uint32_t mine;                 /* nodes with our uuid: 0 or 1, else a bug */
	int64_t  own_sequence;         /* -1: we are not there */
	bool     overrun;              /* some child has a negative number: the sequence has run over, grant nothing */
	bool     unreadable;           /* some contender's name is longer than ZKL__NAME_MAX */
	char     own[ZKL__NAME_MAX];   /* "": none; of several the lowest */
	char     extra[ZKL__NAME_MAX]; /* another one of ours */
	char     predecessor
		[ZKL__NAME_MAX]; /* where we are not there: the last one, of those before ZKL__SEQUENCE_END if any */
	char lowest[ZKL__NAME_MAX];
	char foreign[ZKL__NAME_MAX];   /* some contender that is not named as we name ours */
	char misplaced[ZKL__NAME_MAX]; /* some contender before us that is one of the other kind */
};

void zkl__uuid_text(struct zkl__uuid uuid, char text[ZKL__UUID_MAX]);
/* "_c_<uuid>-lock-" or "_c_<uuid>-latch-": the server appends the sequence number. */
void zkl__queue_prefix(enum zkl__kind kind, struct zkl__uuid uuid, char name[ZKL__NAME_MAX]);
/* The sequence number in a name; -1: it has none; -2: it is negative, the sequence has run over. */
int64_t zkl__queue_sequence(const char *name);
/* Is it what this library, Curator or kazoo names contenders? Others that end in ten digits count as contenders, too, where they
 * are among them; but a lock may well be named after a time or a telephone number. */
bool zkl__queue_is_taken(const char *name);
void zkl__queue_look(struct zkl__queue *q, const char *const *names, size_t count, enum zkl__kind kind,
                     struct zkl__uuid uuid);

#endif
