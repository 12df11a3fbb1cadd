/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TEST_WORDS_H
#define ZKLOCK_TEST_WORDS_H

/* words.h: nodes and replies in words, as the transcripts have them.
 *
 *     create ok ours#5            our node got the number 5; from now on "#5" is ours
 *     list #3 #5 czxid=1000       the children
 *     watch-mark ok marked        the node is there and has the mark
 *     find ok owner=76
 *
 * A result is ok, no-node, exists, denied, unknown or refused. A child is "#5" (ours, or a stranger's if we have none with that
 * number), "ours#5", "kazoo#5" (a foreign one), "latch#5" (a candidate), "lock#5" (a lock's), "long#5" (with a name too long), "over" (its number ran over), or its name. */

#include "check.h"

#include "contender.h"

#define WORDS_NODES 16
#define WORDS_NAME  256  /* longer than any that the library handles */
#define WORDS_BIRTH 1000 /* czxid of the directory, unless it is said */

struct words {
	enum zkl__kind kind; /* of the directory */
	char           mine[32][64];
	unsigned       mine_count;
};

/* The name that the word stands for; `uuid` is that of the request which is answered. */
static inline void words_name(struct words *words, char name[WORDS_NAME], const char *word, struct zkl__uuid uuid)
{
	const char *hash = strchr(word, '#');
	int64_t     sequence = hash ? atoll(hash + 1) : -1;
	char        prefix[ZKL__NAME_MAX];

	zkl__queue_prefix(words->kind, uuid, prefix);
	if (strncmp(word, "ours#", 5) == 0) {
		snprintf(name, WORDS_NAME, "%s%010" PRId64, prefix, sequence);
		snprintf(words->mine[words->mine_count++ % 32], 64, "%.63s", name);
	} else if (strncmp(word, "latch#", 6) == 0) {
		snprintf(name, WORDS_NAME, "_c_00000000-0000-4000-8000-000000000000-latch-%010" PRId64, sequence);
	} else if (strncmp(word, "lock#", 5) == 0) {
		snprintf(name, WORDS_NAME, "_c_00000000-0000-4000-8000-000000000000-lock-%010" PRId64, sequence);
	} else if (strncmp(word, "kazoo#", 6) == 0) {
		snprintf(name, WORDS_NAME, "00000000000040008000000000000000__lock__%010" PRId64, sequence);
	} else if (strncmp(word, "long#", 5) == 0) {
		snprintf(name, WORDS_NAME, "%0140d%010" PRId64, 7, sequence);
	} else if (strcmp(word, "over") == 0) {
		snprintf(name, WORDS_NAME, "%s-2147483648", prefix);
	} else if (hash) {
		for (unsigned i = 0; i < 32; i++) {
			if (words->mine[i][0] && zkl__queue_sequence(words->mine[i]) == sequence) {
				snprintf(name, WORDS_NAME, "%s", words->mine[i]);
				return;
			}
		}
		/* The later the number the lower the uuid: who compares whole names is wrong. */
		snprintf(name, WORDS_NAME, "_c_%08" PRIx64 "-0000-4000-8000-000000000000-%s-%010" PRId64,
		         (uint64_t)(0xffffff - sequence), words->kind == ZKL__KIND_LOCK ? "lock" : "latch", sequence);
	} else {
		snprintf(name, WORDS_NAME, "%s", word);
	}
}

static inline enum zkl__op words_op(const char *word)
{
	for (enum zkl__op op = ZKL__CREATE; op <= ZKL__FIND_WATCH; op++)
		if (strcmp(word, zkl__op_name(op)) == 0)
			return op;
	return 0;
}

static inline bool words_result(const char *word, struct zkl__reply *reply)
{
	static const struct {
		const char      *word;
		enum zkl__result result;
		int              zk_code;
	} results[] = {{"ok", ZKL__DONE, 0},          {"no-node", ZKL__NO_NODE, -101},
	               {"exists", ZKL__EXISTS, -110}, {"not-empty", ZKL__NOT_EMPTY, -111},
	               {"denied", ZKL__DENIED, -102}, {"unknown", ZKL__UNKNOWN, -4},
	               {"barren", ZKL__BARREN, -108}, {"unclaimed", ZKL__UNCLAIMED, -114},
	               {"refused", ZKL__REFUSED, -8}};

	for (size_t i = 0; i < COUNT(results); i++) {
		if (strcmp(word, results[i].word) == 0) {
			reply->result = results[i].result;
			reply->zk_code = results[i].zk_code;
			return true;
		}
	}
	return false;
}

/* The reply that the words (which are taken apart) stand for. Set before: op, id, owner. */
static inline void words_reply(struct words *words, struct zkl__reply *reply, struct zkl__uuid uuid, char *text)
{
	char        names[WORDS_NODES][WORDS_NAME];
	const char *list[WORDS_NODES];
	size_t      count = 0;

	bool lists = reply->op == ZKL__LIST || reply->op == ZKL__LIST_WATCH;

	reply->czxid = lists ? WORDS_BIRTH : 0;
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		if (words_result(word, reply))
			continue;
		if (strcmp(word, "marked") == 0)
			reply->marked = true;
		else if (strncmp(word, "created=", 8) == 0)
			reply->created = (uint32_t)strtoul(word + 8, NULL, 10);
		else if (strncmp(word, "czxid=", 6) == 0)
			reply->czxid = atoll(word + 6);
		else if (strncmp(word, "data=", 5) == 0)
			reply->data_len = strlen(reply->data = word + 5);
		else if (strncmp(word, "owner=", 6) == 0)
			reply->owner = atoll(word + 6);
		else if (count < WORDS_NODES)
			words_name(words, names[count++], word, uuid);
	}
	for (size_t i = 0; i < count; i++)
		list[i] = names[i];
	reply->queue.own_sequence = -1;
	if (lists && reply->result == ZKL__DONE)
		zkl__queue_look(&reply->queue, list, count, words->kind, uuid);
	if (reply->op == ZKL__CREATE && count)
		snprintf(reply->name, sizeof reply->name, "%.127s", names[0]);
	if ((reply->op == ZKL__CREATE || reply->op == ZKL__FIND) && !reply->czxid && reply->result == ZKL__DONE)
		reply->czxid = WORDS_BIRTH + INT64_C(4294967296);
}

#endif
