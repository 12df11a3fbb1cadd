/* SPDX-License-Identifier: Apache-2.0 */
#include <zklock/election.h>

#include <pthread.h>
#include <stdlib.h>

#include "error.h"
#include "holder.h"
#include "observer.h"
#include "owner.h"

struct zkl_election {
	struct zkl__owner     owner;
	struct zkl__observer *observer; /* NULL: without ZKL_OBSERVE */
	/* Of run(), under the session's mutex. */
	bool               running, in_term;
	bool               resigned; /* since run() began: it does not campaign again */
	bool               freed;    /* in its own term: run() frees it */
	struct zkl__worker worker;   /* run()'s thread, in its term */
};

static struct zkl__owner *owner_of(zkl_election *election)
{
	return election ? &election->owner : NULL;
}

/* *ret is written before the first event can come. */
static int observe(zkl_election *e, zkl_election **ret, zkl_error *reterr)
{
	zkl_session                 *session = e->owner.session;
	struct zkl__handle          *handle = &e->owner.handle;
	struct zkl__observer_options options = {.path = handle->path,
	                                        .chroot = zkl__session_chroot(session)[0],
	                                        .on_event = handle->on_event,
	                                        .user = handle->user,
	                                        .owner = handle};
	struct zkl__hub             *hub = zkl__session_hub(session);
	int                          r = 0;

	zkl__session_lock(session);
	if (!hub->closed)
		r = zkl__hub_check_room(hub, zkl__observer_watch_size(hub, handle->path), handle->path, reterr);
	if (!hub->closed && r == 0) {
		e->observer = zkl__observer_new(hub, &options);
		if (!e->observer)
			r = zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for an observer");
	}
	if (r == 0)
		*ret = e;
	zkl__session_unlock(session);
	return r;
}

int zkl_election_new(zkl_session *session, const char *path, const zkl_options *options, zkl_election **ret,
                     zkl_error *reterr)
{
	zkl_election *e;
	int           r = zkl__session_usable(session, reterr);

	if (r < 0)
		return r;
	if (!ret)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "ret is NULL");
	e = calloc(1, sizeof *e);
	if (!e)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for an election");
	r = zkl__owner_init(&e->owner, &zkl__election_type, session, path, options, reterr);
	if (r < 0) {
		free(e);
		return r;
	}
	if (e->owner.handle.flags & ZKL_OBSERVE)
		r = observe(e, ret, reterr);
	else
		*ret = e;
	if (r < 0) {
		zkl__owner_clear(&e->owner);
		free(e);
	}
	return r;
}

int zkl_election_campaign(zkl_election *e, zkl_error *reterr)
{
	if (e && !e->owner.handle.on_event)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "%s: a campaign is told of by events; set on_event, or use zkl_election_run()",
		                  e->owner.handle.path);
	return zkl__owner_start(owner_of(e), ZKL_FOREVER, reterr);
}

int64_t zkl_election_check(zkl_election *election, uint64_t token)
{
	return zkl__owner_check(owner_of(election), token);
}

struct zkl__looking *zkl__election_look(zkl_election *election)
{
	return zkl__owner_look(&election->owner);
}

const char *zkl__election_why_lost(zkl_election *election)
{
	return zkl__owner_why_lost(&election->owner);
}

static bool in_own_term(const zkl_election *e)
{
	return e->in_term && pthread_equal(e->worker.thread, pthread_self());
}

int zkl_election_resign(zkl_election *e, int64_t timeout_ms, zkl_error *reterr)
{
	bool inside = false;

	if (zkl__owner_usable(owner_of(e), NULL) == 0) {
		zkl__session_lock(e->owner.session);
		inside = timeout_ms != 0 && in_own_term(e);
		e->resigned = e->resigned || !inside;
		zkl__session_unlock(e->owner.session);
	}
	if (inside)
		return zkl__error(reterr, ZKL_EDEADLK, 0, 0, "a term cannot wait for its own end; use a timeout of 0");
	return zkl__owner_release(owner_of(e), timeout_ms, reterr);
}

int zkl_election_leader(zkl_election *e, zkl_peer *ret)
{
	int r = zkl__owner_usable(owner_of(e), NULL);

	if (r < 0)
		return r;
	zkl__session_lock(e->owner.session);
	r = ZKL_ESTATE;
	if (e->observer && !zkl__session_hub(e->owner.session)->closed)
		r = zkl__observer_leader(e->observer, ret);
	zkl__session_unlock(e->owner.session);
	return r;
}

/* ---- run ----------------------------------------------------------------------------------------------------------------- */

/* Campaigns and leads once. 0: again. Under the session's mutex, but for the term. */
static int one_term(zkl_election *e, zkl_election_term *term, void *user, zkl_error *reterr)
{
	struct zkl__handle *handle = &e->owner.handle;
	zkl_grant           grant;
	bool                resigned;
	int                 r = zkl__owner_await_grant(&e->owner, ZKL_FOREVER, &grant, reterr);

	/* Lost before it could begin: no term was. */
	if (r == ZKL_ELOST && e->resigned)
		return zkl__error(reterr, ZKL_ECANCELED, 0, 0, "%s was resigned", handle->path);
	if (r == ZKL_ELOST && !(handle->flags & ZKL_NO_REQUEUE))
		return 0;
	if (r < 0)
		return r;
	zkl__handle_pin(handle);
	e->in_term = true;
	zkl__session_begin_work(e->owner.session, &e->worker);
	zkl__session_unlock(e->owner.session);
	r = term(&grant, user);
	if (zkl__session_usable(e->owner.session, reterr) < 0)
		return ZKL_EFORKED; /* the term was left in a child, where the mutex means nothing */
	zkl__session_lock(e->owner.session);
	zkl__session_end_work(e->owner.session, &e->worker);
	e->in_term = false;
	resigned = zkl__handle_unpin(handle);
	if (!resigned)
		zkl__handle_release(handle);
	if (r == 0 && resigned)
		r = zkl__error(reterr, ZKL_ECANCELED, 0, 0, "%s was resigned during the term", handle->path);
	return r;
}

static void free_memory(zkl_election *e)
{
	zkl__owner_clear(&e->owner);
	free(e);
}

int zkl_election_run(zkl_election *e, zkl_election_term *term, void *user, zkl_error *reterr)
{
	bool freed;
	int  r = zkl__owner_usable(owner_of(e), reterr);

	if (!term)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "term is NULL");
	if (r == 0)
		r = zkl__session_may_block(e->owner.session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(e->owner.session);
	if (e->running) {
		zkl__session_unlock(e->owner.session);
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%s is being run: zkl_election_run() has not returned",
		                  e->owner.handle.path);
	}
	e->running = true;
	e->resigned = false;
	do
		r = one_term(e, term, user, reterr);
	while (r == 0);
	if (zkl__session_usable(e->owner.session, NULL) < 0)
		return ZKL_EFORKED;
	e->running = false;
	freed = e->freed;
	zkl__session_changed(e->owner.session);
	zkl__session_unlock(e->owner.session);
	if (freed)
		free_memory(e);
	return r;
}

/* Ends observing, candidacy and run(). False: run() will free it. */
static bool close_election(zkl_election *e)
{
	bool mine;

	zkl__session_lock(e->owner.session);
	if (e->observer)
		zkl__observer_close(e->observer);
	e->observer = NULL;
	e->resigned = true;
	mine = !in_own_term(e);
	e->freed = !mine;
	if (e->owner.handle.attempt)
		zkl__handle_release(&e->owner.handle);
	while (mine && e->running)
		zkl__session_wait(e->owner.session, NULL, ZKL__NEVER);
	zkl__session_unlock(e->owner.session);
	return mine;
}

void zkl_election_free(zkl_election *e)
{
	if (!e)
		return;
	if (zkl__session_usable(e->owner.session, NULL) < 0) {
		free(e->observer); /* in a child of fork() nobody else is there */
		free_memory(e);
	} else if (close_election(e)) {
		free_memory(e);
	}
}
