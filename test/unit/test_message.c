/* SPDX-License-Identifier: Apache-2.0 */
/* A line on standard error never blocks whoever says it: where nobody reads, it is dropped. What blocks is ended by SIGALRM. */
#include "../../zklock/message.h"
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#define DEADLINE_S 20

static int other =
	-1; /* a descriptor through which somebody fills what standard error is, between our look and our write; -1: none */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms); /* NOLINT: the linker's name */
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

static void fill(int fd)
{
	static const char text[4096];

	for (size_t size = sizeof(text); size > 0; size /= 2) {
		while (write(fd, text, size) > 0)
			continue;
		CU_ASSERT_EQUAL(errno, EAGAIN);
	}
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) /* NOLINT: the linker's name */
{
	const int rc = __real_poll(fds, count, timeout_ms);

	if (other >= 0)
		fill(other);
	return rc;
}

/* Returns what standard error was. */
static int replace_standard_error(int fd)
{
	const int before = dup(STDERR_FILENO);

	CU_ASSERT_EQUAL_FATAL(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	alarm(DEADLINE_S);
	return before;
}

static void restore(int before)
{
	alarm(0);
	dup2(before, STDERR_FILENO);
	close(before);
}

/* Lines of all lengths, so that one of them finds room for a part of it. */
static void say_much(void)
{
	char line[1001];

	memset(line, 'x', sizeof(line) - 1);
	for (int length = 1000; length > 500; length--) {
		line[length] = '\0';
		zkl__message_say("%s", line);
	}
}

static void line_goes_whole_into_a_pipe(void)
{
	char text[64] = "";
	int  ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	const int before = replace_standard_error(ends[1]);
	zkl__message_say("one\ntwo %d", 3);
	restore(before);
	CU_ASSERT_TRUE(read(ends[0], text, sizeof(text) - 1) > 0);
	CU_ASSERT_STRING_EQUAL(text, "zklock-run: one?two 3\n");
	close(ends[0]);
	close(ends[1]);
}

/* The same pipe by a descriptor that does not block, as another process may have it. */
static void pipe_that_somebody_fills_meanwhile_does_not_block(void)
{
	char path[32];
	int  ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[1]);
	other = open(path, O_WRONLY | O_NONBLOCK);
	CU_ASSERT_TRUE_FATAL(other >= 0);
	const int before = replace_standard_error(ends[1]);
	say_much();
	CU_ASSERT_EQUAL(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	restore(before);
	close(other);
	other = -1;
	close(ends[0]);
	close(ends[1]);
}

static void socket_that_nobody_reads_does_not_block(void)
{
	int ends[2];

	CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	const int before = replace_standard_error(ends[1]);
	say_much();
	restore(before);
	close(ends[0]);
	close(ends[1]);
}

static void terminal_that_nobody_reads_does_not_block(void)
{
	const int terminal = posix_openpt(O_RDWR | O_NOCTTY);

	CU_ASSERT_TRUE_FATAL(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	CU_ASSERT_TRUE_FATAL(end >= 0);
	const int before = replace_standard_error(end);
	say_much();
	CU_ASSERT_EQUAL(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	restore(before);
	close(end);
	close(terminal);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(line_goes_whole_into_a_pipe),
		TEST(pipe_that_somebody_fills_meanwhile_does_not_block),
		TEST(socket_that_nobody_reads_does_not_block),
		TEST(terminal_that_nobody_reads_does_not_block),
		{0},
	};

	return check_main("message", tests, argc, argv);
}
