/* SPDX-License-Identifier: Apache-2.0 */
/* Each script against real servers: do they say what the simulation's say? */
#include "harness.h"
#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run(const char *name)
{
	char path[500];

	snprintf(path, sizeof path, "%s/%s.txt", getenv("ZKLOCK_TEST_SCRIPTS"), name);
	EXPECT_INT(script_run(path, &stage_real), 0);
}

#define RUN(name)                                                                                                      \
	static void name(void)                                                                                         \
	{                                                                                                              \
		run(#name);                                                                                            \
	}
SCRIPTS(RUN)

#define RUN_IF_CUT(name)                                                                                               \
	static void name(void)                                                                                         \
	{                                                                                                              \
		if (ensemble("heal", 1) == 77)                                                                         \
			SKIP("no server can be taken off its peers");                                                  \
		run(#name);                                                                                            \
	}
SCRIPTS_OF_SERVERS(RUN_IF_CUT)

#define TABLE(name) {TEST(name, 120)},

/* On servers that others use, too, all but those that cut them off. */
int main(int argc, char **argv)
{
	static const test shared[] = {SCRIPTS(TABLE){0}}, own[] = {SCRIPTS_OF_SERVERS(TABLE){0}};

	return argc > 1 && strcmp(argv[1], "--own") == 0 ? harness_main(argc - 1, argv + 1, "faithful_servers", own)
	                                                 : harness_main(argc, argv, "faithful", shared);
}
