/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_WRAPPER_H
#define ZKLOCK_WRAPPER_H

/* wrapper.h: what a command that wraps another one does before and after: the state that the other inherits, and an end like
 * its own. */

#include "child.h"
#include "message.h"

#include <signal.h>
#include <stdbool.h>

/* Where one of the standard descriptors is closed, one of ours would become it. The command finds it closed again. */
void zkl__wrapper_fill_descriptors(void);

/* Dispositions stay as they are (but that of SIGCHLD, which a parent must not ignore): everything goes by the mask,
 * which is easily given back to the command. What is ignored stays ignored, as nohup wants. -1: errno; else the
 * signalfd. */
int zkl__wrapper_take_signals(sigset_t *ret_mask, bool *ret_ignores_chld);

/* Could the command's tree be found? Else it says why not. */
bool zkl__wrapper_sees_processes(void);

/* Why there is no command: the status, and the line that goes with it. */
int zkl__wrapper_not_started(const struct zkl__report *report, const char *command, char ret_why[ZKL__WHY_MAX]);

/* As TSTP, which is blocked, does by itself: so not where nobody could continue us. CONT is to be read afterwards. */
void zkl__wrapper_stop(void);

/* Did the command die by what a terminal sends to who is in front there, as it was? */
bool zkl__wrapper_is_told(int wait_status, bool had_terminal);

/* As the command that died by it. told: which had it from the terminal. So would we have had it, and who was started with us,
 * as a script is that waits for us, without a process group of the command's own: they get it now. */
_Noreturn void zkl__wrapper_die_by(int sig, bool told);

/* On standard output: 0, or the status to exit with. */
int zkl__wrapper_print(const char *text);
int zkl__wrapper_print_version(void);

#endif
