/* SPDX-License-Identifier: Apache-2.0 */
/* The fence: who is admitted, one access at a time, over handles, threads and processes; and files that are none, or cannot be
 * written. What a crash leaves is test/fence's. */
#include <zklock/fence.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define SIZE 16384

static char folder[] = "/tmp/zklock-fence-XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[4][200];
	static int  next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
	return path[next];
}

/* One that no test has used. */
static const char *new_file(void)
{
	static int number;
	char       name[32];

	snprintf(name, sizeof name, "fence%d", number++);
	return in_folder(name);
}

static zkl_fence *open_fence(const char *file)
{
	zkl_fence *fence = NULL;
	zkl_error  error;

	if (zkl_fence_open(file, &fence, &error) < 0)
		FAIL("%s", error.message);
	return fence;
}

static int ask(zkl_fence *fence, uint64_t token)
{
	return zkl_fence_admit(fence, token, NULL, NULL, NULL);
}

static int give(void *user)
{
	return *(int *)user;
}

static bool has_ended(pid_t child)
{
	int status = 0;

	return CHECK(waitpid(child, &status, 0) == child) && CHECK_INT(status, 0);
}

/* ---- who is admitted ---------------------------------------------------------------------------------------------------- */

static void check_rule(zkl_fence *fence)
{
	int       answer = 42;
	zkl_error error;

	CHECK_INT(zkl_fence_mark(fence), 0);
	CHECK_INT(zkl_fence_admit(fence, 7, give, &answer, &error), 42);
	CHECK_INT(zkl_fence_mark(fence), 7);
	CHECK_INT(ask(fence, 7), 0);
	CHECK_INT(zkl_fence_admit(fence, 6, give, &answer, &error), ZKL_ESTALE);
	CHECK_INT(error.code, ZKL_ESTALE);
	CHECK_STR(error.message, "token 6 is older than 7, which was admitted before");
	answer = -99;
	CHECK_INT(zkl_fence_admit(fence, 7, give, &answer, NULL), -99);
	CHECK_INT(ask(fence, INT64_MAX), 0);
	CHECK_INT(zkl_fence_mark(fence), INT64_MAX);
	CHECK_INT(ask(fence, 8), ZKL_ESTALE);
}

static void older_token_is_refused_and_an_equal_one_is_not(void)
{
	zkl_fence *fence = open_fence(NULL);

	check_rule(fence);
	zkl_fence_close(fence);
	fence = open_fence(new_file());
	check_rule(fence);
	zkl_fence_close(fence);
}

static void token_that_no_grant_has_is_invalid(void)
{
	static const uint64_t none[] = {0, (uint64_t)INT64_MAX + 1, UINT64_MAX};
	zkl_fence            *fence = open_fence(NULL);
	zkl_error             error;

	for (size_t i = 0; i < COUNT(none); i++)
		CHECK_INT(zkl_fence_admit(fence, none[i], NULL, NULL, &error), ZKL_EINVAL);
	CHECK_STR(error.message, "18446744073709551615 is no token: they are 1 to 2^63-1");
	CHECK_INT(zkl_fence_mark(fence), 0);
	CHECK_INT(zkl_fence_admit(NULL, 1, NULL, NULL, NULL), ZKL_EINVAL);
	CHECK_INT(zkl_fence_open(NULL, NULL, NULL), ZKL_EINVAL);
	CHECK_INT(zkl_fence_open("", &fence, NULL), ZKL_EINVAL);
	CHECK_INT(zkl_fence_mark(NULL), 0);
	zkl_fence_close(NULL);
	zkl_fence_close(fence);
}

static void mark_outlives_the_handle_and_is_shared_by_all(void)
{
	const char *file = new_file();
	zkl_fence  *one = open_fence(file), *other = open_fence(file);
	struct stat status;

	CHECK_INT(ask(one, 5), 0);
	CHECK_INT(zkl_fence_mark(other), 5);
	CHECK_INT(ask(other, 9), 0);
	CHECK_INT(ask(one, 8), ZKL_ESTALE);
	zkl_fence_close(one);
	zkl_fence_close(other);
	one = open_fence(file);
	CHECK_INT(zkl_fence_mark(one), 9);
	CHECK_INT(ask(one, 8), ZKL_ESTALE);
	zkl_fence_close(one);
	CHECK(stat(file, &status) == 0 && status.st_size == SIZE && status.st_nlink == 1);
}

static void mark_can_be_read_by_people(void)
{
	const char *file = new_file();
	zkl_fence  *fence = open_fence(file);
	char        line[80] = "";
	FILE       *text;

	CHECK_INT(ask(fence, 4294967301), 0);
	text = fopen(file, "re");
	CHECK(text && fgets(line, sizeof line, text));
	line[40] = 0;
	CHECK_STR(line, "zklock-fence 1 mark 00000000004294967301");
	if (text)
		fclose(text);
	zkl_fence_close(fence);
}

/* ---- an access ---------------------------------------------------------------------------------------------------------- */

struct nested {
	zkl_fence  *same, *same_file, *another;
	const char *file;
};

static int ask_inside(void *user)
{
	const struct nested *nested = user;
	zkl_fence           *late = open_fence(nested->file);

	CHECK_INT(ask(nested->same, 3), ZKL_EDEADLK);
	CHECK_INT(ask(nested->same_file, 9), ZKL_EDEADLK);
	CHECK_INT(ask(late, 9), ZKL_EDEADLK);
	CHECK_INT(ask(nested->another, 2), 0);
	zkl_fence_close(late);
	return 1;
}

static void access_that_asks_its_own_fence_is_told(void)
{
	struct nested nested = {.file = new_file()};

	nested.same = open_fence(nested.file);
	nested.same_file = open_fence(nested.file);
	nested.another = open_fence(NULL);
	CHECK_INT(zkl_fence_admit(nested.same, 3, ask_inside, &nested, NULL), 1);
	CHECK_INT(ask(nested.same, 3), 0);
	zkl_fence_close(nested.same);
	zkl_fence_close(nested.same_file);
	zkl_fence_close(nested.another);
}

/* ---- threads and processes ------------------------------------------------------------------------------------------------ */

/* What all workers see: there may be one access at a time, and tokens only grow. */
struct shared {
	atomic_uint       inside;
	_Atomic uint64_t  last, admitted, refused;
	_Atomic unsigned  wrong;
	zkl_fence        *fence;
	const char       *file;
	pthread_barrier_t barrier;
	uint64_t          rounds;
};

struct visit {
	struct shared *shared;
	uint64_t       token;
};

static int look_around(void *user)
{
	const struct visit *visit = user;
	struct shared      *shared = visit->shared;

	if (atomic_fetch_add(&shared->inside, 1) != 0 || visit->token < atomic_load(&shared->last))
		atomic_fetch_add(&shared->wrong, 1);
	atomic_store(&shared->last, visit->token);
	sched_yield();
	atomic_fetch_sub(&shared->inside, 1);
	return 1;
}

static void *work(void *arg)
{
	struct shared *shared = arg;
	zkl_fence     *fence = shared->fence ? shared->fence : open_fence(shared->file);
	uint64_t       seed = (uint64_t)getpid() ^ (uint64_t)pthread_self();

	pthread_barrier_wait(&shared->barrier);
	for (uint64_t i = 0; i < shared->rounds; i++) {
		const uint64_t mark = zkl_fence_mark(fence);
		struct visit   visit = {shared, mark + (uint64_t)check_below(&seed, 3)};
		const int r = visit.token ? zkl_fence_admit(fence, visit.token, look_around, &visit, NULL) : ZKL_ESTALE;

		if (zkl_fence_mark(fence) < mark || (r != 1 && r != ZKL_ESTALE))
			atomic_fetch_add(&shared->wrong, 1);
		atomic_fetch_add(r == 1 ? &shared->admitted : &shared->refused, 1);
	}
	if (!shared->fence)
		zkl_fence_close(fence);
	return NULL;
}

static struct shared *new_shared(unsigned workers, uint64_t rounds)
{
	struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attributes;

	if (shared == MAP_FAILED)
		abort();
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attributes, workers);
	shared->rounds = rounds;
	return shared;
}

static void work_in_threads(struct shared *shared, unsigned threads)
{
	pthread_t thread[8];

	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, shared) != 0)
			abort();
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void check_shared(struct shared *shared, zkl_fence *fence)
{
	CHECK_INT(shared->wrong, 0);
	CHECK(shared->admitted > 0 && shared->refused > 0);
	CHECK_INT(zkl_fence_mark(fence), shared->last);
	zkl_fence_close(fence);
	munmap(shared, sizeof *shared);
}

static void threads_come_one_at_a_time_with_tokens_that_grow(void)
{
	struct shared *shared = new_shared(8, check_rounds(5000, 100000));

	shared->fence = open_fence(NULL);
	work_in_threads(shared, 8);
	check_shared(shared, shared->fence);
}

struct meeting {
	zkl_fence        *fence;
	pthread_barrier_t in, out;
};

static int meet(void *user)
{
	struct meeting *meeting = user;

	pthread_barrier_wait(&meeting->in);
	pthread_barrier_wait(&meeting->out);
	return 1;
}

static void *access_with_a_meeting(void *user)
{
	struct meeting *meeting = user;
	static int      failed;

	return zkl_fence_admit(meeting->fence, 5, meet, meeting, NULL) == 1 ? NULL : &failed;
}

/* Whoever asks has a lock of its own, and no use for another. */
static void asking_in_memory_waits_for_no_access(void)
{
	struct meeting meeting = {.fence = open_fence(NULL)};
	pthread_t      thread;
	void          *failed;

	pthread_barrier_init(&meeting.in, NULL, 2);
	pthread_barrier_init(&meeting.out, NULL, 2);
	if (pthread_create(&thread, NULL, access_with_a_meeting, &meeting) != 0)
		abort();
	pthread_barrier_wait(&meeting.in);
	CHECK_INT(ask(meeting.fence, 4), ZKL_ESTALE);
	CHECK_INT(ask(meeting.fence, 5), 0);
	CHECK_INT(ask(meeting.fence, 7), 0);
	CHECK_INT(ask(meeting.fence, 6), ZKL_ESTALE);
	pthread_barrier_wait(&meeting.out);
	pthread_join(thread, &failed);
	CHECK(failed == NULL);
	CHECK_INT(zkl_fence_mark(meeting.fence), 7);
	pthread_barrier_destroy(&meeting.in);
	pthread_barrier_destroy(&meeting.out);
	zkl_fence_close(meeting.fence);
}

static void *ask_around(void *arg)
{
	struct shared *shared = arg;
	uint64_t       seed = (uint64_t)pthread_self();

	pthread_barrier_wait(&shared->barrier);
	for (uint64_t i = 0; i < shared->rounds; i++) {
		const uint64_t mark = zkl_fence_mark(shared->fence);
		const uint64_t token = mark + (uint64_t)check_below(&seed, 3);
		const int      r = token ? ask(shared->fence, token) : ZKL_ESTALE;
		const uint64_t then = zkl_fence_mark(shared->fence);

		if (then < mark || (r == 0 && then < token) || (r == ZKL_ESTALE && token && then <= token))
			atomic_fetch_add(&shared->wrong, 1);
	}
	return NULL;
}

static void mark_in_memory_only_grows_under_many_that_ask(void)
{
	struct shared *shared = new_shared(4, check_rounds(20000, 1000000));
	pthread_t      thread[4];

	shared->fence = open_fence(NULL);
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, ask_around, shared) != 0)
			abort();
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK_INT(shared->wrong, 0);
	CHECK(zkl_fence_mark(shared->fence) > 0);
	zkl_fence_close(shared->fence);
	munmap(shared, sizeof *shared);
}

static void processes_come_one_at_a_time_with_tokens_that_grow(void)
{
	/* One that waits for a lock keeps the other threads of its process from running, in valgrind. */
	const unsigned threads = getenv("ZKLOCK_TEST_VALGRIND") ? 1 : 2;
	struct shared *shared = new_shared(4 * threads, check_rounds(200, 5000));
	pid_t          child[4];

	shared->file = new_file();
	fflush(stdout);
	for (size_t i = 0; i < COUNT(child); i++) {
		child[i] = fork();
		if (child[i] == 0) {
			work_in_threads(shared, threads);
			_exit(0);
		}
	}
	for (size_t i = 0; i < COUNT(child); i++)
		has_ended(child[i]);
	check_shared(shared, open_fence(shared->file));
}

static int wait_to_be_killed(void *user)
{
	const int *inside = user;

	if (write(*inside, "", 1) != 1)
		return -1;
	for (;;)
		pause();
}

/* A process in an access, as the parent knows. */
static pid_t fork_holder(const char *file, uint64_t token)
{
	int  ends[2];
	char byte;

	if (pipe(ends) < 0)
		abort();
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0) {
		zkl_fence_admit(open_fence(file), token, wait_to_be_killed, &ends[1], NULL);
		_exit(1);
	}
	close(ends[1]);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	return child;
}

static void access_of_a_killed_process_is_over(void)
{
	const char *file = new_file();
	zkl_fence  *fence = open_fence(file);
	pid_t       holder = fork_holder(file, 5);

	/* At once, although the holder is in there. */
	CHECK_INT(ask(fence, 4), ZKL_ESTALE);
	CHECK_INT(zkl_fence_mark(fence), 5);
	CHECK(kill(holder, SIGKILL) == 0);
	CHECK_INT(ask(fence, 6), 0);
	waitpid(holder, NULL, 0);
	zkl_fence_close(fence);
}

struct leaver {
	zkl_fence *fence;
	int        told, go[2];
};

/* Its child has the handle, until it is told to close it, and stays. */
static int leave_a_child(void *user)
{
	const struct leaver *leaver = user;
	const pid_t          child = fork();
	char                 byte;

	if (child == 0) {
		close(leaver->go[1]);
		if (read(leaver->go[0], &byte, 1) == 1)
			zkl_fence_close(leaver->fence);
		/* To the end of the test. */
		_exit(read(leaver->go[0], &byte, 1) != 0);
	}
	if (child < 0 || write(leaver->told, &child, sizeof child) != sizeof child)
		_exit(1);
	for (;;)
		pause();
}

static bool is_locked(const char *file)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	const int    fd = open(file, O_RDWR | O_CLOEXEC);

	CHECK_INT(fcntl(fd, F_OFD_GETLK, &lock), 0);
	close(fd);
	return lock.l_type != F_UNLCK;
}

static void child_that_closes_its_handle_keeps_nobody_out(void)
{
	const char   *file = new_file();
	struct leaver leaver;
	int           told[2], status;
	pid_t         child = 0;

	CHECK(pipe2(told, O_CLOEXEC) == 0 && pipe2(leaver.go, O_CLOEXEC) == 0);
	leaver.told = told[1];
	fflush(stdout);
	const pid_t parent = fork();
	if (parent == 0) {
		leaver.fence = open_fence(file);
		zkl_fence_admit(leaver.fence, 5, leave_a_child, &leaver, NULL);
		_exit(1);
	}
	CHECK_INT(read(told[0], &child, sizeof child), sizeof child);
	CHECK(kill(parent, SIGKILL) == 0 && waitpid(parent, &status, 0) == parent);
	CHECK(is_locked(file));
	CHECK_INT(write(leaver.go[1], "", 1), 1);
	zkl_fence *fence = open_fence(file);
	CHECK_INT(ask(fence, 6), 0);
	CHECK(kill(child, 0) == 0);
	zkl_fence_close(fence);
	close(leaver.go[0]);
	close(leaver.go[1]);
	close(told[0]);
	close(told[1]);
}

static int fork_inside(void *user)
{
	zkl_fence  *fence = *(zkl_fence **)user;
	const pid_t child = fork();

	/* It comes out of zkl_fence_admit() too, and must not let go of its parent's lock. */
	if (child == 0)
		return 77;
	CHECK_INT(ask(fence, 9), ZKL_EDEADLK);
	return (int)child;
}

static void handle_of_a_parent_is_refused(void)
{
	const char *file = new_file();
	zkl_fence  *fence = open_fence(file), *memory = open_fence(NULL);

	CHECK_INT(ask(fence, 5), 0);
	fflush(stdout);
	const int child = zkl_fence_admit(fence, 5, fork_inside, &fence, NULL);
	if (child == 77) {
		const bool refused = ask(fence, 9) == ZKL_EFORKED && ask(memory, 9) == ZKL_EFORKED &&
		                     zkl_fence_mark(fence) == 0;

		zkl_fence_close(fence);
		zkl_fence_close(memory);
		_exit(!refused);
	}
	CHECK(child > 0);
	has_ended(child);
	CHECK_INT(ask(fence, 9), 0);
	zkl_fence_close(fence);
	zkl_fence_close(memory);
}

/* ---- files that will not do ------------------------------------------------------------------------------------------------- */

static void write_file(const char *file, const char *content, size_t size)
{
	FILE *out = fopen(file, "we");

	CHECK(out && fwrite(content, 1, size, out) == size);
	if (out)
		fclose(out);
}

static void read_file(const char *file, char *content)
{
	FILE *in = fopen(file, "re");

	memset(content, 0, SIZE);
	CHECK(in && fread(content, 1, SIZE, in) == SIZE);
	if (in)
		fclose(in);
}

static void check_refused(const char *file, int code, int sys_errno, const char *expected)
{
	zkl_fence *fence = NULL;
	zkl_error  error = {0};

	CHECK_INT(zkl_fence_open(file, &fence, &error), code);
	CHECK_INT(error.code, code);
	CHECK_INT(error.sys_errno, sys_errno);
	if (!strstr(error.message, expected))
		FAIL("\"%s\" is not in \"%s\"", expected, error.message);
	CHECK(fence == NULL);
}

static void file_that_is_none_of_ours_is_refused_and_not_touched(void)
{
	static const struct {
		const char *content;
		const char *expected;
	} foreign[] = {
		{"", " is not a fence's file"},
		{"root:x:0:0:root:/root:/bin/sh\n", " is not a fence's file"},
		{"zklock-fence 2 mark 00000000000000000007 check 0123456789abcdef\n", " has a later format"},
		{"zklock-fence 1 mark 00000000000000000007 check 0123456789abcdef\n", " is damaged"},
		{"zklock-fence 1 mark", " is damaged"},
	};
	char content[SIZE];

	for (size_t i = 0; i < COUNT(foreign); i++) {
		const char *file = new_file();
		FILE       *in;

		write_file(file, foreign[i].content, strlen(foreign[i].content));
		check_refused(file, ZKL_EINVAL, 0, foreign[i].expected);
		in = fopen(file, "re");
		CHECK(in && fread(content, 1, SIZE, in) == strlen(foreign[i].content));
		CHECK(memcmp(content, foreign[i].content, strlen(foreign[i].content)) == 0);
		if (in)
			fclose(in);
	}
	check_refused("/dev/null", ZKL_EINVAL, 0, " is not a regular file");
	check_refused(folder, ZKL_ESYS, EISDIR, "Is a directory");
	check_refused(in_folder(""), ZKL_EINVAL, 0, " is a directory: name a file in it");
	check_refused(in_folder("no/such/fence"), ZKL_ESYS, ENOENT, "cannot open the directory");
	CHECK(symlink("fence0", in_folder("link")) == 0 && symlink("nowhere", in_folder("dangling")) == 0);
	check_refused(in_folder("link"), ZKL_EINVAL, ELOOP, " is a symbolic link");
	check_refused(in_folder("dangling"), ZKL_EINVAL, ELOOP, " is a symbolic link");
}

static void damage(char *content, unsigned copies)
{
	for (size_t i = 0; i < 4; i++)
		if (copies & 1U << i)
			content[i * 4096 + 50] ^= 1;
}

static void damage_to_some_copies_costs_nothing_to_all_the_file(void)
{
	const char *file = new_file();
	zkl_fence  *fence = open_fence(file);
	char        good[SIZE], bad[SIZE];

	CHECK_INT(ask(fence, 5), 0);
	zkl_fence_close(fence);
	read_file(file, good);
	for (unsigned at = 0; at < 256; at++) {
		const size_t byte = at % 64 + at / 64 * 4096;

		memcpy(bad, good, SIZE);
		bad[byte] = (char)(bad[byte] ^ 1 << at % 7);
		write_file(file, bad, SIZE);
		fence = open_fence(file);
		CHECK_INT(zkl_fence_mark(fence), 5);
		CHECK_INT(ask(fence, 4), ZKL_ESTALE);
		CHECK_INT(ask(fence, 5), 0);
		zkl_fence_close(fence);
		/* And it is whole again. */
		read_file(file, bad);
		CHECK(memcmp(bad, good, SIZE) == 0);
	}
	for (unsigned copies = 1; copies < 15; copies++) {
		memcpy(bad, good, SIZE);
		damage(bad, copies);
		write_file(file, bad, SIZE);
		fence = open_fence(file);
		CHECK_INT(ask(fence, 4), ZKL_ESTALE);
		CHECK_INT(ask(fence, 5), 0);
		zkl_fence_close(fence);
		read_file(file, bad);
		CHECK(memcmp(bad, good, SIZE) == 0);
	}
	memcpy(bad, good, SIZE);
	damage(bad, 15);
	write_file(file, bad, SIZE);
	check_refused(file, ZKL_EINVAL, 0,
	              " is damaged: when no old holder lives, remove it, and its mark begins anew");
	write_file(file, good, 4096);
	check_refused(file, ZKL_EINVAL, 0, " is damaged: it has 4096 bytes in place of 16384");
}

static void file_that_changes_while_it_is_open_is_seen(void)
{
	const char *file = new_file(), *aside = new_file();
	zkl_fence  *fence = open_fence(file);
	zkl_error   error;
	char        five[SIZE], nine[SIZE];

	CHECK_INT(ask(fence, 5), 0);
	read_file(file, five);
	CHECK_INT(ask(fence, 9), 0);
	read_file(file, nine);
	/* In place: back to a mark that it had. */
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	CHECK(pwrite(fd, five, SIZE, 0) == SIZE);
	CHECK_INT(zkl_fence_admit(fence, 10, NULL, NULL, &error), ZKL_ESTATE);
	CHECK(strstr(error.message, "went back from 9 to 5") != NULL);
	CHECK_INT(zkl_fence_mark(fence), 9);
	CHECK_INT(ask(fence, 8), ZKL_ESTALE);
	memset(five, 'x', SIZE);
	CHECK(pwrite(fd, five, SIZE, 0) == SIZE);
	CHECK_INT(zkl_fence_admit(fence, 10, NULL, NULL, &error), ZKL_ESTATE);
	CHECK(strstr(error.message, "is not a fence's file") != NULL);
	CHECK(pwrite(fd, nine, SIZE, 0) == SIZE);
	close(fd);
	CHECK_INT(ask(fence, 10), 0);
	/* Another file under its name, or none. */
	CHECK(rename(file, aside) == 0);
	CHECK_INT(zkl_fence_admit(fence, 11, NULL, NULL, &error), ZKL_ESTATE);
	CHECK(strstr(error.message, "was removed or replaced while open") != NULL);
	zkl_fence *other = open_fence(file);
	CHECK_INT(ask(other, 1), 0);
	CHECK_INT(ask(fence, 11), ZKL_ESTATE);
	zkl_fence_close(other);
	CHECK(rename(aside, file) == 0);
	CHECK_INT(ask(fence, 11), 0);
	zkl_fence_close(fence);
}

/* ---- places that will not do ------------------------------------------------------------------------------------------------- */

static bool write_line(const char *file, const char *text)
{
	int  fd = open(file, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* As the only user of a namespace. */
static bool become_root(unsigned user, unsigned group)
{
	char users[32], groups[32];

	snprintf(users, sizeof users, "0 %u 1", user);
	snprintf(groups, sizeof groups, "0 %u 1", group);
	return write_line("/proc/self/setgroups", "deny") && write_line("/proc/self/uid_map", users) &&
	       write_line("/proc/self/gid_map", groups);
}

/* A file system of our own at `folder`. */
static bool mount_small(const char *options)
{
	const unsigned user = getuid(), group = getgid();

	if (unshare(CLONE_NEWNS | (user ? CLONE_NEWUSER : 0)) < 0)
		return false;
	if (user && !become_root(user, group))
		return false;
	return mount("none", "/", "none", MS_REC | MS_PRIVATE, "") == 0 &&
	       mount("fence", folder, "tmpfs", 0, options) == 0;
}

/* What fails there the child prints itself; here it is one failure. */
static void in_child(void (*run)(void))
{
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0) {
		run();
		for (CU_pFailureRecord one = CU_get_failure_list(); one; one = one->pNext)
			printf("\n    line %u: %s", one->uiLineNumber, one->strCondition);
		fflush(stdout);
		_exit(CU_get_number_of_failure_records() > 0);
	}
	has_ended(child);
}

static void fill_disk(void)
{
	char junk[4096] = {1};
	int  fd = open(in_folder("junk"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	while (write(fd, junk, sizeof junk) == sizeof junk)
		continue;
	CHECK_INT(errno, ENOSPC);
	close(fd);
}

static void use_full_disk(void)
{
	zkl_fence *fence;

	if (!mount_small("size=64k")) {
		puts("(no file systems of our own here)");
		return;
	}
	fence = open_fence(in_folder("before"));
	CHECK_INT(ask(fence, 5), 0);
	fill_disk();
	CHECK_INT(ask(fence, 6), 0);
	zkl_fence_close(fence);
	fence = open_fence(in_folder("before"));
	CHECK_INT(ask(fence, 7), 0);
	CHECK_INT(ask(fence, 6), ZKL_ESTALE);
	check_refused(in_folder("after"), ZKL_ESYS, ENOSPC, "cannot make ");
	CHECK(access(in_folder("after"), F_OK) < 0);
	/* Where there is room for the half of it, nothing is left behind. */
	CHECK(truncate(in_folder("junk"), 40 * 1024) == 0);
	check_refused(in_folder("after"), ZKL_ESYS, ENOSPC, "No space left on device");
	CHECK(truncate(in_folder("junk"), 28 * 1024) == 0);
	zkl_fence_close(fence);
	fence = open_fence(in_folder("after"));
	CHECK_INT(ask(fence, 1), 0);
	zkl_fence_close(fence);

	CHECK(mount("none", folder, "none", MS_REMOUNT | MS_RDONLY, "") == 0);
	check_refused(in_folder("before"), ZKL_EACCES, EROFS, "cannot open ");
	check_refused(in_folder("missing"), ZKL_EACCES, EROFS, "cannot make ");
}

static void full_disk_keeps_no_mark_from_being_raised_and_a_read_only_one_is_refused(void)
{
	in_child(use_full_disk);
}

static void become_nobody(void)
{
	struct statvfs sys;

	if (getuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
		return;
	check_refused(in_folder("denied"), ZKL_EACCES, EACCES, "cannot open ");
	/* No files without a name there; and containers have it read-only. */
	CHECK(statvfs("/sys", &sys) == 0);
	check_refused("/sys/fence", ZKL_EACCES, sys.f_flag & ST_RDONLY ? EROFS : EACCES, "cannot make ");
	check_refused("/etc/fence", ZKL_EACCES, EACCES, "cannot make ");
}

static void file_without_permission_is_refused(void)
{
	zkl_fence_close(open_fence(in_folder("denied")));
	CHECK(chmod(in_folder("denied"), 0444) == 0 && chmod(folder, 0755) == 0);
	in_child(become_nobody);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	(void)status;
	(void)kind;
	(void)where;
	return remove(path);
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(older_token_is_refused_and_an_equal_one_is_not),
		TEST(token_that_no_grant_has_is_invalid),
		TEST(mark_outlives_the_handle_and_is_shared_by_all),
		TEST(mark_can_be_read_by_people),
		TEST(access_that_asks_its_own_fence_is_told),
		TEST(threads_come_one_at_a_time_with_tokens_that_grow),
		TEST(asking_in_memory_waits_for_no_access),
		TEST(mark_in_memory_only_grows_under_many_that_ask),
		TEST(processes_come_one_at_a_time_with_tokens_that_grow),
		TEST(access_of_a_killed_process_is_over),
		TEST(child_that_closes_its_handle_keeps_nobody_out),
		TEST(handle_of_a_parent_is_refused),
		TEST(file_that_is_none_of_ours_is_refused_and_not_touched),
		TEST(damage_to_some_copies_costs_nothing_to_all_the_file),
		TEST(file_that_changes_while_it_is_open_is_seen),
		TEST(full_disk_keeps_no_mark_from_being_raised_and_a_read_only_one_is_refused),
		TEST(file_without_permission_is_refused),
		{0},
	};

	alarm(100);
	if (!mkdtemp(folder))
		return 2;
	const int status = check_main("fence", tests, argc, argv);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return status;
}
