/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_ATTEMPTS_H
#define ZKLOCK_ATTEMPTS_H

/* attempts.h: what became of the newest attempts to connect, for people.
 *
 * The ZooKeeper client says it in its log alone, which does not tell one handle from another. So it is kept for the
 * process, by address: what is true of an address is true for every session. From any thread. */

#include <stddef.h>

/* A line of the client's log. Most say nothing of an attempt. */
void zkl__attempts_note(const char *line);
/* Forgets all: a server was reached. */
void zkl__attempts_forget(void);
/* The same in the child of a fork: the thread that was at it then is the parent's. */
void zkl__attempts_forked(void);
/* "127.0.0.1:2181: Connection refused; ...": of each address of a list as the client has it, once. Returns the length, below
 * size. */
size_t zkl__attempts_tell(const char *addresses, char *ret, size_t size);

#endif
