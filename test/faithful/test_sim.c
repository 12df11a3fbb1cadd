/* SPDX-License-Identifier: Apache-2.0 */
/* usage: faithful_sim FOLDER [SCRIPT...]   each script against the simulation's servers: does it say what ZooKeeper says? */
#include "script.h"

#include <stdio.h>
#include <string.h>

#define NAME(name) #name,
static const char *const scripts[] = {SCRIPTS(NAME) SCRIPTS_OF_SERVERS(NAME)};

int main(int argc, char **argv)
{
	int  failed = 0;
	char path[500];

	for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
		bool wanted = argc == 2;

		for (int k = 2; k < argc; k++)
			wanted = wanted || strcmp(argv[k], scripts[i]) == 0;
		snprintf(path, sizeof path, "%s/%s.txt", argc > 1 ? argv[1] : ".", scripts[i]);
		if (wanted)
			failed += script_run(path, &stage_sim);
	}
	return failed ? 1 : 0;
}
