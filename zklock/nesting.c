/* SPDX-License-Identifier: Apache-2.0 */
#include "nesting.h"
#include "proctree.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define VARIABLE "ZKLOCK_HELD"
#define PORT     ":2181"

/* ---- names ---- */

/* One server of a list that ends at ',' '/' or the end. Blanks are left out, the default port is added. */
static size_t copy_server(const char **servers, char *to)
{
	const char *from = *servers;
	size_t      length = 0;

	for (; *from != '\0' && *from != ',' && *from != '/'; from++) {
		if (!isspace((unsigned char)*from))
			to[length++] = *from;
	}
	*servers = from;
	to[length] = '\0';
	const char *colon = strrchr(to, ':');
	if (length > 0 && (colon == NULL || strchr(colon, ']') != NULL)) {
		memcpy(to + length, PORT, sizeof(PORT));
		length += sizeof(PORT) - 1;
	}
	return length;
}

char *zkl__nesting_name(const char *servers, const char *path)
{
	/* The most that it can grow is a port for each character. */
	char *name = malloc(strlen(servers) * sizeof(PORT) + strlen(path) + sizeof(PORT));
	if (name == NULL)
		return NULL;

	size_t length = copy_server(&servers, name);
	while (*servers == ',') {
		name[length++] = *servers++;
		length += copy_server(&servers, name + length);
	}
	/* What is left is the chroot; one of "/" alone means none. */
	size_t chroot = strlen(servers);
	while (chroot > 0 && (servers[chroot - 1] == '/' || isspace((unsigned char)servers[chroot - 1])))
		chroot--;
	memcpy(name + length, servers, chroot);
	strcpy(name + length + chroot, path);
	return name;
}

/* Is the server of this length among those before the '/'? */
static bool has_server(const char *name, const char *server, size_t length)
{
	const size_t end = strcspn(name, "/");

	for (size_t i = 0, n; i < end; i += n + 1) {
		n = strcspn(name + i, ",/");
		if (n == length && n > 0 && strncasecmp(name + i, server, n) == 0)
			return true;
	}
	return false;
}

bool zkl__nesting_is_same(const char *name, const char *other)
{
	const size_t end = strcspn(name, "/");

	if (strcmp(name + end, other + strcspn(other, "/")) != 0)
		return false;
	for (size_t i = 0, n; i < end; i += n + 1) {
		n = strcspn(name + i, ",/");
		if (has_server(other, name + i, n))
			return true;
	}
	return false;
}

/* ---- entries ---- */

static bool is_ancestor(pid_t pid, uint64_t start)
{
	struct zkl__process process;

	for (pid_t next = getppid(); next > 0 && zkl__process_read(next, &process); next = process.parent) {
		if (process.pid == pid && process.start == start)
			return true;
	}
	return false;
}

/* The name in an entry that counts, else NULL. What does not look like an entry does not count. */
static const char *name_of(const char *entry)
{
	int      pid = 0, at = 0;
	uint64_t start;

	if (sscanf(entry, "%d:%" SCNu64 ":%n", &pid, &start, &at) != 2 || at == 0 || !is_ancestor(pid, start))
		return NULL;
	return entry + at;
}

bool zkl__nesting_check(const char *held, const char *name, char **ret_kept)
{
	char *entries = strdup(held == NULL ? "" : held), *rest = entries;
	char *kept = calloc(1, (held == NULL ? 0 : strlen(held)) + 2);
	bool  nested = false;

	*ret_kept = kept;
	for (char *entry; entries != NULL && kept != NULL && (entry = strsep(&rest, "\n")) != NULL;) {
		const char *other = name_of(entry);
		if (other == NULL)
			continue;
		nested = nested || zkl__nesting_is_same(name, other);
		strcat(strcat(kept, entry), "\n");
	}
	free(entries);
	return nested;
}

void zkl__nesting_export(const char *kept, const char *name)
{
	struct zkl__process us;
	char               *value;

	if (!zkl__process_read(getpid(), &us) || asprintf(&value, "%s%d:%" PRIu64 ":%s\n", kept, (int)us.pid, us.start, name) < 0)
		return;
	setenv(VARIABLE, value, 1);
	free(value);
}
