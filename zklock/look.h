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

/* A look that is under way; nobody waits for it. It ends before what it looks at is freed, and before the session is closed. */
struct zkl__looking;

/* NULL: out of memory. */
struct zkl__looking *zkl__lock_look(zkl_lock *lock);
struct zkl__looking *zkl__election_look(zkl_election *election);
/* False: the servers have not answered yet. */
bool zkl__looking_is_over(struct zkl__looking *looking);
/* The number of contenders; 0 or less: there are none, or nothing is known of them. */
int zkl__looking_end(struct zkl__looking *looking, struct zkl__look *ret);

/* Why the present grant was lost. The clock tells check() before the servers tell the lock: so it may be another reason later. */
const char *zkl__lock_why_lost(zkl_lock *lock);
const char *zkl__election_why_lost(zkl_election *election);

/* Why no server is in reach: "host: reason; host: reason". */
void zkl__session_why_unreached(zkl_session *session, char *ret, size_t size);

#endif
