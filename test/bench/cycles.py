# SPDX-License-Identifier: Apache-2.0
"""One client and a lock that is free: how long it takes to get it, to let go of it, and how often a second it can do both."""

import statistics

from report import SUBJECTS, Figure
from workers import Directory

BATCH = 20


def measure(crews, path, kind):
    """Medians of a batch in ms, and its cycles a second."""
    times = crews.of(kind, 1)[0].ask("cycles", path, BATCH)
    return statistics.median(times[::2]) / 1e6, statistics.median(times[1::2]) / 1e6, BATCH * 1e9 / sum(times)


def run(table, crews, short):
    acquire = Figure("acquire of a free lock", "ms", "create + list in one go", "<= 1.05")
    release = Figure("release", "ms", "delete", "<= 1.05")
    cycles = Figure("cycles a second, one client", "1/s", "create, then delete", ">= 0.85")
    path = Directory("cycles").path
    for kind in ("raw", "bare", *SUBJECTS):
        for _ in range(10):
            measure(crews, path, kind)
    for _ in range(5 if short else 40):
        for kind in SUBJECTS:
            floor = measure(crews, path, "raw")
            got = measure(crews, path, kind)
            bare = measure(crews, path, "bare")
            acquire.add(kind, got[0], floor[0])
            release.add(kind, got[1], floor[1])
            cycles.add(kind, got[2], bare[2])
    for figure in (acquire, release, cycles):
        table.add(figure)
