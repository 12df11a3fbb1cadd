/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CGROUP_H
#define ZKLOCK_CGROUP_H

/* cgroup.h: a cgroup (version 2) of the command's own, below ours, where we may make one: as root, in a systemd unit with
 * Delegate=, under a user's systemd. The kernel then knows who belongs to the command, and ends all of them in one step, also
 * those that have changed their user.
 *
 *     zkl__cgroup_open        before anything is forked: every process of ours finds the cgroup by its name
 *     zkl__cgroup_fork        makes it, with its first process
 *     zkl__cgroup_remove      by whoever is there at the end
 *
 * Where it cannot be had, nothing here does anything: there is always the walk of proctree.h beside it. A cgroup without a
 * directory is one without processes. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct zkl__cgroup {
	int  parent;         /* the directory of our own cgroup; -1: we may not make one there */
	int  error;          /* errno: why there is none; 0: there is one, or none was needed yet */
	char path[PATH_MAX]; /* of `parent`; "": cgroup v2 is not mounted */
	char name[64];       /* below `parent` */
};

/* The directory of the cgroup `own` ("/a/b", as /proc/self/cgroup has it), where the file system that this line of
 * /proc/self/mountinfo tells of is cgroup v2, and has it. */
bool zkl__cgroup_directory(const char *mount, const char *own, char *ret, size_t size);

/* Finds our own. `program` becomes part of the name. */
void zkl__cgroup_open(struct zkl__cgroup *cgroup, const char *program);
bool zkl__cgroup_is_possible(const struct zkl__cgroup *cgroup);

/* fork(), with the child in the cgroup or, where that is not permitted, not. */
pid_t zkl__cgroup_fork(struct zkl__cgroup *cgroup);

/* Is anybody alive in it, or in one below? */
bool zkl__cgroup_is_populated(const struct zkl__cgroup *cgroup);

/* Do all in it hold still until somebody thaws them? But KILL ends them. */
bool zkl__cgroup_is_frozen(const struct zkl__cgroup *cgroup);

/* A descriptor on which poll() says POLLPRI when that may have changed, until told. -1: none. */
int  zkl__cgroup_watch(const struct zkl__cgroup *cgroup);
void zkl__cgroup_told(int watch);
void zkl__cgroup_wait(int watch, int timeout_ms); /* for that, and is told */

/* All processes in it, and in those below: memory that is the caller's to free. -1: out of memory. */
int zkl__cgroup_members(const struct zkl__cgroup *cgroup, pid_t **ret, size_t *ret_count);

/* All of them, also who is just being forked. (Kernels before 5.14 cannot.) */
void zkl__cgroup_kill(const struct zkl__cgroup *cgroup);

/* With those that the command has made below it. Only when nobody is alive in it. */
void zkl__cgroup_remove(const struct zkl__cgroup *cgroup);
void zkl__cgroup_close(struct zkl__cgroup *cgroup);

#endif
