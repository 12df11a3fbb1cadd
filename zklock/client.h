/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CLIENT_H
#define ZKLOCK_CLIENT_H

/* client.h: one ZooKeeper session from its making to its end, on one handle of the ZooKeeper client at a time. Its .c is the
 * only file that includes <zookeeper.h>.
 *
 * The client's callbacks run on the client's threads. They do one thing: put what happened into the mailbox, in order, and
 * wake whoever empties it. */

#include <stdbool.h>

#include <zklock/zklock.h>

#include "identities.h"
#include "protocol.h"

/* Of a directory below the chroot, with its NUL. */
#define ZKL__DIRECTORY_MAX (ZKL_PATH_MAX + 1)

struct zkl__client;

enum zkl__mail_type {
	ZKL__MAIL_CONNECTED,
	ZKL__MAIL_DISCONNECTED,
	ZKL__MAIL_EXPIRED,
	ZKL__MAIL_AUTH_FAILED,
	ZKL__MAIL_REPLY,
	ZKL__MAIL_GONE,    /* a watched node was deleted */
	ZKL__MAIL_CHANGED, /* a watched node was changed, born, or has other children */
	ZKL__MAIL_LOST /* there was no memory for some mail, nobody knows which: the client is to be freed; comes once */
};

struct zkl__mail {
	struct zkl__mail   *next;
	enum zkl__mail_type type;
	uint64_t            party;                         /* REPLY */
	uint32_t            watcher;                       /* GONE and CHANGED; see zkl__watcher() */
	int64_t             session_id, timeout_ns;        /* CONNECTED */
	struct zkl__reply   reply;                         /* REPLY; GONE and CHANGED: name */
	char                directory[ZKL__DIRECTORY_MAX]; /* GONE and CHANGED */
};

struct zkl__client_options {
	const char                   *servers; /* numeric, see servers.h */
	const char                   *chroot;
	const char                   *auth; /* "digest:user:password" or NULL */
	int64_t                       timeout_ms;
	const struct zkl__identities *others; /* who else may take what is made under auth */
	int64_t (*now_ns)(void);
	void (*wake)(void *arg); /* from the client's threads */
	void *wake_arg;
};

/* Starts connecting. NULL: errno says why. The strings but `servers` must live as long as the client. */
struct zkl__client *zkl__client_new(const struct zkl__client_options *options);
/* Goes on with the same session on a new handle, which knows these servers only: the client learns of its end from nobody else
 * (and zoo_set_servers() takes another port of the same address for the same server). Without watches, and requests that
 * were under way end UNKNOWN. False: nothing was done, for it is connected, or a server that was asked may be about to
 * answer. if_asked: also then; should that very answer come during the call, the session is ended, so nothing may be
 * held. Blocks for some milliseconds. */
bool zkl__client_move(struct zkl__client *client, const char *servers, bool if_asked);
/* Has a server been asked for the session, or taken it? */
bool zkl__client_asked(const struct zkl__client *client);
/* Sends; the reply comes as mail, in any case and never within this call. */
void zkl__client_send(struct zkl__client *client, uint64_t party, const struct zkl__request *request);
/* All mail so far, oldest first, each to be given back with zkl__mail_free(). */
struct zkl__mail *zkl__client_take(struct zkl__client *client);
/* Ends the session (within some seconds at the worst) and frees the client. Returns the mail that was left, and a reply
 * with the result UNKNOWN for each request that had none. Not from a callback of the client. */
struct zkl__mail *zkl__client_free(struct zkl__client *client);
void              zkl__mail_free(struct zkl__mail *mail);

#endif
