/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agenda.h"
#include "client.h"
#include "faults.h"
#include "invariants.h"
#include "mail.h"
#include "observers.h"
#include "owner.h"
#include "report.h"

enum { MAILBOX = 512 };

struct process {
	struct zkl__hub        hub; /* first */
	struct process_options options;
	struct rng             rng;
	uint32_t               life;
	bool                   alive, dead, client_open, cancelled;
	bool                   closing;
	int64_t                close_by, restart_after;
	int64_t                paused_until, stalled_until[THREADS], hindered;
	struct mail            mailbox[MAILBOX];
	unsigned               mail_count, taken; /* taken: of these its protocol thread is dealing with so many */
	bool                   awake, woken;      /* runs; will run */
	int64_t                timer_at;
	int32_t                view;
	struct zkl__source    *first, *last; /* with events */
	bool                   delivering;   /* will deliver */
};

static struct process processes[PROCESSES];

static void run_protocol(uint32_t process, uint32_t life);

/* ---- clock and threads ------------------------------------------------------------------------------------------- */

int64_t process_clock(unsigned process)
{
	const struct process_options *o = &processes[process].options;

	return o->offset + agenda_now() + agenda_now() * o->rate_ppm / 1000000;
}

int64_t process_true_time(unsigned process, int64_t clock)
{
	const struct process_options *o = &processes[process].options;
	int64_t                       at;

	if (clock - o->offset > INT64_MAX / 1000000)
		return INT64_MAX / 2;
	at = (clock - o->offset) * 1000000 / (1000000 + o->rate_ppm);
	at = at > 2 ? at - 2 : 0;
	while (o->offset + at + at * o->rate_ppm / 1000000 < clock)
		at++;
	return at;
}

int64_t process_thread_at(unsigned process, enum thread thread)
{
	const struct process *p = &processes[process];
	int64_t               at = agenda_now();

	at = p->paused_until > at ? p->paused_until : at;
	return p->stalled_until[thread] > at ? p->stalled_until[thread] : at;
}

int64_t process_io_at(unsigned process)
{
	return process_thread_at(process, THREAD_IO);
}

bool process_amid_mail(unsigned process)
{
	return processes[process].taken > 0;
}

int64_t process_hindered(unsigned process)
{
	return processes[process].hindered;
}

static int64_t soon(struct process *p)
{
	return agenda_now() + rng_skewed(&p->rng, p->options.slowness);
}

static void wake_protocol(struct process *p)
{
	if (p->woken || p->dead)
		return;
	p->woken = true;
	agenda_put(soon(p), run_protocol, (uint32_t)(p - processes), p->life);
}

static void hinder(struct process *p, int64_t *until, int64_t length)
{
	int64_t end = agenda_now() + length;

	*until = end > *until ? end : *until;
	p->hindered = end > p->hindered ? end : p->hindered;
}

void process_pause(unsigned process, int64_t length)
{
	struct process *p = &processes[process];

	hinder(p, &p->paused_until, length);
}

void process_stall(unsigned process, enum thread thread, int64_t length)
{
	struct process *p = &processes[process];

	hinder(p, &p->stalled_until[thread], length);
}

int64_t process_latency(unsigned process)
{
	return processes[process].options.latency;
}

int64_t process_spread(unsigned process)
{
	return processes[process].options.spread;
}

unsigned process_first_server(unsigned process)
{
	return processes[process].options.first_server;
}

/* ---- the hub's world --------------------------------------------------------------------------------------------- */

static int64_t world_now(void *world)
{
	return process_clock((unsigned)((struct process *)world - processes));
}

static int64_t world_wall(void *world)
{
	(void)world;
	return INT64_C(1767225600000);
}

static struct zkl__uuid world_uuid(void *world)
{
	struct process *p = world;
	uint64_t        high = rng_next(&p->rng), low = rng_next(&p->rng);

	return (struct zkl__uuid){high, low & ~UINT64_C(0xffff)};
}

static void world_send(void *world, uint64_t party, const struct zkl__request *request)
{
	struct process *p = world;
	unsigned        process = (unsigned)(p - processes);
	struct request *r;
	int32_t         index;

	if (p->dead)
		return;
	invariants_request(process, party, request, p->client_open);
	if (!p->client_open)
		return;
	r = zk_new_request(&index);
	mail_request(r, party, request);
	r->process = (int16_t)process;
	r->attempt = invariants_attempt(process, party);
	r->sent_ns = process_clock(process);
	TRACE("client %u: %s %s", process, zkl__op_name(request->op), request->name ? request->name : "");
	client_send(process, index);
}

static bool world_asked(void *world)
{
	const struct process *p = world;

	return p->client_open && client_asked((unsigned)(p - processes));
}

static void world_wake(void *world)
{
	wake_protocol(world);
}

static void world_rearm(void *world)
{
	struct process *p = world;

	if (!p->awake)
		wake_protocol(p);
}

static void world_absolute(void *world, const char *directory, const char *name, char *ret, size_t size)
{
	(void)world;
	snprintf(ret, size, "%s/%s", directory, name);
}

static void deliver(uint32_t process, uint32_t life);

static void world_ready(void *world, struct zkl__source *source)
{
	struct process *p = world;

	if (p->dead)
		return;
	owner_ready(source);
	if (source->queued || !source->type->has_event(source))
		return;
	source->type->hold(source);
	source->queued = true;
	source->next_queued = NULL;
	*(p->last ? &p->last->next_queued : &p->first) = source;
	p->last = source;
	if (!p->delivering) {
		p->delivering = true;
		agenda_put(soon(p), deliver, (uint32_t)(p - processes), p->life);
	}
}

/* An operator is asked to delete it. */
static void check_lasting(const char *path)
{
	for (int i = 0; i < TREE_DIRECTORIES; i++) {
		int16_t node = tree_find((int16_t)i, strrchr(path, '/') + 1);

		if (node != NOBODY && tree_node(node)->session != NOBODY)
			report_failure(LASTING, "%s is said to be nobody's", path);
	}
}

static void world_log(void *world, int level, const char *id, const char *text, const char *subject)
{
	(void)level;
	if (strcmp(id, "lasting") == 0)
		check_lasting(subject);
	if (!((struct process *)world)->dead)
		TRACE("process %d: log %s: %s (%s)", (int)((struct process *)world - processes), id, text,
		      subject ? subject : "");
}

static const struct zkl__port port = {.now_ns = world_now,
                                      .wall_ms = world_wall,
                                      .uuid = world_uuid,
                                      .send = world_send,
                                      .asked = world_asked,
                                      .wake = world_wake,
                                      .rearm = world_rearm,
                                      .absolute = world_absolute,
                                      .ready = world_ready,
                                      .log = world_log};

/* ---- events ------------------------------------------------------------------------------------------------------ */

static struct zkl__source *pop(struct process *p)
{
	struct zkl__source *source = p->first;

	p->first = source->next_queued;
	if (!p->first)
		p->last = NULL;
	source->queued = false;
	return source;
}

static void deliver_all(struct process *p)
{
	struct zkl__delivery delivery;

	while (p->first) {
		struct zkl__source *source = pop(p);

		while (!p->dead && source->type->next_event(source, &delivery))
			delivery.on_event(&delivery.event, delivery.user);
		source->type->drop(source);
	}
}

static void deliver(uint32_t process, uint32_t life)
{
	struct process *p = &processes[process];

	if (p->life != life)
		return;
	if (process_thread_at(process, THREAD_OWNER) > agenda_now()) {
		agenda_put(process_thread_at(process, THREAD_OWNER), deliver, process, life);
		return;
	}
	p->delivering = false;
	deliver_all(p);
}

/* ---- mail -------------------------------------------------------------------------------------------------------- */

static struct mail *post(unsigned process, enum mail_type type)
{
	struct process *p = &processes[process];
	struct mail    *mail = &p->mailbox[p->mail_count++];

	if (p->mail_count == MAILBOX) {
		fprintf(stderr, "sim: a mailbox is full\n");
		abort();
	}
	*mail = (struct mail){.type = type};
	wake_protocol(p);
	return mail;
}

void process_mail(unsigned process, enum mail_type type)
{
	post(process, type);
}

void process_mail_connected(unsigned process, int64_t session_id, int64_t timeout)
{
	struct mail *mail = post(process, MAIL_CONNECTED);

	mail->session_id = session_id;
	mail->timeout = timeout;
}

void process_mail_reply(unsigned process, int32_t request, enum zkl__result result, int zk_code, int32_t view)
{
	struct mail *mail = post(process, MAIL_REPLY);

	mail->request = request;
	mail->result = result;
	mail->zk_code = zk_code;
	mail->view = view;
	mail->replied_ns = process_clock(process);
}

void process_mail_watch(unsigned process, uint64_t party, bool gone, bool directory, int16_t node, int32_t view)
{
	struct mail *mail = post(process, MAIL_WATCH);

	mail->party = party;
	mail->gone = gone;
	mail->directory = directory;
	mail->node = node;
	mail->view = view;
}

static const char *result_name(enum zkl__result result)
{
	static const char *const names[] = {"done", "no node", "exists", "not empty", "denied", "unknown", "refused"};

	return names[result];
}

static int64_t ago_ms(const struct process *p, int64_t at)
{
	return at ? (process_clock((unsigned)(p - processes)) - at) / 1000000 : -1;
}

static void trace_lease(const struct process *p, const struct zkl__lease *before)
{
	const struct zkl__lease *l = &p->hub.lease;

	if (report_tracing && l->newest_ns != before->newest_ns)
		TRACE("process %d: lease for %" PRId64 " ms more; newest proof sent %" PRId64
		      " ms ago, of the pair %" PRId64 ", without a gap %" PRId64 "; gap's end %" PRId64 " (-1: none)",
		      (int)(p - processes), -ago_ms(p, atomic_load(&p->hub.deadline_ns)), ago_ms(p, l->newest_ns),
		      ago_ms(p, l->pair_ns), ago_ms(p, l->single_ns), ago_ms(p, l->flow_ns));
}

static void hand_out_reply(struct process *p, const struct mail *mail)
{
	struct zkl__lease     before = p->hub.lease;
	const struct request *r = zk_request(mail->request);
	struct zkl__reply     reply;

	mail_reply(&reply, mail);
	TRACE("process %d: %s %s: %s (%d), view %d", (int)(p - processes), zkl__op_name(r->op), reply.name,
	      result_name(reply.result), reply.zk_code, mail->view);
	p->view = mail->result == ZKL__UNKNOWN ? tree_end() : mail->view;
	if (mail->result != ZKL__DONE)
		invariants_heard((unsigned)(p - processes), (uint32_t)r->party);
	zkl__hub_reply(&p->hub, r->party, &reply);
	trace_lease(p, &before);
	if (p->hub.lease.newest_ns != before.newest_ns)
		invariants_proven((unsigned)(p - processes), reply.replied_ns - reply.sent_ns);
	if (r->op == ZKL__PROVE && mail->result == ZKL__DONE)
		faults_on_proof((unsigned)(p - processes));
}

static void hand_out(struct process *p, const struct mail *mail)
{
	p->view = tree_end();
	switch (mail->type) {
	case MAIL_CONNECTED:
		TRACE("process %d: link up", (int)(p - processes));
		invariants_linked((unsigned)(p - processes));
		zkl__hub_link_up(&p->hub, mail->session_id, mail->timeout);
		break;
	case MAIL_DISCONNECTED:
		TRACE("process %d: link down", (int)(p - processes));
		zkl__hub_link_down(&p->hub);
		break;
	case MAIL_REPLY:
		hand_out_reply(p, mail);
		break;
	case MAIL_WATCH:
		TRACE("process %d: %s %s, view %d", (int)(p - processes), mail->gone ? "gone" : "changed",
		      mail_watched_name(mail), mail->view);
		p->view = mail->view;
		invariants_heard((unsigned)(p - processes), (uint32_t)mail->party);
		zkl__hub_watch(&p->hub, (uint32_t)mail->party, mail->gone, mail_watched_directory(mail),
		               mail_watched_name(mail));
		break;
	case MAIL_EXPIRED:
		break;
	}
	p->view = tree_end();
}

static void remove_mail(struct process *p, unsigned count)
{
	p->mail_count -= count;
	memmove(p->mailbox, p->mailbox + count, p->mail_count * sizeof *p->mailbox);
}

/* Of a client whose session is over: whatever it says means nothing for the next one. */
static void discard(struct process *p, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if (p->mailbox[i].type == MAIL_REPLY) {
			p->mailbox[i].result = ZKL__UNKNOWN;
			hand_out(p, &p->mailbox[i]);
		}
	remove_mail(p, to);
}

static void end_client(struct process *p)
{
	unsigned process = (unsigned)(p - processes);

	p->client_open = false;
	TRACE("process %u: the session ends", process);
	zkl__hub_expired(&p->hub);
	client_close(process);
	discard(p, 0, p->mail_count);
}

static void begin_client(struct process *p)
{
	p->client_open = true;
	zkl__hub_connecting(&p->hub);
	client_open((unsigned)(p - processes), p->options.timeout);
}

/* Between two mails: it does not run all the time. */
static bool is_held_up(struct process *p)
{
	unsigned process = (unsigned)(p - processes);

	return faults_between_mails(process) || process_thread_at(process, THREAD_PROTOCOL) > agenda_now() ||
	       rng_chance(&p->rng, 8);
}

/* What has come by now; what comes meanwhile is for another time. False: the thread is held up between two of it. */
static bool empty_mailbox(struct process *p)
{
	unsigned i = 0;

	if (!p->taken)
		p->taken = p->mail_count;
	while (i < p->taken) {
		if (p->mailbox[i].type == MAIL_EXPIRED) {
			discard(p, i + 1, p->taken);
			p->taken = 0;
			end_client(p);
			begin_client(p);
			return true;
		}
		hand_out(p, &p->mailbox[i++]);
		if (i < p->taken && is_held_up(p))
			break;
	}
	remove_mail(p, i);
	p->taken -= i;
	return !p->taken;
}

/* ---- protocol thread --------------------------------------------------------------------------------------------- */

static void take_apart(struct process *p);

static void timer(uint32_t process, uint32_t life)
{
	struct process *p = &processes[process];

	if (p->life != life || p->timer_at > agenda_now())
		return;
	p->timer_at = INT64_MAX;
	if (!p->woken) {
		p->woken = true;
		run_protocol(process, life);
	}
}

static void set_timer(struct process *p)
{
	int64_t next = zkl__hub_next_ns(&p->hub), at;

	if (next == ZKL__NEVER)
		return;
	at = process_true_time((unsigned)(p - processes), next);
	if (p->timer_at <= at && p->timer_at >= agenda_now())
		return;
	p->timer_at = at > agenda_now() ? at : agenda_now() + 1;
	agenda_put(p->timer_at, timer, (uint32_t)(p - processes), p->life);
}

static void restart(uint32_t process, uint32_t unused)
{
	(void)unused;
	process_start(process);
}

static void finish_closing(struct process *p)
{
	unsigned process = (unsigned)(p - processes);

	invariants_session_closed(process);
	end_client(p);
	deliver_all(p);
	take_apart(p);
	if (p->restart_after != INT64_MAX)
		agenda_put(agenda_now() + p->restart_after, restart, process, 0);
}

static void run_protocol(uint32_t process, uint32_t life)
{
	struct process *p = &processes[process];
	bool            through;

	if (p->life != life)
		return;
	if (process_thread_at(process, THREAD_PROTOCOL) > agenda_now()) {
		agenda_put(process_thread_at(process, THREAD_PROTOCOL), run_protocol, process, life);
		return;
	}
	p->woken = false;
	p->awake = true;
	invariants_before(process);
	through = empty_mailbox(p);
	if (through) {
		if (p->cancelled && p->hub.refused != ZKL_ECANCELED)
			zkl__hub_refuse(&p->hub, ZKL_ECANCELED);
		zkl__hub_timer(&p->hub);
	}
	invariants_after(process);
	p->awake = false;
	if (p->mail_count)
		wake_protocol(p);
	if (!through)
		return;
	if (p->closing && (!p->hub.first || process_clock(process) >= p->close_by)) {
		finish_closing(p);
		return;
	}
	set_timer(p);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void take_apart(struct process *p)
{
	unsigned process = (unsigned)(p - processes);

	p->dead = true;
	invariants_process_gone(process);
	owner_end_terms(process);
	zkl__hub_close(&p->hub);
	zkl__hub_expired(&p->hub);
	deliver_all(p);
	owner_forget(process);
	observers_forget(process);
	zkl__hub_clear(&p->hub);
	p->alive = false;
	p->life++;
}

void process_kill(unsigned process, int64_t pause)
{
	struct process *p = &processes[process];

	if (!p->alive)
		return;
	TRACE("process %u: is killed", process);
	client_kill(process);
	p->client_open = false;
	take_apart(p);
	if (pause != INT64_MAX)
		agenda_put(agenda_now() + pause, restart, process, 0);
}

static void close_timeout(uint32_t process, uint32_t life)
{
	if (processes[process].life == life)
		wake_protocol(&processes[process]);
}

void process_close(unsigned process, int64_t patience, int64_t pause)
{
	struct process *p = &processes[process];

	if (!p->alive || p->closing)
		return;
	TRACE("process %u: closes its session", process);
	p->closing = true;
	p->close_by = process_clock(process) + patience;
	p->restart_after = pause;
	zkl__hub_close(&p->hub);
	wake_protocol(p);
	agenda_put(process_true_time(process, p->close_by) + 1, close_timeout, process, p->life);
}

void process_cancel(unsigned process)
{
	struct process *p = &processes[process];

	if (!p->alive)
		return;
	TRACE("process %u: its session is cancelled", process);
	p->cancelled = true;
	wake_protocol(p);
}

void process_start(unsigned process)
{
	struct process *p = &processes[process];
	uint32_t        life = p->life + 1;

	zkl__hub_init(&p->hub, &port, p);
	p->hub.lease_options = p->options.lease;
	p->hub.timeout_asked_ns = p->options.timeout;
	p->hub.op_ns = p->options.timeout / 2;
	zkl__lease_begin(&p->hub.lease, &p->hub.lease_options);
	snprintf(p->hub.identity.host, sizeof p->hub.identity.host, "host%u", process);
	snprintf(p->hub.identity.program, sizeof p->hub.identity.program, "sim");
	p->life = life;
	p->alive = true;
	p->dead = p->cancelled = p->closing = false;
	p->mail_count = p->taken = 0;
	p->awake = p->woken = p->delivering = false;
	p->timer_at = INT64_MAX;
	p->view = tree_end();
	p->first = p->last = NULL;
	begin_client(p);
	owner_start(process);
	observers_start(process);
}

void process_init(unsigned process, const struct process_options *options, uint64_t seed)
{
	struct process *p = &processes[process];

	p->options = *options;
	p->rng = rng_make(seed, 0x100 + process);
	p->paused_until = p->hindered = 0;
	memset(p->stalled_until, 0, sizeof p->stalled_until);
	p->alive = false;
}

bool process_alive(unsigned process)
{
	return processes[process].alive;
}

bool process_dead(unsigned process)
{
	return processes[process].dead;
}

struct zkl__hub *process_hub(unsigned process)
{
	return &processes[process].hub;
}

unsigned process_of(const struct zkl__hub *hub)
{
	return (unsigned)((const struct process *)hub - processes);
}

int32_t process_view(unsigned process)
{
	return processes[process].view;
}

bool process_quiet(unsigned process)
{
	const struct process *p = &processes[process];

	return !p->alive || (!p->mail_count && !p->first && !client_outstanding(process));
}
