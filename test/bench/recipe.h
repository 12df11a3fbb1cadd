/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_BENCH_RECIPE_H
#define ZKLOCK_BENCH_RECIPE_H

/* recipe.h: what is measured: something that a thread gets and lets go of, again and again.
 *
 *     connect -> join -> (acquire -> release)* -> leave
 *
 * One session a process; a contender is one thread's at a time. acquire() and release() return when the thread that called
 * them runs again, for the floor as for the library: being woken belongs to both. What fails ends the process. */

typedef struct contender contender;

typedef struct recipe {
	const char *name;
	void (*connect)(const char *servers, int session_ms);
	contender *(*join)(const char *path);
	void (*acquire)(contender *c);
	void (*release)(contender *c);
	void (*leave)(contender *c);
	void (*disconnect)(void);
} recipe;

/* The floors, by the C client's asynchronous operations. raw: create and list in one go, and behind somebody a watch on the
 * node before ours, whose end is the grant, with nothing looked at: safe as long as nobody dies. bare: create, and no more. */
extern const recipe raw, bare;
/* The library. */
extern const recipe lock, election;

#endif
