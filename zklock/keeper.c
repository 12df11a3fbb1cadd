/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"
#include "alarm.h"
#include "title.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NAME "cgroup-keeper"

/* Nobody is a child of this one: whoever is in the cgroup. */
#define NOBODY (-1)

static void empty(const struct zkl__cgroup *cgroup)
{
	const struct zkl__proctree_root root = {.pid = NOBODY, .cgroup = cgroup};
	const int                       events = zkl__cgroup_watch(cgroup);

	/* What happens between the look and the wait is told by the next one. */
	for (int64_t pause_ns = ZKL__KILL_PAUSE_NS; zkl__cgroup_is_populated(cgroup);
	     pause_ns = zkl__kill_pause_next(pause_ns)) {
		zkl__proctree_kill(&root);
		zkl__cgroup_wait(events, (int)(pause_ns / ZKL__NS_PER_MS));
	}
}

/* Nothing but KILL and STOP reaches us, nor a signal to the front's group. */
static _Noreturn void run(struct zkl__child_options options, const struct zkl__cgroup *cgroup, int lifeline)
{
	sigset_t all;
	char     byte;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGCONT); /* stopped, we would not see it die */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	options.path = NULL;
	zkl__title_set(&options, NAME);
	while (read(lifeline, &byte, 1) < 0 && errno == EINTR)
		continue;
	empty(cgroup);
	zkl__cgroup_remove(cgroup);
	_exit(0);
}

pid_t zkl__keeper_fork(const struct zkl__child_options *options, const struct zkl__child *child, int lifeline)
{
	pid_t pid = fork();

	if (pid == 0) {
		/* By whose ends front and warden know of each other. */
		close(child->lifeline);
		close(child->socket);
		run(*options, &child->cgroup, lifeline);
	}
	return pid;
}
