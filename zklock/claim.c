/* SPDX-License-Identifier: Apache-2.0 */
#include "claim.h"

static const struct zkl__claim_words words_of_locks = {
	.noun = "lock", .gained = "acquired", .lost = "lost", .left = "released"};
static const struct zkl__claim_words words_of_elections = {
	.noun = "leadership of", .gained = "elected on", .lost = "deposed from", .left = "resigned from"};

int zkl__claim_open(struct zkl__claim *claim, zkl_session *session, const char *path, bool leader,
                    const zkl_options *options, zkl_error *reterr)
{
	*claim = (struct zkl__claim){.words = leader ? &words_of_elections : &words_of_locks};
	return leader ? zkl_election_new(session, path, options, &claim->election, reterr)
	              : zkl_lock_new(session, path, options, &claim->lock, reterr);
}

int zkl__claim_start(struct zkl__claim *claim, int64_t timeout_ms, zkl_error *reterr)
{
	return claim->election != NULL ? zkl_election_campaign(claim->election, reterr)
	                               : zkl_lock_start(claim->lock, timeout_ms, reterr);
}

struct zkl__looking *zkl__claim_look(struct zkl__claim *claim)
{
	return claim->election != NULL ? zkl__election_look(claim->election) : zkl__lock_look(claim->lock);
}

int64_t zkl__claim_check(struct zkl__claim *claim, uint64_t token)
{
	return claim->election != NULL ? zkl_election_check(claim->election, token)
	                               : zkl_lock_check(claim->lock, token);
}

const char *zkl__claim_why_lost(struct zkl__claim *claim)
{
	return claim->election != NULL ? zkl__election_why_lost(claim->election) : zkl__lock_why_lost(claim->lock);
}

void zkl__claim_release(struct zkl__claim *claim)
{
	if (claim->election != NULL)
		zkl_election_resign(claim->election, 0, NULL);
	else
		zkl_lock_release(claim->lock, 0, NULL);
}

void zkl__claim_close(struct zkl__claim *claim)
{
	zkl_election_free(claim->election);
	zkl_lock_free(claim->lock);
	claim->election = NULL;
	claim->lock = NULL;
}
