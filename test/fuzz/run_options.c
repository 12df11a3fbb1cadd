/* SPDX-License-Identifier: Apache-2.0 */
/* A command line of zklock-run, one argument a line; each of them as a duration; and all as /etc/zklock.conf and as credentials. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>
#include <zklock/zklock.h>

#include "auth.h"
#include "duration.h"
#include "run_config.h"
#include "run_options.h"

enum { ARGUMENTS = 30 };

static char *name = (char *)"zklock-run";

static bool is_argument(char *const *argv, const char *word)
{
	for (; *argv; argv++)
		if (*argv <= word && word <= *argv + strlen(*argv))
			return true;
	return false;
}

static void check_options(const struct zkl__run_options *o, char *const *argv, int argc)
{
	if (o->what != ZKL__RUN_COMMAND)
		return;
	MUST(o->path[0] == '/' && is_argument(argv, o->path));
	MUST(o->command > argv && o->command < argv + argc && *o->command);
	/* All that follows is the command's, to the last. */
	MUST(is_argument(argv, *o->command) && o->command + 1 <= argv + argc);
	MUST(!o->servers || (*o->servers && is_argument(argv, o->servers)));
	MUST(o->wait_ms >= 0 || o->wait_ms == ZKL_FOREVER);
	MUST(!o->auth_file || (*o->auth_file && is_argument(argv, o->auth_file)));
	MUST(!o->name || (*o->name && is_argument(argv, o->name) && strlen(o->name) <= 64));
	MUST(o->timeout_ms >= 100 && o->timeout_ms <= 86400000 && o->connect_ms >= 1 && o->min_hold_ms >= 0);
	MUST(o->max_hold_ms == 0 || (o->max_hold_ms > 0 && o->max_hold_ms >= o->min_hold_ms));
	MUST(o->grace_ms >= 0 && o->grace_ms <= o->timeout_ms / ZKL__GRACE_MOST_PART);
	MUST(o->margin_ms == 0 || (o->margin_ms >= o->timeout_ms / 3 && o->margin_ms <= o->timeout_ms * 5 / 8));
	MUST(o->margin_ms + o->grace_ms <= o->timeout_ms * 3 / 4);
	MUST(o->grace_given || o->grace_ms == o->timeout_ms / ZKL__GRACE_PART);
	MUST(o->busy_status >= 0 && o->busy_status <= 255 && !(o->verbose && o->quiet));
}

/* Bounded, and it names an option, an argument, or what is missing. */
static void check_why(const char *why, char *const *argv)
{
	bool named = strstr(why, "PATH") || strstr(why, "COMMAND");

	MUST(strnlen(why, ZKL__WHY_MAX) > 5 && strnlen(why, ZKL__WHY_MAX) < ZKL__WHY_MAX);
	named = named || (why[0] == '-' && why[1] != ':') || strstr(why, "option \"");
	MUST(named);
	MUST(argv[0]);
}

static void check_command_line(const char *text, size_t size)
{
	char                   *words = malloc(size + 1), *argv[ARGUMENTS + 2] = {name}, *order[ARGUMENTS + 2];
	char                    why[ZKL__WHY_MAX] = "";
	struct zkl__run_options options;
	int                     argc = 1;

	MUST(words);
	if (size)
		memcpy(words, text, size);
	words[size] = 0;
	for (char *word = words, *end; word && argc <= ARGUMENTS; word = end) {
		end = memchr(word, '\n', (size_t)(words + size - word));
		if (end)
			*end++ = 0;
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	memcpy(order, argv, sizeof order);
	if (zkl__run_options_parse(argc, argv, &options, why) == 0)
		check_options(&options, argv, argc);
	else
		check_why(why, argv);
	/* Options end at PATH: nothing was moved. */
	MUST(memcmp(order, argv, (size_t)argc * sizeof *argv) == 0);
	free(words);
}

/* Milliseconds, printed, mean themselves; a duration and the same with a longer fraction are not less. */
static void check_duration(const char *text, size_t size)
{
	char    word[40], again[40];
	int64_t ms = -7, same = -7;

	snprintf(word, sizeof word, "%.*s", (int)(size < 30 ? size : 30), text);
	word[strcspn(word, "\n")] = 0;
	if (zkl__duration_parse(word, &ms) < 0) {
		MUST(ms == -7);
		return;
	}
	MUST(ms >= 0 && ms <= INT64_MAX / 2 / 1000000);
	MUST(strspn(word, "0123456789.smh") == strlen(word));
	snprintf(again, sizeof again, "%lldms", (long long)ms);
	MUST(zkl__duration_parse(again, &same) == 0 && same == ms);
	/* "0" before it changes nothing. */
	snprintf(again, sizeof again, "0%s", word);
	MUST(zkl__duration_parse(again, &same) == 0 && same == ms);
	/* By the plain way, where that is exact. */
	if (strlen(word) < 8) {
		char  *unit;
		double value = strtod(word, &unit);
		double scale = *unit == 'm' ? (unit[1] ? 1 : 60000) : *unit == 'h' ? 3600000 : 1000;

		MUST((double)ms >= value * scale - 1e-3 && (double)ms <= value * scale + 1);
	}
}

static void check_configuration(const char *text, size_t size)
{
	char               why[ZKL__WHY_MAX] = "", line[10000];
	struct zkl__config config, again;
	int                r = zkl__config_parse(text, size, &config, why);

	MUST(r == 0 || r == -1);
	if (r < 0) {
		MUST(!config.servers && !config.auth_file && strncmp(why, "line ", 5) == 0 &&
		     strnlen(why, ZKL__WHY_MAX) < ZKL__WHY_MAX);
		return;
	}
	MUST(!config.auth_file || (*config.auth_file == '/' && strlen(config.auth_file) <= size));
	if (config.servers) {
		MUST(*config.servers && strlen(config.servers) <= size && !strchr(config.servers, '\n'));
		/* Written in quotes it is read again. */
		snprintf(line, sizeof line, "\n# a comment\n%s = \"%s\" \n%s='%s'", ZKL__SERVERS_VARIABLE,
		         config.servers, ZKL__AUTH_FILE_VARIABLE, config.auth_file ? config.auth_file : "/a");
		MUST(zkl__config_parse(line, strlen(line), &again, why) == 0);
		MUST(strcmp(config.servers, again.servers) == 0);
		MUST(strcmp(config.auth_file ? config.auth_file : "/a", again.auth_file) == 0);
		zkl__config_clear(&again);
	}
	zkl__config_clear(&config);
}

/* What is accepted the library accepts, too, and it is read again. */
static void check_credentials(const char *text, size_t size)
{
	char  why[ZKL__WHY_MAX] = "";
	char *credentials = NULL, *again = NULL;

	if (zkl__auth_parse(text, size, &credentials, why) < 0) {
		MUST(!credentials && strnlen(why, ZKL__WHY_MAX) > 5);
		return;
	}
	MUST(strlen(credentials) <= size && !zkl__auth_all_wrong(credentials));
	MUST(zkl__auth_parse(credentials, strlen(credentials), &again, why) == 0 && strcmp(credentials, again) == 0);
	free(credentials);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 4096)
		return 0;
	check_command_line((const char *)data, size);
	check_duration((const char *)data, size);
	check_configuration((const char *)data, size);
	check_credentials((const char *)data, size);
	return 0;
}
