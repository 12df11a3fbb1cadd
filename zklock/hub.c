/* SPDX-License-Identifier: Apache-2.0 */
#include "hub.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

/* ---- parties -------------------------------------------------------------------------------------------------------- */

#define NO_SLOT UINT32_MAX

static struct zkl__party *find_party(const struct zkl__hub *hub, uint64_t id)
{
	uint32_t index = (uint32_t)id;

	if (index >= hub->slot_count || hub->slots[index].generation != (uint32_t)(id >> 32))
		return NULL;
	return hub->slots[index].party;
}

static int grow_slots(struct zkl__hub *hub)
{
	uint32_t          count = hub->slot_count ? hub->slot_count * 2 : 8;
	struct zkl__slot *slots = realloc(hub->slots, count * sizeof *slots);

	if (!slots)
		return ZKL_ENOMEM;
	for (uint32_t i = hub->slot_count; i < count; i++)
		slots[i] = (struct zkl__slot){NULL, 1, i + 1 < count ? i + 1 : NO_SLOT};
	hub->slots = slots;
	hub->free_slot = hub->slot_count;
	hub->slot_count = count;
	return 0;
}

int zkl__hub_join(struct zkl__hub *hub, struct zkl__party *party)
{
	struct zkl__slot *slot;

	if (hub->free_slot == NO_SLOT && grow_slots(hub) < 0)
		return ZKL_ENOMEM;
	hub->watched.bytes += party->reserved;
	party->watch.key = 0;
	slot = &hub->slots[hub->free_slot];
	party->id = (uint64_t)slot->generation << 32 | hub->free_slot;
	slot->party = party;
	hub->free_slot = slot->next_free;
	party->next = NULL;
	party->previous = hub->last;
	*(hub->last ? &hub->last->next : &hub->first) = party;
	hub->last = party;
	return 0;
}

void zkl__hub_part(struct zkl__hub *hub, struct zkl__party *party)
{
	uint32_t          index = (uint32_t)party->id;
	struct zkl__slot *slot = &hub->slots[index];

	slot->party = NULL;
	slot->generation++;
	slot->next_free = hub->free_slot;
	hub->free_slot = index;
	*(party->previous ? &party->previous->next : &hub->first) = party->next;
	*(party->next ? &party->next->previous : &hub->last) = party->previous;
	hub->watched.bytes -= party->reserved;
	zkl__watched_leave(&hub->watched, &party->watch);
}

static void tell_all(struct zkl__hub *hub, enum zkl__happening what)
{
	for (struct zkl__party *p = hub->first, *next; p; p = next) {
		next = p->next;
		if (p->type->happened)
			p->type->happened(p, what);
	}
}

/* ---- watches -------------------------------------------------------------------------------------------------------- */

#define OWN_NAME_LENGTH 56 /* of a candidate's node; a lock's has a byte less */

uint32_t zkl__hub_watch_size(const struct zkl__hub *hub, const char *directory, bool own)
{
	return zkl__watched_size(hub->chroot_length + strlen(directory) + 1 +
	                         (own ? OWN_NAME_LENGTH : ZKL__NAME_MAX - 1));
}

int zkl__hub_check_room(const struct zkl__hub *hub, uint32_t bytes, const char *path, zkl_error *reterr)
{
	if (zkl__watched_has_room(&hub->watched, bytes))
		return 0;
	return zkl__error(reterr, ZKL_ENOMEM, 0, 0,
	                  "use another session for %s: this one would have too many nodes to watch", path);
}

void zkl__hub_reserve(struct zkl__hub *hub, struct zkl__party *party, uint32_t bytes)
{
	hub->watched.bytes -= party->reserved;
	hub->watched.bytes += bytes;
	party->reserved = bytes;
}

static bool is_own(const struct zkl__party *party, const char *name)
{
	const char *directory, *own;

	return party->type->node && party->type->node(party, &directory, &own) && strcmp(own, name) == 0;
}

static bool is_watch(enum zkl__op op)
{
	return op == ZKL__WATCH || op == ZKL__WATCH_MARK || op == ZKL__READ_WATCH || op == ZKL__LIST_WATCH ||
	       op == ZKL__FIND_WATCH;
}

/* Our own node's watch goes with the node, before its party does. */
static void note_watch(struct zkl__hub *hub, struct zkl__party *party, const struct zkl__request *request)
{
	const char       *name = request->name ? request->name : "";
	struct zkl__watch watch = {.party = party->id, .id = request->id};

	if (!is_watch(request->op) || is_own(party, name))
		return;
	watch.key = zkl__watched_key(request->directory, name, request->op == ZKL__WATCH);
	watch.bytes = zkl__watched_size(hub->chroot_length + strlen(request->directory) + 1 + strlen(name));
	if (party->watch.key != watch.key)
		zkl__watched_leave(&hub->watched, &party->watch);
	party->watch = watch;
}

static void note_refusal(struct zkl__hub *hub, struct zkl__party *party, uint64_t id, const struct zkl__reply *reply)
{
	if (!is_watch(reply->op) || reply->result == ZKL__DONE || reply->result == ZKL__UNKNOWN ||
	    reply->op == ZKL__FIND_WATCH)
		return;
	if (party && party->watch.id == reply->id)
		party->watch.key = 0;
	else if (!party)
		zkl__watched_refused(&hub->watched, id, reply->id);
}

void zkl__hub_send(struct zkl__hub *hub, struct zkl__party *party, const struct zkl__request *request)
{
	note_watch(hub, party, request);
	hub->port->send(hub->world, party->id, request);
}

/* ---- time ----------------------------------------------------------------------------------------------------------- */

int64_t zkl__hub_now(const struct zkl__hub *hub)
{
	return hub->port->now_ns(hub->world);
}

int64_t zkl__hub_next_ns(const struct zkl__hub *hub)
{
	return hub->next_ns;
}

void zkl__hub_alarm(struct zkl__hub *hub, int64_t at_ns)
{
	if (at_ns >= hub->next_ns)
		return;
	hub->next_ns = at_ns;
	hub->port->rearm(hub->world);
}

int64_t zkl__hub_left_ns(const struct zkl__hub *hub, int64_t stop_ns)
{
	int64_t deadline = atomic_load(&hub->deadline_ns);

	return deadline ? deadline - stop_ns - zkl__hub_now(hub) : 0;
}

int64_t zkl__hub_timeout_ns(const struct zkl__hub *hub)
{
	return hub->lease.timeout_ns ? hub->lease.timeout_ns : hub->timeout_asked_ns;
}

/* ---- heartbeat ------------------------------------------------------------------------------------------------------ */

static int64_t next_beat(const struct zkl__hub *hub)
{
	int64_t last = hub->lease.newest_ns > hub->beat_ns ? hub->lease.newest_ns : hub->beat_ns;

	return last ? last + zkl__lease_beat_interval(&hub->lease, hub->stop_max_ns) : 0;
}

bool zkl__hub_lasts(const struct zkl__hub *hub, int64_t stop_ns)
{
	return zkl__lease_lasts(&hub->lease, zkl__hub_now(hub), next_beat(hub), stop_ns);
}

/* Any live node of the session serves all. */
static struct zkl__party *whose_node(const struct zkl__hub *hub)
{
	const char *directory, *name;

	for (struct zkl__party *p = hub->first; p; p = p->next)
		if (p->type->node && p->type->node(p, &directory, &name))
			return p;
	return NULL;
}

void zkl__hub_beat(struct zkl__hub *hub, struct zkl__party *party)
{
	struct zkl__request request = {.op = ZKL__PROVE};
	int64_t             now = zkl__hub_now(hub), t = hub->lease.timeout_ns;

	if (!hub->link || !party || !party->type->node(party, &request.directory, &request.name))
		return;
	/* One under way is as good. */
	if (hub->beat_ns > hub->lease.newest_ns && now - hub->beat_ns < t / 24)
		return;
	if (hub->beat_ns > hub->lease.newest_ns)
		hub->counters.heartbeats_late++;
	hub->beat_ns = now;
	hub->counters.heartbeats++;
	zkl__hub_send(hub, party, &request);
	zkl__hub_alarm(hub, next_beat(hub));
}

static void beat_if_due(struct zkl__hub *hub)
{
	if (hub->wanting && hub->link && zkl__hub_now(hub) >= next_beat(hub))
		zkl__hub_beat(hub, whose_node(hub));
}

void zkl__hub_want(struct zkl__hub *hub, bool before, bool now)
{
	if (before == now)
		return;
	if (!now) {
		if (--hub->wanting == 0)
			zkl__lease_rest(&hub->lease, zkl__hub_now(hub));
		return;
	}
	if (hub->wanting++)
		return;
	zkl__lease_wake(&hub->lease, zkl__hub_now(hub));
	if (hub->link) {
		beat_if_due(hub);
		zkl__hub_alarm(hub, next_beat(hub));
	}
}

/* ---- lease ---------------------------------------------------------------------------------------------------------- */

static void publish(struct zkl__hub *hub)
{
	atomic_store(&hub->deadline_ns, zkl__lease_deadline(&hub->lease));
}

/* Those whose time is over, or who have said so, lose what they hold, before a later deadline can be seen. */
static void expire_holders(struct zkl__hub *hub)
{
	int64_t now = zkl__hub_now(hub), deadline = atomic_load(&hub->deadline_ns);

	if (now < deadline - hub->stop_max_ns && !atomic_load(&hub->latched))
		return;
	atomic_store(&hub->latched, false);
	for (struct zkl__party *p = hub->first, *next; p; p = next) {
		next = p->next;
		if (p->type->expire)
			p->type->expire(p, now, deadline);
	}
}

static void suspend(struct zkl__hub *hub, bool suspended)
{
	if (hub->suspended == suspended)
		return;
	hub->suspended = suspended;
	tell_all(hub, suspended ? ZKL__HEAR_SUSPENDED : ZKL__HEAR_RESUMED);
}

/* Only what a quorum committed is a proof: our create, our mark, a heartbeat. A heartbeat that did not find its node was
 * committed too, and the session was tested before. */
static bool is_proof(const struct zkl__reply *reply)
{
	switch (reply->op) {
	case ZKL__CREATE:
	case ZKL__MARK:
		return reply->result == ZKL__DONE;
	case ZKL__PROVE:
		return reply->result == ZKL__DONE || reply->result == ZKL__NO_NODE;
	default:
		return false;
	}
}

static void add_proof(struct zkl__hub *hub, const struct zkl__reply *reply)
{
	expire_holders(hub);
	zkl__lease_add_proof(&hub->lease, reply->sent_ns, reply->replied_ns);
	publish(hub);
	/* They may have to follow each other faster than when the last one was sent. */
	if (hub->wanting && hub->link)
		zkl__hub_alarm(hub, next_beat(hub));
	suspend(hub, false);
}

/* ---- what happens ---------------------------------------------------------------------------------------------------- */

void zkl__hub_link_up(struct zkl__hub *hub, int64_t session_id, int64_t timeout_ns)
{
	if (hub->session_id == session_id)
		hub->counters.reconnects++;
	expire_holders(hub);
	hub->link = true;
	hub->session_id = session_id;
	zkl__lease_set_timeout(&hub->lease, timeout_ns);
	if (hub->unasked_ns)
		zkl__lease_note_wait(&hub->lease, hub->unasked_ns, zkl__hub_now(hub));
	publish(hub);
	/* A shorter timeout has moved the deadline: look at it in time. */
	zkl__hub_alarm(hub, atomic_load(&hub->deadline_ns) - hub->stop_max_ns);
	hub->beat_ns = 0;
	if (hub->wanting)
		zkl__hub_beat(hub, whose_node(hub));
	tell_all(hub, ZKL__HEAR_LINK_UP);
}

void zkl__hub_connecting(struct zkl__hub *hub)
{
	if (!hub->port->asked)
		return;
	hub->unasked_ns = zkl__hub_now(hub);
	zkl__hub_alarm(hub, hub->unasked_ns + zkl__hub_timeout_ns(hub) / 24);
}

void zkl__hub_link_down(struct zkl__hub *hub)
{
	if (!hub->link)
		return;
	hub->link = false;
	zkl__hub_connecting(hub);
	suspend(hub, true);
	tell_all(hub, ZKL__HEAR_LINK_DOWN);
}

void zkl__hub_expired(struct zkl__hub *hub)
{
	hub->counters.expiries++;
	hub->link = false;
	hub->beat_ns = 0;
	hub->session_id = 0;
	zkl__watched_forget(&hub->watched);
	for (struct zkl__party *p = hub->first; p; p = p->next)
		p->watch.key = 0;
	tell_all(hub, ZKL__HEAR_EXPIRED);
	zkl__lease_begin(&hub->lease, &hub->lease_options);
	publish(hub);
	suspend(hub, false);
}

void zkl__hub_refuse(struct zkl__hub *hub, int code)
{
	hub->refused = code;
	tell_all(hub, ZKL__HEAR_REFUSED);
}

void zkl__hub_close(struct zkl__hub *hub)
{
	hub->closed = true;
	tell_all(hub, ZKL__HEAR_CLOSED);
}

void zkl__hub_reply(struct zkl__hub *hub, uint64_t party, const struct zkl__reply *reply)
{
	struct zkl__party *found;
	bool               proof = is_proof(reply);

	if (proof)
		add_proof(hub, reply);
	if (reply->result != ZKL__UNKNOWN)
		zkl__lease_note_wait(&hub->lease, reply->sent_ns, reply->replied_ns);
	found = find_party(hub, party);
	note_refusal(hub, found, party, reply);
	if (found)
		found->type->reply(found, reply);
	if (proof && hub->wanting)
		tell_all(hub, ZKL__HEAR_PROVEN);
}

void zkl__hub_watch(struct zkl__hub *hub, uint32_t watcher, bool gone, const char *directory, const char *name)
{
	struct zkl__party *found = watcher < hub->slot_count ? hub->slots[watcher].party : NULL;

	zkl__watched_fired(&hub->watched, found ? &found->watch : NULL, directory, name, gone);
	if (found && found->type->watch)
		found->type->watch(found, gone, directory, name);
}

/* The servers count from when they were asked, and the answer can be long on its way: the session may be old when we hear
 * of it. Nothing tells when it was asked for, so it is looked at. */
static void look_at_handshake(struct zkl__hub *hub, int64_t now, int64_t *next)
{
	int64_t again = now + zkl__hub_timeout_ns(hub) / 24;

	if (hub->link || !hub->port->asked)
		return;
	if (!hub->port->asked(hub->world))
		hub->unasked_ns = now;
	if (again < *next)
		*next = again;
}

static void look_ahead(const struct zkl__hub *hub, int64_t now, int64_t *next)
{
	int64_t beat = next_beat(hub), suspect = zkl__lease_suspect(&hub->lease);

	if (!hub->wanting || !hub->link)
		return;
	if (beat <= now) /* it could not be sent */
		beat = now + hub->lease.timeout_ns / 24;
	if (beat < *next)
		*next = beat;
	if (!hub->suspended && hub->lease.newest_ns && suspect < *next)
		*next = suspect;
}

void zkl__hub_timer(struct zkl__hub *hub)
{
	int64_t now = zkl__hub_now(hub), next = ZKL__NEVER;

	if (now < hub->next_ns && !atomic_load(&hub->latched))
		return;
	expire_holders(hub);
	if (hub->wanting && hub->lease.newest_ns && now >= zkl__lease_suspect(&hub->lease))
		suspend(hub, true);
	beat_if_due(hub);
	for (struct zkl__party *p = hub->first, *after; p; p = after) {
		int64_t due;

		after = p->next;
		due = p->type->due ? p->type->due(p, now) : ZKL__NEVER;
		if (due < next)
			next = due;
	}
	look_ahead(hub, now, &next);
	look_at_handshake(hub, now, &next);
	hub->next_ns = next;
}

void zkl__hub_init(struct zkl__hub *hub, const struct zkl__port *port, void *world)
{
	memset(hub, 0, sizeof *hub);
	hub->port = port;
	hub->world = world;
	hub->free_slot = NO_SLOT;
	hub->next_ns = ZKL__NEVER;
	zkl__lease_begin(&hub->lease, &hub->lease_options);
}

void zkl__hub_clear(struct zkl__hub *hub)
{
	free(hub->slots);
	hub->slots = NULL;
	zkl__watched_forget(&hub->watched);
}
