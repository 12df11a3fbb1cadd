/* SPDX-License-Identifier: Apache-2.0 */

/* zklock-run: runs a command while holding a lock, never longer.
 *
 * Everything before the first request and after the last one: what was asked for, where the servers are, the state that
 * the command inherits, how the process ends. What lies between is front.h. */

#include "alarm.h"
#include "front.h"
#include "message.h"
#include "nesting.h"
#include "run_options.h"
#include "terminal.h"
#include "wrapper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATION "/etc/zklock.conf"

/* ---- the servers ---- */

/* NULL: *ret_why. The caller's to free. */
static char *read_configuration(char *ret_why)
{
	char   text[16384], wrong[ZKL__WHY_MAX], *servers = NULL;
	FILE  *file = fopen(CONFIGURATION, "re");
	size_t length = file == NULL ? 0 : fread(text, 1, sizeof(text), file);
	int    error = file == NULL || ferror(file) ? errno : 0;

	if (file != NULL)
		fclose(file);
	if (error != 0 && error != ENOENT)
		snprintf(ret_why, ZKL__WHY_MAX, CONFIGURATION ": %s", strerror(error));
	else if (length == sizeof(text))
		snprintf(ret_why, ZKL__WHY_MAX, CONFIGURATION ": too long");
	else if (zkl__config_parse(text, length, &servers, wrong) < 0)
		snprintf(ret_why, ZKL__WHY_MAX, CONFIGURATION ", %.400s", wrong);
	else if (servers == NULL)
		snprintf(ret_why, ZKL__WHY_MAX,
		         "no servers given: use -s, or " ZKL__SERVERS_VARIABLE
		         " in the environment or in " CONFIGURATION);
	return servers;
}

static char *find_servers(const struct zkl__run_options *options, char *ret_why)
{
	const char *servers = options->servers != NULL ? options->servers : getenv(ZKL__SERVERS_VARIABLE);

	if (servers == NULL || servers[0] == '\0')
		return read_configuration(ret_why);
	char *copy = strdup(servers);
	if (copy == NULL)
		snprintf(ret_why, ZKL__WHY_MAX, "out of memory");
	return copy;
}

/* ---- the whole ---- */

static int refuse(int status, const char *why)
{
	zkl__message_say("%s", why);
	return status;
}

static int run(struct zkl__front *front, struct zkl__child_options *child)
{
	front->terminal = child->terminal = zkl__terminal_open();
	front->signals = zkl__wrapper_take_signals(&child->mask, &child->ignores_chld);
	if (front->signals < 0 || zkl__child_open(&front->child, child) < 0) {
		zkl__message_say("cannot start: %s", strerror(errno));
		return ZKL__STATUS_FAILED;
	}
	const struct zkl__supervisor_exit *how = &front->supervisor.exit;
	int                                status = zkl__front_open(front);
	if (status == 0) {
		zkl__front_run(front);
		status = how->status;
	}
	zkl__front_close(front);
	if (!how->own && how->signal == 0 && front->why[0] != '\0')
		zkl__message_say("%s", front->why);
	if (how->signal != 0)
		zkl__wrapper_die_by(how->signal);
	return status;
}

/* Finds the servers, and sees that we would not wait for ourselves. */
static int run_command(int argc, char **argv, const struct zkl__run_options *options, int64_t started_ns)
{
	char  why[ZKL__WHY_MAX];
	char *servers = find_servers(options, why);
	char *name = servers == NULL ? NULL : zkl__nesting_name(servers, options->path);
	char *held = NULL;
	int   status;

	if (servers == NULL) {
		status = refuse(ZKL__STATUS_USAGE, why);
	} else if (name != NULL && zkl__nesting_check(getenv(ZKL__HELD_VARIABLE), name, &held)) {
		status = refuse(ZKL__STATUS_USAGE,
		                "this process runs under the same lock already: it would wait for itself");
	} else if (held == NULL) {
		status = refuse(ZKL__STATUS_FAILED, "out of memory");
	} else {
		struct zkl__front         front = {.options = options, .servers = servers, .started_ns = started_ns};
		struct zkl__child_options child = {.argc = argc,
		                                   .argv = argv,
		                                   .command = options->command,
		                                   .path = options->path,
		                                   .name = name,
		                                   .held = held};
		status = run(&front, &child);
	}
	free(held);
	free(name);
	free(servers);
	return status;
}

int main(int argc, char **argv)
{
	const int64_t           started_ns = zkl__alarm_now();
	struct zkl__run_options options;
	char                    why[ZKL__WHY_MAX];

	zkl__wrapper_fill_descriptors();
	if (zkl__run_options_parse(argc, argv, &options, why) < 0)
		return refuse(ZKL__STATUS_USAGE, why);
	if (options.what == ZKL__RUN_HELP)
		return zkl__wrapper_print(zkl__run_help);
	if (options.what == ZKL__RUN_VERSION)
		return zkl__wrapper_print_version();
	return run_command(argc, argv, &options, started_ns);
}
