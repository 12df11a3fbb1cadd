/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_HUB_H
#define ZKLOCK_HUB_H

/* hub.h: what all contenders of one session share: the link, the lease, the heartbeat, the timers.
 *
 * Below it is a world (a session with its threads, or a simulation), which it reaches through struct zkl__port and nothing
 * else. Above it are parties: attempts (driver.h) and queries (lock.c). The world calls the hub with everything that happens; all
 * calls are made under the world's one mutex. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zklock/zklock.h>

#include "lease.h"
#include "node_data.h"
#include "protocol.h"
#include "watched.h"

#define ZKL__NEVER INT64_MAX

struct zkl__source;

/* The world. */
struct zkl__port {
	int64_t (*now_ns)(void *world);        /* CLOCK_BOOTTIME */
	int64_t (*wall_ms)(void *world);       /* Unix time, for people only */
	struct zkl__uuid (*uuid)(void *world); /* random */
	/* Sends a request; its reply comes through zkl__hub_reply(), always later, and exactly once while the session lives. */
	void (*send)(void *world, uint64_t party, const struct zkl__request *request);
	/* Has a server been asked to begin or to go on with the session, since the link is down? NULL: not known. */
	bool (*asked)(void *world);
	void (*wake)(void *world);  /* zkl__hub_next_ns() may be earlier than it was; async-signal-safe */
	void (*rearm)(void *world); /* the same, but only under the mutex */
	/* The absolute name of a child of a directory, chroot included. */
	void (*absolute)(void *world, const char *directory, const char *name, char *ret, size_t size);
	void (*ready)(void *world, struct zkl__source *source); /* driver.h: it has an event, or went on */
	void (*log)(void *world, int level, const char *id, const char *text, const char *subject);
};

/* What happens to all parties. */
enum zkl__happening {
	ZKL__HEAR_LINK_UP,
	ZKL__HEAR_LINK_DOWN,
	ZKL__HEAR_EXPIRED,   /* the session is over */
	ZKL__HEAR_PROVEN,    /* a proof came */
	ZKL__HEAR_SUSPENDED, /* proofs are overdue */
	ZKL__HEAR_RESUMED,
	ZKL__HEAR_REFUSED, /* hub->refused says why waiting is over */
	ZKL__HEAR_CLOSED   /* let go of everything */
};

struct zkl__party;

/* All but reply may be NULL. */
struct zkl__party_type {
	void (*reply)(struct zkl__party *party, const struct zkl__reply *reply);
	/* May be of a watch that was another's, see zkl__watcher(). */
	void (*watch)(struct zkl__party *party, bool gone, const char *directory, const char *name);
	void (*happened)(struct zkl__party *party, enum zkl__happening what);
	/* Does what is due; returns when it wants to be called again. */
	int64_t (*due)(struct zkl__party *party, int64_t now_ns);
	/* Ends its grant, if its time is over or somebody was told so. */
	void (*expire)(struct zkl__party *party, int64_t now_ns, int64_t deadline_ns);
	/* Its node, for a heartbeat; false: it has none to stay. */
	bool (*node)(const struct zkl__party *party, const char **directory, const char **name);
};

/* Whoever sends requests and hears what happens. Known by a number that is never used again, so that a late reply finds
 * nobody. What is called for one party may end this party, but no other. */
struct zkl__party {
	const struct zkl__party_type *type;
	struct zkl__party            *previous, *next;
	uint64_t                      id;
	struct zkl__watch             watch;    /* its newest one on a node that is not its own, until that fires */
	uint32_t                      reserved; /* bytes of paths that it may watch; to be set before it joins */
};

struct zkl__slot {
	struct zkl__party *party; /* NULL: free */
	uint32_t           generation, next_free;
};

struct zkl__counters {
	uint64_t granted, lost, released, not_held, heartbeats, heartbeats_late, reconnects, expiries;
};

struct zkl__hub {
	const struct zkl__port   *port;
	void                     *world;
	struct zkl__lease_options lease_options;
	struct zkl__identity      identity;
	int64_t                   op_ns, timeout_asked_ns; /* patience of a try; the session timeout asked for */
	size_t                    chroot_length;

	struct zkl__lease lease;
	_Atomic int64_t   deadline_ns; /* the lease's, for check(); 0: none */
	atomic_bool       latched;     /* some check() has said no */
	bool              link, suspended;
	int               refused; /* a ZKL_E* that ends every attempt: cancelled, credentials refused; 0: none */
	bool              closed;
	int64_t           session_id, beat_ns; /* beat_ns: when the newest heartbeat was sent */
	int64_t           unasked_ns; /* until when, at least, no server had been asked for the session; 0: not known */

	struct zkl__party   *first, *last; /* oldest first */
	struct zkl__watched  watched;
	struct zkl__slot    *slots;
	uint32_t             slot_count, free_slot;
	unsigned             wanting; /* parties that want the lease */
	int64_t              stop_max_ns, next_ns;
	struct zkl__counters counters;
};

void zkl__hub_init(struct zkl__hub *hub, const struct zkl__port *port, void *world);
void zkl__hub_clear(struct zkl__hub *hub);

/* What happens in the world. connecting: a client was made, and looks for a server; after link_down that is known. */
void zkl__hub_connecting(struct zkl__hub *hub);
void zkl__hub_link_up(struct zkl__hub *hub, int64_t session_id, int64_t timeout_ns);
void zkl__hub_link_down(struct zkl__hub *hub);
void zkl__hub_expired(struct zkl__hub *hub);
/* Ends every wait with this code, now and from now on. */
void zkl__hub_refuse(struct zkl__hub *hub, int code);
/* Makes every party let go of what it has, for good. They are gone when hub->first is NULL. */
void zkl__hub_close(struct zkl__hub *hub);
void zkl__hub_reply(struct zkl__hub *hub, uint64_t party, const struct zkl__reply *reply);
/* watcher: zkl__watcher() of the party that asked. */
void zkl__hub_watch(struct zkl__hub *hub, uint32_t watcher, bool gone, const char *directory, const char *name);
/* Does what is due. */
void    zkl__hub_timer(struct zkl__hub *hub);
int64_t zkl__hub_next_ns(const struct zkl__hub *hub);

/* For parties. */
/* Bytes that a watch of a child of this directory takes at most; own: of a node of ours. */
uint32_t zkl__hub_watch_size(const struct zkl__hub *hub, const char *directory, bool own);
/* ZKL_ENOMEM: so many bytes more of watched paths would be too many; `path` is for the message. */
int  zkl__hub_check_room(const struct zkl__hub *hub, uint32_t bytes, const char *path, zkl_error *reterr);
int  zkl__hub_join(struct zkl__hub *hub, struct zkl__party *party); /* ZKL_ENOMEM */
void zkl__hub_part(struct zkl__hub *hub, struct zkl__party *party);
/* It will not watch more than this any more. */
void    zkl__hub_reserve(struct zkl__hub *hub, struct zkl__party *party, uint32_t bytes);
void    zkl__hub_send(struct zkl__hub *hub, struct zkl__party *party, const struct zkl__request *request);
void    zkl__hub_beat(struct zkl__hub *hub, struct zkl__party *party);
void    zkl__hub_want(struct zkl__hub *hub, bool before, bool now);
void    zkl__hub_alarm(struct zkl__hub *hub, int64_t at_ns);
int64_t zkl__hub_now(const struct zkl__hub *hub);
/* Time left of the lease for who stops `stop_ns` before its end; <= 0: none. */
int64_t zkl__hub_left_ns(const struct zkl__hub *hub, int64_t stop_ns);
/* Would a grant of now last, as long as the servers answer within T/24? */
bool zkl__hub_lasts(const struct zkl__hub *hub, int64_t stop_ns);
/* The lease as last negotiated, or as asked for. */
int64_t zkl__hub_timeout_ns(const struct zkl__hub *hub);

#endif
