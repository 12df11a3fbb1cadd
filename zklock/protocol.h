/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PROTOCOL_H
#define ZKLOCK_PROTOCOL_H

/* protocol.h: what a contender asks of ZooKeeper, and what comes back: the words that the pure core, the hub, the session
 * and every stand-in for a session share. No ZooKeeper type and no ZooKeeper code in here but for messages. */

#include "queue.h"

/* Requests. All of one session are carried out in the order in which they were sent, until the connection breaks. */
enum zkl__op {
	ZKL__CREATE = 1, /* the contender's node, ephemeral and sequential */
	ZKL__LIST,       /* the children, with the directory's birth and counters */
	ZKL__MAKE_PATH,  /* the lock directory and its parents, persistent; never the chroot */
	ZKL__SYNC,       /* the server catches up with its leader; no barrier (ZOOKEEPER-1675) */
	ZKL__BARRIER,    /* nothing, but through the quorum: whatever was sent before is decided */
	ZKL__FIND,       /* a node's birth and owner */
	ZKL__WATCH,      /* tell when the node goes: list-and-watch, which a change of its data does not use up */
	ZKL__WATCH_MARK, /* tell when the node goes or its data changes, and is it marked? */
	ZKL__MARK,       /* write into our node that it is the lowest */
	ZKL__PROVE,      /* nothing, but through the quorum, if the node is there: a heartbeat */
	ZKL__DELETE,     /* the node */
	ZKL__RENEW,      /* delete the directory, if it is empty */
	ZKL__READ,       /* a node's data and birth, for people */
	ZKL__READ_WATCH, /* the same, and tell when it goes or its data changes */
	ZKL__LIST_WATCH, /* the children, and tell when there are others: only where there are none */
	ZKL__FIND_WATCH, /* is there such a node? tell when there is */
	ZKL__GUARDED     /* writes, if the node is there, in one transaction */
};

/* How a request ended. */
enum zkl__result {
	ZKL__DONE,
	ZKL__NO_NODE,
	ZKL__EXISTS,
	ZKL__NOT_EMPTY,
	ZKL__DENIED,
	ZKL__BARREN,    /* its parent is ephemeral, and has no children */
	ZKL__UNCLAIMED, /* no access list can name the session's credentials */
	ZKL__UNKNOWN,   /* the connection broke: it may have been carried out */
	ZKL__REFUSED    /* anything else; zk_code says what */
};

/* The name under which a party's watches come back. Who comes after it has it again, for the client keeps one watch for
 * each path and watcher until it fires: who queues behind the same node again and again leaves one there, not thousands. */
static inline uint32_t zkl__watcher(uint64_t party)
{
	return (uint32_t)party;
}

struct zkl__request {
	enum zkl__op     op;
	uint32_t         id;
	const char      *directory;
	const char      *name; /* child of directory; NULL: the directory itself */
	enum zkl__kind   kind; /* CREATE, LIST, LIST_WATCH, MAKE_PATH: of the directory */
	struct zkl__uuid uuid; /* CREATE, LIST: who asks */
	const char      *data; /* CREATE, MARK */
	size_t           data_len;
	/* GUARDED */
	const struct zkl_write *writes;
	size_t                  write_count;
};

struct zkl__reply {
	enum zkl__op     op;
	enum zkl__result result;
	uint32_t         id;
	int              zk_code;
	int64_t          sent_ns,
		replied_ns; /* by the client's clock, before it was sent (0: it never was) and when it was answered */
	/* CREATE, FIND, READ, READ_WATCH, WATCH, WATCH_MARK, and of the directory LIST, LIST_WATCH. owner 0: no session ends it. */
	int64_t czxid, owner, born_ms, changed_ms;
	char    name[ZKL__NAME_MAX]; /* CREATE: the node's */
	/* LIST, LIST_WATCH */
	struct zkl__queue queue;
	uint32_t          created; /* children ever created, which is the next sequence number */
	/* WATCH_MARK, READ, READ_WATCH */
	bool marked;
	/* GUARDED: which write is not possible, from 1; 0: the node is not there */
	size_t failed;
	/* READ, READ_WATCH; owned by whoever hands the reply out */
	const char *data;
	size_t      data_len;
};

#endif
