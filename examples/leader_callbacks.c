/* SPDX-License-Identifier: Apache-2.0 */
/* Leads by callbacks, with a worker of its own: leader_callbacks host:2181 /elections/job
 *
 * The callbacks only tell the worker; the worker asks check() before each act, and resigns when its work is over. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <zklock/election.h>

struct office {
	pthread_mutex_t mutex;
	pthread_cond_t  changed;
	zkl_grant       term; /* token 0: not elected */
	int             ended;
	zkl_election   *election;
};

/* On a thread of the library. */
static void on_event(const zkl_event *ev, void *user)
{
	struct office *office = user;

	pthread_mutex_lock(&office->mutex);
	if (ev->type == ZKL_EV_GRANTED)
		office->term = *ev->grant;
	if (ev->type == ZKL_EV_LOST)
		fprintf(stderr, "%s\n", ev->error->message);
	if (ev->type == ZKL_EV_ENDED) {
		office->term.token = 0;
		office->ended = 1;
	}
	pthread_cond_broadcast(&office->changed);
	pthread_mutex_unlock(&office->mutex);
}

/* Five acts of a leader. */
static void work(struct office *office, const zkl_grant *term)
{
	for (int act = 1; act <= 5 && zkl_election_check(office->election, term->token) > 0; act++) {
		printf("act %d in epoch %llu, token %llu\n", act, (unsigned long long)term->epoch,
		       (unsigned long long)term->token);
		nanosleep(&(struct timespec){0, 10000000}, NULL);
	}
}

static void lead_once(struct office *office)
{
	zkl_grant term;

	pthread_mutex_lock(&office->mutex);
	while (!office->term.token && !office->ended)
		pthread_cond_wait(&office->changed, &office->mutex);
	term = office->term;
	pthread_mutex_unlock(&office->mutex);
	if (term.token)
		work(office, &term);
	zkl_election_resign(office->election, 5000, NULL); /* the work is over: the next one may lead */
}

int main(int argc, char **argv)
{
	zkl_session_options session_options = ZKL_SESSION_OPTIONS_INIT;
	zkl_options         options = ZKL_OPTIONS_INIT;
	struct office       office = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0, NULL};
	zkl_session        *session = NULL;
	zkl_error           error;

	if (argc != 3) {
		fprintf(stderr, "usage: leader_callbacks SERVERS PATH\n");
		return 64;
	}
	session_options.servers = argv[1];
	options.on_event = on_event;
	options.user = &office;
	int r = zkl_session_open(&session_options, &session, &error);
	if (r == 0)
		r = zkl_election_new(session, argv[2], &options, &office.election, &error);
	if (r == 0)
		r = zkl_election_campaign(office.election, &error);
	if (r == 0)
		lead_once(&office);
	else
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	zkl_election_free(office.election);
	zkl_session_close(session, 5000);
	return r < 0;
}
