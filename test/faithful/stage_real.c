/* SPDX-License-Identifier: Apache-2.0 */
/* The library's client.c on ZooKeeper's C client, behind proxies, and real servers. */
#include "harness.h"
#include "script.h"

#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 60000

static struct {
	struct zkl__client *client;
	struct zkl__mail   *left;
	net                 net;
	bool                used;
} all[SCRIPT_CLIENTS];

static lock_path       chroot_path;
static int             cut_off; /* number of the server */
static unsigned        junk;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  happened;
static unsigned        wakes, woken;

static void wake(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	wakes++;
	pthread_cond_signal(&happened);
	pthread_mutex_unlock(&mutex);
}

static void begin(void)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&happened, &clock);
	pthread_condattr_destroy(&clock);
	memset(all, 0, sizeof all);
	chroot_path = new_path();
	EXPECT_INT(zkclient_make_directory(observer(), chroot_path.text), ZOK);
}

static void end(void)
{
	for (unsigned i = 0; i < SCRIPT_CLIENTS; i++)
		if (all[i].used)
			net_close(&all[i].net);
	pthread_cond_destroy(&happened);
}

static int follower(void)
{
	return ensemble_leader() % (int)server_count() + 1;
}

static void open_client(unsigned client, enum script_place place)
{
	static const struct zkl__identities nobody;

	if (!all[client].used && place == ANYWHERE)
		net_open(&all[client].net, 1, server_count());
	else if (!all[client].used)
		net_open(&all[client].net, (size_t)(place == AT_LEADER ? ensemble_leader() : follower()), 1);
	all[client].used = true;
	all[client].client = zkl__client_new(&(struct zkl__client_options){.servers = all[client].net.servers,
	                                                                   .chroot = chroot_path.text,
	                                                                   .timeout_ms = SCRIPT_TIMEOUT_MS,
	                                                                   .others = &nobody,
	                                                                   .now_ns = now_ns,
	                                                                   .wake = wake});
	CU_ASSERT_PTR_NOT_NULL_FATAL(all[client].client);
}

static void close_client(unsigned client)
{
	all[client].left = zkl__client_free(all[client].client);
	all[client].client = NULL;
}

static struct zkl__mail *take(unsigned client)
{
	struct zkl__mail *mail = all[client].left;

	all[client].left = NULL;
	return all[client].client ? zkl__client_take(all[client].client) : mail;
}

static bool pump(void)
{
	struct timespec until;
	int             rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += PATIENCE_MS / 1000;
	pthread_mutex_lock(&mutex);
	while (wakes == woken && rc == 0)
		rc = pthread_cond_timedwait(&happened, &mutex, &until);
	woken = wakes;
	pthread_mutex_unlock(&mutex);
	return rc == 0;
}

static void arm(net *n, const proxy_rule *rule)
{
	for (size_t i = 0; i < n->count; i++)
		proxy_arm(n->at[i], rule);
}

static bool has_struck(net *n)
{
	for (size_t i = 0; i < n->count; i++)
		if (proxy_wait_struck(n->at[i], 0))
			return true;
	return false;
}

static void send_request(unsigned client, uint64_t party, const struct zkl__request *request, enum script_fault fault)
{
	proxy_act act = fault == FAULT_REPLY_LOST ? PROXY_LOSE_REPLY
	                : fault == FAULT_HELD     ? PROXY_HOLD_ALL
	                                          : PROXY_CUT_BEFORE;
	net      *n = &all[client].net;

	if (fault != FAULT_NONE)
		arm(n, &(proxy_rule){.op = OP_ANY, .nth = 1, .act = act});
	zkl__client_send(all[client].client, party, request);
	if (fault == FAULT_NONE)
		return;
	EVENTUALLY(has_struck(n), PATIENCE_MS);
	/* On the other ways nothing is to be lost. */
	arm(n, NULL);
}

/* Until it is over: who is about to reconnect may save it once. */
static void expire(net *n)
{
	int64_t id;
	char    password[16];
	bool    found = false;

	for (size_t i = 0; i < n->count; i++)
		if (proxy_session(n->at[i], &id, password)) {
			EVENTUALLY(zkclient_end_session(servers[0], id, password) == ZSESSIONEXPIRED, PATIENCE_MS);
			found = true;
		}
	EXPECT_TRUE(found);
}

static void strike(unsigned client, enum script_blow blow)
{
	net *n = &all[client].net;

	switch (blow) {
	case BLOW_AWAY:
		net_set_door(n, PROXY_REFUSING);
		net_cut(n);
		break;
	case BLOW_CUT:
		net_cut(n);
		break;
	case BLOW_SILENT:
		net_hold(n, PROXY_BOTH);
		break;
	case BLOW_BACK:
		net_set_door(n, PROXY_OPEN);
		net_hold(n, 0);
		break;
	case BLOW_EXPIRE:
		expire(n);
		break;
	case BLOW_BEHIND:
		cut_off = follower();
		EXPECT_INT(ensemble("cut", cut_off), 0);
		break;
	case BLOW_LEVEL:
		EXPECT_INT(ensemble("heal", cut_off), 0);
		break;
	}
}

static int operate(enum script_deed deed, const char *directory, const char *name)
{
	char path[600];

	snprintf(path, sizeof path, "%s%s%s%s", chroot_path.text, directory, name ? "/" : "", name ? name : "");
	switch (deed) {
	case OPERATOR_DELETE:
	case OPERATOR_UNMAKE:
		return zkclient_delete(observer(), path);
	case OPERATOR_WRITE:
		return zkclient_set(observer(), path, "x", 1);
	case OPERATOR_CHILD:
		strncat(path, "/child", sizeof path - strlen(path) - 1);
		return zkclient_create(observer(), path, NULL, 0, 0, NULL, 0);
	case OPERATOR_FOREIGN:
		strncat(path, "/f00d-kazoo__lock__", sizeof path - strlen(path) - 1);
		return zkclient_create(observer(), path, NULL, 0, ZOO_SEQUENCE, NULL, 0);
	default:
		snprintf(path + strlen(path), sizeof path - strlen(path), "/read-me-%u.txt", junk++);
		return zkclient_create(observer(), path, NULL, 0, 0, NULL, 0);
	}
}

const struct stage stage_real = {.begin = begin,
                                 .end = end,
                                 .open = open_client,
                                 .close = close_client,
                                 .send = send_request,
                                 .strike = strike,
                                 .operate = operate,
                                 .take = take,
                                 .pump = pump};
