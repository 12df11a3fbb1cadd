# SPDX-License-Identifier: Apache-2.0
"""The example `candidate` as a process: its lines, its signals, and who leads when it is killed, stopped or told to end."""

import os
import signal
import subprocess
import threading
import time
import unittest

import support
from support import PATIENCE, SERVERS, TICK_S, wait_for

CANDIDATE = os.environ["ZKLOCK_CANDIDATE"]
SESSION_S = 8 * TICK_S
# Where none is to be over: the longest that servers grant.
LONG_SESSION_S = 20 * TICK_S


class Candidate(subprocess.Popen):
    """Its lines with the moment at which each came."""

    def __init__(self, path, session_s):
        super().__init__([CANDIDATE, "-s", SERVERS, "-T", "%g" % session_s, path], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def said(self, word):
        return [(at, line) for at, line in list(self.lines) if line.split()[0] == word]

    def end(self):
        if self.poll() is None:
            self.send_signal(signal.SIGCONT)
            self.kill()
        self.wait()
        self.reader.join()
        self.stdout.close()


class CandidateTest(support.CommandTest):
    def candidates(self, count, session_s=LONG_SESSION_S):
        """In the order of their nodes."""
        found = []
        for number in range(count):
            found.append(Candidate(self.lock, session_s))
            self.addCleanup(found[-1].end)
            wait_for(lambda: len(self.nodes()) == number + 1, "it has queued")  # pylint: disable=cell-var-from-loop
        return found

    def elected(self, candidate, times=1, patience=PATIENCE):
        """The epoch."""
        wait_for(lambda: len(candidate.said("elected")) >= times, "it is elected", patience)
        return int(candidate.said("elected")[times - 1][1].split()[1])

    def test_lines_are_flushed_and_term_resigns_at_once(self):
        first, second = self.candidates(2)
        self.assertEqual(self.elected(first), 0)
        first.terminate()
        self.assertEqual(first.wait(PATIENCE), 0)
        self.assertEqual(self.elected(second), 1)
        self.assertEqual(len(self.nodes()), 1)
        second.send_signal(signal.SIGINT)
        self.assertEqual(second.wait(PATIENCE), 0)
        self.assert_free()

    def test_waiting_candidate_ends_without_a_trace(self):
        first, second = self.candidates(2)
        second.terminate()
        self.assertEqual(second.wait(PATIENCE), 0)
        self.assertEqual(len(self.nodes()), 1)
        self.assertEqual(second.lines, [])
        self.assertEqual(len(first.said("elected")), 1)

    def test_killed_leader_is_followed_within_its_session_and_two_ticks(self):
        candidates = self.candidates(4 if support.LONG else 3, SESSION_S)
        last = self.elected(candidates[0])
        while len(candidates) > 1:
            candidates.pop(0).kill()
            # On an idle machine; a busy one is given as much again.
            epoch = self.elected(candidates[0], patience=2 * (SESSION_S + 2 * TICK_S))
            self.assertGreater(epoch, last)
            last = epoch

    def test_stopped_leader_is_deposed_and_says_so_when_it_goes_on(self):
        first, second = self.candidates(2)
        epoch = self.elected(first)
        first.send_signal(signal.SIGSTOP)
        self.assertGreater(self.elected(second), epoch)
        first.send_signal(signal.SIGCONT)
        wait_for(lambda: first.said("deposed"), "it is deposed")
        # It campaigns again, behind the other.
        wait_for(lambda: len(self.nodes()) == 2, "both have a node")
        second.terminate()
        self.assertGreater(self.elected(first, times=2), epoch + 1)
        self.assertEqual([line.split()[0] for _, line in first.lines if line != "suspended"][:3],
                         ["elected", "deposed", "elected"])

    def test_usage_and_failures_are_one_line(self):
        for arguments in ([], ["--help"], ["-x", "-s", SERVERS, self.lock], ["-s", SERVERS], [self.lock], ["-s", SERVERS, self.lock, "more"], ["-s", SERVERS, "no/slash"]):
            done = subprocess.run([CANDIDATE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=PATIENCE, check=False)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
