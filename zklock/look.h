/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_LOOK_H
#define ZKLOCK_LOOK_H

/* look.h: what zklock-run tells people of a wait, and no other caller has asked for: the library's, but not its users'. */

#include <stdbool.h>
#include <stddef.h>
#include <zklock/election.h>
#include <zklock/lock.h>

/* A queue, seen once. */
struct zkl__look {
	zkl_peer peer;    /* who holds or leads */
	uint32_t ahead;   /* contenders before ours; 0: we have no node there */
	bool     lasting; /* no session ends its node */
};

/* Waits for patience_ns at most. The number of contenders, or an error, as zkl_lock_holder(). */
int zkl__lock_look(zkl_lock *lock, int64_t patience_ns, struct zkl__look *ret, zkl_error *reterr);
int zkl__election_look(zkl_election *election, int64_t patience_ns, struct zkl__look *ret, zkl_error *reterr);
/* Why no server is in reach: "host: reason; host: reason". */
void zkl__session_why_unreached(zkl_session *session, char *ret, size_t size);

#endif
