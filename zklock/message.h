/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_MESSAGE_H
#define ZKLOCK_MESSAGE_H

#include <stdbool.h>

/* message.h: how a line of zklock-run or zklock-fence reaches standard error. */

/* Bytes for a line that is kept to be said later. */
#define ZKL__WHY_MAX 512

/* "zklock-run", unless main() sets another. */
extern const char *zkl__message_program;

/* Writes "zklock-run: ..." and a newline in one piece, control characters made visible as '?'. Never blocks: where
 * nobody empties the pipe or the terminal that standard error is, the line is dropped, since a process that hangs in a message cannot
 * keep a deadline. From any thread, as the next ones. */
void zkl__message_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Is there a terminal to show a line on? Standard error, where we are in the foreground. */
bool zkl__message_can_show(void);

/* A line that stays the last one on the terminal, until another one takes its place: what is said comes above it. Cut to
 * the width. NULL: takes it away, which must come before anybody else writes to the terminal. */
void zkl__message_show(const char *text);

#endif
