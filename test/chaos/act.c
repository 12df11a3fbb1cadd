/* SPDX-License-Identifier: Apache-2.0 */
#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* An act is done in less, unless the process is stopped or the machine stands still. */
#define ACT_MS 20

static int         history, counter, fence;
static char        stay[512];
static const char *resource;
static int64_t     stay_ns;
static unsigned    state;

/* The system call, since a shim may stand in for the function. */
int64_t now_ns(void)
{
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t any_below(int64_t most)
{
	return most > 0 ? rand_r(&state) % most : 0;
}

void pause_ms(int64_t ms)
{
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void must(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	_exit(1);
}

void note(const char *format, ...)
{
	char    line[512];
	va_list args;
	va_start(args, format);
	int length = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	line[length++] = '\n';
	must(write(history, line, (size_t)length) == length, "history");
}

static int open_file(const char *folder, const char *name, const char *suffix, int flags)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
	int fd = open(path, flags | O_CREAT | O_CLOEXEC, 0666);
	must(fd >= 0, path);
	return fd;
}

void acts_open(const char *folder, const char *name, unsigned seed, int64_t session_ms)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char              *prefix = strdup(name);
	must(prefix != NULL, "memory");
	prefix[strcspn(prefix, ".")] = '\0';
	resource = prefix;
	state = seed + (unsigned)getpid();
	stay_ns = 3 * session_ms * 1000000;
	history = open_file(folder, name, ".history", O_WRONLY | O_APPEND);
	counter = open_file(folder, resource, ".counter", O_RDWR);
	snprintf(stay, sizeof stay, "%s/%s.stay", folder, name);
	snprintf(address.sun_path, sizeof address.sun_path, "%s/register", folder);
	fence = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	must(fence >= 0 && connect(fence, (struct sockaddr *)&address, sizeof address) == 0, "register");
}

/* ---- an act ---- */

static int64_t read_counter(void)
{
	char    text[32] = "";
	ssize_t length = pread(counter, text, sizeof text - 1, 0);
	must(length >= 0, "counter");
	return atoll(text);
}

static void write_counter(int64_t value)
{
	char text[32];
	int  length = snprintf(text, sizeof text, "%20" PRId64, value);
	must(pwrite(counter, text, (size_t)length, 0) == length, "counter");
}

/* What the register answers: its number, -1: refused. value -1: reads. */
static int64_t ask_register(uint64_t token, int64_t value)
{
	char text[128];
	int  length = snprintf(text, sizeof text, "%s %" PRIu64 " %" PRId64, resource, token, value);
	must(send(fence, text, (size_t)length, MSG_NOSIGNAL) == length, "register");
	ssize_t got = recv(fence, text, sizeof text - 1, 0);
	must(got > 0, "register");
	text[got] = '\0';
	return atoll(text);
}

static void act(int64_t began_ns, int64_t left_ms, uint64_t token)
{
	int64_t count = read_counter(), guarded = ask_register(token, -1);
	pause_ms(1 + any_below(8));
	write_counter(count + 1);
	if (guarded >= 0)
		guarded = ask_register(token, guarded + 1);
	note("act %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRId64 " %" PRId64, began_ns, now_ns(), left_ms,
	     token, count + 1, guarded);
}

bool acts_work(uint64_t token, int64_t least_ms, int64_t most_ms, may_fn *may, const volatile bool *stop)
{
	int64_t began_ns = now_ns(), end_ns = began_ns + (least_ms + any_below(most_ms - least_ms)) * 1000000;
	int64_t at_ns = began_ns;
	while (!*stop && (at_ns < end_ns || (at_ns < began_ns + stay_ns && access(stay, F_OK) == 0))) {
		int64_t left_ms = may(token);
		if (left_ms <= 0) {
			unlink(stay); /* meant for this hold */
			return false;
		}
		if (left_ms > ACT_MS)
			act(at_ns, left_ms, token);
		pause_ms(any_below(8));
		at_ns = now_ns();
	}
	return true;
}
