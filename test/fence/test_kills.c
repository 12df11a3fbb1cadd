/* SPDX-License-Identifier: Apache-2.0 */
/* A fence's file whose process is killed with SIGKILL at every system call, before and after it. It tells its parent of each
 * token that was admitted, in its access. After each kill another process opens the file: its mark is the last one that was told of or the one
 * that was under way, it goes on from there, and nothing lies beside the file. Where two share it, the other goes on as well.
 * (What the kernel has and the disk has not, a kill does not show: that each token was told of behind the sync is looked at.) */
#include <zklock/fence.h>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"
#include "queue.h"
#include "victim.h"

/* Of the file. */
#define COPIES 4
#define BLOCK  4096

/* Of the victim, in turn; and of the other one. */
static const uint64_t tokens[] = {5, 5, 9, 10};
#define OTHERS 20

static char     folder[64], file[80];
static char     context[120]; /* of a failure */
static unsigned points, points_in_wait;

/* ---- processes -------------------------------------------------------------------------------------------------------------- */

/* Both ends do not outlive a process that gets them by fork. */
static int told[2], go[2];

static void open_pipes(void)
{
	if (pipe2(told, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(go, O_CLOEXEC) < 0)
		abort();
}

static void close_pipes(void)
{
	for (int i = 0; i < 2; i++) {
		close(told[i]);
		close(go[i]);
	}
}

static void tell(uint64_t token)
{
	if (write(told[1], &token, sizeof token) != (ssize_t)sizeof token)
		_exit(2);
}

/* Of those that were told of since. */
static uint64_t last_told(uint64_t before)
{
	uint64_t token = before;

	while (read(told[0], &token, sizeof token) == (ssize_t)sizeof token)
		continue;
	return token;
}

static zkl_fence *open_fence(void)
{
	zkl_fence *fence = NULL;
	zkl_error  error;

	if (zkl_fence_open(file, &fence, &error) < 0) {
		printf("%s: %s\n", context, error.message);
		_exit(3);
	}
	return fence;
}

static int tell_inside(void *user)
{
	tell(*(const uint64_t *)user);
	return 0;
}

/* ZKL_ESTALE is an answer, too. */
static bool ask_by(zkl_fence *fence, uint64_t token, zkl_fence_access *access)
{
	zkl_error error;
	const int r = zkl_fence_admit(fence, token, access, &token, &error);

	if (r < 0 && r != ZKL_ESTALE) {
		printf("%s: token %" PRIu64 ": %s\n", context, token, error.message);
		_exit(4);
	}
	return r == 0;
}

static bool ask(zkl_fence *fence, uint64_t token)
{
	return ask_by(fence, token, NULL);
}

static _Noreturn void raise_marks(void)
{
	zkl_fence *fence = open_fence();

	for (size_t i = 0; i < COUNT(tokens); i++)
		ask_by(fence, tokens[i], tell_inside);
	zkl_fence_close(fence);
	_exit(0);
}

static void wait_to_go(void)
{
	char byte;

	if (read(go[0], &byte, 1) != 1)
		_exit(5);
}

static void let_it_go(void)
{
	CHECK_INT(write(go[1], "", 1), 1);
}

/* A free one; 0 in it. */
static pid_t fork_free(void)
{
	fflush(stdout);
	const pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static pid_t start_other(void)
{
	const pid_t pid = fork_free();

	if (pid == 0) {
		wait_to_go();
		zkl_fence *fence = open_fence();
		ask_by(fence, OTHERS, tell_inside);
		zkl_fence_close(fence);
		_exit(0);
	}
	return pid;
}

static bool has_ended_well(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, 0) == pid && status == 0)
		return true;
	FAIL("%s: another process ended with status %#x", context, (unsigned)status);
	return false;
}

/* ---- what a kill may leave ---------------------------------------------------------------------------------------------------- */

static unsigned count_names(bool remove)
{
	unsigned count = 0;
	DIR     *all = opendir(folder);

	for (struct dirent *one; all && (one = readdir(all));) {
		if (*one->d_name == '.' && (!one->d_name[1] || one->d_name[1] == '.'))
			continue;
		count++;
		if (remove)
			unlinkat(dirfd(all), one->d_name, 0);
	}
	if (all)
		closedir(all);
	return count;
}

static _Noreturn void look_and_go_on(uint64_t least, uint64_t most)
{
	zkl_fence     *fence = open_fence();
	const uint64_t mark = zkl_fence_mark(fence);
	struct stat    status;

	if (mark < least || mark > most)
		printf("%s: mark %" PRIu64 ", expected %" PRIu64 " to %" PRIu64 "\n", context, mark, least, most);
	else if (least > 1 && ask(fence, least - 1))
		printf("%s: a token below %" PRIu64 " was admitted\n", context, least);
	else if (!ask(fence, most ? most : 1) || !ask(fence, most + 1) || zkl_fence_mark(fence) != most + 1)
		printf("%s: cannot be raised\n", context);
	else if (stat(file, &status) < 0 || status.st_size != COPIES * BLOCK || status.st_nlink != 1)
		printf("%s: the file has %d bytes, %d names\n", context, (int)status.st_size, (int)status.st_nlink);
	else
		_exit(0);
	fflush(stdout);
	_exit(1);
}

static void check_file(uint64_t least, uint64_t most)
{
	const pid_t pid = fork_free();

	if (pid == 0)
		look_and_go_on(least, most);
	has_ended_well(pid);
	if (count_names(false) != 1)
		FAIL("%s: something lies beside the file", context);
}

/* ---- beginnings: what a kill, a cut of the power or damage has left ------------------------------------------------------------- */

/* The marks of the copies, 0: damaged. All 0: there is no file. */
struct beginning {
	unsigned marks[COPIES];
};

static void begin_with(const struct beginning *beginning)
{
	char content[COPIES][64];
	int  fd;

	count_names(true);
	memset(content, 'x', sizeof content);
	for (unsigned mark = 1; mark <= 5; mark++)
		for (size_t i = 0; i < COPIES; i++) {
			if (beginning->marks[i] != mark)
				continue;
			zkl_fence *fence = open_fence();

			ask(fence, mark);
			zkl_fence_close(fence);
			fd = open(file, O_RDONLY | O_CLOEXEC);
			CHECK_INT(pread(fd, content[i], sizeof *content, (off_t)i * BLOCK), sizeof *content);
			close(fd);
		}
	fd = open(file, O_WRONLY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < COPIES; i++)
		CHECK_INT(pwrite(fd, content[i], sizeof *content, (off_t)i * BLOCK), sizeof *content);
	if (fd >= 0)
		close(fd);
}

static uint64_t least_of(const struct beginning *beginning)
{
	unsigned most = 0;

	for (size_t i = 0; i < COPIES; i++)
		most = beginning->marks[i] > most ? beginning->marks[i] : most;
	return most;
}

static const char *tell_of(const struct beginning *beginning)
{
	static char text[48];

	snprintf(text, sizeof text, "%u %u %u %u", beginning->marks[0], beginning->marks[1], beginning->marks[2],
	         beginning->marks[3]);
	return text;
}

static uint64_t mark_under_way(uint64_t last)
{
	for (size_t i = 0; i < COUNT(tokens); i++)
		if (tokens[i] > last)
			return tokens[i];
	return last;
}

static const struct beginning beginnings[] = {{{0}}, {{4, 4, 4, 4}}, {{4, 4, 5, 5}}, {{4, 4, 5, 0}}, {{5, 0, 0, 0}}};

/* ---- one alone --------------------------------------------------------------------------------------------------------------- */

/* Whether it was killed at this stop: it may have got through before. */
static bool killed_at(unsigned stop, const struct beginning *beginning)
{
	struct victim victim;

	begin_with(beginning);
	open_pipes();
	snprintf(context, sizeof context, "killed at stop %u, begun with %s", stop, tell_of(beginning));
	if (victim_fork(&victim) == 0)
		raise_marks();
	const bool killed = victim_run(&victim, stop, NULL);
	if (killed)
		victim_kill(&victim);
	const uint64_t last = last_told(least_of(beginning));
	CHECK(killed ? WIFSIGNALED(victim.status) : victim.status == 0 && last == 10);
	if (victim.told)
		FAIL("%s: a token was told of that was not synced", context);
	close_pipes();
	check_file(last, mark_under_way(last));
	return killed;
}

static void mark_survives_a_kill_at_every_system_call(void)
{
	for (size_t i = 0; i < COUNT(beginnings); i++) {
		unsigned stop = 1;

		while (killed_at(stop, &beginnings[i]))
			stop++;
		/* Opening, four times admitting: it was not killed in one place only. */
		CHECK(stop > 80);
		points += stop - 1;
	}
}

/* ---- two --------------------------------------------------------------------------------------------------------------------- */

static bool somebody_waits(void)
{
	return somebody_waits_for(file);
}

enum end { KILLED, GOES_ON };

/* The victim stands at this stop; the other one comes, and waits for it or is faster; then the victim meets its end. */
static bool other_comes_at(unsigned stop, const struct beginning *beginning, enum end end)
{
	struct victim victim;

	begin_with(beginning);
	open_pipes();
	snprintf(context, sizeof context, "%s at stop %u beside another, begun with %s",
	         end == KILLED ? "killed" : "stopped", stop, tell_of(beginning));
	const pid_t other = start_other();
	if (victim_fork(&victim) == 0)
		raise_marks();
	const bool stopped = victim_run(&victim, stop, NULL);
	let_it_go();
	points_in_wait += child_waits_for(file, other);
	if (stopped && end == KILLED)
		victim_kill(&victim);
	else if (stopped)
		victim_let_go(&victim);
	has_ended_well(other);
	if (stopped && end == GOES_ON)
		has_ended_well(victim.pid);
	/* It was admitted whenever it came, and as the last one: the victim's tokens are lower. */
	if (last_told(0) != OTHERS)
		FAIL("%s: the other one was not admitted, or not as the last one", context);
	close_pipes();
	check_file(OTHERS, OTHERS);
	return stopped;
}

static void check_other_at_every_call(enum end end)
{
	points_in_wait = 0;
	for (size_t i = 0; i < COUNT(beginnings); i++) {
		unsigned stop = 1;

		while (other_comes_at(stop, &beginnings[i], end))
			stop++;
		points += stop - 1;
	}
	/* Some met the lock taken. */
	CHECK(points_in_wait > 50);
}

static void other_goes_on_after_a_kill_at_every_system_call(void)
{
	check_other_at_every_call(KILLED);
}

static void other_comes_between_any_two_system_calls(void)
{
	check_other_at_every_call(GOES_ON);
}

static int hold(void *user)
{
	(void)user;
	tell(4);
	wait_to_go();
	return 0;
}

/* It stands in an access with token 4, and goes on with OTHERS. */
static pid_t start_holder(void)
{
	const pid_t pid = fork_free();

	if (pid == 0) {
		zkl_fence *fence = open_fence();
		const int  r = zkl_fence_admit(fence, 4, hold, NULL, NULL);
		_exit(r != 0 || !ask(fence, OTHERS));
	}
	while (last_told(0) != 4 && waitpid(pid, NULL, WNOHANG) == 0)
		sched_yield();
	return pid;
}

/* Whether it was killed at a stop: the last point is in the midst of its wait for the lock. */
static bool waiter_killed_at(unsigned stop)
{
	struct victim victim;

	count_names(true);
	open_pipes();
	snprintf(context, sizeof context, "a waiter killed at stop %u", stop);
	const pid_t holder = start_holder();
	if (victim_fork(&victim) == 0)
		raise_marks();
	const bool stopped = victim_run(&victim, stop, somebody_waits);
	/* Where it does neither it has gone past the holder. */
	if (CHECK(stopped || somebody_waits()))
		victim_kill(&victim);
	CHECK_INT(last_told(0), 0);
	let_it_go();
	has_ended_well(holder);
	close_pipes();
	check_file(OTHERS, OTHERS);
	return stopped;
}

static void waiter_killed_at_every_system_call_changes_nothing(void)
{
	unsigned stop = 1;

	while (waiter_killed_at(stop))
		stop++;
	CHECK(stop > 12);
	points += stop;
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(mark_survives_a_kill_at_every_system_call),
	                                          TEST(other_goes_on_after_a_kill_at_every_system_call),
	                                          TEST(other_comes_between_any_two_system_calls),
	                                          TEST(waiter_killed_at_every_system_call_changes_nothing),
	                                          {0}};

	if (!victims_are_possible()) {
		puts("skipped: ptrace is not permitted here");
		return 77;
	}
	alarm(280);
	snprintf(folder, sizeof folder, "%s/zklock-kills-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(folder))
		return 2;
	snprintf(file, sizeof file, "%s/fence", folder);
	const int status = check_main("fence_kills", tests, argc, argv);
	count_names(true);
	rmdir(folder);
	printf("%u points at which a process was killed, or overtaken\n", points);
	return status;
}
