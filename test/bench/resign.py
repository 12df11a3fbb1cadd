# SPDX-License-Identifier: Apache-2.0
"""From a leader's resignation to the next one's election, in terms so long that no lease is left from the time when the next
one became a candidate. The second candidate has seen that it is next; the others have to look first, and to prove that
their sessions live."""

import statistics

from queue_up import drain
from report import Figure

SESSION_MS = 2000
TERM_US = 900000
CANDIDATES = 4


def run(table, crews, short):
    knew = Figure("resigned, the next one knew", "ms", "delete to watch", "<= 1.15")
    looked = Figure("resigned, the next one looks first", "ms", "delete to watch", "<= 2.2")
    for _ in range(1 if short else 12):
        for kind in ("zklock", "curator"):
            floor = statistics.median(drain(crews, "raw", CANDIDATES - 1, TERM_US).took)
            took = drain(crews, kind, CANDIDATES - 1, TERM_US, recipe="election", session_ms=SESSION_MS).took
            knew.add(kind, took[0], floor)
            looked.add(kind, statistics.median(took[1:]), floor)
    for figure in (knew, looked):
        table.add(figure)
