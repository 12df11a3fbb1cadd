/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *zkl__message_program = "zklock-run";

void zkl__message_say(const char *format, ...)
{
	char          line[1024]; /* less than PIPE_BUF: a writable pipe takes it whole */
	const size_t  start = (size_t)snprintf(line, sizeof(line), "%s: ", zkl__message_program);
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
	va_list       args;

	va_start(args, format);
	vsnprintf(line + start, sizeof(line) - start - 1, format, args);
	va_end(args);

	size_t length = strlen(line);
	for (size_t i = start; i < length; i++) {
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	}
	line[length++] = '\n';
	if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0) {
		/* Nobody is left to be told when this fails. */
		ssize_t written = write(STDERR_FILENO, line, length);
		(void)written;
	}
}
