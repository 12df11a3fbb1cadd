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

static int wait_for_answer(struct zkl__query *q, int64_t patience_ns)
{
	struct zkl__hub *hub = zkl__session_hub(q->session);
	int64_t          until = zkl__hub_now(hub) + patience_ns;
	bool             in_time = true;

	if (hub->link)
		q->ask(q);
	while (!q->answered && in_time && !hub->refused && !hub->closed)
		in_time = zkl__session_wait(q->session, NULL, until);
	if (q->answered)
		return 1;
	return hub->closed ? ZKL_ESTATE : hub->refused;
}

int zkl__query_run(struct zkl__query *q, int64_t patience_ns)
{
	int r;

	q->party.type = &query_type;
	zkl__session_lock(q->session);
	zkl__session_hold(q->session); /* it may be closed meanwhile */
	r = zkl__hub_join(zkl__session_hub(q->session), &q->party);
	if (r >= 0) {
		r = wait_for_answer(q, patience_ns);
		zkl__hub_part(zkl__session_hub(q->session), &q->party);
	}
	zkl__session_unlock(q->session);
	zkl__session_drop(q->session);
	return r;
}
