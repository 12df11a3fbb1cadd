/* SPDX-License-Identifier: Apache-2.0 */
/* A clock that runs at another rate, for a process and its children: LD_PRELOAD=clockrate.so
 * ZKLOCK_CHAOS_CLOCK="PPM BASE_NS", faster by so many millionths from BASE_NS (CLOCK_BOOTTIME) on.
 *
 * The clocks of leases are bent, and what waits until a moment by them; a wait for a length of time is left as it is. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS    1000000000
#define SHOWN __attribute__((visibility("default")))

static int64_t rate_ppm, base_ns;

__attribute__((constructor)) static void set_up(void)
{
	const char *text = getenv("ZKLOCK_CHAOS_CLOCK");
	long long   ppm = 0, base = 0;
	if (text != NULL && sscanf(text, "%lld %lld", &ppm, &base) == 2) {
		rate_ppm = ppm;
		base_ns = base;
	}
}

static int64_t to_ns(const struct timespec *t)
{
	return (int64_t)t->tv_sec * NS + t->tv_nsec;
}

static struct timespec to_timespec(int64_t ns)
{
	return (struct timespec){ns / NS, ns % NS};
}

static int64_t bend(int64_t ns)
{
	return ns + (ns - base_ns) / 1000000 * rate_ppm;
}

static struct timespec straight(const struct timespec *bent)
{
	int64_t ns = to_ns(bent);
	/* Moments of the wall clock are left alone; so is 0, which has a meaning of its own. */
	if (ns < base_ns / 2 || bent->tv_sec > 1000000000)
		return *bent;
	return to_timespec(base_ns + (int64_t)((double)(ns - base_ns) / (1 + (double)rate_ppm / 1e6)));
}

/* The C library's own parameters have names that are reserved.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
SHOWN int clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);
	if (r == 0 && (clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW))
		*t = to_timespec(bend(to_ns(t)));
	return r;
}

SHOWN int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct itimerspec at = *new;
	if (flags & TFD_TIMER_ABSTIME)
		at.it_value = straight(&new->it_value);
	return (int)syscall(SYS_timerfd_settime, fd, flags, &at, old);
}

typedef int wait_fn(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

SHOWN int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	static wait_fn *real;
	struct timespec at = straight(until);
	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
	return real(cond, mutex, &at);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
