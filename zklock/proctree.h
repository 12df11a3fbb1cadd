/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PROCTREE_H
#define ZKLOCK_PROCTREE_H

/* proctree.h: which processes descend from a process, and signals to exactly those.
 *
 * A tree is read from /proc/PID/stat. It is out of date when it has been read: so a process is opened as a pidfd,
 * looked at again through /proc, and only signalled if it still is the process that was found in the tree. A process id
 * that was given to somebody else meanwhile is never signalled. (Kernels before 5.3 have no pidfd: there a window of
 * microseconds is left between the second look and the signal.) */

#include "cgroup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct zkl__process {
	pid_t    pid, parent;
	uint64_t start; /* clock ticks after boot: with pid the name of a process */
	bool     dead;  /* waits to be reaped */
};

/* Is there a /proc, and of the PID namespace that we are in? Nothing here works without. */
bool zkl__proctree_is_possible(void);

/* False: there is no such process, or it may not be looked at. */
bool zkl__process_read(pid_t pid, struct zkl__process *ret);

/* How a dead one ended, as wait() will tell it. -1: that is not shown to us, as of somebody else's process. */
int zkl__process_end(pid_t pid);

/* All descendants of `pid`, except for those below the direct children listed in `except`, and whoever is in `cgroup`. */
struct zkl__proctree_root {
	pid_t                      pid;
	const struct zkl__process *except;
	size_t                     except_count;
	const struct zkl__cgroup  *cgroup; /* or NULL */
};

/* Signals every living descendant once, also those that are born meanwhile as far as it can keep up. SIGTERM is
 * followed by SIGCONT, so that a stopped process can act on it. Returns how many living descendants it saw last, -1
 * (errno) where /proc could not be read. */
int zkl__proctree_sweep(const struct zkl__proctree_root *root, int sig);

/* Stops the tree, so that nobody in it can flee by forking, and kills it. Returns as sweep. */
int zkl__proctree_kill(const struct zkl__proctree_root *root);

/* How many descendants there are, those that wait to be reaped among them. -1 as sweep. */
int zkl__proctree_count(const struct zkl__proctree_root *root);

/* One that lives, as "PID (NAME) STATE". False: there is none. */
bool zkl__proctree_survivor(const struct zkl__proctree_root *root, char *ret, size_t size);

/* Between rounds of killing: short at first, then longer and longer, for what hangs in the kernel dies of none of
 * them. */
#define ZKL__KILL_PAUSE_NS INT64_C(10000000)
int64_t zkl__kill_pause_next(int64_t pause_ns);

/* The direct children of the calling thread, in memory that is the caller's to free. -1: out of memory, or a kernel without
 * /proc/PID/task/TID/children. */
int zkl__proctree_children(struct zkl__process **ret, size_t *ret_count);

/* One of them that lives, but for those in `except`. 0: there is none. Then a subreaper has no living descendant either,
 * although it may have children still: who is traced is not its parent's to reap before its tracer has heard of its end. -1: as
 * above. */
pid_t zkl__proctree_living_child(const struct zkl__process *except, size_t except_count);

/* Kills the direct children of the calling thread: much faster than a walk, and exact, since a child's id cannot be
 * given away before it is reaped. In a subreaper every descendant becomes a direct child once its parent is gone. */
void zkl__proctree_kill_children(void);

#endif
