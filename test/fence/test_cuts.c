/* SPDX-License-Identifier: Apache-2.0 */
/* A fence's file when the power goes, when its process is killed and when the disk fails: at every system call and at every
 * byte of a write. After each the file is opened anew: the mark is never below one that was admitted, and never above what was
 * asked for. The same again, with another cut in the midst of the recovery. */
#include <zklock/fence.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../unit/check.h"
#include "disk.h"

/* Of the file. */
#define COPIES 4
#define BLOCK  4096

/* Shared with children. */
static struct promise {
	uint64_t admitted, asked;
} * promise;

static char     folders[3][64]; /* where the work is done; after a cut; after a cut in the recovery */
static char     context[80];    /* of a failure */
static unsigned looked_at;
static bool     was_hit; /* killed, or had a failure */

static const char *file_in(const char *folder)
{
	static char path[3][80];
	static int  next;

	next = (next + 1) % 3;
	snprintf(path[next], sizeof path[next], "%s/fence", folder);
	return path[next];
}

/* ---- what processes do ---------------------------------------------------------------------------------------------------- */

static int access_it(void *user)
{
	const uint64_t token = *(const uint64_t *)user;

	if (token > promise->admitted)
		promise->admitted = token;
	return 0;
}

static int ask(zkl_fence *fence, uint64_t token, zkl_error *reterr)
{
	if (token > promise->asked)
		promise->asked = token;
	return zkl_fence_admit(fence, token, access_it, &token, reterr);
}

static void ask_for(zkl_fence *fence, uint64_t token)
{
	zkl_error error;
	const int r = ask(fence, token, &error);

	if (r < 0)
		FAIL("%s: token %" PRIu64 ": %s", context, token, error.message);
}

static zkl_fence *open_in(const char *folder)
{
	zkl_fence *fence = NULL;
	zkl_error  error;

	if (zkl_fence_open(file_in(folder), &fence, &error) < 0)
		FAIL("%s: %s", context, error.message);
	return fence;
}

/* ---- what happens at a call ------------------------------------------------------------------------------------------------ */

struct fate {
	unsigned at;    /* this call */
	int      error; /* 0: the process is killed */
	bool     met;
	char     name[16];
};

static int meet(void *user, unsigned number, const char *name)
{
	struct fate *fate = user;

	if (number != fate->at)
		return 0;
	fate->met = true;
	snprintf(fate->name, sizeof fate->name, "%s", name);
	if (!fate->error)
		raise(SIGKILL);
	return fate->error;
}

static disk_look look_after_cut;

static int cut_here(void *user, unsigned number, const char *name)
{
	const unsigned depth = *(const unsigned *)user;

	(void)number;
	(void)name;
	/* What a torn write leaves is taken for garbage: once is enough. */
	disk_each_cut(folders[depth], promise->admitted << 32 ^ promise->asked << 4 ^ depth, depth == 1 && !was_hit,
	              look_after_cut, user);
	return 0;
}

/* The power may go before each call from here on, and after the last. */
static void with_cuts(unsigned *depth, void (*work)(const char *folder), const char *folder)
{
	world->calls = 0;
	world->on_call = cut_here;
	world->user = depth;
	world->on = true;
	work(folder);
	world->on = false;
	cut_here(depth, 0, "end");
}

static void recover(const char *folder)
{
	zkl_fence     *fence = open_in(folder);
	const uint64_t asked = promise->asked;

	if (fence && promise->admitted > 1 &&
	    !CHECK(zkl_fence_admit(fence, promise->admitted - 1, NULL, NULL, NULL) == ZKL_ESTALE))
		FAIL("%s: an older token was admitted", context);
	if (fence && asked > 0)
		ask_for(fence, asked);
	if (fence)
		ask_for(fence, asked + 1);
	zkl_fence_close(fence);
}

static size_t read_all(const char *path, char *content)
{
	FILE  *file = fopen(path, "re");
	size_t size = file ? fread(content, 1, DISK_FILE_MAX, file) : 0;

	if (file)
		fclose(file);
	return size;
}

/* Recovery with cuts in it: the model begins anew, from what is on the disk now. */
static void recover_with_cuts(const char *folder)
{
	static struct disk_world kept;
	static char              content[DISK_FILE_MAX];
	static unsigned          last = 2;
	const size_t             size = read_all(file_in(folder), content);
	const struct promise     before = *promise;

	kept = *world;
	disk_start(folder, size ? "fence" : NULL, content, size);
	with_cuts(&last, recover, folder);
	*world = kept;
	*promise = before;
}

static bool is_slow(void)
{
	return CHECK_SLOW > 1 || getenv("ZKLOCK_TEST_VALGRIND");
}

/* Cuts after a kill or a failure are many already. */
static bool is_deep(void)
{
	return getenv("ZKLOCK_TEST_LONG") || (!was_hit && !is_slow());
}

static void look_after_cut(const char *folder, bool torn, void *user)
{
	const unsigned       depth = *(const unsigned *)user;
	const struct promise before = *promise;
	zkl_fence           *fence = open_in(folder);
	const uint64_t       mark = zkl_fence_mark(fence);

	looked_at++;
	zkl_fence_close(fence);
	if (mark < promise->admitted || mark > promise->asked)
		FAIL("%s: mark %" PRIu64 ", admitted %" PRIu64 ", asked for %" PRIu64, context, mark, promise->admitted,
		     promise->asked);
	if (depth == 1 && !torn && is_deep()) {
		recover_with_cuts(folder);
	} else {
		recover(folder);
		*promise = before;
	}
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------ */

static void start(const char *what, bool hit)
{
	was_hit = hit;
	disk_empty_folder(folders[0]);
	disk_start(folders[0], NULL, NULL, 0);
	*promise = (struct promise){0};
	snprintf(context, sizeof context, "%s", what);
}

static unsigned first_depth = 1;

static void first_life(const char *folder)
{
	zkl_fence *fence = NULL;
	zkl_error  error;

	if (zkl_fence_open(file_in(folder), &fence, &error) < 0)
		return;
	ask(fence, 5, NULL);
	ask(fence, 5, NULL);
	ask(fence, 9, NULL);
	zkl_fence_close(fence);
}

static void second_life(const char *folder)
{
	zkl_fence     *fence = open_in(folder);
	const uint64_t asked = promise->asked ? promise->asked : 1;

	/* It may stand in the file without being on the disk: no reason to admit it. */
	ask_for(fence, asked);
	zkl_fence_close(fence);
	/* Nor does who comes next know whether it is. */
	fence = open_in(folder);
	ask_for(fence, asked);
	ask_for(fence, asked + 1);
	ask_for(fence, asked + 1);
	ask_for(fence, asked + 2);
	zkl_fence_close(fence);
}

static void alternating_handles(const char *folder)
{
	zkl_fence *one = open_in(folder), *other = open_in(folder);

	ask_for(one, 5);
	ask_for(other, 7);
	ask_for(one, 7);
	ask_for(one, 9);
	ask_for(other, 9);
	ask_for(other, 10);
	ask_for(one, 12);
	zkl_fence_close(one);
	zkl_fence_close(other);
}

static void mark_survives_a_cut_of_the_power(void)
{
	for (int named = 0; named < 2; named++) {
		start(named ? "cut, made under another name" : "cut", false);
		world->all_have_names = named;
		with_cuts(&first_depth, first_life, folders[0]);
		CHECK_INT(promise->admitted, 9);
	}
	world->all_have_names = false;
}

static void mark_survives_a_cut_where_handles_alternate(void)
{
	start("alternating", false);
	with_cuts(&first_depth, alternating_handles, folders[0]);
	CHECK_INT(promise->admitted, 12);
}

/* What an earlier cut may have left: the marks of the copies, 0: damaged. All 0: no file. */
struct beginning {
	unsigned marks[COPIES];
};

static void begin_with(const struct beginning *beginning)
{
	static char whole[DISK_FILE_MAX], content[DISK_FILE_MAX];

	start("killed", true);
	memset(content, 'x', sizeof content);
	for (unsigned mark = 1; mark < 10; mark++)
		for (size_t i = 0; i < COPIES; i++) {
			if (beginning->marks[i] != mark)
				continue;
			zkl_fence *fence = open_in(folders[0]);

			ask_for(fence, mark);
			zkl_fence_close(fence);
			read_all(file_in(folders[0]), whole);
			memcpy(content + i * BLOCK, whole + i * BLOCK, BLOCK);
		}
	if (!promise->asked)
		return;
	FILE *file = fopen(file_in(folders[0]), "r+e");
	CHECK(file && fwrite(content, 1, sizeof content, file) == sizeof content);
	if (file)
		fclose(file);
	/* What is on the disk may have been admitted. */
	disk_start(folders[0], "fence", content, sizeof content);
}

/* Runs the first life until it is killed at this call; whether there was such a call. */
static bool killed_at(unsigned number, const struct beginning *beginning)
{
	struct fate fate = {.at = number};
	int         status = 0;

	begin_with(beginning);
	world->on_call = meet;
	world->user = &fate;
	fflush(stdout);
	const pid_t child = fork();
	if (child == 0) {
		world->on = true;
		first_life(folders[0]);
		world->on = false;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	world->on = false;
	snprintf(context, sizeof context, "killed at call %u after %u %u %u %u", number, beginning->marks[0],
	         beginning->marks[1], beginning->marks[2], beginning->marks[3]);
	CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	return WIFSIGNALED(status);
}

static void mark_survives_a_kill_at_every_call_and_a_cut_after_it(void)
{
	static const struct beginning beginnings[] = {{{0}},          {{0}},          {{4, 4, 4, 4}},
	                                              {{4, 4, 5, 5}}, {{4, 4, 5, 4}}, {{5, 4, 0, 4}},
	                                              {{0, 0, 5, 5}}, {{4, 4, 0, 0}}, {{5, 0, 0, 0}}};

	for (size_t i = 0; i < (is_slow() ? 3 : COUNT(beginnings)); i++) {
		unsigned number = 0;

		world->all_have_names = i == 0;

		for (; killed_at(number, &beginnings[i]); number++) {
			world->on_call = NULL;
			world->on = true;
			zkl_fence     *fence = open_in(folders[0]);
			const uint64_t mark = zkl_fence_mark(fence);

			zkl_fence_close(fence);
			if (mark < promise->admitted || mark > promise->asked)
				FAIL("%s: mark %" PRIu64 ", admitted %" PRIu64, context, mark, promise->admitted);
			with_cuts(&first_depth, second_life, folders[0]);
		}
		/* Opening, three times admitting: it was not killed in one place only. */
		CHECK(number > 25);
	}
}

/* What a failure must not leave behind: a file that is half made, or a handle that goes on. */
static void fail_at(struct fate *fate)
{
	zkl_fence *fence = NULL;
	zkl_error  error = {0};
	uint64_t   token = 5;
	int        r;

	start("failure", true);
	world->on_call = meet;
	world->user = fate;
	world->on = true;
	r = zkl_fence_open(file_in(folders[0]), &fence, &error);
	while (r == 0 && token <= 7 && (r = ask(fence, token, &error)) == 0)
		token++;
	world->on = false;
	snprintf(context, sizeof context, "errno %d at call %u, %s", fate->error, fate->at, fate->name);
	if (r < 0 &&
	    (error.code != r || error.sys_errno != fate->error || !strstr(error.message, strerror(fate->error))))
		FAIL("%s: code %d, errno %d, %s", context, error.code, error.sys_errno, error.message);
	if (fence && r < 0 && (strcmp(fate->name, "pwrite") == 0 || strcmp(fate->name, "fdatasync") == 0) &&
	    ask(fence, promise->asked, &error) != ZKL_ESTATE)
		FAIL("%s: the handle goes on", context);
	zkl_fence_close(fence);
}

static void mark_survives_a_failure_at_every_call_and_a_cut_after_it(void)
{
	static const int errors[] = {EIO, ENOSPC, EINTR};

	for (size_t i = 0; i < (is_slow() ? 1 : COUNT(errors)); i++) {
		struct fate fate = {.error = errors[i], .met = true};

		/* Each call twice. */
		for (unsigned at = 0; fate.met; at++) {
			fate.at = at / 2;
			fate.met = false;
			world->lost_is_garbage = at % 2;
			fail_at(&fate);
			if (fate.met)
				with_cuts(&first_depth, second_life, folders[0]);
		}
		CHECK(fate.at > 30);
	}
}

static void make_folders(void)
{
	const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	for (size_t i = 0; i < COUNT(folders); i++) {
		snprintf(folders[i], sizeof folders[i], "%s/zklock-fence-XXXXXX", parent);
		if (!mkdtemp(folders[i]))
			abort();
	}
}

static void remove_folders(void)
{
	for (size_t i = 0; i < COUNT(folders); i++) {
		disk_empty_folder(folders[i]);
		rmdir(folders[i]);
	}
}

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {TEST(mark_survives_a_cut_of_the_power),
	                                          TEST(mark_survives_a_cut_where_handles_alternate),
	                                          TEST(mark_survives_a_kill_at_every_call_and_a_cut_after_it),
	                                          TEST(mark_survives_a_failure_at_every_call_and_a_cut_after_it),
	                                          {0}};

	make_folders();
	disk_start(folders[0], NULL, NULL, 0);
	promise = mmap(NULL, sizeof *promise, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (promise == MAP_FAILED)
		return 2;
	const int status = check_main("fence_cuts", tests, argc, argv);
	remove_folders();
	printf("%u states of the disk\n", looked_at);
	return status;
}
