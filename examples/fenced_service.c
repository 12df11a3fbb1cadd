/* SPDX-License-Identifier: Apache-2.0 */
/* A service that guards itself: it keeps one value, and refuses holders of the lock whose time is over.
 *
 *     fenced_service PORT FOLDER            port 0: any; says "listening on PORT"
 *
 * A request is one line, "TOKEN get" or "TOKEN put VALUE", on a connection to 127.0.0.1; so is the answer: "ok VALUE",
 * "stale REASON" or "error REASON". Reads come with a token too: from then on a late write of an older holder is
 * refused. Value and mark are in FOLDER: a service that is killed and started again knows both. */
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zklock/fence.h>

struct request {
	bool put;
	char value[256];
};
static int store; /* one value, less than a sector */

/* What the fence lets in, while it lets nobody else in. It must end by itself: nothing here waits for a client. */
static int access_value(void *user)
{
	struct request *request = user;
	const ssize_t   size = sizeof request->value;

	if (!request->put)
		return pread(store, request->value, (size_t)size, 0) < 0;
	return pwrite(store, request->value, (size_t)size, 0) != size || fdatasync(store) < 0;
}

/* What follows the token. Half a line is no request, nor is one with a value that would be cut short. */
static bool parse(const char *text, struct request *ret)
{
	const size_t length = strlen(text);

	ret->put = strncmp(text, " put ", 5) == 0;
	if (!ret->put || length >= 5 + sizeof ret->value || text[length - 1] != '\n')
		return strcmp(text, " get\n") == 0;
	memcpy(ret->value, text + 5, length - 6);
	return true;
}

static void answer(zkl_fence *fence, FILE *in, int client)
{
	struct request request = {.put = false};
	char           line[320] = "", *rest;
	zkl_error      error;

	const bool     asked = fgets(line, sizeof line, in) != NULL;
	const uint64_t token = strtoull(line, &rest, 10); /* 0, which no grant has, where there is none */
	if (!asked || !parse(rest, &request)) {
		dprintf(client, "error not a request\n");
		return;
	}
	int r = zkl_fence_admit(fence, token, access_value, &request, &error);
	if (r == 0)
		dprintf(client, "ok %s\n", request.value);
	else if (r == ZKL_ESTALE)
		dprintf(client, "stale %s\n", error.message);
	else
		dprintf(client, "error %s\n", r < 0 ? error.message : "the value cannot be read or written");
}

static void serve(zkl_fence *fence, int listener)
{
	const struct timeval patience = {.tv_sec = 5}; /* with a client that does not ask */

	for (;;) {
		const int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		FILE     *in = client < 0 ? NULL : fdopen(client, "r");

		if (!in)
			continue;
		setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		answer(fence, in, client);
		fclose(in);
	}
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t          length = sizeof address;
	zkl_fence         *fence;
	zkl_error          error;
	int                listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	signal(SIGPIPE, SIG_IGN);
	if (argc != 3 || chdir(argv[2]) < 0 || (store = open("value", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) < 0) {
		fprintf(stderr, "usage: fenced_service PORT FOLDER\n");
		return 64;
	}
	if (zkl_fence_open("fence", &fence, &error) < 0) {
		fprintf(stderr, "fenced_service: %s\n", error.message);
		return 1;
	}
	address.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 64) < 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) < 0) {
		perror("fenced_service");
		return 1;
	}
	printf("listening on %d, mark %" PRIu64 "\n", ntohs(address.sin_port), zkl_fence_mark(fence));
	fflush(stdout);
	serve(fence, listener);
}
