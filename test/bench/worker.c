/* SPDX-License-Identifier: Apache-2.0 */
/* A process with contenders of one recipe: bench_worker RECIPE SERVERS SESSION_MS
 *
 * Commands come as lines on standard input and are answered by a line each; workers.py has the list. What is timed begins and
 * ends here, in one process or, by the clock that all share, in two. */
#include "common.h"
#include "recipe.h"

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const recipe *const recipes[] = {&raw, &bare, &lock, &election, NULL};
static const recipe       *the;

/* ---- one contender after the other ---- */

static void cycles(const char *path, int count)
{
	contender *c = the->join(path);

	printf("cycles");
	for (int i = 0; i < count; i++) {
		int64_t began = now_ns(), held, released;

		the->acquire(c);
		held = now_ns();
		the->release(c);
		released = now_ns();
		printf(" %" PRId64 " %" PRId64, held - began, released - held);
	}
	printf("\n");
	the->leave(c);
}

static contender *holder;

static void hold(const char *path)
{
	holder = the->join(path);
	the->acquire(holder);
	printf("held %" PRId64 "\n", now_ns());
}

static void release(void)
{
	int64_t began = now_ns();

	the->release(holder);
	the->leave(holder);
	printf("released %" PRId64 "\n", began);
}

/* ---- many at once ---- */

typedef struct turn {
	int64_t granted, released;
} turn;

typedef struct waiter {
	pthread_t   thread;
	const char *path;
	int         hold_us, rounds;
	turn       *turns;
} waiter;

static void *take_turns(void *arg)
{
	waiter    *w = arg;
	contender *c = the->join(w->path);

	for (int i = 0; i < w->rounds; i++) {
		the->acquire(c);
		w->turns[i].granted = now_ns();
		if (w->hold_us)
			nanosleep(&(struct timespec){0, w->hold_us * 1000L}, NULL);
		w->turns[i].released = now_ns();
		the->release(c);
	}
	the->leave(c);
	return NULL;
}

static void queue(const char *path, int count, int hold_us, int rounds)
{
	waiter *waiters = calloc((size_t)count, sizeof *waiters);
	turn   *turns = calloc((size_t)count * (size_t)rounds, sizeof *turns);

	for (int i = 0; i < count; i++) {
		waiters[i] = (waiter){
			.path = path, .hold_us = hold_us, .rounds = rounds, .turns = turns + (ptrdiff_t)i * rounds};
		if (pthread_create(&waiters[i].thread, NULL, take_turns, &waiters[i]) != 0)
			die("no thread");
	}
	for (int i = 0; i < count; i++)
		pthread_join(waiters[i].thread, NULL);
	printf("turns");
	for (int i = 0; i < count * rounds; i++)
		printf(" %" PRId64 " %" PRId64, turns[i].granted, turns[i].released);
	printf("\n");
	free(turns);
	free(waiters);
}

/* ---- commands ---- */

static void obey(char *line)
{
	char *words[5] = {NULL}, *rest = NULL;
	int   count = 0;

	for (char *word = strtok_r(line, " \n", &rest); word && count < 5; word = strtok_r(NULL, " \n", &rest))
		words[count++] = word;
	if (count == 3 && strcmp(words[0], "cycles") == 0)
		cycles(words[1], atoi(words[2]));
	else if (count == 5 && strcmp(words[0], "queue") == 0)
		queue(words[1], atoi(words[2]), atoi(words[3]), atoi(words[4]));
	else if (count == 2 && strcmp(words[0], "hold") == 0)
		hold(words[1]);
	else if (count == 1 && strcmp(words[0], "release") == 0)
		release();
	else
		die("unknown command %s", words[0] ? words[0] : "");
}

static const recipe *find(const char *name)
{
	const recipe *const *each = recipes;

	while (*each && strcmp((*each)->name, name) != 0)
		each++;
	return *each;
}

int main(int argc, char **argv)
{
	char line[512];

	the = argc == 4 ? find(argv[1]) : NULL;
	if (!the)
		die("usage: bench_worker raw|bare|lock|election SERVERS SESSION_MS");
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	the->connect(argv[2], atoi(argv[3]));
	printf("ready\n");
	while (fgets(line, sizeof line, stdin))
		obey(line);
	the->disconnect();
	return 0;
}
