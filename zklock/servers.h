/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SERVERS_H
#define ZKLOCK_SERVERS_H

/* servers.h: connect strings, and names to addresses.
 *
 * The ZooKeeper client gets numeric addresses only: it resolves names on the thread that also sends pings, and when that
 * fails it neither reads nor times out (ZOOKEEPER-1998 and the pull request 1680). And an odd count of them, since it goes
 * on by two after a failure (ZOOKEEPER-2466). The chroot is the library's own business: the client's takes "/application"
 * for a part of "/app". */

#include <stdbool.h>

#include <zklock/zklock.h>

struct zkl__server {
	char *host;
	char  port[6];
};

struct zkl__servers {
	struct zkl__server *list;
	unsigned            count;
	char               *chroot; /* "" : none */
};

/* "host:port,[v6]:port/chroot". ZKL_EINVAL, ZKL_EPATH, ZKL_ENOMEM. */
int  zkl__servers_parse(struct zkl__servers *ret, const char *text, zkl_error *reterr);
void zkl__servers_clear(struct zkl__servers *servers);
/* Every host a literal address, so that resolving cannot block? */
bool zkl__servers_are_numeric(const struct zkl__servers *servers);
/* The list for the client, to be freed; NULL: no host has an address now, or no memory. May block for as long as the
 * resolver does. */
char *zkl__servers_resolve(const struct zkl__servers *servers);

#endif
