/* SPDX-License-Identifier: Apache-2.0 */
/* Writes that are carried out only if a grant's node is there. */
#include <zklock/guarded.h>

#include <string.h>

#include "error.h"
#include "path.h"
#include "query.h"

#define TIMEOUT_MAX 86400000
#define NS_PER_MS   1000000
#define NO_NODE     (-101) /* ZooKeeper's */

struct guarded {
	struct zkl__query query; /* first */
	const char       *node;  /* of the grant, below the chroot */
	const zkl_write  *writes;
	size_t count, failed; /* failed: the number of the write that is not possible, from 1; 0: it is the check */
	bool   sent;
};

/* Once: what became of it is not known after a reconnect. */
static void send_once(struct zkl__query *q)
{
	struct guarded     *g = (struct guarded *)q;
	struct zkl__request request = {
		.op = ZKL__GUARDED, .directory = g->node, .writes = g->writes, .write_count = g->count};

	if (g->sent) {
		zkl__query_answer(q, ZKL_ETIMEDOUT, NULL);
		return;
	}
	g->sent = true;
	zkl__query_send(q, &request);
}

static void on_reply(struct zkl__query *q, const struct zkl__reply *reply)
{
	struct guarded *g = (struct guarded *)q;

	if (reply->result == ZKL__UNKNOWN && !reply->sent_ns) {
		g->sent = false; /* the next connection comes, or time runs out */
		return;
	}
	g->failed = reply->failed;
	if (reply->result == ZKL__DONE)
		zkl__query_answer(q, 0, NULL);
	else if (reply->result == ZKL__UNKNOWN)
		zkl__query_answer(q, ZKL_ETIMEDOUT, NULL);
	else if (reply->result == ZKL__NO_NODE && g->failed == 0)
		zkl__query_answer(q, ZKL_ELOST, NULL);
	else if (reply->result == ZKL__DENIED)
		zkl__query_answer(q, ZKL_EACCES, NULL);
	else
		zkl__query_answer(q, ZKL_EZK, NULL);
}

/* ---- what is asked for ------------------------------------------------------------------------------------------------- */

static int check_write(const zkl_write *write, const char *chroot, size_t *bytes, zkl_error *reterr)
{
	int r;

	if (write->type < ZKL_WRITE_SET || write->type > ZKL_WRITE_DELETE)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "type of a write is %d; ZKL_WRITE_SET, CREATE and DELETE are known",
		                  (int)write->type);
	if (write->version < -1)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "version of a write is %d; it begins with 0, -1 is any",
		                  (int)write->version);
	if (!write->data && write->data_len)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "data of a write is NULL, and data_len is not 0");
	r = zkl__node_path_check(write->path, chroot, reterr);
	if (r < 0)
		return r;
	/* One that is too long by itself makes no sum that runs over. */
	*bytes += (write->data_len > ZKL_WRITE_BYTES_MAX ? ZKL_WRITE_BYTES_MAX : write->data_len) +
	          strlen(write->path) + strlen(chroot) + 100;
	return 0;
}

static int check_writes(const zkl_write *writes, size_t count, const char *chroot, zkl_error *reterr)
{
	size_t bytes = 0;

	if (!writes || count < 1 || count > ZKL_WRITES_MAX)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "%zu writes; 1 to %d are possible at once", count,
		                  ZKL_WRITES_MAX);
	for (size_t i = 0; i < count; i++) {
		int r = check_write(&writes[i], chroot, &bytes, reterr);

		if (r < 0)
			return r;
	}
	if (bytes > ZKL_WRITE_BYTES_MAX)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "the writes are longer than %d bytes in all, which servers refuse",
		                  ZKL_WRITE_BYTES_MAX);
	return 0;
}

/* The grant's node below the chroot; NULL: it is not there. */
static const char *node_of(const zkl_grant *grant, const char *chroot)
{
	size_t length = strlen(chroot);

	if (!grant || strncmp(grant->node, chroot, length) != 0 || grant->node[length] != '/' ||
	    !memchr(grant->node, 0, sizeof grant->node))
		return NULL;
	return grant->node + length;
}

static int check(zkl_session *session, const zkl_grant *grant, const zkl_write *writes, size_t count,
                 int64_t timeout_ms, zkl_error *reterr)
{
	const char *chroot;
	int         r = zkl__session_usable(session, reterr);

	if (r < 0)
		return r;
	chroot = zkl__session_chroot(session);
	if (!node_of(grant, chroot))
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "the grant is none, or not below the session's chroot \"%s\"", chroot);
	if (timeout_ms < 0 || timeout_ms > TIMEOUT_MAX)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "timeout_ms is %lld; 0 to %d are possible",
		                  (long long)timeout_ms, TIMEOUT_MAX);
	r = check_writes(writes, count, chroot, reterr);
	return r < 0 ? r : zkl__session_may_block(session, reterr);
}

/* ---- the calls ----------------------------------------------------------------------------------------------------------- */

static int tell(const struct guarded *g, const zkl_grant *grant, int r, zkl_error *reterr)
{
	const struct zkl__query *q = &g->query;
	const zkl_write         *write = &g->writes[g->failed > 0 && g->failed <= g->count ? g->failed - 1 : 0];
	const char              *path = write->path;
	const bool orphan = q->result == ZKL_EZK && q->zk_code == NO_NODE && write->type == ZKL_WRITE_CREATE;

	if (r == ZKL_ENOMEM)
		return zkl__error(reterr, r, 0, 0, "no memory for a write");
	if (r < 0 && !g->sent)
		return zkl__error(reterr, r, 0, 0, "%s is not written: the session was cancelled, closed or refused",
		                  path);
	if (r == 0 && !g->sent)
		return zkl__error(reterr, ZKL_ENOTCONN, 0, 0, "%s is not written: no server was reached in time", path);
	if (r <= 0 || q->result == ZKL_ETIMEDOUT)
		return zkl__error(reterr, ZKL_ETIMEDOUT, q->zk_code, 0,
		                  "%s may be written or not: no server has said what became of it", path);
	if (q->result == ZKL_ELOST)
		return zkl__error(reterr, q->result, q->zk_code, 0, "%s is not written: %s is not there any more", path,
		                  grant->node);
	if (q->result == ZKL_EACCES)
		return zkl__error(reterr, q->result, q->zk_code, 0,
		                  "%s may not be written; check its ACL and the session's auth", path);
	if (q->result < 0)
		return zkl__error(reterr, q->result, q->zk_code, 0, "%s cannot be written%s", path,
		                  orphan ? ", its parent is missing" : "");
	return 0;
}

int zkl_guarded_multi(zkl_session *session, const zkl_grant *grant, const zkl_write *writes, size_t count,
                      int64_t timeout_ms, zkl_error *reterr)
{
	struct guarded g = {
		.query = {.session = session, .ask = send_once, .reply = on_reply}, .writes = writes, .count = count};
	int r = check(session, grant, writes, count, timeout_ms, reterr);

	if (r < 0)
		return r;
	g.node = node_of(grant, zkl__session_chroot(session));
	return tell(&g, grant, zkl__query_run(&g.query, timeout_ms * NS_PER_MS), reterr);
}

int zkl_guarded_set(zkl_session *session, const zkl_grant *grant, const char *path, const void *data, size_t data_len,
                    int32_t version, int64_t timeout_ms, zkl_error *reterr)
{
	zkl_write write = {ZKL_WRITE_SET, path, data, data_len, version};

	return zkl_guarded_multi(session, grant, &write, 1, timeout_ms, reterr);
}

int zkl_guarded_create(zkl_session *session, const zkl_grant *grant, const char *path, const void *data,
                       size_t data_len, int64_t timeout_ms, zkl_error *reterr)
{
	zkl_write write = {ZKL_WRITE_CREATE, path, data, data_len, -1};

	return zkl_guarded_multi(session, grant, &write, 1, timeout_ms, reterr);
}

int zkl_guarded_delete(zkl_session *session, const zkl_grant *grant, const char *path, int32_t version,
                       int64_t timeout_ms, zkl_error *reterr)
{
	zkl_write write = {ZKL_WRITE_DELETE, path, NULL, 0, version};

	return zkl_guarded_multi(session, grant, &write, 1, timeout_ms, reterr);
}
