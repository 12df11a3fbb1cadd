/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include <string.h>

static int64_t min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t heartbeat(const struct zkl__lease_options *options, int64_t t)
{
	return options->heartbeat_ns ? options->heartbeat_ns : t / 6;
}

/* How long before n is sent must k have been answered, so that the leader knows of k's packet when it takes n? */
static int64_t report_delay(const struct zkl__lease_options *options, int64_t t)
{
	return (options->tick_ns ? min(options->tick_ns / 2, t / 4) : t / 4) + t / 24;
}

/* With a steady heartbeat k is so many whole beats before n. */
static int64_t least_margin(const struct zkl__lease_options *options, int64_t t)
{
	int64_t beat = heartbeat(options, t), delay = report_delay(options, t);

	return (delay + beat - 1) / beat * beat + t / 24;
}

static int64_t margin(const struct zkl__lease_options *options, int64_t t)
{
	return max(options->margin_ns ? options->margin_ns : t * 3 / 8, least_margin(options, t));
}

/* What margin and stop leave of T must last until the next heartbeat, and T/24 more for its answer. */
void zkl__lease_limits(const struct zkl__lease_options *options, int64_t t, struct zkl__lease_limits *ret)
{
	int64_t beat = heartbeat(options, t), most = t - t / 24 - beat, chosen;

	chosen = options->margin_ns ? options->margin_ns : t * 3 / 8;
	*ret = (struct zkl__lease_limits){.beat_min = t / 24, .beat_max = t * 5 / 12, .stop_max = -1};
	if (beat < ret->beat_min || beat > ret->beat_max || options->tick_ns < 0)
		return;
	ret->margin_min = least_margin(options, t);
	ret->margin_max = min(t * 5 / 8, most);
	if (chosen >= ret->margin_min && chosen <= ret->margin_max)
		ret->stop_max = min(t / 4, most - chosen);
}

void zkl__lease_begin(struct zkl__lease *lease, const struct zkl__lease_options *options)
{
	struct zkl__lease_options keep = *options;

	memset(lease, 0, sizeof *lease);
	lease->options = keep;
	lease->idle = true;
}

void zkl__lease_set_timeout(struct zkl__lease *lease, int64_t timeout_ns)
{
	lease->timeout_ns = lease->timeout_ns ? min(lease->timeout_ns, timeout_ns) : timeout_ns;
	lease->slow_pings = timeout_ns > lease->timeout_ns;
}

static unsigned kept_proofs(const struct zkl__lease *lease)
{
	return lease->count < ZKL__LEASE_PROOFS ? lease->count : ZKL__LEASE_PROOFS;
}

/* The newest proof that was answered early enough before n was sent; 0: none. */
static int64_t find_pair(const struct zkl__lease *lease, int64_t sent_ns)
{
	int64_t limit = sent_ns - report_delay(&lease->options, lease->timeout_ns), found = 0;

	for (unsigned i = 0; i < kept_proofs(lease); i++)
		if (lease->proofs[i].replied_ns <= limit)
			found = max(found, lease->proofs[i].sent_ns);
	return found;
}

/* Heartbeats should have flowed and did not: for more than T/3 nothing may have been sent. */
static void note_gap(struct zkl__lease *lease, int64_t at_ns)
{
	if (!lease->idle && at_ns - lease->heard_ns > lease->timeout_ns / 3)
		lease->flow_ns = at_ns;
}

void zkl__lease_add_proof(struct zkl__lease *lease, int64_t sent_ns, int64_t replied_ns)
{
	const struct zkl__proof *last = &lease->proofs[(lease->count - 1) % ZKL__LEASE_PROOFS];
	int64_t                  t = lease->timeout_ns;

	if (sent_ns < lease->newest_ns)
		return;
	lease->pair_ns = max(lease->pair_ns, find_pair(lease, sent_ns));
	note_gap(lease, sent_ns);
	if (!lease->slow_pings && (!lease->flow_ns || sent_ns - lease->flow_ns >= report_delay(&lease->options, t)))
		lease->single_ns = sent_ns;
	lease->newest_ns = sent_ns;
	lease->heard_ns = max(lease->heard_ns, sent_ns);
	/* Thinned out, so that a burst of creates does not push the older ones from the ring. */
	if (lease->count == 0 || replied_ns - last->replied_ns >= t / 24)
		lease->proofs[lease->count++ % ZKL__LEASE_PROOFS] = (struct zkl__proof){sent_ns, replied_ns};
}

void zkl__lease_note_wait(struct zkl__lease *lease, int64_t sent_ns, int64_t replied_ns)
{
	if (replied_ns - sent_ns > lease->timeout_ns / 3)
		lease->flow_ns = replied_ns + lease->timeout_ns / 3;
}

/* A stall that ends with this must not be forgotten by it. */
void zkl__lease_rest(struct zkl__lease *lease, int64_t now_ns)
{
	note_gap(lease, now_ns);
	lease->idle = true;
}

void zkl__lease_wake(struct zkl__lease *lease, int64_t now_ns)
{
	lease->idle = false;
	/* Until now the client has pinged, and now a heartbeat is due. */
	if (now_ns - lease->heard_ns > max(lease->timeout_ns / 3, heartbeat(&lease->options, lease->timeout_ns)))
		lease->heard_ns = now_ns;
}

/* The margin is kept whatever the proofs are worth. */
static int64_t latest_deadline(const struct zkl__lease *lease)
{
	return lease->newest_ns + lease->timeout_ns - margin(&lease->options, lease->timeout_ns);
}

/* What they are worth. */
static int64_t proven_deadline(const struct zkl__lease *lease)
{
	int64_t t = lease->timeout_ns, deadline = 0;

	if (lease->pair_ns)
		deadline = lease->pair_ns + t - t / 24;
	if (lease->single_ns)
		deadline = max(deadline, lease->single_ns + t * 3 / 8);
	return deadline;
}

int64_t zkl__lease_deadline(const struct zkl__lease *lease)
{
	return lease->newest_ns ? min(proven_deadline(lease), latest_deadline(lease)) : 0;
}

/* From when on has a proof to be sent to be worth more? Behind a stall that may be after the deadline itself. */
static int64_t worth_more_ns(const struct zkl__lease *lease)
{
	int64_t t = lease->timeout_ns, delay = report_delay(&lease->options, t), proven = proven_deadline(lease);
	int64_t least = INT64_MAX;

	if (!lease->slow_pings)
		least = max(lease->flow_ns ? lease->flow_ns + delay : lease->newest_ns, proven - t * 3 / 8);
	for (unsigned i = 0; i < kept_proofs(lease); i++)
		if (lease->proofs[i].sent_ns + t - t / 24 > proven)
			least = min(least, lease->proofs[i].replied_ns + delay);
	return least;
}

int64_t zkl__lease_beat_interval(const struct zkl__lease *lease, int64_t stop_ns)
{
	int64_t t = lease->timeout_ns, beat = heartbeat(&lease->options, t), next = lease->newest_ns + beat;
	int64_t end = proven_deadline(lease) - stop_ns, more = worth_more_ns(lease) - lease->newest_ns;

	/* No steady pairs yet, or the next heartbeat would be answered too late, or would be too early to be worth more and the
	 * one after it too late: beat faster. */
	if (!lease->pair_ns || lease->pair_ns + t / 2 < lease->newest_ns ||
	    zkl__lease_deadline(lease) - stop_ns < next + t / 24 || (more > beat && end < next + beat + t / 24))
		beat = min(beat, t / 12);
	/* Where time is short, as soon as it is worth more: other proofs can have put it off. */
	if (more > 0 && end < lease->newest_ns + beat + t / 24)
		beat = min(beat, more);
	/* Not just before it is, where the one after it, which is not sent until this one is answered, would be too late. */
	if (more > beat && more < beat + t / 24 && end < lease->newest_ns + beat + t / 12)
		beat = more;
	return beat;
}

/* Looks ahead, heartbeat by heartbeat, until there is a pair of them. */
bool zkl__lease_lasts(const struct zkl__lease *lease, int64_t now_ns, int64_t beat_ns, int64_t stop_ns)
{
	struct zkl__lease ahead = *lease;
	int64_t           slack = lease->timeout_ns / 24, first = max(now_ns, beat_ns);

	if (!lease->newest_ns || zkl__lease_deadline(lease) - stop_ns - now_ns <= slack)
		return false;
	if (lease->idle)
		zkl__lease_wake(&ahead, now_ns);
	/* None is sent while the one before it is under way. */
	for (int64_t at = first; ahead.pair_ns < first; at += max(zkl__lease_beat_interval(&ahead, stop_ns), slack)) {
		if (at + slack > zkl__lease_deadline(&ahead) - stop_ns)
			return false;
		zkl__lease_add_proof(&ahead, at, at + slack);
	}
	return true;
}

int64_t zkl__lease_suspect(const struct zkl__lease *lease)
{
	return lease->newest_ns + heartbeat(&lease->options, lease->timeout_ns) + lease->timeout_ns / 6;
}
