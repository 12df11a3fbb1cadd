/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_HOLDER_H
#define ZKLOCK_HOLDER_H

/* holder.h: one look at a queue: who holds or leads, and where in it is our own contender. */

#include "look.h"
#include "owner.h"

/* As zkl__lock_look(). */
struct zkl__looking *zkl__owner_look(struct zkl__owner *owner);

#endif
