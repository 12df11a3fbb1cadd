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

/* Were we started by `... &` in a script? It goes on beside us in our process group, and the terminal stays its own. Such a
 * job has INT and QUIT ignored, and no terminal for standard input (POSIX, asynchronous lists). */
bool zkl__terminal_is_scripts(void);

/* Is the caller's process group in the foreground, and not together with others whose terminal it is too, of a pipeline or a
 * script? */
bool zkl__terminal_is_ours(int terminal);

/* Whether the command, whose group this is, has been put into the foreground. */
struct zkl__turn {
	int  terminal;
	bool given; /* and not taken back */
};

/* Puts the command into the foreground, if that is ours (zkl__terminal_is_ours). */
void zkl__turn_give(struct zkl__turn *turn, pid_t group);

/* Puts us into the foreground, if the command was given it and is there now, or a group that is gone. */
bool zkl__turn_take(struct zkl__turn *turn, pid_t group);

/* The command was stopped by this signal. Should it go on at once? From the background it wanted the terminal: it may have it
 * where we are in the foreground, in a pipeline, too. Ctrl-Z is for a shell. */
bool zkl__turn_need_not_stop(struct zkl__turn *turn, pid_t group, int sig);

#endif
