/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_RUN_OPTIONS_H
#define ZKLOCK_RUN_OPTIONS_H

/* run_options.h: what zklock-run was asked for: its command line, durations, and the text of /etc/zklock.conf.
 *
 * Nothing here reads a file or the environment. What is wrong is said in one line, to be printed as it is, in ret_why
 * of ZKL__WHY_MAX bytes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZKL__SERVERS_VARIABLE "ZKLOCK_SERVERS"
#define ZKL__WHY_MAX          512

/* Of the session timeout: what -k is by default, and at most. */
#define ZKL__GRACE_PART      8
#define ZKL__GRACE_MOST_PART 4

enum zkl__run_what { ZKL__RUN_COMMAND, ZKL__RUN_HELP, ZKL__RUN_VERSION };

/* Strings point into argv. */
struct zkl__run_options {
	enum zkl__run_what what;
	const char        *servers; /* NULL: not given */
	const char        *path;
	char *const       *command;
	int64_t            wait_ms; /* 0: try; ZKL_FOREVER: no -w */
	int64_t            timeout_ms, connect_ms, min_hold_ms;
	int64_t            grace_ms; /* -k, or the default for timeout_ms */
	bool               grace_given;
	int                busy_status;
	bool               verbose, quiet;
};

/* 0; -1: wrong, and *ret_why says what. */
int zkl__run_options_parse(int argc, char **argv, struct zkl__run_options *ret, char *ret_why);

/* "90", "1.5", ".5", "250ms", "2s", "1.5m", "12h": milliseconds, rounded up, so that nothing that is waited for is over
 * too early. Always with a point, whatever the locale. -1: not a duration, or more than 146 years. */
int zkl__duration_parse(const char *text, int64_t *ret_ms);

/* Lines KEY=VALUE; comments begin with '#'; blanks around key and value do not count, nor do quotes around the value.
 * The last value of a key wins. 0, and *ret_servers is the caller's to free, NULL where the key is missing. -1:
 * *ret_why. */
int zkl__config_parse(const char *text, size_t length, char **ret_servers, char *ret_why);

extern const char zkl__run_help[];

#endif
