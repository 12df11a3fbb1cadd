# SPDX-License-Identifier: Apache-2.0
"""One office for zklock's candidates and Curator's LeaderLatch: test_latch.py KIND"""

import os
import socket
import subprocess
import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import PATIENCE, SERVERS, TICK_S, wait_for

LONG_TERM = 18  # heartbeats: three session timeouts


class Latch(Contest):
    session_s = 12 * TICK_S  # none is to end
    recipe = "latch"

    def candidate(self, kind):
        return self.start(kind).wait_ready()

    def lead(self, peer):
        peer.ask("start", "started")
        return int(peer.hear("elected")[0])

    def queue(self, peer, observer):
        """Behind all others, as Curator sees it."""
        before = observer.ask("participants")
        peer.ask("start", "started")
        wait_for(lambda: observer.ask("participants") == before + [peer.name], "%s stands behind %s" % (peer, before))

    def test_each_sees_the_ids_of_all(self):
        ours, last = self.candidate("zklock"), self.candidate("zklock")
        theirs = self.candidate(self.other)
        epochs = [self.lead(ours)]
        self.queue(theirs, theirs)
        self.queue(last, theirs)
        self.assertEqual(theirs.ask("participants"), [ours.name, theirs.name, last.name])
        self.assertEqual(theirs.ask("leader"), [ours.name])
        for peer in (ours, last):
            wait_for(lambda peer=peer: peer.ask("leader")[:2] == [ours.name, "0"], "%s sees ours" % peer)
        ours.ask("close", "closed")
        epochs.append(int(theirs.hear("elected")[0]))
        self.assertEqual(theirs.ask("leader"), [theirs.name])
        for peer in (ours, last):
            wait_for(lambda peer=peer: peer.ask("leader") == [theirs.name, "1", "1"], "%s sees theirs" % peer)
        self.assertIsNone(last.heard("elected"))
        theirs.ask("close", "closed")
        epochs.append(int(last.hear("elected")[0]))
        wait_for(lambda: ours.ask("leader")[0] == last.name, "%s sees the last one" % ours)
        self.assertEqual(epochs, [0, 1, 2])

    def test_theirs_sees_the_id_that_zklock_gives_by_itself(self):
        with subprocess.Popen([os.environ["ZKLOCK_CANDIDATE"], "-s", SERVERS, "-T", str(self.session_s), self.path],
                              stdout=subprocess.PIPE, text=True) as ours:
            self.addCleanup(ours.kill)
            self.assertEqual(ours.stdout.readline(), "elected 0\n")
            theirs = self.candidate(self.other)
            theirs.ask("start", "started")
            name = "%s:%d" % (socket.gethostname(), ours.pid)
            self.assertEqual(theirs.ask("leader"), [name, "candidate"])
            ours.terminate()
            theirs.hear("elected")
            self.assertEqual(ours.wait(PATIENCE), 0)

    def test_theirs_is_promoted_after_a_long_term_of_ours(self):
        """A LeaderLatch is told of its predecessor once: were its node written to meanwhile, it would never lead."""
        ours, theirs = self.candidate("zklock"), self.candidate(self.other)
        self.lead(ours)
        self.queue(theirs, theirs)
        ours.ask("beats %d" % LONG_TERM, "beaten")
        self.assertIsNone(theirs.heard("elected"))
        self.assertIsNone(ours.heard("deposed"))
        ours.ask("close", "closed")
        theirs.hear("elected")

    def test_ours_is_promoted_after_a_long_term_of_theirs(self):
        ours, theirs = self.candidate("zklock"), self.candidate(self.other)
        self.lead(theirs)
        self.queue(ours, theirs)
        ours.ask("beats %d" % LONG_TERM, "beaten")
        self.assertIsNone(ours.heard("elected"))
        self.assertIsNone(theirs.heard("deposed"))
        theirs.ask("close", "closed")
        ours.hear("elected")


if __name__ == "__main__":
    main()
