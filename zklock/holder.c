/* SPDX-License-Identifier: Apache-2.0 */
#include "holder.h"

#include <zklock/lock.h>

#include <stdio.h>
#include <stdlib.h>

#include "error.h"
#include "path.h"
#include "peer.h"
#include "query.h"

struct look {
	struct zkl__query       query; /* first */
	const char             *path;
	enum zkl__kind          kind;
	const struct zkl__uuid *own; /* NULL: none, and what others have done before is to be seen for sure */
	uint32_t                contenders;
	char                    name[ZKL__NAME_MAX];
	int64_t                 directory_czxid;
	struct zkl__look       *found;
};

static void send(struct look *l, enum zkl__op op, const char *directory, const char *name)
{
	struct zkl__request request = {.op = op, .directory = directory, .name = name, .kind = l->kind};

	if (l->own)
		request.uuid = *l->own;
	zkl__query_send(&l->query, &request);
}

/* The list must not be older than what the caller knows. Who stands in it knows no more than its session does, and no list
 * of that is older. */
static void ask_list(struct zkl__query *q)
{
	struct look *l = (struct look *)q;

	if (!l->own)
		send(l, ZKL__SYNC, l->path, NULL);
	send(l, ZKL__LIST, l->path, NULL);
}

static void on_listed(struct look *l, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE && zkl__session_chroot(l->query.session)[0]) {
		send(l, ZKL__FIND, "", NULL); /* the chroot */
		return;
	}
	if (reply->result == ZKL__NO_NODE || !reply->queue.contenders) {
		zkl__query_answer(&l->query, 0, NULL);
		return;
	}
	if (reply->queue.unreadable || reply->queue.misplaced[0]) {
		zkl__query_answer(&l->query, ZKL_EPATH,
		                  reply->queue.unreadable ? "has a contender with a name of more than 127 bytes"
		                  : l->kind == ZKL__KIND_LOCK
		                          ? "has contenders of the other kind: it is an election's directory"
		                          : "has contenders of the other kind: it is a lock's directory");
		return;
	}
	l->contenders = reply->queue.contenders;
	l->found->ahead = reply->queue.own_sequence >= 0 ? reply->queue.ahead : 0;
	l->directory_czxid = reply->czxid;
	snprintf(l->name, sizeof l->name, "%s", reply->queue.lowest);
	send(l, ZKL__READ, l->path, l->name);
}

static void on_chroot(struct look *l, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE)
		zkl__query_answer(&l->query, ZKL_EPATH, "lies under a chroot that does not exist");
	else
		zkl__query_answer(&l->query, 0, NULL);
}

static void on_read(struct look *l, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE) {
		ask_list(&l->query);
		return;
	}
	zkl__peer_fill(&l->found->peer, l->name, l->directory_czxid, l->contenders, reply);
	l->found->lasting = !reply->owner;
	zkl__query_answer(&l->query, (int)l->contenders, NULL);
}

static void on_reply(struct zkl__query *q, const struct zkl__reply *reply)
{
	struct look *l = (struct look *)q;

	if (reply->result == ZKL__DENIED)
		zkl__query_answer(q, ZKL_EACCES, "may not be read; check its ACL and the session's auth");
	else if (reply->result == ZKL__REFUSED)
		zkl__query_answer(q, ZKL_EZK, "cannot be read");
	else if (reply->result != ZKL__UNKNOWN && reply->op == ZKL__LIST)
		on_listed(l, reply);
	else if (reply->result != ZKL__UNKNOWN && reply->op == ZKL__READ)
		on_read(l, reply);
	else if (reply->result != ZKL__UNKNOWN)
		on_chroot(l, reply);
	/* Unknown: asked again when the link is up. */
}

static int look(zkl_session *session, const char *path, struct zkl__look *ret, zkl_error *reterr)
{
	struct look l = {.query = {.session = session, .ask = ask_list, .reply = on_reply},
	                 .path = path,
	                 .kind = ZKL__KIND_LOCK,
	                 .found = ret};
	int         r;

	r = zkl__query_run(&l.query, zkl__session_hub(session)->op_ns);
	if (r == 0)
		return zkl__error(reterr, ZKL_ENOTCONN, 0, 0,
		                  "%s cannot be read: no server of the ensemble answered in time", path);
	if (r == ZKL_ENOMEM)
		return zkl__error(reterr, r, 0, 0, "no memory for a query");
	if (r < 0)
		return zkl__error(reterr, r, 0, 0, "%s cannot be read: the session was cancelled, closed or refused",
		                  path);
	if (l.query.result < 0)
		return zkl__error(reterr, l.query.result, l.query.zk_code, 0, "%s %s", path, l.query.text);
	return l.query.result;
}

struct zkl__looking {
	struct look      look; /* first */
	struct zkl__uuid own;
	struct zkl__look found;
};

struct zkl__looking *zkl__owner_look(struct zkl__owner *owner)
{
	struct zkl__looking *l = calloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->look.query = (struct zkl__query){.session = owner->session, .ask = ask_list, .reply = on_reply};
	l->look.path = owner->handle.path;
	l->look.kind = owner->handle.type->kind;
	l->look.found = &l->found;
	zkl__session_lock(owner->session);
	if (owner->handle.attempt) {
		l->own = owner->handle.attempt->contender.uuid;
		l->look.own = &l->own;
	}
	zkl__session_unlock(owner->session);
	if (zkl__query_begin(&l->look.query) == 0)
		return l;
	free(l);
	return NULL;
}

bool zkl__looking_is_over(struct zkl__looking *l)
{
	return zkl__query_is_over(&l->look.query);
}

int zkl__looking_end(struct zkl__looking *l, struct zkl__look *ret)
{
	int r = zkl__query_end(&l->look.query);

	if (r > 0)
		r = l->look.query.result;
	*ret = l->found;
	free(l);
	return r;
}

int zkl_lock_holder(zkl_session *session, const char *path, zkl_peer *ret, zkl_error *reterr)
{
	struct zkl__look found = {.ahead = 0};
	int              r = zkl__session_usable(session, reterr);

	if (r == 0)
		r = zkl__lock_path_check(path, zkl__session_chroot(session), reterr);
	if (r == 0)
		r = zkl__session_may_block(session, reterr);
	if (r == 0)
		r = look(session, path, &found, reterr);
	if (r > 0 && ret)
		*ret = found.peer;
	return r;
}
