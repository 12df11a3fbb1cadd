/* SPDX-License-Identifier: Apache-2.0 */
/* usage: fuzz_NAME FOLDER   runs all inputs in the folder */
#include "fuzz.h"

#include <dirent.h>

static void replay(const char *folder, const char *name)
{
	static uint8_t input[1 << 16];
	char           path[1000];
	FILE          *file;
	size_t         size;
	uint8_t       *exact;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	file = fopen(path, "rb");
	MUST(file);
	size = fread(input, 1, sizeof input, file);
	MUST(feof(file) && !ferror(file));
	fclose(file);
	/* As large as it is, so that sanitizers see a look beyond its end. */
	exact = malloc(size ? size : 1);
	MUST(exact);
	for (size_t i = 0; i < size; i++)
		exact[i] = input[i];
	fprintf(stderr, "%s\n", name);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

int main(int argc, char **argv)
{
	DIR           *folder = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *entry;
	unsigned       count = 0;

	MUST(folder);
	while ((entry = readdir(folder)))
		if (entry->d_name[0] != '.') {
			replay(argv[1], entry->d_name);
			count++;
		}
	closedir(folder);
	MUST(count);
	return 0;
}
