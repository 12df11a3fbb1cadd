/* SPDX-License-Identifier: Apache-2.0 */
#include "title.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* Where the kernel reads the command line. */
static char  *area;
static size_t area_size;

/* The arguments lie one behind the other, and what `ps` and `pkill -f` show is that memory: they move out of it. Path and command
 * are among them. Where that cannot be done, the old command line stays. */
static void empty_area(struct zkl__child_options *options)
{
	char *begin = options->argv[0], *end = begin;

	for (int i = 0; i < options->argc; i++) {
		if (options->argv[i] != end)
			return;
		end += strlen(end) + 1;
	}
	const size_t size = (size_t)(end - begin);
	char        *copy = size > 0 ? malloc(size) : NULL;
	if (copy == NULL)
		return;
	memcpy(copy, begin, size);
	for (int i = 0; i < options->argc; i++)
		options->argv[i] = copy + (options->argv[i] - begin);
	if (options->path != NULL)
		options->path = copy + (options->path - begin);
	area = begin;
	area_size = size;
}

void zkl__title_set(struct zkl__child_options *options, const char *name)
{
	prctl(PR_SET_NAME, name);
	if (area == NULL)
		empty_area(options);
	if (area == NULL)
		return;
	memset(area, 0, area_size);
	snprintf(area, area_size, "%s%s%s", name, options->path == NULL ? "" : " ",
	         options->path == NULL ? "" : options->path);
}
