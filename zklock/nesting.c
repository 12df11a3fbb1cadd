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

#define PORT ":2181"

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
	char  *hosts = malloc((strlen(servers) + 1) * sizeof(PORT)), *name = NULL;
	size_t length;

	if (hosts == NULL)
		return NULL;
	length = copy_server(&servers, hosts);
	while (*servers == ',') {
		hosts[length++] = *servers++;
		length += copy_server(&servers, hosts + length);
	}
	/* What is left is the chroot; one of "/" alone means none. */
	size_t chroot = strlen(servers);
	while (chroot > 0 && (servers[chroot - 1] == '/' || isspace((unsigned char)servers[chroot - 1])))
		chroot--;
	if (asprintf(&name, "%s%.*s%s", hosts, (int)chroot, servers, path) < 0)
		name = NULL;
	free(hosts);
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

/* Who has come into a PID namespace from outside has no parent that could be seen there. */
static pid_t parent_or_first(pid_t pid, pid_t parent)
{
	return parent == 0 && pid != 1 ? 1 : parent;
}

static bool is_ancestor(pid_t pid, uint64_t start)
{
	struct zkl__process process;

	for (pid_t next = parent_or_first(getpid(), getppid()); next > 0 && zkl__process_read(next, &process);
	     next = parent_or_first(process.pid, process.parent)) {
		if (process.pid == pid && process.start == start)
			return true;
	}
	return false;
}

/* The name in an entry that counts, else NULL. What does not look like an entry does not count. */
static const char *name_of(const char *entry)
{
	char      *end;
	const long pid = strtol(entry, &end, 10);

	if (*end != ':')
		return NULL;
	const uint64_t start = strtoull(end + 1, &end, 10);
	return *end == ':' && is_ancestor((pid_t)pid, start) ? end + 1 : NULL;
}

bool zkl__nesting_check(const char *held, const char *name, char **ret_kept)
{
	char  *kept = strdup(held == NULL ? "" : held), *end;
	size_t length = 0;
	bool   nested = false;

	*ret_kept = kept;
	if (kept == NULL)
		return false;
	for (char *entry = kept; (end = strchr(entry, '\n')) != NULL; entry = end + 1) {
		*end = '\0';
		const char *other = name_of(entry);
		if (other == NULL)
			continue;
		nested = nested || zkl__nesting_is_same(name, other);
		*end = '\n';
		memmove(kept + length, entry, (size_t)(end + 1 - entry));
		length += (size_t)(end + 1 - entry);
	}
	kept[length] = '\0';
	return nested;
}

static void print_entry(FILE *to, const struct zkl__process *holder, const char *name, size_t length)
{
	fprintf(to, "%d:%" PRIu64 ":%.*s\n", (int)holder->pid, holder->start, (int)length, name);
}

/* With `holder` in the place of those that hold them. */
static void print_moved(FILE *to, const struct zkl__process *holder, const char *kept)
{
	for (const char *end; (end = strchr(kept, '\n')) != NULL; kept = end + 1) {
		const char *name = strchr(strchr(kept, ':') + 1, ':') + 1;
		print_entry(to, holder, name, (size_t)(end - name));
	}
}

int zkl__nesting_export(const char *kept, const char *name, pid_t holder)
{
	struct zkl__process process;
	char               *value = NULL;
	size_t              size;

	if (!zkl__process_read(holder, &process))
		return -1;
	FILE *to = open_memstream(&value, &size);
	if (to == NULL)
		return -1;
	if (holder == 1)
		print_moved(to, &process, kept);
	else
		fputs(kept, to);
	print_entry(to, &process, name, strlen(name));
	int rc = fclose(to) == 0 ? setenv(ZKL__HELD_VARIABLE, value, 1) : -1;
	free(value);
	return rc;
}
