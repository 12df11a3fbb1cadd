/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_MESSAGE_H
#define ZKLOCK_MESSAGE_H

/* message.h: how a line of zklock-run or zklock-fence reaches standard error. */

/* Bytes for a line that is kept to be said later. */
#define ZKL__WHY_MAX 512

/* "zklock-run", unless main() sets another. */
extern const char *zkl__message_program;

/* Writes "zklock-run: ..." and a newline in one piece, control characters made visible as '?'. Never blocks: where
 * standard error is a pipe that nobody empties, the line is dropped, since a process that hangs in a message cannot
 * keep a deadline. */
void zkl__message_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
