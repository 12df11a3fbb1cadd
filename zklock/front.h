/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_FRONT_H
#define ZKLOCK_FRONT_H

/* front.h: the process that holds the session: it carries what happens to the policy (supervisor.h) and carries out
 * what the policy says.
 *
 *     fill in the upper part; zkl__child_open; zkl__front_open, zkl__front_run, zkl__front_close
 *
 * One loop and one thread, beside those of the library.
 *
 * The lease is looked at before every event, and now and then: what the lock (or the leadership, claim.h) answers
 * becomes the deadline that front and warden share. Its stop_ms is the grace: so it says no, and TERM goes out, one
 * grace before the lease ends, and KILL at its end. */

#include "child.h"
#include "claim.h"
#include "progress.h"
#include "run_options.h"
#include "supervisor.h"
#include "terminal.h"

struct zkl__front {
	/* From the caller. */
	const struct zkl__run_options *options;
	const char                    *servers, *servers_from; /* from: as messages name it */
	const char                    *auth, *auth_from;       /* auth NULL: none */
	int                            signals;                /* a signalfd: those to act on, and SIGCHLD */
	struct zkl__turn               turn;                   /* at the terminal */
	int64_t                        started_ns;             /* CLOCK_BOOTTIME */
	struct zkl__child              child;

	/* Ours. */
	struct zkl__supervisor supervisor;
	zkl_session           *session;
	struct zkl__claim      claim;
	zkl_grant              grant;
	bool                   granted, told_lost; /* `grant` */
	bool                   reached;            /* a server, at least once */
	bool                   look;               /* at the queue, as soon as we are not in a callback */
	bool                   tell;               /* what is found then, with -v */
	struct zkl__looking   *looking;            /* NULL: nothing is asked at present */
	int64_t                look_end_ns;        /* of that */
	bool                   shows;              /* how the wait goes, on a terminal */
	struct zkl__progress   progress;
	uint32_t               requeued; /* places lost */
	bool                   told_stuck, told_frozen;
	bool                   told; /* by the terminal, in front of which the command was */
	int                    alarm;
	int64_t                granted_ns, grace_end_ns, kill_begin_ns, kill_pause_ns, pause_end_ns;
	int64_t                since_ns;          /* we want what the command runs under */
	int64_t                queued_ns;         /* when we had a place in the queue; 0: never */
	int64_t                show_ns;           /* what is shown has to be looked at again */
	int64_t                look_ns;           /* at the lease, at the latest */
	char                   why[ZKL__WHY_MAX]; /* the line for an end that is not the command's own; may be empty */
};

/* Makes session and lock; waits for nothing. 0, or the status to exit with, and `why` says the reason. */
int zkl__front_open(struct zkl__front *front);

/* From the first attempt until the policy says exit: front->supervisor.exit. */
void zkl__front_run(struct zkl__front *front);

/* Gives back the lock, or the place in the queue, and the terminal, and ends the warden. Also after open has failed. */
void zkl__front_close(struct zkl__front *front);

#endif
