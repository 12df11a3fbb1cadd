# SPDX-License-Identifier: Apache-2.0
"""What contenders of other recipes see where a directory's numbers come to their end and zklock makes it anew, as lock.h has
it: test_renewal.py KIND, on servers that begin with such directories (../integration/NearTheEnd.java)."""

import sys
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import SERVERS, wait_for
import zkwire

# Of a number from here on zklock makes no use.
END = 2 ** 31 - 2 ** 20
NUMBERS_LEFT = 4


class Renewal(Contest):
    def held(self, peer, number):
        """Its token."""
        epoch, token = map(int, peer.ask("acquire", "held")[:2])
        self.assertEqual(epoch, number)
        return token

    def changes(self):
        with zkwire.Client(SERVERS) as client:
            return client.changes(self.path)

    def test_other_recipe_grants_beyond_the_end_and_is_waited_for(self):
        self.path = "/end/0"
        ours, theirs = (self.start(kind).wait_ready() for kind in ("zklock", self.other))
        tokens = []
        for number in range(END - NUMBERS_LEFT, END + 1):
            tokens.append(self.held(theirs, number))
            theirs.ask("release", "released")
        tokens.append(self.held(theirs, END + 1))
        before = self.changes()
        ours.tell("acquire")
        wait_for(lambda: self.changes() >= before + 2, "ours has come, and has gone out of the way")
        self.assertIsNone(ours.heard("held"))
        theirs.ask("release", "released")
        epoch, token = map(int, ours.hear("held")[:2])
        self.assertEqual(epoch, 0)
        tokens.append(token)
        ours.ask("release", "released")
        tokens.append(self.held(theirs, 1))
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_without_a_directory_curator_makes_it_and_kazoo_raises(self):
        self.path = "/end/1"
        ours, theirs = (self.start(kind).wait_ready() for kind in ("zklock", self.other))
        self.held(theirs, END - NUMBERS_LEFT)
        theirs.ask("release", "released")
        with zkwire.Client(SERVERS) as client:
            client.delete(self.path)
        if self.other.startswith("curator"):
            self.held(theirs, 0)
            return
        self.assertEqual(theirs.ask("acquire", "raised"), ["NoNodeError"])
        # Whoever makes it helps.
        self.held(ours, 0)
        ours.ask("release", "released")
        self.held(theirs, 1)

    def hold_both_or_neither(self):
        """Two with one number: whether both held, or each waits for the other."""
        peers = [self.start(self.other).wait_ready() for _ in range(2)]
        for peer in peers:
            peer.tell("grants 20")
        try:
            wait_for(lambda: any(line.startswith("overlap ") for peer in peers for line in peer.lines), "both hold", 5)
            return True
        except AssertionError:
            for peer in peers:
                peer.close()
            self.wait_for(lambda: not zkwire.children(SERVERS, self.path), "their sessions are over")
            return False

    def test_other_recipe_grants_twice_at_the_last_number(self):
        self.path = "/last/0"
        # Which of them is first for whom changes with what the servers happen to list first.
        self.assertTrue(any(self.hold_both_or_neither() for _ in range(8)))


if __name__ == "__main__":
    main()
