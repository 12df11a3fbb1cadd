/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "node_data.h"
#include "queue.h"

#define RESERVED "/zookeeper"

/* Length of the well-formed, printable UTF-8 sequence at s; 0: there is none that ZooKeeper takes. It refuses control
 * characters, the surrogates, with which Java writes all beyond U+FFFF, the private use area and the specials from U+FFF0 on
 * (PathUtils.validatePath). */
static size_t printable_utf8(const unsigned char *s)
{
	static const unsigned least[] = {0, 0, 0x80, 0x800};
	size_t                length = *s < 0x80 ? 1 : (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 0;
	unsigned              c;

	if (length <= 1)
		return *s >= 0x20 && *s < 0x7f ? length : 0;
	c = *s & (0x7fU >> length);
	for (size_t i = 1; i < length; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fU);
	}
	if (c < least[length] || c < 0xa0 || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0)
		return 0;
	return length;
}

static int bad(zkl_error *reterr, const char *what, const char *path, const char *rule)
{
	char shown[96];

	zkl__printable(shown, sizeof shown, path, strlen(path));
	return zkl__error(reterr, ZKL_EPATH, 0, 0, "%s \"%s\" %s", what, shown, rule);
}

static bool is_dots(const char *part, size_t length)
{
	return (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.');
}

int zkl__path_check(const char *what, const char *path, size_t limit, zkl_error *reterr)
{
	if (!path || !*path)
		return zkl__error(reterr, ZKL_EPATH, 0, 0, "%s is empty; it must be absolute, like /locks/job", what);
	if (*path != '/')
		return bad(reterr, what, path, "must begin with a slash");
	if (!path[1])
		return bad(reterr, what, path, "is the root; name a node below it, like /locks/job");
	if (strlen(path) > limit)
		return zkl__error(reterr, ZKL_EPATH, 0, 0, "%s is %zu bytes long, at most %zu are possible here", what,
		                  strlen(path), limit);
	for (const char *part = path + 1;;) {
		size_t length = strcspn(part, "/");

		if (!length)
			return bad(reterr, what, path,
			           part[0] ? "has an empty part (//)" : "must not end with a slash");
		if (is_dots(part, length))
			return bad(reterr, what, path, "must not have a part . or ..");
		for (size_t i = 0, step; i < length; i += step) {
			step = printable_utf8((const unsigned char *)part + i);
			if (!step)
				return bad(reterr, what, path,
				           ((unsigned char)part[i] & 0xf8) == 0xf0
				                   ? "has a character of four bytes of UTF-8, which ZooKeeper refuses"
				                   : "has a byte that is not printable UTF-8");
		}
		if (!part[length])
			return 0;
		part += length + 1;
	}
}

static bool is_reserved(const char *path)
{
	size_t length = strlen(RESERVED);

	return strncmp(path, RESERVED, length) == 0 && (path[length] == '/' || !path[length]);
}

int zkl__node_path_check(const char *path, const char *chroot, zkl_error *reterr)
{
	int r = zkl__path_check("path", path, ZKL_PATH_MAX - strlen(chroot), reterr);

	if (r < 0)
		return r;
	if (is_reserved(chroot[0] ? chroot : path))
		return bad(reterr, "path", path, "lies in /zookeeper, which is ZooKeeper's own");
	return 0;
}

int zkl__lock_path_check(const char *path, const char *chroot, zkl_error *reterr)
{
	char name[ZKL_PATH_MAX + 1];
	int  r = zkl__node_path_check(path, chroot, reterr);

	if (r < 0)
		return r;
	for (const char *part = path + 1, *end; *part; part = end + (*end == '/')) {
		end = part + strcspn(part, "/");
		snprintf(name, sizeof name, "%.*s", (int)(end - part), part);
		if (zkl__queue_is_taken(name))
			return bad(reterr, "path", path,
			           "has a part that is named like a contender's node: as one it would block a lock on "
			           "its parent for good");
	}
	return 0;
}
