/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_INVARIANTS_H
#define ZKLOCK_SIM_INVARIANTS_H

/* invariants.h: sees every step of every contender, every transaction, every act, and says what must never be. The calls
 * are made by who knows: the ensemble, the processes, the resource. */

#include "protocol.h"
#include "zk.h"

void invariants_begin(void);

/* ---- the ensemble ------------------------------------------------------------------------------------------------ */
void invariants_created(int16_t node);
void invariants_delete(const struct request *request);
void invariants_mark(const struct request *request);
void invariants_broken(int16_t node); /* by an operator */
void invariants_session_over(int16_t session, unsigned process);

/* ---- processes --------------------------------------------------------------------------------------------------- */
/* A proof was answered after so long. */
void invariants_proven(unsigned process, int64_t took);
void invariants_request(unsigned process, uint64_t party, const struct zkl__request *request, bool session_open);
/* What is news for who observes, and lets it ask: a connection; an event, or a reply that is none of success. */
void    invariants_linked(unsigned process);
void    invariants_heard(unsigned process, uint32_t watcher);
int16_t invariants_attempt(unsigned process, uint64_t party); /* NOBODY: not one of a contender */
/* Around what its protocol thread does. */
void invariants_before(unsigned process);
void invariants_after(unsigned process);
void invariants_session_closed(unsigned process); /* in an orderly manner: now, all is let go of */
void invariants_process_gone(unsigned process);

/* ---- acts -------------------------------------------------------------------------------------------------------- */
int16_t invariants_attempt_of_token(uint64_t token, unsigned owner);
bool    invariants_is_newest(int16_t attempt);
bool    invariants_is_live(int16_t attempt);
void    invariants_act(int16_t attempt);

/* ---- the schedule ------------------------------------------------------------------------------------------------ */
/* Something other than an operator disturbs the world: news may be late. */
void invariants_disturbed(int64_t until);
/* Idle clients may have been silent for longer than the lease allows for (a stall before a create): no overlap and no lease
 * is judged for this process until then. */
void invariants_excuse(unsigned process, int64_t until);
/* Nobody is left in the middle of anything: NULL, or what is. */
const char *invariants_rest(void);
unsigned    invariants_grants(void);
unsigned    invariants_losses(void);

#endif
