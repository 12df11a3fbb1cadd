/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_SCRIPT_H
#define ZKLOCK_TEST_SCRIPT_H

/* script.h: what clients ask and suffer, and what they hear of it, in one normal form, whoever the servers are.
 *
 *     script file -> script_run(), on a stage -> transcript, which has to be the script file again
 *
 * The stage is the simulation's client and servers (stage_sim.c), or the library's client.c on ZooKeeper's C client and real
 * servers (stage_real.c): the same requests, the same mail. So a script that passes on both shows that the simulation
 * and the real ensemble give the same replies and events in the same order.
 *
 * A line that begins with "> " is a step; the lines after it say what each client heard until nothing was under way any
 * more, client by client. "+" joins parts to one batch, which a client sends without waiting for anything; what clients on different
 * servers do in one batch comes there in any order. The parts:
 *
 *     A open | A close            a client begins a session, or ends it
 *     A open follower             one that knows of no server but a follower, or (leader) but the leader
 *     A create lock               the library's requests, named as in protocol.h, of a directory (lock, election) or a
 *     A delete lock#0             contender's node in it, by its number; A.2 is another party of the same client
 *     ... reply-lost              the request is carried out, and the connection breaks before the reply
 *     ... request-lost            the connection breaks before the request
 *     ... held                    the request, and all behind it both ways, waits on this connection until the client is let
 *                                 back; it goes to another server meanwhile
 *     A guarded lock#0 lock#1     writes to lock#1 if lock#0 is there, in one transaction
 *     A cut                       the connection breaks; the client goes to another server
 *     A away                      the same, and nobody takes it, until it is let back: every server refuses it
 *     A silent                    nothing gets through any more, both ways, until it is let back
 *     A back
 *     A behind                    its server, a follower, is cut off from its leader: it answers what it knows, and commits
 *                                 come to it once it is put back
 *     A level                     it is put back
 *     A expire                    the servers give its session up, while it is away or silent
 *     operator delete lock#0      delete, write, child (of a contender's node); unmake, foreign, junk (of a directory)
 *
 * Transaction numbers are counted from z1 in their order, sessions of client A are A1, A2, ...; of times nothing is said. Watch
 * events are sorted where ZooKeeper tells them in any order: what a client has missed, and the nodes of a session that ends. */

#include <stdbool.h>
#include <stddef.h>

#include "client.h"

enum { SCRIPT_CLIENTS = 4 };

enum script_fault { FAULT_NONE, FAULT_REQUEST_LOST, FAULT_REPLY_LOST, FAULT_HELD };
enum script_blow { BLOW_CUT, BLOW_AWAY, BLOW_SILENT, BLOW_BACK, BLOW_EXPIRE, BLOW_BEHIND, BLOW_LEVEL };
enum script_place { ANYWHERE, AT_FOLLOWER, AT_LEADER };
enum script_deed { OPERATOR_DELETE, OPERATOR_WRITE, OPERATOR_CHILD, OPERATOR_UNMAKE, OPERATOR_FOREIGN, OPERATOR_JUNK };

#define SCRIPT_TIMEOUT_MS 6000

struct stage {
	void (*begin)(void);
	void (*end)(void);
	void (*open)(unsigned client, enum script_place place);
	/* Its mail can be taken once more. */
	void (*close)(unsigned client);
	void (*send)(unsigned client, uint64_t party, const struct zkl__request *request, enum script_fault fault);
	void (*strike)(unsigned client, enum script_blow blow);
	int (*operate)(enum script_deed deed, const char *directory, const char *name); /* ZooKeeper's code */
	struct zkl__mail *(*take)(unsigned client);
	/* Lets something happen; false: nothing did, for long. */
	bool (*pump)(void);
};

extern const struct stage stage_sim, stage_real;

/* 0: the transcript is the script. 1: it is another one, and printed, from the first line on that differs; or with
 * ZKLOCK_TEST_WRITE_SCRIPTS in the environment it is written in place of the script. */
int script_run(const char *path, const struct stage *stage);

/* Of all scripts. */
#define SCRIPTS(X)                                                                                                     \
	X(queue)                                                                                                       \
	X(watches)                                                                                                     \
	X(order)                                                                                                       \
	X(reconnect)                                                                                                   \
	X(directory)                                                                                                   \
	X(lost)                                                                                                        \
	X(expiry)                                                                                                      \
	X(election)                                                                                                    \
	X(moved)                                                                                                       \
	X(guarded)
/* Those that cut servers off, which have an ensemble of their own. */
#define SCRIPTS_OF_SERVERS(X) X(behind)

#endif
