/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate in a daemon with a poll loop of its own: candidate -s host:2181 -T SECONDS /elections/job
 *
 * One line an event: "elected EPOCH", "suspended", "resumed", "deposed REASON". TERM or INT resigns and ends it. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zklock/election.h>

static zkl_election *election;
static int           failed; /* a ZKL_E* that ends it */

static void on_event(const zkl_event *ev, void *user)
{
	(void)user;
	switch (ev->type) {
	case ZKL_EV_GRANTED: /* before each act: zkl_election_check(election, ev->grant->token) > 0 */
		printf("elected %llu\n", (unsigned long long)ev->grant->epoch);
		break;
	case ZKL_EV_SUSPENDED:
		puts("suspended");
		break;
	case ZKL_EV_RESUMED:
		puts("resumed");
		break;
	case ZKL_EV_LOST: /* end the work here, then: */
		printf("deposed %s\n", ev->error->message);
		zkl_election_resign(election, 0, NULL);
		zkl_election_campaign(election, NULL);
		break;
	case ZKL_EV_ENDED: /* a deposed term ends with ELOST: the next campaign is under way by then */
		if (ev->code == ZKL_ELOST && !ev->grant)
			zkl_election_campaign(election, NULL);
		else if (ev->code < 0 && ev->code != ZKL_ELOST)
			failed = ev->code;
		if (failed)
			fprintf(stderr, "%s\n", ev->error->message);
		break;
	default:
		break;
	}
}

static void loop(zkl_session *session, int signals)
{
	struct pollfd fds[] = {{.fd = zkl_session_fd(session), .events = POLLIN}, {.fd = signals, .events = POLLIN}};

	while (!failed && !fds[1].revents) {
		poll(fds, 2, -1);
		zkl_session_process(session);
	}
}

/* An ensemble that cannot be reached is no event: a candidate waits for it. */
static void on_log(int level, const char *id, const char *message, void *user)
{
	(void)user;
	(void)level; /* a warning, or worse: log_level */
	fprintf(stderr, "candidate: %s: %s\n", id, message);
}

int main(int argc, char **argv)
{
	zkl_session_options session_options = ZKL_SESSION_OPTIONS_INIT;
	zkl_options         options = ZKL_OPTIONS_INIT;
	zkl_session        *session = NULL;
	zkl_error           error;
	sigset_t            stop;
	int                 option;

	session_options.flags = ZKL_MANUAL;
	session_options.log = on_log;
	opterr = 0;
	while ((option = getopt(argc, argv, "s:T:")) != -1) {
		if (option == 's')
			session_options.servers = optarg;
		else if (option == 'T')
			session_options.timeout_ms = (int64_t)(strtod(optarg, NULL) * 1000);
		else
			break;
	}
	if (option != -1 || optind + 1 != argc) {
		fprintf(stderr, "usage: candidate -s SERVERS [-T SECONDS] PATH\n");
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigemptyset(&stop);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGINT);
	sigprocmask(SIG_BLOCK, &stop, NULL);
	options.on_event = on_event;
	int r = zkl_session_open(&session_options, &session, &error);
	if (r == 0)
		r = zkl_election_new(session, argv[optind], &options, &election, &error);
	if (r == 0)
		r = zkl_election_campaign(election, &error);
	if (r == 0)
		loop(session, signalfd(-1, &stop, SFD_CLOEXEC));
	else
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	zkl_session_close(session, 5000); /* resigns, and waits for the servers' word */
	zkl_election_free(election);
	return r < 0 || failed;
}
