/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SESSION_H
#define ZKLOCK_SESSION_H

/* session.h: a session with an ensemble: one heartbeat and one lease for all its locks.
 *
 *     zkl_session_open  ->  locks  ->  zkl_session_close
 *
 * It opens anew by itself after an expiry: what was held is then lost, who waited queues again.
 *
 * Threads: one for the protocol and one for events (none with ZKL_MANUAL), beside the two of the ZooKeeper client; and one
 * for as long as names are being resolved.
 *
 * Names are resolved when the session is opened, and again after T/3 (at least 0.5 s, at most 10 s) without a connection and
 * each such time; never while connected. So a slow or dead resolver delays no call, heartbeat or callback, and ends no
 * lease. When there are new addresses, the session goes on there: what is held, unless its lease is over by then, and every
 * place in a queue. A name that cannot be resolved keeps the addresses that it had, and literal addresses wait for no name.
 *
 * The lease: the holder of a lock may act until its deadline, which comes from operations that a quorum committed,
 * counted from the moment they were sent. Being connected, pings and reads prove nothing: a follower cut off from its
 * leader goes on answering them (syncLimit x tickTime, 10 s by default) while the leader expires the session. With T the
 * session timeout granted, and the defaults, the lease ends 5T/8 after the newest proof, and 3T/8 in the first T/3 or so
 * after the grant of a session that was idle, until there are two proofs far enough apart. What is required of the
 * servers: the same tickTime and session limits on each, and T >= 2 ticks (ZooKeeper's default limit).
 *
 * Limits: when it has reconnected, the ZooKeeper client names all nodes that it watches in one packet, and servers hang up on
 * one above 1 MiB, again and again (ZOOKEEPER-706). So a session watches at most 900,000 bytes of paths, and what goes beyond is
 * refused with ZKL_ENOMEM: use another session. With n bytes of path, chroot included, a lock that is held or led counts n + 61,
 * one that is waited for 2n + 193, a try n + 61, an observer 2n + 136; and the watch of who gave up counts up to n + 132 until the
 * node that was before it goes. So 10,000 locks with paths of 29 bytes can be held, or 4,000 of 16 bytes waited for.
 * Some hundreds begun at once delay the heartbeats behind them: begin many one after the other.
 *
 * What the ZooKeeper client library does to the process, found with 3.8.0, and nothing here can prevent:
 * - It aborts where it cannot create one of its two threads, which is when a session opens and after each expiry.
 * - It crashes in many places where it runs out of memory: 14 of the first 40 allocations of a new handle, 8 in a create.
 *   Where the library's own memory runs out, the call says ZKL_ENOMEM; or, where it was news of the servers, a new session is
 *   opened as after an expiry.
 * - It aborts (its asserts are compiled in) where a server answers against the protocol.
 * - It seeds random() and drand48() anew whenever it connects: a program that needs a sequence of its own takes random_r() or
 *   erand48().
 * - Without a descriptor it neither aborts nor crashes: it cannot connect, and tries again. Opening a session takes two
 *   descriptors at once, three with ZKL_MANUAL (ZKL_ESYS), and three more for the client. */

#include <zklock/zklock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* level: as of syslog(3), 3 error .. 7 debug. id: stable, to match on; new ones may come. message: one line, for people. Called
 * from library threads and from within calls, with locks held: it must return soon and call nothing of zklock.
 *
 *   auth-failed      3  the servers refused the session's auth: nothing can be had any more
 *   client           3  no memory, descriptor or thread for the ZooKeeper client; tried again
 *   memory           3  out of memory while replies came; the session is opened anew
 *   not-deleted      3  a node of ours may not be deleted: it keeps others out until the session ends
 *   lost             4  a grant was lost; the message says which and why
 *   expired          4  the session is over, a new one is opened
 *   unreachable      4  no server has been reached for a session timeout, and why; said once, until one is, and tried on
 *   resolve          4  no name of the servers has an address; tried again
 *   timeout-changed  4  servers with different session limits or ticks: the lease follows the least of them
 *   duplicate        4  two nodes of one contender, which must not be: the other one is deleted
 *   not-watched      4  a holder cannot watch its own node (its access list was changed): only its heartbeat tells of its end
 *   renew            4  a path's sequence numbers are used up, its directory is made anew (lock.h)
 *   foreign          4  waiting behind a contender with names of another recipe: does it keep to the same order?
 *   lasting          4  waiting behind a persistent node that is named like a contender's: no session ends it, delete it by hand
 *   disconnected     5  the connection broke; what is held is held until its lease ends
 *   moved            5  the servers' names have other addresses: the session goes on there
 *   connected        6  with the session's id and timeout
 *   requeued         6  a waiter lost its place (expiry, node deleted by hand) and went to the tail */
typedef void zkl_log_fn(int level, const char *id, const char *message, void *user);

typedef struct zkl_session_options {
	size_t   size;
	unsigned flags; /* ZKL_MANUAL or 0 */
	/* Required: "host1:2181,host2,[::1]:2181/chroot". The port is 2181 where none is given. At most 255 hosts, and of their
	 * addresses the first 255 count. The chroot must exist: it is never created, and an attempt under a missing one ends
	 * with ZKL_EPATH. */
	const char *servers;
	/* Session timeout to ask for, 100 .. 86400000; 0: 10000. The servers' limits decide what is granted: zkl_session_stats(). */
	int64_t timeout_ms;
	int64_t op_ms; /* patience of a try and of holder(), connecting included; 0: timeout_ms / 2 */
	/* The lease. margin_ms: the lease ends this long before the session timeout counted from the newest proof; 0: 3T/8.
	 * heartbeat_ms: while something is held or next in line, T/24 to 5T/12; 0: T/6. tick_ms: the servers' tickTime; 0:
	 * unknown, T/2 is assumed. A margin too small for the heartbeat and the tick is ZKL_EINVAL, and so is one that leaves less
	 * of T than a heartbeat and T/24, since each lease would end before it was extended; the message names what is
	 * possible. Where servers grant a T that this does not fit, attempts end with ZKL_EINVAL, new ones too; what is held when
	 * they shorten T in a session's life is LOST when its lease ends by the new T, unless a heartbeat was in time. */
	int64_t margin_ms, heartbeat_ms, tick_ms;
	/* "digest:user:password", or "scheme:credential" of another scheme that a plugin of the servers knows (ip, world, auth, sasl and
	 * x509 cannot be shown: ZKL_EINVAL); of several, each a line. Nodes and
	 * directories that the library makes, missing parents too, are then for these identities only: make a parent that others
	 * share by hand. Keep it off command lines. NULL: none.
	 * Who may delete a contender is decided by the access list of its directory, and who may wait behind it by its own: a
	 * waiter reads the node before it. So all contenders of a lock share one identity, or each names the rest in `others`.
	 * The directory's list has to permit CREATE, READ and DELETE to each; where it does not, attempts end with ZKL_EACCES.
	 * Without DELETE a released node lives as long as its session does, and that is said by release(), ENDED and the log. */
	const char *auth;
	/* More identities that may take the session's locks, as in ZooKeeper's access lists: "digest:user:hash,ip:10.1.0.0/16".
	 * hash is the base64 of the SHA-1 of "user:password". They may read the nodes, and create, read and delete below the
	 * directories, that the library makes. Needs auth. NULL: nobody else. */
	const char *others;
	const char *name; /* program's name in zkl_peer.id; NULL: the program's own */
	zkl_log_fn *log;  /* NULL: silent */
	void       *log_user;
	int         log_level; /* most verbose level that is wanted */
} zkl_session_options;
#define ZKL_SESSION_OPTIONS_INIT                                                                                       \
	{                                                                                                              \
		sizeof(zkl_session_options), 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 4                   \
	}

/* No event thread: poll zkl_session_fd() for input, then call zkl_session_process(). */
#define ZKL_MANUAL 1u

typedef struct zkl_stats {
	size_t   size; /* set by the caller: sizeof(zkl_stats) */
	int      connected;
	int64_t  session_id, timeout_ms;      /* as granted; 0: not yet */
	int64_t  lease_ms;                    /* until the lease ends, should no proof come; < 0: no live proof */
	uint64_t granted, lost, released;     /* grants; of them lost, and released while held */
	uint64_t not_held;                    /* releases of what was lost or not held */
	uint64_t heartbeats, heartbeats_late; /* sent; of them while the one before was unanswered */
	uint64_t reconnects, expiries;        /* of the session; sessions that ended */
	uint64_t events_queued;               /* attempts with events to be delivered, now */
} zkl_stats;
#define ZKL_STATS_INIT                                                                                                 \
	{                                                                                                              \
		sizeof(zkl_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                               \
	}

/* Checks the options, starts connecting, returns: it needs no server and resolves no name. *ret is the caller's to close.
 * ZKL_EINVAL (the message names what and what would be right), ZKL_EPATH (the chroot), ZKL_ENOMEM, ZKL_ESYS. */
ZKL_API int zkl_session_open(const zkl_session_options *options, zkl_session **ret, zkl_error *reterr);

/* With ZKL_MANUAL: a descriptor that is readable (level-triggered) while events are queued (seldom also
 * without); then call process(). The same
 * for the session's life, close-on-exec, not for you to read or close. ZKL_EINVAL without ZKL_MANUAL. */
ZKL_API int zkl_session_fd(const zkl_session *session);

/* Delivers the queued events in the calling thread, never blocks; returns how many. ZKL_EINVAL without ZKL_MANUAL,
 * ZKL_ESTATE while another thread is in it, ZKL_EDEADLK from a callback. */
ZKL_API int zkl_session_process(zkl_session *session);

/* Ends every wait of the session's handles with ZKL_ECANCELED, now and from now on; what is held stays held and can be
 * released. Async-signal-safe. NULL is fine. */
ZKL_API void zkl_session_cancel(zkl_session *session);

/* Counters, at any time. ret->size must be set (ZKL_STATS_INIT). ZKL_EINVAL. */
ZKL_API int zkl_session_stats(const zkl_session *session, zkl_stats *ret);

/* Releases all, waits for the servers' word up to timeout_ms, and ends the session in either case. No callback runs after
 * it. Handles that are left say ZKL_ESTATE; free them before or after. ZKL_ETIMEDOUT: the servers will learn by expiry.
 * ZKL_EDEADLK from a callback of this session or in a term of
 * zkl_election_run() (nothing was done). Queued events are delivered before; with ZKL_MANUAL they are dropped. NULL is fine. */
ZKL_API int zkl_session_close(zkl_session *session, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
