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
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIGURATION "/etc/zklock.conf"

/* That we have open at once, beside the standard ones: the terminal and, once more, standard error; the signals, the warden's
 * socket, the keeper's pipe and the cgroup; four timers and events; two of the client's and its connection. And four for a
 * moment: whoever has none left cannot walk through the processes to end the command. The warden has fewer. */
#define DESCRIPTORS (13 + 4)

/* What the servers are asked with. Ours to free. */
struct access {
	char       *servers, *auth; /* auth NULL: none */
	const char *servers_from;   /* static; as messages name it */
	char        auth_from[400]; /* likewise, with the file */
};

/* ---- descriptors ---- */

/* Later on, for want of them, it would look as if the servers did not answer. */
static bool has_descriptors(void)
{
	int           list[DESCRIPTORS], count = 0;
	struct rlimit limit;

	while (count < DESCRIPTORS && (list[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
		count++;
	const int error = errno, lacking = DESCRIPTORS - count;
	while (count > 0)
		close(list[--count]);
	if (lacking == 0)
		return true;
	if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		zkl__message_say(
			"cannot start: %s: the limit of descriptors (ulimit -n), which is %ju, must be %ju at least",
			strerror(error), (uintmax_t)limit.rlim_cur, (uintmax_t)limit.rlim_cur + (uintmax_t)lacking);
	else
		zkl__message_say("cannot start: %s", strerror(error));
	return false;
}

/* ---- files ---- */

/* No file's fault. */
static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

static int refuse_file(const char *path, const char *reason, int status, char *ret_why)
{
	snprintf(ret_why, ZKL__WHY_MAX, "%.300s: %s", path, reason);
	return status;
}

static int refuse_error(const char *path, int error, char *ret_why)
{
	return refuse_file(path, strerror(error), is_shortage(error) ? ZKL__STATUS_FAILED : ZKL__STATUS_USAGE, ret_why);
}

/* To the end, or until it is full. */
static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t  length = 0;
	ssize_t part;

	while (length < size && (part = read(fd, text + length, size - length)) != 0) {
		if (part < 0 && errno != EINTR)
			return -1;
		length += part > 0 ? (size_t)part : 0;
	}
	return (ssize_t)length;
}

static int read_open_file(int fd, const char *path, bool secret, char *text, size_t size, size_t *ret_length,
                          char *ret_why)
{
	struct stat status;

	fcntl(fd, F_SETFL, 0); /* who writes to a pipe may take a while */
	const ssize_t length = read_all(fd, text, size);
	if (length < 0 || fstat(fd, &status) < 0)
		return refuse_error(path, errno, ret_why);
	if (secret && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
		return refuse_file(path, "credentials that others than the owner have access to: chmod 600",
		                   ZKL__STATUS_USAGE, ret_why);
	if ((size_t)length == size)
		return refuse_file(path, "too long", ZKL__STATUS_USAGE, ret_why);
	*ret_length = (size_t)length;
	return 0;
}

/* A file to be read, less than `size` bytes of it. 0, or a status: *ret_why. One that need not be there is empty where it is
 * not. A pipe that nobody has open for writing is empty, too, and not waited for. */
static int read_file(const char *path, bool secret, char *text, size_t size, size_t *ret_length, char *ret_why)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*ret_length = 0;
	if (fd < 0)
		return !secret && errno == ENOENT ? 0 : refuse_error(path, errno, ret_why);
	const int rc = read_open_file(fd, path, secret, text, size, ret_length, ret_why);
	close(fd);
	return rc;
}

static int no_memory(char *ret_why)
{
	snprintf(ret_why, ZKL__WHY_MAX, "out of memory");
	return ZKL__STATUS_FAILED;
}

static int read_configuration(struct zkl__config *ret, char *ret_why)
{
	char   text[16384], wrong[ZKL__WHY_MAX];
	size_t length;
	int    rc = read_file(CONFIGURATION, false, text, sizeof(text), &length, ret_why);

	if (rc == 0 && zkl__config_parse(text, length, ret, wrong) < 0) {
		snprintf(ret_why, ZKL__WHY_MAX, CONFIGURATION ", %.400s", wrong);
		rc = ZKL__STATUS_USAGE;
	}
	return rc;
}

/* ---- access ---- */

/* What can be given in three places, the first of which counts; and what messages call them. */
struct places {
	const char *option, *variable, *environment, *configuration;
};
#define PLACES(option, variable)                                                                                       \
	{                                                                                                              \
		option, variable, variable " in the environment", variable " in " CONFIGURATION                        \
	}
static const struct places servers_places = PLACES("-s", ZKL__SERVERS_VARIABLE);
static const struct places auth_file_places = PLACES("--auth-file", ZKL__AUTH_FILE_VARIABLE);

struct setting {
	const char *value, *from; /* NULL: given nowhere */
};

static struct setting given_or_set(const struct places *places, const char *given)
{
	const char *set = getenv(places->variable);

	if (given != NULL)
		return (struct setting){given, places->option};
	if (set != NULL && set[0] != '\0')
		return (struct setting){set, places->environment};
	return (struct setting){NULL, NULL};
}

static struct setting or_configured(const struct places *places, struct setting found, const char *configured)
{
	return found.value != NULL ? found : (struct setting){configured, places->configuration};
}

static int read_auth(const struct setting *file, char **ret, char *ret_why)
{
	char   text[16384], wrong[ZKL__WHY_MAX];
	size_t length;
	int    rc = read_file(file->value, true, text, sizeof(text), &length, wrong);

	if (rc == 0 && zkl__auth_parse(text, length, ret, wrong) < 0) {
		snprintf(ret_why, ZKL__WHY_MAX, "%s: %.280s, %.180s", file->from, file->value, wrong);
		rc = ZKL__STATUS_USAGE;
	} else if (rc != 0) {
		snprintf(ret_why, ZKL__WHY_MAX, "%s: %.460s", file->from, wrong);
	}
	explicit_bzero(text, sizeof(text));
	return rc;
}

static int find_with(const struct setting *servers, const struct setting *auth_file, struct access *ret, char *ret_why)
{
	if (servers->value == NULL) {
		snprintf(ret_why, ZKL__WHY_MAX,
		         "no servers given: use -s, or " ZKL__SERVERS_VARIABLE
		         " in the environment or in " CONFIGURATION);
		return ZKL__STATUS_USAGE;
	}
	int rc = 0;
	if (auth_file->value == NULL) {
		snprintf(ret->auth_from, sizeof(ret->auth_from), "no credentials were given");
	} else {
		snprintf(ret->auth_from, sizeof(ret->auth_from), "%s: %.300s", auth_file->from, auth_file->value);
		rc = read_auth(auth_file, &ret->auth, ret_why);
	}
	if (rc != 0)
		return rc;
	ret->servers_from = servers->from;
	ret->servers = strdup(servers->value);
	return ret->servers != NULL ? 0 : no_memory(ret_why);
}

/* 0, or a status. The configuration counts for what is given nowhere else. One that cannot be read is not passed over where
 * it might name credentials: what is made without them is open to everybody. */
static int find_access(const struct zkl__run_options *options, struct access *ret, char *ret_why)
{
	struct setting     servers = given_or_set(&servers_places, options->servers);
	struct setting     auth_file = given_or_set(&auth_file_places, options->auth_file);
	struct zkl__config config = {NULL, NULL};
	int rc = servers.value == NULL || auth_file.value == NULL ? read_configuration(&config, ret_why) : 0;

	if (rc == 0) {
		servers = or_configured(&servers_places, servers, config.servers);
		auth_file = or_configured(&auth_file_places, auth_file, config.auth_file);
		rc = find_with(&servers, &auth_file, ret, ret_why);
	}
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
	front->turn.terminal = child->terminal = zkl__terminal_open();
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
		zkl__wrapper_die_by(how->signal, front->told);
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
		struct zkl__front         front = {.options = options,
		                                   .servers = access->servers,
		                                   .servers_from = access->servers_from,
		                                   .auth = access->auth,
		                                   .auth_from = access->auth_from,
		                                   .started_ns = started_ns};
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
	struct access access = {0};
	char          why[ZKL__WHY_MAX];

	if (!has_descriptors())
		return ZKL__STATUS_FAILED;
	int status = find_access(options, &access, why);
	status = status != 0 ? refuse(status, why) : run_with(argc, argv, options, &access, started_ns);
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
