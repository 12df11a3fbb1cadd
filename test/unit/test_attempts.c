/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's log says of its attempts to connect. The lines are those of 3.8.0 and 3.9.3. */
#include "attempts.h"
#include "check.h"
#include "thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HEAD "2026-01-05 10:00:00,000:4711(0x7f0000000000):ZOO_ERROR@handle_socket_error_msg@2402: "

static const char *told(const char *addresses)
{
	static char text[256];

	const size_t length = zkl__attempts_tell(addresses, text, sizeof text);
	CHECK_INT(length, strlen(text));
	return text;
}

static void reasons_are_kept_by_address(void)
{
	zkl__attempts_forget();
	zkl__attempts_note(HEAD "Socket 10.0.0.1:2181 zk retcode=-4, errno=111(Connection refused): server refused to "
	                        "accept the client");
	zkl__attempts_note(HEAD "Socket 10.0.0.2:2181 zk retcode=-7, errno=110(Connection timed out): connection to "
	                        "10.0.0.2:2181 timed out (exceeded timeout by 0ms)");
	zkl__attempts_note(HEAD
	                   "Socket [fe80::1]:2181 zk retcode=-4, errno=112(Host is down): failed while receiving a "
	                   "server response");
	zkl__attempts_note(HEAD "Socket 10.0.0.3:2181 zk retcode=-4, errno=104(Connection reset by peer): failed while "
	                        "receiving a server response");
	CHECK_STR(told("10.0.0.1:2181"), "10.0.0.1:2181: Connection refused");
	CHECK_STR(told("10.0.0.2:2181,fe80::1:2181"),
	          "10.0.0.2:2181: no answer; fe80::1:2181: hangs up, as without a quorum");
	CHECK_STR(told("10.0.0.3:2181"), "10.0.0.3:2181: Connection reset by peer");
}

static void newest_attempt_counts(void)
{
	zkl__attempts_forget();
	zkl__attempts_note("Socket 10.0.0.1:1 zk retcode=-4, errno=111(Connection refused): server refused to accept");
	zkl__attempts_note("Socket 10.0.0.1:1 zk retcode=-4, errno=113(No route to host): server refused to accept");
	CHECK_STR(told("10.0.0.1:1"), "10.0.0.1:1: No route to host");
	zkl__attempts_forget();
	CHECK_STR(told("10.0.0.1:1"), "10.0.0.1:1: no answer");
}

static void repeated_addresses_are_told_once(void)
{
	zkl__attempts_forget();
	CHECK_STR(told("10.0.0.1:1,10.0.0.1:12,10.0.0.1:1"), "10.0.0.1:1: no answer; 10.0.0.1:12: no answer");
	CHECK_STR(told(""), "");
}

static void other_lines_say_nothing(void)
{
	static const char *const lines[] = {
		"",
		"Socket ",
		"Socket 10.0.0.1:1",
		"Socket 10.0.0.1:1 errno=",
		"Socket 10.0.0.1:1 errno=111(",
		"Socket 10.0.0.1:1 zk retcode=-112, errno=116(Stale file handle): sessionId=0x1 has expired.",
		"errno=111(Connection refused): server refused to accept the client",
		"Socket  errno=111(Connection refused): server refused to accept the client"};

	zkl__attempts_forget();
	for (size_t i = 0; i < COUNT(lines); i++)
		zkl__attempts_note(lines[i]);
	CHECK_STR(told("10.0.0.1:1"), "10.0.0.1:1: no answer");
}

static void more_addresses_than_are_kept(void)
{
	char line[160], all[32 * 300], text[64];

	zkl__attempts_forget();
	for (int i = 0; i < 300; i++) {
		snprintf(line, sizeof line,
		         "Socket 10.0.%d.%d:1 zk retcode=-4, errno=111(Connection refused): server refused to accept",
		         i / 250, i % 250);
		zkl__attempts_note(line);
	}
	CHECK_STR(told("10.0.1.49:1"), "10.0.1.49:1: Connection refused");
	CHECK_STR(told("10.0.0.0:1"), "10.0.0.0:1: no answer");
	for (int i = 0, end = 0; i < 300; i++)
		end += snprintf(all + end, sizeof all - (size_t)end, "%s10.0.%d.%d:1", i ? "," : "", i / 250, i % 250);
	CHECK_INT(zkl__attempts_tell(all, text, sizeof text), sizeof text - 1);
	CHECK_INT(strlen(text), sizeof text - 1);
}

static sem_t       tells;
static atomic_bool stop;

/* Of so many addresses that it has the list nearly all the time. */
static void *tell_all_the_time(void *unused)
{
	static char all[32 * 300], text[64 * 300];

	(void)unused;
	for (int i = 0, end = 0; i < 300; i++)
		end += snprintf(all + end, sizeof all - (size_t)end, "%s10.0.%d.%d:1", i ? "," : "", i / 250, i % 250);
	zkl__attempts_tell(all, text, sizeof text);
	sem_post(&tells);
	while (!atomic_load(&stop))
		zkl__attempts_tell(all, text, sizeof text);
	return NULL;
}

static void child_waits_for_no_thread_of_its_parent(void)
{
	struct timespec until;
	pthread_t       thread;
	int             status = 0;

	zkl__attempts_forget();
	zkl__attempts_note("Socket 10.0.9.1:1 zk retcode=-4, errno=111(Connection refused): server refused to accept");
	zkl__thread_watch_forks();
	sem_init(&tells, 0, 0);
	CHECK_INT(pthread_create(&thread, NULL, tell_all_the_time, NULL), 0);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	CHECK_INT(sem_timedwait(&tells, &until), 0);
	for (int i = 0; i < 20 && status == 0; i++) {
		fflush(NULL);
		pid_t pid = fork();
		if (pid == 0) {
			alarm(10);
			_exit(strcmp(told("10.0.9.1:1"), "10.0.9.1:1: no answer") != 0);
		}
		CHECK_INT(waitpid(pid, &status, 0), pid);
		CHECK_INT(status, 0);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	CHECK_STR(told("10.0.9.1:1"), "10.0.9.1:1: Connection refused");
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(reasons_are_kept_by_address),
	                                          TEST(newest_attempt_counts),
	                                          TEST(repeated_addresses_are_told_once),
	                                          TEST(other_lines_say_nothing),
	                                          TEST(more_addresses_than_are_kept),
	                                          TEST(child_waits_for_no_thread_of_its_parent),
	                                          {0}};

	return check_main("attempts", tests, argc, argv);
}
