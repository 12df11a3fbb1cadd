/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_VICTIM_H
#define ZKLOCK_TEST_VICTIM_H

/* victim.h: a process that stops at each of its system calls, before it and after it, to be killed there with SIGKILL.
 *
 *     victim_fork -> victim_run(.., n) -> victim_kill | victim_let_go
 *
 * A call at which it is killed on the way in has no effect; after the way out it has had all of it, and the process knows
 * nothing of that. By ptrace(2): nothing in the program under test is replaced. No victim outlives this process. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct victim {
	pid_t pid;
	int   status; /* as of waitpid(); of one that has ended, or was killed */
	uint64_t
		unsynced; /* descriptors by which files or names were written and not synced since, a bit each: but for what
	                    * was synced in another place */
	uint64_t written, synced; /* what was written, and synced, last: a sum of it */
	bool     told;            /* it has written to somebody else, or forked, while there were such */
};

/* Some containers forbid it. */
bool victims_are_possible(void);

/* As fork(): 0 in the child. It stands still until it is told to run. */
pid_t victim_fork(struct victim *ret);

/* Further, by `stops` stops. False: it has ended before, or `is_stuck`, asked again and again, says that it gets no further. */
bool victim_run(struct victim *victim, unsigned stops, bool (*is_stuck)(void));

/* It runs freely until it forks; from then on the child is the victim, and the parent is free. False: it ended before. */
bool victim_becomes_its_child(struct victim *victim);

void victim_kill(struct victim *victim);
/* It goes on, free. */
void victim_let_go(const struct victim *victim);

#endif
