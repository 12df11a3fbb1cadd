/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_RANDOMNESS_H
#define ZKLOCK_RANDOMNESS_H

/* randomness.h: the sequences of random() and drand48() are the application's; the ZooKeeper client seeds both anew when it
 * shuffles its addresses. Between lend and restore, which come in pairs, what it does happens to others. */

void zkl__randomness_lend(void);
void zkl__randomness_restore(void);

#endif
