# SPDX-License-Identifier: Apache-2.0
"""What two recipes see of each other on one lock: test_lock.py KIND"""

import sys
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import SERVERS, TICK_S, wait_for
import zkwire


class Lock(Contest):
    session_s = 20 * TICK_S  # none is to end

    def number(self, peer):
        return int(peer.ask("participants")[0])

    def id_of(self, peer):
        """What it says of itself: Curator's mutex has the address for that."""
        return "127.0" if peer.kind.startswith("curator") else peer.name

    def assert_sees(self, peer, holder):
        self.assertIn(self.id_of(holder), " ".join(peer.ask("holder")))

    def test_each_sees_and_waits_for_the_other(self):
        ours, theirs = (self.start(kind).wait_ready() for kind in ("zklock", self.other))
        epochs = []
        for first, second in ((ours, theirs), (theirs, ours)):
            epochs.append(int(first.ask("acquire", "held")[0]))
            for peer in (ours, theirs):
                self.assertEqual(self.number(peer), 1)
                self.assert_sees(peer, first)
            second.tell("acquire")
            wait_for(lambda first=first: self.number(first) == 2, "the other waits")
            self.assert_sees(first, first)
            self.assertIsNone(second.heard("held"))
            first.ask("release", "released")
            epochs.append(int(second.hear("held")[0]))
            for peer in (ours, theirs):
                self.assertEqual(self.number(peer), 1)
                self.assert_sees(peer, second)
            second.ask("release", "released")
        self.assertEqual(epochs, [0, 1, 2, 3])


class Container(Contest):
    """Curator makes the lock's directory as a container, which a server removes when it is idle. The numbers begin again."""
    session_s = 20 * TICK_S

    def setUp(self):
        if not self.other.startswith("curator"):
            raise unittest.SkipTest("Curator alone makes containers")
        super().setUp()
        self.ours, self.theirs = (self.start(kind).wait_ready() for kind in ("zklock", self.other))

    def turns(self, *peers):
        """(epoch, token) of each. Somebody is there from the first turn to the last, so that the directory stays."""
        found = []
        for i, peer in enumerate(peers):
            if i == 0:
                peer.tell("acquire")
            found.append(tuple(map(int, peer.hear("held")[:2])))
            if i + 1 < len(peers):
                peers[i + 1].tell("acquire")
                wait_for(lambda: len(zkwire.children(SERVERS, self.path)) == 2, "the next one waits")
            peer.ask("release", "released")
        return found

    def turns_around_the_end(self, *after):
        before = self.turns(self.theirs, self.ours, self.theirs, self.ours)
        self.assertEqual([epoch for epoch, _ in before], [0, 1, 2, 3])
        wait_for(lambda: not zkwire.exists(SERVERS, self.path), "the idle directory is gone")
        again = self.turns(*after)
        self.assertEqual([epoch for epoch, _ in again], list(range(len(after))))
        tokens = [token for _, token in before + again]
        self.assertEqual(tokens, sorted(set(tokens)))

    def test_tokens_grow_when_zklock_makes_it_again(self):
        self.turns_around_the_end(self.ours, self.theirs, self.ours)

    def test_tokens_grow_when_curator_makes_it_again(self):
        self.turns_around_the_end(self.theirs, self.ours)


if __name__ == "__main__":
    main()
