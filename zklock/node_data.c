/* SPDX-License-Identifier: Apache-2.0 */
#include "node_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION_LINE "zklock 1\n"
#define MARK_LINE    "\nmark=lowest\n"
#define ID_LINE      "\nid="

size_t zkl__identity_print(char *ret, size_t size, const struct zkl__identity *who)
{
	int length = snprintf(ret, size, "%s:%" PRId64 " %s", who->host, who->pid, who->program);

	return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

size_t zkl__node_data_print(char *ret, size_t size, const struct zkl__identity *who, int64_t since_ms, bool marked,
                            const void *own, size_t own_len)
{
	int    head = snprintf(ret, size,
	                       VERSION_LINE "id=%s:%" PRId64 " %s\nhost=%s\npid=%" PRId64 "\nprogram=%s\nsince=%" PRId64
	                                    "%s\n",
	                       who->host, who->pid, who->program, who->host, who->pid, who->program, since_ms,
                            marked ? MARK_LINE : "\n");
	size_t length = (size_t)head;

	if (head < 0 || length >= size)
		return 0;
	if (own_len > size - length)
		own_len = size - length;
	if (own_len)
		memcpy(ret + length, own, own_len);
	return length + own_len;
}

/* The part before the empty line, its last newline included; 0: foreign. */
static size_t head_length(const char *data, size_t len)
{
	const char *end;

	if (len < strlen(VERSION_LINE) || memcmp(data, VERSION_LINE, strlen(VERSION_LINE)) != 0)
		return 0;
	end = memmem(data, len, "\n\n", 2);
	return end ? (size_t)(end - data) + 1 : 0;
}

bool zkl__node_data_is_ours(const char *data, size_t len)
{
	return head_length(data, len) > 0;
}

bool zkl__node_data_is_marked(const char *data, size_t len)
{
	size_t head = head_length(data, len);

	return head && memmem(data, head, MARK_LINE, strlen(MARK_LINE));
}

void zkl__node_data_read(const char *data, size_t len, char id[ZKL__NODE_ID_MAX], const char **own, size_t *own_len)
{
	size_t      head = head_length(data, len);
	const char *start = head ? memmem(data, head, ID_LINE, strlen(ID_LINE)) : NULL;

	if (!start) {
		zkl__printable(id, ZKL__NODE_ID_MAX, data, len);
		*own = data;
		*own_len = len;
		return;
	}
	start += strlen(ID_LINE);
	const char *end = memchr(start, '\n', (size_t)(data + head - start));

	zkl__printable(id, ZKL__NODE_ID_MAX, start, (size_t)(end - start));
	*own = data + head + 1;
	*own_len = len - head - 1;
}

void zkl__printable(char *ret, size_t size, const char *text, size_t len)
{
	size_t used = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		char          one[8];
		size_t n = (size_t)snprintf(one, sizeof one, c >= 0x20 && c < 0x7f && c != '\\' ? "%c" : "\\x%02x", c);

		if (used + n >= size)
			break;
		memcpy(ret + used, one, n);
		used += n;
	}
	ret[used] = 0;
}
