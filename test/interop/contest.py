# SPDX-License-Identifier: Apache-2.0
"""One path for zklock and somebody else's recipe: who contends there, and what they have been granted."""

import os
import shutil
import sys
import tempfile
import unittest
import uuid

from peers import Peer
from support import SERVERS, TICK_S, TidyTest, wait_for
import zkwire

# A killed client's node lasts for the session timeout and a tick; the rest is for a busy machine. What stalls does so for good.
STALL_S = 2 * TICK_S + 40


class Contest(TidyTest):
    session_s = 8 * TICK_S
    recipe = "lock"
    other = ""  # whose recipe that is

    def setUp(self):
        # Not below a common parent: Curator makes containers all the way up, and those go when they are empty.
        self.path = "/interop-" + uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="zklock-interop-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.peers = []
        self.started = 0
        self.log = open(os.path.join(self.folder, "grants"), "a+", encoding="ascii")
        self.addCleanup(self.log.close)
        self.unfinished = ""
        self.granted = []

    def start(self, kind, recipe="", servers=SERVERS):
        self.started += 1
        peer = Peer(kind, "%s%d" % (kind, self.started), recipe or self.recipe, self.path, self.folder,
                    int(self.session_s * 1000), servers)
        self.addCleanup(peer.close)
        self.peers.append(peer)
        return peer

    def grants(self):
        """(name, sequence, token) of every grant so far, in the order in which they were written in the grant."""
        lines = self.log.read().split("\n")
        lines[0] = self.unfinished + lines[0]
        self.unfinished = lines.pop()
        self.granted += [(name, int(sequence), int(token)) for name, sequence, token in map(str.split, lines)]
        return self.granted

    def count(self, kind=""):
        return sum(name.startswith(kind) for name, _, _ in self.grants())

    def wait_for_progress(self, who=""):
        """That somebody is granted, or this very one."""
        before = self.count(who)

        def progress():
            for peer in self.peers:
                peer.check_alive()
            return self.count(who) > before
        self.wait_for(progress, "a grant%s after %d" % (who and " of " + who, before))

    def wait_for(self, condition, what):
        """And says how things stand if it waits in vain."""
        try:
            return wait_for(condition, what, self.session_s + STALL_S)
        except AssertionError as stall:
            raise AssertionError("%s; contenders: %s; queue: %s" % (
                stall, ", ".join(map(str, self.peers)), zkwire.children(SERVERS, self.path))) from None


def main(*recipes):
    """The arguments: one of these where there are some; whose recipe; names of tests."""
    arguments = sys.argv[1:]
    if recipes:
        Contest.recipe = recipes[recipes.index(arguments.pop(0))]
    Contest.other = arguments.pop(0)
    if Contest.other.endswith("-trixie") and os.environ.get("ZKLOCK_TEST_BACKEND") == "process":
        print("there are no containers on this backend", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + arguments, verbosity=2)
