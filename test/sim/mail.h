/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_MAIL_H
#define ZKLOCK_SIM_MAIL_H

/* mail.h: what client.c of the library makes of the ZooKeeper client's callbacks, and what it asks for, in the simulation's
 * terms. */

#include "zk.h"

enum mail_type { MAIL_CONNECTED, MAIL_DISCONNECTED, MAIL_EXPIRED, MAIL_REPLY, MAIL_WATCH };

struct mail {
	enum mail_type   type;
	uint64_t         party;
	bool             gone, directory;
	int16_t          node;
	int32_t          request, view;
	enum zkl__result result;
	int              zk_code;
	int64_t          session_id, timeout, replied_ns;
};

extern const char *const mail_paths[TREE_DIRECTORIES];

/* What the ensemble has to know of a request. */
void mail_request(struct request *ret, uint64_t party, const struct zkl__request *request);
void mail_reply(struct zkl__reply *reply, const struct mail *mail);
/* The last part of what is watched, and what is before it. */
const char *mail_watched_name(const struct mail *mail);
const char *mail_watched_directory(const struct mail *mail);

#endif
