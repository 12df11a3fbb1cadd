/* SPDX-License-Identifier: Apache-2.0 */
/* A contender: worker lock|lead|hold SERVERS SESSION_MS PATH FOLDER RESOURCE.NAME SEED
 *
 * `lock` and `lead` contend by the library, again and again, until TERM; `hold` is the command of zklock-run, which holds
 * for it. */
#include "act.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zklock/election.h>
#include <zklock/lock.h>

static volatile bool stop;
static int64_t       session_ms;
static zkl_session  *session;
static zkl_lock     *lock;
static zkl_election *election;

static void on_signal(int number)
{
	(void)number;
	stop = true;
	zkl_session_cancel(session);
}

static _Noreturn void fail(const char *doing, const zkl_error *error)
{
	note("fail %" PRId64 " %s: %s: %s", now_ns(), doing, zkl_error_name(error->code), error->message);
	_exit(1);
}

static void begin(const zkl_grant *grant)
{
	note("hold %" PRId64 " %" PRIu64 " %" PRIu64, now_ns(), grant->token, grant->epoch);
}

static void end(uint64_t token, bool lost)
{
	note("%s %" PRId64 " %" PRIu64, lost ? "lost" : "free", now_ns(), token);
}

/* ---- the lock ---- */

static int64_t may_in_lock(uint64_t token)
{
	return zkl_lock_check(lock, token);
}

/* Most wait for as long as it takes, some give up while they wait, some only try. */
static int64_t any_patience(void)
{
	int64_t kind = any_below(10);
	return kind < 6 ? ZKL_FOREVER : kind < 9 ? 1 + any_below(2000) : 0;
}

/* Says so in the history where the limit did not hold: it is a lot for what may be a busy machine. */
static void check_bounded(int64_t began_ns, int64_t limit_ms, const char *what)
{
	int64_t late_ms = (now_ns() - began_ns) / 1000000 - limit_ms;
	note("limit %" PRId64 " %" PRId64 " %" PRId64 " %s", began_ns, now_ns(), late_ms, what);
}

static void release(uint64_t token, bool lost)
{
	zkl_error error;
	int64_t   limit_ms = any_below(2) * session_ms, began_ns = now_ns();
	int       r = zkl_lock_release(lock, limit_ms, &error);
	check_bounded(began_ns, limit_ms, "release");
	if (r != ZKL_OK && r != ZKL_ETIMEDOUT && r != ZKL_ENOTHELD)
		fail("release", &error);
	end(token, lost || r == ZKL_ENOTHELD);
}

static void turn(void)
{
	zkl_grant grant;
	zkl_error error;
	int64_t   patience_ms = any_patience(), began_ns = now_ns();
	note("wait %" PRId64, began_ns);
	int r = zkl_lock_acquire(lock, patience_ms, &grant, &error);
	if (patience_ms > 0)
		check_bounded(began_ns, patience_ms, "acquire");
	if (r == ZKL_OK) {
		begin(&grant);
		release(grant.token, !acts_work(grant.token, 50, 300, may_in_lock, &stop));
		return;
	}
	if (r != ZKL_ETIMEDOUT && r != ZKL_EBUSY && r != ZKL_ENOTCONN && !(r == ZKL_ECANCELED && stop))
		fail("acquire", &error);
	note("idle %" PRId64 " %s", now_ns(), zkl_error_name(r));
	pause_ms(any_below(300));
}

static void take_turns(const char *path)
{
	zkl_error error;
	if (zkl_lock_new(session, path, NULL, &lock, &error) != ZKL_OK)
		fail("lock", &error);
	while (!stop)
		turn();
	zkl_lock_free(lock);
}

/* ---- the election ---- */

static int64_t may_in_term(uint64_t token)
{
	return zkl_election_check(election, token);
}

static int term(const zkl_grant *grant, void *user)
{
	(void)user;
	begin(grant);
	bool lost = !acts_work(grant->token, 500, 3000, may_in_term, &stop);
	/* The next one may lead from here on, unless it does so already. */
	end(grant->token, lost);
	note("wait %" PRId64, now_ns());
	return stop;
}

static void lead(const char *path)
{
	zkl_error error;
	if (zkl_election_new(session, path, NULL, &election, &error) != ZKL_OK)
		fail("election", &error);
	note("wait %" PRId64, now_ns());
	int r = zkl_election_run(election, term, NULL, &error);
	if (r < 0 && !(r == ZKL_ECANCELED && stop))
		fail("run", &error);
	zkl_election_free(election);
}

/* ---- the command of zklock-run ---- */

/* Nobody to ask: who holds for it ends it in time. */
static int64_t may_as_command(uint64_t token)
{
	(void)token;
	return INT64_MAX;
}

static int hold(void)
{
	uint64_t token = strtoull(getenv("ZKLOCK_TOKEN"), NULL, 10);
	note("hold %" PRId64 " %" PRIu64 " %s", now_ns(), token, getenv("ZKLOCK_EPOCH"));
	acts_work(token, 50, 300, may_as_command, &stop);
	end(token, false);
	return 0;
}

int main(int argc, char **argv)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_error           error;
	if (argc != 8)
		return 64;
	session_ms = atoll(argv[3]);
	acts_open(argv[5], argv[6], (unsigned)atoi(argv[7]), session_ms);
	if (strcmp(argv[1], "hold") == 0)
		return hold();
	options.servers = argv[2];
	options.timeout_ms = session_ms;
	options.name = argv[6];
	if (zkl_session_open(&options, &session, &error) != ZKL_OK)
		fail("open", &error);
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
	if (strcmp(argv[1], "lock") == 0)
		take_turns(argv[4]);
	else
		lead(argv[4]);
	zkl_session_close(session, session_ms);
	return 0;
}
