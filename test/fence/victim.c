/* SPDX-License-Identifier: Apache-2.0 */
#include "victim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of a stop that is the start or the end of a system call. */
#define SYSCALL_STOP (SIGTRAP | 0x80)

#define OPTIONS (PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)

static void must(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "victim: %s: %s\n", what, strerror(errno));
		abort();
	}
}

static long trace(enum __ptrace_request request, pid_t pid, long address, long data)
{
	return ptrace(request, pid, address, data);
}

/* ---- who runs ------------------------------------------------------------------------------------------------------------- */

pid_t victim_fork(struct victim *ret)
{
	const pid_t pid = fork();

	must(pid >= 0, "fork");
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(77);
		kill(getpid(), SIGSTOP);
		return 0;
	}
	*ret = (struct victim){.pid = pid};
	must(waitpid(pid, &ret->status, 0) == pid, "waitpid");
	if (WIFSTOPPED(ret->status))
		must(trace(PTRACE_SETOPTIONS, pid, 0, OPTIONS) == 0, "PTRACE_SETOPTIONS");
	return pid;
}

static bool lives(const struct victim *victim)
{
	return WIFSTOPPED(victim->status);
}

bool victims_are_possible(void)
{
	struct __ptrace_syscall_info info;
	struct victim                victim;

	if (victim_fork(&victim) == 0)
		_exit(0);
	if (!lives(&victim))
		return false;
	const bool possible = victim_run(&victim, 1, NULL) &&
	                      trace(PTRACE_GET_SYSCALL_INFO, victim.pid, sizeof info, (long)&info) > 0;
	victim_kill(&victim);
	return possible;
}

/* ---- what it has promised, and not done ------------------------------------------------------------------------------------ */

static uint64_t bit(uint64_t fd)
{
	return UINT64_C(1) << fd % 64;
}

/* A record; of more the first bytes. By ptrace alone: containers that allow it may forbid process_vm_readv(). */
static uint64_t sum_of_written(const struct victim *victim, const uint64_t *arguments)
{
	unsigned char data[64] = {0};
	const size_t  length = arguments[2] < sizeof data ? arguments[2] : sizeof data;
	uint64_t      sum = 0xcbf29ce484222325;

	for (size_t at = 0; at < length; at += sizeof(long)) {
		errno = 0;
		const long word = trace(PTRACE_PEEKDATA, victim->pid, (long)(arguments[1] + at), 0);
		must(errno == 0, "PTRACE_PEEKDATA");
		memcpy(data + at, &word, length - at < sizeof word ? length - at : sizeof word);
	}
	for (size_t i = 0; i < sizeof data; i++)
		sum = (sum ^ data[i]) * 0x100000001b3;
	return sum;
}

static void note_write(struct victim *victim, const uint64_t *arguments)
{
	victim->written = sum_of_written(victim, arguments);
	if (victim->written != victim->synced)
		victim->unsynced |= bit(arguments[0]);
}

static void note_sync(struct victim *victim, uint64_t fd)
{
	if (victim->unsynced & bit(fd))
		victim->synced = victim->written;
	victim->unsynced &= ~bit(fd);
}

static bool tells(uint64_t number)
{
	return number == SYS_write || number == SYS_sendto || number == SYS_clone;
}

/* The call that ends: of the one that began there is the number alone. */
static void note(struct victim *victim)
{
	static struct __ptrace_syscall_info entry;
	struct __ptrace_syscall_info        info = {0};

	if (trace(PTRACE_GET_SYSCALL_INFO, victim->pid, sizeof info, (long)&info) < 0)
		must(errno == ESRCH, "PTRACE_GET_SYSCALL_INFO");
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		entry = info;
		victim->told |= tells(info.entry.nr) && victim->unsynced;
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && entry.op == PTRACE_SYSCALL_INFO_ENTRY &&
	           !info.exit.is_error) {
		const uint64_t number = entry.entry.nr;

		if (number == SYS_pwrite64)
			note_write(victim, entry.entry.args);
		else if (number == SYS_linkat)
			victim->unsynced |= bit(entry.entry.args[2]);
		else if (number == SYS_fsync || number == SYS_fdatasync)
			note_sync(victim, entry.entry.args[0]);
	}
}

/* ---- stops ------------------------------------------------------------------------------------------------------------------ */

static void wait_for_stop(struct victim *victim)
{
	must(waitpid(victim->pid, &victim->status, 0) == victim->pid, "waitpid");
}

static bool is_stuck_instead(struct victim *victim, bool (*is_stuck)(void))
{
	const struct timespec pause = {.tv_nsec = 200000};
	pid_t                 pid;

	while ((pid = waitpid(victim->pid, &victim->status, WNOHANG)) == 0) {
		if (is_stuck())
			return true;
		nanosleep(&pause, NULL);
	}
	must(pid == victim->pid, "waitpid");
	return false;
}

/* Signals go where they were meant to. */
static int signal_of(const struct victim *victim)
{
	const int sig = WSTOPSIG(victim->status);

	return victim->status >> 16 || sig == SYSCALL_STOP || sig == SIGSTOP ? 0 : sig;
}

/* Another may kill it while it stands still; its end is what comes next then. */
static void go_on(const struct victim *victim, enum __ptrace_request how)
{
	if (trace(how, victim->pid, 0, signal_of(victim)) < 0)
		must(errno == ESRCH, "PTRACE_SYSCALL or _CONT");
}

bool victim_run(struct victim *victim, unsigned stops, bool (*is_stuck)(void))
{
	while (stops && lives(victim)) {
		go_on(victim, PTRACE_SYSCALL);
		if (is_stuck && is_stuck_instead(victim, is_stuck))
			return false;
		if (!is_stuck)
			wait_for_stop(victim);
		if (!lives(victim) || WSTOPSIG(victim->status) != SYSCALL_STOP)
			continue;
		note(victim);
		stops--;
	}
	return lives(victim);
}

bool victim_becomes_its_child(struct victim *victim)
{
	unsigned long child = 0;

	must(trace(PTRACE_SETOPTIONS, victim->pid, 0, OPTIONS | PTRACE_O_TRACEFORK) == 0, "PTRACE_SETOPTIONS");
	do {
		go_on(victim, PTRACE_CONT);
		wait_for_stop(victim);
	} while (lives(victim) && victim->status >> 16 != PTRACE_EVENT_FORK);
	if (!lives(victim))
		return false;
	must(trace(PTRACE_GETEVENTMSG, victim->pid, 0, (long)&child) == 0, "PTRACE_GETEVENTMSG");
	victim_let_go(victim);
	*victim = (struct victim){.pid = (pid_t)child};
	wait_for_stop(victim);
	must(trace(PTRACE_SETOPTIONS, victim->pid, 0, OPTIONS) == 0, "PTRACE_SETOPTIONS");
	return true;
}

void victim_kill(struct victim *victim)
{
	must(kill(victim->pid, SIGKILL) == 0, "kill");
	do
		must(waitpid(victim->pid, &victim->status, 0) == victim->pid, "waitpid");
	while (lives(victim));
}

void victim_let_go(const struct victim *victim)
{
	must(trace(PTRACE_DETACH, victim->pid, 0, signal_of(victim)) == 0, "PTRACE_DETACH");
}
