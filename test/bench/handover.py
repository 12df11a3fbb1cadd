# SPDX-License-Identifier: Apache-2.0
"""From one holder's release to the next one's grant, in another process.

One process holds, the others queue; once all of them stand and all is quiet it lets go, and each of them does in its turn.
The floor is the same among the same number of processes, by deletions and watches alone."""

import statistics

from report import SUBJECTS, Figure
from workers import Directory, Fail, received, wait_quiet

PROCESSES = 10
# The floor does not depend on how many wait.
FLOOR_WAITERS = 30


def drain(crew, waiters, hold_us):
    """Hand-overs in ms, in their order, and the bytes a grant that came from the servers."""
    directory = Directory("queue")
    holder, others = crew[0], crew[1:]
    holder.ask("hold", directory.path, answer="held")
    for i, each in enumerate(others):
        each.tell("queue", directory.path, waiters // len(others) + (i < waiters % len(others)), hold_us, 1)
    directory.wait_for(waiters + 1)
    before = wait_quiet(crew)
    released, = holder.ask("release", answer="released")
    turns = []
    for each in others:
        times = each.hear("turns")
        turns += zip(times[::2], times[1::2])
    took = []
    for granted, next_released in sorted(turns):
        if granted < released:
            raise Fail("%s: granted before it was released" % directory.path)
        took.append((granted - released) / 1e6)
        released = next_released
    return took, (received(crew) - before) / waiters


def run_one(table, crews, waiters, hold_us, repetitions, wanted):
    name = "hand-over, %d waiting, holds of %d ms" % (waiters, hold_us / 1000)
    figure = Figure(name, "ms", "delete to watch", wanted)
    volume = Figure("bytes a grant, %d waiting" % waiters, "bytes", None, "<= 1000")
    processes = 1 + min(PROCESSES, waiters)
    for _ in range(repetitions):
        for kind in SUBJECTS:
            floor, _ = drain(crews.of("raw", processes), min(waiters, FLOOR_WAITERS), hold_us)
            took, received_each = drain(crews.of(kind, processes), waiters, hold_us)
            figure.add(kind, statistics.median(took), statistics.median(floor))
            volume.add(kind, received_each)
    table.add(figure)
    return volume


def run(table, crews, short):
    repetitions = {2: 4, 10: 2, 100: 1} if short else {2: 20, 10: 10, 100: 6, 1000: 3}
    for kind in ("raw", *SUBJECTS):
        for _ in range(3):
            drain(crews.of(kind, 1 + PROCESSES), 20, 0)
    volumes = [run_one(table, crews, waiters, 5000, n, "<= 1.15") for waiters, n in repetitions.items()]
    for waiters, n in repetitions.items():
        run_one(table, crews, waiters, 0, n, "<= 1.5" if waiters < 1000 else "<= 1.7")
    for each in volumes:
        table.add(each)
