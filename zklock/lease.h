/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_LEASE_H
#define ZKLOCK_LEASE_H

/* lease.h: until when is it certain that the servers have not given our session up? Proofs in, deadline out. Pure.
 *
 * A proof is an operation of this session that a quorum committed. Time runs from when it was sent. One proof does not
 * suffice: a follower reports the sessions that it has heard to its leader each tick/2, and a proof that it forwards is not
 * such a report, so the leader may count from a packet that is older by the gap before it. Hence two:
 *
 *     n  the newest proof
 *     k  the newest one that was answered at least tick/2 + T/24 before n was sent
 *     deadline = send(k) + T - T/24
 *
 * and while no such k is there yet, but no gap longer than T/3 either (an idle client pings that often) since at least
 * tick/2 + T/24 before n was sent, or since the session began:
 *
 *     deadline = send(n) + 3T/8
 *
 * In any case not later than send(n) + T - margin. T/24 is for delays of the leader and clocks that run unlike. tick/2 is
 * T/4 where the tick is unknown, since T >= 2 ticks. */

#include <stdbool.h>
#include <stdint.h>

#define ZKL__LEASE_PROOFS 16

struct zkl__lease_options {
	int64_t margin_ns, heartbeat_ns, tick_ns; /* 0: 3T/8, T/6, unknown */
};

struct zkl__proof {
	int64_t sent_ns, replied_ns;
};

struct zkl__lease {
	struct zkl__lease_options options;
	int64_t                   timeout_ns; /* T, the least of this session's life; 0: no session */
	int64_t                   newest_ns;  /* send(n); 0: no proof yet */
	int64_t                   pair_ns;    /* send(k) of the best pair; 0: none */
	int64_t                   single_ns;  /* send(n) of the newest proof without a gap before it; 0: none */
	int64_t                   heard_ns;   /* when something was last sent that is known of; a gap runs from here */
	int64_t                   flow_ns;    /* end of the newest gap; 0: there was none */
	bool                      idle;       /* no heartbeats flow: the client's own pings bound the gap */
	bool                      slow_pings; /* they come by a T that is longer than the least */
	struct zkl__proof         proofs[ZKL__LEASE_PROOFS];
	unsigned                  count; /* of proofs ever kept; the ring's index */
};

/* What the options may be with a timeout: the margin with the heartbeat and the tick that they have, and with the margin how
 * long before the lease's end its holder may stop; -1: they do not fit. A lease lasts for a heartbeat and its answer at
 * least, since it would end between two heartbeats else, with servers that answer all the time. */
struct zkl__lease_limits {
	int64_t beat_min, beat_max, margin_min, margin_max, stop_max;
};
void zkl__lease_limits(const struct zkl__lease_options *options, int64_t timeout_ns, struct zkl__lease_limits *ret);
/* A new session, without a lease. */
void zkl__lease_begin(struct zkl__lease *lease, const struct zkl__lease_options *options);
/* T was negotiated. The least of the session's life counts, for earlier proofs too: a new leader restarts a session with
 * the T that it was made with. */
void zkl__lease_set_timeout(struct zkl__lease *lease, int64_t timeout_ns);
void zkl__lease_add_proof(struct zkl__lease *lease, int64_t sent_ns, int64_t replied_ns);
/* Some request was answered, after the proof that it may be was added; or a server has taken the session, between these
 * moments. While it waits for an answer the client does not ping; after that it does within T/3. */
void zkl__lease_note_wait(struct zkl__lease *lease, int64_t sent_ns, int64_t replied_ns);
/* Nobody wants heartbeats any more: only the client's pings bound the gap before the next proof. */
void zkl__lease_rest(struct zkl__lease *lease, int64_t now_ns);
/* Somebody wants them; one is sent at once if it is due. */
void zkl__lease_wake(struct zkl__lease *lease, int64_t now_ns);
/* 0: there is no lease. */
int64_t zkl__lease_deadline(const struct zkl__lease *lease);
/* How long after the newest proof or heartbeat was sent the next heartbeat is due, while somebody wants them; stop_ns: how
 * long before the lease's end some holder stops. */
int64_t zkl__lease_beat_interval(const struct zkl__lease *lease, int64_t stop_ns);
/* Would it last for a holder that begins now, as long as servers answer within T/24? beat_ns: when the next heartbeat is
 * due. */
bool zkl__lease_lasts(const struct zkl__lease *lease, int64_t now_ns, int64_t beat_ns, int64_t stop_ns);
/* From when on proofs are overdue. */
int64_t zkl__lease_suspect(const struct zkl__lease *lease);

#endif
