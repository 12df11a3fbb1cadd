/* SPDX-License-Identifier: Apache-2.0 */
/* Observers of an election, on one session: bench_observers SERVERS SESSION_MS PATH COUNT
 *
 * Says "led MOMENT" (CLOCK_MONOTONIC) whenever the last of them has been told of a new leader, the first one among them. Ends
 * with its standard input. */
#include "common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zklock/election.h>

static int      count, told; /* told: of the newest leader. Events come one at a time */
static uint64_t newest;

static void on_event(const zkl_event *event, void *user)
{
	(void)user;
	if (event->code < 0)
		die("%s", event->error->message);
	if (!event->leader || event->leader->token < newest)
		return;
	if (event->leader->token > newest)
		told = 0;
	newest = event->leader->token;
	if (++told == count) {
		printf("led %" PRId64 "\n", now_ns());
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	zkl_options  observe = ZKL_OPTIONS_INIT;
	zkl_session *session;
	zkl_error    error;

	if (argc != 5)
		die("usage: bench_observers SERVERS SESSION_MS PATH COUNT");
	count = atoi(argv[4]);
	observe.flags = ZKL_OBSERVE;
	observe.on_event = on_event;
	session = connected_session(argv[1], atoi(argv[2]));
	for (int i = 0; i < count; i++) {
		zkl_election *election;

		if (zkl_election_new(session, argv[3], &observe, &election, &error) < 0)
			die("%s", error.message);
	}
	while (getchar() != EOF) {
	}
	_exit(0);
}
