/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_OPERATIONS_H
#define ZKLOCK_TEST_OPERATIONS_H

/* operations.h: what a contender does, in steps between which faults can be put. */

#include "scene.h"

typedef struct operation {
	const char *name;
	int         op;   /* which of its requests are numbered */
	int         most; /* how many of them, where it makes ever more; 0: all */
	bool        election;
	void (*prepare)(scene *s); /* NULL: nothing to prepare. Nothing is under way when it returns */
	void (*begin)(scene *s);   /* it may wait for the fault, but for nothing that comes after it */
	void (*outcome)(scene *s); /* of the operation, whatever happened to it */
	void (*resolve)(scene *s); /* others make way. NULL: nobody is in the way */
} operation;

extern const operation operations[]; /* the last one has no name */

#endif
