/* SPDX-License-Identifier: Apache-2.0 */
/* Each script against real servers: do they say what the simulation's say? */
#include "harness.h"
#include "script.h"

#include <stdio.h>
#include <stdlib.h>

/* What the simulation gets wrong is wrong each time. What differs once is a race among real servers and connections that
 * the script leaves open; it is printed. */
static int run_undisturbed(const char *path)
{
	int rc = SCRIPT_DISTURBED;

	for (int tries = 0; rc != 0 && tries < 3; tries++)
		rc = script_run(path, &stage_real);
	return rc;
}

#define RUN(name)                                                                                                      \
	static void name(void)                                                                                         \
	{                                                                                                              \
		char path[500];                                                                                        \
                                                                                                                       \
		snprintf(path, sizeof path, "%s/" #name ".txt", getenv("ZKLOCK_TEST_SCRIPTS"));                        \
		EXPECT_INT(run_undisturbed(path), 0);                                                                  \
	}
SCRIPTS(RUN)

#define TABLE(name) {TEST(name, 120)},

int main(int argc, char **argv)
{
	static const test tests[] = {SCRIPTS(TABLE){0}};

	return harness_main(argc, argv, "faithful", tests);
}
