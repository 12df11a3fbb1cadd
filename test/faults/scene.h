/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_SCENE_H
#define ZKLOCK_TEST_SCENE_H

/* scene.h: one contender behind proxies, whose requests are tampered with, and others whose link is good.
 *
 *     scene_open -> an operation -> scene_prove -> scene_close
 *
 * All of them watch each other: whoever is granted asks the rest whether they still hold. */

#include "harness.h"

#define ENOUGH_MS 30000

typedef struct scene scene;

typedef struct party {
	recorder      events; /* first */
	scene        *scene;
	contender     handle;
	atomic_ullong token;    /* of the newest grant; 0: none */
	int           not_held; /* releases that said so */
} party;

enum { OURS, AHEAD, AHEAD_TOO, WITNESS, PARTIES };

struct scene {
	bool         election;
	lock_path    path;
	net          way; /* ours, the first proxy is the one that is tampered with */
	zkl_session *session, *others;
	party        parties[PARTIES];
	atomic_int   overlaps;   /* grants while another one was in force */
	uint64_t     heartbeats; /* how many there must have been to say that it goes on */
	bool         usable;     /* the handle can be used again afterwards */
	pthread_t    closer;
	bool         closing;
	atomic_bool  closed;
	int          close_rc;
};

int64_t session_ms(void);
/* `ways`: to how many servers. The first one is connected to. */
void scene_open(scene *s, bool election, size_t ways);
/* Granted, and not released since; the grant may be lost. */
bool scene_holds(scene *s);
/* The promises: one holder at a time, who is told what he has to know; nothing left once it is let go of; a handle as good
 * as new. */
void scene_prove(scene *s);
void scene_close(scene *s);

void party_join(scene *s, int who, unsigned flags); /* makes its handle */
void party_start(scene *s, int who, int64_t timeout_ms);
/* A grant, a place, or a lost grant's node. */
void party_let_go(scene *s, int who);
int  party_count(scene *s, int who, zkl_event_type type);
/* Starts and waits for the grant, or for a place in the queue, and until nothing more is asked for it. */
void party_hold(scene *s, int who);
void party_queue(scene *s, int who);
void party_await(scene *s, int who, zkl_event_type type, seen *ret); /* the first one */
/* So many contenders, or soon. */
void expect_nodes(scene *s, int count);

#endif
