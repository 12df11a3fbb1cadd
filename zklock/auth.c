/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"

#include <stdbool.h>
#include <string.h>

/* ZooKeeper's own, which no line can show: they come with the connection, or are a part of access lists. */
static const struct {
	const char *scheme, *wrong;
} unshown[] = {
	{"ip", "scheme ip is had without being shown, and gives no identity: " ZKL__AUTH_RIGHT},
	{"world", "scheme world is everybody, and gives no identity: " ZKL__AUTH_RIGHT},
	{"auth", "scheme auth is of access lists, and is not shown: " ZKL__AUTH_RIGHT},
	{"sasl", "scheme sasl is not possible here: " ZKL__AUTH_RIGHT},
	{"x509", "scheme x509 is not possible here: " ZKL__AUTH_RIGHT},
};

static bool is_scheme(const char *line, size_t length, const char *scheme)
{
	return length == strlen(scheme) && memcmp(line, scheme, length) == 0;
}

const char *zkl__auth_wrong(const char *line, size_t length)
{
	const char  *colon = memchr(line, ':', length);
	const size_t scheme = colon ? (size_t)(colon - line) : 0, left = length - scheme;

	for (size_t i = 0; i < scheme; i++)
		if (line[i] <= ' ' || line[i] > '~')
			return "a scheme has a blank or a strange character: " ZKL__AUTH_RIGHT;
	if (memchr(line, '\0', length))
		return "it has a NUL: " ZKL__AUTH_RIGHT;
	if (scheme < 1 || scheme > ZKL__SCHEME_MAX)
		return "not SCHEME:CREDENTIAL: " ZKL__AUTH_RIGHT;
	for (size_t i = 0; i < sizeof unshown / sizeof *unshown; i++)
		if (is_scheme(line, scheme, unshown[i].scheme))
			return unshown[i].wrong;
	if (is_scheme(line, scheme, "digest") && !memchr(colon + 1, ':', left - 1))
		return "scheme digest needs a user and a password: " ZKL__AUTH_RIGHT;
	return left < 2 ? "nothing behind the scheme: " ZKL__AUTH_RIGHT : NULL;
}

const char *zkl__auth_all_wrong(const char *lines)
{
	for (;;) {
		size_t      length = strcspn(lines, "\n");
		const char *wrong = zkl__auth_wrong(lines, length);

		if (wrong || !lines[length])
			return wrong;
		lines += length + 1;
	}
}
