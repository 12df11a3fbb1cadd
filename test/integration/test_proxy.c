/* SPDX-License-Identifier: Apache-2.0 */
/* The instruments themselves: the proxy does what it says, and the observer sees it. */
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define SESSION_MS (tick_ms() * 20)

/* A plain client behind one proxy. It waits for nothing: codes are the first ones that come. */
static zhandle_t *client_behind(proxy *p)
{
	zhandle_t *client = zookeeper_init(proxy_address(p), NULL, (int)SESSION_MS, NULL, NULL, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(client);
	EVENTUALLY(zoo_state(client) == ZOO_CONNECTED_STATE, 10000);
	return client;
}

static int create_node(zhandle_t *client, const char *path)
{
	return zoo_create(client, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
}

static void counts_requests_by_type(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	EXPECT_INT(zkclient_make_directory(observer(), "/zklock-test"), ZOK);
	EXPECT_INT(create_node(client, path.text), ZOK);
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOK);
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOK);
	EXPECT_INT(net_requests(&n, OP_CREATE), 1);
	EXPECT_INT(net_requests(&n, OP_EXISTS), 2);
	EXPECT_INT(net_requests(&n, OP_ANY), 3);
	EXPECT_TRUE(net_last_proof_ns(&n) > 0 && net_last_proof_ns(&n) <= now_ns());
	net_reset_counts(&n);
	EXPECT_INT(net_requests(&n, OP_ANY), 0);
	zookeeper_close(client);
	net_close(&n);
}

static void cut_before_keeps_the_request_from_the_server(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	char child[300];
	snprintf(child, sizeof child, "%s/child", path.text);
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_CREATE, .nth = 1, .act = PROXY_CUT_BEFORE});
	EXPECT_INT(create_node(client, child), ZCONNECTIONLOSS);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], 0));
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	EVENTUALLY(create_node(client, child) == ZOK, 5000);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	zookeeper_close(client);
	net_close(&n);
}

static void lost_reply_leaves_the_request_done(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	char child[300];
	snprintf(child, sizeof child, "%s/child", path.text);
	proxy_arm(
		n.at[0],
		&(proxy_rule){
			.op = OP_CREATE, .nth = 1, .path = path.text, .act = PROXY_LOSE_REPLY, .door = PROXY_REFUSING});
	EXPECT_INT(create_node(client, child), ZCONNECTIONLOSS);
	EXPECT_INT(zkclient_count(observer(), path.text), 1);
	THROUGHOUT(zoo_state(client) != ZOO_CONNECTED_STATE, 300);
	proxy_set_door(n.at[0], PROXY_OPEN);
	EVENTUALLY(zoo_state(client) == ZOO_CONNECTED_STATE, 5000);
	zookeeper_close(client);
	net_close(&n);
}

static void cut_after_reply_delivers_the_reply(void)
{
	net       n;
	lock_path path = new_path();
	net_open(&n, 1, 1);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	for (int i = 0; i < 20; i++) {
		zhandle_t *client = client_behind(n.at[0]);
		proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 2, .act = PROXY_CUT_AFTER_REPLY});
		EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOK);
		EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOK);
		EVENTUALLY(zoo_exists(client, path.text, 0, NULL) == ZOK, 5000);
		zookeeper_close(client);
	}
	net_close(&n);
}

static void delayed_reply_comes_late(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 1, .act = PROXY_DELAY_REPLY, .delay_ms = 300});
	int64_t start_ms = now_ms();
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZNONODE);
	EXPECT_RANGE(now_ms() - start_ms, 299, late(300));
	zookeeper_close(client);
	net_close(&n);
}

static void on_exists(int rc, const struct Stat *stat, const void *data)
{
	(void)stat;
	__atomic_store_n((int *)(uintptr_t)data, rc, __ATOMIC_SEQ_CST);
}

static void on_created(int rc, const char *path, const void *data)
{
	(void)path;
	__atomic_store_n((int *)(uintptr_t)data, rc, __ATOMIC_SEQ_CST);
}

static void held_directions_are_silent_until_let_go(void)
{
	static const unsigned directions[] = {PROXY_TO_SERVER, PROXY_TO_CLIENT, PROXY_BOTH};
	net                   n;
	lock_path             path = new_path();
	zhandle_t            *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	static int            answer;
	for (size_t i = 0; i < 3; i++) {
		answer = 1;
		net_hold(&n, directions[i]);
		EXPECT_INT(zoo_aexists(client, path.text, 0, on_exists, &answer), ZOK);
		THROUGHOUT(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == 1, 300);
		EXPECT_INT(zoo_state(client), ZOO_CONNECTED_STATE);
		net_hold(&n, 0);
		EVENTUALLY(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == ZNONODE, 10000);
	}
	zookeeper_close(client);
	net_close(&n);
}

/* Not at once: the kernel has waited longer and longer, from 200 ms on. */
static void dropped_packets_come_when_they_are_sent_again(void)
{
	net        n;
	lock_path  path = new_path();
	static int answer = 1;
	if (!proxy_can_drop())
		SKIP("packets may not be dropped here");
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	EXPECT_INT(zkclient_make_directory(observer(), "/zklock-test"), ZOK);
	net_drop(&n, true);
	EXPECT_INT(zoo_aexists(client, path.text, 0, on_exists, &answer), ZOK);
	THROUGHOUT(net_requests(&n, OP_EXISTS) == 0, 450);
	net_drop(&n, false);
	THROUGHOUT(net_requests(&n, OP_EXISTS) == 0, 50);
	EVENTUALLY(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == ZNONODE, 10000);
	EXPECT_INT(zoo_state(client), ZOO_CONNECTED_STATE);
	zookeeper_close(client);
	net_close(&n);
}

static void held_request_waits_with_what_is_behind_it(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	static int answer = 1;
	EXPECT_INT(zkclient_make_directory(observer(), "/zklock-test"), ZOK);
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 1, .path = path.text, .act = PROXY_HOLD_REQUEST});
	EXPECT_INT(zoo_aexists(client, path.text, 0, on_exists, &answer), ZOK);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], 5000));
	EXPECT_INT(net_requests(&n, OP_EXISTS), 0);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	zkclient *beside = zkclient_open(servers[0]);
	EVENTUALLY(zkclient_read_once(beside, path.text) == ZOK, 5000); /* the client's server knows of it */
	zkclient_close(beside);
	net_hold(&n, 0);
	EVENTUALLY(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == ZOK, 10000); /* it found what was made meanwhile */
	EXPECT_INT(net_requests(&n, OP_EXISTS), 1);
	zookeeper_close(client);
	net_close(&n);
}

/* Silent until the reply to the next request comes, which the client finds out of order. */
static void swallowed_request_or_reply_leaves_the_connection_until_the_next_reply(void)
{
	static const proxy_act acts[] = {PROXY_SWALLOW_REQUEST, PROXY_SWALLOW_REPLY};
	static int             first, second;
	for (size_t i = 0; i < 2; i++) {
		net        n;
		lock_path  path = new_path();
		zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
		int        carried_out = acts[i] == PROXY_SWALLOW_REPLY;
		first = second = 1;
		EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
		char child[300];
		snprintf(child, sizeof child, "%s/child", path.text);
		proxy_arm(n.at[0], &(proxy_rule){.op = OP_CREATE, .nth = 1, .act = acts[i]});
		EXPECT_INT(zoo_acreate(client, child, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, on_created, &first), ZOK);
		EXPECT_TRUE(proxy_wait_struck(n.at[0], 5000));
		EVENTUALLY(zkclient_count(observer(), path.text) == carried_out, 5000);
		THROUGHOUT(__atomic_load_n(&first, __ATOMIC_SEQ_CST) == 1 && zoo_state(client) == ZOO_CONNECTED_STATE,
		           300);
		EXPECT_INT(zkclient_count(observer(), path.text), carried_out);
		EXPECT_INT(zoo_aexists(client, path.text, 0, on_exists, &second), ZOK);
		EVENTUALLY(__atomic_load_n(&second, __ATOMIC_SEQ_CST) != 1, 5000);
		EXPECT_INT(first, ZRUNTIMEINCONSISTENCY);
		EXPECT_INT(second, ZRUNTIMEINCONSISTENCY);
		EVENTUALLY(zoo_state(client) == ZOO_CONNECTED_STATE, 5000);
		EXPECT_INT(zoo_exists(client, child, 0, NULL), carried_out ? ZOK : ZNONODE);
		zookeeper_close(client);
		net_close(&n);
	}
}

static void swallowed_reply_with_nothing_behind_it_is_missed_after_two_thirds_of_the_timeout(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	int64_t    timeout_ms = zoo_recv_timeout(client), start_ms = now_ms();
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 1, .act = PROXY_SWALLOW_REPLY});
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOPERATIONTIMEOUT);
	EXPECT_RANGE(now_ms() - start_ms, timeout_ms / 3, timeout_ms); /* counted from the last that was heard */
	zookeeper_close(client);
	net_close(&n);
}

static void doubled_request_is_carried_out_twice_and_answered_once(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	char child[300], made[300];
	snprintf(child, sizeof child, "%s/n-", path.text);
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_CREATE, .nth = 1, .act = PROXY_DOUBLE_REQUEST});
	EXPECT_INT(zoo_create(client, child, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, made, sizeof made), ZOK);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], 0));
	EXPECT_TRUE(strcmp(made + strlen(made) - 10, "0000000000") == 0);
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZOK); /* behind the second reply */
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	EXPECT_INT(net_requests(&n, OP_CREATE), 1);
	THROUGHOUT(zoo_state(client) == ZOO_CONNECTED_STATE, 300);
	zookeeper_close(client);
	net_close(&n);
}

static void doubled_reply_is_taken_for_the_next_one(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 1, .act = PROXY_DOUBLE_REPLY});
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZNONODE);
	THROUGHOUT(zoo_state(client) == ZOO_CONNECTED_STATE && !proxy_wait_struck(n.at[0], 0), 300);
	EXPECT_INT(zoo_exists(client, path.text, 0, NULL), ZRUNTIMEINCONSISTENCY);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], 0));
	EVENTUALLY(zoo_exists(client, path.text, 0, NULL) == ZNONODE, 5000);
	zookeeper_close(client);
	net_close(&n);
}

static void on_watch(zhandle_t *client, int type, int state, const char *path, void *fired)
{
	(void)client;
	(void)state;
	(void)path;
	if (type == ZOO_CREATED_EVENT)
		__atomic_store_n((int *)fired, 1, __ATOMIC_SEQ_CST);
}

static void held_request_can_hold_all_that_comes_from_the_server_too(void)
{
	net        n;
	lock_path  path = new_path();
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	static int answer = 1, fired = 0;
	EXPECT_INT(zkclient_make_directory(observer(), "/zklock-test"), ZOK);
	EXPECT_INT(zoo_wexists(client, path.text, on_watch, &fired, NULL), ZNONODE);
	proxy_arm(n.at[0], &(proxy_rule){.op = OP_EXISTS, .nth = 1, .act = PROXY_HOLD_ALL});
	EXPECT_INT(zoo_aexists(client, path.text, 0, on_exists, &answer), ZOK);
	EXPECT_TRUE(proxy_wait_struck(n.at[0], 5000));
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	THROUGHOUT(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == 1 && !__atomic_load_n(&fired, __ATOMIC_SEQ_CST), 300);
	net_hold(&n, 0);
	EVENTUALLY(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == ZOK, 10000);
	EXPECT_TRUE(__atomic_load_n(&fired, __ATOMIC_SEQ_CST));
	zookeeper_close(client);
	net_close(&n);
}

static void closed_doors_keep_clients_out(void)
{
	net        n;
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	for (proxy_door door = PROXY_REFUSING; door <= PROXY_UNANSWERING; door++) {
		net_set_door(&n, door);
		EXPECT_INT(zoo_state(client), ZOO_CONNECTED_STATE); /* who is in stays in */
		net_cut(&n);
		EVENTUALLY(zoo_state(client) != ZOO_CONNECTED_STATE, 5000);
		THROUGHOUT(zoo_state(client) != ZOO_CONNECTED_STATE, 500);
		net_set_door(&n, PROXY_OPEN);
		EVENTUALLY(zoo_state(client) == ZOO_CONNECTED_STATE, 9000);
	}
	zookeeper_close(client);
	net_close(&n);
}

static void expired_session_is_told_so(void)
{
	net        n;
	zhandle_t *client = (net_open(&n, 1, 1), client_behind(n.at[0]));
	net_expire(&n);
	EVENTUALLY(zoo_state(client) == ZOO_EXPIRED_SESSION_STATE, 5000);
	zookeeper_close(client);
	net_close(&n);
}

static void operator_sees_and_deletes(void)
{
	lock_path path = new_path();
	char      child[300], made[300], first[300];
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	snprintf(child, sizeof child, "%s/n-", path.text);
	EXPECT_INT(zkclient_create(observer(), child, "abc", 3, ZOO_EPHEMERAL | ZOO_SEQUENCE, first, sizeof first),
	           ZOK);
	EXPECT_INT(zkclient_create(observer(), child, NULL, 0, ZOO_EPHEMERAL | ZOO_SEQUENCE, made, sizeof made), ZOK);
	EXPECT_TRUE(strcmp(made + strlen(made) - 10, "0000000001") == 0);
	struct Stat stat;
	EXPECT_INT(zkclient_stat(observer(), first, &stat), ZOK);
	EXPECT_TRUE(stat.ephemeralOwner == zkclient_session(observer()));
	char data[16];
	int  len = sizeof data;
	EXPECT_INT(zkclient_get(observer(), first, data, &len), ZOK);
	EXPECT_TRUE(len == 3 && memcmp(data, "abc", 3) == 0);
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	EXPECT_INT(zkclient_delete_both(observer(), first, made), ZOK);
	EXPECT_INT(zkclient_count(observer(), path.text), 0);
	EXPECT_INT(zkclient_delete_tree(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_stat(observer(), path.text, &stat), ZNONODE);
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(counts_requests_by_type, 30)},
		{TEST(cut_before_keeps_the_request_from_the_server, 30)},
		{TEST(lost_reply_leaves_the_request_done, 30)},
		{TEST(cut_after_reply_delivers_the_reply, 60)},
		{TEST(delayed_reply_comes_late, 30)},
		{TEST(held_directions_are_silent_until_let_go, 30)},
		{TEST(dropped_packets_come_when_they_are_sent_again, 30)},
		{TEST(held_request_waits_with_what_is_behind_it, 30)},
		{TEST(held_request_can_hold_all_that_comes_from_the_server_too, 30)},
		{TEST(swallowed_request_or_reply_leaves_the_connection_until_the_next_reply, 30)},
		{TEST(swallowed_reply_with_nothing_behind_it_is_missed_after_two_thirds_of_the_timeout, 30)},
		{TEST(doubled_request_is_carried_out_twice_and_answered_once, 30)},
		{TEST(doubled_reply_is_taken_for_the_next_one, 30)},
		{TEST(closed_doors_keep_clients_out, 60)},
		{TEST(expired_session_is_told_so, 30)},
		{TEST(operator_sees_and_deletes, 30)},
		{0},
	};
	return harness_main(argc, argv, "proxy", tests);
}
