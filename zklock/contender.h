/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CONTENDER_H
#define ZKLOCK_CONTENDER_H

/* contender.h: the protocol of one contender in one attempt, from queueing to the last trace. Pure: step() takes an input
 * and gives actions; no I/O, no clock, no allocation. The state diagram opens contender.c. */

#include "protocol.h"

enum zkl__state {
	ZKL__IDLE,     /* nothing of ours anywhere */
	ZKL__TRY,      /* is the lock free? sync and list */
	ZKL__MAKE,     /* the lock directory is missing */
	ZKL__RENEWAL,  /* its sequence is used up: waiting until it is empty, to delete it and make it anew */
	ZKL__JOIN,     /* create and list; our node, or what became of it, is not known yet */
	ZKL__ADOPT,    /* a create was lost: barrier, list, then look at the node that the list shows */
	ZKL__WAIT,     /* watching our own node and the predecessor */
	ZKL__RELIST,   /* the predecessor went, or is not known after a reconnect */
	ZKL__ENTITLED, /* it is our turn; a live lease is missing */
	ZKL__HELD,
	ZKL__LOST,  /* held once; the node is kept until the owner lets go */
	ZKL__LEAVE, /* the owner is through; the node has to go */
	ZKL__STATES
};

enum zkl__input_type {
	ZKL__IN_START = 1,
	ZKL__IN_LEAVE,      /* the owner lets go of whatever there is */
	ZKL__IN_LINK_UP,    /* connected; session_id */
	ZKL__IN_LINK_DOWN,  /* the connection broke, the session may live */
	ZKL__IN_EXPIRED,    /* the session is over, and all that was asked of it */
	ZKL__IN_REPLY,      /* reply */
	ZKL__IN_GONE,       /* name: a watched node was deleted */
	ZKL__IN_CHANGED,    /* name: a watched node's data was changed */
	ZKL__IN_LEASE_LIVE, /* a proof came */
	ZKL__IN_LEASE_OVER, /* our deadline passed */
	ZKL__IN_SETTLED     /* the moment asked for by ZKL__TELL_SETTLE has come */
};

struct zkl__input {
	enum zkl__input_type     type;
	bool                     lease_live; /* always: would a grant be covered by a lease now? */
	int64_t                  session_id;
	struct zkl__uuid         uuid; /* START: random; later ones of the attempt count on from it */
	const char              *name;
	const struct zkl__reply *reply;
};

enum zkl__action_type {
	ZKL__SEND = 1,
	ZKL__ASK_PROOF,     /* a heartbeat now, please */
	ZKL__TELL_WAITING,  /* `ahead` contenders are before us */
	ZKL__TELL_REQUEUED, /* our place was lost, we go to the tail */
	ZKL__TELL_GRANTED,
	ZKL__TELL_SETTLE, /* come back with SETTLED a millisecond from now */
	ZKL__TELL_LOST,
	ZKL__TELL_FAILED, /* the attempt is over; error says why; the node, if any, is being deleted */
	ZKL__TELL_DONE,   /* nothing of ours is left; error says whether that is sure */
	ZKL__WARN         /* something for the log; name */
};

struct zkl__action {
	enum zkl__action_type type;
	struct zkl__request   request; /* SEND: op, id, name, uuid are set */
	uint32_t              ahead;
	int                   error; /* a ZKL_E* */
	int                   zk_code;
	const char           *text; /* FAILED, LOST, WARN: static, what happened */
	const char           *id;   /* WARN: of the log */
};

#define ZKL__ACTIONS_MAX 8
struct zkl__actions {
	unsigned           count;
	struct zkl__action list[ZKL__ACTIONS_MAX];
};

#define ZKL__CONTENDER_TRY        1u /* do not queue behind another */
#define ZKL__CONTENDER_NO_REQUEUE 2u
#define ZKL__CONTENDER_NO_MARK    4u /* elections: Curator's LeaderLatch loses its only watch to a mark */

/* Why what is held is lost where the servers have said nothing. */
#define ZKL__LOST_BY_CLOCK "servers have not confirmed the session in time"

struct zkl__contender {
	enum zkl__state state;
	unsigned        flags;
	/* What is known. */
	int64_t          session_id;
	struct zkl__uuid uuid;
	int64_t          sequence; /* of our node; -1: none that we know of */
	int64_t          czxid, directory_czxid;
	char            *predecessor; /* ZKL__NAME_MAX bytes; from the grant on it is not used any more */
	uint32_t         requeued;
	unsigned         late;         /* lists on which nobody was left but at the end of the sequence */
	unsigned         exists_again; /* creates refused because the node was there (ZOOKEEPER-1046) */
	/* What is under way: the id of the newest request of each kind, 0: none. An older one's reply means nothing. */
	uint32_t last_id, create, list, find, own_watch, predecessor_watch, remove, renew;
	bool     create_unknown; /* a create was lost and not looked for yet */
	bool     link;
	bool     next;         /* the predecessor is the lowest: its end is our turn */
	bool     mark_watched; /* the watch with which its mark was seen has not fired */
	bool     gone;         /* the predecessor went */
	bool     lasting;      /* no session ends the predecessor, and that was said */
	bool     watched;      /* the newest watch on our own node is in force */
	bool     waited;       /* somebody was before us in this attempt */
	bool     marked;
	char     name[ZKL__OWN_NAME_MAX];
};

/* `predecessor` is the caller's, who may set the contender's to NULL once it was told GRANTED. */
void zkl__contender_init(struct zkl__contender *c, unsigned flags, char predecessor[ZKL__NAME_MAX]);
void zkl__contender_step(struct zkl__contender *c, const struct zkl__input *in, struct zkl__actions *out);
/* Must the session be proven for it? It holds, or is next in line. */
bool zkl__contender_wants_lease(const struct zkl__contender *c);
/* The fencing token; 0: none. */
uint64_t    zkl__contender_token(const struct zkl__contender *c);
const char *zkl__state_name(enum zkl__state state);
const char *zkl__op_name(enum zkl__op op);

#endif
