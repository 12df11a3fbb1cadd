/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX  1024
#define SHOWN_MAX 512
#define ERASE     "\r\033[K"

const char *zkl__message_program = "zklock-run";

static pthread_mutex_t mutex =
	PTHREAD_MUTEX_INITIALIZER; /* of what is on the terminal: the library's threads log, too */
static char shown[SHOWN_MAX];      /* "": nothing */

/* -1: not possible. What a pty's master is opened again as is another pty. */
static int open_again(void)
{
	struct stat before, after;
	int         fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 && (fstat(STDERR_FILENO, &before) < 0 || fstat(fd, &after) < 0 || before.st_rdev != after.st_rdev ||
	                before.st_ino != after.st_ino)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A terminal has room for a part. So it is opened once more, since standard error is not ours alone to be made nonblocking. */
static ssize_t put_onto(const char *text, size_t length)
{
	static int    own = -1;
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

	const size_t step = isatty(STDERR_FILENO) ? 1 : length;
	size_t       done = 0;

	if (own < 0 && step == 1)
		own = open_again();
	if (own >= 0)
		return write(own, text, length);
	/* For one byte there is room where there is any. */
	while (done < length && poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0 &&
	       write(STDERR_FILENO, text + done, step) == (ssize_t)step)
		done += step;
	return (ssize_t)done;
}

/* What is spliced into a pipe does not block, whoever else fills it meanwhile. */
static ssize_t put_into_pipe(const char *text, size_t length)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return put_onto(text, length); /* for want of descriptors */
	ssize_t written = write(ends[1], text, length);
	if (written > 0)
		written = splice(ends[0], NULL, STDERR_FILENO, NULL, (size_t)written, SPLICE_F_NONBLOCK);
	close(ends[0]);
	close(ends[1]);
	return written;
}

static void put(const char *text, size_t length)
{
	struct stat status = {0};
	ssize_t     written; /* nobody is left to be told when it is not */

	fstat(STDERR_FILENO, &status);
	if (S_ISFIFO(status.st_mode))
		written = put_into_pipe(text, length);
	else if (S_ISSOCK(status.st_mode))
		written = send(STDERR_FILENO, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		written = put_onto(text, length);
	(void)written;
}

static void make_visible(char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
	}
}

void zkl__message_say(const char *format, ...)
{
	char         line[TEXT_MAX], all[TEXT_MAX + SHOWN_MAX + sizeof(ERASE)];
	const size_t start = (size_t)snprintf(line, sizeof(line), "%s: ", zkl__message_program);
	va_list      args;

	va_start(args, format);
	vsnprintf(line + start, sizeof(line) - start - 1, format, args);
	va_end(args);
	make_visible(line, strlen(line));
	pthread_mutex_lock(&mutex);
	put(all, (size_t)snprintf(all, sizeof(all), "%s%s\n%s", shown[0] != '\0' ? ERASE : "", line, shown));
	pthread_mutex_unlock(&mutex);
}

/* ---- on a terminal ---- */

bool zkl__message_can_show(void)
{
	const char *type = getenv("TERM");

	return isatty(STDERR_FILENO) && type != NULL && strcmp(type, "dumb") != 0 &&
	       tcgetpgrp(STDERR_FILENO) == getpgrp();
}

/* Never within a character of several bytes. */
static void cut(char *text, size_t length)
{
	const size_t dots = strlen("...");

	if (strlen(text) <= length)
		return;
	length = length > dots ? length - dots : 0;
	while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
		length--;
	memcpy(text + length, "...", dots + 1);
}

static size_t width(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

void zkl__message_show(const char *text)
{
	char line[SHOWN_MAX] = "", all[SHOWN_MAX + sizeof(ERASE)];

	if (text != NULL) {
		snprintf(line, sizeof(line), "%s: %s", zkl__message_program, text);
		make_visible(line, strlen(line));
		cut(line, width() - 1); /* the last column would begin the next line */
	}
	pthread_mutex_lock(&mutex);
	if (strcmp(line, shown) != 0) {
		memcpy(shown, line, sizeof(shown));
		put(all, (size_t)snprintf(all, sizeof(all), ERASE "%s", shown));
	}
	pthread_mutex_unlock(&mutex);
}
