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

/* Servers are numbered from 1 to 255. The client takes milliseconds for each address when a handle is made. */
#define ZKL__SERVERS_MAX 255

struct zkl__server {
	char *host;
	char  port[6];
	char *known;    /* the addresses that were found last, "address:port,address:port"; NULL: none yet */
	bool  resolves; /* it had some when zkl__servers_note() was called */
};

struct zkl__servers {
	struct zkl__server *list;
	unsigned            count;
	char               *chroot; /* "" : none */
};

/* "host:port,[v6]:port/chroot". ZKL_EINVAL, ZKL_EPATH, ZKL_ENOMEM. */
int  zkl__servers_parse(struct zkl__servers *ret, const char *text, zkl_error *reterr);
void zkl__servers_clear(struct zkl__servers *servers);
/* Every host a literal address? */
bool zkl__servers_are_numeric(const struct zkl__servers *servers);
/* The list for the client, to be freed; NULL: no host has an address yet, or no memory. A host that cannot be resolved now
 * keeps the addresses that it had. May block for as long as the resolver does; numeric_only: looks no name up. */
char *zkl__servers_resolve(struct zkl__servers *servers, bool numeric_only);
/* No look may be under way. What it notes may be read while the next one is. */
void zkl__servers_note(struct zkl__servers *servers);
/* Has `list` an address that `other` has not? The order, which resolvers rotate, means nothing. */
bool zkl__servers_have_new(const char *list, const char *other);

#endif
