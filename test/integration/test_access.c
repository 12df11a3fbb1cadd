/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists, credentials and quotas: what is made under credentials is for their owner and those it names, and who may not
 * is told so, not kept waiting. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS (8 * tick_ms())
#define ENOUGH_MS  10000

static zkl_session *open_as(const char *auth)
{
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;

	options.auth = auth;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	return s;
}

static void expect_denied(const char *auth, const char *path)
{
	zkl_session *s = open_as(auth);
	zkl_lock    *lock = lock_new(s, path, NULL);
	zkl_grant    grant;
	zkl_peer     peer;
	zkl_error    error = {0};

	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, path) && strstr(error.message, "auth"));
	EXPECT_INT(error.zk_code, ZNOAUTH);
	EXPECT_RC(zkl_lock_acquire(lock, 0, &grant, &error), ZKL_EACCES);
	EXPECT_RC(zkl_lock_holder(s, path, &peer, &error), ZKL_EACCES);
	zkl_lock_free(lock);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static void what_credentials_made_is_for_their_owner_only(void)
{
	lock_path path = new_path();

	/* Its parents are everybody's. */
	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);

	zkl_session *s = open_as("digest:owner:secret"), *same = open_as("digest:owner:secret");
	zkl_lock    *lock = lock_new(s, path.text, NULL), *next = lock_new(same, path.text, NULL);
	zkl_grant    grant, later;
	zkl_peer     peer;
	char         data[2000];
	int          length = sizeof data;

	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_INT(zkclient_get(observer(), grant.node, data, &length), ZNOAUTH);
	EXPECT_INT(zkclient_count(observer(), path.text), ZNOAUTH);
	expect_denied("digest:other:secret", path.text);
	expect_denied(NULL, path.text);
	EXPECT_INT(zkl_lock_holder(same, path.text, &peer, NULL), 1);
	EXPECT_INT((int64_t)peer.token, (int64_t)grant.token);
	EXPECT_RC(zkl_lock_start(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, NULL), ZKL_OK);
	EVENTUALLY(zkl_lock_holder(same, path.text, &peer, NULL) == 1 && peer.token > grant.token, ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(next, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &later, NULL), ZKL_OK);
	zkl_lock_free(lock);
	zkl_lock_free(next);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(same, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK); /* the parent's ACL governs that */
}

/* ---- several identities ---- */

/* The hash is the base64 of the SHA-1 of "name:secret". */
#define ALICE "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="
#define BOB   "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="

static zkl_session *open_with(const char *auth, const char *others)
{
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;

	options.auth = auth;
	options.others = others;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	return s;
}

/* Everybody may do what the directory's parents permit, below it only these two. */
static void make_directory_for_alice_and_bob(const char *path)
{
	struct ACL        both[] = {{0x1f, {"digest", ALICE}}, {0x0d, {"digest", BOB}}};
	struct ACL_vector acl = {2, both};

	EXPECT_INT(zkclient_make_directory(observer(), path), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path), ZOK);
	EXPECT_INT(zkclient_make_guarded(observer(), path, &acl), ZOK);
}

static int delete_as(const char *identity, const char *path)
{
	zkclient *c = zkclient_open(all_servers());
	int       rc;

	CU_ASSERT_PTR_NOT_NULL_FATAL(c);
	if (identity)
		EXPECT_INT(zkclient_identify(c, identity), ZOK);
	rc = zkclient_delete(c, path);
	zkclient_close(c);
	return rc;
}

/* Also in a directory that they made themselves. */
static void identities_that_name_each_other_share_a_lock(void)
{
	for (int by_hand = 0; by_hand <= 1; by_hand++) {
		lock_path path = new_path();
		seen      e;
		zkl_peer  peer;

		make_directory_for_alice_and_bob(path.text);
		if (!by_hand)
			EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
		zkl_session *s[] = {open_with("digest:alice:secret", "digest:" BOB),
		                    open_with("digest:bob:secret", "digest:" ALICE)};
		recorder     events[] = {RECORDER("alice"), RECORDER("bob")};
		zkl_lock    *locks[] = {lock_new(s[0], path.text, &events[0]), lock_new(s[1], path.text, &events[1])};
		EXPECT_RC(zkl_lock_start(locks[0], ZKL_FOREVER, NULL), ZKL_OK);
		EXPECT_TRUE(recorder_wait(&events[0], ZKL_EV_GRANTED, 1, ENOUGH_MS, NULL));
		for (int i = 1; i <= 4; i++) { /* each waits behind the other, twice */
			int waiting = i % 2, turn = (i + 1) / 2 + (waiting ? 0 : 1);
			EXPECT_RC(zkl_lock_start(locks[waiting], ZKL_FOREVER, NULL), ZKL_OK);
			EVENTUALLY(zkl_lock_holder(s[waiting], path.text, &peer, NULL) == 2, ENOUGH_MS);
			EXPECT_RC(zkl_lock_release(locks[!waiting], ENOUGH_MS, NULL), ZKL_OK);
			EXPECT_TRUE(recorder_wait(&events[waiting], ZKL_EV_GRANTED, turn, ENOUGH_MS, &e));
		}
		EXPECT_INT(zkclient_count(observer(), path.text), ZNOAUTH);
		expect_denied("digest:carol:secret", path.text);
		/* The directory decides who may delete a contender: a third identity may not, an operator of the lock may. */
		EXPECT_INT(delete_as("carol:secret", e.node), ZNOAUTH);
		EXPECT_INT(delete_as(NULL, e.node), ZNOAUTH);
		EXPECT_TRUE(zkl_lock_check(locks[0], e.token) > 0);
		EXPECT_INT(delete_as("bob:secret", e.node), ZOK);
		EXPECT_TRUE(recorder_wait(&events[0], ZKL_EV_LOST, 1, ENOUGH_MS, NULL));
		for (int i = 0; i < 2; i++) {
			zkl_lock_free(locks[i]);
			EXPECT_RC(zkl_session_close(s[i], ENOUGH_MS), ZKL_OK);
			recorder_free(&events[i]);
		}
		EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
	}
}

/* Below a directory that the first one made. */
static void identities_that_name_each_other_stand_for_one_office(void)
{
	lock_path path = new_path();
	seen      first = {0}, second = {0};

	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
	zkl_session *alice = open_with("digest:alice:secret", "digest:" BOB),
		    *bob = open_with("digest:bob:secret", "digest:" ALICE);
	recorder      alices = RECORDER("alice"), bobs = RECORDER("bob");
	zkl_election *a = election_new(alice, path.text, 0, &alices), *b = election_new(bob, path.text, 0, &bobs);
	EXPECT_RC(zkl_election_campaign(a, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&alices, ZKL_EV_GRANTED, 1, ENOUGH_MS, &first));
	EXPECT_RC(zkl_election_campaign(b, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&bobs, ZKL_EV_WAITING, 1, ENOUGH_MS, NULL));
	EXPECT_INT(zkclient_count(observer(), path.text), 2); /* who leads is for everybody to see */
	EXPECT_INT(zkclient_delete(observer(), first.node), ZNOAUTH);
	EXPECT_RC(zkl_election_resign(a, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&bobs, ZKL_EV_GRANTED, 1, ENOUGH_MS, &second));
	EXPECT_TRUE(second.token > first.token);
	zkl_election_free(a);
	zkl_election_free(b);
	EXPECT_RC(zkl_session_close(alice, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(bob, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
	recorder_free(&alices);
	recorder_free(&bobs);
}

/* A waiter reads the node before it. */
static void identity_that_is_not_named_cannot_wait_and_leaves_nothing(void)
{
	lock_path path = new_path();
	zkl_grant grant, none;
	zkl_error error = {0};
	zkl_peer  peer;

	make_directory_for_alice_and_bob(path.text);
	zkl_session *alice = open_as("digest:alice:secret"), *bob = open_as("digest:bob:secret");
	zkl_lock    *held = lock_new(alice, path.text, NULL), *other = lock_new(bob, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &none, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, path.text) && strstr(error.message, "may not read"));
	EXPECT_INT(error.zk_code, ZNOAUTH);
	EVENTUALLY(zkl_lock_holder(alice, path.text, &peer, NULL) == 1, ENOUGH_MS);
	EXPECT_RC(zkl_lock_acquire(other, 0, &none, NULL), ZKL_EBUSY);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(held);
	zkl_lock_free(other);
	EXPECT_RC(zkl_session_close(alice, ENOUGH_MS), ZKL_OK);
	EXPECT_RC(zkl_session_close(bob, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete(observer(), path.text), ZOK);
}

/* ---- a permission that is missing ---- */

/* These for everybody; Alice may look at it in any case. */
static void make_guarded(const char *path, int32_t permissions)
{
	struct ACL        list[] = {{permissions, {"world", "anyone"}}, {0x01, {"digest", ALICE}}};
	struct ACL_vector acl = {2, list};

	EXPECT_INT(zkclient_make_directory(observer(), path), ZOK);
	EXPECT_INT(zkclient_delete(observer(), path), ZOK);
	EXPECT_INT(zkclient_make_guarded(observer(), path, &acl), ZOK);
}

static void expect_refused(zkl_session *s, const char *path, const char *what)
{
	recorder  events = RECORDER("refused");
	zkl_lock *lock = lock_new(s, path, &events);
	zkl_error error = {0};
	zkl_grant grant;
	seen      e;

	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, path) && strstr(error.message, what));
	EXPECT_INT(error.zk_code, ZNOAUTH);
	EXPECT_RC(zkl_lock_start(lock, 0, NULL), ZKL_OK);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 2, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EACCES);
	EXPECT_TRUE(strstr(e.message, what) != NULL);
	zkl_lock_free(lock);
	recorder_free(&events);
}

static void missing_permissions_are_named(void)
{
	enum { READ = 0x01, CREATE = 0x04, DELETE = 0x08, ALL = 0x1f };
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	lock_path    no_create = new_path(), no_read = new_path(), no_child = new_path();
	char         child[200];
	zkclient    *alice = zkclient_open(all_servers());

	CU_ASSERT_PTR_NOT_NULL_FATAL(alice);
	make_guarded(no_create.text, ALL & ~CREATE);
	expect_refused(s, no_create.text, "create a contender");
	make_guarded(no_read.text, ALL & ~READ);
	expect_refused(s, no_read.text, "list its contenders");
	make_guarded(no_child.text, ALL & ~CREATE);
	snprintf(child, sizeof child, "%s/lock", no_child.text);
	expect_refused(s, child, "may not be created");
	/* Nothing of ours is left where it could be created. */
	EXPECT_INT(zkclient_identify(alice, "alice:secret"), ZOK);
	EVENTUALLY(zkclient_count(alice, no_read.text) == 0, ENOUGH_MS);
	zkclient_close(alice);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
}

static atomic_int not_deleted;

static void note_not_deleted(int level, const char *id, const char *message, void *path)
{
	if (strcmp(id, "not-deleted") == 0 && level == 3 && strstr(message, path))
		atomic_fetch_add(&not_deleted, 1);
}

/* Without DELETE a lock is taken, but its node stays until its session ends: for the owner, the waiters and the operator to know. */
static void node_that_may_not_be_deleted_is_told_and_ends_with_its_session(void)
{
	lock_path           path = new_path();
	zkl_session_options options = session_options(all_servers(), SESSION_MS);
	zkl_session        *s = NULL;
	recorder            events = RECORDER("released");
	zkl_grant           grant;
	zkl_error           error = {0};
	seen                e;

	make_guarded(path.text, 0x1f & ~0x08);
	atomic_store(&not_deleted, 0);
	options.log = note_not_deleted;
	options.log_user = path.text;
	EXPECT_RC(zkl_session_open(&options, &s, NULL), ZKL_OK);
	zkl_lock *lock = lock_new(s, path.text, &events), *waiting = lock_new(s, path.text, NULL);
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_start(waiting, ZKL_FOREVER, NULL), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 2, ENOUGH_MS);
	EXPECT_RC(zkl_lock_release(waiting, ENOUGH_MS, &error), ZKL_EACCES);
	EXPECT_RC(zkl_lock_release(lock, ENOUGH_MS, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, path.text) && strstr(error.message, "deleted"));
	EXPECT_INT(error.zk_code, ZNOAUTH);
	EXPECT_RC(zkl_lock_check(lock, grant.token), ZKL_ENOTHELD);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EACCES);
	EXPECT_INT(atomic_load(&not_deleted), 2);
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	zkl_lock_free(lock);
	zkl_lock_free(waiting);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	recorder_free(&events);
}

static int end_of_a_term(const zkl_grant *grant, void *terms)
{
	(void)grant;
	atomic_fetch_add((atomic_int *)terms, 1);
	return 0;
}

typedef struct office {
	zkl_election *election;
	atomic_int    terms;
	int           rc;
} office;

static void *run_office(void *arg)
{
	office *o = arg;
	o->rc = zkl_election_run(o->election, end_of_a_term, &o->terms, NULL);
	return NULL;
}

/* The session lives, and the node with it: the next term cannot begin, but the wait for it can be ended. */
static void run_waits_behind_its_own_node_that_may_not_be_deleted(void)
{
	lock_path    path = new_path();
	zkl_session *s = session_open(all_servers(), SESSION_MS);
	recorder     events = RECORDER("run");
	office       o = {.election = election_new(s, path.text, 0, &events)};
	pthread_t    thread;
	seen         e;

	make_guarded(path.text, 0x1f & ~0x08);
	EXPECT_INT(pthread_create(&thread, NULL, run_office, &o), 0);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EACCES);
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_WAITING, 1, ENOUGH_MS, &e));
	EXPECT_INT(e.ahead, 1);
	EXPECT_INT(zkclient_count(observer(), path.text), 2);
	EXPECT_INT(atomic_load(&o.terms), 1);
	EXPECT_RC(zkl_election_resign(o.election, ENOUGH_MS, NULL), ZKL_EACCES);
	pthread_join(thread, NULL);
	EXPECT_RC(o.rc, ZKL_ECANCELED);
	EXPECT_INT(atomic_load(&o.terms), 1);
	zkl_election_free(o.election);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EVENTUALLY(zkclient_count(observer(), path.text) == 0, ENOUGH_MS);
	recorder_free(&events);
}

/* ---- quotas ---- */

/* ZooKeeper 3.7 and later, where they are enforced; the client of 3.8 does not know the code. */
static void exceeded_quota_is_said_and_the_lock_works_again_below_it(void)
{
	static const char limit[] = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2", stats[] = "count=1,bytes=0";
	lock_path         path = new_path();
	char              quota[200], node_path[240];
	zkl_session      *s = session_open(all_servers(), SESSION_MS);
	recorder          events = RECORDER("beyond the quota");
	zkl_lock         *held = lock_new(s, path.text, NULL), *other = lock_new(s, path.text, &events);
	zkl_grant         grant, none;
	zkl_error         error = {0};
	seen              e;

	EXPECT_INT(zkclient_make_directory(observer(), path.text), ZOK);
	snprintf(quota, sizeof quota, "/zookeeper/quota%s", path.text);
	EXPECT_INT(zkclient_make_directory(observer(), quota), ZOK);
	snprintf(node_path, sizeof node_path, "%s/zookeeper_stats", quota);
	EXPECT_INT(zkclient_create(observer(), node_path, stats, sizeof stats - 1, 0, NULL, 0), ZOK);
	snprintf(node_path, sizeof node_path, "%s/zookeeper_limits", quota);
	EXPECT_INT(zkclient_create(observer(), node_path, limit, sizeof limit - 1, 0, NULL, 0), ZOK);
	EXPECT_RC(zkl_lock_acquire(held, ENOUGH_MS, &grant, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &none, &error), ZKL_EZK);
	EXPECT_INT(error.zk_code, -125);
	EXPECT_TRUE(strstr(error.message, path.text) && strstr(error.message, "quota"));
	EXPECT_TRUE(recorder_wait(&events, ZKL_EV_ENDED, 1, ENOUGH_MS, &e));
	EXPECT_RC(e.code, ZKL_EZK);
	EXPECT_TRUE(strstr(e.message, "quota") != NULL);
	EXPECT_TRUE(zkl_lock_check(held, grant.token) > 0);
	EXPECT_RC(zkl_lock_release(held, ENOUGH_MS, NULL), ZKL_OK);
	EXPECT_RC(zkl_lock_acquire(other, ENOUGH_MS, &grant, NULL), ZKL_OK);
	zkl_lock_free(held);
	zkl_lock_free(other);
	EXPECT_RC(zkl_session_close(s, ENOUGH_MS), ZKL_OK);
	EXPECT_INT(zkclient_delete_tree(observer(), quota), ZOK);
	recorder_free(&events);
}

/* Of a scheme that the servers do not have: no access list can be made of it. */
static void others_that_servers_do_not_take_for_identities_are_eacces(void)
{
	lock_path    path = new_path();
	zkl_session *s = open_with("digest:alice:secret", "no-such-scheme:bob");
	zkl_lock    *lock = lock_new(s, path.text, NULL);
	zkl_grant    grant;
	zkl_error    error = {0};
	EXPECT_RC(zkl_lock_acquire(lock, ENOUGH_MS, &grant, &error), ZKL_EACCES);
	EXPECT_TRUE(strstr(error.message, "identities") != NULL && strstr(error.message, "secret") == NULL);
	zkl_lock_free(lock);
	zkl_session_close(s, ENOUGH_MS);
}

/* ---- options ---- */

static void others_of_another_form_are_refused(void)
{
	static const char *const wrong[] = {"", "bob", "digest:", ":bob", ("digest:" BOB ","), (",digest:" BOB)};

	for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *s = NULL;
		zkl_error           error = {0};
		bool                last = i == sizeof wrong / sizeof *wrong;

		options.auth = last ? NULL : "digest:alice:secret";
		options.others = last ? "digest:" BOB : wrong[i];
		EXPECT_RC(zkl_session_open(&options, &s, &error), ZKL_EINVAL);
		EXPECT_TRUE(strstr(error.message, "others") != NULL);
	}
}

static void auth_of_another_form_is_refused(void)
{
	static const char *const wrong[] = {"",
	                                    "digest",
	                                    "digest:",
	                                    "digest:user",
	                                    ":user:password",
	                                    "ip:",
	                                    "digest:user:password\n",
	                                    "digest:user:password\ndigest:user"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		zkl_session_options options = session_options(all_servers(), SESSION_MS);
		zkl_session        *s = NULL;
		zkl_error           error = {0};

		options.auth = wrong[i];
		EXPECT_RC(zkl_session_open(&options, &s, &error), ZKL_EINVAL);
		EXPECT_TRUE(strstr(error.message, "digest:user:password") != NULL);
	}
}

int main(int argc, char **argv)
{
	static const test tests[] = {
		{TEST(what_credentials_made_is_for_their_owner_only, 60)},
		{TEST(identities_that_name_each_other_share_a_lock, 120)},
		{TEST(identities_that_name_each_other_stand_for_one_office, 60)},
		{TEST(identity_that_is_not_named_cannot_wait_and_leaves_nothing, 60)},
		{TEST(missing_permissions_are_named, 60)},
		{TEST(node_that_may_not_be_deleted_is_told_and_ends_with_its_session, 60)},
		{TEST(run_waits_behind_its_own_node_that_may_not_be_deleted, 60)},
		{TEST(exceeded_quota_is_said_and_the_lock_works_again_below_it, 60)},
		{TEST(auth_of_another_form_is_refused, 20)},
		{TEST(others_that_servers_do_not_take_for_identities_are_eacces, 20)},
		{TEST(others_of_another_form_are_refused, 20)},
		{0},
	};
	return harness_main(argc, argv, "access", tests);
}
