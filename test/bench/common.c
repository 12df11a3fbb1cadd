/* SPDX-License-Identifier: Apache-2.0 */
#include "common.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS INT64_C(60000000000)

int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

zkl_session *connected_session(const char *servers, int session_ms)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_session        *session;
	zkl_stats           stats = ZKL_STATS_INIT;
	zkl_error           error;
	const int64_t       end = now_ns() + PATIENCE_NS;

	options.servers = servers;
	options.timeout_ms = session_ms;
	if (zkl_session_open(&options, &session, &error) < 0)
		die("%s", error.message);
	while (zkl_session_stats(session, &stats) == 0 && !stats.connected) {
		if (now_ns() > end)
			die("no server answers at %s", servers);
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	}
	return session;
}

void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args); // NOLINT(clang-analyzer-valist.Uninitialized)
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}
