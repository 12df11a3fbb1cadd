/* SPDX-License-Identifier: Apache-2.0 */
/* Built against an installed copy, as C and as C++: the headers serve both, and the library is found, linked and run. */
#include <stdio.h>
#include <string.h>
#include <zklock/lock.h>

int main(void)
{
	zkl_session_options options = ZKL_SESSION_OPTIONS_INIT;
	zkl_session        *session = NULL;
	zkl_error           error;

	if (zkl_version() != ZKL_VERSION || strcmp(zkl_error_name(ZKL_EBUSY), "ZKL_EBUSY") != 0)
		return 1;
	if (zkl_session_open(&options, &session, &error) != ZKL_EINVAL)
		return 1;
	printf("%s\n", error.message);
	return 0;
}
