# SPDX-License-Identifier: Apache-2.0
"""Many locks in one session, beside one: its memory, and what comes from the servers while they are held."""

import re
import time

from report import Figure
from workers import Directory, Holders, received

LOCKS = 10000
SESSION_MS = 4000
# Of heartbeats, two or three each second.
WINDOW_S = 12


def resident(holders):
    with open("/proc/%d/status" % holders.process.pid, encoding="ascii") as file:
        return 1024 * int(re.search(r"^VmRSS:\s+(\d+)", file.read(), re.MULTILINE).group(1))


def run(table, _crews, short):
    if short:
        return
    memory = Figure("memory of a lock, %d in one session" % LOCKS, "bytes", None, "< 1000")
    traffic = Figure("traffic of %d locks" % LOCKS, "bytes", "traffic of one", "<= 1.1")
    one, many = (Holders(SESSION_MS, Directory("many").path + "/", 1, locks) for locks in (1, LOCKS))
    with one, many:
        memory.add("zklock", (resident(many) - resident(one)) / (LOCKS - 1))
        for _ in range(3):
            before = [received([each]) for each in (many, one)]
            time.sleep(WINDOW_S)
            traffic.add("zklock", *(received([each]) - was for each, was in zip((many, one), before)))
    for figure in (memory, traffic):
        table.add(figure)
