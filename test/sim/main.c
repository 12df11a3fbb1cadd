/* SPDX-License-Identifier: Apache-2.0 */
/* sim: runs schedules, one a seed, in parallel; of a failure it shows the shortest form that it finds.
 *
 *     sim [--schedules N] [--seed S] [--jobs J]   N schedules from seed S on; without N until interrupted
 *     sim --seed S --replay [--without MASK]      one schedule, with its trace; MASK leaves out parts of it
 *     sim ... --coverage                          and which states met which events; fails where a possible pair is missing
 *     sim ... --hunt                              stops at the first failure, which it does not shorten */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coverage.h"
#include "schedule.h"

enum { JOBS_MAX = 64, SHOWN = 5, BUCKETS = 200, BUCKET = 50 };

struct options {
	uint64_t schedules, seed, without; /* schedules 0: without end */
	unsigned jobs;
	bool     replay, coverage, hunt;
};

/* What a worker has found. */
struct share {
	pid_t    worker;
	uint64_t seed;   /* that is being run */
	uint64_t digest; /* of all that it ran, in whatever order */
	uint64_t passed, failed, events, grants, losses, elections;
	uint64_t events_of[BUCKETS];
	unsigned least_faults, least_owners;
	uint64_t failures[SHOWN]; /* seeds */
	uint64_t invariant_of[SHOWN];
	char     counts[16384];
};

/* In memory that the workers share with who started them. */
static struct {
	atomic_bool  stop; /* to be looked at between two schedules; a signal to whichever of them stops all */
	struct share shares[JOBS_MAX];
} * common;

static void on_signal(int sig)
{
	(void)sig;
	atomic_store(&common->stop, true);
}

/* ---- one schedule ------------------------------------------------------------------------------------------------ */

static bool fails_alike(uint64_t seed, uint64_t without, enum invariant invariant)
{
	struct schedule_result r;

	schedule_run(seed, without, false, &r);
	return r.failed && r.invariant == invariant;
}

/* Leaves out whatever is not needed for the failure, until nothing more can be. */
static uint64_t shrink(uint64_t seed, enum invariant invariant)
{
	uint64_t without = 0;
	bool     again = true;

	while (again) {
		again = false;
		for (unsigned part = 0; part < SCHEDULE_PARTS; part++) {
			uint64_t bit = UINT64_C(1) << part;

			if (without & bit || !schedule_has_part(seed, part) ||
			    !fails_alike(seed, without | bit, invariant))
				continue;
			without |= bit;
			again = true;
		}
	}
	return without;
}

static int replay(const struct options *o)
{
	struct schedule_result r;

	schedule_run(o->seed, o->without, true, &r);
	printf("%" PRIu64 " events in %" PRId64 " ms, %u grants, %u losses: %s\n", r.events, r.length_ns / 1000000,
	       r.grants, r.losses, r.failed ? invariant_name(r.invariant) : "passed");
	return r.failed;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void note(struct share *s, uint64_t seed, const struct schedule_result *r)
{
	uint64_t bucket = r->events / BUCKET;

	s->digest += r->digest;
	s->events += r->events;
	s->grants += r->grants;
	s->losses += r->losses;
	s->elections += r->elections > 1;
	s->events_of[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
	s->least_faults = r->faults < s->least_faults ? r->faults : s->least_faults;
	s->least_owners = r->owners < s->least_owners ? r->owners : s->least_owners;
	if (!r->failed) {
		s->passed++;
		return;
	}
	if (s->failed < SHOWN) {
		s->failures[s->failed] = seed;
		s->invariant_of[s->failed] = r->invariant;
		printf("seed %" PRIu64 ": %s: %s\n", seed, invariant_name(r->invariant), r->text);
		fflush(stdout);
	}
	s->failed++;
}

static void work(const struct options *o, unsigned job, struct share *s)
{
	const void *counts;
	size_t      size;

	s->least_faults = s->least_owners = UINT32_MAX;
	for (uint64_t i = job; (!o->schedules || i < o->schedules) && !atomic_load(&common->stop); i += o->jobs) {
		struct schedule_result r;

		s->seed = o->seed + i;
		schedule_run(s->seed, o->without, false, &r);
		note(s, s->seed, &r);
		if (r.failed && o->hunt)
			atomic_store(&common->stop, true);
	}
	counts = coverage_counts(&size);
	if (size <= sizeof s->counts)
		memcpy(s->counts, counts, size);
}

/* It ends with who has started it, however that ends. */
static bool start(const struct options *o, unsigned job)
{
	pid_t parent = getpid(), child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			work(o, job, &common->shares[job]);
		_exit(0);
	}
	common->shares[job].worker = child;
	return child > 0;
}

/* False: one of them has crashed, and is named by what it did. */
static bool wait_for_all(const struct options *o)
{
	bool good = true;
	int  status;

	for (pid_t ended; (ended = wait(&status)) > 0;) {
		unsigned job = 0;

		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		while (job + 1 < o->jobs && common->shares[job].worker != ended)
			job++;
		fprintf(stderr, "sim: a worker has crashed at seed %" PRIu64 "\n", common->shares[job].seed);
		good = false;
		if (o->hunt)
			atomic_store(&common->stop, true);
	}
	return good;
}

static uint64_t median_events(const struct share *shares, unsigned jobs, uint64_t count)
{
	uint64_t seen = 0;

	for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
		for (unsigned i = 0; i < jobs; i++)
			seen += shares[i].events_of[bucket];
		if (2 * seen >= count)
			return (uint64_t)bucket * BUCKET;
	}
	return 0;
}

static void add(struct share *all, const struct share *one)
{
	all->digest += one->digest;
	all->passed += one->passed;
	all->failed += one->failed;
	all->events += one->events;
	all->grants += one->grants;
	all->losses += one->losses;
	all->elections += one->elections;
	all->least_faults = one->least_faults < all->least_faults ? one->least_faults : all->least_faults;
	all->least_owners = one->least_owners < all->least_owners ? one->least_owners : all->least_owners;
}

static void show_first_failure(const struct share *shares, const struct options *o)
{
	for (unsigned i = 0; i < o->jobs; i++) {
		uint64_t without;

		if (!shares[i].failed)
			continue;
		without = shrink(shares[i].failures[0], (enum invariant)shares[i].invariant_of[0]);
		printf("\nseed %" PRIu64 " without what it does not need (--replay --seed %" PRIu64
		       " --without 0x%" PRIx64 "):\n",
		       shares[i].failures[0], shares[i].failures[0], without);
		replay(&(struct options){.seed = shares[i].failures[0], .without = without});
		return;
	}
}

static int run(const struct options *o)
{
	const struct share *shares;
	struct share        all = {.least_faults = UINT32_MAX, .least_owners = UINT32_MAX};
	bool                covered = true, started = true, good;

	common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		return 2;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	for (unsigned i = 0; i < o->jobs && started; i++)
		started = start(o, i);
	if (!started)
		atomic_store(&common->stop, true);
	good = wait_for_all(o) && started;
	/* What is left takes a while at most: a signal ends it. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	shares = common->shares;
	for (unsigned i = 0; i < o->jobs; i++) {
		add(&all, &shares[i]);
		coverage_add(shares[i].counts);
	}
	if (all.failed && !o->hunt)
		show_first_failure(shares, o);
	if (o->coverage)
		covered = coverage_print();
	printf("%" PRIu64 " schedules: at least %u contenders and %u faults, in the median %" PRIu64 " events; %" PRIu64
	       " grants, %" PRIu64 " losses, %" PRIu64 " with elections of a leader\n",
	       all.passed + all.failed, all.least_owners, all.least_faults,
	       median_events(shares, o->jobs, all.passed + all.failed), all.grants, all.losses, all.elections);
	printf("digest %016" PRIx64 "\n", all.digest);
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", all.passed, all.failed);
	return !good ? 3 : all.failed || !covered;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int usage(void)
{
	fprintf(stderr, "usage: sim [--schedules N] [--seed S] [--jobs J] [--coverage] [--hunt]\n"
	                "       sim --seed S --replay [--without MASK]\n");
	return 64;
}

static bool parse_number(const char *text, uint64_t *ret)
{
	char *end;

	if (!text)
		return false;
	*ret = strtoull(text, &end, 0);
	return *text && !*end;
}

static bool parse(char **argv, struct options *o)
{
	uint64_t jobs = o->jobs;

	for (; *argv; argv++) {
		uint64_t *number = !strcmp(*argv, "--schedules") ? &o->schedules
		                   : !strcmp(*argv, "--seed")    ? &o->seed
		                   : !strcmp(*argv, "--without") ? &o->without
		                   : !strcmp(*argv, "--jobs")    ? &jobs
		                                                 : NULL;

		if (number && parse_number(argv[1], number))
			argv++;
		else if (!number && !strcmp(*argv, "--replay"))
			o->replay = true;
		else if (!number && !strcmp(*argv, "--coverage"))
			o->coverage = true;
		else if (!number && !strcmp(*argv, "--hunt"))
			o->hunt = true;
		else
			return false;
	}
	o->jobs = (unsigned)jobs;
	return jobs > 0 && jobs <= JOBS_MAX;
}

int main(int argc, char **argv)
{
	struct options o = {.seed = 1, .jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN)};

	(void)argc;
	if (o.jobs < 1 || o.jobs > JOBS_MAX)
		o.jobs = 1;
	if (!parse(argv + 1, &o))
		return usage();
	return o.replay ? replay(&o) : run(&o);
}
