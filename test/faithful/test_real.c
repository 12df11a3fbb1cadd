/* SPDX-License-Identifier: Apache-2.0 */
/* Each script against real servers: do they say what the simulation's say? */
#include "harness.h"
#include "script.h"

#include <stdio.h>
#include <stdlib.h>

#define RUN(name)                                                                                                      \
	static void name(void)                                                                                         \
	{                                                                                                              \
		char path[500];                                                                                        \
                                                                                                                       \
		snprintf(path, sizeof path, "%s/" #name ".txt", getenv("ZKLOCK_TEST_SCRIPTS"));                        \
		EXPECT_INT(script_run(path, &stage_real), 0);                                                          \
	}
SCRIPTS(RUN)

#define TABLE(name) {TEST(name, 120)},

int main(int argc, char **argv)
{
	static const test tests[] = {SCRIPTS(TABLE){0}};

	return harness_main(argc, argv, "faithful", tests);
}
