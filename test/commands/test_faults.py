# SPDX-License-Identifier: Apache-2.0
"""Servers that fail under a lock: run these alone on their ensemble."""

import concurrent.futures
import contextlib
import os
import signal
import sys
import time
import unittest

from support import SERVERS, CommandTest, wait_for, zk

# One line every few milliseconds: who runs, and when, by one clock for all.
LOG = "import os, sys, time\n" \
      "signal = __import__('signal'); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" \
      "out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)\n" \
      "end = time.monotonic() + float(sys.argv[3])\n" \
      "while time.monotonic() < end:\n" \
      "    os.write(out, b'%s %d\\n' % (sys.argv[2].encode(), time.monotonic_ns()))\n" \
      "    time.sleep(0.002)\n"


class FaultTest(CommandTest):
    def log(self, who, seconds):
        return (sys.executable, "-c", LOG, self.file("log"), who, str(seconds))

    def entries(self, who):
        return [int(line.split()[1]) for line in self.text("log").splitlines() if line.startswith(who + " ")]

    def follower(self):
        leader = int(zk("leader"))
        return leader % 3 + 1

    @staticmethod
    def server(number):
        return SERVERS.split(",")[number - 1]

    @staticmethod
    def all_but(number):
        return ",".join(server for at, server in enumerate(SERVERS.split(","), 1) if at != number)

    def undo(self, verb, *arguments):
        """Whatever the test comes to, the ensemble serves again afterwards."""
        def mend():
            with contextlib.suppress(unittest.SkipTest):
                zk(verb, *arguments)
            zk("wait")
        self.addCleanup(mend)


class HolderIsolated(FaultTest):
    def isolated(self, fault, mend):
        number = self.follower()
        holder = self.start("-T", "8", "-s", self.server(number), self.lock, "--", *self.log("old", 600))
        wait_for(lambda: self.entries("old"), "the holder's command runs")
        waiter = self.start("-T", "8", "-s", self.all_but(number), self.lock, "--", *self.log("new", 0.05))
        wait_for(lambda: len(self.nodes()) == 2, "the waiter has queued")
        self.undo(mend, number)
        zk(fault, number)
        self.assertEqual(waiter.end(60), 0)
        self.assertEqual(holder.end(10), 76)
        # The old command ignores TERM: it was killed, and before the next one began.
        self.assertLess(self.entries("old")[-1], self.entries("new")[0])
        self.assert_nothing_lives()

    def test_follower_cut_off_from_its_leader(self):
        self.isolated("cut", "heal")

    def test_server_paused(self):
        self.isolated("pause", "resume")


class Leader(FaultTest):
    def lead(self, who, servers, *arguments):
        return self.start("--leader", "-T", "8", "-s", servers, *arguments, self.lock, "--", *self.log(who, 600))

    def stop(self, leader):
        """Its command ignores TERM."""
        leader.send_signal(signal.SIGINT)
        self.assertEqual(leader.end(), -signal.SIGINT)

    def test_that_is_cut_off_ends_its_command_in_time_and_campaigns_when_it_is_back(self):
        number = self.follower()
        old = self.lead("old", self.server(number))
        wait_for(lambda: self.entries("old"), "the leader's command runs")
        new = self.lead("new", self.all_but(number))
        wait_for(lambda: len(self.nodes()) == 2, "the other one has queued")
        self.undo("heal", number)
        zk("cut", number)
        wait_for(lambda: self.entries("new"), "the other one leads")
        last = self.entries("old")[-1]
        self.assertLess(last, self.entries("new")[0])
        zk("heal", number)
        wait_for(lambda: len(self.nodes()) == 2, "the old one campaigns again")
        self.assertEqual(self.entries("old")[-1], last)
        self.stop(new)
        wait_for(lambda: self.entries("old")[-1] > last, "the old one leads again")
        self.assertLess(self.entries("new")[-1], [at for at in self.entries("old") if at > last][0])
        self.stop(old)
        self.assert_nothing_lives()
        self.assert_free()

    def test_that_has_no_servers_goes_on_trying(self):
        leader = self.lead("a", SERVERS, "--connect-timeout", "1")
        wait_for(lambda: self.entries("a"), "the command runs")
        self.addCleanup(start_all)
        for number in (1, 2, 3):
            zk("kill", number)
        wait_for(lambda: not self.marked(), "the command is dead")
        last = self.entries("a")[-1]
        start_all()
        wait_for(lambda: self.entries("a")[-1] > last, "it leads again")
        self.assertIsNone(leader.poll())
        self.stop(leader)
        self.assert_nothing_lives()


class Outage(FaultTest):
    def test_ensemble_gone_for_good_ends_the_command_before_the_session(self):
        session_s = 4
        holder = self.start("-T", str(session_s), self.lock, "--", *self.log("old", 600))
        wait_for(lambda: self.entries("old"), "the command runs")
        self.addCleanup(start_all)
        for number in (1, 2, 3):
            zk("kill", number)
        killed = time.monotonic()
        self.assertEqual(holder.end(session_s + 10), 76)
        self.assertLess(self.entries("old")[-1], int((killed + session_s) * 1e9))
        self.assert_nothing_lives()

    def survives(self, outage, limit=4.0):
        """The command goes on if the servers are back before the lease is over: 5T/8 after the last proof."""
        holder = self.hold("-T", "10", "-k", "0.1")
        began = time.monotonic()
        outage()
        nodes = self.nodes()
        took = time.monotonic() - began
        if took > limit:
            self.skipTest("the servers were away for %.1f s, on a machine as busy as this" % took)
        self.assertEqual(len(nodes), 1)
        holder.terminate()
        self.assertEqual(holder.result(), (-15, b"", b""))

    def test_leader_that_is_replaced_ends_nothing(self):
        leader = int(zk("leader"))
        self.undo("start", leader)

        def outage():
            zk("kill", leader)
            wait_for(lambda: zk_leader() not in (0, leader), "another server leads")
        self.survives(outage)

    def test_follower_that_goes_ends_nothing(self):
        number = self.follower()
        self.undo("start", number)
        self.survives(lambda: zk("kill", number))

    def test_rolling_restart_ends_nothing(self):
        """Each of the servers in turn, with the default grace: the manual promises a third of the session timeout."""
        heard = self.file("heard")
        go = self.file("go")
        script = "trap 'echo heard >> \"$0\"' HUP INT QUIT TERM USR1 USR2; while [ ! -e \"$1\" ]; do sleep 0.01; done; exit 0"
        holder = self.start("-v", "-T", "10", self.lock, "--", "sh", "-c", script, heard, go)
        wait_for(self.marked, "the command runs")
        slowest = 0
        for number in (1, 2, 3):
            self.undo("start", number)
            led = zk_leader() == number
            began = time.monotonic()
            zk("kill", number)
            wait_for(lambda number=number: zk_leader() not in (0, number), "others serve")
            slowest = max(slowest, time.monotonic() - began) if led else slowest
            zk("start", number)
            zk("wait")
        with open(go, "w", encoding="ascii"):
            pass
        status, _, err = holder.result()
        if slowest > 3.3:
            self.skipTest("nobody led for %.1f s, on a machine as busy as this" % slowest)
        self.assertEqual((status, self.text("heard")), (0, ""), err)

    def test_end_without_servers_is_bounded(self):
        number = self.follower()
        go = self.file("go")
        holder = self.hold("-T", "10", "-s", self.server(number),
                           command=("sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.01; done; exit 3', go))
        self.undo("resume", number)
        paused = time.monotonic()
        zk("pause", number)
        began = time.monotonic()
        with open(go, "w", encoding="ascii"):
            pass
        status, _, err = holder.result()
        if status == 76 and began - paused > 3:
            self.skipTest("the lease was over before, on a machine as busy as this")
        self.assertEqual(status, 3)
        self.assert_one_line(err, "did not confirm the release")
        self.assertLess(time.monotonic() - began, 8)

    def test_wait_is_over_without_servers(self):
        self.hold()
        number = self.follower()
        waiter = self.queue("-w", "3", "-T", "10", "-s", self.server(number))
        began = time.monotonic()
        self.undo("resume", number)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            # Not to be told late of an end that comes before that of the pause's command.
            ended = threads.submit(lambda: (waiter.end(), time.monotonic()))
            zk("pause", number)
            status, at = ended.result()
        self.assertEqual(status, 75)
        self.assertLess(at - began, 6)


def start_all():
    """At once: none of them serves alone."""
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda number: zk("start", number), (1, 2, 3)))
    zk("wait")


def zk_leader():
    try:
        return int(zk("leader"))
    except AssertionError:
        return 0


if __name__ == "__main__":
    unittest.main(verbosity=2)
