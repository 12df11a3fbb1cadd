/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_FAULTS_H
#define ZKLOCK_SIM_FAULTS_H

/* faults.h: what goes wrong, and when. */

#include <stdbool.h>
#include <stdint.h>

#define FAULT_KINDS(X)                                                                                                 \
	X(LEADER_DIES)                                                                                                 \
	X(SERVER_DIES)                                                                                                 \
	X(FOLLOWER_CUT) /* from its leader only */                                                                     \
	X(LEADER_CUT)   /* from both followers */                                                                      \
	X(FOLLOWER_LAGS)                                                                                               \
	X(RESET)      /* of a client's connection */                                                                   \
	X(BLACK_HOLE) /* both ways */                                                                                  \
	X(ONE_WAY)                                                                                                     \
	X(SLOW)                                                                                                        \
	X(ISOLATE)      /* a client, from all servers */                                                               \
	X(HOLDER_CUT)   /* the holder's server from its leader */                                                      \
	X(AMBUSH)       /* the same, right after the next grant or proof */                                            \
	X(STALL_AMBUSH) /* a holder is paused; then the same after its next proof */                                   \
	X(TO_DEADLINE)  /* a holder's protocol thread stalls until about its lease's end */                            \
	X(PAUSE)        /* of a whole process */                                                                       \
	X(STALL)        /* of one of its threads */                                                                    \
	X(KILL)                                                                                                        \
	X(CLOSE)                                                                                                       \
	X(CANCEL)                                                                                                      \
	X(FREE)                                                                                                        \
	X(DELETE)     /* an operator deletes a contender's node */                                                     \
	X(DELETE_TWO) /* a waiter's and, right before or behind, its predecessor's */                                  \
	X(WRITE)      /* an operator writes to a contender's node */                                                   \
	X(FOREIGN)    /* a contender of another kind queues for a while */                                             \
	X(JUNK)       /* a child without a number */                                                                   \
	X(WIPE)       /* all nodes and the directory */                                                                \
	X(UNMAKE)     /* the directory, if it is empty */

enum fault_kind {
#define NAME(name) FAULT_##name,
	FAULT_KINDS(NAME)
#undef NAME
		FAULT_KIND_COUNT
};

struct fault {
	enum fault_kind kind;
	int64_t         at, length;
	uint64_t        pick; /* whom it hits is decided when it happens, from this */
	int64_t         timeout;
};

/* lease: mostly what could make somebody act beyond his session. */
unsigned faults_choose(struct fault *ret, unsigned limit, int64_t timeout, int64_t active, bool lease, uint64_t seed);
void     faults_plan(const struct fault *fault);
/* A process has been granted something, or got a proof. */
void faults_on_grant(unsigned process);
void faults_on_proof(unsigned process);
/* Its protocol thread has dealt with one mail and has more; true: it does not run on at once. */
bool faults_between_mails(unsigned process);
/* All that is broken is whole again. */
void faults_mend(unsigned processes);
/* Foreign contenders go. To be called again and again: there may be no leader. */
void        faults_tidy(void);
const char *faults_name(enum fault_kind kind);

#endif
