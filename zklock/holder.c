/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds a lock: a query, which lives on the caller's stack and waits for its answer. */
#include <zklock/lock.h>

#include <stdio.h>

#include "error.h"
#include "path.h"
#include "peer.h"
#include "session_core.h"

struct query {
	struct zkl__party party; /* first */
	zkl_session      *session;
	const char       *path;
	uint32_t          last_id;
	bool              answered;
	int               result; /* the number of contenders, or a ZKL_E* */
	int               zk_code;
	const char       *text; /* of the error */
	uint32_t          contenders;
	char              name[ZKL__NAME_MAX];
	int64_t           directory_czxid;
	zkl_peer         *peer;
};

static void ask(struct query *q, enum zkl__op op, const char *directory, const char *name)
{
	struct zkl__request request = {.op = op, .id = ++q->last_id, .directory = directory, .name = name};

	zkl__hub_send(zkl__session_hub(q->session), &q->party, &request);
}

/* The list must not be older than what the caller knows. */
static void ask_list(struct query *q)
{
	ask(q, ZKL__SYNC, q->path, NULL);
	ask(q, ZKL__LIST, q->path, NULL);
}

static void answer(struct query *q, int result)
{
	q->answered = true;
	q->result = result;
}

static void fail(struct query *q, int error, const char *text)
{
	answer(q, error);
	q->text = text;
}

static void on_listed(struct query *q, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE && zkl__session_chroot(q->session)[0]) {
		ask(q, ZKL__FIND, "", NULL); /* the chroot */
		return;
	}
	if (reply->result == ZKL__NO_NODE || !reply->queue.contenders) {
		answer(q, 0);
		return;
	}
	if (reply->queue.unreadable || reply->queue.misplaced[0]) {
		fail(q, ZKL_EPATH,
		     reply->queue.unreadable ? "has a contender with a name of more than 127 bytes"
		                             : "has contenders of the other kind: it is an election's directory");
		return;
	}
	q->contenders = reply->queue.contenders;
	q->directory_czxid = reply->czxid;
	snprintf(q->name, sizeof q->name, "%s", reply->queue.lowest);
	ask(q, ZKL__READ, q->path, q->name);
}

static void on_chroot(struct query *q, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE)
		fail(q, ZKL_EPATH, "lies under a chroot that does not exist");
	else
		answer(q, 0);
}

static void on_read(struct query *q, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE) {
		ask_list(q);
		return;
	}
	zkl__peer_fill(q->peer, q->name, q->directory_czxid, q->contenders, reply);
	answer(q, (int)q->contenders);
}

static void on_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	struct query *q = (struct query *)party;

	if (reply->id != q->last_id || q->answered)
		return;
	q->zk_code = reply->zk_code;
	if (reply->result == ZKL__DENIED)
		fail(q, ZKL_EACCES, "may not be read; check its ACL and the session's auth");
	else if (reply->result == ZKL__REFUSED)
		fail(q, ZKL_EZK, "cannot be read");
	else if (reply->result != ZKL__UNKNOWN && reply->op == ZKL__LIST)
		on_listed(q, reply);
	else if (reply->result != ZKL__UNKNOWN && reply->op == ZKL__READ)
		on_read(q, reply);
	else if (reply->result != ZKL__UNKNOWN)
		on_chroot(q, reply);
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
	if (q->answered)
		return zkl__error(reterr, q->result, q->zk_code, 0, "%s %s", q->path, q->text);
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
