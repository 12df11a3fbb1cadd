# SPDX-License-Identifier: Apache-2.0
"""What sessions that hold cost the servers, beside sessions that are only there: their CPU time, all servers together."""

import os
import subprocess
import time

from report import Figure
from workers import SERVERS, ZK, Directory, Holders

SESSION_MS = 10000
WINDOW_S = 10


class Servers:
    def __init__(self):
        self.pids = [int(subprocess.run([ZK, "pid", str(i + 1)], stdout=subprocess.PIPE, check=True).stdout)
                     for i in range(SERVERS.count(",") + 1)]

    def cpu_s(self):
        total = 0
        for pid in self.pids:
            with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                total += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        return total / os.sysconf("SC_CLK_TCK")

    def percent_over(self, seconds):
        cpu, began = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return 100 * (self.cpu_s() - cpu) / (time.monotonic() - began)


def run(table, _crews, short):
    if short:
        return
    servers = Servers()
    for sessions in (100, 500):
        figure = Figure("CPU of servers, %d sessions hold" % sessions, "% core", "as many idle ones")
        for _ in range(3):
            with Holders(SESSION_MS, "/", sessions, 0):
                idle = servers.percent_over(WINDOW_S)
            with Holders(SESSION_MS, Directory("load").path + "/", sessions, 1):
                figure.add("zklock", servers.percent_over(WINDOW_S), idle)
        table.add(figure)
