#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pause drill: what no clock and no lock can prevent, and what a fence does about it.

    drill.py BUILD [--rounds N] [--jobs N] [--seed S]

In each round a holder stops, with all its processes, between its check and its write, as a machine does that is suspended
or swaps; its session expires, the next holder is granted and writes; then the old one goes on and writes, too, before
anything tells it that it has lost. It writes to a file that checks nothing, where its write must get through (or the drill
would prove nothing), and to each of the resources that are fenced, which must refuse it: zklock-fence, a service with
zkl_fence_admit(), SQLite and PostgreSQL by row and by mark, and ZooKeeper's own data by zkl_guarded_set().

On a busy machine the old one's short lease may be lost before it is stopped: such a round begins again, up to ten times.

The last lines are unfenced_corruptions N (of the file) and fenced_corruptions N. Ends with 1 where the former is 0, the
latter is not, or a round went otherwise."""
import argparse
import concurrent.futures
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "examples"))
sys.dont_write_bytecode = True

import databases  # pylint: disable=wrong-import-position

FENCED = ("zklock-fence", "service", "sqlite-row", "sqlite-mark", "postgres-row", "postgres-mark", "guarded")
SCHEMA = os.path.join(TOP, "examples", "fenced.sql")
STALE, LOST = 79, 76
PATIENCE = 120
ATTEMPTS = 10


class Wrong(Exception):
    pass


class Again(Exception):
    """The old holder lost its lock before it was stopped."""


def children(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as file:
                yield from map(int, file.read().split())


def tree(pid):
    return [pid] + [each for child in children(pid) for each in tree(child)]


def send(pids, sig):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sig)


class Holder:
    """zklock-run with test/drill/holder. Told to go on, it writes."""

    def __init__(self, name, drill, *options):
        self.name = name
        with open(os.path.join(drill.folder, "errors"), "ab") as errors:
            self.process = self.start(drill, options, errors)
        self.deadline = threading.Timer(PATIENCE, self.kill)
        self.deadline.start()
        self.pids = []

    def start(self, drill, options, errors):
        return subprocess.Popen(
            [os.path.join(drill.build, "bin", "zklock-run"), *options, "-w", str(PATIENCE), drill.lock, "--",
             os.path.join(TOP, "test", "drill", "holder"), self.name, drill.build, os.path.join(TOP, "examples"),
             drill.folder, drill.port], env=drill.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            start_new_session=True)

    def holds(self):
        line = self.process.stdout.readline().split()
        if not line and self.process.wait() == LOST:
            raise Again
        if line[:1] != ["holds"]:
            raise Wrong("%s does not hold: %s" % (self.name, line))
        return int(line[1])

    def stop(self):
        self.pids = tree(self.process.pid)
        send(self.pids, signal.SIGSTOP)

    @staticmethod
    def go_on(pids):
        send(pids, signal.SIGCONT)  # the first to wake may have ended the others

    def write(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        answers = dict(self.process.stdout.readline().split() or ("none", "-1") for _ in range(1 + len(FENCED)))
        return {resource: int(status) for resource, status in answers.items()}

    def kill(self):
        send(tree(self.process.pid), signal.SIGKILL)

    def end(self):
        """No process of a round outlives it."""
        self.deadline.cancel()
        if self.process.poll() is None:
            self.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()


class Drill:
    """One round: its lock, its resources, its two holders."""

    def __init__(self, number, build, folder, postgres, rng):
        self.build = build
        self.lock = "/drill/%d-%s" % (os.getpid(), number)
        self.folder = folder
        self.rng = rng
        self.env = dict(os.environ, ZKLOCK_SERVERS=os.environ["ZKLOCK_TEST_SERVERS"],
                        DRILL_POSTGRES=postgres.name + " options=-csearch_path=round%s" % number)
        self.fill(databases.Sqlite(folder), [])
        self.fill(postgres, ["CREATE SCHEMA round%s" % number, "SET search_path TO round%s" % number])
        self.service = subprocess.Popen([os.path.join(build, "examples", "fenced_service"), "0", folder],
                                        stdout=subprocess.PIPE, text=True)
        self.port = self.service.stdout.readline().split(",")[0].split()[-1]

    @staticmethod
    def fill(database, before):
        session = database.session()
        for statement in before:
            session.run(statement)
        with open(SCHEMA, encoding="ascii") as file:
            session.script(file.read())
        session.close()

    def value(self):
        with open(os.path.join(self.folder, "unfenced"), encoding="ascii") as file:
            return file.read().strip()

    def run(self):
        """Whether the unfenced write of the old holder got through, and to what fenced resources one did."""
        old, new = Holder("old", self, "-T", "1"), None
        try:
            token = old.holds()
            threading.Event().wait(self.rng.random() * 0.3)  # anywhere between its check and its write
            old.stop()
            new = Holder("new", self)
            if new.holds() <= token:
                raise Wrong("the new holder's token is not greater")
            answers = new.write()
            if any(answers.values()) or new.process.wait() != 0:
                raise Wrong("the new holder's writes: %s" % answers)
            # The command goes on first, and writes before its wrapper is awake to end it.
            old.go_on(old.pids[2:])
            answers = old.write()
            old.go_on(old.pids[:2])
            if old.process.wait() != LOST:
                raise Wrong("the old holder ended with %d" % old.process.returncode)
            if len(answers) == 1:
                raise Again
        finally:
            for holder in filter(None, (old, new)):
                holder.end()
        others = {each: status for each, status in answers.items() if each in FENCED and status not in (0, STALE)}
        if others or len(answers) != 1 + len(FENCED):
            raise Wrong("the old holder's writes: %s" % answers)
        return answers["unfenced"] == 0 and self.value() == "old", [each for each in FENCED if answers[each] == 0]

    def end(self):
        self.service.kill()
        self.service.wait()
        self.service.stdout.close()


def attempt(number, build, postgres, seed):
    with tempfile.TemporaryDirectory(prefix="zklock-drill-") as folder:
        drill = Drill(number, build, folder, postgres, random.Random("%d %s" % (seed, number)))
        try:
            return drill.run()
        except Wrong as wrong:
            with open(os.path.join(folder, "errors"), encoding="utf-8") as file:
                raise Wrong("round %s: %s\n%s" % (number, wrong, file.read())) from None
        finally:
            drill.end()


def one_round(number, build, postgres, seed):
    for again in range(ATTEMPTS):
        try:
            return attempt("%d_%d" % (number, again), build, postgres, seed)
        except Again:
            print("round %d begins again: the old holder lost its lock before it was stopped" % number)
    raise Wrong("round %d: the old holder never held for long enough" % number)


@contextlib.contextmanager
def ending_early(pool):
    """Rounds that have begun come to their end, and leave nothing behind; no others begin."""
    try:
        yield
    finally:
        pool.shutdown(cancel_futures=True)


def main():
    parser = argparse.ArgumentParser(usage="./dev drill [--rounds N] [--jobs N] [--seed S]")
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true", help="look at the arguments only")
    options = parser.parse_args()
    if options.dry_run:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    unfenced, wrong, fenced = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="zklock-drill-") as folder, \
            contextlib.closing(databases.Postgres(folder)) as postgres, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, \
            ending_early(pool):
        rounds = [pool.submit(one_round, i, options.build, postgres, options.seed) for i in range(options.rounds)]
        for each in concurrent.futures.as_completed(rounds):
            try:
                got_through, let_in = each.result()
            except Wrong as error:
                print(error)
                wrong += 1
                continue
            unfenced += got_through
            fenced += let_in
    for resource in FENCED:
        print("%-13s refused the old holder in %d of %d rounds" % (
            resource, options.rounds - wrong - fenced.count(resource), options.rounds))
    print("unfenced_corruptions %d" % unfenced)
    print("fenced_corruptions %d" % len(fenced))
    return 1 if wrong or fenced or not unfenced else 0


if __name__ == "__main__":
    sys.exit(main())
