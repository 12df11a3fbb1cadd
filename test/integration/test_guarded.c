/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that only the holder can make, whatever it believes. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zklock/guarded.h>

#define SESSION_MS (tick_ms() * 12)
#define ENOUGH_MS  10000

/* A holder behind a proxy, and a node to write to. */
typedef struct holder {
	lock_path    lock_path, data_path;
	char         child[300];
	net          way;
	zkl_session *s;
	zkl_lock    *lock;
	zkl_grant    grant;
} holder;

static void holder_open(holder *w)
{
	*w = (holder){.lock_path = new_path(), .data_path = new_path()};
	snprintf(w->child, sizeof w->child, "%s/child", w->data_path.text);
	EXPECT_INT(zkclient_make_directory(observer(), w->data_path.text), ZOK);
	net_open(&w->way, 1, 1);
	w->s = session_open(w->way.servers, SESSION_MS);
	w->lock = lock_new(w->s, w->lock_path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(w->lock, ENOUGH_MS, &w->grant, NULL), ZKL_OK);
}

static void holder_close(holder *w)
{
	zkl_lock_free(w->lock);
	zkl_session_close(w->s, ENOUGH_MS);
	net_close(&w->way);
}

static int set(holder *w, const char *text, zkl_error *error)
{
	return zkl_guarded_set(w->s, &w->grant, w->data_path.text, text, strlen(text), -1, ENOUGH_MS, error);
}

static bool is_text(const char *path, const char *text)
{
	char data[100] = "";
	int  len = sizeof data - 1;
	return zkclient_get(observer(), path, data, &len) == ZOK && strcmp(data, text) == 0;
}

static void holder_writes(void)
{
	holder w;
	holder_open(&w);
	EXPECT_RC(set(&w, "one", NULL), ZKL_OK);
	EXPECT_TRUE(is_text(w.data_path.text, "one"));
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.data_path.text, "two", 3, 1, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(is_text(w.data_path.text, "two"));
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.data_path.text, NULL, 0, -1, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(is_text(w.data_path.text, ""));
	EXPECT_RC(zkl_guarded_create(w.s, &w.grant, w.child, "new", 3, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(is_text(w.child, "new"));
	struct Stat stat;
	EXPECT_INT(zkclient_stat(observer(), w.child, &stat), ZOK);
	EXPECT_INT(stat.ephemeralOwner, 0);
	EXPECT_RC(zkl_guarded_delete(w.s, &w.grant, w.child, -1, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(zkclient_count(observer(), w.data_path.text), 0);
	const zkl_write all[] = {{ZKL_WRITE_CREATE, w.child, "a", 1, -1},
	                         {ZKL_WRITE_SET, w.child, "b", 1, 0},
	                         {ZKL_WRITE_SET, w.data_path.text, "c", 1, -1}};
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, all, 3, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(is_text(w.child, "b") && is_text(w.data_path.text, "c"));
	EXPECT_TRUE(zkl_lock_check(w.lock, w.grant.token) > 0);
	holder_close(&w);
}

static void nobody_writes_with_a_grant_that_was_released(void)
{
	holder    w;
	zkl_error error = {0};
	holder_open(&w);
	EXPECT_RC(set(&w, "held", NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(w.lock, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(set(&w, "released", &error), ZKL_ELOST);
	EXPECT_TRUE(strstr(error.message, w.data_path.text) && strstr(error.message, w.grant.node));
	EXPECT_RC(zkl_guarded_create(w.s, &w.grant, w.child, NULL, 0, ENOUGH_MS, NULL), ZKL_ELOST);
	const zkl_write all[] = {{ZKL_WRITE_SET, w.data_path.text, "x", 1, -1},
	                         {ZKL_WRITE_CREATE, w.child, NULL, 0, -1}};
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, all, 2, ENOUGH_MS, NULL), ZKL_ELOST);
	EXPECT_TRUE(is_text(w.data_path.text, "held"));
	EXPECT_INT(zkclient_count(observer(), w.data_path.text), 0);
	holder_close(&w);
}

/* It checks, and is away for so long that another one is granted and writes; then it goes on with its own write. */
static void who_was_away_between_its_check_and_its_write_is_refused(void)
{
	for (int i = 0; i < rounds(3, 30); i++) {
		holder       w;
		zkl_session *other = session_open(all_servers(), SESSION_MS);
		holder_open(&w);
		zkl_lock *next = lock_new(other, w.lock_path.text, NULL);
		zkl_grant later;
		EXPECT_TRUE(zkl_lock_check(w.lock, w.grant.token) > 0);
		net_expire(&w.way);
		EXPECT_RC(zkl_lock_acquire(next, ENOUGH_MS, &later, NULL), ZKL_OK);
		EXPECT_RC(zkl_guarded_set(other, &later, w.data_path.text, "new", 3, -1, ENOUGH_MS, NULL), ZKL_OK);
		EXPECT_RC(set(&w, "old", NULL), ZKL_ELOST);
		EXPECT_TRUE(is_text(w.data_path.text, "new"));
		zkl_lock_free(next);
		zkl_session_close(other, ENOUGH_MS);
		holder_close(&w);
	}
}

static void all_is_written_or_nothing(void)
{
	holder    w;
	zkl_error error = {0};
	char      missing[300], below[320];
	holder_open(&w);
	snprintf(missing, sizeof missing, "%s/missing", w.data_path.text);
	snprintf(below, sizeof below, "%s/below", missing);
	const zkl_write all[] = {{ZKL_WRITE_CREATE, w.child, "a", 1, -1},
	                         {ZKL_WRITE_SET, w.data_path.text, "b", 1, -1},
	                         {ZKL_WRITE_SET, missing, "c", 1, -1},
	                         {ZKL_WRITE_DELETE, w.child, NULL, 0, -1}};
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, all, 4, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZNONODE);
	EXPECT_TRUE(strstr(error.message, missing) != NULL);
	EXPECT_INT(zkclient_count(observer(), w.data_path.text), 0);
	EXPECT_TRUE(is_text(w.data_path.text, ""));
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.data_path.text, "d", 1, 7, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZBADVERSION);
	EXPECT_RC(zkl_guarded_create(w.s, &w.grant, w.data_path.text, NULL, 0, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZNODEEXISTS);
	EXPECT_RC(zkl_guarded_create(w.s, &w.grant, w.child, NULL, 0, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_guarded_delete(w.s, &w.grant, w.data_path.text, -1, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZNOTEMPTY);
	EXPECT_RC(zkl_guarded_delete(w.s, &w.grant, missing, -1, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZNONODE);
	EXPECT_TRUE(strstr(error.message, "parent") == NULL);
	EXPECT_RC(zkl_guarded_create(w.s, &w.grant, below, NULL, 0, ENOUGH_MS, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, ZNONODE);
	EXPECT_TRUE(strstr(error.message, "/missing/below cannot be written, its parent is missing: ") != NULL);
	holder_close(&w);
}

/* ---- permissions ---- */

static void what_may_not_be_written_is_said(void)
{
	struct ACL        list[] = {{ZOO_PERM_READ, {(char *)"world", (char *)"anyone"}}};
	struct ACL_vector acl = {1, list};
	holder            w;
	zkl_error         error = {0};
	holder_open(&w);
	EXPECT_INT(zkclient_make_guarded(observer(), w.child, &acl), ZOK);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.child, "x", 1, -1, ENOUGH_MS, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, w.child) && strstr(error.message, "ACL"));
	holder_close(&w);
}

static void what_is_made_under_credentials_is_closed(void)
{
	lock_path           path = new_path(), data = new_path();
	char                child[300], read[10];
	int                 len = sizeof read;
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;
	zkl_grant           grant;
	options.auth = "digest:owner:secret";
	EXPECT_INT(zkclient_make_directory(observer(), data.text), ZOK);
	snprintf(child, sizeof child, "%s/child", data.text);
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_guarded_create(s, &grant, child, "x", 1, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_INT(zkclient_get(observer(), child, read, &len), ZNOAUTH);
	EXPECT_RC(zkl_guarded_set(s, &grant, child, "y", 1, -1, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_guarded_delete(s, &grant, child, -1, ENOUGH_MS, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- the network ---- */

static void write_without_a_server_is_not_sent(void)
{
	holder    w;
	zkl_error error = {0};
	holder_open(&w);
	net_set_door(&w.way, PROXY_REFUSING);
	net_cut(&w.way);
	EVENTUALLY(!stats_of(w.s).connected, ENOUGH_MS);
	int64_t start_ms = now_ms();
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.data_path.text, "x", 1, -1, 200, &error), ZKL_ENOTCONN);
	EXPECT_RANGE(now_ms() - start_ms, 200, late(700));
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, w.data_path.text, "x", 1, -1, 0, &error), ZKL_ENOTCONN);
	net_set_door(&w.way, PROXY_OPEN);
	EXPECT_RC(set(&w, "back", NULL), ZKL_OK); /* once it is connected again */
	EXPECT_TRUE(is_text(w.data_path.text, "back"));
	holder_close(&w);
}

static void write_of_which_nobody_knows_is_not_made_again(void)
{
	static const proxy_act acts[] = {PROXY_LOSE_REPLY, PROXY_CUT_BEFORE, PROXY_HOLD_REPLY};
	for (int i = 0; i < 3; i++) {
		holder    w;
		zkl_error error = {0};
		holder_open(&w);
		EXPECT_INT(zkclient_set(observer(), w.data_path.text, "before", 6), ZOK);
		proxy_arm(w.way.at[0],
		          &(proxy_rule){.op = OP_MULTI, .nth = 1, .path = w.data_path.text, .act = acts[i]});
		EXPECT_RC(zkl_guarded_create(w.s, &w.grant, w.child, "x", 1, i == 2 ? 300 : ENOUGH_MS, &error),
		          ZKL_ETIMEDOUT);
		EXPECT_TRUE(strstr(error.message, "or not") != NULL);
		EXPECT_INT(zkclient_count(observer(), w.data_path.text), acts[i] != PROXY_CUT_BEFORE);
		net_hold(&w.way, 0);
		EXPECT_RC(set(&w, "after", NULL), ZKL_OK);
		EXPECT_INT(zkclient_count(observer(), w.data_path.text), acts[i] != PROXY_CUT_BEFORE);
		holder_close(&w);
	}
}

/* ---- arguments ---- */

static void bad_arguments_are_refused_before_anything_is_sent(void)
{
	static char long_text[ZKL_WRITE_BYTES_MAX + 1];
	holder      w;
	zkl_write   many[ZKL_WRITES_MAX + 1];
	zkl_error   error = {0};
	holder_open(&w);
	const char *path = w.data_path.text;
	for (size_t i = 0; i < ZKL_WRITES_MAX + 1; i++)
		many[i] = (zkl_write){ZKL_WRITE_SET, path, "x", 1, -1};
	zkl_grant none = {0}, unended = w.grant;
	memset(unended.node, '/', sizeof unended.node);
	EXPECT_RC(zkl_guarded_multi(w.s, &none, many, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(w.s, &unended, many, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(w.s, NULL, many, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(NULL, &w.grant, many, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, NULL, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, many, 0, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, many, ZKL_WRITES_MAX + 1, ENOUGH_MS, &error), ZKL_EINVAL);
	EXPECT_TRUE(strstr(error.message, "1 to 100") != NULL);
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, many, 1, -1, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, path, NULL, 1, -1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, path, "x", 1, -2, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, path, long_text, sizeof long_text, -1, ENOUGH_MS, &error), ZKL_EINVAL);
	EXPECT_TRUE(strstr(error.message, "900000") != NULL);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, "relative", "x", 1, -1, ENOUGH_MS, NULL), ZKL_EPATH);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, NULL, "x", 1, -1, ENOUGH_MS, NULL), ZKL_EPATH);
	EXPECT_RC(zkl_guarded_delete(w.s, &w.grant, "/zookeeper/quota", -1, ENOUGH_MS, NULL), ZKL_EPATH);
	many[0].type = 0;
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, many, 1, ENOUGH_MS, NULL), ZKL_EINVAL);
	EXPECT_INT(proxy_count(w.way.at[0], OP_MULTI), (int)stats_of(w.s).heartbeats);
	many[0].type = ZKL_WRITE_SET;
	EXPECT_RC(zkl_guarded_multi(w.s, &w.grant, many, ZKL_WRITES_MAX, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_guarded_set(w.s, &w.grant, path, long_text, sizeof long_text - 1000, -1, ENOUGH_MS, NULL),
	          ZKL_OK);
	EXPECT_INT((int)stats_of(w.s).reconnects, 0);
	holder_close(&w);
}

static void write_in_a_callback(const zkl_event *ev, recorder *r)
{
	if (ev->type == ZKL_EV_GRANTED)
		r->flag = zkl_guarded_set(r->user, ev->grant, "/a", NULL, 0, -1, ENOUGH_MS, NULL);
}

static void blocking_in_a_callback_is_refused(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("caller");
	events.then = write_in_a_callback;
	events.user = s;
	zkl_lock *lock = lock_new(s, path.text, &events);
	EXPECT_RC(zkl_lock_start(lock, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(events.flag == ZKL_EDEADLK, ENOUGH_MS);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
	recorder_free(&events);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(holder_writes, 60)},
		{TEST(nobody_writes_with_a_grant_that_was_released, 60)},
		{TEST(who_was_away_between_its_check_and_its_write_is_refused, 300)},
		{TEST(all_is_written_or_nothing, 60)},
		{TEST(what_may_not_be_written_is_said, 60)},
		{TEST(what_is_made_under_credentials_is_closed, 60)},
		{TEST(write_without_a_server_is_not_sent, 60)},
		{TEST(write_of_which_nobody_knows_is_not_made_again, 60)},
		{TEST(bad_arguments_are_refused_before_anything_is_sent, 60)},
		{TEST(blocking_in_a_callback_is_refused, 60)},
		{0},
	};
	return harness_main(argc, argv, "guarded", tests);
}
