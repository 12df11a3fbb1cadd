/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd.h"

#include "harness.h"

#include <stdlib.h>

static void count_event(const zkl_event *ev, void *user)
{
	crowd *c = user;
	if (ev->type == ZKL_EV_WAITING)
		atomic_fetch_add(&c->waiting, 1);
	else if (ev->type == ZKL_EV_GRANTED)
		atomic_fetch_add(&c->granted, 1);
	else if (ev->type == ZKL_EV_LOST)
		atomic_fetch_add(&c->lost, 1);
	else if (ev->type == ZKL_EV_ENDED)
		atomic_fetch_add(&c->ended, 1);
}

crowd *crowd_of(zkl_session *s)
{
	crowd *c = calloc(1, sizeof *c);
	c->session = s;
	return c;
}

int crowd_start(crowd *c, const char *path, zkl_error *reterr)
{
	zkl_options options = ZKL_OPTIONS_INIT;
	options.on_event = count_event;
	options.user = c;
	if (c->count == c->size) {
		c->size = c->size * 2 + 64;
		c->locks = realloc(c->locks, (size_t)c->size * sizeof(zkl_lock *));
	}
	EXPECT_RC(zkl_lock_new(c->session, path, &options, &c->locks[c->count], NULL), ZKL_OK);
	return zkl_lock_start(c->locks[c->count++], ZKL_FOREVER, reterr);
}

void crowd_free(crowd *c)
{
	for (int i = 0; i < c->count; i++)
		zkl_lock_free(c->locks[i]);
	EXPECT_RC(zkl_session_close(c->session, 60000), ZKL_OK);
	free(c->locks);
	free(c);
}
