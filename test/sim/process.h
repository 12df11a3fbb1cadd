/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_PROCESS_H
#define ZKLOCK_SIM_PROCESS_H

/* process.h: one process with one session: what session.c is in the real world, on the real hub.
 *
 *     client (IO thread) --mail--> protocol thread --> hub, attempts --events--> owner's thread
 *
 * Each thread can be late or stall, all of them can be paused; the machine's clock has a rate of its own. */

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "mail.h"
#include "zk.h"

enum { PROCESSES = 4 };
enum thread { THREAD_IO, THREAD_PROTOCOL, THREAD_OWNER, THREADS };

struct process_options {
	int64_t                   rate_ppm, offset, latency, spread, timeout;
	int64_t                   slowness; /* at most so long until a thread that is woken runs */
	unsigned                  first_server;
	struct zkl__lease_options lease;
};

void process_init(unsigned process, const struct process_options *options, uint64_t seed);
/* A process is started: it opens its session, and so do its owners their handles. */
void process_start(unsigned process);
bool process_alive(unsigned process);
/* Another one takes its place after a while; never: INT64_MAX. */
void process_kill(unsigned process, int64_t pause);
void process_close(unsigned process, int64_t patience, int64_t pause);
void process_cancel(unsigned process);
void process_pause(unsigned process, int64_t length);
void process_stall(unsigned process, enum thread thread, int64_t length);

struct zkl__hub *process_hub(unsigned process);
/* Whose hub is it? */
unsigned process_of(const struct zkl__hub *hub);
bool     process_dead(unsigned process); /* being taken apart: nothing counts any more */
/* What the message that is being dealt with was made from. */
int32_t process_view(unsigned process);
/* When a thread of it can run. */
int64_t process_thread_at(unsigned process, enum thread thread);
/* Its protocol thread has some of its mail still before it: what is due comes behind that. */
bool process_amid_mail(unsigned process);
/* The last moment at which some thread could not. */
int64_t process_hindered(unsigned process);
/* No more than what is due soon is left to be done. */
bool process_quiet(unsigned process);

/* ---- for its client ---------------------------------------------------------------------------------------------- */

int64_t  process_clock(unsigned process);
int64_t  process_true_time(unsigned process, int64_t clock);
int64_t  process_io_at(unsigned process);
int64_t  process_latency(unsigned process);
int64_t  process_spread(unsigned process);
unsigned process_first_server(unsigned process);
void     process_mail(unsigned process, enum mail_type type);
void     process_mail_connected(unsigned process, int64_t session_id, int64_t timeout);
void     process_mail_reply(unsigned process, int32_t request, enum zkl__result result, int zk_code, int32_t view);
void     process_mail_watch(unsigned process, uint64_t party, bool gone, bool directory, int16_t node, int32_t view);

#endif
