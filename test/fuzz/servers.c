/* SPDX-License-Identifier: Apache-2.0 */
/* Connect strings. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "path.h"
#include "servers.h"

/* The list as it would be written: each host in brackets where it has colons, each with its port, and the chroot. */
static char *print(const struct zkl__servers *servers)
{
	size_t room = strlen(servers->chroot) + 1, used = 0;
	char  *text;

	for (unsigned i = 0; i < servers->count; i++)
		room += strlen(servers->list[i].host) + sizeof servers->list[i].port + 4;
	text = malloc(room);
	MUST(text);
	for (unsigned i = 0; i < servers->count; i++) {
		const struct zkl__server *s = &servers->list[i];

		used += (size_t)snprintf(text + used, room - used, strchr(s->host, ':') ? "%s[%s]:%s" : "%s%s:%s",
		                         i ? "," : "", s->host, s->port);
	}
	snprintf(text + used, room - used, "%s", servers->chroot);
	return text;
}

static bool is_port(const char *text)
{
	long port = strtol(text, NULL, 10);

	return strlen(text) <= 5 && strspn(text, "0123456789") == strlen(text) && port >= 1 && port <= 65535;
}

static void check_list(const struct zkl__servers *servers)
{
	MUST(servers->count >= 1 && servers->count <= ZKL__SERVERS_MAX);
	for (unsigned i = 0; i < servers->count; i++) {
		MUST(*servers->list[i].host && !strpbrk(servers->list[i].host, " ,/\t\n"));
		MUST(is_port(servers->list[i].port));
	}
	MUST(!*servers->chroot || zkl__path_check("chroot", servers->chroot, ZKL_PATH_MAX - 2, NULL) == 0);
}

static void check_round_trip(const struct zkl__servers *servers)
{
	struct zkl__servers again;
	char               *text = print(servers);

	MUST(zkl__servers_parse(&again, text, NULL) == 0);
	MUST(again.count == servers->count && strcmp(again.chroot, servers->chroot) == 0);
	for (unsigned i = 0; i < again.count; i++) {
		MUST(strcmp(again.list[i].host, servers->list[i].host) == 0);
		MUST(strcmp(again.list[i].port, servers->list[i].port) == 0);
	}
	zkl__servers_clear(&again);
	free(text);
}

/* Numeric addresses need no resolver: an odd count of them, none lost, and the same again later. */
static void check_resolved(struct zkl__servers *servers)
{
	char    *list = zkl__servers_resolve(servers, true), *again = zkl__servers_resolve(servers, true);
	unsigned count = 1;

	MUST(!list == !again);
	if (list) {
		for (const char *c = list; *c; c++)
			count += *c == ',';
		MUST(count % 2 == 1 && count <= ZKL__SERVERS_MAX);
		MUST(strcmp(list, again) == 0 && !zkl__servers_have_new(list, again));
		MUST(zkl__servers_have_new(list, "") && !zkl__servers_have_new("", list));
	}
	if (zkl__servers_are_numeric(servers))
		MUST(list && count >= servers->count);
	free(list);
	free(again);
}

/* One line of printable text that names what is wrong, within its room. */
static void check_error(const zkl_error *error, int r)
{
	size_t length = strnlen(error->message, sizeof error->message);

	MUST(error->code == r && (r == ZKL_EINVAL || r == ZKL_EPATH));
	MUST(length > 10 && length < sizeof error->message);
	for (size_t i = 0; i < length; i++)
		MUST(error->message[i] >= 0x20 && error->message[i] < 0x7f);
	MUST(strncmp(error->message,
	             r == ZKL_EPATH                            ? "chroot"
	             : length > 10 && error->message[0] == 'n' ? "no "
	                                                       : "servers",
	             r == ZKL_EPATH             ? 6
	             : error->message[0] == 'n' ? 3
	                                        : 7) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zkl__servers servers;
	zkl_error           error = {0};
	char               *text = malloc(size + 1);
	int                 r;

	MUST(text);
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	r = zkl__servers_parse(&servers, text, &error);
	if (r == 0) {
		check_list(&servers);
		check_round_trip(&servers);
		check_resolved(&servers);
		zkl__servers_clear(&servers);
	} else {
		check_error(&error, r);
	}
	free(text);
	return 0;
}
