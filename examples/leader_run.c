/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that works while it leads, run by systemd: leader_run host:2181 /elections/job (see leader_run.service)
 *
 * The work is a function that is bound to its term: nobody else is elected before it returns, unless the session is gone. */
#include <signal.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <zklock/election.h>

static volatile sig_atomic_t stop;
static zkl_session          *session;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
	zkl_session_cancel(session); /* ends the wait; a term ends by `stop` */
}

static void on_event(const zkl_event *ev, void *user)
{
	(void)user;
	if (ev->type == ZKL_EV_WAITING)
		sd_notifyf(0, "STATUS=standby, at most %u before us", ev->ahead);
	else if (ev->type == ZKL_EV_SUSPENDED)
		sd_notifyf(0, "STATUS=leading, but no word from the servers: %lld ms left", (long long)ev->lease_ms);
	else if (ev->type == ZKL_EV_LOST)
		sd_notify(0, "STATUS=deposed");
}

static int term(const zkl_grant *grant, void *user)
{
	zkl_election *election = *(zkl_election **)user;
	unsigned long acts = 0;

	sd_notifyf(0, "STATUS=leading, epoch %llu", (unsigned long long)grant->epoch);
	printf("leading, epoch %llu\n", (unsigned long long)grant->epoch);
	while (!stop && zkl_election_check(election, grant->token) > 0) {
		acts++; /* one act; hand grant->token to whatever it writes to */
		nanosleep(&(struct timespec){0, 100000000}, NULL);
	}
	printf("over, %lu acts\n", acts);
	return stop;
}

int main(int argc, char **argv)
{
	zkl_session_options session_options = ZKL_SESSION_OPTIONS_INIT;
	zkl_options         options = ZKL_OPTIONS_INIT;
	struct sigaction    action = {.sa_handler = on_signal};
	zkl_election       *election = NULL;
	zkl_error           error;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != 3) {
		fprintf(stderr, "usage: leader_run SERVERS PATH\n");
		return 64;
	}
	session_options.servers = argv[1];
	options.on_event = on_event;
	int r = zkl_session_open(&session_options, &session, &error);
	if (r == 0)
		r = zkl_election_new(session, argv[2], &options, &election, &error);
	if (r == 0) {
		sigaction(SIGTERM, &action, NULL);
		sigaction(SIGINT, &action, NULL);
		sd_notify(0, "READY=1\nSTATUS=connecting");
		r = zkl_election_run(election, term, &election, &error);
	}
	if (r < 0 && !stop)
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	sd_notify(0, "STOPPING=1\nSTATUS=resigning");
	zkl_election_free(election);
	zkl_session_close(session, 5000);
	return r < 0 && !stop;
}
