/* SPDX-License-Identifier: Apache-2.0 */
#include "run_config.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"

#define WRONG(...) (snprintf(why, ZKL__WHY_MAX, __VA_ARGS__), -1)

struct line {
	const char *text;
	size_t      length;
	unsigned    number;
};

/* ---- lines ---- */

static void trim(const char **text, size_t *length)
{
	while (*length > 0 && isspace((unsigned char)**text)) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && isspace((unsigned char)(*text)[*length - 1]))
		(*length)--;
}

/* The byte order mark of UTF-8, which some editors write. */
static void skip_mark(const char **text, size_t *left)
{
	static const char mark[] = "\xef\xbb\xbf";

	if (*left >= strlen(mark) && memcmp(*text, mark, strlen(mark)) == 0) {
		*text += strlen(mark);
		*left -= strlen(mark);
	}
}

/* The next line that says something, without the blanks around it. */
static bool next_line(const char **text, size_t *left, struct line *line)
{
	while (*left > 0) {
		const char  *newline = memchr(*text, '\n', *left);
		const size_t length = newline == NULL ? *left : (size_t)(newline - *text);
		const size_t used = length + (newline != NULL);

		line->text = *text;
		line->length = length;
		line->number++;
		*text += used;
		*left -= used;
		trim(&line->text, &line->length);
		if (line->length > 0 && line->text[0] != '#')
			return true;
	}
	return false;
}

/* ---- the configuration ---- */

/* False: a quote has no end. */
static bool unquote(const char **text, size_t *length)
{
	if (*length == 0 || ((*text)[0] != '"' && (*text)[0] != '\''))
		return true;
	if (*length == 1 || (*text)[*length - 1] != (*text)[0])
		return false;
	(*text)++;
	*length -= 2;
	return true;
}

static bool is_key(const char *key, size_t length, const char *name)
{
	return length == strlen(name) && memcmp(key, name, length) == 0;
}

static int parse_setting(const struct line *line, struct zkl__config *config, char *why)
{
	const char *equals = memchr(line->text, '=', line->length);
	if (equals == NULL || memchr(line->text, '\0', line->length) != NULL)
		return WRONG("line %u: not KEY=VALUE", line->number);

	const char *key = line->text, *value = equals + 1;
	size_t      key_length = (size_t)(equals - key), value_length = line->length - key_length - 1;
	char      **setting = NULL;
	trim(&key, &key_length);
	trim(&value, &value_length);
	if (!unquote(&value, &value_length))
		return WRONG("line %u: a quote without its end", line->number);
	if (is_key(key, key_length, ZKL__SERVERS_VARIABLE))
		setting = &config->servers;
	else if (is_key(key, key_length, ZKL__AUTH_FILE_VARIABLE))
		setting = &config->auth_file;
	else
		return WRONG("line %u: unknown key \"%.*s\": there are " ZKL__SERVERS_VARIABLE
		             " and " ZKL__AUTH_FILE_VARIABLE,
		             line->number, (int)(key_length < 100 ? key_length : 100), key);
	if (value_length == 0)
		return WRONG("line %u: %.*s has no value", line->number, (int)key_length, key);
	/* Whatever folder zklock-run is started in. */
	if (setting == &config->auth_file && value[0] != '/')
		return WRONG("line %u: " ZKL__AUTH_FILE_VARIABLE " does not begin with \"/\"", line->number);
	if (*setting != NULL)
		return WRONG("line %u: %.*s is given twice", line->number, (int)key_length, key);
	*setting = strndup(value, value_length);
	return *setting != NULL ? 0 : WRONG("out of memory");
}

int zkl__config_parse(const char *text, size_t length, struct zkl__config *ret, char *why)
{
	struct line line = {.number = 0};

	*ret = (struct zkl__config){NULL, NULL};
	skip_mark(&text, &length);
	while (next_line(&text, &length, &line)) {
		if (parse_setting(&line, ret, why) < 0) {
			zkl__config_clear(ret);
			return -1;
		}
	}
	return 0;
}

void zkl__config_clear(struct zkl__config *config)
{
	free(config->servers);
	free(config->auth_file);
	*config = (struct zkl__config){NULL, NULL};
}

/* ---- credentials ---- */

static int copy_credentials(const char *text, size_t length, char *to, char *why)
{
	struct line line = {.number = 0};
	char       *end = to;

	skip_mark(&text, &length);
	while (next_line(&text, &length, &line)) {
		const char *wrong = zkl__auth_wrong(line.text, line.length);
		if (wrong != NULL)
			return WRONG("line %u: %s", line.number, wrong);
		if (end != to)
			*end++ = '\n';
		memcpy(end, line.text, line.length);
		end += line.length;
	}
	*end = '\0';
	return end != to ? 0 : WRONG("no credential in it: give a line such as digest:user:password");
}

int zkl__auth_parse(const char *text, size_t length, char **ret, char *why)
{
	char *credentials = malloc(length + 1);

	if (credentials == NULL)
		return WRONG("out of memory");
	if (copy_credentials(text, length, credentials, why) < 0) {
		explicit_bzero(credentials, length + 1);
		free(credentials);
		return -1;
	}
	*ret = credentials;
	return 0;
}
