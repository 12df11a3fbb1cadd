/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_FUZZ_H
#define ZKLOCK_TEST_FUZZ_H

/* fuzz.h: one target a file, built twice: with libFuzzer (./dev fuzz), and with replay.c as a plain test that runs what is in
 * corpus/NAME. An input that has found something stays there. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                        \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

#endif
