/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_RUN_OPTIONS_H
#define ZKLOCK_RUN_OPTIONS_H

/* run_options.h: what zklock-run was asked for: its command line.
 *
 * Nothing here reads a file or the environment. What is wrong is said in one line, to be printed as it is, in ret_why
 * of ZKL__WHY_MAX bytes. */

#include "message.h"

#include <stdbool.h>
#include <stdint.h>

/* Of the session timeout: what -k is by default, and at most. */
#define ZKL__GRACE_PART      8
#define ZKL__GRACE_MOST_PART 4

enum zkl__run_what { ZKL__RUN_COMMAND, ZKL__RUN_HELP, ZKL__RUN_VERSION };

/* Strings point into argv. */
struct zkl__run_options {
	enum zkl__run_what what;
	const char        *servers, *auth_file; /* NULL: not given */
	const char        *name;                /* NULL: the program's own */
	const char        *path;
	char *const       *command;
	int64_t            wait_ms; /* 0: try; ZKL_FOREVER: no -w */
	int64_t            timeout_ms, connect_ms, min_hold_ms;
	int64_t            max_hold_ms; /* 0: no limit */
	int64_t            margin_ms;   /* 0: the library's default */
	int64_t            grace_ms;    /* -k, or the default for timeout_ms */
	bool               grace_given;
	int                busy_status;
	bool               leader, wait_all, pidns, verbose, quiet;
};

/* 0; -1: wrong, and *ret_why says what. */
int zkl__run_options_parse(int argc, char **argv, struct zkl__run_options *ret, char *ret_why);

/* Do grace and margin fit into this session timeout? granted: it is what the servers made of the one that was asked for.
 * -1: *ret_why. */
int zkl__run_options_fit(const struct zkl__run_options *options, int64_t timeout_ms, bool granted, char *ret_why);

extern const char zkl__run_help[];

#endif
