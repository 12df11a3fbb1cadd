/* SPDX-License-Identifier: Apache-2.0 */
/* A network of its own for each of N clients: proxies N HOST:PORT...
 *
 * The first N lines on standard output are the clients' lists of servers. Then lines on standard input are obeyed, each
 * answered by "done" when it is in force. CLIENT and SERVER are numbers from 0, or * for all:
 *
 *     hold CLIENT SERVER WAYS    silence: 1 to the server, 2 to the client, 3 both, 0 none
 *     door CLIENT SERVER HOW     who connects is 0 let in, 1 refused, 2 not answered
 *     cut CLIENT SERVER          connections are reset
 *     drop CLIENT SERVER HOW     packets to the server 1 vanish, 0 arrive
 *
 * The end of standard input is the end. */
#include "../integration/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void obey(proxy *p, const char *verb, int number)
{
	if (strcmp(verb, "hold") == 0)
		proxy_hold(p, (unsigned)number);
	else if (strcmp(verb, "door") == 0)
		proxy_set_door(p, (proxy_door)number);
	else if (strcmp(verb, "cut") == 0)
		proxy_cut(p);
	else if (strcmp(verb, "drop") == 0)
		proxy_drop(p, number != 0);
	else
		exit(64);
}

static int is_meant(const char *word, int number)
{
	return strcmp(word, "*") == 0 || atoi(word) == number;
}

int main(int argc, char **argv)
{
	int     clients = argc > 2 ? atoi(argv[1]) : 0, servers = argc - 2;
	proxy **all = calloc((size_t)(clients * servers) + 1, sizeof(proxy *));
	char    line[128], verb[16], client[16], server[16];
	if (clients < 1 || all == NULL)
		return 64;
	for (int i = 0; i < clients * servers; i++) {
		all[i] = proxy_start(argv[2 + i % servers]);
		if (all[i] == NULL)
			return 1;
		printf("%s%c", proxy_address(all[i]), i % servers < servers - 1 ? ',' : '\n');
	}
	fflush(stdout);
	while (fgets(line, sizeof line, stdin) != NULL) {
		int number = 0;
		if (sscanf(line, "%15s %15s %15s %d", verb, client, server, &number) < 3)
			return 64;
		for (int i = 0; i < clients * servers; i++)
			if (is_meant(client, i / servers) && is_meant(server, i % servers))
				obey(all[i], verb, number);
		puts("done");
		fflush(stdout);
	}
	for (int i = 0; i < clients * servers; i++)
		proxy_stop(all[i]);
	free(all);
	return 0;
}
