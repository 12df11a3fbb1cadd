# SPDX-License-Identifier: Apache-2.0
"""One lock for zklock and somebody else's recipe: test_lock.py curator|kazoo|curator-trixie|kazoo-trixie [TEST...]"""

import os
import random
import shutil
import sys
import tempfile
import time
import unittest
import uuid

sys.dont_write_bytecode = True

from peers import KINDS, TICK_S, Peer, wait_for  # pylint: disable=wrong-import-position

GRANTS = 1000
KILLS = 12
SESSION_S = 2.0
# A killed client's node lasts for the session timeout and a tick; the rest is for a busy machine. What stalls does so for good.
STALL_S = SESSION_S + 2 * TICK_S + 20


class LockTest(unittest.TestCase):
    other = ""

    def setUp(self):
        self.path = "/interop/" + uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="zklock-interop-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.peers = []
        self.started = 0

    def start(self, kind):
        self.started += 1
        peer = Peer(kind, "%s%d" % (kind, self.started), self.path, self.folder, session_ms=int(SESSION_S * 1000))
        self.addCleanup(peer.close)
        self.peers.append(peer)
        return peer

    def grants(self):
        """(name, sequence, token) of every grant so far, in the order in which they were written under the lock."""
        try:
            with open(os.path.join(self.folder, "grants"), encoding="ascii") as file:
                words = [line.split() for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [(name, int(sequence), int(token)) for name, sequence, token in words]

    def count(self, kind=""):
        return sum(name.startswith(kind) for name, _, _ in self.grants())

    def wait_for_progress(self, who=""):
        """That somebody is granted, or this very one."""
        before = self.count(who)

        def progress():
            for peer in self.peers:
                peer.check_alive()
            return self.count(who) > before
        wait_for(progress, "a grant%s after %d; %s" % (who and " of " + who, before, ", ".join(map(str, self.peers))), STALL_S)


class Turns(LockTest):
    def victim(self, kill):
        """Whoever of its kind was granted last, so that it holds or has just let go; or another one, which waits. The kinds
        take turns."""
        kind = ("zklock", self.other)[kill % 2]
        newest = [name for name, _, _ in self.grants() if name.startswith(kind)][-1]
        ready = [peer for peer in self.peers if peer.kind == kind and peer.pid]
        return random.choice([peer for peer in ready if (peer.name == newest) == (kill % 4 < 2)] or ready)

    def replace(self, victim):
        """kill -9, whatever it is doing, and another one in its place."""
        victim.kill()
        self.peers.remove(victim)
        self.wait_for_progress()
        self.start(victim.kind).tell("grants 3")

    def test_a_thousand_grants_under_kills(self):
        began = time.monotonic()
        for kind in ("zklock", self.other) * 2:
            self.start(kind).tell("grants 3")
        for peer in self.peers:
            self.wait_for_progress(peer.name)
        for kill in range(KILLS):
            while self.count() < kill * GRANTS // KILLS:
                self.wait_for_progress()
            self.replace(self.victim(kill))
        while min(self.count("zklock"), self.count(self.other)) < GRANTS // 2:
            self.wait_for_progress()
        for peer in self.peers:
            self.wait_for_progress(peer.name)
        for peer in self.peers:
            peer.ask("stop", "stopped")
        tokens = [token for _, _, token in self.grants()]
        print("%d grants, %d of them zklock's, %d kills, %.1f s" % (
            len(tokens), self.count("zklock"), KILLS, time.monotonic() - began), file=sys.stderr)
        self.assertEqual(tokens, sorted(set(tokens)))


if __name__ == "__main__":
    LockTest.other = sys.argv[1]
    if LockTest.other not in KINDS:
        sys.exit("one of %s is needed" % ", ".join(KINDS))
    if LockTest.other.endswith("-trixie") and os.environ.get("ZKLOCK_TEST_BACKEND") == "process":
        print("containers are not wanted here", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
