/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_CHILD_H
#define ZKLOCK_CHILD_H

/* child.h: the processes below zklock-run: the warden, and the command with all that it starts.
 *
 *     front (session, policy)  --fork-->  warden (warden.h)  --fork-->  command  -->  ...
 *
 * With a cgroup of the command's own (cgroup.h) there is a keeper (keeper.h) beside the warden, in a PID namespace (pidns.h) an
 * init beside the command.
 *
 * Open forks the warden and must come before the first thread, so that the warden is a plain process that holds nothing
 * of the session. Both are subreapers: whoever of the command's tree loses its parent becomes the warden's child and,
 * should the warden die, ours. The deadline is in memory that both map; the rest goes through a socket pair: orders
 * down, reports up. End of file on it says that the other side is dead.
 *
 * Callers block SIGCHLD (and wait for it with a signalfd), SIGPIPE and SIGTTOU. */

#include "cgroup.h"
#include "deadline.h"
#include "proctree.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zklock/zklock.h>

/* What both processes see. */
struct zkl__shared {
	struct zkl__deadline deadline;
	atomic_flag          termed;   /* whoever sets it sends TERM to the tree: the command hears it once */
	int64_t              grace_ns; /* between TERM and KILL; does not change while there is a tree */
	_Atomic uint64_t     unsent;   /* a bit for each signal that no order had room for; behind all orders */
};

struct zkl__child_options {
	int          argc; /* of the process: the warden overwrites it with a name of its own */
	char       **argv;
	char *const *command;      /* the end of argv */
	const char  *path;         /* of the lock (or the fence's file), in argv too; for the command's environment */
	const char  *name;         /* of the lock, as in nesting.h */
	const char  *held;         /* locks that we run under, as in nesting.h */
	int          terminal;     /* or -1 */
	sigset_t     mask;         /* the signal mask that the command gets */
	bool         ignores_chld; /* SIGCHLD was ignored when we were started, and is for the command */
	bool         pidns;        /* the command gets a PID namespace of its own */
};

enum zkl__order_type {
	ZKL__ORDER_SPAWN = 1, /* the command, with this grant */
	ZKL__ORDER_SIGNAL,    /* to the command's process group */
	ZKL__ORDER_TERM,      /* to the tree, and KILL after the grace */
	ZKL__ORDER_KILL,      /* to the tree, until nothing is left of it */
	ZKL__ORDER_LOOK,      /* at the deadline: it may have passed early */
};

struct zkl__order {
	enum zkl__order_type type;
	int                  signal;
	bool                 foreground; /* SPAWN: the command gets the terminal */
	zkl_grant            grant;
};

enum zkl__report_type {
	ZKL__REPORT_SPAWNED = 1, /* value: errno, why it is in no cgroup of its own; 0: it is in one */
	ZKL__REPORT_EXEC_FAILED, /* value: errno; the command is to blame */
	ZKL__REPORT_FORK_FAILED, /* value: errno; it did not come to that */
	ZKL__REPORT_STOPPED,     /* value: signal */
	ZKL__REPORT_CONTINUED,   /* since, by whomever */
	ZKL__REPORT_EXITED,      /* value: status as of wait() */
	ZKL__REPORT_GONE,        /* nothing is left of the tree */
	ZKL__REPORT_WARDEN_DIED, /* made by zkl__child_next itself */
};

struct zkl__report {
	enum zkl__report_type type;
	int                   value;
	bool                  alone;   /* EXITED: and nothing is left of the tree */
	pid_t                 command; /* also the id of its process group; 0: none yet */
};

struct zkl__child {
	pid_t               warden;  /* 0: reaped */
	pid_t               command; /* 0: none yet */
	int                 socket;  /* poll it for input, then zkl__child_next() until it is false; -1: closed */
	struct zkl__shared *shared;
	struct zkl__cgroup  cgroup;      /* of the command */
	pid_t               keeper;      /* 0: none, or reaped */
	int                 lifeline;    /* what the keeper holds on to; -1: none */
	bool                orphaned;    /* the warden died: the tree is ours */
	bool                childless;   /* as of the last reap */
	bool                gone;        /* it was reported that nothing is left of the tree */
	unsigned            dead_rounds; /* of kill in which the walk found nobody alive */
	struct zkl__process
		*elder; /* children that are not the command's: warden, keeper, and what who exec'd us had */
	size_t   elder_count;
};

/* Forks the warden. -1: errno. */
int zkl__child_open(struct zkl__child *child, const struct zkl__child_options *options);

/* The next report; false: none at present. */
bool zkl__child_next(struct zkl__child *child, struct zkl__report *ret);

/* Once nothing is left of a tree: another command may be started, under another deadline. Before that is set. */
void zkl__child_renew(struct zkl__child *child);

/* Orders go into a buffer: the warden may be stopped. */
void zkl__child_spawn(struct zkl__child *child, const zkl_grant *grant, bool foreground);
void zkl__child_signal(struct zkl__child *child, int sig);
void zkl__child_order(struct zkl__child *child, enum zkl__order_type type); /* one without arguments: TERM KILL LOOK */

/* The same, without the warden: what may take a while, as long as the tree is large. TERM (and CONT) to the whole tree,
 * unless the warden has. One round of KILL, to be called again and again until GONE is reported; returns how many
 * living processes of the tree were seen. */
void zkl__child_term(struct zkl__child *child);
int  zkl__child_kill(struct zkl__child *child);

/* One of them, as "PID (NAME) STATE". False: there is none. */
bool zkl__child_survivor(const struct zkl__child *child, char *ret, size_t size);

/* After SIGCHLD, and now and then. */
void zkl__child_reap(struct zkl__child *child);

/* Ends the warden; only when there is no command. */
void zkl__child_close(struct zkl__child *child);

/* The warden's side of the fork: becomes a child that executes the command. ret->exec: a descriptor that says end of
 * file once the command runs, or gives a report of what failed. -1: errno. */
struct zkl__command {
	pid_t pid;
	pid_t init; /* of its PID namespace; 0: it has none */
	int   exec;
};
int zkl__command_fork(const struct zkl__child_options *options, struct zkl__cgroup *cgroup, bool foreground,
                      struct zkl__command *ret);

#endif
