/* SPDX-License-Identifier: Apache-2.0 */
/* Every fault at every request of every operation, with every way back, on real servers:
 *
 *     faults [-j JOBS] [OPERATION[:FAULT[:K[:RETURN]]]...]
 *
 * Each point is a process of its own, since a client that meets a broken protocol may abort, and since they mostly wait. How
 * many requests an operation makes at least (more where a server lags) is found by runs of it without a fault. A point that
 * fails is printed with its name, which runs it alone. */
#include "operations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPERATIONS_MAX 32
#define JOBS_MAX       200
#define UNHARMED       4 /* runs of each operation */
#define POINT_S        240
#define TRIES          4 /* of a point that is void */
#define VOID           3 /* the status of its process then */

typedef enum ways_back { SAME, OTHER, NEW, WAYS_BACK } ways_back;
static const char *const way_back_names[] = {
	"same",  /* to the same server */
	"other", /* to another one */
	"new",   /* as a new session: the old one was ended meanwhile */
};

typedef struct fault {
	const char *name;
	proxy_act   act;
} fault;
static const fault faults[] = {
	{"none", 0},
	{"cut-before", PROXY_CUT_BEFORE},           /* the request is not carried out */
	{"cut-after", PROXY_LOSE_REPLY},            /* it is, and its reply is lost */
	{"cut-behind", PROXY_CUT_AFTER_REPLY},      /* the reply arrives, and nothing behind it */
	{"swallow-request", PROXY_SWALLOW_REQUEST}, /* the same two, and the connection stays */
	{"swallow-reply", PROXY_SWALLOW_REPLY},
	/* silence in both directions from the request on; then all that was held goes on */
	{"black-hole", PROXY_HOLD_ALL},
};
enum { NONE = 0, FAULTS = sizeof faults / sizeof *faults };

typedef struct point {
	const operation *operation;
	const fault     *fault;
	int              k;
	ways_back        back;
	char             name[64];
	/* While it runs. */
	pid_t pid;
	int   out, tries;
} point;

static _Atomic int *requests; /* of each operation, at least; 0: not run yet. Shared with the processes of the points */
static const point *present;

/* ---- one point ---- */

static bool is_away(const scene *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	if (s->closing)
		return atomic_load(&s->closed);
	zkl_session_stats(s->session, &stats);
	return !stats.connected;
}

static bool is_elsewhere(const scene *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	if (s->closing)
		return atomic_load(&s->closed);
	zkl_session_stats(s->session, &stats);
	return stats.connected && stats.reconnects + stats.expiries > 0;
}

/* Who is idle may learn of it with its next request only. */
static bool acts_on_its_end(scene *s)
{
	zkl_stats stats = ZKL_STATS_INIT;
	if (!scene_holds(s) || party_count(s, OURS, ZKL_EV_LOST) > 0)
		return true;
	zkl_session_stats(s->session, &stats);
	return stats.expiries > 0;
}

/* A holder that hears nothing has to stop before its session expires and another is granted. */
static void end_session(scene *s, const point *p)
{
	if (p->fault->act != PROXY_HOLD_ALL || !scene_holds(s)) {
		net_end_session(&s->way);
		return;
	}
	party_start(s, WITNESS, ZKL_FOREVER);
	party_await(s, WITNESS, ZKL_EV_GRANTED, NULL);
}

/* It hangs up when it has heard nothing for two thirds of its timeout, and what was held comes late. No lease covers an end
 * that comes before its time, so that nobody else contends until it is known. */
static void come_back(scene *s, const point *p)
{
	proxy *way = s->way.at[0];
	if (p->back == NEW)
		end_session(s, p);
	if (p->fault->act == PROXY_HOLD_ALL) {
		EVENTUALLY(p->back == OTHER ? is_elsewhere(s) : is_away(s), ENOUGH_MS);
		proxy_hold(way, 0);
	}
	proxy_set_door(way, p->back == OTHER ? PROXY_REFUSING : PROXY_OPEN);
	if (p->back == NEW)
		EVENTUALLY(acts_on_its_end(s), ENOUGH_MS);
}

/* To be met by a closed door is how the client is kept away until its session has been ended, or for good. Who only misses a
 * frame stays connected, and finds its session ended. */
static proxy_door door_of(const point *p)
{
	bool cut = p->fault->act <= PROXY_CUT_AFTER_REPLY;
	return p->back == OTHER || (p->back == NEW && cut) ? PROXY_REFUSING : PROXY_OPEN;
}

static void note_requests(_Atomic int *least, int count)
{
	int before = 0;
	while (!atomic_compare_exchange_weak(least, &before, count) && (before == 0 || count < before))
		continue;
}

/* Whose lease runs out before that, since nothing got a turn, makes no request that it could be struck at. */
static bool is_struck(scene *s)
{
	int64_t end_ms = now_ms() + ENOUGH_MS;
	bool    struck;
	while (!(struck = proxy_wait_struck(s->way.at[0], 20)) && now_ms() < end_ms)
		if (party_count(s, OURS, ZKL_EV_LOST) > 0)
			exit(VOID);
	return struck;
}

static void run_point(void)
{
	const point     *p = present;
	const operation *o = p->operation;
	scene            s;
	scene_open(&s, o->election, p->back == OTHER ? 2 : 1);
	if (o->prepare != NULL)
		o->prepare(&s);
	net_reset_counts(&s.way);
	proxy_rule rule = {.op = o->op, .nth = p->k, .act = p->fault->act, .door = door_of(p)};
	if (p->k > 0)
		proxy_arm(s.way.at[0], &rule);
	o->begin(&s);
	bool struck = p->k > 0 && is_struck(&s);
	if (struck)
		come_back(&s, p);
	o->outcome(&s);
	net_settled_requests(&s.way);
	if (!struck)
		note_requests(&requests[o - operations], net_requests(&s.way, o->op));
	/* It needed fewer requests than each of the unharmed runs, all of which a stall may have met. */
	if (p->k > 0 && !struck && CU_get_number_of_failures() == 0)
		exit(VOID);
	if (o->resolve != NULL)
		o->resolve(&s);
	scene_prove(&s);
	scene_close(&s);
}

/* ---- all of them ---- */

static void point_begin(point *p)
{
	p->out = memfd_create(p->name, 0);
	fflush(stdout);
	p->pid = fork();
	if (p->pid < 0 || p->out < 0) {
		perror(p->name);
		exit(EXIT_FAILURE);
	}
	if (p->pid > 0)
		return;
	char *argv[] = {p->name, NULL};
	test  tests[] = {{p->name, run_point, POINT_S}, {0}};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(p->out, STDOUT_FILENO);
	dup2(p->out, STDERR_FILENO);
	present = p;
	exit(harness_main(1, argv, "faults", tests));
}

static void print_output(int fd)
{
	char bytes[4096];
	lseek(fd, 0, SEEK_SET);
	for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
		fwrite(bytes, 1, (size_t)n, stdout);
}

static point *of_process(point *points, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (points[i].pid == pid)
			return &points[i];
	return NULL;
}

/* Waits for any of the points that run. Returns whether it passed. */
static bool point_end(point *points, size_t count)
{
	int    status = 0;
	point *p = of_process(points, count, wait(&status));
	bool   passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (p == NULL)
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == VOID) {
		printf("void    %s\n", p->name);
		passed = p->k > atomic_load(&requests[p->operation - operations]);
		if (!passed && ++p->tries < TRIES) {
			close(p->out);
			point_begin(p);
			return point_end(points, count);
		}
	}
	if (!passed) {
		print_output(p->out);
		printf("FAILED %s\n", p->name);
	}
	close(p->out);
	p->pid = 0;
	return passed;
}

/* Returns how many failed. */
static int run_all(point *points, size_t count, int jobs)
{
	int failed = 0, running = 0;
	for (size_t next = 0; next < count || running > 0;) {
		if (next < count && running < jobs) {
			point_begin(&points[next++]);
			running++;
			continue;
		}
		failed += !point_end(points, next);
		running--;
	}
	return failed;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		size_t len = strlen(argv[i]);
		if (strncmp(name, argv[i], len) == 0 && (name[len] == '\0' || name[len] == ':'))
			return true;
	}
	return argc == 0;
}

static point point_of(const operation *o, const fault *f, int k, ways_back back)
{
	point p = {.operation = o, .fault = f, .k = k, .back = back};
	snprintf(p.name, sizeof p.name, "%s:%s:%d:%s", o->name, f->name, k, way_back_names[back]);
	return p;
}

/* Does any point of the operation have one of these names? */
static bool is_touched(const operation *o, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strncmp(o->name, argv[i], strcspn(argv[i], ":")) == 0 && o->name[strcspn(argv[i], ":")] == '\0')
			return true;
	return argc == 0;
}

static size_t list_unharmed(point *ret, int argc, char **argv)
{
	size_t count = 0;
	for (const operation *o = operations; o->name != NULL; o++)
		for (int i = 0; i < UNHARMED && is_touched(o, argc, argv); i++)
			ret[count++] = point_of(o, &faults[NONE], 0, SAME);
	return count;
}

/* The points of an operation that are wanted. */
static size_t list_points(point *ret, const operation *o, int argc, char **argv)
{
	size_t count = 0;
	int    k_max = requests[o - operations];
	if (o->most > 0 && k_max > o->most)
		k_max = o->most;
	for (int k = 1; k <= k_max; k++)
		for (const fault *f = faults + 1; f < faults + FAULTS; f++)
			for (ways_back back = 0; back < WAYS_BACK; back++) {
				ret[count] = point_of(o, f, k, back);
				count += is_wanted(ret[count].name, argc, argv);
			}
	if (count > 0)
		printf("%-10s %2d requests, %3zu points\n", o->name, k_max, count);
	return count;
}

int main(int argc, char **argv)
{
	static point points[4000], unharmed[OPERATIONS_MAX * UNHARMED];
	int          jobs = 24, failed;
	if (argc > 2 && strcmp(argv[1], "-j") == 0) {
		jobs = atoi(argv[2]);
		argv[2] = argv[0];
		argc -= 2;
		argv += 2;
	}
	if (jobs < 1 || jobs > JOBS_MAX) {
		fprintf(stderr, "faults: JOBS is 1 to %d\n", JOBS_MAX);
		return EXIT_FAILURE;
	}
	if (all_servers() == NULL) {
		printf("SKIP faults: ZKLOCK_TEST_SERVERS names no servers\n");
		return 77;
	}
	argc--;
	argv++;
	requests = mmap(NULL, OPERATIONS_MAX * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	                0);
	int64_t start_ms = now_ms();
	size_t  operation_count = list_unharmed(unharmed, argc, argv), count = 0;
	failed = run_all(unharmed, operation_count, jobs);
	for (size_t i = 0; i < operation_count; i += UNHARMED)
		count += list_points(points + count, unharmed[i].operation, argc, argv);
	failed += run_all(points, count, jobs);
	count += operation_count;
	printf("%zu points in %.1f s\n", count, (double)(now_ms() - start_ms) / 1000);
	printf("%d passed, %d failed\n", (int)count - failed, failed);
	return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
