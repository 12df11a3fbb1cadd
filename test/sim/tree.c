/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

static struct {
	int32_t           end;
	int64_t           zxid;
	int64_t           first;
	int32_t           request;
	uint32_t          conn;
	int16_t           node_count;
	int16_t           birth_count[TREE_DIRECTORIES];
	struct tree_birth births[TREE_DIRECTORIES][TREE_BIRTHS];
	struct tree_txn   log[TREE_LOG];
	struct tree_node  nodes[TREE_NODES];
} tree;

void tree_begin(int64_t first, int64_t age)
{
	tree.end = 0;
	tree.zxid = INT64_C(1) << 34;
	tree.first = first;
	tree.node_count = 0;
	for (int i = 0; i < TREE_DIRECTORIES; i++)
		tree.birth_count[i] = 0;
	tree_set_origin(NOBODY, 0);
	/* What was there before the schedule begins is not in the history; it begins with an election. */
	for (int16_t i = 0; i < TREE_DIRECTORIES && age >= 0; i++) {
		tree.births[i][0] = (struct tree_birth){
			.czxid = (((tree.zxid >> 32) + 1) << 32) - age, .first = first, .next = first};
		tree.birth_count[i] = 1;
	}
}

int32_t tree_end(void)
{
	return tree.end;
}

void tree_new_epoch(void)
{
	tree.zxid = ((tree.zxid >> 32) + 1) << 32;
}

const struct tree_txn *tree_txn(int32_t view)
{
	return &tree.log[view];
}

int64_t tree_zxid(int32_t view)
{
	return tree.log[view].zxid;
}

const struct tree_node *tree_node(int16_t node)
{
	return &tree.nodes[node];
}

int16_t tree_nodes(void)
{
	return tree.node_count;
}

int16_t tree_find(int16_t directory, const char *name)
{
	for (int16_t i = tree.node_count; i-- > 0;)
		if (tree.nodes[i].directory == directory && strcmp(tree.nodes[i].name, name) == 0)
			return i;
	return NOBODY;
}

int16_t tree_find_token(int16_t directory, uint64_t token)
{
	for (int16_t i = tree.node_count; i-- > 0;) {
		const struct tree_node *n = &tree.nodes[i];

		if (n->directory == directory && n->sequence >= 0 &&
		    (uint64_t)(tree.births[directory][n->birth].czxid + n->sequence) == token)
			return i;
	}
	return NOBODY;
}

const struct tree_birth *tree_directory(int16_t directory, int32_t view)
{
	for (int16_t i = tree.birth_count[directory]; i-- > 0;) {
		const struct tree_birth *birth = &tree.births[directory][i];

		if (birth->made <= view)
			return birth->gone && birth->gone <= view ? NULL : birth;
	}
	return NULL;
}

bool tree_alive(int16_t node, int32_t view)
{
	const struct tree_node *n;

	if (node == NOBODY)
		return false;
	n = &tree.nodes[node];
	return n->born <= view && (!n->died || n->died > view);
}

bool tree_marked(int16_t node, int32_t view)
{
	const struct tree_node *n = &tree.nodes[node];

	for (unsigned i = n->changes; i-- > 0;)
		if (n->change[i].at <= view)
			return n->change[i].marked;
	return false;
}

bool tree_changed(int16_t node, int32_t after, int32_t until)
{
	const struct tree_node *n = &tree.nodes[node];

	for (unsigned i = 0; i < n->changes; i++)
		if (n->change[i].at > after && n->change[i].at <= until)
			return true;
	return false;
}

bool tree_children_changed(int16_t directory, int32_t after, int32_t until)
{
	for (int32_t view = after + 1; view <= until; view++) {
		const struct tree_txn *txn = &tree.log[view];

		if ((txn->type == TXN_CREATE || txn->type == TXN_DELETE) && txn->directory == directory)
			return true;
		for (int16_t i = 0; txn->type == TXN_CLOSE && i < tree.node_count; i++)
			if (tree.nodes[i].died == view && tree.nodes[i].directory == directory)
				return true;
	}
	return false;
}

int64_t tree_created(int16_t directory, int32_t view)
{
	const struct tree_birth *birth = tree_directory(directory, view);
	int64_t                  created = birth ? birth->first : 0;

	for (int16_t i = 0; i < tree.node_count; i++) {
		const struct tree_node *n = &tree.nodes[i];

		/* Also one without a number. */
		if (n->directory == directory && &tree.births[directory][n->birth] == birth && n->born <= view)
			created++;
	}
	return created < INT32_MAX ? created : INT32_MAX;
}

unsigned tree_children(int16_t directory, int32_t view, const char **names, unsigned limit)
{
	unsigned count = 0;

	/* From the middle on, in turns up and down: neither the first nor the last child is the first in the queue. */
	for (int16_t i = tree.node_count; i-- > 0 && count < limit;)
		if (tree.nodes[i].directory == directory && tree_alive(i, view))
			names[count++] = tree.nodes[i].name;
	for (unsigned i = 0; i + 1 < count; i += 2) {
		const char *swap = names[i];

		names[i] = names[(i + count) / 2];
		names[(i + count) / 2] = swap;
	}
	return count;
}

int16_t tree_lowest(int16_t directory, int32_t view)
{
	int16_t lowest = NOBODY;

	for (int16_t i = 0; i < tree.node_count; i++)
		if (tree.nodes[i].directory == directory && tree.nodes[i].sequence >= 0 && tree_alive(i, view) &&
		    (lowest == NOBODY || tree.nodes[i].sequence < tree.nodes[lowest].sequence))
			lowest = i;
	return lowest;
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

void tree_set_origin(int32_t request, uint32_t conn)
{
	tree.request = request;
	tree.conn = conn;
}

static struct tree_txn *append(enum tree_txn_type type, int16_t node, int16_t directory, int16_t session)
{
	struct tree_txn *txn = &tree.log[++tree.end];

	if (tree.end == TREE_LOG - 1) {
		report_failure(ROOM, "transactions without end");
		tree.end--;
	}
	*txn = (struct tree_txn){type, node, directory, session, tree.request, tree.conn, ++tree.zxid};
	tree.request = NOBODY;
	return txn;
}

void tree_nothing(void)
{
	append(TXN_NOTHING, NOBODY, NOBODY, NOBODY);
}

static struct tree_node *new_node(int16_t directory)
{
	struct tree_node *n = &tree.nodes[tree.node_count];

	if (tree.node_count == TREE_NODES - 1) {
		report_failure(ROOM, "nodes without end");
		tree.node_count--;
	}
	tree.node_count++;
	memset(n, 0, sizeof *n);
	n->directory = directory;
	n->birth = (int16_t)(tree.birth_count[directory] - 1);
	n->session = n->attempt = NOBODY;
	n->born = tree.end + 1;
	return n;
}

int16_t tree_create(int16_t directory, enum zkl__kind kind, struct zkl__uuid uuid, int16_t session, int16_t attempt)
{
	char               prefix[ZKL__NAME_MAX];
	struct tree_birth *birth = (struct tree_birth *)tree_directory(directory, tree.end);
	struct tree_node  *n;

	if (!birth) {
		tree_nothing();
		return NOBODY;
	}
	n = new_node(directory);
	/* The counter sticks at its end (ZOOKEEPER-3249). */
	n->sequence = birth->next < INT32_MAX ? birth->next++ : INT32_MAX;
	n->uuid = uuid;
	n->session = session;
	n->attempt = attempt;
	zkl__queue_prefix(kind, uuid, prefix);
	snprintf(n->name, sizeof n->name, "%.50s%010d", prefix, (int)n->sequence);
	append(TXN_CREATE, (int16_t)(n - tree.nodes), directory, session);
	return (int16_t)(n - tree.nodes);
}

int16_t tree_create_named(int16_t directory, const char *name, bool numbered)
{
	struct tree_birth *birth = (struct tree_birth *)tree_directory(directory, tree.end);
	struct tree_node  *n;

	if (!birth) {
		tree_nothing();
		return NOBODY;
	}
	n = new_node(directory);
	/* Each create counts, also of a child without a number. */
	n->sequence = birth->next < INT32_MAX ? birth->next++ : INT32_MAX;
	snprintf(n->name, sizeof n->name, numbered ? "%s%010d" : "%s%d.txt", name, (int)n->sequence);
	if (!numbered)
		n->sequence = -1;
	append(TXN_CREATE, (int16_t)(n - tree.nodes), directory, NOBODY);
	return (int16_t)(n - tree.nodes);
}

bool tree_delete(int16_t node, bool by_operator)
{
	if (node == NOBODY || !tree_alive(node, tree.end)) {
		tree_nothing();
		return false;
	}
	tree.nodes[node].broken = by_operator;
	append(TXN_DELETE, node, tree.nodes[node].directory, NOBODY);
	tree.nodes[node].died = tree.end;
	return true;
}

bool tree_set(int16_t node, bool marked)
{
	struct tree_node *n;

	if (!tree_alive(node, tree.end)) {
		tree_nothing();
		return false;
	}
	n = &tree.nodes[node];
	if (n->changes == TREE_CHANGES) {
		tree_nothing();
		return true;
	}
	append(TXN_SET, node, n->directory, NOBODY);
	n->change[n->changes].at = tree.end;
	n->change[n->changes++].marked = marked;
	return true;
}

bool tree_make(int16_t directory)
{
	if (tree_directory(directory, tree.end) || tree.birth_count[directory] == TREE_BIRTHS) {
		tree_nothing();
		return false;
	}
	append(TXN_MAKE, NOBODY, directory, NOBODY);
	tree.births[directory][tree.birth_count[directory]++] = (struct tree_birth){.made = tree.end,
	                                                                            .czxid = tree.zxid};
	return true;
}

bool tree_unmake(int16_t directory)
{
	struct tree_birth *birth = (struct tree_birth *)tree_directory(directory, tree.end);
	bool               empty = birth && tree.birth_count[directory] < TREE_BIRTHS;

	for (int16_t i = 0; empty && i < tree.node_count; i++)
		empty = tree.nodes[i].directory != directory || !tree_alive(i, tree.end);
	if (!empty) {
		tree_nothing();
		return false;
	}
	append(TXN_UNMAKE, NOBODY, directory, NOBODY);
	birth->gone = tree.end;
	return true;
}

void tree_close(int16_t session)
{
	append(TXN_CLOSE, NOBODY, NOBODY, session);
	for (int16_t i = 0; i < tree.node_count; i++)
		if (tree.nodes[i].session == session && tree_alive(i, tree.end) && tree.nodes[i].born < tree.end)
			tree.nodes[i].died = tree.end;
}
