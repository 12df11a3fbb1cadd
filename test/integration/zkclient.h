/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_ZKCLIENT_H
#define ZKLOCK_TEST_ZKCLIENT_H

/* zkclient.h: an observer and operator that owes nothing to the library under test: ZooKeeper's own client,
 * synchronous.
 *
 * Looks are fresh: each follows a sync. Every call tries again while connections are lost, for 20 s in all, and
 * then says what it met last. Results are ZooKeeper's codes (ZOK, ZNONODE, ...). One thread at a time per client. */

#ifndef THREADED
#define THREADED /* without it the header hides the synchronous calls */
#endif
#include <zookeeper/zookeeper.h>

typedef struct zkclient zkclient;

/* Returns once connected; NULL after 20 s without. Free text on standard error says why. */
zkclient *zkclient_open(const char *servers);
/* From now on with this identity too, "user:password" of the scheme digest. */
int zkclient_identify(zkclient *c, const char *user_and_password);
/* Ends the session and with it the client's ephemeral nodes. NULL is fine. */
void    zkclient_close(zkclient *c);
int64_t zkclient_session(const zkclient *c);

/* Children of path; none where there is no path; < 0: a code. */
int zkclient_count(zkclient *c, const char *path);
/* Names of the children, by sequence number. To be freed with deallocate_String_vector(). */
int zkclient_children(zkclient *c, const char *path, struct String_vector *ret);
int zkclient_stat(zkclient *c, const char *path, struct Stat *ret);
/* *len: room in data, then bytes there. */
int zkclient_get(zkclient *c, const char *path, char *data, int *len);
/* Reads from the server that this client is connected to, without a sync and without trying again. */
int zkclient_read_once(zkclient *c, const char *path);

/* flags: ZOO_EPHEMERAL | ZOO_SEQUENCE, as wanted. created gets the name (NULL, 0: not wanted). Open to everybody. */
int zkclient_create(zkclient *c, const char *path, const void *data, int len, int flags, char *created, int size);
/* A directory with an access list of its own; its parent must be there. */
int zkclient_make_guarded(zkclient *c, const char *path, const struct ACL_vector *acl);
/* Gives a node another access list. */
int zkclient_guard(zkclient *c, const char *path, const struct ACL_vector *acl);
/* With all parents; those that exist stay as they are. */
int zkclient_make_directory(zkclient *c, const char *path);
int zkclient_set(zkclient *c, const char *path, const void *data, int len);
int zkclient_delete(zkclient *c, const char *path);
/* Two deletes in one go: the second is on its way before the first is answered. */
int zkclient_delete_both(zkclient *c, const char *first, const char *second);
int zkclient_delete_tree(zkclient *c, const char *path);
/* A directory of empty directories, all at once. */
int zkclient_delete_crowd(zkclient *c, const char *path);

/* Ends somebody's session by its id and password. Keep its owner from reconnecting meanwhile, or end it until it is over: who
 * reconnects may keep it. ZSESSIONEXPIRED: it is over already. */
int zkclient_end_session(const char *server, int64_t id, const char password[16]);

#endif
