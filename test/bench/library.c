/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe.h"

#include "common.h"

#include <semaphore.h>
#include <stdlib.h>
#include <zklock/election.h>
#include <zklock/lock.h>

#define PATIENCE_MS 60000

struct contender {
	zkl_lock     *lock; /* or: */
	zkl_election *election;
	sem_t         elected;
};

static zkl_session *session;

static void expect_ok(int rc, const zkl_error *error)
{
	if (rc < 0)
		die("%s: %s", zkl_error_name(rc), error->message);
}

static void open_session(const char *servers, int session_ms)
{
	session = connected_session(servers, session_ms);
}

static void close_session(void)
{
	zkl_session_close(session, PATIENCE_MS);
}

/* ---- lock ---- */

static contender *lock_join(const char *path)
{
	contender *c = calloc(1, sizeof *c);
	zkl_error  error;

	expect_ok(zkl_lock_new(session, path, NULL, &c->lock, &error), &error);
	return c;
}

static void lock_acquire(contender *c)
{
	zkl_grant grant;
	zkl_error error;

	expect_ok(zkl_lock_acquire(c->lock, ZKL_FOREVER, &grant, &error), &error);
}

static void lock_release(contender *c)
{
	zkl_error error;

	expect_ok(zkl_lock_release(c->lock, PATIENCE_MS, &error), &error);
}

static void lock_leave(contender *c)
{
	zkl_lock_free(c->lock);
	free(c);
}

/* ---- election ---- */

static void on_event(const zkl_event *event, void *user)
{
	contender *c = user;

	if (event->type == ZKL_EV_GRANTED)
		sem_post(&c->elected);
	else if (event->type == ZKL_EV_LOST)
		die("deposed: %s", event->error->message);
}

static contender *election_join(const char *path)
{
	contender  *c = calloc(1, sizeof *c);
	zkl_options options = ZKL_OPTIONS_INIT;
	zkl_error   error;

	sem_init(&c->elected, 0, 0);
	options.on_event = on_event;
	options.user = c;
	expect_ok(zkl_election_new(session, path, &options, &c->election, &error), &error);
	return c;
}

static void election_acquire(contender *c)
{
	zkl_error error;

	expect_ok(zkl_election_campaign(c->election, &error), &error);
	sem_wait(&c->elected);
}

static void election_release(contender *c)
{
	zkl_error error;

	expect_ok(zkl_election_resign(c->election, PATIENCE_MS, &error), &error);
}

static void election_leave(contender *c)
{
	zkl_election_free(c->election);
	sem_destroy(&c->elected);
	free(c);
}

const recipe lock = {"lock", open_session, lock_join, lock_acquire, lock_release, lock_leave, close_session};
const recipe election = {"election",       open_session,   election_join, election_acquire,
                         election_release, election_leave, close_session};
