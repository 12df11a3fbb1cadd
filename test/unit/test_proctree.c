/* SPDX-License-Identifier: Apache-2.0 */
/* Signals to a tree, and to nobody else: also where a process ends, and its number is given to another one, between the look and
 * the signal. That takes the right to choose the number of a new process: so all of it happens in a PID namespace. */
#include "../../zklock/alarm.h"
#include "../../zklock/pidns.h"
#include "check.h"

#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TICK_NS (1000 * ZKL__NS_PER_MS / sysconf(_SC_CLK_TCK))

static pid_t victim;   /* who is to be replaced when it is opened; 0: nobody */
static pid_t stranger; /* by whom; 0: not yet */
static int   refused;  /* with this error, instead of a pidfd; 0: none is */

/* ---- a process that takes the number of another one ---- */

static _Noreturn void sleep_for_ever(void)
{
	for (;;)
		pause();
}

/* The number is free a moment after its process is gone. */
static pid_t sleep_with_number(pid_t number)
{
	pid_t             ids[] = {number}, pid;
	struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)ids, .set_tid_size = 1};

	do
		pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	while (pid < 0 && errno == EEXIST);
	if (pid == 0)
		sleep_for_ever();
	return pid;
}

/* Its parent does not wait for it: it is gone at once. */
static void replace_victim(void)
{
	struct zkl__process process;

	kill(victim, SIGKILL);
	while (zkl__process_read(victim, &process))
		continue;
	stranger = sleep_with_number(victim);
	CU_ASSERT_EQUAL(stranger, victim);
	victim = 0;
}

long __real_syscall(long number, ...); /* NOLINT: the linker's name */
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...) /* NOLINT: the linker's name */
{
	va_list list;
	long    a, b, c, d;

	va_start(list, number);
	a = va_arg(list, long);
	b = va_arg(list, long);
	c = va_arg(list, long);
	d = va_arg(list, long);
	va_end(list);
	if (number == SYS_pidfd_open && refused) {
		errno = refused;
		return -1;
	}
	if (number == SYS_pidfd_open && victim > 0 && (pid_t)a == victim)
		replace_victim();
	return __real_syscall(number, a, b, c, d);
}

/* ---- a tree of two ---- */

struct pair {
	pid_t parent, child;
};

static struct pair start_pair(void)
{
	struct pair pair = {0};
	int         ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	pair.parent = fork();
	if (pair.parent == 0) {
		signal(SIGCHLD, SIG_IGN);
		pair.child = fork();
		if (pair.child == 0 || write(ends[1], &pair.child, sizeof(pair.child)) > 0)
			sleep_for_ever();
		_exit(1);
	}
	CU_ASSERT_EQUAL_FATAL(read(ends[0], &pair.child, sizeof(pair.child)), (ssize_t)sizeof(pair.child));
	close(ends[0]);
	close(ends[1]);
	return pair;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void descendant_is_signalled_and_the_root_is_not(void)
{
	const struct pair               pair = start_pair();
	const struct zkl__proctree_root root = {.pid = pair.parent};
	struct zkl__process             process;

	CU_ASSERT_EQUAL(zkl__proctree_sweep(&root, 0), 1);
	zkl__proctree_kill(&root);
	while (zkl__process_read(pair.child, &process))
		continue;
	CU_ASSERT_EQUAL(waitpid(pair.parent, NULL, WNOHANG), 0);
	end(pair.parent);
}

static void number_that_is_given_to_another_one_is_not_signalled(void)
{
	const struct pair               pair = start_pair();
	const struct zkl__proctree_root root = {.pid = pair.parent};
	struct zkl__process             process;

	/* Processes of one tick cannot be told apart. */
	CU_ASSERT_TRUE_FATAL(zkl__process_read(pair.child, &process));
	while (zkl__alarm_now() < ((int64_t)process.start + 2) * TICK_NS)
		continue;
	victim = pair.child;
	stranger = 0;
	zkl__proctree_sweep(&root, SIGKILL);
	CU_ASSERT_EQUAL(stranger, pair.child);
	CU_ASSERT_EQUAL(waitpid(stranger, NULL, WNOHANG), 0);
	end(stranger);
	end(pair.parent);
}

/* A filter of system calls, as of containers, answers with EPERM to what it does not know. */
static void who_has_no_pidfd_is_signalled_all_the_same(void)
{
	static const int    errors[] = {ENOSYS, EPERM, EMFILE};
	struct zkl__process process;

	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		const struct pair               pair = start_pair();
		const struct zkl__proctree_root root = {.pid = pair.parent};

		refused = errors[i];
		zkl__proctree_sweep(&root, SIGKILL);
		refused = 0;
		while (zkl__process_read(pair.child, &process))
			continue;
		end(pair.parent);
	}
}

static void *go_on(void *arg)
{
	(void)arg;
	sleep_for_ever();
}

static void who_lives_on_without_its_first_thread_is_not_dead(void)
{
	const struct zkl__proctree_root root = {.pid = getpid()};
	struct zkl__process             process;
	pthread_t                       thread;
	char                            path[32], stat[512] = "";
	const pid_t                     pid = fork();

	if (pid == 0) {
		pthread_create(&thread, NULL, go_on, NULL);
		pthread_exit(NULL);
	}
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (!strstr(stat, ") Z ")) {
		FILE *file = fopen(path, "re");

		CU_ASSERT_FATAL(file && fgets(stat, sizeof stat, file));
		fclose(file);
	}
	CU_ASSERT_TRUE(zkl__process_read(pid, &process) && !process.dead);
	zkl__proctree_sweep(&root, SIGKILL);
	CU_ASSERT_EQUAL(waitpid(pid, NULL, 0), pid);
}

/* Traces a process, and never waits for it. *ret: it may. */
static pid_t start_tracer(pid_t of, bool *ret)
{
	int         ends[2];
	const pid_t tracer = pipe(ends) == 0 ? fork() : -1;

	CU_ASSERT_FATAL(tracer >= 0);
	if (tracer == 0) {
		const bool done = ptrace(PTRACE_SEIZE, of, NULL, NULL) == 0;
		if (write(ends[1], &done, sizeof(done)) == sizeof(done))
			sleep_for_ever();
		_exit(1);
	}
	CU_ASSERT_EQUAL_FATAL(read(ends[0], ret, sizeof(*ret)), (ssize_t)sizeof(*ret));
	close(ends[0]);
	close(ends[1]);
	return tracer;
}

static void who_has_ended_and_is_traced_is_dead(void)
{
	struct zkl__process process;
	bool                may;
	const pid_t         pid = fork();

	if (pid == 0)
		sleep_for_ever();
	CU_ASSERT_EQUAL(zkl__proctree_living_child(NULL, 0), pid);
	CU_ASSERT_TRUE(zkl__process_read(pid, &process));
	CU_ASSERT_EQUAL(zkl__proctree_living_child(&process, 1), 0);
	const pid_t tracer = start_tracer(pid, &may);
	if (may) {
		kill(pid, SIGKILL);
		while (zkl__process_read(pid, &process) && !process.dead)
			continue;
		CU_ASSERT_EQUAL(waitpid(pid, NULL, WNOHANG), 0);
		CU_ASSERT_EQUAL(zkl__process_end(pid), SIGKILL);
		CU_ASSERT_EQUAL(zkl__proctree_living_child(NULL, 0), tracer);
	}
	end(tracer);
	end(pid);
	CU_ASSERT_EQUAL(zkl__proctree_living_child(NULL, 0), 0);
}

/* Their numbers take more than a page. */
static void all_of_many_children_are_found(void)
{
	enum { MANY = 1500 };
	struct zkl__process *children;
	size_t               count;
	static pid_t         pids[MANY];

	for (int i = 0; i < MANY; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			sleep_for_ever();
	}
	CU_ASSERT_EQUAL(zkl__proctree_children(&children, &count), 0);
	CU_ASSERT_EQUAL(count, MANY);
	free(children);
	for (int i = 0; i < MANY; i++)
		end(pids[i]);
}

static void nobody_descends_from_who_is_not_there(void)
{
	const struct zkl__proctree_root root = {.pid = -1};

	CU_ASSERT_EQUAL(zkl__proctree_sweep(&root, SIGKILL), 0);
}

static int run_tests(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(descendant_is_signalled_and_the_root_is_not),
		TEST(number_that_is_given_to_another_one_is_not_signalled),
		TEST(who_has_no_pidfd_is_signalled_all_the_same),
		TEST(who_lives_on_without_its_first_thread_is_not_dead),
		TEST(who_has_ended_and_is_traced_is_dead),
		TEST(all_of_many_children_are_found),
		TEST(nobody_descends_from_who_is_not_there),
		{0},
	};
	const int failed = check_main("proctree", tests, argc, argv);

	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	const struct zkl__child_options options = {.argc = argc, .argv = argv, .path = argv[0]};
	struct zkl__cgroup              none = {.parent = -1};
	struct zkl__pidns               pidns;
	sigset_t                        child;
	int                             status = 0;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	const pid_t pid = zkl__pidns_fork(&options, &none, &pidns);
	if (pid == 0)
		_exit(run_tests(argc, argv));
	if (pid < 0) {
		printf("no PID namespace: %s: %s\n", pidns.step, strerror(errno));
		return 77;
	}
	waitpid(pid, &status, 0);
	kill(pidns.init, SIGKILL);
	waitpid(pidns.init, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
