#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How fast it is, beside the least that ZooKeeper can do it in, and beside Curator and kazoo, in one run on one ensemble.

Nothing here is passed or failed by time: a row says what is wanted and whether this run had it."""

import argparse
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import calls
import commands
import cycles
import failover
import grants
import handover
import load
import many
import observe
import resign
from report import Table
from workers import SERVERS, Crews, Fail

import wire

FIGURES = {"cycles": cycles, "handover": handover, "grants": grants, "failover": failover, "resign": resign, "calls": calls,
           "commands": commands, "observe": observe, "load": load, "many": many}


def version_of(package):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return done.stdout or "unknown"


def surroundings():
    server = re.search(r"^Zookeeper version: ([\w.]+)", wire.srvr(int(SERVERS.split(",")[0].rpartition(":")[2])), re.MULTILINE)
    return {
        "servers": "%d, %s, ZooKeeper %s, without fsync" % (
            SERVERS.count(",") + 1, os.environ["ZKLOCK_TEST_BACKEND"], server.group(1) if server else "unknown"),
        "C client": version_of("libzookeeper-mt2"),
        "Curator": version_of("libcurator-recipes-java"),
        "kazoo": version_of("python3-kazoo"),
        "cores": os.cpu_count(),
        "load": "%.1f" % os.getloadavg()[0],
    }


def main():
    parser = argparse.ArgumentParser(usage="./dev bench [--short] [--json] [FIGURE...]", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="under two minutes; noisy")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each figure in place of the table")
    parser.add_argument("--dry-run", action="store_true", help="look at the arguments only")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=" ".join(FIGURES))
    options = parser.parse_args()
    for each in options.figures:
        if each not in FIGURES:
            parser.error("there is no figure '%s', only: %s" % (each, " ".join(FIGURES)))
    if options.dry_run:
        return
    table = Table(sys.stdout, options.json)
    table.begin(surroundings())
    with Crews() as crews:
        for each in options.figures or FIGURES:
            FIGURES[each].run(table, crews, options.short)


if __name__ == "__main__":
    try:
        main()
    except Fail as e:
        sys.exit("bench: %s" % e)
