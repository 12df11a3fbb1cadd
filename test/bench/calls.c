/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are not the lock's protocol, beside what they cannot do without: bench_calls SERVER FOLDER PAIRS
 *
 * Prints lines: NAME NS FLOOR_NS, a pair of batches each. */
#define THREADED /* the multi-threaded client's prototypes */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zklock/fence.h>
#include <zklock/guarded.h>
#include <zklock/lock.h>
#include <zookeeper/zookeeper.h>

#define LOCK_PATH  "/bench/calls/lock"
#define GUARDED    "/bench/calls/guarded"
#define VALUE      "a value of the size of a name"
#define SESSION_MS 10000

static zkl_session    *session;
static zkl_lock       *lock_held;
static zkl_grant       grant;
static zkl_fence      *in_memory, *on_file;
static uint64_t        token = 1;
static _Atomic int64_t mark = 1;
static int             plain_fd;
static zhandle_t      *handle;
static sem_t           answered;
static volatile bool   sink; /* keeps what is measured from being left out */

static void expect(bool met, const char *doing)
{
	if (!met)
		die("%s failed: %s", doing, strerror(errno));
}

/* ---- what is compared ---- */

static void check(void)
{
	sink = zkl_lock_check(lock_held, grant.token) > 0;
}

static void read_clock(void)
{
	struct timespec t;

	sink = clock_gettime(CLOCK_BOOTTIME, &t) == 0;
}

static void admit(void)
{
	sink = zkl_fence_admit(in_memory, 1, NULL, NULL, NULL) == 0;
}

static void compare(void)
{
	int64_t expected = 1;

	sink = atomic_compare_exchange_strong(&mark, &expected, 1);
}

static void raise_mark(void)
{
	expect(zkl_fence_admit(on_file, ++token, NULL, NULL, NULL) == 0, "raising the mark");
}

static void write_through(void)
{
	char text[64] = "";

	snprintf(text, sizeof text, "%020llu", (unsigned long long)++token);
	expect(pwrite(plain_fd, text, sizeof text, 0) == sizeof text && fdatasync(plain_fd) == 0, "writing");
}

static void set_guarded(void)
{
	expect(zkl_guarded_set(session, &grant, GUARDED, VALUE, sizeof VALUE, -1, SESSION_MS, NULL) == 0,
	       "guarded set");
}

static void on_set(int rc, const struct Stat *stat, const void *data)
{
	(void)stat, (void)data;
	expect(rc == ZOK, "set");
	sem_post(&answered);
}

static void set(void)
{
	expect(zoo_aset(handle, GUARDED, VALUE, sizeof VALUE, -1, on_set, NULL) == ZOK, "set");
	sem_wait(&answered);
}

static const struct comparison {
	const char *name;
	void (*subject)(void), (*floor)(void);
	/* Short ones where nothing waits: so most of them are not interrupted. Of the others few at a time: disk and servers are
	 * then the same to both. */
	int batch, batches;
} comparisons[] = {
	{"check", check, read_clock, 200, 50},
	{"admit", admit, compare, 200, 50},
	{"raise", raise_mark, write_through, 5, 4},
	{"set", set_guarded, set, 5, 4},
};

/* ---- measuring ---- */

static double each_ns(void (*call)(void), int count)
{
	int64_t began = now_ns();

	for (int i = 0; i < count; i++)
		call();
	return (double)(now_ns() - began) / count;
}

static void measure(const struct comparison *c, int pairs)
{
	each_ns(c->floor, c->batch);
	each_ns(c->subject, c->batch);
	for (int i = 0; i < pairs * c->batches; i++) {
		double floor_ns = each_ns(c->floor, c->batch);

		printf("%s %.2f %.2f\n", c->name, each_ns(c->subject, c->batch), floor_ns);
	}
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)zh, (void)path, (void)context;
	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		sem_post(&answered);
}

static void connect_plain(const char *servers)
{
	sem_init(&answered, 0, 0);
	zoo_set_debug_level((ZooLogLevel)0);
	handle = zookeeper_init(servers, on_session, SESSION_MS, NULL, NULL, 0);
	expect(handle != NULL, "zookeeper_init");
	sem_wait(&answered);
}

static void take_lock(const char *servers)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;

	options.servers = servers;
	options.timeout_ms = SESSION_MS;
	expect(zkl_session_open(&options, &session, NULL) == 0, "opening the session");
	expect(zkl_lock_new(session, LOCK_PATH, NULL, &lock_held, NULL) == 0, "making the lock");
	expect(zkl_lock_acquire(lock_held, ZKL_FOREVER, &grant, NULL) == 0, "acquiring the lock");
}

static void open_files(const char *folder)
{
	char name[512];

	snprintf(name, sizeof name, "%s/fence", folder);
	expect(zkl_fence_open(name, &on_file, NULL) == 0 && zkl_fence_open(NULL, &in_memory, NULL) == 0,
	       "opening the fences");
	snprintf(name, sizeof name, "%s/plain", folder);
	plain_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	expect(plain_fd >= 0 && pwrite(plain_fd, name, sizeof name, 0) == sizeof name && fsync(plain_fd) == 0,
	       "making a file");
}

int main(int argc, char **argv)
{
	if (argc != 4)
		die("usage: bench_calls SERVER FOLDER PAIRS");
	connect_plain(argv[1]);
	take_lock(argv[1]);
	open_files(argv[2]);
	expect(zkl_guarded_create(session, &grant, GUARDED, VALUE, sizeof VALUE, SESSION_MS, NULL) == 0, "create");
	for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
		measure(&comparisons[i], atoi(argv[3]));
	zkl_lock_free(lock_held);
	zkl_session_close(session, SESSION_MS);
	zookeeper_close(handle);
	zkl_fence_close(in_memory);
	zkl_fence_close(on_file);
	close(plain_fd);
	return 0;
}
