# SPDX-License-Identifier: Apache-2.0
"""Links that fail and come back, while the command runs and while the lock is waited for."""

import concurrent.futures
import os
import sys
import threading
import time
import unittest

from network import Network
from support import LONG, SERVERS, TICK_S, CommandTest, wait_for

# Long enough for an outage of an eighth of it that is made to measure on a busy machine.
SESSION_S = 10 * TICK_S
# Writes down every signal that comes, and ends when it may.
WITNESS = r"""
import os, signal, sys, time
folder = sys.argv[1]
def note(number, _):
    with open(folder + "/signals", "a") as file:
        file.write("%d\n" % number)
for number in set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, note)
open(folder + "/ready", "w").close()
while not os.path.exists(folder + "/go"):
    time.sleep(0.01)
"""


class NetworkTest(CommandTest):
    def open_network(self, clients):
        self.network = Network(clients, SERVERS)
        self.addCleanup(self.network.close)


class Running(NetworkTest):
    """With the default grace and margin. A network that drops packets is silent for up to twice as long, until TCP sends them
    again."""

    # A stall at the time of an outage makes both of them too long together.
    ATTEMPTS = 3

    def outages(self, *arguments):
        for attempt in range(self.ATTEMPTS):
            result = self.outages_once(attempt, *arguments)
            if not result or result[0] != 76:
                break
        return result

    def outages_once(self, attempt, at, kind, part, begin):
        """None: a busy machine has made one of them longer than was meant."""
        kind += "-%d" % attempt
        folder = self.file(kind)
        os.mkdir(folder)
        holder = self.start("-v", "-T", str(SESSION_S), "-s", self.network.lists[at], self.lock + "-" + kind, "--",
                            sys.executable, "-c", WITNESS, folder)
        wait_for(lambda: os.path.exists(folder + "/ready") or holder.poll() is not None, "the command runs")
        longest = 0
        for number in range(20 if LONG else 2):
            # Two proofs that lie apart, and the lease is whole again. Each outage begins at another moment of a heartbeat.
            time.sleep(SESSION_S * (3.5 + 0.6 * (number + at) % 1) / 6)
            began = time.monotonic()
            begin(at)
            time.sleep(SESSION_S / part * 0.9)
            self.network.heal(at)
            longest = max(longest, time.monotonic() - began)
        with open(folder + "/go", "w", encoding="ascii"):
            pass
        status, _, err = holder.result()
        return (status, self.text(kind + "/signals"), err.decode()) if longest < SESSION_S / part else None

    def test_short_outages_are_not_noticed(self):
        kinds = (("broken", 4, lambda at: self.network.refuse(at)),
                 ("silent", 4, lambda at: self.network.hold(Network.SILENT, at)),
                 ("silent-to-server", 4, lambda at: self.network.hold(Network.SILENT_TO_SERVER, at)),
                 ("silent-to-client", 4, lambda at: self.network.hold(Network.SILENT_TO_CLIENT, at)),
                 ("dropped", 8, lambda at: self.network.drop(True, at)))
        self.open_network(len(kinds))
        with concurrent.futures.ThreadPoolExecutor(len(kinds)) as threads:
            ended = [threads.submit(self.outages, at, *kind) for at, kind in enumerate(kinds)]
        results = [each.result() for each in ended]
        for (kind, _, _), result in zip(kinds, results):
            with self.subTest(kind=kind):
                self.assertEqual(result and result[:2], result and (0, ""), result)
        if not any(results):
            self.skipTest("no outage was as short as it should have been, on a machine as busy as this")


class Waiting(NetworkTest):
    """-w is over in time, whatever the connections do meanwhile."""

    # Of so many attempts one must be in time: a busy machine makes them late, a broken rule all of them.
    ATTEMPTS = 8

    def took(self, *arguments):
        began = time.monotonic()
        status = self.call(*arguments, self.lock, "--", "true")[0]
        return time.monotonic() - began, status

    def waits(self, at, wait_s, begin):
        """How late the best of some attempts was."""
        late = []
        while len(late) < self.ATTEMPTS and (not late or min(late) > 0.25 + self.connect_s):
            over = threading.Event()
            fault = threading.Thread(target=self.spoil, args=(at, wait_s, begin, over))
            fault.start()
            took, status = self.took("-w", str(wait_s), "-s", self.network.lists[at])
            over.set()
            fault.join()
            self.network.heal(at)
            # Who has not been connected in this time has not seen that somebody holds.
            self.assertIn(status, (75, 69))
            self.assertGreaterEqual(took, wait_s)
            late.append(took - wait_s)
        return min(late)

    @staticmethod
    def spoil(at, wait_s, begin, over):
        """From half of the wait on, and again and again."""
        over.wait(wait_s / 2)
        while not over.is_set():
            begin(at)
            over.wait(0.05)

    def test_servers_that_are_gone_when_it_is_over_are_told(self):
        """Also where somebody held before: nobody knows who does then."""
        self.hold()
        self.open_network(1)
        waiter = self.queue("-w", "6", "-E", "0", "-s", self.network.lists[0])
        self.network.refuse(0)
        status, out, err = waiter.result()
        self.assertEqual((status, out), (69, b""))
        self.assert_one_line(err, self.lock, "not granted within 6.000 s", "no server is reached now", "127.0.0.1:", "-s")

    def test_is_over_in_time(self):
        kinds = (lambda at: self.network.cut(at), lambda at: self.network.refuse(at),
                 lambda at: self.network.hold(Network.SILENT, at), lambda at: self.network.hold(Network.SILENT_TO_CLIENT, at),
                 lambda at: self.network.drop(True, at))
        waits = (0.05, 0.2, 1, 5) if LONG else (0.05, 5)
        self.hold()
        self.open_network(len(kinds) * len(waits))
        # One connect, with all that comes before and after it.
        self.connect_s = min(self.took("-n")[0] for _ in range(5))
        cases = [(wait_s, kind) for wait_s in waits for kind in kinds]
        for wait_s in waits:
            with concurrent.futures.ThreadPoolExecutor(len(kinds)) as threads:
                late = {at: threads.submit(self.waits, at, *case) for at, case in enumerate(cases) if case[0] == wait_s}
            for at, each in late.items():
                with self.subTest(wait_s=wait_s, kind=at % len(kinds)):
                    self.assertLessEqual(each.result(), 0.25 + self.connect_s)


if __name__ == "__main__":
    unittest.main(verbosity=2)
