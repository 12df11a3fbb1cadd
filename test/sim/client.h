/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_CLIENT_H
#define ZKLOCK_SIM_CLIENT_H

/* client.h: ZooKeeper's C client, in virtual time: one handle, which is one session, of one process.
 *
 * As the real one: it hangs up where nothing was received for 2/3 T, which it looks at before it reads; it pings where
 * nothing was sent for T/3 and nothing is outstanding; on a broken connection the news comes first and then the failed
 * requests, sent or only queued; what is sent while there is no connection is queued, and runs on the next one, behind the
 * watches that are set again; expiry is learned from a server only. What it has to tell is mail (process.h). */

#include "zk.h"

enum { CLIENTS = ZK_CLIENTS };

/* The real clock of a client's machine is process_clock(); when its thread may run is process_io_at(). */
void client_open(unsigned client, int64_t timeout);
/* Ends the session, in an orderly manner where it is connected. Requests without an answer end as unknown. */
void client_close(unsigned client);
/* The process is gone: its sockets are closed. */
void client_kill(unsigned client);
void client_send(unsigned client, int32_t request);
bool client_connected(unsigned client);
/* Has it asked a server for its session? */
bool client_asked(unsigned client);
/* Its present connection; UINT32_MAX: none. */
uint32_t client_conn(unsigned client);
int16_t  client_session(unsigned client);
/* Its thread can run again. */
void client_resume(unsigned client);
/* Requests that were sent and not answered, or only queued. */
unsigned client_outstanding(unsigned client);

#endif
