# SPDX-License-Identifier: Apache-2.0
"""The follower that is cut off from its leader, with Curator as the next in line at another server: test_cutoff.py lock|latch KIND

The follower goes on answering zklock while the leader expires zklock's session. zklock's check() is asked all the time: its
last yes must have come before Curator leads. Both sides' moments are of one clock."""

import sys

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import SERVERS, wait_for, zk
import wire
import zkwire

STEADY = 6  # heartbeats


class CutOff(Contest):
    def setUp(self):
        super().setUp()
        leader = int(zk("leader"))
        self.cut_off = leader % 3 + 1
        zk("heal", self.cut_off)  # which tells whether this backend can
        servers = SERVERS.split(",")
        self.near = servers.pop(self.cut_off - 1)
        self.far = ",".join(servers)

    def lead(self, peer):
        if self.recipe == "lock":
            peer.ask("acquire", "held")
        else:
            peer.ask("start", "started")
            peer.hear("elected")

    def queue(self, peer):
        peer.tell("acquire" if self.recipe == "lock" else "start")
        wait_for(lambda: len(zkwire.children(SERVERS, self.path)) == 2, "the other waits")

    def cut(self, kind):
        """Until the other one leads; returns ours, and when that was."""
        ours = self.start(kind, self.recipe, self.near).wait_ready()
        theirs = self.start(self.other, self.recipe, self.far).wait_ready()
        self.lead(ours)
        self.queue(theirs)
        ours.tell("watch")
        ours.ask("beats %d" % STEADY, "beaten")
        with zkwire.Client(self.near) as reader:
            self.addCleanup(zk, "wait")
            self.addCleanup(zk, "heal", self.cut_off)
            zk("cut", self.cut_off)
            elected = theirs.hear("held" if self.recipe == "lock" else "elected")
            # Else the follower had given up by itself, and the round shows nothing.
            reader.ask(zkwire.CHILDREN, wire.string("/") + b"\0")
        return ours, int(elected[2])

    def test_last_yes_of_ours_comes_before_theirs_leads(self):
        ours, led_ns = self.cut("zklock")
        yes_ns = int(ours.hear("no")[0])
        print("last yes %.0f ms before" % ((led_ns - yes_ns) / 1e6), file=sys.stderr)
        self.assertLess(yes_ns, led_ns)

    def test_a_library_that_takes_reads_for_proofs_is_found(self):
        ours, _ = self.cut("naive")
        self.assertIsNone(ours.heard("no"))


if __name__ == "__main__":
    main("lock", "latch")
