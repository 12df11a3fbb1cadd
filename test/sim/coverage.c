/* SPDX-License-Identifier: Apache-2.0 */
#include "coverage.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Inputs, with replies told apart by what they answer. */
enum { INPUTS = ZKL__IN_SETTLED + 1, OPS = ZKL__FIND_WATCH + 1 };

#define X(name) COUNTED_##name,
enum counted_state { ZKL__SUPERVISOR_STATES(X) SUPERVISOR_STATES };
enum counted_event { ZKL__SUPERVISOR_EVENTS(X) SUPERVISOR_EVENTS };
#undef X

static struct {
	uint64_t input[ZKL__STATES][INPUTS], reply[ZKL__STATES][OPS];
	uint64_t supervisor[SUPERVISOR_STATES][SUPERVISOR_EVENTS];
} counts;

void coverage_contender(enum zkl__state state, const struct zkl__input *in)
{
	if (in->type == ZKL__IN_REPLY)
		counts.reply[state][in->reply->op]++;
	else
		counts.input[state][in->type]++;
}

void coverage_supervisor(enum zkl__supervisor_state state, enum zkl__supervisor_event_type event)
{
	counts.supervisor[state][event]++;
}

void *coverage_counts(size_t *ret_size)
{
	*ret_size = sizeof counts;
	return &counts;
}

void coverage_add(const void *more)
{
	uint64_t       *to = (uint64_t *)(void *)&counts;
	const uint64_t *from = more;

	for (size_t i = 0; i < sizeof counts / sizeof *to; i++)
		to[i] += from[i];
}

/* ---- what is possible ---------------------------------------------------------------------------------------------- */

/* x: it comes; r: so seldom, if ever, that it is not demanded, but nothing forbids it; .: it cannot come.
 *                                                             IDLE TRY MAKE RENEWAL JOIN ADOPT WAIT RELIST ENTITLED HELD LOST LEAVE */
static const char *const input_table[INPUTS] = {
	[ZKL__IN_START] = "x...........",      [ZKL__IN_LEAVE] = ".xxxxxxxxxxr",
	[ZKL__IN_LINK_UP] = "xxxxxxxxxxxx",    [ZKL__IN_LINK_DOWN] = "xxxxxxxxxxxx",
	[ZKL__IN_EXPIRED] = "rxrrxxxrxxxx",    [ZKL__IN_GONE] = "rrrxxrxxxxxx",
	[ZKL__IN_CHANGED] = "rrrrrrxrrrrx",    [ZKL__IN_LEASE_LIVE] = "........x...",
	[ZKL__IN_LEASE_OVER] = ".........x..", [ZKL__IN_SETTLED] = ".........xxx"};
static const char *const reply_table[OPS] = {
	[ZKL__CREATE] = "....xx.r...x", [ZKL__LIST] = ".xxxxxrxrrrx",       [ZKL__MAKE_PATH] = "..xrr.......",
	[ZKL__SYNC] = ".x.r........",   [ZKL__BARRIER] = "..rrrx.rrrrx",    [ZKL__FIND] = "...rrxrrrrrx",
	[ZKL__WATCH] = "...xrrxxxxxx",  [ZKL__WATCH_MARK] = "...rrrxxrrrx", [ZKL__MARK] = "....rrrrrxxx",
	[ZKL__DELETE] = "...xrrrrrrrx", [ZKL__RENEW] = "r..xr.r....r"};
/*                                               WAITING RELEASING PAUSING RUNNING STAYING ENDING KILLING HOLDING */
static const char *const supervisor_table[SUPERVISOR_EVENTS] = {
	[ZKL__ON_GRANTED] = "x.......",       [ZKL__ON_GRANTED_LATE] = "x.......",
	[ZKL__ON_LOST] = "...xxxrx",          [ZKL__ON_ENDED] = "xx.rrxr.",
	[ZKL__ON_NOT_STARTED] = "...x.rrr",   [ZKL__ON_STOPPED] = "...x.rr.",
	[ZKL__ON_TOLD] = "...x.xr.",          [ZKL__ON_STEADY] = "...x.xr.",
	[ZKL__ON_EXITED] = "...x.xr.",        [ZKL__ON_EXITED_ALONE] = "...x.xx.",
	[ZKL__ON_GONE] = "...rxxxr",          [ZKL__ON_WARDEN_DIED] = "xrrxrxrx",
	[ZKL__ON_SIGNALLED] = "xrxxxxrx",     [ZKL__ON_CONNECT_TIMEOUT] = "xrr..rr.",
	[ZKL__ON_GRACE_OVER] = "...r.xrx",    [ZKL__ON_MAX_HOLD_OVER] = "..rxrrrr",
	[ZKL__ON_MIN_HOLD_OVER] = "rrrrrrrx", [ZKL__ON_PAUSE_OVER] = "..x.....",
	[ZKL__ON_CONTINUED] = "...x.rr."};

#define X(name) #name,
static const char *const supervisor_states[] = {ZKL__SUPERVISOR_STATES(X)};
static const char *const supervisor_events[] = {ZKL__SUPERVISOR_EVENTS(X)};
#undef X
static const char *const input_names[INPUTS] = {"", "start", "leave",   "link up",    "link down",  "expired",
                                                "", "gone",  "changed", "lease live", "lease over", "settled"};

/* From so many steps on nothing may be missing that is not rare. */
enum { ENOUGH = 1000000 };

static bool print_row(const char *name, const uint64_t *row, size_t stride, int columns, const char *possible,
                      bool enough)
{
	bool good = true;

	printf("%-16s", name);
	for (int i = 0; i < columns; i++) {
		uint64_t count = row[(size_t)i * stride];
		char     may = '.';

		if (possible && possible[i])
			may = possible[i];
		if (may == '.' && !count)
			printf(" %9s", ".");
		else
			printf(" %8" PRIu64 "%c", count, may == 'x' && enough && !count ? '!' : may == '.' ? '?' : ' ');
		good = good && (may == '.' ? !count : may != 'x' || !enough || count);
	}
	printf("\n");
	return good;
}

static bool print_contender(bool *ret_enough)
{
	uint64_t steps = 0;
	bool     good = true, enough;

	for (int s = 0; s < ZKL__STATES; s++)
		for (int i = 1; i < OPS; i++)
			steps += counts.reply[s][i];
	*ret_enough = enough = steps > ENOUGH;
	printf("%-16s", "contender");
	for (int s = 0; s < ZKL__STATES; s++)
		printf(" %9s", zkl__state_name((enum zkl__state)s));
	printf("\n");
	for (int i = 1; i < INPUTS; i++)
		if (i != ZKL__IN_REPLY)
			good = print_row(input_names[i], &counts.input[0][i], INPUTS, ZKL__STATES, input_table[i],
			                 enough) &&
			       good;
	for (int i = 1; i < OPS; i++)
		if (reply_table[i])
			good = print_row(zkl__op_name((enum zkl__op)i), &counts.reply[0][i], OPS, ZKL__STATES,
			                 reply_table[i], enough) &&
			       good;
	return good;
}

static bool print_supervisor(bool *ret_enough)
{
	uint64_t steps = 0;
	bool     good = true, enough;

	for (int i = 0; i < SUPERVISOR_EVENTS; i++)
		steps += counts.supervisor[0][i];
	*ret_enough = enough = steps > ENOUGH / 10;
	printf("\n%-16s", "supervisor");
	for (int s = 0; s < SUPERVISOR_STATES - 1; s++)
		printf(" %9s", supervisor_states[s]);
	printf("\n");
	for (int i = 0; i < SUPERVISOR_EVENTS; i++)
		good = print_row(supervisor_events[i], &counts.supervisor[0][i], SUPERVISOR_EVENTS,
		                 SUPERVISOR_STATES - 1, supervisor_table[i], enough) &&
		       good;
	return good;
}

/* Steps by state and by what came; `?`: it came, though the table says that it cannot; `!`: it never came, though it can. */
bool coverage_print(void)
{
	bool enough_contender, enough_supervisor;
	bool contender = print_contender(&enough_contender), supervisor = print_supervisor(&enough_supervisor);

	if (!contender || !supervisor)
		fprintf(stderr, "sim: the coverage is not what the tables of %s say: see ! and ?\n", __FILE__);
	if (!enough_contender || !enough_supervisor)
		fprintf(stderr, "sim: too few steps to demand every pair that is possible\n");
	return contender && supervisor;
}
