/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include <string.h>

bool zkl__auth_is_valid(const char *line, size_t length)
{
	const char *colon = memchr(line, ':', length);
	size_t      scheme = colon ? (size_t)(colon - line) : 0, left = length - scheme;

	if (scheme < 1 || scheme > ZKL__SCHEME_MAX || left < 2)
		return false;
	return scheme != strlen("digest") || memcmp(line, "digest", scheme) != 0 || memchr(colon + 1, ':', left - 1);
}

bool zkl__auth_are_valid(const char *lines)
{
	for (;;) {
		size_t length = strcspn(lines, "\n");

		if (!zkl__auth_is_valid(lines, length))
			return false;
		if (!lines[length])
			return true;
		lines += length + 1;
	}
}
