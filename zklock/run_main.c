/* SPDX-License-Identifier: Apache-2.0 */

/* zklock-run: runs a command while holding a lock, never longer.
 *
 * Everything before the first request and after the last one: what was asked for, where the servers are, the state that
 * the command inherits, how the process ends. What lies between is front.h. */

#include "alarm.h"
#include "front.h"
#include "message.h"
#include "nesting.h"
#include "pidns.h"
#include "run_config.h"
#include "run_options.h"
#include "terminal.h"
#include "wrapper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIGURATION "/etc/zklock.conf"

/* What the servers are asked with. Ours to free. */
struct access {
	char *servers, *auth; /* auth NULL: none */
};

/* ---- files ---- */

/* A file to be read, `size` bytes of it at most. Returns the length; -1: *ret_why, or "" where there is no such file. */
static ssize_t read_file(const char *path, bool secret, char *text, size_t size, char *ret_why)
{
	FILE       *file = fopen(path, "re");
	struct stat status = {0};
	size_t      length = 0;

	if (file != NULL) {
		setvbuf(file, NULL, _IONBF, 0); /* no copy is left behind */
		length = fread(text, 1, size, file);
	}
	const int error = file == NULL || ferror(file) || fstat(fileno(file), &status) < 0 ? errno : 0;
	if (file != NULL)
		fclose(file);
	ret_why[0] = '\0';
	if (error != 0 && (secret || error != ENOENT))
		snprintf(ret_why, ZKL__WHY_MAX, "%.300s: %s", path, strerror(error));
	else if (error == 0 && secret && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		snprintf(ret_why, ZKL__WHY_MAX,
		         "%.300s: credentials that others than the owner have access to: chmod 600", path);
	else if (length == size)
		snprintf(ret_why, ZKL__WHY_MAX, "%.300s: too long", path);
	return error != 0 || ret_why[0] != '\0' ? -1 : (ssize_t)length;
}

/* An empty one where there is no file. */
static int read_configuration(struct zkl__config *ret, char *ret_why)
{
	char          text[16384], wrong[ZKL__WHY_MAX];
	const ssize_t length = read_file(CONFIGURATION, false, text, sizeof(text), ret_why);

	*ret = (struct zkl__config){NULL, NULL};
	if (length < 0)
		return ret_why[0] != '\0' ? -1 : 0;
	if (zkl__config_parse(text, (size_t)length, ret, wrong) == 0)
		return 0;
	snprintf(ret_why, ZKL__WHY_MAX, CONFIGURATION ", %.400s", wrong);
	return -1;
}

static int read_auth(const char *path, char **ret, char *ret_why)
{
	char          text[16384], wrong[ZKL__WHY_MAX];
	const ssize_t length = read_file(path, true, text, sizeof(text), ret_why);
	int           rc = length < 0 ? -1 : 0;

	if (rc == 0 && zkl__auth_parse(text, (size_t)length, ret, wrong) < 0) {
		snprintf(ret_why, ZKL__WHY_MAX, "%.100s, %.350s", path, wrong);
		rc = -1;
	}
	explicit_bzero(text, sizeof(text));
	return rc;
}

/* ---- access ---- */

/* As was given, else as in the environment. NULL: neither. */
static const char *given_or_set(const char *option, const char *variable)
{
	const char *value = option != NULL ? option : getenv(variable);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static int find_with(const char *servers, const char *auth_file, struct access *ret, char *ret_why)
{
	if (servers == NULL) {
		snprintf(ret_why, ZKL__WHY_MAX,
		         "no servers given: use -s, or " ZKL__SERVERS_VARIABLE
		         " in the environment or in " CONFIGURATION);
		return -1;
	}
	if (auth_file != NULL && read_auth(auth_file, &ret->auth, ret_why) < 0)
		return -1;
	ret->servers = strdup(servers);
	if (ret->servers != NULL)
		return 0;
	snprintf(ret_why, ZKL__WHY_MAX, "out of memory");
	return -1;
}

/* The configuration counts for what is given nowhere else. One that cannot be read is not passed over where it might name
 * credentials: what is made without them is open to everybody. */
static int find_access(const struct zkl__run_options *options, struct access *ret, char *ret_why)
{
	const char        *servers = given_or_set(options->servers, ZKL__SERVERS_VARIABLE);
	const char        *auth_file = given_or_set(options->auth_file, ZKL__AUTH_FILE_VARIABLE);
	struct zkl__config config = {NULL, NULL};

	if ((servers == NULL || auth_file == NULL) && read_configuration(&config, ret_why) < 0)
		return -1;
	const int rc = find_with(servers != NULL ? servers : config.servers,
	                         auth_file != NULL ? auth_file : config.auth_file, ret, ret_why);
	zkl__config_clear(&config);
	return rc;
}

static void forget_access(struct access *access)
{
	if (access->auth != NULL)
		explicit_bzero(access->auth, strlen(access->auth));
	free(access->auth);
	free(access->servers);
}

/* ---- the whole ---- */

static int refuse(int status, const char *why)
{
	zkl__message_say("%s", why);
	return status;
}

/* Told before anything waits for the lock, and not when it is had. */
static bool pidns_is_possible(const struct zkl__child_options *child)
{
	const char *step;

	if (zkl__pidns_probe(child, &step) == 0)
		return true;
	zkl__message_say("--pidns: %s: %s: be root, or permit user namespaces", step, strerror(errno));
	return false;
}

static int run(struct zkl__front *front, struct zkl__child_options *child)
{
	front->terminal = child->terminal = zkl__terminal_open();
	front->signals = zkl__wrapper_take_signals(&child->mask, &child->ignores_chld);
	if (!zkl__wrapper_sees_processes() || (child->pidns && !pidns_is_possible(child)))
		return ZKL__STATUS_FAILED;
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

/* Sees that we would not wait for ourselves. */
static int run_with(int argc, char **argv, const struct zkl__run_options *options, const struct access *access,
                    int64_t started_ns)
{
	char *name = zkl__nesting_name(access->servers, options->path);
	char *held = NULL;
	int   status;

	if (name != NULL && zkl__nesting_check(getenv(ZKL__HELD_VARIABLE), name, &held)) {
		status = refuse(ZKL__STATUS_USAGE,
		                "this process runs under the same lock already: it would wait for itself");
	} else if (held == NULL) {
		status = refuse(ZKL__STATUS_FAILED, "out of memory");
	} else {
		struct zkl__front front = {
			.options = options, .servers = access->servers, .auth = access->auth, .started_ns = started_ns};
		struct zkl__child_options child = {.argc = argc,
		                                   .argv = argv,
		                                   .command = options->command,
		                                   .path = options->path,
		                                   .name = name,
		                                   .held = held,
		                                   .pidns = options->pidns};
		status = run(&front, &child);
	}
	free(held);
	free(name);
	return status;
}

static int run_command(int argc, char **argv, const struct zkl__run_options *options, int64_t started_ns)
{
	struct access access = {NULL, NULL};
	char          why[ZKL__WHY_MAX];
	const int     status = find_access(options, &access, why) < 0 ? refuse(ZKL__STATUS_USAGE, why)
	                                                              : run_with(argc, argv, options, &access, started_ns);

	forget_access(&access);
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
