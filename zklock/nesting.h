/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_NESTING_H
#define ZKLOCK_NESTING_H

/* nesting.h: does this process already run under the lock that it is about to wait for?
 *
 * A command is told in ZKLOCK_HELD under which locks it runs. But an environment goes further than a lock: a daemon
 * that was started under one keeps it for life. So each entry names the warden of its lock, and counts only where that
 * very process is an ancestor of ours. Where the ancestors end at the border of a PID namespace, its first process follows.
 *
 * A lock has the canonical name "host:port,host:port/chroot/path". Two names mean the same lock where the paths are
 * equal and the servers have one in common. ("localhost" and "127.0.0.1" are not seen to be the same.)
 *
 * ZKLOCK_HELD: entries "pid:start:name", each ended by a newline. */

#include <stdbool.h>
#include <sys/types.h>

#define ZKL__HELD_VARIABLE "ZKLOCK_HELD"

/* The canonical name, in memory that is the caller's to free; NULL: no memory. */
char *zkl__nesting_name(const char *servers, const char *path);

bool zkl__nesting_is_same(const char *name, const char *other);

/* Is `name` among the entries of `held` that count? NULL: nothing is held. *ret_kept: the entries that count, the
 * caller's to free, NULL without memory. */
bool zkl__nesting_check(const char *held, const char *name, char **ret_kept);

/* In the process that becomes the command: sets ZKLOCK_HELD: what is kept, and `name` held by the process `holder`: its warden,
 * or 1, the first process of the PID namespace that we have come into: nobody outside is seen from there, so that it stands for
 * what is kept, too. -1: errno. */
int zkl__nesting_export(const char *kept, const char *name, pid_t holder);

#endif
