# SPDX-License-Identifier: Apache-2.0
"""The follower that is cut off from its leader, with Curator as the next in line at another server: test_cutoff.py KIND

The follower goes on answering zklock while the leader expires zklock's session. zklock's check() is asked all the time: its
last yes must have come before Curator leads. Both sides' moments are of one clock."""

import sys
import time
import uuid

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import SERVERS, wait_for, zk
import wire
import zkwire

STEADY = 6  # heartbeats
TRIES = 5


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

    def is_steady(self, peer):
        """Heartbeats have been flowing; not so where the machine is too busy and the lease is over."""
        peer.tell("watch")
        peer.tell("beats %d" % STEADY)
        return wait_for(lambda: [line for line in peer.lines if line == "beaten" or line.startswith("no ")],
                        "heartbeats of %s" % peer)[0] == "beaten"

    def a_round(self, kind):
        """When ours had its last yes and when theirs led; None: ours held no longer when the cut came."""
        ours = self.start(kind, servers=self.near).wait_ready()
        theirs = self.start(self.other, servers=self.far).wait_ready()
        self.lead(ours)
        self.queue(theirs)
        if not self.is_steady(ours):
            return None
        with zkwire.Client(self.near) as reader:
            began_ns = time.monotonic_ns()
            try:
                zk("cut", self.cut_off)
                elected = theirs.hear("held" if self.recipe == "lock" else "elected")
                # Else the follower had given up by itself, and the round shows nothing.
                reader.ask(zkwire.CHILDREN, wire.string("/") + b"\0")
            finally:
                zk("heal", self.cut_off)
                zk("wait")
        led_ns = int(elected[2])
        yes_ns = int(ours.hear("no")[0])
        return (yes_ns, led_ns) if yes_ns > began_ns else None

    def rounds(self, kind):
        """Those that show something."""
        for _ in range(TRIES):
            self.path = "/interop-" + uuid.uuid4().hex
            found = self.a_round(kind)
            for peer in self.peers:
                peer.close()
            self.peers.clear()
            if found:
                yield found
        self.fail("no more rounds")

    def check_order(self):
        yes_ns, led_ns = next(self.rounds("zklock"))
        print("last yes %.0f ms before" % ((led_ns - yes_ns) / 1e6), file=sys.stderr)
        self.assertLess(yes_ns, led_ns)


class Lock(CutOff):
    recipe = "lock"

    def test_last_yes_of_ours_comes_before_theirs_holds(self):
        self.check_order()


class Latch(CutOff):
    recipe = "latch"

    def test_last_yes_of_ours_comes_before_theirs_leads(self):
        self.check_order()

    def test_a_library_that_takes_reads_for_proofs_is_found(self):
        self.assertTrue(any(yes_ns > led_ns for yes_ns, led_ns in self.rounds("naive")))


if __name__ == "__main__":
    main()
