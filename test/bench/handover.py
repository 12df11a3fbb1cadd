# SPDX-License-Identifier: Apache-2.0
"""From one holder's release to the next one's grant, in another process, and what comes from the servers for it.

The floor is the same chain in as many processes, by deletions and watches alone; how many wait makes no difference to it."""

import statistics

from queue_up import PROCESSES, drain
from report import SUBJECTS, Figure

FLOOR_WAITERS = 30
# Hand-overs of a pair, at least.
ENOUGH = 10


def one_pair(crews, kind, waiters, hold_us):
    floor, took, received = [], [], 0
    drains = -(-ENOUGH // waiters)
    for _ in range(drains):
        floor += drain(crews, "raw", min(waiters, FLOOR_WAITERS), hold_us).took
        drained = drain(crews, kind, waiters, hold_us)
        took += drained.took
        received += drained.bytes
    return statistics.median(floor), statistics.median(took), received / drains / waiters


def run_one(table, crews, waiters, hold_us, pairs, wanted):
    figure = Figure("hand-over, %d wait, holds of %d ms" % (waiters, hold_us / 1000), "ms", "delete to watch", wanted)
    volume = Figure("bytes a grant, %d wait, holds of %d ms" % (waiters, hold_us / 1000), "bytes", None, "< 1000")
    for _ in range(pairs):
        for kind in SUBJECTS:
            floor, took, received = one_pair(crews, kind, waiters, hold_us)
            figure.add(kind, took, floor)
            volume.add(kind, received)
    table.add(figure)
    return volume


def run(table, crews, short):
    pairs = {10: 2, 100: 1} if short else {2: 8, 10: 12, 100: 8, 1000: 3}
    for kind in ("raw", *SUBJECTS):
        for _ in range(1 if short else 5):
            drain(crews, kind, 3 * PROCESSES, 0)
    volumes = [run_one(table, crews, waiters, 5000, n, "<= 1.15") for waiters, n in pairs.items()]
    for waiters, n in pairs.items():
        run_one(table, crews, waiters, 0, n, "<= 1.5" if waiters < 1000 else "<= 1.7")
    for each in volumes:
        table.add(each)
