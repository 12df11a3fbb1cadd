/* SPDX-License-Identifier: Apache-2.0 */
#include "deadline.h"

#define PASSED ((int64_t)1)

void zkl__deadline_init(struct zkl__deadline *deadline)
{
	atomic_store(&deadline->word, INT64_MAX & ~PASSED);
}

bool zkl__deadline_move(struct zkl__deadline *deadline, int64_t now_ns, int64_t until_ns)
{
	if (zkl__deadline_passed(deadline, now_ns))
		return false;

	int64_t word = atomic_load(&deadline->word);
	do {
		if ((word & PASSED) != 0)
			return false;
	} while (!atomic_compare_exchange_weak(&deadline->word, &word, until_ns & ~PASSED));
	return true;
}

void zkl__deadline_end(struct zkl__deadline *deadline, int64_t now_ns)
{
	int64_t word = atomic_load(&deadline->word);

	while ((word & PASSED) == 0) {
		int64_t at = now_ns < word ? now_ns : word;
		if (atomic_compare_exchange_weak(&deadline->word, &word, at | PASSED))
			return;
	}
}

bool zkl__deadline_passed(struct zkl__deadline *deadline, int64_t now_ns)
{
	int64_t word = atomic_load(&deadline->word);

	while ((word & PASSED) == 0) {
		if (now_ns < word)
			return false;
		if (atomic_compare_exchange_weak(&deadline->word, &word, word | PASSED))
			return true;
	}
	return true;
}

int64_t zkl__deadline_ns(struct zkl__deadline *deadline)
{
	return atomic_load(&deadline->word) & ~PASSED;
}
