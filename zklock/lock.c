/* SPDX-License-Identifier: Apache-2.0 */
#include <zklock/lock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "error.h"
#include "path.h"
#include "session_core.h"

struct zkl_lock {
	struct zkl__handle handle;
	zkl_session       *session;
};

int zkl_lock_new(zkl_session *session, const char *path, const zkl_options *options, zkl_lock **ret, zkl_error *reterr)
{
	zkl_lock *lock;
	int       r = zkl__session_usable(session, reterr);

	if (r < 0)
		return r;
	if (!ret)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "ret is NULL");
	r = zkl__lock_path_check(path, zkl__session_chroot(session), reterr);
	if (r < 0)
		return r;
	lock = calloc(1, sizeof *lock);
	if (!lock)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a lock");
	lock->session = session;
	zkl__session_lock(session);
	r = zkl__handle_init(&lock->handle, zkl__session_hub(session), path, options, 0, reterr);
	if (r == 0)
		zkl__session_hold(session);
	zkl__session_unlock(session);
	if (r < 0) {
		free(lock);
		return r;
	}
	*ret = lock;
	return 0;
}

static int usable(const zkl_lock *lock, zkl_error *reterr)
{
	if (!lock)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "the lock is NULL");
	return zkl__session_usable(lock->session, reterr);
}

int zkl_lock_start(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr)
{
	int r = usable(lock, reterr);

	if (r < 0)
		return r;
	zkl__session_lock(lock->session);
	r = zkl__handle_start(&lock->handle, timeout_ms, reterr);
	zkl__session_unlock(lock->session);
	return r;
}

static int start_and_wait(zkl_lock *lock, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr)
{
	struct zkl__attempt *attempt;
	int                  r = zkl__handle_start(&lock->handle, timeout_ms, reterr);

	if (r < 0)
		return r;
	attempt = lock->handle.attempt;
	zkl__attempt_hold(attempt);
	while (!zkl__attempt_settled(attempt))
		zkl__session_wait(lock->session, attempt, ZKL__NEVER);
	if (zkl__attempt_accept(attempt)) {
		if (ret)
			zkl__attempt_grant(attempt, ret);
	} else {
		r = zkl__attempt_error(attempt, reterr);
	}
	zkl__attempt_drop(attempt);
	return r;
}

int zkl_lock_acquire(zkl_lock *lock, int64_t timeout_ms, zkl_grant *ret, zkl_error *reterr)
{
	int r = usable(lock, reterr);

	if (r == 0)
		r = zkl__session_may_block(lock->session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(lock->session);
	r = start_and_wait(lock, timeout_ms, ret, reterr);
	zkl__session_unlock(lock->session);
	return r;
}

int64_t zkl_lock_check(zkl_lock *lock, uint64_t token)
{
	int r = usable(lock, NULL);

	if (r < 0)
		return r;
	return zkl__handle_check(&lock->handle, token);
}

static bool await_done(zkl_session *session, struct zkl__attempt *attempt, int64_t timeout_ms)
{
	int64_t until = zkl__until(zkl__session_hub(session), timeout_ms);

	while (!attempt->done && zkl__session_wait(session, attempt, until)) {
	}
	return attempt->done;
}

static int release_and_wait(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr)
{
	struct zkl__attempt *attempt = lock->handle.attempt;
	const char          *path = lock->handle.path;
	int                  r;

	if (zkl__session_hub(lock->session)->closed)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%s: the session is closed, nothing is held", path);
	if (!attempt) {
		zkl__handle_release(&lock->handle);
		return zkl__error(reterr, ZKL_ENOTHELD, 0, 0, "%s is not held, and not waited for", path);
	}
	zkl__attempt_hold(attempt);
	r = zkl__handle_release(&lock->handle);
	if (r < 0)
		zkl__error(reterr, r, 0, 0, "%s was lost before it was released: the work may not have been alone",
		           path);
	if (timeout_ms != 0 && !await_done(lock->session, attempt, timeout_ms) && r == 0)
		r = zkl__error(reterr, ZKL_ETIMEDOUT, 0, 0,
		               "%s is released, but no server has confirmed it yet; the delete is retried",
		               attempt->path);
	zkl__attempt_drop(attempt);
	return r;
}

int zkl_lock_release(zkl_lock *lock, int64_t timeout_ms, zkl_error *reterr)
{
	int r = usable(lock, reterr);

	if (r == 0 && timeout_ms < ZKL_FOREVER)
		r = zkl__error(reterr, ZKL_EINVAL, 0, 0, "the timeout is negative");
	if (r == 0 && timeout_ms != 0)
		r = zkl__session_may_block(lock->session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(lock->session);
	r = release_and_wait(lock, timeout_ms, reterr);
	zkl__session_unlock(lock->session);
	return r;
}

void zkl_lock_free(zkl_lock *lock)
{
	if (!lock)
		return;
	if (zkl__session_usable(lock->session, NULL) == 0) {
		zkl__session_lock(lock->session);
		zkl__handle_close(&lock->handle);
		zkl__session_await_callback(lock->session, &lock->handle);
		zkl__session_unlock(lock->session);
	}
	zkl__handle_clear(&lock->handle);
	zkl__session_drop(lock->session);
	free(lock);
}

/* ---- who holds? ----------------------------------------------------------------------------------------------------------- */

struct query {
	struct zkl__party party; /* first */
	zkl_session      *session;
	const char       *path;
	uint32_t          last_id;
	bool              answered;
	int               result; /* the number of contenders, or a ZKL_E* */
	int               zk_code;
	uint32_t          contenders;
	char              name[ZKL__NAME_MAX];
	int64_t           directory_czxid;
	zkl_peer         *peer;
};

static void ask(struct query *q, enum zkl__op op, const char *name)
{
	struct zkl__request request = {.op = op, .id = ++q->last_id, .directory = q->path, .name = name};

	zkl__hub_send(zkl__session_hub(q->session), &q->party, &request);
}

/* The list must not be older than what the caller knows. */
static void ask_list(struct query *q)
{
	ask(q, ZKL__SYNC, NULL);
	ask(q, ZKL__LIST, NULL);
}

static void answer(struct query *q, int result)
{
	q->answered = true;
	q->result = result;
}

static void on_listed(struct query *q, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE || !reply->queue.contenders) {
		answer(q, 0);
		return;
	}
	if (reply->queue.unreadable) {
		answer(q, ZKL_EPATH);
		return;
	}
	q->contenders = reply->queue.contenders;
	q->directory_czxid = reply->czxid;
	snprintf(q->name, sizeof q->name, "%s", reply->queue.lowest);
	ask(q, ZKL__READ, q->name);
}

static void on_read(struct query *q, const struct zkl__reply *reply)
{
	zkl_peer   *peer = q->peer;
	const char *own;
	size_t      own_len;

	if (reply->result == ZKL__NO_NODE) {
		ask_list(q);
		return;
	}
	memset(peer, 0, sizeof *peer);
	peer->epoch = (uint64_t)zkl__queue_sequence(q->name);
	peer->token = (uint64_t)q->directory_czxid + peer->epoch;
	peer->since_ms = reply->born_ms;
	peer->waiting = q->contenders - 1;
	zkl__node_data_read(reply->data, reply->data_len, peer->id, &own, &own_len);
	peer->data_len = (uint32_t)own_len;
	if (own_len > sizeof peer->data)
		own_len = sizeof peer->data;
	if (own_len)
		memcpy(peer->data, own, own_len);
	answer(q, (int)q->contenders);
}

static void on_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	struct query *q = (struct query *)party;

	if (reply->id != q->last_id || q->answered)
		return;
	q->zk_code = reply->zk_code;
	if (reply->result == ZKL__DENIED || reply->result == ZKL__REFUSED)
		answer(q, reply->result == ZKL__DENIED ? ZKL_EACCES : ZKL_EZK);
	else if (reply->result != ZKL__UNKNOWN && reply->op == ZKL__LIST)
		on_listed(q, reply);
	else if (reply->result != ZKL__UNKNOWN)
		on_read(q, reply);
	/* Unknown: asked again when the link is up. */
	zkl__session_changed(q->session);
}

static void on_happened(struct zkl__party *party, enum zkl__happening what)
{
	struct query *q = (struct query *)party;

	if (what == ZKL__HEAR_LINK_UP && !q->answered)
		ask_list(q);
	zkl__session_changed(q->session);
}

static const struct zkl__party_type query_type = {.reply = on_reply, .happened = on_happened};

static int run_query(struct query *q, zkl_error *reterr)
{
	struct zkl__hub *hub = zkl__session_hub(q->session);
	int64_t          until = zkl__hub_now(hub) + hub->op_ns;
	bool             in_time = true;

	if (hub->link)
		ask_list(q);
	while (!q->answered && in_time && !hub->refused && !hub->closed)
		in_time = zkl__session_wait(q->session, NULL, until);
	if (q->answered && q->result >= 0)
		return q->result;
	if (q->result == ZKL_EACCES)
		return zkl__error(reterr, q->result, q->zk_code, 0,
		                  "%s may not be read; check its ACL and the session's auth", q->path);
	if (q->result == ZKL_EPATH)
		return zkl__error(reterr, q->result, 0, 0, "%s has a contender with a name of more than %d bytes",
		                  q->path, ZKL__NAME_MAX - 1);
	if (q->result == ZKL_EZK)
		return zkl__error(reterr, q->result, q->zk_code, 0, "%s cannot be read", q->path);
	if (hub->refused || hub->closed)
		return zkl__error(reterr, hub->closed ? ZKL_ESTATE : hub->refused, 0, 0,
		                  "%s cannot be read: the session was cancelled, closed or refused", q->path);
	return zkl__error(reterr, ZKL_ENOTCONN, 0, 0, "%s cannot be read: no server of the ensemble answered in time",
	                  q->path);
}

int zkl_lock_holder(zkl_session *session, const char *path, zkl_peer *ret, zkl_error *reterr)
{
	zkl_peer     peer = {0};
	struct query q = {.party = {.type = &query_type}, .session = session, .path = path, .peer = &peer};
	int          r = zkl__session_usable(session, reterr);

	if (r == 0)
		r = zkl__lock_path_check(path, zkl__session_chroot(session), reterr);
	if (r == 0)
		r = zkl__session_may_block(session, reterr);
	if (r < 0)
		return r;
	zkl__session_lock(session);
	zkl__session_hold(session); /* it may be closed meanwhile */
	r = zkl__hub_join(zkl__session_hub(session), &q.party);
	if (r < 0) {
		zkl__error(reterr, r, 0, 0, "no memory for a query");
	} else {
		r = run_query(&q, reterr);
		zkl__hub_part(zkl__session_hub(session), &q.party);
	}
	zkl__session_unlock(session);
	zkl__session_drop(session);
	if (r > 0 && ret)
		*ret = peer;
	return r;
}
