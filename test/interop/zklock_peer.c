/* SPDX-License-Identifier: Apache-2.0 */
/* zklock as a contender: zklock_peer lock|latch SERVERS SESSION_MS PATH ID FOLDER
 *
 * Commands come as lines on standard input, answers and events go as lines to standard output; peers.py has the list.
 * Moments are CLOCK_MONOTONIC. The end of standard input is the end. */
#include "zklock_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

zkl_session *session;
const char  *path, *id;

static const recipe *the;
static int           held_file, grants_file;
static int           most_ms;

void say(const char *format, ...)
{
	char    line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	puts(line);
	fflush(stdout);
}

void fail(const char *doing, const zkl_error *error)
{
	say("failed %s: %s: %s", doing, zkl_error_name(error->code), error->message);
	_exit(1);
}

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_us(int us)
{
	nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* ---- what is done in a grant ---- */

static int open_in(const char *folder, const char *name, int flags)
{
	char file[512];
	snprintf(file, sizeof file, "%s/%s", folder, name);
	int fd = open(file, flags | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		say("failed %s: %s", file, strerror(errno));
		_exit(1);
	}
	return fd;
}

/* The record lock is the kernel's: it goes with its process, whatever ends that. */
static int record(short type)
{
	return fcntl(held_file, F_SETLK, &(struct flock){.l_type = type, .l_whence = SEEK_SET});
}

void use(const zkl_grant *grant)
{
	if (record(F_WRLCK) != 0) {
		say("overlap %" PRIu64 " %" PRIu64, grant->epoch, grant->token);
		_exit(3);
	}
	dprintf(grants_file, "%s %" PRIu64 " %" PRIu64 "\n", id, grant->epoch, grant->token);
	pause_us((int)(now_ns() % (1000 * most_ms + 1)));
	record(F_UNLCK);
}

/* ---- how long one may act ---- */

typedef struct watching {
	check_fn *check;
	uint64_t  token;
} watching;

static void *ask(void *user)
{
	watching w = *(watching *)user;
	int64_t  yes_ns = 0, asked_ns = now_ns();
	free(user);
	while (w.check(w.token) > 0) {
		yes_ns = asked_ns;
		pause_us(50);
		asked_ns = now_ns();
	}
	say("no %" PRId64, yes_ns);
	return NULL;
}

void watch(check_fn *check, uint64_t token)
{
	pthread_t thread;
	watching *w = malloc(sizeof *w);
	if (w == NULL)
		abort();
	*w = (watching){check, token};
	pthread_create(&thread, NULL, ask, w);
	pthread_detach(thread);
}

/* ---- commands ---- */

/* Until so many more heartbeats were sent. */
static void wait_for_heartbeats(uint64_t count)
{
	zkl_stats stats = ZKL_STATS_INIT;
	zkl_session_stats(session, &stats);
	for (uint64_t wanted = stats.heartbeats + count; stats.heartbeats < wanted; zkl_session_stats(session, &stats))
		pause_us(1000);
	say("beaten");
}

static void *take_turns(void *unused)
{
	(void)unused;
	the->grants();
	say("stopped");
	return NULL;
}

static void obey(const char *word, const char *argument)
{
	static pthread_t working;
	if (strcmp(word, "grants") == 0) {
		most_ms = atoi(argument);
		pthread_create(&working, NULL, take_turns, NULL);
	} else if (strcmp(word, "stop") == 0) {
		the->stop();
		pthread_join(working, NULL);
	} else if (strcmp(word, "intrude") == 0) {
		say(record(F_WRLCK) == 0 ? "intruding" : "failed");
	} else if (strcmp(word, "beats") == 0) {
		wait_for_heartbeats((uint64_t)atoi(argument));
	} else if (!the->obey(word)) {
		say("failed: unknown command %s", word);
		_exit(1);
	}
}

int main(int argc, char **argv)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_error           error;
	char                line[128], word[32], argument[32];
	if (argc != 7)
		return 64;
	the = strcmp(argv[1], latch_recipe.name) == 0 ? &latch_recipe : &lock_recipe;
	options.servers = argv[2];
	options.timeout_ms = atoi(argv[3]);
	options.name = id = argv[5];
	path = argv[4];
	held_file = open_in(argv[6], "held", O_RDWR);
	grants_file = open_in(argv[6], "grants", O_WRONLY | O_APPEND);
	if (zkl_session_open(&options, &session, &error) != ZKL_OK || the->open(&error) != ZKL_OK)
		fail("open", &error);
	say("ready %d", (int)getpid());
	while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "quit\n") != 0) {
		*argument = '\0';
		if (sscanf(line, "%31s %31s", word, argument) >= 1)
			obey(word, argument);
	}
	if (feof(stdin))
		_exit(0); /* as a kill would: there is nobody left to wait for anything */
	the->close();
	return zkl_session_close(session, RELEASE_MS) != ZKL_OK;
}
