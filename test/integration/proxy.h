/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_PROXY_H
#define ZKLOCK_TEST_PROXY_H

/* proxy.h: a bad network in front of one ZooKeeper server.
 *
 *     proxy_start -> proxy_address, handed to the client -> faults and counters -> proxy_stop
 *
 * It relays whole frames of ZooKeeper's protocol, so that a fault can be aimed ("lose the reply of the second
 * create") and a test can say what was never sent. One thread per proxy; calls may come from any other and are in
 * force when they return. Addresses are on 127.0.0.1, ports the kernel's choice, where nothing else is asked for. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct proxy proxy;

/* Request types of ZooKeeper's protocol (ZooDefs.OpCode). */
enum {
	OP_CREATE = 1,
	OP_DELETE = 2,
	OP_EXISTS = 3,
	OP_GET_DATA = 4,
	OP_SET_DATA = 5,
	OP_GET_CHILDREN = 8,
	OP_SYNC = 9,
	OP_PING = 11,
	OP_GET_CHILDREN2 = 12,
	OP_MULTI = 14,
	OP_CREATE2 = 15,
	OP_AUTH = 100,
	OP_SET_WATCHES = 101,
	OP_CLOSE_SESSION = -11,
	OP_ANY = -100,       /* any request but connecting, pings and the end of the session */
	OP_BUT_PROOFS = -101 /* the end of the session, too, but no multi, which is a proof */
};

/* How those who connect are met. */
typedef enum proxy_door {
	PROXY_OPEN,
	PROXY_REFUSING,   /* ECONNREFUSED; the port stays ours */
	PROXY_UNANSWERING /* no answer to a SYN */
} proxy_door;

/* Directions of proxy_hold(). */
enum { PROXY_TO_SERVER = 1, PROXY_TO_CLIENT = 2, PROXY_BOTH = 3 };

typedef enum proxy_act {
	PROXY_CUT_BEFORE = 1,  /* reset the connection in place of forwarding the request */
	PROXY_LOSE_REPLY,      /* forward the request, drop its reply, reset the connection */
	PROXY_CUT_AFTER_REPLY, /* forward both, then end the connection: nothing behind the reply reaches the client */
	PROXY_DELAY_REPLY,     /* the reply, and what is behind it, waits for delay_ms */
	PROXY_HOLD_REQUEST,    /* as proxy_hold(PROXY_TO_SERVER), from this request on */
	PROXY_HOLD_REPLY,      /* as proxy_hold(PROXY_TO_CLIENT), from this request's reply on */
	PROXY_HOLD_ALL,        /* as proxy_hold(PROXY_BOTH), from this request on */
	/* The connection stays, and what is behind goes on. The client finds the next reply out of order and hangs up; where none
	 * comes it does so after two thirds of its session timeout. */
	PROXY_SWALLOW_REQUEST,
	PROXY_SWALLOW_REPLY,
	PROXY_DOUBLE_REQUEST, /* the server gets it twice, the client only the first reply */
	/* The client gets it twice, the second time in front of the reply to another request, once it has sent one. It takes it for
	 * that one's, and hangs up. (A reply while it waits for none would abort it: assert(cptr) in zookeeper_process.) Struck is
	 * when it has come twice. */
	PROXY_DOUBLE_REPLY
} proxy_act;

/* One fault, once: at the nth request (1: the next) of type op whose bytes contain `path` (NULL: any). `door` is
 * how new connections are met from then on. */
typedef struct proxy_rule {
	int         op, nth;
	const char *path; /* must outlive the rule */
	proxy_act   act;
	int64_t     delay_ms;
	proxy_door  door;
} proxy_rule;

/* Relays to "host:port". NULL: no such host, or out of resources. */
proxy *proxy_start(const char *upstream);
/* At an address of this machine ("127.0.0.2", "::1") and a port of it, 0: any. NULL also if these cannot be had. */
proxy      *proxy_start_at(const char *upstream, const char *address, int port);
void        proxy_stop(proxy *p);
const char *proxy_address(const proxy *p); /* as in a connect string */
int         proxy_port(const proxy *p);

/* Resets every connection. */
void proxy_cut(proxy *p);
/* Only those that were there at that time of CLOCK_BOOTTIME. */
void proxy_cut_older(proxy *p, int64_t than_ns);
void proxy_set_door(proxy *p, proxy_door door);
/* Silence without a reset: bytes in these directions wait (connections too, where they are both); 0 lets all go on. */
void proxy_hold(proxy *p, unsigned directions);
/* Packets to and from its clients vanish, where these are in this process; those of new connections, too. Unlike what is
 * held, what is sent meanwhile comes when the kernel sends it again, ever more seldom. */
void proxy_drop(proxy *p, bool dropping);
/* Some kernels want CAP_NET_ADMIN for it. */
bool proxy_can_drop(void);

/* Arms the rule in place of an earlier one; NULL disarms. */
void proxy_arm(proxy *p, const proxy_rule *rule);
/* 1: the armed rule has struck, or did so within timeout_ms; else 0. */
int proxy_wait_struck(proxy *p, int64_t timeout_ms);

/* Requests of a type that clients sent since the start or proxy_reset_counts(). OP_ANY...: all that it stands for. */
int  proxy_count(proxy *p, int op);
void proxy_reset_counts(proxy *p);
/* Requests that were forwarded and have no reply yet. */
int proxy_unanswered(proxy *p);
/* Bytes of the largest request of this type that a client sent since then, as the server counts them. */
int proxy_largest(proxy *p, int op);
/* When (CLOCK_BOOTTIME) the newest request of this type that got its reply had come from the client; 0: none. */
int64_t proxy_last_acked_ns(proxy *p, int op);

/* Clients that are connected. */
size_t proxy_clients(proxy *p);

/* The session that was granted last through this proxy: 1 if there was one. */
int proxy_session(proxy *p, int64_t *id, char password[16]);

#endif
