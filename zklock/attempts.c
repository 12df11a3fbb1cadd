/* SPDX-License-Identifier: Apache-2.0 */
#include "attempts.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 256, ADDRESS_SIZE = 72, REASON_SIZE = 48 };

struct attempt {
	char address[ADDRESS_SIZE]; /* without brackets; "": free */
	char reason[REASON_SIZE];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct attempt  attempts[ATTEMPTS];
static size_t          next_free; /* the oldest, when all are taken */

/* The client prints brackets around some addresses, and takes them in its list without. */
static void copy_address(char ret[ADDRESS_SIZE], const char *from, size_t length)
{
	size_t used = 0;

	for (size_t i = 0; i < length && used < ADDRESS_SIZE - 1; i++)
		if (from[i] != '[' && from[i] != ']')
			ret[used++] = from[i];
	ret[used] = 0;
}

static struct attempt *find(const char *address)
{
	for (size_t i = 0; i < ATTEMPTS; i++)
		if (strcmp(attempts[i].address, address) == 0)
			return &attempts[i];
	return NULL;
}

static void keep(const struct attempt *attempt)
{
	struct attempt *place;

	pthread_mutex_lock(&mutex);
	place = find(attempt->address);
	if (!place)
		place = &attempts[next_free++ % ATTEMPTS];
	*place = *attempt;
	pthread_mutex_unlock(&mutex);
}

void zkl__attempts_forget(void)
{
	pthread_mutex_lock(&mutex);
	memset(attempts, 0, sizeof attempts);
	pthread_mutex_unlock(&mutex);
}

/* It may be locked for ever, with an entry half written. */
void zkl__attempts_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	memset(attempts, 0, sizeof attempts);
}

/* What it was doing; where it does not say so, the line is about something else. */
static bool read_reason(char ret[REASON_SIZE], int error, const char *name, size_t name_length, const char *doing)
{
	if (strstr(doing, " timed out"))
		snprintf(ret, REASON_SIZE, "no answer");
	else if (error == EHOSTDOWN && strstr(doing, "failed while receiving"))
		snprintf(ret, REASON_SIZE, "hangs up, as without a quorum"); /* the client's name for an end of file */
	else if (strstr(doing, "refused to accept") || strstr(doing, "failed while"))
		snprintf(ret, REASON_SIZE, "%.*s", (int)name_length, name);
	else
		return false;
	return true;
}

/* "... Socket 127.0.0.1:2181 zk retcode=-4, errno=111(Connection refused): server refused to accept the client" */
void zkl__attempts_note(const char *line)
{
	const char    *address = strstr(line, "Socket "), *number = address ? strstr(address, " errno=") : NULL;
	const char    *name = number ? strchr(number, '(') : NULL, *end = name ? strstr(name, "): ") : NULL;
	struct attempt attempt = {.address = ""};

	if (!end)
		return;
	address += strlen("Socket ");
	number += strlen(" errno=");
	copy_address(attempt.address, address, strcspn(address, " "));
	if (attempt.address[0] && read_reason(attempt.reason, (int)strtol(number, NULL, 10), name + 1,
	                                      (size_t)(end - name - 1), end + strlen("): ")))
		keep(&attempt);
}

static bool is_told(const char *addresses, const char *item, size_t length)
{
	for (const char *each = addresses; each < item; each += strcspn(each, ",") + 1)
		if (strcspn(each, ",") == length && memcmp(each, item, length) == 0)
			return true;
	return false;
}

size_t zkl__attempts_tell(const char *addresses, char *ret, size_t size)
{
	size_t length, used = 0;

	*ret = 0;
	pthread_mutex_lock(&mutex);
	for (const char *item = addresses; *item && used < size; item += length + (item[length] == ',')) {
		char                  address[ADDRESS_SIZE];
		const struct attempt *known;

		length = strcspn(item, ",");
		if (is_told(addresses, item, length))
			continue;
		copy_address(address, item, length);
		known = find(address);
		used += (size_t)snprintf(ret + used, size - used, "%s%.*s: %s", used ? "; " : "", (int)length, item,
		                         known ? known->reason : "no answer");
	}
	pthread_mutex_unlock(&mutex);
	return used < size ? used : size - 1;
}
