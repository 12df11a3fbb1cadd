/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_ZKLOCK_H
#define ZKLOCK_ZKLOCK_H

/* zklock.h: what every other header of zklock shares.
 *
 *     session  ->  lock | election  ->  grant  ->  token
 *
 * A session (session.h) is one connection to a ZooKeeper ensemble with one heartbeat and one lease. A lock (lock.h) or an
 * election (election.h) is a contender on that session. A grant says that this contender holds or leads; its token is what the
 * protected resource compares.
 *
 * For every call of the library, unless its own comment says otherwise:
 * - The result is an int: >= 0 good, < 0 one of ZKL_E*. `reterr` may be NULL and is written only on failure; `*ret` is
 *   written only on success. No result is kept for a thread, nothing is printed, the library never exits or aborts (what
 *   the ZooKeeper client does where it gets no memory or thread: session.h).
 * - It may be called from any thread. Strings and structs passed in are copied. What a callback is handed dies when the
 *   callback returns.
 * - Times are milliseconds. A timeout covers everything: resolving names, connecting, queueing.
 * - A library thread runs the protocol: heartbeats, grants, deletes and deadlines never wait for your code, only events
 *   do. Events come one at a time per session, with no lock held: on a second library thread or, with ZKL_MANUAL, in
 *   zkl_session_process(). Library threads block all signals. A callback must not throw; a blocking call in one returns
 *   ZKL_EDEADLK.
 * - In the child of a fork() every call returns ZKL_EFORKED, and free and close only give back memory. The ZooKeeper
 *   client does not mark its socket and its pipe close-on-exec: close the descriptors from 3 up before you exec.
 * - Structs that you fill begin with their size (use the *_INIT macro); structs that the library fills end in spare room.
 * - Clock: the lease runs on CLOCK_BOOTTIME, so a suspended machine finds its lease over, and steps of the wall clock do
 *   not matter.
 *
 * Since 0.1, all of it. */

#include <stddef.h>
#include <stdint.h>

#define ZKL_VERSION_MAJOR 0
#define ZKL_VERSION_MINOR 1
#define ZKL_VERSION_PATCH 0
/* One number that grows: 0x00MMmmpp. */
#define ZKL_VERSION ((unsigned)(ZKL_VERSION_MAJOR << 16 | ZKL_VERSION_MINOR << 8 | ZKL_VERSION_PATCH))

#if defined(__GNUC__)
#define ZKL_API __attribute__((visibility("default")))
#else
#define ZKL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Every error: name, number, text. The numbers never change; new ones are added at the end. ESTALE is for the resource that
 * refuses an older token. */
#define ZKL_ERROR_MAP(X)                                                                                               \
	X(EINVAL, -1, "invalid argument")                                                                              \
	X(ENOMEM, -2, "out of memory")                                                                                 \
	X(ETIMEDOUT, -3, "still queued at the timeout")                                                                \
	X(EBUSY, -4, "held by another")                                                                                \
	X(ESTATE, -5, "not possible in this state")                                                                    \
	X(EDEADLK, -6, "would block in a callback")                                                                    \
	X(ECANCELED, -7, "cancelled or released")                                                                      \
	X(ENOTHELD, -8, "not held")                                                                                    \
	X(ELOST, -9, "lease or session lost")                                                                          \
	X(ESTALE, -10, "older fencing token")                                                                          \
	X(EACCES, -11, "not permitted")                                                                                \
	X(ENOTCONN, -12, "no ensemble reached")                                                                        \
	X(EPATH, -13, "invalid or foreign lock path")                                                                  \
	X(EEXHAUSTED, -14, "sequence of the path used up")                                                             \
	X(EFORKED, -15, "session of a parent process")                                                                 \
	X(ESYS, -16, "system call failed")                                                                             \
	X(EZK, -17, "unexpected ZooKeeper error")

typedef enum zkl_error_code {
#define ZKL__ENUMERATOR(name, number, text) ZKL_##name = (number),
	ZKL_ERROR_MAP(ZKL__ENUMERATOR)
#undef ZKL__ENUMERATOR
		ZKL_OK = 0
} zkl_error_code;

/* What went wrong: the code that the call returned, the ZooKeeper client's code (0: none), errno (0: none), and one line
 * of text without a trailing stop that says what was being done and what to do. It never grows. */
typedef struct zkl_error {
	int  code, zk_code, sys_errno;
	char message[244];
} zkl_error;

/* The text of a code, static, never NULL: zkl_strerror(ZKL_EBUSY) is "held by another"; "unknown error" for other numbers. */
ZKL_API const char *zkl_strerror(int code);
/* The name of a code, static, never NULL: "ZKL_EBUSY"; "ZKL_?" for other numbers. */
ZKL_API const char *zkl_error_name(int code);
/* ZKL_VERSION of the library that was linked, which may differ from the header's. */
ZKL_API unsigned zkl_version(void);

/* No limit in time. Must be written out to be had: no struct and no default contains it. */
#define ZKL_FOREVER ((int64_t)-1)
/* Longest lock path in bytes, the chroot included. */
#define ZKL_PATH_MAX 190
/* Most bytes of data that a contender can show to others. */
#define ZKL_DATA_MAX 1000

typedef struct zkl_session zkl_session; /* session.h */
typedef struct zkl_lock    zkl_lock;    /* lock.h */

/* One acquisition. Plain data: it may be copied, kept and sent to others.
 * epoch:  the sequence number of the contender's znode: what people and Java peers see. It starts again at 0 when the lock
 *         directory is made anew.
 * token:  THE fencing token: the sequence number counted on from the lock directory's birth (the directory's czxid plus
 *         the epoch), so that it also grows when the directory is deleted, reaped or made anew. 1 .. 2^63-1, fits an SQL
 *         bigint. Compare tokens of one lock path only. The rule is that of Chubby's sequencer and of HBase's and
 *         Kafka's epochs. Restoring an ensemble from a backup lowers zxids: the resources' marks must begin
 *         anew then, once no holder from before lives.
 * zxid:   the czxid of the znode: orders grants of different locks.
 * node:   the znode, absolute, chroot included. */
typedef struct zkl_grant {
	uint64_t token, epoch;
	int64_t  zxid, session_id;
	char     node[256];
	uint64_t spare[4];
} zkl_grant;

/* Who holds or leads.
 * since_ms: when it queued, Unix time by the server's clock.
 * held_ms:  since when it holds, by the same clock; 0: not known (a leader; a contender of another client).
 * waiting:  contenders behind it, the asking one included.
 * id:       printable "host:pid program"; a candidate's or a foreign client's data, all but printable ASCII escaped as \xNN;
 *           where there is none, the node's name.
 * data_len: true length of what the holder shows, even where `data` is cut. */
typedef struct zkl_peer {
	uint64_t token, epoch;
	int64_t  since_ms;
	uint32_t waiting, data_len;
	char     id[128];
	char     data[ZKL_DATA_MAX];
	int64_t  held_ms;
	uint64_t spare[3];
} zkl_peer;

/* Each attempt (a start, a campaign or an acquire that returned >= 0, or an acquire that had to wait) sends
 *
 *     WAITING*  [ GRANTED  (SUSPENDED RESUMED)*  [SUSPENDED]  [LOST] ]  ENDED
 *
 * WAITING    queued; at most `ahead` contenders are before us. Sent again when that changes for us, also after an expiry.
 * GRANTED    we hold. The lease is live at delivery; if it no longer is, ENDED(ELOST) comes instead. Only where an acquire()
 *            has returned the grant already it comes in any case, with lease_ms 0 if the lease is over.
 * SUSPENDED  proofs of the session stopped coming: begin nothing new. RESUMED: they are back.
 * LOST       stop now, you have stop_ms. The node stays (while the session lives) until YOU release or resign: that call,
 *            not the callback's return, says that your work is over.
 * ENDED      once, last, unless the handle is freed or the session closed before. code 0: released, node gone. Else
 *            why: ZKL_ETIMEDOUT, EBUSY, ECANCELED, ENOTCONN, ELOST, EACCES, EPATH, EEXHAUSTED, ...
 *
 * LEADER     apart from all attempts, with ZKL_OBSERVE: who leads now. Changes that follow each other closely may come as
 *            one. code < 0: it cannot be seen (election.h). */
typedef enum zkl_event_type {
	ZKL_EV_WAITING = 1,
	ZKL_EV_GRANTED,
	ZKL_EV_SUSPENDED,
	ZKL_EV_RESUMED,
	ZKL_EV_LOST,
	ZKL_EV_ENDED,
	ZKL_EV_LEADER
} zkl_event_type;

typedef struct zkl_event {
	zkl_event_type type;
	int            code;      /* LOST, ENDED, LEADER; else 0 */
	int64_t        lease_ms;  /* GRANTED, SUSPENDED, RESUMED: until LOST, should no further proof come */
	uint32_t ahead, requeued; /* WAITING: at most so many before us; places lost so far (expiry, deleted node) */
	/* 1, 2, ... of this handle; LEADER: 0. Where start() follows release() at once, the ENDED of the attempt before may come between
	 * the next one's events. */
	uint32_t         attempt;
	const zkl_grant *grant;  /* GRANTED to LOST, and ENDED after them; else NULL */
	const zkl_error *error;  /* where code < 0; else NULL */
	const zkl_peer  *leader; /* LEADER; NULL: there is none */
	uint64_t         spare[4];
} zkl_event;

typedef void zkl_event_fn(const zkl_event *ev, void *user);

/* Options of a lock or an election. NULL in place of them stands for ZKL_OPTIONS_INIT. */
typedef struct zkl_options {
	size_t        size;
	unsigned      flags;    /* ZKL_NO_REQUEUE, ZKL_OBSERVE */
	zkl_event_fn *on_event; /* NULL: poll with check() */
	void         *user;     /* handed to on_event */
	/* LOST comes, and check() says no, so much before the lease ends. At most a quarter of the session timeout, and no more
	 * than margin_ms and heartbeat_ms (session.h) leave of it: with the defaults a quarter. More is ZKL_EINVAL from new(), or
	 * by ENDED where the server shortened the session timeout; what is held then is LOST when its lease ends. */
	int64_t     stop_ms;
	const void *data;     /* shown to others beside the id; NULL: none */
	size_t      data_len; /* at most ZKL_DATA_MAX */
} zkl_options;
#define ZKL_OPTIONS_INIT                                                                                               \
	{                                                                                                              \
		sizeof(zkl_options), 0, NULL, NULL, 0, NULL, 0                                                         \
	}

/* The place in the queue is lost while waiting (session expired, own node deleted by hand): ENDED(ELOST) in place of going
 * back to the tail. */
#define ZKL_NO_REQUEUE 1u
/* An election's: LEADER events from new() on, the present leader first. */
#define ZKL_OBSERVE 2u

#ifdef __cplusplus
}
#endif
#endif
