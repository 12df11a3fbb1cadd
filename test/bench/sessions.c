/* SPDX-License-Identifier: Apache-2.0 */
/* Holds locks and does nothing else: bench_sessions SERVERS SESSION_MS PREFIX SESSIONS LOCKS
 *
 * LOCKS in each of SESSIONS, of paths that begin with PREFIX. Says "ready" once all are held, and ends with its standard
 * input. */
#include "common.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <zklock/lock.h>

/* More of them begun at once would delay heartbeats. */
#define AT_ONCE 100

#define CLOSE_MS 20000

static sem_t may_begin;

static void on_event(const zkl_event *event, void *user)
{
	(void)user;
	if (event->type == ZKL_EV_GRANTED)
		sem_post(&may_begin);
	else if (event->code < 0)
		die("%s", event->error->message);
}

static void begin_lock(zkl_session *session, const char *prefix, int number)
{
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_lock   *lock;
	zkl_error   error;
	char        path[ZKL_PATH_MAX];

	snprintf(path, sizeof path, "%s%d", prefix, number);
	options.on_event = on_event;
	sem_wait(&may_begin);
	if (zkl_lock_new(session, path, &options, &lock, &error) < 0 || zkl_lock_start(lock, ZKL_FOREVER, &error) < 0)
		die("%s: %s", path, error.message);
}

int main(int argc, char **argv)
{
	int           count = argc == 6 ? atoi(argv[4]) : 0, locks = 0;
	zkl_session **sessions = calloc((size_t)count + 1, sizeof(zkl_session *));

	if (argc != 6)
		die("usage: bench_sessions SERVERS SESSION_MS PREFIX SESSIONS LOCKS");
	sem_init(&may_begin, 0, AT_ONCE);
	for (int i = 0; i < count; i++) {
		sessions[i] = connected_session(argv[1], atoi(argv[2]));
		for (int j = 0; j < atoi(argv[5]); j++)
			begin_lock(sessions[i], argv[3], locks++);
	}
	for (int i = 0; i < AT_ONCE; i++)
		sem_wait(&may_begin);
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF) {
	}
	for (int i = 0; i < count; i++)
		zkl_session_close(sessions[i], CLOSE_MS);
	return 0;
}
