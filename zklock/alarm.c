/* SPDX-License-Identifier: Apache-2.0 */
#include "alarm.h"

#include <sys/timerfd.h>
#include <time.h>

#define NS_PER_S (1000 * ZKL__NS_PER_MS)

int64_t zkl__alarm_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int zkl__alarm_open(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void zkl__alarm_set(int alarm, int64_t at_ns)
{
	/* 0 would disarm it. */
	const int64_t           at = at_ns < 1 ? 1 : at_ns;
	const struct itimerspec spec = {
		.it_value = {.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)}};

	timerfd_settime(alarm, TFD_TIMER_ABSTIME, &spec, NULL);
}
