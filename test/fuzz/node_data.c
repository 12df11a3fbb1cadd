/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in a contender's node: anybody's bytes, and ours. */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "node_data.h"

static void check_printable(const char *text, size_t limit)
{
	size_t length = strlen(text);

	MUST(length < limit);
	for (size_t i = 0; i < length; i++)
		MUST(text[i] >= 0x20 && text[i] < 0x7f);
}

static void check_foreign(const char *data, size_t len)
{
	char        id[ZKL__NODE_ID_MAX], shown[ZKL__NODE_ID_MAX];
	const char *own;
	size_t      own_len;
	bool        ours = len >= 9 && memcmp(data, "zklock 1\n", 9) == 0 && memmem(data, len, "\n\n", 2);

	zkl__node_data_read(data, len, id, &own, &own_len);
	check_printable(id, sizeof id);
	MUST(own >= data && own_len <= len && own + own_len == data + len);
	MUST(ours || own == data);
	zkl__printable(shown, sizeof shown, data, len);
	MUST(own != data || strcmp(id, shown) == 0);
	/* A mark is a line of the head, never of the owner's own data, and never somebody else's. */
	if (zkl__node_data_is_marked(data, len)) {
		const char *mark = memmem(data, len, "\nmark=lowest\n", 13);

		MUST(ours && mark && mark < (const char *)memmem(data, len, "\n\n", 2));
	}
	for (size_t space = 1; space < sizeof shown; space = space * 3 + 1) {
		zkl__printable(shown, space, data, len);
		check_printable(shown, space);
	}
}

/* As identities are: printable. */
static void take_word(char *ret, size_t room, const char **data, size_t *size)
{
	size_t length = *size ? (size_t)(unsigned char)**data % room : 0;

	length = length < *size ? length : *size;
	for (size_t i = 0; i < length; i++)
		ret[i] = (char)(0x20 + (unsigned char)(*data)[i] % 0x5f);
	ret[length] = 0;
	*data += length;
	*size -= length;
}

/* What we print is read again: who it is, cut to size, the mark, and the owner's own data, byte for byte. */
static void check_own(const char *data, size_t len)
{
	static char          text[ZKL__NODE_HEAD_MAX + 70000];
	struct zkl__identity who = {.pid = 0};
	char                 printed[200], id[ZKL__NODE_ID_MAX], shown[ZKL__NODE_ID_MAX];
	const char          *own;
	size_t               own_len, length;
	bool                 marked = len % 2;

	take_word(who.host, sizeof who.host, &data, &len);
	take_word(who.program, sizeof who.program, &data, &len);
	memcpy(&who.pid, data, len < sizeof who.pid ? len : sizeof who.pid);
	length = zkl__node_data_print(text, sizeof text, &who, who.pid, marked, data, len);
	MUST(length >= len && length - len < ZKL__NODE_HEAD_MAX);
	MUST(zkl__node_data_is_marked(text, length) == marked);
	zkl__node_data_read(text, length, id, &own, &own_len);
	MUST(own_len == len && memcmp(own, data, len) == 0);
	zkl__identity_print(printed, sizeof printed, &who);
	zkl__printable(shown, sizeof shown, printed, strlen(printed));
	MUST(strcmp(id, shown) == 0);
	/* Where the head does not fit nothing is printed, and never beyond the room that there is. */
	for (size_t room = 1; room < 300; room = room * 3 + 1)
		MUST(zkl__node_data_print(text, room, &who, 0, marked, data, len) <= room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char nothing[1];

	if (size > 4096)
		return 0;
	check_foreign(size ? (const char *)data : nothing, size);
	check_own(size ? (const char *)data : nothing, size);
	return 0;
}
