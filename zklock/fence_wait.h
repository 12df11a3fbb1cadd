/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_FENCE_WAIT_H
#define ZKLOCK_FENCE_WAIT_H

/* fence_wait.h: a fence on file whose accesses are not waited for without end. */

#include <signal.h>
#include <zklock/fence.h>

/* Once *impatient is set, zkl_fence_admit() gives ZKL_EBUSY where another process's access runs. A signal that sets it ends
 * the wait if it interrupts system calls; as it may come just before one, it has to come again. */
void zkl__fence_wait_unless(zkl_fence *fence, const volatile sig_atomic_t *impatient);

#endif
