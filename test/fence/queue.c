/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* A line of /proc/locks with an arrow waits. */
bool somebody_waits_for(const char *file)
{
	char        line[200], end[40];
	bool        found = false;
	struct stat status;
	FILE       *locks = stat(file, &status) == 0 ? fopen("/proc/locks", "re") : NULL;

	if (!locks)
		return false;
	snprintf(end, sizeof end, ":%ju 0 EOF", (uintmax_t)status.st_ino);
	while (!found && fgets(line, sizeof line, locks))
		found = strstr(line, " -> ") && strstr(line, end);
	fclose(locks);
	return found;
}

bool child_waits_for(const char *file, pid_t child)
{
	const struct timespec pause = {.tv_nsec = 200000};

	for (siginfo_t info = {0}; !somebody_waits_for(file); nanosleep(&pause, NULL))
		if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid != 0)
			return false;
	return true;
}
