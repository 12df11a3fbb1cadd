# SPDX-License-Identifier: Apache-2.0
"""What a holder and a resource call again and again, beside what they cannot do without."""

import operator
import subprocess
import tempfile

from report import Figure
from workers import PROGRAMS, Fail, server_of


def run(table, _crews, short):
    figures = {
        "check": Figure("check()", "ns", "read of the same clock", "<= 15", against=operator.sub),
        "admit": Figure("fence, admit in memory", "ns", "atomic compare", "<= 5", against=operator.sub),
        "raise": Figure("fence, raise on file", "us", "write + fdatasync", "<= 1.1"),
        "set": Figure("guarded set", "us", "set", "<= 1.1"),
    }
    # Not on a file system in memory, where a sync costs nothing.
    with tempfile.TemporaryDirectory(prefix="zklock-bench-", dir="/var/tmp") as folder:
        done = subprocess.run([PROGRAMS + "/bench_calls", server_of(0), folder, "5" if short else "40"],
                              stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Fail("bench_calls ended with %d" % done.returncode)
    for line in done.stdout.splitlines():
        name, *times = line.split()
        scale = 1000 if figures[name].unit == "us" else 1
        figures[name].add("zklock", *(float(each) / scale for each in times))
    for figure in figures.values():
        table.add(figure)
