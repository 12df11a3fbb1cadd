/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_AUTH_H
#define ZKLOCK_AUTH_H

/* auth.h: what a session shows to the servers: lines "scheme:credential". */

#include <stddef.h>

/* The longest name of a scheme. */
#define ZKL__SCHEME_MAX 31
/* What would be right, in messages. */
#define ZKL__AUTH_RIGHT "give digest:user:password, or what a plugin of the servers takes"

/* One line: a scheme that can be shown, a colon, and more; of "digest" that is user:password. Returns what is wrong, with what
 * would be right, and nothing of the line in it; NULL: nothing. */
const char *zkl__auth_wrong(const char *line, size_t length);
/* One or more lines, with a newline between them. */
const char *zkl__auth_all_wrong(const char *lines);

#endif
