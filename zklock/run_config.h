/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_RUN_CONFIG_H
#define ZKLOCK_RUN_CONFIG_H

/* run_config.h: what the files of zklock-run say: /etc/zklock.conf, and the one that holds credentials.
 *
 * Nothing here reads a file. What is wrong is said in one line, which never shows a credential, in ret_why of
 * ZKL__WHY_MAX bytes. */

#include "message.h"

#include <stddef.h>

#define ZKL__SERVERS_VARIABLE   "ZKLOCK_SERVERS"
#define ZKL__AUTH_FILE_VARIABLE "ZKLOCK_AUTH_FILE"

/* The caller's to clear. NULL: the key is missing. */
struct zkl__config {
	char *servers, *auth_file;
};

/* Lines KEY=VALUE; comments begin with '#'; blanks around key and value do not count, nor do quotes around the value, nor a
 * byte order mark before all. The last value of a key wins. -1: *ret_why, and nothing to clear. */
int  zkl__config_parse(const char *text, size_t length, struct zkl__config *ret, char *ret_why);
void zkl__config_clear(struct zkl__config *config);

/* Lines SCHEME:CREDENTIAL, as in "digest:user:password"; comments begin with '#'; blanks around a line do not count,
 * nor does a byte order mark before all. *ret: the lines, a newline between them, the caller's to free. -1: *ret_why; no
 * credential at all is wrong, too. */
int zkl__auth_parse(const char *text, size_t length, char **ret, char *ret_why);

#endif
