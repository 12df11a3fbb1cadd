/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_STATUS_H
#define ZKLOCK_STATUS_H

/* status.h: how zklock-run and zklock-fence exit, where they do not as their command did. Those that sysexits.h has mean the
 * same there. */
enum zkl__status {
	ZKL__STATUS_USAGE = 64,     /* option, argument, configuration, nested in itself */
	ZKL__STATUS_UNREACHED = 69, /* no ensemble within the connect timeout, or at the end of -w */
	ZKL__STATUS_BUSY = 75,      /* held by another; -E changes it. zklock-fence: another access runs */
	ZKL__STATUS_LOST = 76,      /* lock lost, command ended */
	ZKL__STATUS_DENIED = 77,    /* permission, credentials */
	ZKL__STATUS_OVERDUE = 78,   /* --max-hold ended the command */
	ZKL__STATUS_STALE = 79,     /* zklock-fence: the token is older than one that was admitted */
	ZKL__STATUS_FAILED = 125,   /* the wrapper itself failed */
	ZKL__STATUS_NOT_EXECUTED = 126,
	ZKL__STATUS_NOT_FOUND = 127,
};

#endif
