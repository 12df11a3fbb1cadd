/* SPDX-License-Identifier: Apache-2.0 */
#include "observers.h"

#include <inttypes.h>
#include <stdlib.h>

#include "observer.h"
#include "process.h"
#include "report.h"

static struct {
	int16_t               directory; /* NOBODY: it observes nothing */
	struct zkl__observer *observer;
} all[PROCESSES];

/* It was first in the queue at some time: at its end, or now. */
static bool has_led(int16_t node)
{
	int32_t last = tree_node(node)->died ? tree_node(node)->died - 1 : tree_end();

	return tree_lowest(tree_node(node)->directory, last) == node;
}

static void on_event(const zkl_event *event, void *user)
{
	unsigned process = (unsigned)(uintptr_t)user;
	int16_t  node;

	TRACE("process %u: observes %s, token %" PRIu64, process, event->leader ? "a leader" : "nobody",
	      event->leader ? event->leader->token : 0);
	/* Beyond the end of the sequence nobody is granted, though somebody may be shown; numbers are not unique there. */
	if (!event->leader || event->leader->epoch >= ZKL__SEQUENCE_END)
		return;
	node = tree_find_token(all[process].directory, event->leader->token);
	if (node == NOBODY || !has_led(node))
		report_failure(OBSERVED, "process %u observes a leader that never was one, token %" PRIu64, process,
		               event->leader->token);
}

void observers_start(unsigned process)
{
	struct zkl__observer_options options = {.on_event = on_event, .user = (void *)(uintptr_t)process};

	if (all[process].directory == NOBODY)
		return;
	options.path = mail_paths[all[process].directory];
	all[process].observer = zkl__observer_new(process_hub(process), &options);
	if (!all[process].observer)
		abort();
}

void observers_forget(unsigned process)
{
	if (all[process].observer)
		zkl__observer_close(all[process].observer);
	all[process].observer = NULL;
}

bool observers_at_rest(void)
{
	for (unsigned i = 0; i < PROCESSES; i++)
		if (all[i].observer && process_alive(i) && zkl__observer_leader(all[i].observer, NULL) != 0)
			return false;
	return true;
}

void observers_add(unsigned process, int16_t directory)
{
	all[process].directory = directory;
}

void observers_begin(void)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		all[i].directory = NOBODY;
		all[i].observer = NULL;
	}
}
