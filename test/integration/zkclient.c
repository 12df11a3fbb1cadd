/* SPDX-License-Identifier: Apache-2.0 */
#include "zkclient.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 20000
#define SESSION_MS  30000

struct zkclient {
	zhandle_t      *handle;
	char           *servers;
	pthread_mutex_t mutex;
	pthread_cond_t  synced;
	uintptr_t sync_sent, sync_seen; /* numbers of syncs; a late answer to one that was given up does no harm */
	int       sync_rc;
};

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The client's state can only be polled: its watcher would run on a thread that must not wait for us. */
static bool wait_connected(zhandle_t *handle, int64_t end_ms)
{
	while (zoo_state(handle) != ZOO_CONNECTED_STATE) {
		if (now_ms() >= end_ms || is_unrecoverable(handle))
			return false;
		nanosleep(&(struct timespec){0, 2000000}, NULL);
	}
	return true;
}

static zhandle_t *connect_to(const char *servers, const clientid_t *id)
{
	zoo_set_debug_level((ZooLogLevel)0);
	zhandle_t *handle = zookeeper_init(servers, NULL, SESSION_MS, id, NULL, 0);
	if (handle == NULL)
		fprintf(stderr, "zkclient: no handle for %s\n", servers);
	return handle;
}

/* Shall the call be made again? It gives the connection the time that is left. */
static bool again(zkclient *c, int rc, int64_t end_ms)
{
	if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT && rc != ZSESSIONEXPIRED && rc != ZINVALIDSTATE &&
	    rc != ZSESSIONMOVED)
		return false;
	while (c->handle != NULL && now_ms() < end_ms) {
		if (wait_connected(c->handle, end_ms))
			return true;
		if (is_unrecoverable(c->handle)) {
			zookeeper_close(c->handle);
			c->handle = connect_to(c->servers, NULL);
		}
	}
	return false;
}

zkclient *zkclient_open(const char *servers)
{
	zkclient *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->servers = strdup(servers);
	pthread_mutex_init(&c->mutex, NULL);
	pthread_condattr_t clock;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&c->synced, &clock);
	pthread_condattr_destroy(&clock);
	c->handle = connect_to(servers, NULL);
	if (c->handle == NULL || !wait_connected(c->handle, now_ms() + PATIENCE_MS)) {
		fprintf(stderr, "zkclient: %s: not connected within %d ms\n", servers, PATIENCE_MS);
		zkclient_close(c);
		return NULL;
	}
	return c;
}

void zkclient_close(zkclient *c)
{
	if (c == NULL)
		return;
	if (c->handle != NULL)
		zookeeper_close(c->handle);
	pthread_cond_destroy(&c->synced);
	pthread_mutex_destroy(&c->mutex);
	free(c->servers);
	free(c);
}

static void on_identified(int rc, const void *data)
{
	(void)rc; /* what follows on the connection is behind it */
	(void)data;
}

int zkclient_identify(zkclient *c, const char *user_and_password)
{
	return zoo_add_auth(c->handle, "digest", user_and_password, (int)strlen(user_and_password), on_identified,
	                    NULL);
}

int64_t zkclient_session(const zkclient *c)
{
	return zoo_client_id(c->handle)->client_id;
}

/* ---- looking ---- */

/* The completion's data is the address of the number's slot and not of the wait: a wait may be over before it comes. */
typedef struct sync_call {
	zkclient *client;
	uintptr_t number;
} sync_call;

static void on_synced(int rc, const char *path, const void *data)
{
	(void)path;
	sync_call *call = (sync_call *)(uintptr_t)data;
	pthread_mutex_lock(&call->client->mutex);
	if (call->number > call->client->sync_seen) {
		call->client->sync_seen = call->number;
		call->client->sync_rc = rc;
	}
	pthread_cond_broadcast(&call->client->synced);
	pthread_mutex_unlock(&call->client->mutex);
	free(call);
}

static int sync_with_leader(zkclient *c, const char *path)
{
	sync_call *call = malloc(sizeof *call);
	if (call == NULL)
		return ZSYSTEMERROR;
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += PATIENCE_MS / 1000;
	uintptr_t number = ++c->sync_sent;
	*call = (sync_call){c, number};
	int rc = zoo_async(c->handle, path, on_synced, call);
	if (rc != ZOK) {
		free(call);
		return rc;
	}
	pthread_mutex_lock(&c->mutex);
	for (int wait_rc = 0; c->sync_seen < number && wait_rc == 0;)
		wait_rc = pthread_cond_timedwait(&c->synced, &c->mutex, &end);
	rc = c->sync_seen < number ? ZOPERATIONTIMEOUT : c->sync_rc;
	pthread_mutex_unlock(&c->mutex);
	return rc;
}

static int by_sequence(const void *a, const void *b)
{
	const char *left = *(char *const *)a, *right = *(char *const *)b;
	size_t      left_len = strlen(left), right_len = strlen(right);
	const char *left_seq = left_len > 10 ? left + left_len - 10 : left;
	const char *right_seq = right_len > 10 ? right + right_len - 10 : right;
	return strcmp(left_seq, right_seq);
}

int zkclient_children(zkclient *c, const char *path, struct String_vector *ret)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do {
		rc = sync_with_leader(c, path);
		if (rc == ZOK)
			rc = zoo_get_children(c->handle, path, 0, ret);
	} while (again(c, rc, end_ms));
	if (rc == ZOK && ret->count > 0)
		qsort(ret->data, (size_t)ret->count, sizeof *ret->data, by_sequence);
	return rc;
}

int zkclient_count(zkclient *c, const char *path)
{
	struct String_vector names = {0, NULL};
	int                  rc = zkclient_children(c, path, &names);
	if (rc == ZNONODE)
		return 0;
	if (rc != ZOK)
		return rc;
	rc = names.count;
	deallocate_String_vector(&names);
	return rc;
}

int zkclient_stat(zkclient *c, const char *path, struct Stat *ret)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do {
		rc = sync_with_leader(c, path);
		if (rc == ZOK)
			rc = zoo_exists(c->handle, path, 0, ret);
	} while (again(c, rc, end_ms));
	return rc;
}

int zkclient_get(zkclient *c, const char *path, char *data, int *len)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc, room = *len;
	do {
		rc = sync_with_leader(c, path);
		*len = room;
		if (rc == ZOK)
			rc = zoo_get(c->handle, path, 0, data, len, NULL);
	} while (again(c, rc, end_ms));
	return rc;
}

int zkclient_read_once(zkclient *c, const char *path)
{
	return zoo_exists(c->handle, path, 0, NULL);
}

/* ---- changing ---- */

int zkclient_create(zkclient *c, const char *path, const void *data, int len, int flags, char *created, int size)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do
		rc = zoo_create(c->handle, path, data, data != NULL ? len : -1, &ZOO_OPEN_ACL_UNSAFE, flags, created,
		                size);
	while (!(flags & ZOO_SEQUENCE) && again(c, rc, end_ms));
	return rc;
}

int zkclient_make_guarded(zkclient *c, const char *path, const struct ACL_vector *acl)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do
		rc = zoo_create(c->handle, path, NULL, -1, acl, 0, NULL, 0);
	while (again(c, rc, end_ms));
	return rc;
}

int zkclient_guard(zkclient *c, const char *path, const struct ACL_vector *acl)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do
		rc = zoo_set_acl(c->handle, path, -1, acl);
	while (again(c, rc, end_ms));
	return rc;
}

int zkclient_make_directory(zkclient *c, const char *path)
{
	char *part = strdup(path);
	int   rc = ZOK;
	for (char *slash = part + 1; rc == ZOK || rc == ZNODEEXISTS; *slash++ = '/') {
		slash += strcspn(slash, "/");
		bool last = *slash == '\0';
		*slash = '\0';
		rc = zkclient_create(c, part, NULL, 0, 0, NULL, 0);
		if (last)
			break;
	}
	free(part);
	return rc == ZNODEEXISTS ? ZOK : rc;
}

int zkclient_set(zkclient *c, const char *path, const void *data, int len)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do
		rc = zoo_set(c->handle, path, data, len, -1);
	while (again(c, rc, end_ms));
	return rc;
}

int zkclient_delete(zkclient *c, const char *path)
{
	int64_t end_ms = now_ms() + PATIENCE_MS;
	int     rc;
	do
		rc = zoo_delete(c->handle, path, -1);
	while (again(c, rc, end_ms));
	return rc;
}

static void on_deleted(int rc, const void *data)
{
	(void)rc;
	(void)data;
}

int zkclient_delete_both(zkclient *c, const char *first, const char *second)
{
	int rc = zoo_adelete(c->handle, first, -1, on_deleted, NULL);
	return rc == ZOK ? zoo_delete(c->handle, second, -1) : rc;
}

int zkclient_delete_tree(zkclient *c, const char *path)
{
	struct String_vector names = {0, NULL};
	int                  rc = zkclient_children(c, path, &names);
	for (int32_t i = 0; rc == ZOK && i < names.count; i++) {
		char *child = NULL;
		if (asprintf(&child, "%s/%s", path, names.data[i]) < 0)
			return ZSYSTEMERROR;
		zkclient_delete_tree(c, child);
		free(child);
	}
	if (rc != ZOK)
		return rc;
	deallocate_String_vector(&names);
	return zkclient_delete(c, path);
}

int zkclient_delete_crowd(zkclient *c, const char *path)
{
	struct String_vector names = {0, NULL};
	int                  rc = zkclient_children(c, path, &names);
	for (int32_t i = 0; rc == ZOK && i < names.count; i++) {
		char child[300];
		snprintf(child, sizeof child, "%s/%s", path, names.data[i]);
		rc = zoo_adelete(c->handle, child, -1, on_deleted, NULL);
	}
	deallocate_String_vector(&names);
	return rc == ZOK ? zkclient_delete(c, path) : rc;
}

int zkclient_end_session(const char *server, int64_t id, const char password[16])
{
	clientid_t who = {.client_id = id};
	memcpy(who.passwd, password, sizeof who.passwd);
	zhandle_t *handle = connect_to(server, &who);
	if (handle == NULL)
		return ZSYSTEMERROR;
	bool connected = wait_connected(handle, now_ms() + PATIENCE_MS);
	bool over = zoo_state(handle) == ZOO_EXPIRED_SESSION_STATE;
	int  rc = zookeeper_close(handle);
	return over ? ZSESSIONEXPIRED : connected ? rc : ZCONNECTIONLOSS;
}
