/* SPDX-License-Identifier: Apache-2.0 */
/* zklock-fence, killed with SIGKILL at each of its system calls: itself, its warden, or both. Where its command ever begins, the
 * mark stands at its token by then. Another one with a newer token gets in, and while it is in there nothing lives of what the
 * first one had started, nor begins; where both were killed the command dies, and what it had started goes on. */
#include <zklock/fence.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"
#include "queue.h"
#include "victim.h"

#define TOKEN 5
#define NEWER 6

static char     folder[64], file[80], log_file[80], this_program[400];
static char     context[120]; /* of a failure */
static unsigned points;

/* ---- commands: this program, once more --------------------------------------------------------------------------------------- */

static void say(const char *who, uint64_t mark, const char *log)
{
	char      line[64];
	const int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	const int length = snprintf(line, sizeof line, "%s %d %" PRIu64 "\n", who, (int)getpid(), mark);

	if (fd < 0 || write(fd, line, (size_t)length) != length)
		_exit(2);
	close(fd);
}

static uint64_t mark_of(const char *fence_file)
{
	zkl_fence *fence = NULL;

	if (zkl_fence_open(fence_file, &fence, NULL) < 0)
		_exit(3);
	const uint64_t mark = zkl_fence_mark(fence);
	zkl_fence_close(fence);
	return mark;
}

/* It goes on in a session of its own until its parent has ended, and a little longer: it is there to be cut short. */
static _Noreturn void be_left_behind(const int *begun, const int *alive, const char *log)
{
	char byte;

	close(alive[1]);
	setsid();
	say("child", 0, log);
	const ssize_t told = write(begun[1], "", 1), end = read(alive[0], &byte, 1);
	poll(NULL, 0, 30);
	say("end", 0, log);
	_exit(told != 1 || end != 0);
}

static int old_command(const char *fence_file, const char *log)
{
	int  begun[2], alive[2];
	char byte;

	say("old", mark_of(fence_file), log);
	if (pipe2(begun, O_CLOEXEC) < 0 || pipe2(alive, O_CLOEXEC) < 0)
		return 4;
	const pid_t child = fork();
	if (child == 0)
		be_left_behind(begun, alive, log);
	return read(begun[0], &byte, 1) == 1 && child > 0 ? 0 : 5;
}

/* What is in the log. */
struct events {
	unsigned old, children, ends, new; /* how many */
	unsigned late_old, late;           /* after the new one; `late`: of any kind */
	unsigned living;                   /* but for the new one */
	bool     marked;                   /* the mark stood when the old one began */
};

static struct events read_log(const char *log)
{
	struct events events = {.marked = true};
	FILE         *in = fopen(log, "re");
	char          who[8];
	int           pid;
	uint64_t      mark;

	while (in && fscanf(in, "%7s %d %" SCNu64, who, &pid, &mark) == 3) {
		const bool old = strcmp(who, "old") == 0, new = strcmp(who, "new") == 0;

		events.late += events.new > 0;
		events.late_old += old && events.new > 0;
		events.old += old;
		events.new += new;
		events.children += strcmp(who, "child") == 0;
		events.ends += strcmp(who, "end") == 0;
		events.marked &= !old || mark == TOKEN;
		events.living += !new &&kill(pid, 0) == 0;
	}
	if (in)
		fclose(in);
	return events;
}

static int new_command(const char *log)
{
	const struct events events = read_log(log);

	say("new", events.living, log);
	return events.living ? 6 : 0;
}

static void run_fence(uint64_t token, const char *command)
{
	char        number[24];
	const char *program = getenv("ZKLOCK_FENCE");
	const int   null = open("/dev/null", O_RDWR | O_CLOEXEC);

	snprintf(number, sizeof number, "%" PRIu64, token);
	dup2(null, STDERR_FILENO);
	execl(program, program, file, number, "--", this_program, command, file, log_file, (char *)NULL);
	_exit(7);
}

/* ---- kills --------------------------------------------------------------------------------------------------------------------- */

enum who { FRONT, WARDEN, BOTH };
enum when { AFTER, BEFORE }; /* the newer one comes */

/* As the first one and only child. */
static pid_t child_of(pid_t pid)
{
	char  path[64];
	int   child = 0;
	FILE *in;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	in = fopen(path, "re");
	if (!in || fscanf(in, "%d", &child) != 1)
		child = 0;
	if (in)
		fclose(in);
	return child;
}

static void kill_it(struct victim *victim, enum who who)
{
	const pid_t warden = who == BOTH ? child_of(victim->pid) : 0;

	if (warden > 0)
		kill(warden, SIGKILL);
	victim_kill(victim);
}

static pid_t start_newer(void)
{
	fflush(stdout);
	const pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_fence(NEWER, "--new");
	}
	return pid;
}

/* All that there is comes to us in the end. Statuses: of the newer one, and of the first one's front where it was not killed. */
static int wait_for_all(pid_t newer)
{
	int   status, ret = -1;
	pid_t pid;

	while ((pid = waitpid(-1, &status, 0)) > 0)
		if (pid == newer)
			ret = status;
	return ret;
}

static void check_after(const struct victim *victim, enum who who, int newer)
{
	const struct events events = read_log(log_file);
	zkl_fence          *fence = NULL;

	if (events.new != 1 || (who == BOTH ? events.late_old : newer != 0 || events.late))
		FAIL("%s: the newer one ended with status %#x; of the old ones %u and %u came later", context,
		     (unsigned)newer, events.late_old, events.late);
	if (!events.marked || victim->told)
		FAIL("%s: the command began before the mark was raised (or on the disk)", context);
	CHECK_INT(zkl_fence_open(file, &fence, NULL), 0);
	CHECK_INT(zkl_fence_mark(fence), NEWER);
	CHECK_INT(zkl_fence_admit(fence, TOKEN, NULL, NULL, NULL), ZKL_ESTALE);
	zkl_fence_close(fence);
}

static bool was_killed_at(unsigned stop, enum who who, enum when when, struct events *ret)
{
	static const char *const names[] = {"zklock-fence", "warden", "both"};
	struct victim            victim;
	pid_t                    newer = 0;

	unlink(file);
	unlink(log_file);
	snprintf(context, sizeof context, "%s killed at stop %u, the newer one came %s", names[who], stop,
	         when == AFTER ? "after it" : "before");
	fflush(stdout);
	if (victim_fork(&victim) == 0)
		run_fence(TOKEN, "--old");
	bool killed = (who != WARDEN || victim_becomes_its_child(&victim)) && victim_run(&victim, stop, NULL);
	if (killed && when == BEFORE) {
		newer = start_newer();
		child_waits_for(file, newer);
	}
	if (killed)
		kill_it(&victim, who);
	if (!newer)
		newer = start_newer();
	check_after(&victim, who, wait_for_all(newer));
	*ret = read_log(log_file);
	return killed;
}

static void kill_at_every_call(enum who who, enum when when)
{
	unsigned      stop = 1, begun = 0, cut_short = 0;
	struct events events;

	for (; was_killed_at(stop, who, when, &events); stop++) {
		begun += events.old == 1;
		cut_short += events.old == 1 && events.ends == 0;
	}
	/* It ended by itself, and what it had left behind too. */
	CHECK(events.old == 1 && events.children == 1 && events.ends == 1);
	/* Some were killed before the command began, some while it ran. */
	CHECK(begun > 0 && stop > begun + 10 && (cut_short > 0 || who == BOTH));
	points += stop - 1;
	printf("%u points, the command had begun at %u, was cut short at %u ", stop - 1, begun, cut_short);
}

static void front_killed_at_every_system_call(void)
{
	kill_at_every_call(FRONT, AFTER);
}

static void front_killed_at_every_system_call_while_another_waits(void)
{
	kill_at_every_call(FRONT, BEFORE);
}

static void warden_killed_at_every_system_call(void)
{
	kill_at_every_call(WARDEN, AFTER);
}

static void warden_killed_at_every_system_call_while_another_waits(void)
{
	kill_at_every_call(WARDEN, BEFORE);
}

static void both_killed_at_every_system_call(void)
{
	kill_at_every_call(BOTH, AFTER);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(front_killed_at_every_system_call),  TEST(front_killed_at_every_system_call_while_another_waits),
		TEST(warden_killed_at_every_system_call), TEST(warden_killed_at_every_system_call_while_another_waits),
		TEST(both_killed_at_every_system_call),   {0}};

	if (argc == 4)
		return strcmp(argv[1], "--old") == 0 ? old_command(argv[2], argv[3]) : new_command(argv[3]);
	if (!victims_are_possible()) {
		puts("skipped: ptrace is not permitted here");
		return 77;
	}
	if (!getenv("ZKLOCK_FENCE") || readlink("/proc/self/exe", this_program, sizeof this_program - 1) < 0) {
		puts("ZKLOCK_FENCE must name the program");
		return 2;
	}
	alarm(380);
	unsetenv("ZKLOCK_HELD");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(folder, sizeof folder, "%s/zklock-kills-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(folder))
		return 2;
	snprintf(file, sizeof file, "%s/fence", folder);
	snprintf(log_file, sizeof log_file, "%s/log", folder);
	const int status = check_main("fence_command_kills", tests, argc, argv);
	unlink(file);
	unlink(log_file);
	rmdir(folder);
	printf("%u points at which zklock-fence was killed\n", points);
	return status;
}
