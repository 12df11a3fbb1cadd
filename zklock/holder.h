/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_HOLDER_H
#define ZKLOCK_HOLDER_H

/* holder.h: one look at a lock's queue: who holds, and where in it is our own contender. */

#include "look.h"
#include "queue.h"

/* own: our contender's; NULL: we have none, and what others have done before is to be seen for sure. For patience_ns at
 * most. The number of contenders, or an error, as zkl_lock_holder(). */
int zkl__holder_look(zkl_session *session, const char *path, const struct zkl__uuid *own, int64_t patience_ns,
                     struct zkl__look *ret, zkl_error *reterr);

#endif
