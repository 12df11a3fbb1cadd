/* SPDX-License-Identifier: Apache-2.0 */
#include "session_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "auth.h"
#include "error.h"
#include "identities.h"
#include "lease.h"

#define MS INT64_C(1000000)

static int check_lease(const zkl_session_options *o, int64_t timeout, zkl_error *reterr)
{
	struct zkl__lease_options lease = {o->margin_ms * MS, o->heartbeat_ms * MS, o->tick_ms * MS};
	struct zkl__lease_limits  limits;

	zkl__lease_limits(&lease, timeout * MS, &limits);
	if (limits.stop_max >= 0)
		return 0;
	if (!limits.margin_max)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "heartbeat_ms is %" PRId64 ", with T = %" PRId64 " ms possible are %" PRId64
		                  " to %" PRId64 ": T/24 to 5T/12",
		                  o->heartbeat_ms, timeout, (limits.beat_min + MS - 1) / MS, limits.beat_max / MS);
	return zkl__error(reterr, ZKL_EINVAL, 0, 0,
	                  "margin_ms is %" PRId64 "%s, with this heartbeat and tick it must be at least %" PRId64
	                  " and at most %" PRId64,
	                  o->margin_ms, o->margin_ms ? "" : " (3T/8)", (limits.margin_min + MS - 1) / MS,
	                  limits.margin_max / MS);
}

static int check_times(const zkl_session_options *o, zkl_error *reterr)
{
	int64_t timeout = o->timeout_ms ? o->timeout_ms : ZKL__DEFAULT_TIMEOUT_MS;

	if (timeout < ZKL__LEAST_TIMEOUT_MS || timeout > ZKL__MOST_TIMEOUT_MS)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "timeout_ms is %" PRId64 ", possible are %d to %d",
		                  o->timeout_ms, ZKL__LEAST_TIMEOUT_MS, ZKL__MOST_TIMEOUT_MS);
	if (o->op_ms < 0 || o->margin_ms < 0 || o->heartbeat_ms < 0 || o->tick_ms < 0 ||
	    o->op_ms > ZKL__MOST_TIMEOUT_MS || o->margin_ms > timeout || o->heartbeat_ms > timeout ||
	    o->tick_ms > ZKL__MOST_TIMEOUT_MS)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "op_ms, margin_ms, heartbeat_ms and tick_ms must be 0 (the default) or positive, and "
		                  "margin and heartbeat below timeout_ms");
	return check_lease(o, timeout, reterr);
}

int zkl__session_options_check(const zkl_session_options *o, struct zkl__servers *ret, zkl_error *reterr)
{
	const char *wrong;
	int         r;

	if (!o)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "the options are NULL; servers must be named");
	if (o->size < sizeof *o)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0,
		                  "zkl_session_options.size is %zu, not %zu: use ZKL_SESSION_OPTIONS_INIT", o->size,
		                  sizeof *o);
	if (o->flags & ~ZKL_MANUAL)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "zkl_session_options.flags has unknown bits: %#x",
		                  o->flags);
	wrong = o->auth ? zkl__auth_all_wrong(o->auth) : NULL;
	if (wrong)
		return zkl__error(reterr, ZKL_EINVAL, 0, 0, "auth: %s; of several, each a line", wrong);
	if (o->others && (!o->auth || !zkl__identities_are_valid(o->others)))
		return zkl__error(
			reterr, ZKL_EINVAL, 0, 0,
			"others must be at most %d identities of the form scheme:id, separated by commas, and needs "
			"auth",
			ZKL__IDENTITIES_MAX);
	r = check_times(o, reterr);
	return r < 0 ? r : zkl__servers_parse(ret, o->servers, reterr);
}

void zkl__session_identify(struct zkl__identity *who, const char *name)
{
	char host[sizeof who->host] = "?";

	if (gethostname(host, sizeof host - 1) < 0)
		snprintf(host, sizeof host, "?");
	if (!name || !*name)
		name = program_invocation_short_name;
	zkl__printable(who->host, sizeof who->host, host, strlen(host));
	zkl__printable(who->program, sizeof who->program, name, strlen(name));
	who->pid = getpid();
}
