/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_ELECTION_H
#define ZKLOCK_ELECTION_H

/* election.h: leader election on a path: the contender of a lock, held for long.
 *
 *     zkl_election_new -> zkl_election_campaign -> GRANTED: (zkl_election_check, act)* -> zkl_election_resign -> campaign ...
 *                      -> zkl_election_run, which is that in a loop                    -> zkl_election_free
 *
 * Candidates lead in the order of their znodes' sequence numbers: the number is the epoch of the term, the token beside it
 * fences. GRANTED means elected, LOST deposed. After LOST nothing begins by itself: end the work, resign, campaign again.
 * The nodes are named and ordered like those of Apache Curator's LeaderLatch, and hold what it keeps there, the
 * candidate's id, so that Java and C services can stand for one office. A path with a lock's contenders on it is refused
 * with ZKL_EPATH, which ends a campaign and run(); so is one with candidates by lock.h. Never let Curator and another
 * client with names of its own (kazoo) stand on one path: Curator sorts whole names where its own tag is missing, so
 * that the two disagree on who is first.
 *
 * Leadership cannot be moved to a candidate by name. The order of the nodes is both what is fair and what fences: to be first,
 * the candidate would need a number below those of all who queued before it, which would be an epoch that was given before.
 * Who wants a certain candidate to lead lets all others resign, the leader last, and campaign again: they lose their places by
 * their own word, and the order of the rest stays.
 *
 * Since 0.1, all of it. */

#include <zklock/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zkl_election zkl_election;

/* Makes a handle, for a candidate or an observer or both; nothing is created on the servers. The path's rules are those of
 * zkl_lock_new(). options->data: what the others see of this candidate in zkl_peer.data and, printable, in zkl_peer.id, and
 * Curator as its id; NULL: "host:pid program". With the session's auth the nodes and directories that are made can be changed
 * by its identity only, and read by everybody. With ZKL_OBSERVE the path is watched from now on. *ret is the caller's to
 * free. ZKL_EPATH (the message names the rule), ZKL_EINVAL, ZKL_ENOMEM (also where the session watches as many nodes as it can,
 * see session.h; so does campaign). */
ZKL_API int zkl_election_new(zkl_session *session, const char *path, const zkl_options *options, zkl_election **ret,
                             zkl_error *reterr);

/* Becomes a candidate, without a limit in time, and returns; events tell how it goes, so that options->on_event must be set
 * (ZKL_EINVAL). While no server can be reached it waits, and no event says so: the session's log does, after a session
 * timeout (`unreachable`, session.h). ZKL_ESTATE: it is one already, or leads, or was deposed and has not resigned yet. It
 * may follow zkl_election_resign() at once. */
ZKL_API int zkl_election_campaign(zkl_election *election, zkl_error *reterr);

/* One term's work. grant dies when it returns. It has to look at zkl_election_check() and end when that says no. */
typedef int zkl_election_term(const zkl_grant *grant, void *user);

/* The same as a loop in the calling thread: campaigns, calls term() while it leads, resigns when term() returns, and
 * again as long as it returns 0. The work is bound to the term: nobody is elected while term() runs, unless its
 * session or node is gone (then check() says no, and the token decides). Returns what term() returned, best a number > 0 (a
 * negative one is returned as it is, without reterr); ZKL_ECANCELED: resigned by another thread or by term() itself
 * (where term() returned 0), or the session was cancelled while no term ran; ZKL_ESTATE: the session was closed, or the
 * election is in use; and what ends attempts: ZKL_EACCES, ZKL_EPATH, ZKL_EEXHAUSTED, ZKL_EZK, ZKL_ELOST (with
 * ZKL_NO_REQUEUE). ZKL_EDEADLK: called from a callback. Events are sent as for a campaign, in no order with term(),
 * which runs in the calling thread; there it is for term() to return after LOST, not to resign. */
ZKL_API int zkl_election_run(zkl_election *election, zkl_election_term *term, void *user, zkl_error *reterr);

/* May I act as the leader? As zkl_lock_check(): > 0: the term with this token goes on for so many ms; ZKL_ELOST: deposed;
 * ZKL_ENOTHELD: resigned, or not a term of this handle. Any thread and signal handlers; no I/O, no lock. */
ZKL_API int64_t zkl_election_check(zkl_election *election, uint64_t token);

/* Lets go of what there is, as zkl_lock_release(): leadership (call it when the work is over: this is what lets the next
 * one lead, within one hand-over), a candidacy, or what is left after LOST. While a term of zkl_election_run() runs it
 * is a request: check() says no at once, the node goes when term() returns. timeout_ms: how long to wait for the node's
 * end; 0 never blocks. ZKL_ETIMEDOUT: it is still there. ZKL_ENOTHELD: deposed before, or no candidate. ZKL_EDEADLK:
 * timeout_ms not 0 in a callback or in the term itself. */
ZKL_API int zkl_election_resign(zkl_election *election, int64_t timeout_ms, zkl_error *reterr);

/* Who leads, as last seen: 1 and *ret; 0: nobody, or not seen yet (then no LEADER event has come). No I/O; it lags
 * behind the servers, and while they are out of reach it stays what it was: never decide a write by it. Needs
 * ZKL_OBSERVE (ZKL_ESTATE). ZKL_EACCES, ZKL_EPATH, ZKL_EEXHAUSTED, ZKL_EZK: the path cannot be observed; it is tried
 * again each session timeout. ret->waiting: as of the leader's election. An observer is told of a change by one node's
 * end, reads one list and one node, and never polls. */
ZKL_API int zkl_election_leader(zkl_election *election, zkl_peer *ret);

/* Resigns and frees. Waits for zkl_election_run() to return and for this handle's callback, if they run in other threads; no
 * callback comes after. May be called in the handle's own callback; in a term it takes effect when the term returns. NULL
 * is fine. */
ZKL_API void zkl_election_free(zkl_election *election);

#ifdef __cplusplus
}
#endif
#endif
