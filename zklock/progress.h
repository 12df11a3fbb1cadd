/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PROGRESS_H
#define ZKLOCK_PROGRESS_H

/* progress.h: a wait, as people are told of it: in the line on a terminal, and with -v. Pure but for the time zone.
 *
 * Who waits in a queue of ZooKeeper's watches the one before it and nothing else, so that a release wakes one and not all.
 * What it wants to know beyond that it has to ask for, and the answer (a list of all) grows with the queue. So a waiter on a
 * terminal looks once when it has queued, and then after a pause that grows with the queue, too: 100 ms for each contender,
 * at least 2 s. However many wait on terminals, a lock is looked at 10 times a second at most: with 1,000 waiters each looks
 * every 100 s, and the servers send 10 lists of some 60 kB a second. What the library tells by itself (the one before us has
 * gone, so many at most are left) changes the line at once and asks for nothing; it tells that to one waiter for each that
 * leaves. Nobody looks who does not wait on a terminal: with -v there is one look. */

#include <stdbool.h>
#include <stdint.h>
#include <zklock/zklock.h>

struct zkl__progress {
	const char *path;
	uint32_t    ahead;  /* contenders before us, at most; 0: not queued, as far as is known */
	bool        looked; /* `holder` is known */
	zkl_peer    holder;
};

/* "held by web1:4711 backup since 13:05:22, token 17, 3 waiting" or "..., we are 2nd of 3 waiting". */
void zkl__progress_holder(const struct zkl__progress *progress, int64_t now_ms, char *ret, size_t size);
/* "waiting, 2nd of 3, held by web1:4711 backup since 13:05:22: /locks/job", as far as it is known. What whoever waits
 * knows already comes last, where a narrow terminal cuts. */
void zkl__progress_line(const struct zkl__progress *progress, int64_t now_ms, char *ret, size_t size);
/* Until the next look. */
int64_t zkl__progress_pause_ms(const struct zkl__progress *progress);

#endif
