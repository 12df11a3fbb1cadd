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

int64_t zkl__lease_check_options(const struct zkl__lease_options *options, int64_t t)
{
	int64_t beat = heartbeat(options, t), least;

	if (options->margin_ns < 0 || options->tick_ns < 0 || beat < t / 24 || beat > t / 2)
		return -1;
	least = least_margin(options, t);
	if (least > t * 5 / 8 || options->margin_ns > t * 5 / 8)
		return -1;
	return (options->margin_ns ? options->margin_ns : t * 3 / 8) < least ? least : 0;
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
	if (now_ns - lease->heard_ns > max(lease->timeout_ns / 3, zkl__lease_beat_interval(lease)))
		lease->heard_ns = now_ns;
}

/* The margin is kept whatever the proofs are worth. */
static int64_t latest_deadline(const struct zkl__lease *lease)
{
	return lease->newest_ns + lease->timeout_ns - margin(&lease->options, lease->timeout_ns);
}

int64_t zkl__lease_deadline(const struct zkl__lease *lease)
{
	int64_t t = lease->timeout_ns, deadline = 0;

	if (!lease->newest_ns)
		return 0;
	if (lease->pair_ns)
		deadline = lease->pair_ns + t - t / 24;
	if (lease->single_ns)
		deadline = max(deadline, lease->single_ns + t * 3 / 8);
	return min(deadline, latest_deadline(lease));
}

int64_t zkl__lease_extensible_ns(const struct zkl__lease *lease)
{
	int64_t delay = report_delay(&lease->options, lease->timeout_ns), least = INT64_MAX;

	if (!lease->newest_ns)
		return 0;
	if (zkl__lease_deadline(lease) == latest_deadline(lease))
		return lease->newest_ns;
	if (!lease->slow_pings)
		least = lease->flow_ns ? lease->flow_ns + delay : lease->newest_ns;
	for (unsigned i = 0; i < kept_proofs(lease); i++)
		if (lease->proofs[i].sent_ns > lease->pair_ns)
			least = min(least, lease->proofs[i].replied_ns + delay);
	return least;
}

int64_t zkl__lease_beat_interval(const struct zkl__lease *lease)
{
	int64_t t = lease->timeout_ns, beat = heartbeat(&lease->options, t);

	/* No steady pairs yet: beat faster, so that the first comes soon. */
	return lease->pair_ns + t / 2 < lease->newest_ns ? min(beat, t / 12) : beat;
}

int64_t zkl__lease_suspect(const struct zkl__lease *lease)
{
	return lease->newest_ns + heartbeat(&lease->options, lease->timeout_ns) + lease->timeout_ns / 6;
}
