# SPDX-License-Identifier: Apache-2.0
"""Would the grants in turn find an overlap? test_detector.py KIND"""

import sys
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main


class Detector(Contest):
    def test_finds_who_holds_without_a_grant(self):
        for intruding, honest in (("zklock", self.other), (self.other, "zklock")):
            intruder = self.start(intruding).wait_ready()
            intruder.ask("intrude", "intruding")
            finder = self.start(honest)
            finder.tell("grants 0")
            self.assertEqual(finder.end(), 3)
            self.assertEqual(finder.lines[-1].split()[0], "overlap")
            intruder.kill()
        self.assertEqual(self.grants(), [])

    def assert_overlap(self, *contenders):
        for peer in [self.start(kind, recipe) for kind, recipe in contenders]:
            peer.wait_ready().tell("grants 3")
        found = self.wait_for(lambda: [peer for peer in self.peers if peer.process.poll() is not None], "an overlap")
        self.assertEqual({peer.end() for peer in found}, {3})

    def test_finds_a_recipe_that_does_not_see_the_others_names(self):
        if not self.other.startswith("kazoo"):
            raise unittest.SkipTest("kazoo alone must be told of the names")
        self.assert_overlap(("zklock", "lock"), (self.other, "blind"))

    def test_finds_curator_beside_kazoo(self):
        """As the manual says: never both on one path."""
        if not self.other.startswith("kazoo"):
            raise unittest.SkipTest("as a test of kazoo")
        self.assert_overlap((self.other, "lock"), (self.other.replace("kazoo", "curator"), "lock"))


if __name__ == "__main__":
    main()
