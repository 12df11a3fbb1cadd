/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of one contender.
 *
 *                                    START
 *                  try                 |                 queue
 *              +-----------------------+----------------------+
 *              v                                              v
 *     TRY  sync, list ----- free ------------------>  JOIN  create, list  <----------------------------+
 *              | no directory                          |  ^   |     | create lost                      |
 *              +--------------> MAKE <--- no directory +  |   |     +--> ADOPT  barrier, list, find    | our node is gone,
 *                                 +------- made ----------+   |              | found: as after JOIN    | session expired:
 *                                                             |              | none: create again      | requeue, at the tail
 *                        somebody is before us                |  lowest      v                         |
 *            +------------------------------------------------+----------------------+                 |
 *            v                                                                       |                 |
 *     WAIT  watch own node, then predecessor --- predecessor went, was known --------+-----------------+
 *       ^    |                                   to be the lowest                    |                 |
 *       |    +- it went, was not known ------> RELIST  list ------------ lowest -----+-----------------+
 *       +------- somebody else is before us -----+                                   v                 |
 *                                                                 no live lease: ENTITLED  prove ------+
 *                                                                                    |  proof
 *            IDLE <--- gone --- LEAVE  delete <--- owner lets go --- HELD <----------+
 *                                 ^                                   | deadline passed, node gone, session expired
 *                                 +-------- owner lets go --------- LOST
 *
 * At the end of the sequence JOIN and TRY lead to RENEWAL: delete our node, list, wait for the last of those who are left,
 * list, ..., delete the directory -> MAKE. LEAVE is entered from every state. Without a connection a state keeps still: LINK_UP
 * sends again what it stands for.
 *
 * Rules, each of which was seen to grant wrongly, hang or leave a node behind when it was taken out:
 * - Our own node is watched before the predecessor, and while the newest watch on it is unanswered nothing is granted but
 *   by a list that shows our node. Else "the predecessor is gone" can arrive before "you are gone".
 * - A predecessor's end is our turn only if it was known to be the lowest: by a list, or by the mark in its data. A change
 *   of its data alone proves nothing, others may write there too.
 * - Events between the loss of a connection and the next one prove nothing but that our own node is gone.
 * - Of lists only the newest one sent counts, and after a reconnect that is one sent on the new connection.
 * - What became of a lost create is asked behind a barrier that goes through the quorum, and the node found must be owned
 *   by this very session (CURATOR-604).
 * - A create that is not decided is never forgotten, also by who has given up (kazoo #732, CURATOR-79). */
#include "contender.h"

#include <stdio.h>
#include <string.h>

#include <zklock/zklock.h>

static struct zkl__action *act(struct zkl__actions *out, enum zkl__action_type type)
{
	struct zkl__action *action = &out->list[out->count++];

	memset(action, 0, sizeof *action);
	action->type = type;
	return action;
}

static uint32_t ask(struct zkl__contender *c, struct zkl__actions *out, enum zkl__op op, const char *name)
{
	struct zkl__request *request = &act(out, ZKL__SEND)->request;

	request->op = op;
	request->id = ++c->last_id;
	request->name = name;
	request->uuid = c->uuid;
	return request->id;
}

static void warn(struct zkl__actions *out, const char *id, const char *text, const char *name)
{
	struct zkl__action *action = act(out, ZKL__WARN);

	action->id = id;
	action->text = text;
	action->request.name = name;
}

static bool have_node(const struct zkl__contender *c)
{
	return c->sequence >= 0;
}

/* Of a node of ours, which is never longer. */
static void note_name(struct zkl__contender *c, const char *name)
{
	snprintf(c->name, sizeof c->name, "%.*s", ZKL__OWN_NAME_MAX - 1, name);
}

static void forget_predecessor(struct zkl__contender *c)
{
	if (c->predecessor)
		c->predecessor[0] = 0;
	c->next = c->mark_watched = false;
	c->gone = c->lasting = false;
	c->predecessor_watch = 0;
}

static void forget_node(struct zkl__contender *c)
{
	c->sequence = -1; /* the name stays, for who asks what it was */
	c->watched = false;
	c->marked = false;
	c->own_watch = c->create = c->list = c->find = c->remove = c->renew = 0;
	c->create_unknown = false;
	forget_predecessor(c);
}

/* ---- leaving -------------------------------------------------------------------------------------------------------- */

static void done(struct zkl__contender *c, struct zkl__actions *out, int error, int zk_code)
{
	struct zkl__action *action;

	forget_node(c);
	c->state = ZKL__IDLE;
	action = act(out, ZKL__TELL_DONE);
	action->error = error;
	action->zk_code = zk_code;
}

static void look_for_node(struct zkl__contender *c, struct zkl__actions *out)
{
	ask(c, out, ZKL__BARRIER, NULL);
	c->list = ask(c, out, ZKL__LIST, NULL);
}

static void leave(struct zkl__contender *c, struct zkl__actions *out)
{
	forget_predecessor(c);
	c->list = c->find = c->renew = 0;
	if (!have_node(c) && !c->create && !c->create_unknown) {
		done(c, out, 0, 0);
		return;
	}
	c->state = ZKL__LEAVE;
	if (!c->link)
		return;
	if (have_node(c) && !c->remove)
		c->remove = ask(c, out, ZKL__DELETE, c->name);
	else if (!have_node(c) && !c->create)
		look_for_node(c, out);
}

static void fail(struct zkl__contender *c, struct zkl__actions *out, int error, int zk_code, const char *text)
{
	struct zkl__action *action = act(out, ZKL__TELL_FAILED);

	action->error = error;
	action->zk_code = zk_code;
	action->text = text;
	leave(c, out);
}

/* A definite no. */
static void refused(struct zkl__contender *c, const struct zkl__reply *reply, const char *denied, const char *other,
                    struct zkl__actions *out)
{
	if (reply->result == ZKL__DENIED)
		fail(c, out, ZKL_EACCES, reply->zk_code, denied);
	else if (reply->result == ZKL__BARREN)
		fail(c, out, ZKL_EPATH, reply->zk_code,
		     "is, or lies below, an ephemeral node, which can have no children; name another path");
	else if (reply->result == ZKL__UNCLAIMED)
		fail(c, out, ZKL_EACCES, reply->zk_code,
		     "cannot be protected: the servers do not take the session's auth, or others, for identities; "
		     "digest:user:password is one");
	else
		fail(c, out, ZKL_EZK, reply->zk_code, other);
}

/* ---- queueing ------------------------------------------------------------------------------------------------------- */

static void ask_whether_free(struct zkl__contender *c, struct zkl__actions *out)
{
	c->state = ZKL__TRY;
	ask(c, out, ZKL__SYNC, NULL);
	c->list = ask(c, out, ZKL__LIST, NULL);
}

static void refuse_misplaced(struct zkl__contender *c, struct zkl__actions *out)
{
	fail(c, out, ZKL_EPATH, 0, "has contenders of the other kind: a lock and an election need a path each");
}

static void make_path(struct zkl__contender *c, struct zkl__actions *out)
{
	c->state = ZKL__MAKE;
	c->list = 0;
	ask(c, out, ZKL__MAKE_PATH, NULL);
}

static void join(struct zkl__contender *c, struct zkl__actions *out)
{
	c->state = ZKL__JOIN;
	c->create = ask(c, out, ZKL__CREATE, NULL);
	c->list = ask(c, out, ZKL__LIST, NULL);
}

/* Also of a node whose delete was not answered: nothing may be taken for it. */
static void join_anew(struct zkl__contender *c, struct zkl__actions *out)
{
	c->uuid.low++;
	join(c, out);
}

static void requeue(struct zkl__contender *c, struct zkl__actions *out)
{
	forget_node(c);
	if (c->flags & ZKL__CONTENDER_NO_REQUEUE) {
		fail(c, out, ZKL_ELOST, 0, "lost its place in the queue (session expired or node deleted)");
		return;
	}
	c->requeued++;
	c->uuid.low++;
	c->state = ZKL__JOIN;
	act(out, ZKL__TELL_REQUEUED);
	if (c->link)
		join(c, out);
}

static void watch_own(struct zkl__contender *c, struct zkl__actions *out)
{
	if (!c->watched && !c->own_watch)
		c->own_watch = ask(c, out, ZKL__WATCH, c->name);
}

static void watch_predecessor(struct zkl__contender *c, struct zkl__actions *out)
{
	/* The watch with which the mark was read is still there: another kind would be one more for the client to keep. */
	c->predecessor_watch = ask(c, out, c->next && !c->mark_watched ? ZKL__WATCH : ZKL__WATCH_MARK, c->predecessor);
}

static void relist(struct zkl__contender *c, struct zkl__actions *out)
{
	forget_predecessor(c);
	c->state = ZKL__RELIST;
	c->list = ask(c, out, ZKL__LIST, NULL);
}

/* ---- the end of the sequence ---------------------------------------------------------------------------------------- */

/* Who was given a number there gives it back. Those before it finish in order; then the directory, which is deleted only
 * when it is empty, is made anew: a later birth makes greater tokens (zklock.h). */

/* Contenders of other clients stay there; behind so many of them in a row it will not be empty. */
#define LATE_MAX 32

static void renew(struct zkl__contender *c, struct zkl__actions *out)
{
	forget_predecessor(c);
	c->state = ZKL__RENEWAL;
	if (have_node(c) && !c->remove)
		c->remove = ask(c, out, ZKL__DELETE, c->name);
	c->list = ask(c, out, ZKL__LIST, NULL);
}

/* Our node is gone, or what became of it is not known. */
static void gave_back(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->result == ZKL__UNKNOWN) {
		if (c->link)
			renew(c, out);
	} else if (reply->result == ZKL__DONE || reply->result == ZKL__NO_NODE) {
		c->sequence = -1;
		c->watched = false;
		c->own_watch = 0;
	} else {
		refused(c, reply, "does not permit to delete our own contender; check its ACL", "cannot be renewed",
		        out);
	}
}

static void exhausted(struct zkl__contender *c, struct zkl__actions *out, const char *text)
{
	fail(c, out, ZKL_EEXHAUSTED, 0, text);
}

static void overrun(struct zkl__contender *c, struct zkl__actions *out)
{
	exhausted(c, out, "has used up its sequence numbers; delete the directory once it is empty");
}

/* Waits for the last of those who are left. A server that lags may still show our own node, or that of an earlier session. */
static void wait_until_empty(struct zkl__contender *c, const struct zkl__queue *queue, struct zkl__actions *out)
{
	const char *last = queue->mine ? queue->own : queue->predecessor;

	if (c->flags & ZKL__CONTENDER_TRY) {
		fail(c, out, ZKL_EBUSY, 0, "is held by another");
		return;
	}
	if (zkl__queue_sequence(last) >= ZKL__SEQUENCE_END && c->late++ == LATE_MAX) {
		exhausted(c, out,
		          "has used up its sequence numbers, and contenders of other clients stay in its directory");
		return;
	}
	snprintf(c->predecessor, ZKL__NAME_MAX, "%s", last);
	c->waited = true;
	act(out, ZKL__TELL_WAITING)->ahead = queue->contenders;
	c->predecessor_watch = ask(c, out, ZKL__WATCH, c->predecessor);
}

/* The newest list, with no node of ours. */
static void on_renewal_list(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	const struct zkl__queue *queue = &reply->queue;

	c->state = ZKL__RENEWAL;
	if (reply->result == ZKL__NO_NODE) {
		make_path(c, out);
	} else if (queue->overrun) {
		overrun(c, out);
	} else if (reply->created < ZKL__SEQUENCE_END) {
		join_anew(c, out); /* it is another one by now */
	} else if (queue->misplaced[0]) {
		refuse_misplaced(c, out);
	} else if (queue->contenders) {
		wait_until_empty(c, queue, out);
	} else if (queue->children) {
		exhausted(
			c, out,
			"has used up its sequence numbers, and children that are no contenders: delete its directory");
	} else {
		warn(out, "renew", "the sequence numbers are used up, making the directory anew", NULL);
		c->renew = ask(c, out, ZKL__RENEW, NULL);
	}
}

static void on_renew(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->id != c->renew || c->state != ZKL__RENEWAL)
		return;
	c->renew = 0;
	switch (reply->result) {
	case ZKL__UNKNOWN:
		break;
	case ZKL__DONE:
	case ZKL__NO_NODE:
		c->uuid.low++;
		make_path(c, out);
		break;
	case ZKL__NOT_EMPTY:
		renew(c, out);
		break;
	case ZKL__DENIED:
		exhausted(c, out, "has used up its sequence numbers, and may not be deleted; check its parent's ACL");
		break;
	default:
		fail(c, out, ZKL_EZK, reply->zk_code, "has used up its sequence numbers, and cannot be deleted");
		break;
	}
}

/* ---- our turn ------------------------------------------------------------------------------------------------------- */

static void grant(struct zkl__contender *c, struct zkl__actions *out)
{
	if (zkl__contender_token(c) >= (uint64_t)c->czxid) {
		fail(c, out, ZKL_EPATH, 0,
		     "its directory had children made in bulk, so that tokens would not grow; delete the directory");
		return;
	}
	forget_predecessor(c);
	c->state = ZKL__HELD;
	act(out, ZKL__TELL_GRANTED);
	if (!c->watched || c->waited)
		act(out, ZKL__TELL_SETTLE);
}

static void entitled(struct zkl__contender *c, bool lease_live, struct zkl__actions *out)
{
	if (lease_live) {
		grant(c, out);
		return;
	}
	forget_predecessor(c);
	c->state = ZKL__ENTITLED;
	watch_own(c, out);
	act(out, ZKL__ASK_PROOF);
}

/* The predecessor went: it is our turn if it was the lowest, else ask who is left. */
static void conclude(struct zkl__contender *c, bool lease_live, struct zkl__actions *out)
{
	if (c->state != ZKL__WAIT || !c->gone || !c->watched)
		return;
	if (c->next) {
		entitled(c, lease_live, out);
		return;
	}
	relist(c, out);
	if (!lease_live)
		act(out, ZKL__ASK_PROOF);
}

/* The newest list, while our node is known. */
static void evaluate(struct zkl__contender *c, const struct zkl__reply *reply, bool lease_live,
                     struct zkl__actions *out)
{
	const struct zkl__queue *queue = &reply->queue;

	if (queue->overrun) {
		overrun(c, out);
		return;
	}
	if (c->sequence >= ZKL__SEQUENCE_END) {
		renew(c, out);
		return;
	}
	if (queue->unreadable) {
		fail(c, out, ZKL_EPATH, 0, "its directory has a contender with a name of more than 127 bytes");
		return;
	}
	if (!queue->mine || queue->own_sequence > c->sequence) {
		requeue(c, out);
		return;
	}
	if (queue->mine > 1) {
		warn(out, "duplicate", "more than one node of ours, deleting the other", queue->extra);
		ask(c, out, ZKL__DELETE, queue->extra);
	}
	if (queue->misplaced[0]) {
		refuse_misplaced(c, out);
		return;
	}
	c->directory_czxid = reply->czxid;
	if (!queue->ahead) {
		entitled(c, lease_live, out);
		return;
	}
	if (c->flags & ZKL__CONTENDER_TRY) {
		fail(c, out, ZKL_EBUSY, 0, "is held by another");
		return;
	}
	if (queue->foreign[0] && !c->waited)
		warn(out, "foreign", "a contender of another kind is in the queue", queue->foreign);
	snprintf(c->predecessor, ZKL__NAME_MAX, "%s", queue->predecessor);
	c->next = queue->ahead == 1;
	c->gone = false;
	c->waited = true;
	c->state = ZKL__WAIT;
	act(out, ZKL__TELL_WAITING)->ahead = queue->ahead;
	watch_own(c, out);
	watch_predecessor(c, out);
}

/* ---- replies -------------------------------------------------------------------------------------------------------- */

static void create_refused(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->result == ZKL__NO_NODE) {
		make_path(c, out);
	} else if (reply->result == ZKL__EXISTS && c->exists_again++ < 3) {
		join_anew(c, out);
	} else {
		refused(c, reply, "does not permit to create a contender; check its ACL and the session's auth",
		        "cannot have a contender created", out);
	}
}

static void on_create(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->id != c->create)
		return;
	c->create = 0;
	if (reply->result == ZKL__UNKNOWN) {
		c->create_unknown = true;
		if (c->state == ZKL__LEAVE && c->link)
			look_for_node(c, out);
	} else if (reply->result == ZKL__DONE) {
		note_name(c, reply->name);
		c->sequence = zkl__queue_sequence(c->name);
		c->czxid = reply->czxid;
		if (!have_node(c)) {
			/* The sequence has run over: what was made must go, by its name. */
			c->sequence = ZKL__SEQUENCE_END;
		}
		if (c->state == ZKL__LEAVE)
			leave(c, out);
	} else if (c->state == ZKL__LEAVE) {
		done(c, out, 0, 0);
	} else {
		create_refused(c, reply, out);
	}
}

static void adopt(struct zkl__contender *c, const struct zkl__queue *queue, struct zkl__actions *out)
{
	if (!queue->mine) {
		c->create_unknown = false;
		join(c, out);
		return;
	}
	note_name(c, queue->own);
	c->find = ask(c, out, ZKL__FIND, c->name);
	c->list = ask(c, out, ZKL__LIST, NULL);
}

static void on_find(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->id != c->find || c->state != ZKL__ADOPT)
		return;
	c->find = 0;
	if (reply->result == ZKL__UNKNOWN)
		return;
	c->create_unknown = false;
	if (reply->result == ZKL__DONE && reply->owner == c->session_id) {
		c->sequence = zkl__queue_sequence(c->name);
		c->czxid = reply->czxid;
		return;
	}
	forget_node(c);
	join_anew(c, out);
}

static void leave_by_list(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (have_node(c) || c->create)
		return;
	if (reply->result == ZKL__DENIED || reply->result == ZKL__REFUSED) {
		done(c, out, ZKL_EACCES, reply->zk_code);
		return;
	}
	c->create_unknown = false;
	if (reply->result == ZKL__DONE && reply->queue.mine) {
		note_name(c, reply->queue.own);
		c->sequence = reply->queue.own_sequence;
	}
	leave(c, out);
}

static void on_try_list(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->result == ZKL__NO_NODE)
		make_path(c, out);
	else if (reply->queue.overrun || reply->created >= ZKL__SEQUENCE_END)
		on_renewal_list(c, reply, out);
	else if (reply->queue.misplaced[0])
		refuse_misplaced(c, out);
	else if (reply->queue.contenders)
		fail(c, out, ZKL_EBUSY, 0, "is held by another");
	else
		join(c, out);
}

static void on_list(struct zkl__contender *c, const struct zkl__reply *reply, bool lease_live, struct zkl__actions *out)
{
	if (reply->id != c->list)
		return;
	c->list = 0;
	if (reply->result == ZKL__UNKNOWN)
		return;
	if (c->state == ZKL__LEAVE) {
		leave_by_list(c, reply, out);
		return;
	}
	if (reply->result == ZKL__DENIED || reply->result == ZKL__REFUSED) {
		refused(c, reply, "does not permit to list its contenders; check its ACL and the session's auth",
		        "cannot be listed", out);
		return;
	}
	switch (c->state) {
	case ZKL__TRY:
		on_try_list(c, reply, out);
		break;
	case ZKL__RENEWAL:
		on_renewal_list(c, reply, out);
		break;
	case ZKL__JOIN:
	case ZKL__ADOPT:
	case ZKL__RELIST:
		if (have_node(c))
			evaluate(c, reply, lease_live, out);
		else if (c->state == ZKL__ADOPT && !c->create && !c->find)
			adopt(c, &reply->queue, out);
		break;
	default:
		break;
	}
}

static void on_make_path(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (c->state != ZKL__MAKE || reply->result == ZKL__UNKNOWN)
		return;
	if (reply->result == ZKL__DONE || reply->result == ZKL__EXISTS)
		join(c, out);
	else if (reply->result == ZKL__NO_NODE)
		fail(c, out, ZKL_EPATH, reply->zk_code,
		     "lies under a chroot that does not exist; create the chroot first, it is never created here");
	else
		refused(c, reply, "may not be created; check the ACL of its parents and the session's auth",
		        "cannot be created", out);
}

static void node_gone(struct zkl__contender *c, struct zkl__actions *out);

static void on_watch(struct zkl__contender *c, const struct zkl__reply *reply, bool lease_live,
                     struct zkl__actions *out)
{
	bool own = reply->id == c->own_watch, predecessor = reply->id == c->predecessor_watch;

	if (own)
		c->own_watch = 0;
	if (predecessor)
		c->predecessor_watch = 0;
	if ((!own && !predecessor) || reply->result == ZKL__UNKNOWN || c->state == ZKL__LEAVE)
		return;
	if (reply->result == ZKL__DENIED || reply->result == ZKL__REFUSED) {
		/* A holder without a watch still has its heartbeat, which checks its node. */
		if (c->state == ZKL__HELD || c->state == ZKL__LOST)
			warn(out, "not-watched", "our own node cannot be watched", c->name);
		else
			refused(c, reply, "has a contender that we may not read; check the ACL of its children",
			        "has a contender that cannot be watched", out);
		return;
	}
	if (own && reply->result == ZKL__NO_NODE) {
		node_gone(c, out);
		return;
	}
	if (predecessor && reply->result == ZKL__NO_NODE && c->state == ZKL__RENEWAL) {
		renew(c, out);
		return;
	}
	if (predecessor && reply->result == ZKL__DONE && !reply->owner && !c->lasting) {
		warn(out, "lasting", "waiting behind a node that no session ends: delete it by hand", c->predecessor);
		c->lasting = true;
	}
	if (own)
		c->watched = true;
	else if (reply->result == ZKL__NO_NODE)
		c->gone = true;
	else if (reply->marked)
		c->next = c->mark_watched = true;
	conclude(c, lease_live, out);
}

static void on_mark(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->result == ZKL__UNKNOWN)
		c->marked = false;
	else if (reply->result == ZKL__NO_NODE && c->state == ZKL__HELD)
		node_gone(c, out);
}

static void on_delete(struct zkl__contender *c, const struct zkl__reply *reply, struct zkl__actions *out)
{
	if (reply->id != c->remove)
		return;
	c->remove = 0;
	if (c->state == ZKL__RENEWAL) {
		gave_back(c, reply, out);
		return;
	}
	if (reply->result == ZKL__DONE || reply->result == ZKL__NO_NODE)
		done(c, out, 0, 0);
	else if (reply->result == ZKL__UNKNOWN)
		leave(c, out);
	else
		done(c, out, reply->result == ZKL__DENIED ? ZKL_EACCES : ZKL_EZK, reply->zk_code);
}

static void on_reply(struct zkl__contender *c, const struct zkl__reply *reply, bool lease_live,
                     struct zkl__actions *out)
{
	switch (reply->op) {
	case ZKL__CREATE:
		on_create(c, reply, out);
		break;
	case ZKL__LIST:
		on_list(c, reply, lease_live, out);
		break;
	case ZKL__FIND:
		on_find(c, reply, out);
		break;
	case ZKL__MAKE_PATH:
		on_make_path(c, reply, out);
		break;
	case ZKL__WATCH:
	case ZKL__WATCH_MARK:
		on_watch(c, reply, lease_live, out);
		break;
	case ZKL__MARK:
		on_mark(c, reply, out);
		break;
	case ZKL__DELETE:
		on_delete(c, reply, out);
		break;
	case ZKL__RENEW:
		on_renew(c, reply, out);
		break;
	case ZKL__SYNC:
	case ZKL__BARRIER: /* the list behind it tells */
	case ZKL__PROVE:   /* the hub's */
	default:           /* never asked here */
		break;
	}
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

static void lose(struct zkl__contender *c, struct zkl__actions *out, const char *why)
{
	c->state = ZKL__LOST;
	act(out, ZKL__TELL_LOST)->text = why;
}

/* Our own node was deleted, and not by us. */
static void node_gone(struct zkl__contender *c, struct zkl__actions *out)
{
	switch (c->state) {
	case ZKL__HELD:
		forget_node(c);
		lose(c, out, "its node was deleted");
		break;
	case ZKL__LOST:
		forget_node(c);
		break;
	case ZKL__JOIN:
	case ZKL__ADOPT:
	case ZKL__WAIT:
	case ZKL__RELIST:
	case ZKL__ENTITLED:
		requeue(c, out);
		break;
	default: /* LEAVE, RENEWAL: the reply to the delete tells */
		break;
	}
}

static void on_gone(struct zkl__contender *c, const char *name, bool lease_live, struct zkl__actions *out)
{
	if (have_node(c) && strcmp(name, c->name) == 0) {
		node_gone(c, out);
	} else if (c->state == ZKL__WAIT && c->link && strcmp(name, c->predecessor) == 0) {
		c->gone = true;
		conclude(c, lease_live, out);
	} else if (c->state == ZKL__RENEWAL && c->link && strcmp(name, c->predecessor) == 0) {
		renew(c, out);
	}
}

/* Also where the mark was seen: the change has used up the watch that came with the read. */
static void on_changed(struct zkl__contender *c, const char *name, struct zkl__actions *out)
{
	if (c->state != ZKL__WAIT || !c->link || c->gone || strcmp(name, c->predecessor) != 0)
		return;
	c->mark_watched = false;
	watch_predecessor(c, out);
}

static void on_link_up(struct zkl__contender *c, struct zkl__actions *out)
{
	switch (c->state) {
	case ZKL__TRY:
		ask_whether_free(c, out);
		break;
	case ZKL__MAKE:
		make_path(c, out);
		break;
	case ZKL__RENEWAL:
		renew(c, out);
		break;
	case ZKL__JOIN:
	case ZKL__ADOPT:
	case ZKL__RELIST:
	case ZKL__ENTITLED:
		if (have_node(c)) {
			watch_own(c, out);
			relist(c, out);
		} else if (c->create || c->create_unknown) {
			c->state = ZKL__ADOPT;
			look_for_node(c, out);
		} else {
			join(c, out);
		}
		break;
	case ZKL__WAIT:
		watch_own(c, out);
		watch_predecessor(c, out);
		break;
	case ZKL__HELD:
		watch_own(c, out);
		if (c->waited && !c->marked && !(c->flags & ZKL__CONTENDER_NO_MARK))
			act(out, ZKL__TELL_SETTLE);
		break;
	case ZKL__LEAVE:
		leave(c, out);
		break;
	default:
		break;
	}
}

static void on_link_down(struct zkl__contender *c)
{
	c->watched = false;
	c->own_watch = c->predecessor_watch = 0;
	c->list = c->find = c->renew = 0;
	c->gone = false;
}

static void on_expired(struct zkl__contender *c, struct zkl__actions *out)
{
	bool queued = have_node(c) || c->create || c->create_unknown;

	c->link = false;
	on_link_down(c);
	switch (c->state) {
	case ZKL__HELD:
		forget_node(c);
		lose(c, out, "its session expired");
		break;
	case ZKL__LOST:
		forget_node(c);
		break;
	case ZKL__LEAVE:
		done(c, out, 0, 0);
		break;
	case ZKL__RENEWAL:
		forget_node(c);
		break;
	case ZKL__JOIN:
	case ZKL__ADOPT:
	case ZKL__WAIT:
	case ZKL__RELIST:
	case ZKL__ENTITLED:
		if (queued)
			requeue(c, out);
		break;
	default: /* TRY and MAKE begin again with LINK_UP */
		break;
	}
}

static void on_settled(struct zkl__contender *c, struct zkl__actions *out)
{
	if (c->state != ZKL__HELD || !c->link)
		return;
	watch_own(c, out);
	if (c->waited && !c->marked && !(c->flags & ZKL__CONTENDER_NO_MARK)) {
		c->marked = true;
		ask(c, out, ZKL__MARK, c->name);
	}
}

static void on_start(struct zkl__contender *c, struct zkl__uuid uuid, struct zkl__actions *out)
{
	c->uuid = uuid;
	if (c->flags & ZKL__CONTENDER_TRY) {
		c->state = ZKL__TRY;
		if (c->link)
			ask_whether_free(c, out);
	} else {
		c->state = ZKL__JOIN;
		if (c->link)
			join(c, out);
	}
}

void zkl__contender_step(struct zkl__contender *c, const struct zkl__input *in, struct zkl__actions *out)
{
	out->count = 0;
	switch (in->type) {
	case ZKL__IN_START:
		on_start(c, in->uuid, out);
		break;
	case ZKL__IN_LEAVE:
		if (c->state != ZKL__IDLE && c->state != ZKL__LEAVE)
			leave(c, out);
		break;
	case ZKL__IN_LINK_UP:
		c->link = true;
		c->session_id = in->session_id;
		on_link_up(c, out);
		break;
	case ZKL__IN_LINK_DOWN:
		c->link = false;
		on_link_down(c);
		break;
	case ZKL__IN_EXPIRED:
		on_expired(c, out);
		break;
	case ZKL__IN_REPLY:
		on_reply(c, in->reply, in->lease_live, out);
		break;
	case ZKL__IN_GONE:
		on_gone(c, in->name, in->lease_live, out);
		break;
	case ZKL__IN_CHANGED:
		on_changed(c, in->name, out);
		break;
	case ZKL__IN_LEASE_LIVE:
		if (c->state == ZKL__ENTITLED && c->link && in->lease_live)
			grant(c, out);
		break;
	case ZKL__IN_LEASE_OVER:
		if (c->state == ZKL__HELD)
			lose(c, out, ZKL__LOST_BY_CLOCK);
		break;
	case ZKL__IN_SETTLED:
		on_settled(c, out);
		break;
	}
}

void zkl__contender_init(struct zkl__contender *c, unsigned flags, char predecessor[ZKL__NAME_MAX])
{
	memset(c, 0, sizeof *c);
	c->flags = flags;
	c->predecessor = predecessor;
	*predecessor = 0;
	c->sequence = -1;
}

bool zkl__contender_wants_lease(const struct zkl__contender *c)
{
	return c->state == ZKL__HELD || c->state == ZKL__ENTITLED || (c->state == ZKL__WAIT && c->next);
}

uint64_t zkl__contender_token(const struct zkl__contender *c)
{
	return have_node(c) ? (uint64_t)c->directory_czxid + (uint64_t)c->sequence : 0;
}

const char *zkl__state_name(enum zkl__state state)
{
	static const char *const names[ZKL__STATES] = {"IDLE", "TRY",    "MAKE",     "RENEWAL", "JOIN", "ADOPT",
	                                               "WAIT", "RELIST", "ENTITLED", "HELD",    "LOST", "LEAVE"};

	return names[state];
}

const char *zkl__op_name(enum zkl__op op)
{
	static const char *const names[] = {"?",     "create", "list",       "make-path",  "sync",       "barrier",
	                                    "find",  "watch",  "watch-mark", "mark",       "prove",      "delete",
	                                    "renew", "read",   "read-watch", "list-watch", "find-watch", "guarded"};

	return names[op];
}
