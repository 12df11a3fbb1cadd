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

/* x: it comes; r: it may come, but so seldom that it is not demanded, with the reason below; .: it cannot come.
 *
 * Why not, where one might think so. IDLE has nothing to leave, and who waits there for an earlier attempt of its handle to
 * end begins before it hears of the end of the session. Who is in MAKE has heard of all children's ends before it heard that
 * the directory is missing; so has who is entitled or holds of all that it ever watched before its own node, whose data
 * nobody watches. Of lists, creates, finds and what is asked with them the newest is answered last, and is what leads on.
 * What holds has marked, and does not queue again. No second node of one contender is ever seen, and deleted, since each
 * create has a uuid of its own.
 *
 * r. leave in LEAVE: its owner, or who closes the session, lets go of a grant that was not told yet and is found to be over
 * by that. make-path and barrier in JOIN, find in JOIN, watch and watch-mark in ADOPT: it was asked in answer to news from
 * before the loss of the connection or of the session, and is answered after that was heard of. watch-mark in LOST: of who
 * was granted between question and answer, and lost that before the answer. */
/*                                                             IDLE TRY MAKE RENEWAL JOIN ADOPT WAIT RELIST ENTITLED HELD LOST LEAVE */
static const char *const input_table[INPUTS] = {
	[ZKL__IN_START] = "x...........",      [ZKL__IN_LEAVE] = ".xxxxxxxxxxr",
	[ZKL__IN_LINK_UP] = "xxxxxxxxxxxx",    [ZKL__IN_LINK_DOWN] = "xxxxxxxxxxxx",
	[ZKL__IN_EXPIRED] = ".xxxxxxxxxxx",    [ZKL__IN_GONE] = "xx.xxxxxxxxx",
	[ZKL__IN_CHANGED] = "xx.xxxxx...x",    [ZKL__IN_LEASE_LIVE] = "........x...",
	[ZKL__IN_LEASE_OVER] = ".........x..", [ZKL__IN_SETTLED] = ".........xxx"};
static const char *const reply_table[OPS] = {
	[ZKL__CREATE] = "....xx.....x", [ZKL__LIST] = ".xxxxx.x...x",       [ZKL__MAKE_PATH] = "..x.r.......",
	[ZKL__SYNC] = ".x..........",   [ZKL__BARRIER] = "..x.rx.x...x",    [ZKL__FIND] = "....rx.....x",
	[ZKL__WATCH] = "...xxrxxxxxx",  [ZKL__WATCH_MARK] = "....xrxxxxrx", [ZKL__MARK] = ".........xxx",
	[ZKL__DELETE] = "...x.......x", [ZKL__RENEW] = "...x........"};
/* As in the program, the end of a command is told before that of its tree, a loss before the end of the attempt, and the
 * times of a term end with it.
 *
 * r. connect-timeout in RELEASING: the session ends while the lock is given back, just then, and that was not told yet.
 * min-hold: from the end of a schedule on it comes in any state, where in the program it comes in HOLDING alone.
 *                                               WAITING RELEASING PAUSING RUNNING STAYING ENDING KILLING HOLDING */
static const char *const supervisor_table[SUPERVISOR_EVENTS] = {
	[ZKL__ON_GRANTED] = "x.......",       [ZKL__ON_GRANTED_LATE] = "x.......",
	[ZKL__ON_LOST] = "...xxxxx",          [ZKL__ON_ENDED] = "xx...xx.",
	[ZKL__ON_NOT_STARTED] = "...x.xx.",   [ZKL__ON_STOPPED] = "...x.xx.",
	[ZKL__ON_TOLD] = "...x.xx.",          [ZKL__ON_STEADY] = "...x.xx.",
	[ZKL__ON_EXITED] = "...x.xx.",        [ZKL__ON_EXITED_ALONE] = "...x.xx.",
	[ZKL__ON_GONE] = "....xxx.",          [ZKL__ON_WARDEN_DIED] = "xxxxxxxx",
	[ZKL__ON_SIGNALLED] = "xxxxxxxx",     [ZKL__ON_CONNECT_TIMEOUT] = "xr......",
	[ZKL__ON_GRACE_OVER] = ".....xxx",    [ZKL__ON_MAX_HOLD_OVER] = "...xxxxx",
	[ZKL__ON_MIN_HOLD_OVER] = "xxxxrrrx", [ZKL__ON_PAUSE_OVER] = "..x.....",
	[ZKL__ON_CONTINUED] = "...x.xx."};

#define X(name) #name,
static const char *const supervisor_states[] = {ZKL__SUPERVISOR_STATES(X)};
static const char *const supervisor_events[] = {ZKL__SUPERVISOR_EVENTS(X)};
#undef X
static const char *const input_names[INPUTS] = {"", "start", "leave",   "link up",    "link down",  "expired",
                                                "", "gone",  "changed", "lease live", "lease over", "settled"};

/* From so many steps on, those of 130,000 schedules, nothing may be missing that is not rare: what comes seldom comes 40
 * times in 200,000. */
enum { ENOUGH = 30000000, ENOUGH_SUPERVISOR = 1500000 };

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
	*ret_enough = enough = steps > ENOUGH_SUPERVISOR;
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
		fprintf(stderr, "sim: what was reached is not what test/sim/coverage.c says can be: see ! and ?\n");
	if (!enough_contender || !enough_supervisor)
		fprintf(stderr, "sim: too few steps to demand every pair that is possible\n");
	return contender && supervisor;
}
