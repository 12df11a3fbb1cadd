/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PATH_H
#define ZKLOCK_PATH_H

#include <stddef.h>

#include <zklock/zklock.h>

/* Is it a path that ZooKeeper takes and an operator can read? `what` names it in the message; `limit` is the most bytes.
 * 0 or ZKL_EPATH. */
int zkl__path_check(const char *what, const char *path, size_t limit, zkl_error *reterr);
/* The same for a node below a chroot, which may be "". */
int zkl__node_path_check(const char *path, const char *chroot, zkl_error *reterr);
/* The same for a lock's or an election's directory, which may not be taken for a contender by one on its parent. */
int zkl__lock_path_check(const char *path, const char *chroot, zkl_error *reterr);

#endif
