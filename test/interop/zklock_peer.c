/* SPDX-License-Identifier: Apache-2.0 */
/* zklock as a contender: zklock_peer lock SERVERS SESSION_MS PATH ID FOLDER
 *
 * Commands come as lines on standard input, answers and events go as lines to standard output; peers.py has the list.
 * Moments are CLOCK_MONOTONIC. The end of standard input is the end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zklock/lock.h>

#define RELEASE_MS 30000

static zkl_session *session;
static zkl_lock    *lock;
static zkl_grant    held;
static const char  *path, *id;
static int          held_file, grants_file;
static int          most_ms;
static atomic_bool  stopping;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
	char    line[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	puts(line);
	fflush(stdout);
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *doing, const zkl_error *error)
{
	say("failed %s: %s: %s", doing, zkl_error_name(error->code), error->message);
	_exit(1);
}

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- what is done under the lock: to be alone there, and to be seen there ---- */

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

static void use(const zkl_grant *grant)
{
	if (record(F_WRLCK) != 0) {
		say("overlap %" PRIu64 " %" PRIu64, grant->epoch, grant->token);
		_exit(3);
	}
	dprintf(grants_file, "%s %" PRIu64 " %" PRIu64 "\n", id, grant->epoch, grant->token);
	pause_ms(rand() % (most_ms + 1));
	record(F_UNLCK);
}

/* ---- one grant after the other ---- */

static void *grants(void *unused)
{
	zkl_grant grant;
	zkl_error error;
	(void)unused;
	while (!atomic_load(&stopping)) {
		if (zkl_lock_acquire(lock, ZKL_FOREVER, &grant, &error) != ZKL_OK)
			fail("acquire", &error);
		if (zkl_lock_check(lock, grant.token) > 0)
			use(&grant);
		/* A busy machine may lose a lock; then it is the others' as well. */
		int r = zkl_lock_release(lock, RELEASE_MS, &error);
		if (r != ZKL_OK && r != ZKL_ENOTHELD)
			fail("release", &error);
	}
	say("stopped");
	return NULL;
}

/* ---- one grant, held for as long as is asked for ---- */

/* Asks check() until it says no. A yes is stamped with the moment before the call. */
static void *watch(void *unused)
{
	int64_t yes_ns = 0, asked_ns = now_ns();
	(void)unused;
	while (zkl_lock_check(lock, held.token) > 0) {
		yes_ns = asked_ns;
		nanosleep(&(struct timespec){0, 50000}, NULL);
		asked_ns = now_ns();
	}
	say("no %" PRId64, yes_ns);
	return NULL;
}

static void acquire(void)
{
	zkl_error error;
	if (zkl_lock_acquire(lock, ZKL_FOREVER, &held, &error) != ZKL_OK)
		fail("acquire", &error);
	say("held %" PRIu64 " %" PRIu64 " %" PRId64, held.epoch, held.token, now_ns());
}

static void release(void)
{
	zkl_error error;
	int       r = zkl_lock_release(lock, RELEASE_MS, &error);
	if (r != ZKL_OK && r != ZKL_ENOTHELD)
		fail("release", &error);
	say(r == ZKL_OK ? "released" : "released late");
}

static void show_queue(bool holder)
{
	zkl_peer  peer;
	zkl_error error;
	int       r = zkl_lock_holder(session, path, &peer, &error);
	if (r < 0)
		fail("holder", &error);
	if (holder)
		say("holder %s", r > 0 ? peer.id : "nobody");
	else
		say("participants %d", r);
}

/* ---- commands ---- */

static void obey(const char *word, const char *argument)
{
	static pthread_t working;
	pthread_t        watching;
	if (strcmp(word, "grants") == 0) {
		most_ms = atoi(argument);
		pthread_create(&working, NULL, grants, NULL);
	} else if (strcmp(word, "stop") == 0) {
		atomic_store(&stopping, true);
		pthread_join(working, NULL);
	} else if (strcmp(word, "acquire") == 0) {
		acquire();
	} else if (strcmp(word, "watch") == 0) {
		pthread_create(&watching, NULL, watch, NULL);
		pthread_detach(watching);
	} else if (strcmp(word, "release") == 0) {
		release();
	} else if (strcmp(word, "holder") == 0 || strcmp(word, "participants") == 0) {
		show_queue(*word == 'h');
	} else {
		say("failed: unknown command %s", word);
		_exit(1);
	}
}

int main(int argc, char **argv)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_error           error;
	char                line[128], word[32], argument[32];
	if (argc != 7 || strcmp(argv[1], "lock") != 0)
		return 64;
	options.servers = argv[2];
	options.timeout_ms = atoi(argv[3]);
	options.name = id = argv[5];
	path = argv[4];
	held_file = open_in(argv[6], "held", O_RDWR);
	grants_file = open_in(argv[6], "grants", O_WRONLY | O_APPEND);
	srand((unsigned)getpid());
	if (zkl_session_open(&options, &session, &error) != ZKL_OK ||
	    zkl_lock_new(session, path, NULL, &lock, &error) != ZKL_OK)
		fail("open", &error);
	say("ready %d", (int)getpid());
	while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "quit\n") != 0) {
		*argument = '\0';
		if (sscanf(line, "%31s %31s", word, argument) >= 1)
			obey(word, argument);
	}
	if (feof(stdin))
		_exit(0); /* as a kill would: there is nobody left to wait for anything */
	zkl_lock_free(lock);
	return zkl_session_close(session, RELEASE_MS) != ZKL_OK;
}
