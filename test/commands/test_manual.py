# SPDX-License-Identifier: Apache-2.0
"""What --help says, the manual says, and the other way round; and its examples are those that are tested.

test_manual.py SOURCE_DIR BINARY..."""

import os
import re
import subprocess
import sys
import unittest

SOURCE, *BINARIES = sys.argv[1:]


def read(*names):
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as file:
        return file.read()


class Help:
    def __init__(self, binary):
        self.text = subprocess.run([binary, "--help"], stdout=subprocess.PIPE, check=True, text=True).stdout

    def options(self):
        """"-w, --wait=DURATION" and the like, in their order."""
        return re.findall(r"(?m)^ +(-\S+(?: -\S+)*)", self.text)

    def statuses(self):
        """But for those that are only mentioned as a default."""
        return set(re.findall(r"(?<!-)\b\d{2,3}\b", self.text.partition("Exit status: ")[2]))

    def variables(self):
        return set(re.findall(r"ZKLOCK_\w+", self.text))


class Manual:
    """Its source, by sections."""

    def __init__(self, name):
        pieces = re.split(r"(?m)^\.Sh (.*)\n", read("zklock", name + ".1"))
        self.sections = dict(zip(pieces[1::2], pieces[2::2]))

    def options(self):
        return [self.plain(line) for line in re.findall(r"(?m)^\.It (Fl .*)", self.sections["OPTIONS"])]

    @staticmethod
    def plain(line):
        """"Fl w , Fl -wait Ns = Ns Ar DURATION" as it is shown."""
        return re.sub(r" Ns | Ns$", "", line.replace("Ns = Ns Ar ", "Ns =Ns ")).replace("Fl ", "-").replace(" ,", ",") \
            .replace("=Ns ", "=").replace(" =", "=")

    def statuses(self):
        return set(re.findall(r"(?m)^\.It (\d+)$", self.sections["EXIT STATUS"]))

    def variables(self):
        return set(re.findall(r"\.Ev (ZKLOCK_\w+)", "".join(self.sections.values()))) | \
            set(re.findall(r"\.It Ev (ZKLOCK_\w+)", self.sections["ENVIRONMENT"]))

    def blocks(self):
        """Examples, as they are shown."""
        return [block.replace("\\e", "\\") for block in
                re.findall(r"(?ms)^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", self.sections["EXAMPLES"])]


class ManualTest(unittest.TestCase):
    @staticmethod
    def pairs():
        return [(Help(binary), Manual(os.path.basename(binary))) for binary in BINARIES]

    def test_has_the_options_of_help_in_their_order(self):
        for told, manual in self.pairs():
            self.assertGreaterEqual(len(told.options()), 1)
            self.assertEqual(manual.options(), told.options())

    def test_has_the_statuses_of_help(self):
        for told, manual in self.pairs():
            self.assertIn("127", told.statuses())
            self.assertEqual(manual.statuses(), told.statuses())

    def test_has_the_variables_of_help(self):
        for told, manual in self.pairs():
            self.assertLessEqual(told.variables(), manual.variables())

    def test_readme_has_the_statuses_too(self):
        table = re.findall(r"(?m)^\| (\d[^|]*)\|", read("README.md"))
        numbers = {number for row in table for number in re.findall(r"\d+", row)}
        self.assertEqual(numbers, Manual("zklock-run").statuses())

    def test_examples_are_those_that_are_tested(self):
        blocks = Manual("zklock-run").blocks()
        for example, begin in (("zklock-run.service", "[Unit]"), ("book.sql", "BEGIN;")):
            block, = [block for block in blocks if block.startswith(begin)]
            lines = [line for line in read("examples", example).splitlines() if not line.startswith(("#", "--"))]
            self.assertIn(block, "\n".join(lines) + "\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
