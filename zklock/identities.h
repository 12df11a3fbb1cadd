/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_IDENTITIES_H
#define ZKLOCK_IDENTITIES_H

/* identities.h: a list of identities as ZooKeeper's access lists have them, "scheme:id,scheme:id". */

#include <stdbool.h>
#include <stddef.h>

#define ZKL__IDENTITIES_MAX 16

struct zkl__identities {
	char *text; /* what the others point into */
	struct {
		char *scheme, *id;
	} list[ZKL__IDENTITIES_MAX];
	size_t count;
};

/* At most ZKL__IDENTITIES_MAX, each with both parts? */
bool zkl__identities_are_valid(const char *text);
/* Of a valid text, or NULL: none. False: no memory. */
bool zkl__identities_parse(struct zkl__identities *ret, const char *text);
void zkl__identities_clear(struct zkl__identities *identities);

#endif
