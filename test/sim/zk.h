/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_ZK_H
#define ZKLOCK_SIM_ZK_H

/* zk.h: an ensemble of three servers, in virtual time.
 *
 *     client --connection--> follower --forwards, reports of sessions--> leader --commits (they may lag)--> follower
 *
 * What is modelled, after ZooKeeper 3.8: an order of requests per connection; reads answered from what the server has
 * applied; writes and multis through the leader and a quorum; sync without a quorum; sessions that live by touches, which
 * travel to the leader with its pings each tick/2, and expire in buckets of a tick; a session's present server, for
 * SESSIONMOVED; elections, after which each session has the whole timeout of its creation again; a leader or follower cut
 * off that goes on for syncLimit ticks. */

#include "tree.h"
#include "wire.h"

#include "protocol.h"

enum { ZK_SERVERS = 3, ZK_CLIENTS = 4, ZK_SESSIONS = 64, ZK_CONNS = 3000, ZK_REQUESTS = 30000 };

/* A request from its sending to its end, also when nobody waits for it any more. */
struct request {
	enum zkl__op     op;
	enum zkl__result result; /* once carried out */
	int              zk_code;
	uint32_t         id;
	uint64_t         party;
	enum zkl__kind   kind;
	struct zkl__uuid uuid;
	int16_t          node, directory, attempt, process;
	int16_t          target; /* GUARDED: the node that is written to, if `node` is there */
	size_t           failed;
	bool             mark;
	int64_t          sent_ns;
	int32_t          view; /* of the server that answered */
};

enum message_type {
	/* to a server */
	MSG_HELLO = 1, /* bits: session as the client knows it, or NOBODY; view: seen */
	MSG_PING,
	MSG_REQUEST,
	MSG_WATCH_AGAIN,
	MSG_CLOSE,
	MSG_BYE, /* the connection ends */
	/* to a client */
	MSG_WELCOME, /* bits: timeout; node: session, NOBODY: expired */
	MSG_PONG,
	MSG_REPLY, /* request, result, view */
	MSG_GONE,  /* node; bits: party; result: kind of watch */
	MSG_CHANGED,
	MSG_CLOSED,
	/* between servers */
	MSG_FORWARD, /* request; bits: connection */
	MSG_OPEN,    /* a new session for a connection */
	MSG_END,     /* end the session of a connection */
	MSG_SYNC,
	MSG_SYNCED,
	MSG_CHECK_SESSION,
	MSG_SESSION, /* result: valid */
	MSG_REPORT,  /* bits: sessions heard of */
	MSG_COMMIT   /* view */
};

enum watch_kind {
	WATCH_END,      /* a child watch on a node that has none: told of its end alone */
	WATCH_DATA,     /* by a get */
	WATCH_CHILDREN, /* of a directory */
	WATCH_BIRTH,    /* of a directory, by an exists that did not find it */
	WATCH_LIFE      /* of a directory, by an exists that found it: its data are watched, which nobody writes */
};

struct watch {
	enum watch_kind kind;
	int16_t         node; /* or directory */
	uint64_t        party;
};

struct zk_options {
	int64_t tick, sync_limit, ping_delay, election;
	int64_t latency, spread; /* between servers */
	int64_t timeout_min[ZK_SERVERS], timeout_max[ZK_SERVERS];
	int64_t reach[ZK_SERVERS]; /* extra latency of a client to this server */
};

void zk_begin(const struct zk_options *options, uint64_t seed);

/* ---- for clients ------------------------------------------------------------------------------------------------- */

struct request *zk_new_request(int32_t *ret_index);
struct request *zk_request(int32_t index);
/* A connection to a server; MSG_HELLO is to be sent on it. What arrives comes to client_hear(). */
uint32_t zk_dial(unsigned client, unsigned server, int64_t latency, int64_t spread);
void     zk_conn_send(uint32_t conn, const struct message *message);
/* The watches that MSG_WATCH_AGAIN is about. */
void zk_conn_watches(uint32_t conn, const struct watch *watches, unsigned count, int32_t seen);
/* The client has closed its socket: what is under way still arrives. */
void zk_conn_hang_up(uint32_t conn);
/* The watch that a request sets if it ends so; false: none. */
bool zk_watch_of(const struct request *request, enum zkl__result result, struct watch *ret);
/* Implemented by client.c. */
void client_hear(uint32_t client, uint32_t conn, const struct message *message);

int64_t zk_session_id(int16_t session);
int16_t zk_session_of(int64_t id);
bool    zk_session_over(int16_t session); /* its end is committed */

/* ---- faults ------------------------------------------------------------------------------------------------------ */

int  zk_leader(void); /* that a quorum follows; -1: none */
bool zk_server_up(unsigned server);
void zk_crash(unsigned server);
void zk_restart(unsigned server);
void zk_cut(unsigned one, unsigned other);
void zk_heal(unsigned one, unsigned other);
/* Its commits arrive so much later; 0: no more. */
void zk_lag(unsigned server, int64_t extra);
int  zk_conn_server(uint32_t conn);
/* Breaks a connection: what is under way to the server, and to the client, is lost or not. */
void zk_conn_break(uint32_t conn, bool lose_requests, bool lose_replies);
void zk_conn_cut(uint32_t conn, bool up, bool down);
void zk_conn_heal(uint32_t conn);
/* A client reaches no server any more, or all again. */
void zk_client_cut(unsigned client, bool cut);
/* Its connections are refused from now on, or taken again. */
void zk_client_refuse(unsigned client, bool refuse);
void zk_conn_slow(uint32_t conn, int64_t extra);

/* An operator, through whatever leader there is. */
enum zk_deed { DEED_DELETE = 1, DEED_WRITE, DEED_UNMAKE, DEED_FOREIGN, DEED_JUNK, DEED_CHILD };
void zk_operator(enum zk_deed deed, int16_t node, int16_t directory);
/* So many have been carried out, or refused; ZooKeeper's code for the newest one. */
unsigned zk_deeds(int *ret_zk_code);

/* Is there nothing on its way through the ensemble, and does all of it work? */
bool        zk_healthy(void);
const char *zk_state(void);
unsigned    zk_elections(void);

#endif
