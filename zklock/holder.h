/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_HOLDER_H
#define ZKLOCK_HOLDER_H

/* holder.h: one look at a queue: who holds or leads, and where in it is our own contender. */

#include "look.h"
#include "owner.h"

/* For patience_ns at most. The number of contenders, or an error, as zkl_lock_holder(). */
int zkl__owner_look(struct zkl__owner *owner, int64_t patience_ns, struct zkl__look *ret, zkl_error *reterr);

#endif
