/* SPDX-License-Identifier: Apache-2.0 */
#include "identities.h"

#include <stdlib.h>
#include <string.h>

bool zkl__identities_are_valid(const char *text)
{
	for (size_t count = 1;; count++) {
		size_t      length = strcspn(text, ",");
		const char *colon = memchr(text, ':', length);

		if (count > ZKL__IDENTITIES_MAX || !colon || colon == text || colon == text + length - 1)
			return false;
		if (!text[length])
			return true;
		text += length + 1;
	}
}

bool zkl__identities_parse(struct zkl__identities *ret, const char *text)
{
	char *rest = NULL;

	memset(ret, 0, sizeof *ret);
	if (!text)
		return true;
	ret->text = strdup(text);
	if (!ret->text)
		return false;
	for (char *one = strtok_r(ret->text, ",", &rest); one && ret->count < ZKL__IDENTITIES_MAX;
	     one = strtok_r(NULL, ",", &rest)) {
		char *colon = strchr(one, ':');

		*colon = 0;
		ret->list[ret->count].scheme = one;
		ret->list[ret->count++].id = colon + 1;
	}
	return true;
}

void zkl__identities_clear(struct zkl__identities *identities)
{
	free(identities->text);
}
