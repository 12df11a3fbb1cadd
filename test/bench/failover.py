# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the holder, and of the leader: how long until the next one has it.

The servers end the session of who was killed T after they last heard of it, which they count in ticks; the rest is the
hand-over. A limit that must hold each time: the slowest counts. Who lets hear of itself more often is replaced later; how
long it was silent before it was killed is reported, too."""

import os
import statistics
import time

from report import Figure
from workers import Directory, Worker, silent_s

SESSION_MS = 2000
TICK_MS = int(os.environ["ZKLOCK_TEST_TICK_MS"])


class Succession:
    def __init__(self, kind, recipe, index):
        self.holder, self.waiter = (Worker(kind, index + i, recipe, SESSION_MS) for i in range(2))
        for each in (self.holder, self.waiter):
            each.hear("ready")
        directory = Directory("failover")
        self.holder.ask("hold", directory.path, answer="held")
        self.waiter.tell("queue", directory.path, 1, 0, 1)
        directory.wait_for(2)
        self.killed = self.silent_s = None

    def kill(self):
        self.silent_s = silent_s(self.holder)
        self.killed = time.monotonic_ns()
        self.holder.kill()

    def took_s(self):
        return (self.waiter.hear("turns")[0] - self.killed) / 1e9

    def close(self):
        for each in (self.holder, self.waiter):
            each.close()


def run_one(table, name, recipe, subjects, round_trip_ms, count):
    limit = (SESSION_MS + 1.5 * TICK_MS + 2 * round_trip_ms) / 1000
    figure = Figure("%s killed, T = %d s" % (name, SESSION_MS / 1000), "s", None, "<= %.3f" % limit, judged=max)
    silence = Figure("%s killed: silent before for" % name, "s", None)
    for kind in subjects:
        # All at once: they only wait, and at other moments within a tick.
        successions = [Succession(kind, recipe, i) for i in range(count)]
        for i, each in enumerate(successions):
            time.sleep(0.01 + TICK_MS / 1000 * (i / count))
            each.kill()
        for each in successions:
            figure.add(kind, each.took_s())
            silence.add(kind, each.silent_s)
            each.close()
    table.add(figure)
    table.add(silence)


def run(table, crews, short):
    times = crews.of("bare", 1)[0].ask("cycles", Directory("failover").path, 50)
    round_trip_ms = statistics.median(times) / 1e6
    count = 3 if short else 10
    run_one(table, "holder", "lock", ("zklock", "curator", "kazoo"), round_trip_ms, count)
    run_one(table, "leader", "election", ("zklock", "curator"), round_trip_ms, count)
