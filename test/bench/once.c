/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a command which takes a lock once can do: bench_once SERVERS PATH connects, creates, deletes, closes. */
#include "common.h"
#include "recipe.h"

int main(int argc, char **argv)
{
	contender *c;

	if (argc != 3)
		die("usage: bench_once SERVERS PATH");
	bare.connect(argv[1], 10000);
	c = bare.join(argv[2]);
	bare.acquire(c);
	bare.release(c);
	bare.leave(c);
	bare.disconnect();
	return 0;
}
