/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_NODE_DATA_H
#define ZKLOCK_NODE_DATA_H

/* node_data.h: what a contender's node says of its owner. Pure.
 *
 *     zklock 1                      format version
 *     id=web1:4711 backup           host:pid program
 *     host=web1
 *     pid=4711
 *     program=backup
 *     since=1767225600000           Unix time in ms by the owner's clock
 *     mark=lowest                   only once a holder has found that nobody is before it
 *                                   an empty line; what follows is the owner's own data, any bytes
 *
 * Keys that are not known are skipped, so that later versions can add some. Anything else is foreign data: its owner's
 * business, shown as it is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZKL__NODE_ID_MAX 128
/* Bytes that suffice for the part before the owner's own data. */
#define ZKL__NODE_HEAD_MAX 640

struct zkl__identity {
	char    host[65], program[65];
	int64_t pid;
};

/* "host:pid program". Writes to `ret`, which has `size` bytes; returns the length. So does the next one. */
size_t zkl__identity_print(char *ret, size_t size, const struct zkl__identity *who);
size_t zkl__node_data_print(char *ret, size_t size, const struct zkl__identity *who, int64_t since_ms, bool marked,
                            const void *own, size_t own_len);
/* Of this format: a lock's contender of this library. */
bool zkl__node_data_is_ours(const char *data, size_t len);
bool zkl__node_data_is_marked(const char *data, size_t len);
/* The owner's name, printable; of foreign data all of it, escaped. *own points into data. */
void zkl__node_data_read(const char *data, size_t len, char id[ZKL__NODE_ID_MAX], const char **own, size_t *own_len);
/* `text` with all but printable ASCII replaced, cut to size. */
void zkl__printable(char *ret, size_t size, const char *text, size_t len);

#endif
