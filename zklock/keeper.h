/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_KEEPER_H
#define ZKLOCK_KEEPER_H

/* keeper.h: a process that waits for the death of front and warden, and then empties the command's cgroup and removes it.
 *
 * When both are killed at once, nobody is left who could: no cgroup ends by itself. It is not called zklock-anything, so that
 * `pkill -9 zklock` does not take it, too, nor shows it the lock's path, as front and warden do, for `pkill -9 -f PATH`. Without a cgroup there is no keeper, since it could not find what has become of the
 * command's tree. What else the front has open stays open in it: so a lock on a file outlives both, too. */

#include "child.h"

/* Forks it, in the front. It waits for the end of file on `lifeline`, a pipe whose other end only front and warden have. -1:
 * errno. */
pid_t zkl__keeper_fork(const struct zkl__child_options *options, const struct zkl__child *child, int lifeline);

#endif
