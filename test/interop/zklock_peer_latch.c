/* SPDX-License-Identifier: Apache-2.0 */
/* The election of zklock_peer, beside Curator's LeaderLatch. */
#include "zklock_peer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <zklock/election.h>

static zkl_election *election;
static atomic_ullong leading; /* token of the newest term */
static atomic_bool   stopping;
static atomic_bool   working; /* `grants`, which shows nothing of each term */

static void on_event(const zkl_event *ev, void *user)
{
	int64_t at_ns = now_ns();
	(void)user;
	if (atomic_load(&working))
		return;
	if (ev->type == ZKL_EV_GRANTED) {
		atomic_store(&leading, ev->grant->token);
		say("elected %" PRIu64 " %" PRIu64 " %" PRId64, ev->grant->epoch, ev->grant->token, at_ns);
	} else if (ev->type == ZKL_EV_LOST) {
		say("deposed %" PRId64, at_ns);
	} else if (ev->type == ZKL_EV_ENDED && ev->code < 0 && ev->code != ZKL_ELOST) {
		fail("campaign", ev->error);
	}
}

static int open_latch(zkl_error *reterr)
{
	zkl_options options = ZKL_OPTIONS_INIT;
	options.flags = ZKL_OBSERVE;
	options.on_event = on_event;
	options.data = id;
	options.data_len = strlen(id);
	return zkl_election_new(session, path, &options, &election, reterr);
}

static void close_latch(void)
{
	zkl_election_free(election);
}

static int64_t check(uint64_t token)
{
	return zkl_election_check(election, token);
}

static int term(const zkl_grant *grant, void *user)
{
	(void)user;
	if (check(grant->token) > 0)
		use(grant);
	return atomic_load(&stopping);
}

static void grants(void)
{
	zkl_error error;
	atomic_store(&working, true);
	if (zkl_election_run(election, term, NULL, &error) < 0)
		fail("run", &error);
}

static void stop(void)
{
	atomic_store(&stopping, true);
}

static void start(void)
{
	zkl_error error;
	if (zkl_election_campaign(election, &error) != ZKL_OK)
		fail("campaign", &error);
	say("started");
}

static void resign(void)
{
	zkl_error error;
	int       r = zkl_election_resign(election, RELEASE_MS, &error);
	if (r != ZKL_OK && r != ZKL_ENOTHELD)
		fail("resign", &error);
	say("closed");
}

static void show_leader(void)
{
	zkl_peer peer;
	int      r = zkl_election_leader(election, &peer);
	if (r < 0)
		fail("leader", &(zkl_error){.code = r});
	if (r > 0)
		say("leader %s %" PRIu64 " %u", peer.id, peer.epoch, peer.waiting);
	else
		say("leader nobody");
}

static bool obey(const char *command)
{
	if (strcmp(command, "start") == 0)
		start();
	else if (strcmp(command, "close") == 0)
		resign();
	else if (strcmp(command, "leader") == 0)
		show_leader();
	else if (strcmp(command, "watch") == 0)
		watch(check, atomic_load(&leading));
	else
		return false;
	return true;
}

const recipe latch_recipe = {"latch", open_latch, grants, stop, obey, close_latch};
