/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ZKLOCK_SIM_REPORT_H
#define ZKLOCK_SIM_REPORT_H

/* report.h: the invariants by name, the first failure of a schedule, and the trace of a replay. */

#include <stdbool.h>
#include <stdint.h>

/* name, what it says */
#define INVARIANTS(X)                                                                                                  \
	X(ONE_HOLDER, "one-holder", "who is granted has the lowest node, by news from when it still was there")        \
	X(OVERLAP, "overlap", "nobody is granted while another may act, by true time")                                 \
	X(LEASE, "lease", "no session is given up while a holder of it may act")                                       \
	X(LASTS, "lasts", "a grant with nothing in the way of its proofs is not lost to the clock")                    \
	X(FENCING, "fencing", "no admitted write out of token order, no refused write of the newest holder")           \
	X(TOKENS, "tokens", "tokens of a path grow grant by grant, below their node's czxid")                          \
	X(PLACE, "place", "who loses its connection, not its session, keeps its place")                                \
	X(ONE_LOST, "one-lost", "exactly one LOST for a grant that is lost, and one ENDED, in order")                  \
	X(NO_STAYS_NO, "no-stays-no", "a check that has said no says no for ever")                                     \
	X(TOLD, "told", "a holder whose node was deleted is told within a round trip")                                 \
	X(ORPHAN, "orphan", "no node of a contender that is done, nor a second one of a contender")                    \
	X(ONLY_OWN, "only-own", "nobody deletes or marks a node that is not its own, and only a holder marks")         \
	X(AFTER_END, "after-end", "no request after the end")                                                          \
	X(HERD, "herd", "a release wakes one waiter")                                                                  \
	X(REQUESTS, "requests", "constant requests per release")                                                       \
	X(ROOM, "room", "it comes to an end in the room that there is; no promise, and so no kill of a mutant")        \
	X(NO_MARK, "no-mark", "a candidate's node is never written to")                                                \
	X(TERM, "term", "a node stays while the term that it stands for runs")                                         \
	X(OBSERVED, "observed", "who is observed to lead was first, and in the end nobody is")                         \
	X(LASTING, "lasting", "of no node that a session ends it is said that none does")                              \
	X(BOUNDED, "bounded", "an attempt ends with its timeout")                                                      \
	X(PROGRESS, "progress", "after the last fault everybody is granted or done within a bound")                    \
	X(WRAPPER, "wrapper", "a command runs only under its lock, nothing is released before its tree is gone")

enum invariant {
#define NAME(id, name, text) id,
	INVARIANTS(NAME)
#undef NAME
		INVARIANT_COUNT
};

void        report_begin(bool trace);
const char *invariant_name(enum invariant invariant);
/* The first one counts. */
void report_failure(enum invariant invariant, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool report_failed(void);
/* Valid if failed. */
enum invariant report_invariant(void);
const char    *report_text(void);

extern bool report_tracing;
void        report_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define TRACE(...)                                                                                                     \
	do {                                                                                                           \
		if (report_tracing)                                                                                    \
			report_trace(__VA_ARGS__);                                                                     \
	} while (0)

#endif
