/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "error.h"

#define MS        INT64_C(1000000)
#define SETTLE_NS MS

const struct zkl__handle_type zkl__lock_type = {
	.kind = ZKL__KIND_LOCK, .option_flags = ZKL_NO_REQUEUE, .stop = "stop, then release it"};
const struct zkl__handle_type zkl__election_type = {.kind = ZKL__KIND_ELECTION,
                                                    .contender_flags = ZKL__CONTENDER_NO_MARK,
                                                    .option_flags = ZKL_NO_REQUEUE | ZKL_OBSERVE,
                                                    .stop = "stop, then resign"};

static const struct zkl__party_type  attempt_type;
static const struct zkl__source_type event_type;
static void                          input(struct zkl__attempt *a, enum zkl__input_type type);
static void                          step(struct zkl__attempt *a, struct zkl__input *in);

static void say(const struct zkl__attempt *a, int level, const char *id, const char *text, const char *subject)
{
	a->hub->port->log(a->hub->world, level, id, text, subject);
}

/* ---- life of an attempt ---------------------------------------------------------------------------------------------- */

void zkl__attempt_hold(struct zkl__attempt *a)
{
	a->references++;
}

/* Takes it from its handle, which may be freed before it is. */
static void disown(struct zkl__attempt *a)
{
	struct zkl__attempt **link = a->handle ? &a->handle->attempts : NULL;

	while (link && *link != a)
		link = &(*link)->sibling;
	if (link)
		*link = a->sibling;
	a->handle = NULL;
	a->events = 0;
}

static void free_attempt(struct zkl__attempt *a)
{
	free(a->contender.predecessor);
	free(a);
}

void zkl__attempt_drop(struct zkl__attempt *a)
{
	if (--a->references)
		return;
	disown(a);
#ifndef __clang_analyzer__ /* it does not count references, and takes each of them for the last */
	free_attempt(a);
#endif
}

static uint32_t own_watch_size(const struct zkl__handle *h)
{
	return zkl__hub_watch_size(h->hub, h->path, true);
}

/* Who waits watches its own node and the one before; who holds only its own; a try never waits. */
static uint32_t watch_size(const struct zkl__handle *h, bool try)
{
	return own_watch_size(h) + (try ? 0 : zkl__hub_watch_size(h->hub, h->path, false));
}

static struct zkl__attempt *new_attempt(struct zkl__handle *handle, unsigned flags)
{
	struct zkl__hub     *hub = handle->hub;
	size_t               length = strlen(handle->path) + 1;
	struct zkl__attempt *a = calloc(1, offsetof(struct zkl__attempt, path) + length);
	char                *predecessor = malloc(ZKL__NAME_MAX);

	if (!a || !predecessor) {
		free(predecessor);
		free(a);
		return NULL;
	}
	zkl__contender_init(&a->contender, flags, predecessor);
	memcpy(a->path, handle->path, length);
	a->party.type = &attempt_type;
	a->source.type = &event_type;
	a->kind = handle->type->kind;
	a->party.reserved = watch_size(handle, flags & ZKL__CONTENDER_TRY);
	if (zkl__hub_join(hub, &a->party) < 0) {
		free_attempt(a);
		return NULL;
	}
	a->contender.link = hub->link;
	a->contender.session_id = hub->session_id;
	a->hub = hub;
	a->handle = handle;
	a->give_up_ns = a->settle_ns = ZKL__NEVER;
	a->stop_ns = handle->stop_ns;
	a->since_ms = hub->port->wall_ms(hub->world);
	a->number = ++handle->attempt_count;
	a->sibling = handle->attempts;
	handle->attempts = a;
	return a;
}

/* The owner is through with it; its events may still be on their way. */
static void let_go(struct zkl__attempt *a)
{
	if (a->handle && a->handle->attempt == a) {
		a->handle->attempt = NULL;
		zkl__attempt_drop(a);
	}
}

static void ready(struct zkl__attempt *a)
{
	a->hub->port->ready(a->hub->world, &a->source);
}

static void end(struct zkl__attempt *a, int code, int zk_code, const char *text)
{
	if (a->over)
		return;
	a->over = true;
	a->code = code;
	a->zk_code = zk_code;
	a->text = text;
	a->events |= ZKL__TELL_OF_END;
	if (!a->accepted)
		a->events &= ~(unsigned)ZKL__TELL_OF_GRANT;
}

/* ---- actions of the contender ----------------------------------------------------------------------------------------- */

/* A candidate's node holds its data and nothing else, or its id: Curator's LeaderLatch keeps its id there. */
static size_t print_data(const struct zkl__attempt *a, bool marked, char *ret, size_t size)
{
	const struct zkl__handle   *h = a->handle;
	const struct zkl__identity *who = &a->hub->identity;

	if (a->kind == ZKL__KIND_LOCK)
		return zkl__node_data_print(ret, size, who, a->since_ms, marked, h ? h->data : NULL,
		                            h ? h->data_len : 0);
	if (!h || !h->data_len)
		return zkl__identity_print(ret, size, who);
	memcpy(ret, h->data, h->data_len);
	return h->data_len;
}

static void send(struct zkl__attempt *a, struct zkl__request *request)
{
	char data[ZKL__NODE_HEAD_MAX + ZKL_DATA_MAX];

	request->directory = a->path;
	request->kind = a->kind;
	if (request->op == ZKL__CREATE || request->op == ZKL__MARK) {
		request->data = data;
		request->data_len = print_data(a, request->op == ZKL__MARK, data, sizeof data);
	}
	zkl__hub_send(a->hub, &a->party, request);
	request->data = NULL;
}

static void granted(struct zkl__attempt *a)
{
	struct zkl__contender *c = &a->contender;

	a->token = zkl__contender_token(c);
	a->session_id = c->session_id;
	free(c->predecessor);
	c->predecessor = NULL;
	a->give_up_ns = ZKL__NEVER;
	a->hub->counters.granted++;
	zkl__hub_reserve(a->hub, &a->party, own_watch_size(a->handle));
	a->events |= ZKL__TELL_OF_GRANT;
	a->events &= ~(unsigned)ZKL__TELL_OF_WAITING;
	atomic_store(&a->handle->held, a->token);
	zkl__hub_alarm(a->hub, atomic_load(&a->hub->deadline_ns) - a->stop_ns);
}

/* Returns whether nobody will let go of the lost grant, since nobody knew of it. */
static bool lost(struct zkl__attempt *a, const char *why)
{
	a->lost = true;
	a->why_lost = why;
	a->hub->counters.lost++;
	say(a, LOG_WARNING, "lost", why, a->path);
	if (a->handle) {
		atomic_store(&a->handle->lost, a->token);
		atomic_store(&a->handle->held, 0);
	}
	if (a->accepted) {
		a->events |= ZKL__TELL_OF_LOSS;
		return false;
	}
	if (a->handle)
		atomic_store(&a->handle->lost, 0);
	end(a, ZKL_ELOST, 0, "was lost before its grant could be told");
	return true;
}

static void done(struct zkl__attempt *a, const struct zkl__action *action)
{
	a->not_deleted = action->error;
	if (action->error)
		say(a, LOG_ERR, "not-deleted", "a node of ours could not be deleted; it lives as long as the session",
		    a->path);
	else if (a->token && !a->lost)
		a->hub->counters.released++;
	end(a,
	    action->error ? action->error
	    : a->lost     ? ZKL_ELOST
	                  : 0,
	    action->zk_code,
	    action->error ? "has a node of ours that may not be deleted" : "was lost before it was released");
	a->done = true;
	zkl__hub_part(a->hub, &a->party);
}

static void carry_out(struct zkl__attempt *a, struct zkl__action *action, bool *orphaned)
{
	char child[ZKL_PATH_MAX + ZKL__NAME_MAX + 2];

	switch (action->type) {
	case ZKL__SEND:
		send(a, &action->request);
		break;
	case ZKL__ASK_PROOF:
		zkl__hub_beat(a->hub, &a->party);
		break;
	case ZKL__TELL_WAITING:
		a->ahead = action->ahead;
		a->events |= ZKL__TELL_OF_WAITING;
		break;
	case ZKL__TELL_REQUEUED:
		say(a, LOG_INFO, "requeued", "lost its place in the queue, goes to the tail", a->path);
		break;
	case ZKL__TELL_GRANTED:
		granted(a);
		break;
	case ZKL__TELL_SETTLE:
		a->settle_ns = zkl__hub_now(a->hub) + SETTLE_NS;
		zkl__hub_alarm(a->hub, a->settle_ns);
		break;
	case ZKL__TELL_LOST:
		*orphaned = lost(a, action->text);
		break;
	case ZKL__TELL_FAILED:
		end(a, action->error, action->zk_code, action->text);
		break;
	case ZKL__TELL_DONE:
		done(a, action);
		break;
	case ZKL__WARN:
		snprintf(child, sizeof child, "%s%s%s", a->path, action->request.name ? "/" : "",
		         action->request.name ? action->request.name : "");
		say(a, LOG_WARNING, action->id, action->text, child);
		break;
	}
}

/* Is some attempt of the handle from before it not done? */
static bool has_older(const struct zkl__attempt *a)
{
	for (const struct zkl__attempt *older = a->sibling; older; older = older->sibling)
		if (!older->done)
			return true;
	return false;
}

/* A try that has waited for the attempts before it. */
static void begin_deferred(struct zkl__handle *h)
{
	struct zkl__attempt *a = h ? h->attempt : NULL;
	struct zkl__input    in = {.type = ZKL__IN_START};

	if (!a || !a->deferred || has_older(a))
		return;
	a->deferred = false;
	in.uuid = a->contender.uuid;
	step(a, &in);
}

static void leave(struct zkl__attempt *a)
{
	if (a->deferred) {
		/* Nothing was sent. Its contender does not know of the attempt yet. */
		a->deferred = false;
		a->contender.state = ZKL__TRY;
	}
	input(a, ZKL__IN_LEAVE);
}

static void step(struct zkl__attempt *a, struct zkl__input *in)
{
	struct zkl__actions actions;
	bool                before = zkl__contender_wants_lease(&a->contender), orphaned = false, was_done = a->done;

	in->lease_live = zkl__hub_lasts(a->hub, a->stop_ns);
	in->session_id = a->hub->session_id;
	zkl__contender_step(&a->contender, in, &actions);
	for (unsigned i = 0; i < actions.count; i++)
		carry_out(a, &actions.list[i], &orphaned);
	zkl__hub_want(a->hub, before, zkl__contender_wants_lease(&a->contender));
	if (orphaned) {
		input(a, ZKL__IN_LEAVE);
		return;
	}
	ready(a);
	if (a->over && !a->accepted)
		let_go(a);
	if (a->done && !was_done) {
		struct zkl__handle *handle = a->handle;

		zkl__attempt_drop(a); /* the hub's reference */
		begin_deferred(handle);
	}
}

static void input(struct zkl__attempt *a, enum zkl__input_type type)
{
	struct zkl__input in = {.type = type};

	step(a, &in);
}

static void on_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	struct zkl__attempt *a = (struct zkl__attempt *)party;
	struct zkl__input    in = {.type = ZKL__IN_REPLY, .reply = reply};

	if (reply->op == ZKL__PROVE) {
		if (reply->result != ZKL__NO_NODE)
			return;
		in = (struct zkl__input){.type = ZKL__IN_GONE, .name = reply->name};
	}
	step(a, &in);
}

static void on_watch(struct zkl__party *party, bool gone, const char *directory, const char *name)
{
	struct zkl__attempt *a = (struct zkl__attempt *)party;
	struct zkl__input    in = {.type = gone ? ZKL__IN_GONE : ZKL__IN_CHANGED, .name = name};

	if (strcmp(directory, a->path) == 0)
		step(a, &in);
}

/* ---- for the hub ------------------------------------------------------------------------------------------------------ */

/* < 0: the session's options do not fit its timeout. */
static int64_t most_stop_ns(const struct zkl__hub *hub)
{
	struct zkl__lease_limits limits;

	zkl__lease_limits(&hub->lease_options, zkl__hub_timeout_ns(hub), &limits);
	return limits.stop_max;
}

/* The owner, or what stands for it, gives up waiting. */
static void give_up(struct zkl__attempt *a, int code, const char *text)
{
	end(a, code, 0, text);
	leave(a);
}

static bool is_waiting(const struct zkl__attempt *a)
{
	return !a->over && a->contender.state != ZKL__HELD && a->contender.state != ZKL__LOST &&
	       a->contender.state != ZKL__LEAVE;
}

static const char *refusal_text(int code)
{
	switch (code) {
	case ZKL_ECANCELED:
		return "is not waited for any more: the session was cancelled";
	case ZKL_ESTATE:
		return "is not waited for any more: the session is closed";
	default:
		return "cannot be had: the servers refused the session's auth";
	}
}

/* What of the options does not fit the session timeout, which the servers may have shortened; NULL: all does. There would
 * be no live lease, or it would end before a heartbeat could extend it. */
static const char *misfit(const struct zkl__hub *hub, int64_t stop_ns)
{
	int64_t most = most_stop_ns(hub);

	if (most < 0)
		return "cannot be held: margin_ms, heartbeat_ms or tick_ms does not fit the session timeout that the "
		       "servers granted";
	if (stop_ns > most)
		return "cannot be held: stop_ms is too long for the session timeout that the servers granted";
	return NULL;
}

static void refuse(struct zkl__attempt *a, int code, const char *text)
{
	if (is_waiting(a))
		give_up(a, code, text);
}

static void let_go_for_good(struct zkl__attempt *a)
{
	refuse(a, ZKL_ESTATE, refusal_text(ZKL_ESTATE));
	if (a->handle && a->handle->attempt == a)
		zkl__handle_release(a->handle);
}

static void on_happened(struct zkl__party *party, enum zkl__happening what)
{
	struct zkl__attempt *a = (struct zkl__attempt *)party;
	const char          *text;

	zkl__attempt_hold(a);
	switch (what) {
	case ZKL__HEAR_LINK_UP:
		text = misfit(a->hub, a->stop_ns);
		if (text)
			refuse(a, ZKL_EINVAL, text);
		if (!a->done)
			input(a, ZKL__IN_LINK_UP);
		break;
	case ZKL__HEAR_LINK_DOWN:
		input(a, ZKL__IN_LINK_DOWN);
		break;
	case ZKL__HEAR_EXPIRED:
		input(a, ZKL__IN_EXPIRED);
		break;
	case ZKL__HEAR_PROVEN:
		if (a->contender.state == ZKL__ENTITLED)
			input(a, ZKL__IN_LEASE_LIVE);
		break;
	case ZKL__HEAR_SUSPENDED:
	case ZKL__HEAR_RESUMED:
		a->suspended = what == ZKL__HEAR_SUSPENDED;
		ready(a);
		break;
	case ZKL__HEAR_REFUSED:
		refuse(a, a->hub->refused, refusal_text(a->hub->refused));
		break;
	case ZKL__HEAR_CLOSED:
		let_go_for_good(a);
		break;
	}
	zkl__attempt_drop(a);
}

static void out_of_time(struct zkl__attempt *a)
{
	bool try = a->contender.flags & ZKL__CONTENDER_TRY;

	a->give_up_ns = ZKL__NEVER;
	if (!is_waiting(a))
		return;
	if (try || (!a->hub->link && a->contender.sequence < 0))
		give_up(a, ZKL_ENOTCONN, "cannot be had: no server of the ensemble answered in time");
	else
		give_up(a, ZKL_ETIMEDOUT,
		        a->contender.sequence < 0 ? "was not granted in time: no server has answered yet"
		                                  : "is held by another: still queued at the timeout");
}

static int64_t on_due(struct zkl__party *party, int64_t now)
{
	struct zkl__attempt *a = (struct zkl__attempt *)party;
	int64_t              next;

	zkl__attempt_hold(a);
	if (now >= a->settle_ns) {
		a->settle_ns = ZKL__NEVER;
		input(a, ZKL__IN_SETTLED);
	}
	if (now >= a->give_up_ns)
		out_of_time(a);
	next = a->give_up_ns < a->settle_ns ? a->give_up_ns : a->settle_ns;
	if (a->contender.state == ZKL__HELD) {
		int64_t deadline = atomic_load(&a->hub->deadline_ns) - a->stop_ns;

		next = deadline < next ? deadline : next;
	}
	zkl__attempt_drop(a);
	return next;
}

static void on_expire(struct zkl__party *party, int64_t now, int64_t deadline)
{
	struct zkl__attempt *a = (struct zkl__attempt *)party;

	if (a->contender.state != ZKL__HELD)
		return;
	if (now >= deadline - a->stop_ns || (a->handle && !a->let_go && atomic_load(&a->handle->held) != a->token))
		input(a, ZKL__IN_LEASE_OVER);
}

static bool node(const struct zkl__party *party, const char **directory, const char **name)
{
	const struct zkl__attempt *a = (const struct zkl__attempt *)party;

	*directory = a->path;
	*name = a->contender.name;
	return a->contender.sequence >= 0 && a->contender.state != ZKL__LEAVE && a->contender.state != ZKL__RENEWAL;
}

static const struct zkl__party_type attempt_type = {.reply = on_reply,
                                                    .watch = on_watch,
                                                    .happened = on_happened,
                                                    .due = on_due,
                                                    .expire = on_expire,
                                                    .node = node};

/* ---- for the owner ----------------------------------------------------------------------------------------------------- */

bool zkl__attempt_settled(const struct zkl__attempt *a)
{
	return a->over || a->contender.state == ZKL__HELD || a->contender.state == ZKL__LOST ||
	       a->contender.state == ZKL__LEAVE; /* granted and released, before the waiting thread saw it */
}

bool zkl__attempt_accept(struct zkl__attempt *a)
{
	if (a->over || a->contender.state == ZKL__LEAVE)
		return false;
	if (!a->accepted && zkl__handle_check(a->handle, a->token) > 0)
		a->accepted = true;
	if (!a->accepted)
		input(a, ZKL__IN_LEASE_OVER);
	return a->accepted;
}

void zkl__attempt_grant(const struct zkl__attempt *a, zkl_grant *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->token = a->token;
	ret->epoch = a->token - (uint64_t)a->contender.directory_czxid;
	ret->zxid = a->contender.czxid;
	ret->session_id = a->session_id;
	a->hub->port->absolute(a->hub->world, a->path, a->contender.name, ret->node, sizeof ret->node);
}

int zkl__attempt_error(const struct zkl__attempt *a, zkl_error *reterr)
{
	/* Released by another thread, before this one saw the grant. */
	int code = a->code ? a->code : ZKL_ECANCELED;

	return zkl__error(reterr, code, a->zk_code, 0, "%s %s", a->path,
	                  a->code && a->text ? a->text : zkl_strerror(code));
}

struct zkl__attempt *zkl__attempt_of(const struct zkl__source *source)
{
	return (struct zkl__attempt *)((char *)(uintptr_t)source - offsetof(struct zkl__attempt, source));
}

static bool has_event(const struct zkl__source *source)
{
	const struct zkl__attempt *a = zkl__attempt_of(source);

	if (!a->handle || !a->handle->on_event)
		return false;
	return a->events ||
	       (a->told_granted && !a->lost && a->contender.state == ZKL__HELD && a->suspended != a->told_suspended);
}

static void fill(const struct zkl__attempt *a, struct zkl__delivery *ret, zkl_event_type type)
{
	memset(ret, 0, sizeof *ret);
	ret->on_event = a->handle->on_event;
	ret->user = a->handle->user;
	ret->owner = a->handle;
	ret->event.type = type;
	ret->event.attempt = a->number;
	if (a->token && a->accepted) {
		zkl__attempt_grant(a, &ret->grant);
		ret->event.grant = &ret->grant;
	}
}

static void fill_error(struct zkl__delivery *ret, int code, int zk_code, const char *path, const char *text)
{
	ret->event.code = code;
	if (code < 0) {
		zkl__error(&ret->error, code, zk_code, 0, "%s %s", path, text ? text : zkl_strerror(code));
		ret->event.error = &ret->error;
	}
}

static void fill_loss(const struct zkl__attempt *a, struct zkl__delivery *ret)
{
	ret->event.code = zkl__error(&ret->error, ZKL_ELOST, 0, 0, "%s is lost, %s: %s", a->path, a->why_lost,
	                             a->handle->type->stop);
	ret->event.error = &ret->error;
}

static int64_t lease_ms(const struct zkl__attempt *a)
{
	int64_t left = zkl__hub_left_ns(a->hub, a->stop_ns) / MS;

	return a->contender.state == ZKL__HELD && left > 0 ? left : 0;
}

/* GRANTED, if it still is; also if it is no more, where an acquire() has returned it already. */
static bool deliver_grant(struct zkl__attempt *a, struct zkl__delivery *ret)
{
	a->events &= ~(unsigned)ZKL__TELL_OF_GRANT;
	if (!a->accepted && !zkl__attempt_accept(a))
		return false;
	a->told_granted = true;
	fill(a, ret, ZKL_EV_GRANTED);
	ret->event.lease_ms = lease_ms(a);
	return true;
}

static bool next_event(struct zkl__source *source, struct zkl__delivery *ret)
{
	struct zkl__attempt *a = zkl__attempt_of(source);

	while (has_event(source)) {
		if (a->events & ZKL__TELL_OF_WAITING) {
			a->events &= ~(unsigned)ZKL__TELL_OF_WAITING;
			fill(a, ret, ZKL_EV_WAITING);
			ret->event.ahead = a->ahead;
			ret->event.requeued = a->contender.requeued;
			return true;
		}
		if (a->events & ZKL__TELL_OF_GRANT) {
			if (deliver_grant(a, ret))
				return true;
		} else if (a->events & ZKL__TELL_OF_LOSS) {
			a->events &= ~(unsigned)ZKL__TELL_OF_LOSS;
			fill(a, ret, ZKL_EV_LOST);
			fill_loss(a, ret);
			return true;
		} else if (a->events & ZKL__TELL_OF_END) {
			a->events = 0;
			fill(a, ret, ZKL_EV_ENDED);
			fill_error(ret, a->code, a->zk_code, a->path, a->text);
			return true;
		} else {
			a->told_suspended = a->suspended;
			fill(a, ret, a->suspended ? ZKL_EV_SUSPENDED : ZKL_EV_RESUMED);
			ret->event.lease_ms = lease_ms(a);
			return true;
		}
	}
	return false;
}

static void hold_source(struct zkl__source *source)
{
	zkl__attempt_hold(zkl__attempt_of(source));
}

static void drop_source(struct zkl__source *source)
{
	zkl__attempt_drop(zkl__attempt_of(source));
}

static const struct zkl__source_type event_type = {
	.has_event = has_event, .next_event = next_event, .hold = hold_source, .drop = drop_source};

int zkl__handle_init(struct zkl__handle *h, const struct zkl__handle_type *type, struct zkl__hub *hub, const char *path,
                     const zkl_options *options, zkl_error *reterr)
{
	static const zkl_options defaults = ZKL_OPTIONS_INIT;
	int64_t                  most_stop;

	memset(h, 0, sizeof *h);
	if (!options)
		options = &defaults;
	if (options->size < sizeof *options)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "zkl_options.size is %zu, not %zu: use ZKL_OPTIONS_INIT",
		                  options->size, sizeof *options);
	if (options->flags & ~type->option_flags)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "zkl_options.flags has bits that are not possible here: %#x",
		                  options->flags & ~type->option_flags);
	if (options->data_len && !options->data)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "zkl_options.data is NULL, but data_len %zu",
		                  options->data_len);
	if (options->data_len > ZKL_DATA_MAX)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "zkl_options.data_len is %zu, at most %d is possible",
		                  options->data_len, ZKL_DATA_MAX);
	most_stop = most_stop_ns(hub) > 0 ? most_stop_ns(hub) / MS : 0;
	if (options->stop_ms < 0 || options->stop_ms > most_stop)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "zkl_options.stop_ms is %" PRId64 ", at most %" PRId64
		                  " fits the session's timeout, margin and heartbeat",
		                  options->stop_ms, most_stop);
	h->type = type;
	h->hub = hub;
	h->flags = options->flags;
	h->on_event = options->on_event;
	h->user = options->user;
	h->stop_ns = options->stop_ms * MS;
	h->contender_flags = type->contender_flags | (options->flags & ZKL_NO_REQUEUE ? ZKL__CONTENDER_NO_REQUEUE : 0);
	h->path = strdup(path);
	if (options->data_len) {
		h->data = malloc(options->data_len);
		h->data_len = options->data_len;
		if (h->data)
			memcpy(h->data, options->data, options->data_len);
	}
	if (!h->path || (h->data_len && !h->data)) {
		free(h->path);
		free(h->data);
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for a handle");
	}
	if (h->stop_ns > hub->stop_max_ns)
		hub->stop_max_ns = h->stop_ns;
	return 0;
}

void zkl__handle_close(struct zkl__handle *h)
{
	h->closed = true;
	if (h->attempt)
		zkl__handle_release(h);
	while (h->attempts)
		disown(h->attempts);
}

void zkl__handle_clear(struct zkl__handle *h)
{
	free(h->path);
	free(h->data);
}

int64_t zkl__until(const struct zkl__hub *hub, int64_t timeout_ms)
{
	int64_t now = zkl__hub_now(hub);

	if (timeout_ms == ZKL_FOREVER || timeout_ms > (ZKL__NEVER - now) / MS)
		return ZKL__NEVER;
	return now + timeout_ms * MS;
}

int zkl__handle_start(struct zkl__handle *h, int64_t timeout_ms, zkl_error *reterr)
{
	struct zkl__hub     *hub = h->hub;
	struct zkl__input    in = {.type = ZKL__IN_START};
	struct zkl__attempt *a;
	const char          *text;
	int                  r;

	if (timeout_ms < ZKL_FOREVER)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "timeout is %" PRId64 " ms: 0 is a try, ZKL_FOREVER no limit", timeout_ms);
	if (hub->closed || h->closed)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%s: the %s", h->path,
		                  hub->closed ? "session is closed" : "handle is being freed");
	if (h->attempt)
		return zkl__error(reterr, ZKL_ESTATE, 0, 0, "%s: %s", h->path,
		                  h->attempt->lost ? "a lost grant is not released yet, release it first"
		                                   : "an attempt is under way or a grant held, release it first");
	if (hub->refused)
		return zkl__error(reterr, hub->refused, 0, 0, "%s %s", h->path, refusal_text(hub->refused));
	text = misfit(hub, h->stop_ns);
	if (text)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "%s %s", h->path, text);
	r = zkl__hub_check_room(hub, watch_size(h, timeout_ms == 0), h->path, reterr);
	if (r < 0)
		return r;
	a = new_attempt(h, h->contender_flags | (timeout_ms == 0 ? ZKL__CONTENDER_TRY : 0));
	if (!a)
		return zkl__error(reterr, ZKL_ENOMEM, 0, 0, "no memory for an attempt");
	h->attempt = a;
	a->references = 2; /* the handle's and the hub's */
	a->give_up_ns = timeout_ms ? zkl__until(hub, timeout_ms) : zkl__hub_now(hub) + hub->op_ns;
	atomic_store(&h->held, 0);
	atomic_store(&h->lost, 0);
	zkl__hub_alarm(hub, a->give_up_ns);
	in.uuid = hub->port->uuid(hub->world);
	a->contender.uuid = in.uuid;
	/* Else a try would meet what is still left of our own. */
	a->deferred = timeout_ms == 0 && has_older(a);
	if (!a->deferred)
		step(a, &in);
	return 0;
}

int zkl__handle_release(struct zkl__handle *h)
{
	struct zkl__attempt *a = h->attempt;
	int                  result = 0;

	if (!a) {
		h->hub->counters.not_held++;
		return ZKL_ENOTHELD;
	}
	h->attempt = NULL; /* its reference is ours now */
	on_expire(&a->party, zkl__hub_now(h->hub), atomic_load(&h->hub->deadline_ns));
	if (a->lost) {
		h->hub->counters.not_held++;
		result = ZKL_ENOTHELD;
	} else if (!a->accepted && !a->over) {
		end(a, ZKL_ECANCELED, 0, "was released while it was waited for");
	}
	atomic_store(&h->held, 0);
	atomic_store(&h->lost, 0);
	if (a->pinned) {
		a->let_go = true;
		h->attempt = a;
		return result;
	}
	if (!a->done)
		leave(a);
	zkl__attempt_drop(a);
	return result;
}

void zkl__handle_pin(struct zkl__handle *h)
{
	h->attempt->pinned = true;
}

bool zkl__handle_unpin(struct zkl__handle *h)
{
	struct zkl__attempt *a = h->attempt;
	bool                 released = a->let_go;

	a->pinned = false;
	if (released)
		zkl__handle_release(h);
	return released;
}

int64_t zkl__handle_check(struct zkl__handle *h, uint64_t token)
{
	/* The deadline first: a later one is published only after the tokens it does not cover were taken back. The clock
	 * last: what happened before the loads cannot make it earlier. */
	int64_t  deadline = atomic_load(&h->hub->deadline_ns);
	uint64_t held = atomic_load(&h->held);
	int64_t  left;

	if (!token || held != token)
		return token && atomic_load(&h->lost) == token ? ZKL_ELOST : ZKL_ENOTHELD;
	left = (deadline - h->stop_ns - zkl__hub_now(h->hub)) / MS;
	if (left > 0)
		return left;
	/* A no stays a no. */
	atomic_store(&h->lost, token);
	if (atomic_compare_exchange_strong(&h->held, &held, 0)) {
		atomic_store(&h->hub->latched, true);
		h->hub->port->wake(h->hub->world);
	}
	return ZKL_ELOST;
}
