/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TITLE_H
#define ZKLOCK_TITLE_H

/* title.h: what ps and pkill show of a process of ours that is not the one that was started. */

#include "child.h"

/* NAME PATH (or NAME, where options->path is NULL) in place of the command line, and NAME in place of the program's name;
 * of 15 characters at most. The strings of
 * `options` move. */
void zkl__title_set(struct zkl__child_options *options, const char *name);

#endif
