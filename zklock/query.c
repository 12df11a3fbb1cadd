/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

void zkl__query_send(struct zkl__query *q, struct zkl__request *request)
{
	request->id = ++q->last_id;
	zkl__hub_send(zkl__session_hub(q->session), &q->party, request);
}

void zkl__query_answer(struct zkl__query *q, int result, const char *text)
{
	q->answered = true;
	q->result = result;
	q->text = text;
}

static void on_reply(struct zkl__party *party, const struct zkl__reply *reply)
{
	struct zkl__query *q = (struct zkl__query *)party;

	if (reply->id != q->last_id || q->answered)
		return;
	q->zk_code = reply->zk_code;
	q->reply(q, reply);
	zkl__session_changed(q->session);
}

static void on_happened(struct zkl__party *party, enum zkl__happening what)
{
	struct zkl__query *q = (struct zkl__query *)party;

	if (what == ZKL__HEAR_LINK_UP && !q->answered)
		q->ask(q);
	zkl__session_changed(q->session);
}

static const struct zkl__party_type query_type = {.reply = on_reply, .happened = on_happened};

int zkl__query_begin(struct zkl__query *q)
{
	struct zkl__hub *hub = zkl__session_hub(q->session);
	int              r;

	q->party.type = &query_type;
	zkl__session_lock(q->session);
	r = zkl__hub_join(hub, &q->party);
	if (r >= 0)
		zkl__session_hold(q->session); /* it may be closed meanwhile */
	if (r >= 0 && hub->link)
		q->ask(q);
	zkl__session_unlock(q->session);
	return r < 0 ? r : 0;
}

static bool is_over(const struct zkl__query *q)
{
	const struct zkl__hub *hub = zkl__session_hub(q->session);

	return q->answered || hub->refused || hub->closed;
}

bool zkl__query_is_over(struct zkl__query *q)
{
	bool over;

	zkl__session_lock(q->session);
	over = is_over(q);
	zkl__session_unlock(q->session);
	return over;
}

int zkl__query_end(struct zkl__query *q)
{
	struct zkl__hub *hub = zkl__session_hub(q->session);
	int              r = 1;

	zkl__session_lock(q->session);
	if (!q->answered)
		r = hub->closed ? ZKL_ESTATE : hub->refused;
	zkl__hub_part(hub, &q->party);
	zkl__session_unlock(q->session);
	zkl__session_drop(q->session);
	return r;
}

int zkl__query_run(struct zkl__query *q, int64_t patience_ns)
{
	int     r = zkl__query_begin(q);
	int64_t until;

	if (r < 0)
		return r;
	zkl__session_lock(q->session);
	until = zkl__hub_now(zkl__session_hub(q->session)) + patience_ns;
	while (!is_over(q) && zkl__session_wait(q->session, NULL, until)) {
	}
	zkl__session_unlock(q->session);
	return zkl__query_end(q);
}
