# SPDX-License-Identifier: Apache-2.0
"""What sessions that hold cost the servers, beside sessions that are only there: their CPU time, all servers together."""

import time

from report import Figure
from workers import Directory, Holders

SESSION_MS = 10000
WINDOW_S = 10


def percent_over(servers, seconds):
    cpu, began = servers.cpu_s(), time.monotonic()
    time.sleep(seconds)
    return 100 * (servers.cpu_s() - cpu) / (time.monotonic() - began)


def run(table, crews, short):
    if short:
        return
    for sessions in (100, 500):
        figure = Figure("CPU of servers, %d sessions hold" % sessions, "% core", "as many idle ones")
        for _ in range(3):
            with Holders(SESSION_MS, "/", sessions, 0):
                idle = percent_over(crews.servers, WINDOW_S)
            with Holders(SESSION_MS, Directory("load").path + "/", sessions, 1):
                figure.add("zklock", percent_over(crews.servers, WINDOW_S), idle)
        table.add(figure)
