#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Contenders on real servers under faults, and whether what was promised was kept: ./dev chaos [OPTION...]

  --minutes M     how long there are faults (3)
  --seed S        which ones, in which order (random; printed). Times are the machine's
  --peer kazoo    kazoo's lock too, on a path of its own, beside ours; the only fault is a follower cut off from its
                  leader, and the run passes if kazoo's lock is seen to overlap and ours is not
  --peer naive    the same with our own library, made to take reads for proofs of its session
  --skew PPM      some of the contenders have clocks that run slower or faster by so many millionths (20000); where servers
                  are no containers, one of them has a clock that is faster by 10000, and one that is slower
  --judge FOLDER  reads the history of an earlier run again
  --faults        lists the faults, and which of them this machine cannot do

Each fault comes by itself, and each that hits servers once more, together with one that hits a contender or its link.

On a lock: four processes by the library and two zklock-run; on an election: three candidates. Each adds to a number in a
file, which nobody guards, and to one in a register that refuses an older token.

The folder build/chaos/NAME, which is printed, has the history, table.txt and picture.html: a lane a process.

The last lines: the worst overlap in real time, in ms; updates lost of the unguarded file; nodes that nobody wanted for longer
than a session lives; then how many checks passed and failed. A check is one promise for one lock or election; that somebody
holds again within T + 2 ticks is one for each fault. What a process did with a lease that was over before the act had ended,
since it was paused, is reported apart. Status: 0, 1 a promise was broken, 77 the ensemble cannot do what was asked."""

import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import argparse
import importlib
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

import checker
import picture
from history import History

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]

# The least session timeout that leaves a busy machine some room; the shorter, the more faults in a minute.
SESSION_MS = 4000
SLOW, FAST = -1, 1


def clock():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Run:
    def __init__(self, options):
        import ensemble
        from contenders import Contender, Crowd, now_ns
        from network import Network
        from nemesis import Nemesis
        self.seed, self.peer, self.skew = options.seed, options.peer, options.skew
        self.state = ensemble.load(os.environ["ZKLOCK_ENSEMBLE"])
        self.backend = importlib.import_module(self.state["backend"])
        self.session_ms, self.began_ns = SESSION_MS, now_ns()
        self.paths = {resource: "/chaos-%s-%d" % (resource, self.began_ns) for resource in
                      ("lock", "election") + ((self.peer,) if self.peer else ())}
        # A short path: it has a socket in it.
        self.folder = tempfile.mkdtemp(prefix="zklock-chaos-")
        self.history = History(self.folder)
        self.helpers = []
        kinds = ["lock.lib"] * 4 + ["lock.run"] * 2 + ["election.cand"] * 3
        if self.peer:
            kinds += [self.peer + "." + self.peer] * 3
        self.network = Network(len(kinds), self.state.hosts)
        self.contenders = []
        for number, kind in enumerate(kinds):
            turn = kinds[:number].count(kind)
            ppm = 0 if self.peer == kind.partition(".")[0] else (0, SLOW, FAST)[turn % 3] * self.skew
            self.contenders.append(Contender(self, "%s%d" % (kind, turn + 1), kind.partition(".")[2], number, ppm))
        self.crowd = Crowd(self.contenders)
        self.nemesis = Nemesis(self)

    def log(self, *words):
        with open(os.path.join(self.folder, "run.log"), "a", encoding="utf-8") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def say(self, text):
        print("%7.1f s  %s" % ((clock() - self.began_ns) / 1e9, text), flush=True)

    def check_going_on(self):
        if self.crowd.failure:
            raise self.crowd.failure
        for helper in self.helpers:
            if helper.poll() is not None:
                raise AssertionError("%s has ended" % " ".join(helper.args))

    def help_with(self, script, *arguments):
        self.helpers.append(subprocess.Popen([sys.executable, "-B", os.path.join(HERE, script), self.folder, *arguments],
                                             stdin=subprocess.DEVNULL))

    def begin(self):
        from support import wait_for
        self.log("session", self.session_ms)
        self.log("tick", self.state["tick_ms"])
        for resource, path in self.paths.items():
            self.log("resource", resource, path)
        if self.peer:
            self.log("peer", self.peer)
        self.help_with("register.py")
        wait_for(lambda: os.path.exists(os.path.join(self.folder, "register")), "the register")
        self.help_with("witness.py", self.state.hosts, *self.paths.values())
        self.crowd.start()

    def end(self):
        """Everybody leaves; what is left then for longer than a session lives is an orphan."""
        self.log("told", clock())
        self.crowd.end(30)
        patience_s = (self.session_ms + 2 * self.state["tick_ms"]) / 1000
        self.nemesis.wait(patience_s)

    def close(self):
        self.crowd.end(10)
        self.network.close()
        for helper in self.helpers:
            helper.kill()
            helper.wait()

    def rage(self, minutes):
        try:
            self.begin()
            self.nemesis.rage(time.monotonic() + 60 * minutes)
            self.end()
        finally:
            self.close()


def keep(folder, name):
    """Moves the history to where it can be found."""
    kept = os.path.join("build", "chaos", name)
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    shutil.copytree(folder, kept, ignore=shutil.ignore_patterns("register", "*.stay"))
    shutil.rmtree(folder)
    return kept


def judge(folder):
    """Prints what there is to say; whether all was kept."""
    verdict = checker.Verdict(History(folder).read_all())
    table = checker.table(verdict)
    print("\n" + table + "\n")
    with open(os.path.join(folder, "table.txt"), "w", encoding="utf-8") as file:
        file.write(table + "\n")
    with open(os.path.join(folder, "picture.html"), "w", encoding="utf-8") as file:
        file.write(picture.page(verdict, os.path.basename(folder)))
    failed = [text for passed, text in verdict.checks if not passed]
    for text in verdict.kept:
        print("ok      " + text)
    for text in failed:
        print("FAILED  " + text)
    print("\npicture: %s" % os.path.join(folder, "picture.html"))
    print("overlap_ms %s" % ("%.1f" % verdict.overlap_ms if verdict.overlap_ms else "0"))
    print("lost_updates %d" % verdict.lost_updates)
    print("orphans %d" % len(verdict.orphans))
    print("%d passed, %d failed" % (len(verdict.checks) - len(failed), len(failed)))
    return not failed


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev chaos", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 100000))
    parser.add_argument("--peer", choices=("", "kazoo", "naive"), default="")
    parser.add_argument("--skew", type=int, default=20000)
    parser.add_argument("--judge", default="")
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    if options.help:
        print(__doc__)
        return 0
    if options.dry_run:
        return 0
    if options.judge:
        return 0 if judge(options.judge.rstrip("/")) else 1
    run = Run(options)
    possible, impossible = run.nemesis.possible()
    if options.faults or not possible:
        run.network.close()
        os.rmdir(run.folder)
    if options.faults:
        print("\n".join([method.__name__ for method in possible] + [name + " (not here)" for name in impossible]))
        return 0
    if not possible:
        print("chaos: servers cannot be cut off from each other on this backend", file=sys.stderr)
        return 77
    if run.backend.NAME == "process":
        print("the servers' clocks: %s ppm" % " ".join(os.environ.get("ZKLOCK_SERVER_CLOCKS", "").split()[1:]))
    print("seed %d, session timeout %d ms, tick %d ms, backend %s%s" % (
        run.seed, run.session_ms, run.state["tick_ms"], run.backend.NAME,
        "; not possible here: " + ", ".join(impossible) if impossible else ""))
    try:
        run.rage(options.minutes)
    finally:
        kept = keep(run.folder, "%s%s-%d" % (run.backend.NAME, "-" + run.peer if run.peer else "", run.seed))
        print("history: " + kept)
    return 0 if judge(kept) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
