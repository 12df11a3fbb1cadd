/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SESSION_OPTIONS_H
#define ZKLOCK_SESSION_OPTIONS_H

#include <zklock/session.h>

#include "node_data.h"
#include "servers.h"

#define ZKL__DEFAULT_TIMEOUT_MS 10000
#define ZKL__LEAST_TIMEOUT_MS   100
#define ZKL__MOST_TIMEOUT_MS    86400000

/* Are they possible? *ret is the parsed servers, the caller's to clear. ZKL_EINVAL, ZKL_EPATH, ZKL_ENOMEM. */
int zkl__session_options_check(const zkl_session_options *options, struct zkl__servers *ret, zkl_error *reterr);
/* Who are we? name NULL: the program's own. */
void zkl__session_identify(struct zkl__identity *who, const char *name);

#endif
