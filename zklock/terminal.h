/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_TERMINAL_H
#define ZKLOCK_TERMINAL_H

/* terminal.h: whose turn it is at the controlling terminal.
 *
 * The command has a process group of its own, so somebody has to put it into the foreground, where it can read from the
 * terminal and where Ctrl-C reaches it, and us back when it has ended. Without a controlling terminal every call does
 * nothing. SIGTTOU must be blocked: it would stop a process of the background that calls these. */

#include <stdbool.h>
#include <sys/types.h>

/* The controlling terminal, close-on-exec, or -1. */
int zkl__terminal_open(void);

/* Is the caller's process group in the foreground, and not in a pipeline with others whose terminal it is too? */
bool zkl__terminal_is_ours(int terminal);

/* Puts `group` into the foreground, if the caller's is there now. */
bool zkl__terminal_give(int terminal, pid_t group);

/* Is anybody there who sees us stop and can continue us? Where nobody is (an orphaned process group: ssh -t host zklock-run,
 * setsid, a service), Ctrl-Z has no effect on us, nor would it have on the command without us. */
bool zkl__terminal_has_shell(void);

/* Puts the caller's group into the foreground, if `group` is there now, or a group that is gone. */
bool zkl__terminal_take(int terminal, pid_t group);

#endif
