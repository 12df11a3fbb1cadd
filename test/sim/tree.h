/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_TREE_H
#define ZKLOCK_SIM_TREE_H

/* tree.h: the ensemble's data as one history of transactions. A view is the number of transactions that somebody has
 * applied: what a server shows is the tree at its view. Nodes are never forgotten. */

#include <stdbool.h>
#include <stdint.h>

#include "queue.h"

enum { TREE_LOG = 16000, TREE_NODES = 4000, TREE_CHANGES = 8, TREE_DIRECTORIES = 2, TREE_BIRTHS = 12 };
#define NOBODY ((int16_t)-1)

enum tree_txn_type { TXN_NOTHING, TXN_CREATE, TXN_DELETE, TXN_SET, TXN_MAKE, TXN_UNMAKE, TXN_CLOSE };

struct tree_txn {
	enum tree_txn_type type;
	int16_t            node, directory, session;
	int32_t            request; /* NOBODY: of nobody; else it is answered when this is applied */
	uint32_t           conn;
	int64_t            zxid;
};

struct tree_node {
	char             name[64];
	struct zkl__uuid uuid;
	int64_t          sequence;
	int16_t          directory, birth; /* which, and in which life of it */
	int16_t          session, attempt; /* NOBODY: an operator's or a foreign one */
	int32_t          born, died;       /* views; died 0: lives */
	bool             broken;           /* an operator deleted it */
	uint8_t          changes;
	struct {
		int32_t at;
		bool    marked;
	} change[TREE_CHANGES];
};

struct tree_birth {
	int32_t made, gone; /* views; gone 0: it is there */
	int64_t czxid, first, next;
};

/* first: the sequence number that each directory begins with; czxid: of its birth, relative to the newest transaction. */
void    tree_begin(int64_t first, int64_t age);
int32_t tree_end(void);
void    tree_new_epoch(void);

const struct tree_txn  *tree_txn(int32_t view);
int64_t                 tree_zxid(int32_t view);
const struct tree_node *tree_node(int16_t node);
int16_t                 tree_nodes(void);
/* The newest one of that name; NOBODY: none. */
int16_t                  tree_find(int16_t directory, const char *name);
const struct tree_birth *tree_directory(int16_t directory, int32_t view); /* NULL: it is not there */
int16_t                  tree_find_token(int16_t directory, uint64_t token);
bool                     tree_alive(int16_t node, int32_t view);
bool                     tree_marked(int16_t node, int32_t view);
bool                     tree_changed(int16_t node, int32_t after, int32_t until);
/* Have children come or gone since? */
bool tree_children_changed(int16_t directory, int32_t after, int32_t until);
/* Numbers handed out, as the directory's Stat tells. */
int64_t tree_created(int16_t directory, int32_t view);
/* Names of the living children, in no order that means anything. */
unsigned tree_children(int16_t directory, int32_t view, const char **names, unsigned limit);
/* The living contender's node with the lowest number; NOBODY: none. */
int16_t tree_lowest(int16_t directory, int32_t view);

/* Transactions. Each appends one to the history; `request` and `conn` are kept with it. */
void tree_set_origin(int32_t request, uint32_t conn);
void tree_nothing(void);
/* NOBODY: no directory; -2: exists. */
int16_t tree_create(int16_t directory, enum zkl__kind kind, struct zkl__uuid uuid, int16_t session, int16_t attempt);
int16_t tree_create_named(int16_t directory, const char *name, bool numbered);
bool    tree_delete(int16_t node, bool by_operator);
bool    tree_set(int16_t node, bool marked);
bool    tree_make(int16_t directory);
bool    tree_unmake(int16_t directory); /* only when empty */
void    tree_close(int16_t session);

#endif
