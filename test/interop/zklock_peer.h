/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_PEER_H
#define ZKLOCK_PEER_H

/* zklock_peer.h: zklock as a contender, by its public headers alone. The two recipes differ in what they are told and what
 * they call; what is done in a grant and how one speaks is the same. */

#include <stdbool.h>
#include <stdint.h>
#include <zklock/session.h>

#define RELEASE_MS 30000

extern zkl_session *session;
extern const char  *path, *id;

void    say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void    fail(const char *doing, const zkl_error *error) __attribute__((noreturn));
int64_t now_ns(void);

/* Uses what the grant is for: to be alone there, and to be seen there. Ends the process when it is not alone. */
void use(const zkl_grant *grant);

/* Says how long a yes came, each yes stamped with the moment before it was asked for. */
typedef int64_t check_fn(uint64_t token);
void            watch(check_fn *check, uint64_t token);

/* A recipe: makes its handle; runs in a thread of its own until it is told to stop; obeys a command, false: none of its. */
typedef struct recipe {
	const char *name;
	int (*open)(zkl_error *reterr);
	void (*grants)(void);
	void (*stop)(void);
	bool (*obey)(const char *command);
	void (*close)(void);
} recipe;
extern const recipe lock_recipe, latch_recipe;

#endif
