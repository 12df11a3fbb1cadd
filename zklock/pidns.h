/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PIDNS_H
#define ZKLOCK_PIDNS_H

/* pidns.h: a PID namespace of the command's own, which the kernel ends as a whole with its first process.
 *
 *     warden --+-- init (the namespace's first process: reaps, and dies with the warden)
 *              +-- command (the second one)
 *
 * Both are children of the warden, so that status, stops, process group and terminal are what they are without a namespace;
 * a process in between has made the namespace, has had them (CLONE_PARENT), and is gone. The mount namespace with a /proc of the
 * new one is theirs, too. Who may not make namespaces does it in a user namespace, which maps but the user and group that it has.
 *
 * init ends by itself when the command has been reaped and nobody is left that it could reap. */

#include "cgroup.h"
#include "child.h"

struct zkl__pidns {
	pid_t       init; /* as we see it */
	const char *step; /* what was being done when it failed */
};

/* fork(), with the child in a new namespace. -1: errno, and ret->step. The caller has blocked all signals that it does not
 * want to die of. */
pid_t zkl__pidns_fork(const struct zkl__child_options *options, struct zkl__cgroup *cgroup, struct zkl__pidns *ret);

/* Can it be had here? Makes one and puts it away. -1: errno, and *ret_step. */
int zkl__pidns_probe(const struct zkl__child_options *options, const char **ret_step);

#endif
