/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_WARDEN_H
#define ZKLOCK_WARDEN_H

/* warden.h: the process between zklock-run and the command.
 *
 * It does what it is ordered to. By itself it does one thing only: it ends the whole tree of the command when the
 * deadline in shared memory passes, or when the front dies, with TERM first and KILL after the grace, never later than
 * the deadline plus the grace. So a front that is stopped, swapped out or dead leaves no command running. */

#include "child.h"

/* Runs in the process that zkl__child_open forked, and ends it. */
_Noreturn void zkl__warden_run(const struct zkl__child_options *options, struct zkl__shared *shared,
                               struct zkl__cgroup *cgroup, int socket);

#endif
