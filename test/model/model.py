#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Searches the model of the protocol in full, in several small configurations, and then with one rule taken out at a time.

    model.py [--all] [--only WORD]

A configuration passes when the search ends without an error, a mutant when it finds one; and each property has to be what
some mutant violates. --all: larger configurations, too, a quarter of an hour in all, and up to 3 GB. Needs spin and gcc; what
they make goes to a temporary folder. Small searches run side by side, one a core. Ends with 1 if something failed, which is
also a search that did not end."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# States are kept whole. With hashes in their place (-DHC4) spin 6.5.2 took up to a fifth of them for others that it had seen.
PAN = ["-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DCOLLAPSE", "-DSEPQS", "-DVECTORSZ=2048"]

PROPERTIES = ["ORDER", "HOLDER", "FIFO", "ORPHAN", "WAKE", "TWICE", "LEASE"]
SMALL_SECONDS, SMALL_MB = 120, 2000
LARGE_SECONDS, LARGE_MB = 3600, 12000

# name, bounds. What begins with `lease' is of lease.pml.
SMALL = [
    ("cancel", "LAG CANCELS=1"),
    ("lost connection", "LOSSES=1"),
    ("lagging servers", "LAG LOSSES=1"),
    ("lost batch", "SPLIT LAG LOSSES=1 CANCELS=1"),
    ("operator", "DELETES=1 WRITES=1"),
    ("expiry", "LAPSES=1 EXPIRIES=1"),
    ("try", "TRY LOSSES=1"),
    ("three", "CONTENDERS=3"),
    ("election", "ELECTION CONTENDERS=3"),
    ("one session", "SHARED LOSSES=1 CANCELS=1"),
    ("three, two on one session", "CONTENDERS=3 SHARED CANCELS=1"),
    ("lease", ""),
]
LARGE = [
    ("lease for longer", "END=26"),
    ("lost batch, operator", "SPLIT LOSSES=1 DELETES=1"),
    ("two losses", "SPLIT LOSSES=2 CANCELS=1"),
    ("two losses, lagging servers", "SPLIT LAG LOSSES=2 CANCELS=1"),
    ("again", "ATTEMPTS=2 LOSSES=1"),
    ("expiry after a loss", "LAPSES=1 EXPIRIES=1 LOSSES=1"),
    ("three, of which one leaves", "CONTENDERS=3 CANCELS=1"),
]

# what is wrong, how to make it so, bounds in which that matters
MUTANTS = [
    ("any deletion is our turn", "WITHOUT_LOWEST", "CONTENDERS=3 CANCELS=1"),
    ("the same, and only the order of grants is looked at", "WITHOUT_LOWEST ONLY_FIFO", "CONTENDERS=3 CANCELS=1"),
    ("any change is taken for the mark", "ANY_CHANGE", "ELECTION CONTENDERS=3 CANCELS=1 WRITES=1"),
    ("the watch is not set again after a change", "WITHOUT_WATCHING_AGAIN", "CONTENDERS=3"),
    ("granted without the own watch", "WITHOUT_OWN_WATCH", "LOSSES=1 DELETES=1"),
    ("the own watch is believed in force over a reconnect", "GAP_COUNTS", "LOSSES=1 DELETES=1"),
    ("no watches after a reconnect", "WITHOUT_WATCHES_AFTER_LOSS", "LOSSES=1"),
    ("the holder does not watch its node", "WITHOUT_HOLDERS_WATCH", "DELETES=1"),
    ("nor again after a reconnect", "WITHOUT_HOLDERS_WATCH_AFTER_LOSS", "DELETES=1 LOSSES=1"),
    ("no barrier before the list", "WITHOUT_BARRIER", "LAG LOSSES=1"),
    ("sync as barrier", "SYNC_FOR_BARRIER", "LAG LOSSES=1"),
    ("a lost create was never made", "WITHOUT_LOOKING", "LOSSES=1"),
    ("who gives up forgets a lost create", "WITHOUT_UNKNOWN_CREATES", "LOSSES=1 CANCELS=1"),
    ("a lost delete is taken for done", "WITHOUT_DELETING_AGAIN", "LOSSES=1"),
    ("an older list counts", "ANY_LIST", "LOSSES=1 LAG SPLIT CANCELS=1"),
    ("granted without a live lease", "WITHOUT_LEASE", "LOSSES=1 EXPIRIES=1"),
    ("only who asked hears of a proof", "WITHOUT_TELLING_ALL", "SHARED LOSSES=1 CANCELS=1 LAPSES=1"),
    ("a try that is not first leaves its node", "WITHOUT_TRY_LEAVING", "TRY"),
    ("lease: reports of followers forgotten", "WITHOUT_REPORTS", ""),
    ("lease: reply time instead of send time", "REPLY_TIME", ""),
    ("lease: one proof in place of two", "ONE_PROOF", ""),
]


def run(command, folder, limit=None):
    """Its output; None: it was not through in time."""
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout


def search(name, defines, optimize, limit):
    """(the property that failed, or "" or None: the search did not end; states; seconds)"""
    model = "lease.pml" if name.startswith("lease") else "contender.pml"
    memory = LARGE_MB if limit > SMALL_SECONDS else SMALL_MB
    with tempfile.TemporaryDirectory(prefix="zklock-model-") as folder:
        begin = time.monotonic()
        said = run(["spin", "-a", *(f"-D{each}" for each in defines.split()), str(HERE / model)], folder)
        said += run([os.environ.get("CC", "gcc"), *PAN, f"-DMEMLIM={memory}", optimize, "-w", "-o", "pan", "pan.c"], folder)
        if not os.path.exists(f"{folder}/pan"):
            sys.exit(f"{model} with {defines} does not compile:\n{said}")
        said = run(["./pan", "-m1000000"], folder, limit)
        seconds = time.monotonic() - begin
    if said is None:
        return None, 0, seconds
    states = re.search(r"(\S+) states, stored", said)
    states = round(float(states[1])) if states else 0
    failed = re.search(r"pan:1: (?:assertion violated \(+(\w+)|(.*))", said)
    if failed:
        return failed[1] or failed[2], states, seconds
    complete = "errors: 0" in said and "not completed" not in said and "too small" not in said
    return ("" if complete else None), states, seconds


def search_all(searches, optimize, limit, jobs):
    """The results of search(), in order, each as soon as it is there."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda each: search(each[0], " ".join(each[1:]), optimize, limit), searches)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--dry-run", action="store_true", help="look at the arguments only")
    options = parser.parse_args()
    if options.dry_run:
        return 0
    configurations, all_states, failed, found_by = 0, 0, [], set()
    cores = os.cpu_count() or 1
    begin = time.monotonic()

    print(f"{'configuration':<28}{'bounds':<46}{'states':>10}{'seconds':>9}")
    # Small searches take less time than to optimize them. Two large ones would take each other's memory.
    for optimize, limit, jobs, sizes in ("-O0", SMALL_SECONDS, cores, SMALL), ("-O2", LARGE_SECONDS, 1, LARGE if options.all else []):
        sizes = [each for each in sizes if options.only in each[0]]
        for (name, bounds), (wrong, states, seconds) in zip(sizes, search_all(sizes, optimize, limit, jobs)):
            verdict = "" if wrong == "" else f"  FAILED: {wrong or 'not searched in full'}"
            print(f"{name:<28}{bounds:<46}{states:>10}{seconds:>9.1f}{verdict}", flush=True)
            configurations, all_states = configurations + 1, all_states + states
            failed += [name] if verdict else []

    print(f"\n{'mutant':<56}{'found by':<18}{'states':>10}{'seconds':>9}")
    mutants = [each for each in MUTANTS if options.only in each[0]]
    for (name, _, _), (wrong, states, seconds) in zip(mutants, search_all(mutants, "-O0", SMALL_SECONDS, cores)):
        print(f"{name:<56}{wrong or 'SURVIVED':<18}{states:>10}{seconds:>9.1f}", flush=True)
        found_by.add(wrong)
        failed += [] if wrong else [name]
    if options.only and not configurations and not mutants:
        failed.append(f"nothing is called {options.only}")
    if not options.only:
        failed += [f"{each} (no mutant violates it)" for each in PROPERTIES if each not in found_by]

    print(f"{configurations} configurations of {all_states:,} states in all, {len(mutants)} mutants, in "
          f"{time.monotonic() - begin:.0f} s: " + (f"FAILED: {', '.join(failed)}" if failed else "no error, every mutant found"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
