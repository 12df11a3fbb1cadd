/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_AUTH_H
#define ZKLOCK_AUTH_H

/* auth.h: what a session shows to the servers: lines "scheme:credential". */

#include <stdbool.h>
#include <stddef.h>

/* The longest name of a scheme. */
#define ZKL__SCHEME_MAX 31

/* One line: a scheme, a colon, and more; of "digest" that is user:password. */
bool zkl__auth_is_valid(const char *line, size_t length);
/* One or more lines, with a newline between them. */
bool zkl__auth_are_valid(const char *lines);

#endif
