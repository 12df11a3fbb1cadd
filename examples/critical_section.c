/* SPDX-License-Identifier: Apache-2.0 */
/* One at a time, out of many processes: critical_section host:2181 /locks/job */
#include <stdio.h>
#include <zklock/lock.h>

int main(int argc, char **argv)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_session        *session = NULL;
	zkl_lock           *lock = NULL;
	zkl_grant           grant;
	zkl_error           error;

	if (argc != 3) {
		fprintf(stderr, "usage: critical_section SERVERS PATH\n");
		return 64;
	}
	options.servers = argv[1];
	int r = zkl_session_open(&options, &session, &error);
	if (r == 0)
		r = zkl_lock_new(session, argv[2], NULL, &lock, &error);
	if (r == 0)
		r = zkl_lock_acquire(lock, 30000, &grant, &error);
	if (r == 0) {
		if (zkl_lock_check(lock, grant.token) > 0) /* before each act that others can see */
			printf("held, token %llu\n", (unsigned long long)grant.token);
		r = zkl_lock_release(lock, 5000, &error);
	}
	if (r < 0)
		fprintf(stderr, "%s: %s\n", zkl_error_name(r), error.message);
	zkl_lock_free(lock);
	zkl_session_close(session, 5000);
	return r < 0;
}
