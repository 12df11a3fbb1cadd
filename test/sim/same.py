#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Are the simulation's schedules the same, whatever built it and however many workers share them?

    same.py SIM COMPILER... [--schedules N]

Compares the digest that SIM prints with one worker to those with two, and of builds by each of the compilers that is there,
with and without optimization."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import mutants


def digest(program, schedules, jobs):
    done = subprocess.run([program, "--schedules", str(schedules), "--jobs", str(jobs)], check=True, capture_output=True, text=True)
    return re.search(r"^digest (\w+)$", done.stdout, re.M).group(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sim")
    parser.add_argument("compilers", nargs="+")
    parser.add_argument("--schedules", type=int, default=2000)
    arguments = parser.parse_args()
    found = {"as built, one worker": digest(arguments.sim, arguments.schedules, 1), "two workers": digest(arguments.sim, arguments.schedules, 2)}
    with tempfile.TemporaryDirectory(prefix="zklock-same-") as folder:
        for compiler in arguments.compilers:
            if not shutil.which(compiler):
                print(f"{compiler} is not here: not compared")
                continue
            for level in "-O0", "-O2":
                program = pathlib.Path(folder) / f"{compiler}{level}"
                command = [compiler, *mutants.FLAGS, level, *(f"-I{each}" for each in mutants.includes_of(mutants.TOP)), mutants.WRAP]
                subprocess.run([*command, *(mutants.TOP / each for each in mutants.sources()), "-o", program], check=True)
                found[f"{compiler} {level}"] = digest(program, arguments.schedules, 2)
    for name, value in found.items():
        print(f"{name:24} {value}")
    return len(set(found.values())) != 1


if __name__ == "__main__":
    sys.exit(main())
