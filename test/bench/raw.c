/* SPDX-License-Identifier: Apache-2.0 */
#define THREADED /* the multi-threaded client's prototypes */
#include "recipe.h"

#include "common.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

struct contender {
	const char *path;
	char        node[256], before[256]; /* ours; the one that we wait for, "": none */
	sem_t       answered, gone;
};

static zhandle_t *handle;
static sem_t      connected;

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	(void)zh, (void)path, (void)context;
	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		sem_post(&connected);
	else
		die("the session ended: state %d", state);
}

static void open_session(const char *servers, int session_ms)
{
	sem_init(&connected, 0, 0);
	zoo_set_debug_level((ZooLogLevel)0);
	handle = zookeeper_init(servers, on_session, session_ms, NULL, NULL, 0);
	if (!handle)
		die("no handle for %s", servers);
	sem_wait(&connected);
}

static void close_session(void)
{
	zookeeper_close(handle);
}

static contender *join(const char *path)
{
	contender *c = calloc(1, sizeof *c);

	c->path = path;
	sem_init(&c->answered, 0, 0);
	sem_init(&c->gone, 0, 0);
	return c;
}

static void leave(contender *c)
{
	sem_destroy(&c->answered);
	sem_destroy(&c->gone);
	free(c);
}

static void expect_ok(int rc, const char *doing)
{
	if (rc != ZOK)
		die("%s: error %d", doing, rc);
}

/* ---- on a thread of the client ---- */

static void on_created(int rc, const char *path, const void *data)
{
	contender *c = (contender *)(uintptr_t)data;

	expect_ok(rc, "create");
	snprintf(c->node, sizeof c->node, "%s", path);
}

static void on_created_only(int rc, const char *path, const void *data)
{
	contender *c = (contender *)(uintptr_t)data;

	on_created(rc, path, data);
	sem_post(&c->answered);
}

/* Of the names below ours the greatest one; all of them have ten digits behind the same prefix. */
static void on_listed(int rc, const struct String_vector *names, const void *data)
{
	contender  *c = (contender *)(uintptr_t)data;
	const char *own = strrchr(c->node, '/') + 1, *found = "";

	expect_ok(rc, "list");
	for (int i = 0; i < names->count; i++)
		if (strcmp(names->data[i], own) < 0 && strcmp(names->data[i], found) > 0)
			found = names->data[i];
	snprintf(c->before, sizeof c->before, "%s%s%s", *found ? c->path : "", *found ? "/" : "", found);
	sem_post(&c->answered);
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
	contender *c = context;

	(void)zh, (void)state, (void)path;
	if (type == ZOO_DELETED_EVENT)
		sem_post(&c->gone);
}

static void on_watched(int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
	contender *c = (contender *)(uintptr_t)data;

	(void)value, (void)length, (void)stat;
	if (rc == ZNONODE)
		sem_post(&c->gone);
	else
		expect_ok(rc, "watch");
}

static void on_deleted(int rc, const void *data)
{
	contender *c = (contender *)(uintptr_t)data;

	expect_ok(rc, "delete");
	sem_post(&c->answered);
}

/* ---- on the contender's ---- */

static void create(contender *c, string_completion_t completion)
{
	snprintf(c->node, sizeof c->node, "%s/raw-", c->path);
	expect_ok(zoo_acreate(handle, c->node, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, completion,
	                      c),
	          "create");
}

static void acquire(contender *c)
{
	create(c, on_created);
	expect_ok(zoo_aget_children(handle, c->path, 0, on_listed, c), "list");
	sem_wait(&c->answered);
	if (!c->before[0])
		return;
	expect_ok(zoo_awget(handle, c->before, on_event, c, on_watched, c), "watch");
	sem_wait(&c->gone);
}

static void acquire_bare(contender *c)
{
	create(c, on_created_only);
	sem_wait(&c->answered);
}

static void release(contender *c)
{
	expect_ok(zoo_adelete(handle, c->node, -1, on_deleted, c), "delete");
	sem_wait(&c->answered);
}

const recipe raw = {"raw", open_session, join, acquire, release, leave, close_session};
const recipe bare = {"bare", open_session, join, acquire_bare, release, leave, close_session};
