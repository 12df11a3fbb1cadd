# SPDX-License-Identifier: Apache-2.0
"""A change of leader under the eyes of observers: until the last one knows, how many requests each of them sends for it, and
what each is sent."""

import contextlib
import re
import statistics

from report import Figure
from workers import PROGRAMS, SERVERS, SESSION_MS, Directory, Program, Worker, received, server_of, wait_quiet

import wire

PROCESSES = 10
# Those that lead in turn; the others stand behind them.
LEADERS = 3


class Observers(Program):
    def __init__(self, index, path, count):
        super().__init__("observers %d" % index,
                         [PROGRAMS + "/bench_observers", server_of(index), str(SESSION_MS), path, str(count)])


def requests():
    """That all servers have got, from whomever."""
    texts = [wire.srvr(int(each.rpartition(":")[2])) for each in SERVERS.split(",")]
    return sum(int(re.search(r"^Received: (\d+)", text, re.MULTILINE).group(1)) for text in texts)


def changes(observers, candidates):
    """For each change: ms until the last observer knew, requests of all, and bytes that the observers were sent."""
    path = Directory("observe").path
    with contextlib.ExitStack() as stack:
        leaders = [stack.enter_context(Worker("zklock", i, "election")) for i in range(LEADERS)]
        rest = stack.enter_context(Worker("zklock", LEADERS, "election"))
        for each in (*leaders, rest):
            each.hear("ready")
        for each in leaders:
            each.tell("hold", path)
            wait_quiet(leaders)
        leaders[0].hear("held")
        rest.tell("queue", path, candidates - LEADERS, 0, 1)
        watching = [stack.enter_context(Observers(i, path, observers // PROCESSES)) for i in range(PROCESSES if observers else 0)]
        for each in watching:
            each.hear("led")
        for leader, following in zip(leaders, leaders[1:]):
            wait_quiet([*leaders, rest, *watching])
            asked, sent = requests(), received(watching)
            released, = leader.ask("release", answer="released")
            following.hear("held")
            knew = max((each.hear("led")[0] for each in watching), default=released)
            wait_quiet([*leaders, rest, *watching])
            yield (knew - released) / 1e6, requests() - asked, received(watching) - sent
        # They would lead in their turn.
        rest.kill()


def run_one(table, observers, candidates, count):
    name = "%d observers, %d candidates" % (observers, candidates)
    last = Figure(name + ": all know", "ms", None)
    asked = Figure(name + ": requests", "each", None, "<= 2.1")
    sent = Figure(name + ": sent", "B each", None)
    alone = statistics.median(requests_alone for _ in range(count) for _, requests_alone, _ in changes(0, candidates))
    for _ in range(count):
        for knew_ms, of_all, sent_bytes in changes(observers, candidates):
            last.add("zklock", knew_ms)
            asked.add("zklock", (of_all - alone) / observers)
            sent.add("zklock", sent_bytes / observers)
    for figure in (last, asked, sent):
        table.add(figure)


def run(table, _crews, short):
    for observers, candidates in ((10, 3),) if short else ((10, 3), (10, 100), (1000, 3), (1000, 100)):
        run_one(table, observers, candidates, 1 if short else 5)
