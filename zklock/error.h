/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_ERROR_H
#define ZKLOCK_ERROR_H

#include <zklock/zklock.h>

/* Fills *reterr, where there is one, and returns `code`. ZKL_EZK: the text goes on with what ZooKeeper said. */
__attribute__((format(printf, 5, 6))) int zkl__error(zkl_error *reterr, int code, int zk_code, int sys_errno,
                                                     const char *format, ...);

#endif
