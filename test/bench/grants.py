# SPDX-License-Identifier: Apache-2.0
"""How often a second a lock changes hands among clients that queue again at once.

The floor is a chain of deletions alone, which queues nobody again: the best that any lock can do. Beside it stands that chain
with queueing, by creates, lists and watches without any care: what remains between it and a lock is the lock's."""

from queue_up import drain
from report import SUBJECTS, Figure

CLIENTS = 100


def rate(moments):
    return len(moments) / moments[-1]


def run(table, crews, short):
    figure = Figure("grants a second, %d queue again" % CLIENTS, "1/s", "a chain of deletions", ">= 0.7")
    rounds = 3 if short else 10
    for _ in range(1 if short else 6):
        for kind in (*SUBJECTS, "raw"):
            floor = drain(crews, "raw", (rounds - 1) * CLIENTS, 0)
            drained = drain(crews, kind, CLIENTS, 0, rounds)
            # In the last round the queue runs empty.
            figure.add(kind, rate(drained.moments[:-CLIENTS]), rate(floor.moments))
    table.add(figure)
