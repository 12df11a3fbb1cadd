/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to ZooKeeper's own data, as nobody can who has lost:
 *
 *     zklock-run /locks/config -- guarded_set $ZKLOCK_SERVERS /config/active blue
 *
 * The node is made where it is missing (its parent must be there). 79: the lock that it runs under is lost, nothing was
 * written. In a program that holds the lock itself, zkl_guarded_set() takes the grant as zkl_lock_acquire() gave it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zklock/guarded.h>

#define PATIENCE_MS 10000
#define NO_NODE     (-101)

int main(int argc, char **argv)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_session        *session = NULL;
	zkl_grant           grant = {0};
	zkl_error           error;
	const char         *node = getenv("ZKLOCK_NODE");

	if (argc != 4 || !node) {
		fprintf(stderr, "usage: zklock-run LOCK -- guarded_set SERVERS PATH VALUE\n");
		return 64;
	}
	snprintf(grant.node, sizeof grant.node, "%s", node);
	options.servers = argv[1];
	int r = zkl_session_open(&options, &session, &error);
	if (r == 0)
		r = zkl_guarded_set(session, &grant, argv[2], argv[3], strlen(argv[3]), -1, PATIENCE_MS, &error);
	if (r == ZKL_EZK && error.zk_code == NO_NODE)
		r = zkl_guarded_create(session, &grant, argv[2], argv[3], strlen(argv[3]), PATIENCE_MS, &error);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	zkl_session_close(session, PATIENCE_MS);
	return r == ZKL_ELOST ? 79 : r < 0;
}
