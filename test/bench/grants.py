# SPDX-License-Identifier: Apache-2.0
"""How often a second a lock changes hands among clients that queue again at once.

The floor is a chain of deletions alone, which queues nobody again: the best that any lock can do. Beside it stands that chain
with queueing, by creates, lists and watches without any care: what remains between it and a lock is the lock's. What both
sides of the wire spend on a grant tells where the rest goes: with all cores busy, that is what the rate depends on."""

from queue_up import drain
from report import SUBJECTS, Figure

CLIENTS = 100


def rate(moments):
    return len(moments) / moments[-1]


def run(table, crews, short):
    figure = Figure("grants a second, %d queue again" % CLIENTS, "1/s", "a chain of deletions", ">= 0.7")
    clients, servers = (Figure("CPU of %s a grant, %d queue again" % (which, CLIENTS), "ms", "a deletion's")
                        for which in ("clients", "servers"))
    rounds = 3 if short else 10
    for _ in range(1 if short else 6):
        for kind in (*SUBJECTS, "raw"):
            floor = drain(crews, "raw", (rounds - 1) * CLIENTS, 0)
            drained = drain(crews, kind, CLIENTS, 0, rounds)
            # In the last round the queue runs empty.
            figure.add(kind, rate(drained.moments[:-CLIENTS]), rate(floor.moments))
            clients.add(kind, drained.clients_ms, floor.clients_ms)
            servers.add(kind, drained.servers_ms, floor.servers_ms)
    for each in (figure, clients, servers):
        table.add(each)
