/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PEER_H
#define ZKLOCK_PEER_H

/* peer.h: who holds or leads, as people are told. Pure. */

#include <zklock/zklock.h>

#include "protocol.h"

/* From the list's and the node's reply. */
void zkl__peer_fill(zkl_peer *ret, const char *name, int64_t directory_czxid, uint32_t contenders,
                    const struct zkl__reply *read);

#endif
