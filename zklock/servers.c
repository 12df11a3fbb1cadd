/* SPDX-License-Identifier: Apache-2.0 */
#include "servers.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "error.h"
#include "node_data.h"
#include "path.h"

#define DEFAULT_PORT "2181"

static int bad(zkl_error *reterr, const char *text, const char *why)
{
	char shown[96];

	zkl__printable(shown, sizeof shown, text, strlen(text));
	return zkl__error(reterr, ZKL_EINVAL, 0, 0, "servers \"%s\": %s, like host1:2181,host2:2181/chroot", shown,
	                  why);
}

static bool is_port(const char *text, size_t length)
{
	unsigned long port = 0;

	if (length < 1 || length > 5 || strspn(text, "0123456789") < length)
		return false;
	for (size_t i = 0; i < length; i++)
		port = port * 10 + (unsigned long)(text[i] - '0');
	return port >= 1 && port <= 65535;
}

/* NULL: nothing is wrong with the port. */
static const char *wrong_port(const char *port, const char *end)
{
	if (is_port(port, (size_t)(end - port)))
		return NULL;
	return strncmp(end, "//", 2) == 0 ? "a host has no \"http://\" or the like before it"
	                                  : "a port must be a number from 1 to 65535";
}

static const char no_memory[] = "no memory for the servers' names";

/* One "host", "host:port", "[v6]" or "[v6]:port" of `length` bytes. Returns what is wrong; NULL: nothing. */
static const char *parse_server(struct zkl__server *ret, const char *text, size_t length)
{
	const char *host = text, *end = text + length, *host_end, *port, *wrong;

	for (const char *c = text; c < end; c++)
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == ';')
			return "a host has a blank or a strange character, and commas alone separate hosts";
	if (length && *text == '[') {
		host = text + 1;
		host_end = memchr(host, ']', (size_t)(end - host));
		if (!host_end)
			return "a [ without its ]";
		port = host_end + 1;
	} else {
		host_end = memchr(text, ':', length);
		if (!host_end)
			host_end = end;
		port = host_end;
	}
	if (port < end && *port != ':')
		return "only a port may follow the ]";
	if (port < end && memchr(port + 1, ':', (size_t)(end - port - 1)))
		return "an IPv6 address needs brackets";
	if (host_end == host)
		return "a host is missing";
	for (const char *c = host; c < host_end; c++)
		if (*c == '[' || *c == ']')
			return "brackets belong around a whole IPv6 address";
	wrong = port < end ? wrong_port(port + 1, end) : NULL;
	if (wrong)
		return wrong;
	snprintf(ret->port, sizeof ret->port, "%.*s", port < end ? (int)(end - port - 1) : 4,
	         port < end ? port + 1 : DEFAULT_PORT);
	ret->host = strndup(host, (size_t)(host_end - host));
	return ret->host ? NULL : no_memory;
}

/* A comma is possible in a name, and another host with a port is not meant to be one. */
static bool names_hosts(const char *chroot)
{
	for (const char *comma = strchr(chroot, ','); comma; comma = strchr(comma + 1, ',')) {
		const char *port = comma + 1 + strcspn(comma + 1, ",:");

		if (*port == ':' && isdigit((unsigned char)port[1]))
			return true;
	}
	return false;
}

int zkl__servers_parse(struct zkl__servers *ret, const char *text, zkl_error *reterr)
{
	struct zkl__servers servers = {0};
	const char         *slash = text ? strchr(text, '/') : NULL, *end, *wrong = NULL;
	int                 r = 0;

	if (!text || !*text)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "no servers are named; name them like host1:2181,host2:2181");
	end = slash ? slash : text + strlen(text);
	servers.chroot = strdup(slash && slash[1] ? slash : "");
	servers.list = calloc((size_t)(end - text) / 2 + 1, sizeof *servers.list);
	if (!servers.chroot || !servers.list) {
		zkl__servers_clear(&servers);
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "%s", no_memory);
	}
	for (const char *part = text; part <= end && !wrong;) {
		const char *comma = memchr(part, ',', (size_t)(end - part));
		size_t      length = (size_t)((comma ? comma : end) - part);

		if (servers.count == ZKL__SERVERS_MAX)
			wrong = "more than 255 hosts";
		else
			wrong = parse_server(&servers.list[servers.count], part, length);
		if (!wrong)
			servers.count++;
		part += length + 1;
	}
	if (!wrong && names_hosts(servers.chroot))
		wrong = "a chroot comes once, behind the last host";
	if (wrong) {
		zkl__servers_clear(&servers);
		return wrong == no_memory ? zkl__error(reterr, ZKL_ENOMEM, 0, 0, "%s", no_memory)
		                          : bad(reterr, text, wrong);
	}
	if (servers.chroot[0])
		r = zkl__path_check("chroot", servers.chroot, ZKL_PATH_MAX - 2, reterr);
	if (r < 0)
		zkl__servers_clear(&servers);
	else
		*ret = servers;
	return r;
}

void zkl__servers_clear(struct zkl__servers *servers)
{
	for (unsigned i = 0; i < servers->count; i++) {
		free(servers->list[i].host);
		free(servers->list[i].known);
	}
	free(servers->list);
	free(servers->chroot);
	*servers = (struct zkl__servers){0};
}

bool zkl__servers_are_numeric(const struct zkl__servers *servers)
{
	unsigned char address[sizeof(struct in6_addr)];

	for (unsigned i = 0; i < servers->count; i++)
		if (inet_pton(AF_INET, servers->list[i].host, address) != 1 &&
		    inet_pton(AF_INET6, servers->list[i].host, address) != 1)
			return false;
	return true;
}

struct list {
	char    *text;
	size_t   length;
	unsigned count;
	bool     no_memory; /* for all that belongs in it */
};

/* One "address:port" more. */
static void append(struct list *list, const char *item, size_t length)
{
	char *text;

	if (list->count >= ZKL__SERVERS_MAX)
		return;
	text = realloc(list->text, list->length + length + 2);
	list->no_memory = list->no_memory || !text;
	if (!text)
		return;
	list->text = text;
	list->length += (size_t)snprintf(text + list->length, length + 2, "%s%.*s", list->length ? "," : "",
	                                 (int)length, item);
	list->count++;
}

static void look_up(struct zkl__server *server, int flags)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags}, *found = NULL;
	struct list     list = {0};
	char            address[INET6_ADDRSTRLEN + 16], item[sizeof address + sizeof server->port];

	if (getaddrinfo(server->host, server->port, &hints, &found) != 0)
		return;
	for (const struct addrinfo *a = found; a; a = a->ai_next)
		if (getnameinfo(a->ai_addr, a->ai_addrlen, address, sizeof address, NULL, 0, NI_NUMERICHOST) == 0) {
			snprintf(item, sizeof item, "%s:%s", address, server->port);
			append(&list, item, strlen(item));
		}
	freeaddrinfo(found);
	if (!list.text || list.no_memory) {
		free(list.text);
		return;
	}
	free(server->known);
	server->known = list.text;
}

/* The next item of a list, its length in *length; NULL: no more. */
static const char *next_item(const char **list, size_t *length)
{
	const char *item = *list;

	if (!item || !*item)
		return NULL;
	*length = strcspn(item, ",");
	*list = item + *length + (item[*length] == ',');
	return item;
}

char *zkl__servers_resolve(struct zkl__servers *servers, bool numeric_only)
{
	struct list list = {0};
	size_t      length;

	for (unsigned i = 0; i < servers->count; i++) {
		const char *known, *item;

		look_up(&servers->list[i], numeric_only ? AI_NUMERICHOST : 0);
		known = servers->list[i].known;
		while ((item = next_item(&known, &length)))
			append(&list, item, length);
	}
	if (list.count && list.count % 2 == 0) {
		char *first = strndup(list.text, strcspn(list.text, ","));

		if (first)
			append(&list, first, strlen(first));
		list.no_memory = list.no_memory || !first;
		free(first);
	}
	if (list.no_memory) {
		free(list.text);
		return NULL;
	}
	return list.text;
}

void zkl__servers_note(struct zkl__servers *servers)
{
	for (unsigned i = 0; i < servers->count; i++)
		servers->list[i].resolves = servers->list[i].known != NULL;
}

static bool contains(const char *list, const char *wanted, size_t wanted_length)
{
	const char *item;
	size_t      length;

	while ((item = next_item(&list, &length)))
		if (length == wanted_length && memcmp(item, wanted, length) == 0)
			return true;
	return false;
}

bool zkl__servers_have_new(const char *list, const char *other)
{
	const char *item;
	size_t      length;

	while ((item = next_item(&list, &length)))
		if (!contains(other, item, length))
			return true;
	return false;
}
