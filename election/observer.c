/* SPDX-License-Identifier: Apache-2.0 */
/* Observes an election.
 *
 *     LIST --- somebody is there ------> READ_WATCH the lowest --- it went ------> LIST
 *      |  ^                                 (the leader, told)  --- it changed --> READ_WATCH
 *      |  +--- a child came ---+
 *      +--- nobody is there -> LIST_WATCH (nobody, told); also where the sequence is at its end, and nobody is granted
 *      |
 *      +--- no directory --> FIND the chroot --> FIND_WATCH the directory --- it came ---> LIST
 *                                                (nobody, told)
 *
 * Only the leader's own node is watched, so that candidates who come and go wake nobody; the directory only while it is
 * empty. Once lowest, always lowest: after a reconnect the node is read again, and listed is only where it has gone, so that
 * a restarted server is not met by a list from each observer. A server that lags shows an old leader first: its watch fires
 * when the server has caught up. */
#include "observer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "peer.h"

struct zkl__observer {
	struct zkl__party            party; /* first */
	struct zkl__source           source;
	struct zkl__hub             *hub;
	struct zkl__observer_options options;
	unsigned                     references;
	bool                         closed;  /* nobody listens any more */
	uint32_t                     last_id; /* of the newest request: an older one's reply means nothing */
	char                         node[ZKL__NAME_MAX]; /* the lowest one's; "": not known */
	int64_t                      directory_czxid;
	uint32_t                     contenders;
	int64_t                      again_ns; /* when to try again what failed */
	/* What is told. */
	bool        told, changed, leads; /* told: anything so far */
	int         code, zk_code;        /* why nothing can be seen; 0: it can */
	const char *text;
	zkl_peer    leader;
};

static void ask(struct zkl__observer *o, enum zkl__op op, const char *directory, const char *name)
{
	struct zkl__request request = {
		.op = op, .id = ++o->last_id, .directory = directory, .name = name, .kind = ZKL__KIND_ELECTION};

	zkl__hub_send(o->hub, &o->party, &request);
}

static void list(struct zkl__observer *o)
{
	o->node[0] = 0;
	ask(o, ZKL__LIST, o->options.path, NULL);
}

static void look(struct zkl__observer *o)
{
	ask(o, ZKL__READ_WATCH, o->options.path, o->node);
}

/* ---- telling ---------------------------------------------------------------------------------------------------------- */

static void changed(struct zkl__observer *o)
{
	o->told = o->changed = true;
	o->hub->port->ready(o->hub->world, &o->source);
}

static void tell_leader(struct zkl__observer *o, const zkl_peer *leader)
{
	if (o->leads && memcmp(&o->leader, leader, sizeof *leader) == 0)
		return;
	o->leader = *leader;
	o->leads = true;
	o->code = 0;
	changed(o);
}

static void tell_nobody(struct zkl__observer *o, int code, int zk_code, const char *text)
{
	if (o->told && !o->leads && o->code == code)
		return;
	o->leads = false;
	o->code = code;
	o->zk_code = zk_code;
	o->text = text;
	changed(o);
}

/* Nothing tells when a list of access rights changes, or a chroot comes. */
static void fail(struct zkl__observer *o, int code, int zk_code, const char *text)
{
	tell_nobody(o, code, zk_code, text);
	o->node[0] = 0;
	o->again_ns = zkl__hub_now(o->hub) + zkl__hub_timeout_ns(o->hub);
	zkl__hub_alarm(o->hub, o->again_ns);
}

/* ---- replies ---------------------------------------------------------------------------------------------------------- */

static void on_listed(struct zkl__observer *o, const struct zkl__reply *reply)
{
	const struct zkl__queue *queue = &reply->queue;

	if (reply->result == ZKL__NO_NODE) {
		if (o->options.chroot)
			ask(o, ZKL__FIND, "", NULL);
		else
			ask(o, ZKL__FIND_WATCH, o->options.path, NULL);
	} else if (queue->overrun) {
		fail(o, ZKL_EEXHAUSTED, 0, "has used up its sequence numbers");
	} else if (queue->unreadable) {
		fail(o, ZKL_EPATH, 0, "has a contender with a name of more than 127 bytes");
	} else if (queue->misplaced[0]) {
		fail(o, ZKL_EPATH, 0, "has contenders of the other kind: it is a lock's directory");
	} else if (queue->contenders && zkl__queue_sequence(queue->lowest) < ZKL__SEQUENCE_END) {
		snprintf(o->node, sizeof o->node, "%s", queue->lowest);
		o->directory_czxid = reply->czxid;
		o->contenders = queue->contenders;
		look(o);
	} else if (reply->op == ZKL__LIST) {
		ask(o, ZKL__LIST_WATCH, o->options.path, NULL);
	} else {
		tell_nobody(o, 0, 0, NULL);
	}
}

static void on_read(struct zkl__observer *o, const struct zkl__reply *reply)
{
	zkl_peer leader;

	if (reply->result == ZKL__NO_NODE) {
		list(o);
		return;
	}
	zkl__peer_fill(&leader, o->node, o->directory_czxid, o->contenders, reply);
	tell_leader(o, &leader);
}

static void on_chroot(struct zkl__observer *o, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE)
		fail(o, ZKL_EPATH, reply->zk_code, "lies under a chroot that does not exist");
	else
		ask(o, ZKL__FIND_WATCH, o->options.path, NULL);
}

static void on_directory(struct zkl__observer *o, const struct zkl__reply *reply)
{
	if (reply->result == ZKL__NO_NODE)
		tell_nobody(o, 0, 0, NULL);
	else
		list(o);
}

static void on_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	struct zkl__observer *o = (struct zkl__observer *)party;

	if (reply->id != o->last_id || reply->result == ZKL__UNKNOWN)
		return; /* LINK_UP asks again */
	if (reply->result == ZKL__DENIED)
		fail(o, ZKL_EACCES, reply->zk_code, "may not be read; check its ACL and the session's auth");
	else if (reply->result == ZKL__REFUSED)
		fail(o, ZKL_EZK, reply->zk_code, "cannot be read");
	else if (reply->op == ZKL__READ_WATCH)
		on_read(o, reply);
	else if (reply->op == ZKL__FIND)
		on_chroot(o, reply);
	else if (reply->op == ZKL__FIND_WATCH)
		on_directory(o, reply);
	else
		on_listed(o, reply);
}

/* ---- what happens ----------------------------------------------------------------------------------------------------- */

static void on_watch(struct zkl__party *party, bool gone, const char *directory, const char *name)
{
	struct zkl__observer *o = (struct zkl__observer *)party;

	(void)directory; /* a list too many does no harm */
	if (!o->hub->link)
		return;
	if (!o->node[0]) {
		list(o); /* the directory's */
	} else if (strcmp(name, o->node) == 0) {
		if (gone)
			list(o);
		else
			look(o);
	}
}

static void begin(struct zkl__observer *o)
{
	o->again_ns = ZKL__NEVER;
	if (!o->hub->link)
		return;
	if (o->node[0])
		look(o);
	else
		list(o);
}

static void stop(struct zkl__observer *o)
{
	if (o->closed)
		return;
	o->closed = true;
	zkl__hub_part(o->hub, &o->party);
}

static void on_happened(struct zkl__party *party, enum zkl__happening what)
{
	struct zkl__observer *o = (struct zkl__observer *)party;

	if (what == ZKL__HEAR_LINK_UP)
		begin(o);
	else if (what == ZKL__HEAR_REFUSED && o->hub->refused == ZKL_EACCES)
		tell_nobody(o, ZKL_EACCES, 0, "cannot be read: the servers refused the session's auth");
	else if (what == ZKL__HEAR_CLOSED)
		stop(o);
}

static int64_t on_due(struct zkl__party *party, int64_t now)
{
	struct zkl__observer *o = (struct zkl__observer *)party;

	if (now >= o->again_ns)
		begin(o);
	return o->again_ns;
}

static const struct zkl__party_type party_type = {
	.reply = on_reply, .watch = on_watch, .happened = on_happened, .due = on_due};

/* ---- for the owner ----------------------------------------------------------------------------------------------------- */

static struct zkl__observer *of_source(const struct zkl__source *source)
{
	return (struct zkl__observer *)((char *)(uintptr_t)source - offsetof(struct zkl__observer, source));
}

static bool has_event(const struct zkl__source *source)
{
	const struct zkl__observer *o = of_source(source);

	return o->changed && o->options.on_event && !o->closed;
}

static bool next_event(struct zkl__source *source, struct zkl__delivery *ret)
{
	struct zkl__observer *o = of_source(source);

	if (!has_event(source))
		return false;
	o->changed = false;
	memset(ret, 0, sizeof *ret);
	ret->on_event = o->options.on_event;
	ret->user = o->options.user;
	ret->owner = o->options.owner;
	ret->event.type = ZKL_EV_LEADER;
	ret->event.code = o->code;
	if (o->code < 0) {
		zkl__error(&ret->error, o->code, o->zk_code, 0, "%s %s", o->options.path, o->text);
		ret->event.error = &ret->error;
	}
	if (o->leads) {
		ret->leader = o->leader;
		ret->event.leader = &ret->leader;
	}
	return true;
}

static void hold(struct zkl__source *source)
{
	of_source(source)->references++;
}

static void drop(struct zkl__source *source)
{
	struct zkl__observer *o = of_source(source);

	if (--o->references == 0)
		free(o);
}

static const struct zkl__source_type source_type = {
	.has_event = has_event, .next_event = next_event, .hold = hold, .drop = drop};

/* The leader's node; the directory, whose data may be watched beside its children. */
uint32_t zkl__observer_watch_size(const struct zkl__hub *hub, const char *path)
{
	return zkl__hub_watch_size(hub, path, false) + zkl__watched_size(hub->chroot_length + strlen(path));
}

struct zkl__observer *zkl__observer_new(struct zkl__hub *hub, const struct zkl__observer_options *options)
{
	struct zkl__observer *o = calloc(1, sizeof *o);

	if (!o)
		return NULL;
	o->party.type = &party_type;
	o->source.type = &source_type;
	o->hub = hub;
	o->options = *options;
	o->references = 1;
	o->party.reserved = zkl__observer_watch_size(hub, options->path);
	if (zkl__hub_join(hub, &o->party) < 0) {
		free(o);
		return NULL;
	}
	begin(o);
	return o;
}

int zkl__observer_leader(const struct zkl__observer *o, zkl_peer *ret)
{
	if (o->leads && ret)
		*ret = o->leader;
	return o->code < 0 ? o->code : o->leads;
}

void zkl__observer_close(struct zkl__observer *o)
{
	stop(o);
	drop(&o->source);
}
