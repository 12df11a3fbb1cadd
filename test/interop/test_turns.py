# SPDX-License-Identifier: Apache-2.0
"""Grants in turn, under kills: test_turns.py lock|latch KIND"""

import fcntl
import os
import random
import signal
import struct
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from contest import Contest, main
from support import LONG, TICK_S, state_of, wait_for

GRANTS = 1000 if LONG else 200
KILLS = 6 if LONG else 4  # each costs a session timeout
MOST_MS = 3


class Turns(Contest):
    # A kill costs that much. Long enough for others, who have no lease, not to lose it by a stall in a grant.
    session_s = 10 * TICK_S

    def join(self, kind):
        self.start(kind).tell("grants %d" % MOST_MS)

    def wait_for_all(self):
        for peer in self.peers:
            peer.wait_ready()
            self.wait_for_progress(peer.name)

    def holding(self):
        """The process that uses what the grants are for, 0: none."""
        with open(os.path.join(self.folder, "held"), "rb") as file:
            asked = struct.pack("hhlli", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack("hhlli", fcntl.fcntl(file, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else pid

    def caught(self, kind):
        """One of this kind that was stopped while it uses its grant, None: none was met."""
        pid = self.holding()
        found = [peer for peer in self.peers if peer.pid == pid and peer.kind == kind]
        if not found:
            return None
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: state_of(pid) == "T", "it stops")
        if self.holding() == pid:
            return found[0]
        os.kill(pid, signal.SIGCONT)
        return None

    def victim(self, kill):
        """The kinds take turns; one in the midst of its grant, then any, which waits most probably."""
        kind = ("zklock", self.other)[kill % 2]
        if kill % 4 < 2:
            return wait_for(lambda: self.caught(kind), "a holder is met")
        return random.choice([peer for peer in self.peers if peer.kind == kind and peer.pid])

    def replace(self, victim):
        """kill -9, and another one in its place."""
        victim.kill()
        self.peers.remove(victim)
        self.wait_for_progress()
        self.join(victim.kind)

    def test_grants_in_turn_under_kills(self):
        began = time.monotonic()
        for kind in ("zklock", self.other) * 2:
            self.join(kind)
        self.wait_for_all()
        for kill in range(KILLS):
            while self.count() < kill * GRANTS // KILLS:
                self.wait_for_progress()
            self.replace(self.victim(kill))
        while min(self.count("zklock"), self.count(self.other)) < GRANTS // 2:
            self.wait_for_progress()
        self.wait_for_all()
        for peer in self.peers:
            peer.ask("stop", "stopped")
        tokens = [token for _, _, token in self.grants()]
        print("%d grants, %d of them zklock's, %d kills, %.1f s" % (
            len(tokens), self.count("zklock"), KILLS, time.monotonic() - began), file=sys.stderr)
        self.assertEqual(tokens, sorted(set(tokens)))


if __name__ == "__main__":
    main("lock", "latch")
