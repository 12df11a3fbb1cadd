/* SPDX-License-Identifier: Apache-2.0 */
/* Follows who leads without being a candidate: observer host:2181 /elections/job
 *
 * One line a change: "leader EPOCH ID", "nobody", "unseen REASON". Ends at TERM or INT. */
#include <signal.h>
#include <stdio.h>
#include <zklock/election.h>

static void on_event(const zkl_event *ev, void *user)
{
	(void)user;
	if (ev->type != ZKL_EV_LEADER)
		return;
	if (ev->leader)
		printf("leader %llu %s\n", (unsigned long long)ev->leader->epoch, ev->leader->id);
	else if (ev->code < 0)
		printf("unseen %s\n", ev->error->message);
	else
		puts("nobody");
}

int main(int argc, char **argv)
{
	zkl_session_options session_options = ZKL_SESSION_OPTIONS_INIT;
	zkl_options         options = ZKL_OPTIONS_INIT;
	zkl_session        *session = NULL;
	zkl_election       *election = NULL;
	zkl_error           error;
	sigset_t            stop;
	int                 number;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	if (argc != 3) {
		fprintf(stderr, "usage: observer SERVERS PATH\n");
		return 64;
	}
	session_options.servers = argv[1];
	options.flags = ZKL_OBSERVE;
	options.on_event = on_event;
	int r = zkl_session_open(&session_options, &session, &error);
	if (r == 0)
		r = zkl_election_new(session, argv[2], &options, &election, &error);
	if (r == 0)
		sigwait(&stop, &number);
	else
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	zkl_election_free(election);
	zkl_session_close(session, 5000);
	return r < 0;
}
