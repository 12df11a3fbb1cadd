/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_CROWD_H
#define ZKLOCK_TEST_CROWD_H

/* crowd.h: many locks of one session, whose events are only counted: a recorder for each of ten thousand would keep a
 * lot. */

#include <stdatomic.h>
#include <zklock/lock.h>

typedef struct crowd {
	zkl_session *session;
	atomic_int   waiting, granted, lost, ended;
	zkl_lock   **locks;
	int          count, size;
} crowd;

crowd *crowd_of(zkl_session *s);
/* One more contender. What start() said; the lock stays in either case. */
int crowd_start(crowd *c, const char *path, zkl_error *reterr);
/* And closes the session. */
void crowd_free(crowd *c);

#endif
