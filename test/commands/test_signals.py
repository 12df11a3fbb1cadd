# SPDX-License-Identifier: Apache-2.0
"""Signals to the wrapper, while it waits, while the command runs, and around the grant."""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest

from support import (BINARY, DETACH, INTERRUPT, LONG, SEIZE, SERVERS, CommandTest, lives, read_proc, state_of, trace, wait_for,
                     zkwire)

FATAL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class WhileWaiting(CommandTest):
    def test_dies_by_the_signal_and_its_node_is_gone_before(self):
        self.hold()
        for number in FATAL:
            with self.subTest(signal=number):
                waiter = self.queue(command=("touch", self.file("started")))
                began = time.monotonic()
                waiter.send_signal(number)
                self.assertEqual(waiter.result(), (-number, b"", b""))
                # Servers that lag are waited for, but not for longer than a second.
                if time.monotonic() - began < 1:
                    self.assertEqual(len(self.nodes()), 1)
                self.assert_contenders(1)
        self.assertFalse(os.path.exists(self.file("started")))

    def test_ignored_signal_stays_ignored(self):
        holder = self.hold()
        waiter = self.queue(command=("sh", "-c", "exit 6"),
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        waiter.send_signal(signal.SIGHUP)
        holder.terminate()
        self.assertEqual(waiter.result(), (6, b"", b""))

    def test_waiter_in_the_middle_does_not_let_the_next_one_in(self):
        self.hold()
        middle = self.queue(ahead=1)
        last = self.queue(ahead=2, command=("touch", self.file("started")))
        middle.terminate()
        self.assertEqual(middle.end(), -signal.SIGTERM)
        self.assert_contenders(2)
        self.assertIsNone(last.poll())
        self.assertFalse(os.path.exists(self.file("started")))


class WhileRunning(CommandTest):
    def test_is_passed_on_and_the_status_is_the_commands(self):
        for number in FATAL:
            with self.subTest(signal=number):
                holder = self.hold()
                holder.send_signal(number)
                self.assertEqual(holder.result(), (-number, b"", b""))
                self.assertFalse(lives(holder.command))
                self.assert_free(2)

    def test_command_may_take_its_time_and_the_lock_stays_held(self):
        go = self.file("go")
        script = "trap 'touch \"$1.told\"; while [ ! -e \"$1\" ]; do sleep 0.01; done; exit 9' TERM; " \
                 "echo $$ > \"$0\"; while :; do sleep 0.01; done"
        pid = self.file("pid")
        holder = self.start(self.lock, "--", "sh", "-c", script, pid, go)
        wait_for(lambda: self.text("pid"), "the command runs")
        holder.terminate()
        wait_for(lambda: os.path.exists(go + ".told"), "the command was told")
        self.assertIsNone(holder.poll())
        self.assertEqual(self.call("-n", self.lock, "--", "true")[0], 75)
        with open(go, "w", encoding="ascii"):
            pass
        self.assertEqual(holder.result()[:2], (9, b""))
        self.assert_free(2)

    def test_reaches_the_whole_group_once(self):
        counter = "import signal,sys,os\n" \
                  "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'x'))\n" \
                  "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n" \
                  "open(sys.argv[1], 'w').close()\n" \
                  "while True: signal.pause()\n"
        one, two = self.file("one"), self.file("two")
        holder = self.start(self.lock, "--", "sh", "-c", '"$0" -c "$1" "$2" & "$0" -c "$1" "$3"; wait', sys.executable,
                            counter, one, two)
        wait_for(lambda: os.path.exists(one) and os.path.exists(two), "both run")
        # The shell between them dies of it; what counts is how often the two hear it.
        holder.send_signal(signal.SIGUSR1)
        status, out, err = holder.result()
        self.assertEqual((status, out, err), (-signal.SIGUSR1, b"xx", b""))

    def stop_often(self, holder):
        """While the front does not listen. False: nobody has renewed the lease meanwhile, and on a busy machine it was over."""
        warden = holder.warden()
        os.kill(holder.pid, signal.SIGSTOP)
        wait_for(lambda: state_of(holder.pid) == "T", "it is stopped")
        # Each is two reports: a socket's buffer has room for some 280 by default.
        for _ in range(150):
            for number in (signal.SIGSTOP, signal.SIGCONT):
                slept = sleeps(warden)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(holder.command, number)
                wait_for(lambda number=number, slept=slept: not lives(holder.command) or sleeps(warden) != slept and
                         (state_of(holder.command) == "T") == (number == signal.SIGSTOP), "the warden hears of it")
                if not lives(holder.command):
                    return False
        return True

    def test_end_is_heard_of_behind_any_number_of_stops(self):
        """More than one who does not listen meanwhile can be told."""
        for _ in range(5):
            holder = self.hold("-k", "0.1")
            if self.stop_often(holder):
                break
            self.reap(holder)
            self.assert_free()
        else:
            self.skipTest("no lease was long enough, on a machine as busy as this")
        warden = holder.warden()
        os.kill(holder.command, signal.SIGTERM)
        wait_for(lambda: state_of(holder.command) == "", "the warden has seen the end")
        wait_for(lambda: state_of(warden) == "S", "it waits until it can tell that")
        os.kill(holder.pid, signal.SIGCONT)
        self.assertEqual(holder.result(), (-signal.SIGTERM, b"", b""))
        self.assert_free(2)

    def test_end_is_heard_of_behind_any_number_of_signals(self):
        """The warden, which passes them on, need not run meanwhile."""
        script = 'trap "" USR1 USR2; trap "exit 5" TERM; touch "$0"; while :; do sleep 0.01; done'
        holder = self.hold("-T", "20", command=("sh", "-c", script, self.file("set")))
        wait_for(lambda: os.path.exists(self.file("set")), "it is prepared")
        warden = holder.warden()
        trace(SEIZE, warden)
        trace(INTERRUPT, warden)
        wait_for(lambda: state_of(warden) == "t", "the warden is stopped")
        for number in 500 * [signal.SIGUSR1, signal.SIGUSR2] + [signal.SIGTERM]:
            holder.send_signal(number)
            wait_for(lambda: b"ShdPnd:\t0000000000000000" in read_proc(holder.pid, "status"), "it has been taken")
        trace(DETACH, warden)
        self.assertEqual(holder.end(), 5)

    def test_command_that_has_left_its_group_hears_them(self):
        script = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n" \
                 "child = os.fork()\nif child == 0:\n    os.setpgid(0, 0)\n    time.sleep(1000)\n" \
                 "while os.getpgid(child) != child:\n    time.sleep(0.01)\n" \
                 "os.setpgid(0, child)\nopen(sys.argv[1], 'w').close()\nwhile True:\n    signal.pause()\n"
        holder = self.hold(command=(sys.executable, "-c", script, self.file("left")))
        wait_for(lambda: os.path.exists(self.file("left")), "it has left its group")
        holder.terminate()
        self.assertEqual(holder.result(), (5, b"", b""))

    def test_both_of_us_are_not_taken_by_pkill(self):
        holder = self.hold()
        warden = wait_for(holder.warden, "the warden runs")
        with open("/proc/%d/comm" % warden, encoding="ascii") as file:
            self.assertEqual(file.read(), "zklock-warden\n")
        with open("/proc/%d/cmdline" % warden, "rb") as file:
            self.assertNotIn(b"zklock-run", file.read())
        self.assertNotEqual(os.getpgid(warden), os.getpgid(holder.pid))

    def test_command_has_a_group_of_its_own(self):
        holder = self.hold()
        self.assertEqual(os.getpgid(holder.command), holder.command)


def sleeps(pid):
    """How often it has gone to sleep: whoever was told something has dealt with it when there is one more."""
    return int(read_proc(pid, "status").partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])


# Long is what finds the one round in a hundred.
ROUNDS = 500 if LONG else 10
# Fails where another one runs at the same time; ends when its input does.
ALONE = ("flock", "--nonblock", "--conflict-exit-code", "99")


class Alarm(CommandTest):
    def test_that_was_set_before(self):
        """As perl -e 'alarm 60; exec @ARGV' does: it is the command that shall end by it."""
        holder = self.start(self.lock, "--", "sleep", "1000",
                            preexec_fn=lambda: signal.setitimer(signal.ITIMER_REAL, 0.7))
        self.assertEqual(holder.end(), -signal.SIGALRM)
        self.assert_nothing_lives()
        self.assert_free(2)


class AroundTheGrant(CommandTest):
    def alone(self, script):
        return (*ALONE, self.file("alone"), "sh", "-c", script)

    def test_all_waiters_are_told_to_end_as_the_lock_is_released(self):
        """Nobody starts late, and no node is left."""
        for number in range(ROUNDS):
            with self.subTest(round=number):
                holder = self.hold()
                waiters = [self.queue(ahead=n + 1, command=self.alone("echo $$ >> " + self.file("ran"))) for n in range(3)]
                # A session for these few steps: it has no heartbeats.
                with zkwire.Client(SERVERS) as client:
                    client.watch(self.lock + "/" + client.children(self.lock)[0])
                    holder.terminate()
                    if number % 2:
                        client.wait_for_watch()
                for waiter in waiters:
                    waiter.terminate()
                statuses = [waiter.end(15) for waiter in waiters]
                self.assertEqual(holder.end(15), -signal.SIGTERM)
                self.assert_free(5)
                # Who had the lock already ran its command, unless the signal met it: both are right.
                for status in statuses:
                    self.assertIn(status, (0, -signal.SIGTERM))
                before = self.text("ran")
                self.assert_nothing_lives()
                self.assertEqual(self.text("ran"), before)
                for wrapper in (holder, *waiters):
                    self.reap(wrapper)

    def end_and_be_told(self, options, delay_s, at_release, deaf=False):
        """A command whose input ends, and TERM to its wrapper so much later (earlier, below 0), or as its node goes. One that is
        deaf takes a moment more. Returns how long it took from the end of the input to the end of the wrapper."""
        command = self.alone("touch %s; read line; %sexit 7" % (self.file("ready"), "sleep 0.02; " if deaf else ""))
        if deaf:
            command = ("sh", "-c", 'trap "" TERM; exec "$@"', "sh", *command)
        holder = self.start(*options, self.lock, "--", *command, stdin=subprocess.PIPE)
        wait_for(lambda: os.path.exists(self.file("ready")) or holder.poll() is not None, "the command runs")
        os.remove(self.file("ready"))
        next_one = self.queue(command=self.alone("exit 5"))
        with zkwire.Client(SERVERS) as client:
            client.watch(self.lock + "/" + client.children(self.lock)[0])
            began = time.monotonic()
            moments = [(0, holder.stdin.close)]
            if not at_release:
                moments.append((delay_s, holder.terminate))
            for at, act in sorted(moments, key=lambda moment: moment[0]):
                while time.monotonic() < began + at - min(0, delay_s):
                    pass
                act()
            if at_release:
                client.wait_for_watch()
                holder.terminate()
            status = holder.end(15)
            took = time.monotonic() - began
            # The signal came before the command's end, or after.
            self.assertIn(status, (7,) if deaf else (7, -signal.SIGTERM))
            self.assertEqual(holder.stderr.read(), b"")
            # Not 99: the one before is gone.
            self.assertEqual(next_one.result(15), (5, b"", b""))
            self.assertEqual(self.nodes(), [])
            self.assert_nothing_lives()
            self.reap(holder)
            self.reap(next_one)
            return took

    def test_holder_is_told_to_end_as_it_ends(self):
        ways = ((), ("--wait-all",), ("--min-hold", "1ms"))
        took = min(self.end_and_be_told((), 0, True) for _ in range(2))
        for number in range(ROUNDS):
            with self.subTest(round=number):
                self.end_and_be_told(ways[number % len(ways)], random.uniform(-0.001, took + 0.001), at_release=number % 4 == 0,
                                     deaf=number % 4 == 1)

    def test_signal_at_any_moment_of_the_start(self):
        """From the first instruction on: the wrapper is gone, and with it the command and the node."""
        for number in range(60 if LONG else 15):
            with self.subTest(round=number):
                wrapper = self.start(self.lock, "--", "sleep", "1000")
                wait_for(lambda: os.path.exists("/proc/%d" % wrapper.pid), "it runs", 5)
                # The moment itself is what is varied.
                time.sleep(number * 0.003)
                wrapper.terminate()
                self.assertEqual(wrapper.end(15), -signal.SIGTERM)
                self.assert_nothing_lives()
                self.assert_free(15)


class MinHold(CommandTest):
    def test_holds_on_after_the_command(self):
        began = time.monotonic()
        holder = self.start("--min-hold", "6", self.lock, "--", "sh", "-c", "exit 3")
        wait_for(self.nodes, "it holds")
        self.assertEqual(self.call("-n", self.lock, "--", "true")[0], 75)
        self.assertEqual(holder.result(), (3, b"", b""))
        self.assertGreaterEqual(time.monotonic() - began, 6)
        self.assert_free(2)

    def test_is_told_by_verbose(self):
        with open(self.file("log"), "wb") as log:
            holder = self.start("-v", "--min-hold", "1h", self.lock, "--", "true", stderr=log)
        line = r"(?m)^zklock-run: holding %s for 35\d\d\.\d{3} s more: --min-hold$" % self.lock
        wait_for(lambda: re.search(line, self.text("log")), "it is told")
        holder.terminate()
        self.assertEqual(holder.end(), 0)

    def test_costs_nothing_when_the_command_takes_longer(self):
        status, _, err = self.call("-v", "--min-hold", "50ms", self.lock, "--", "sleep", "0.5")
        self.assertEqual((status, b"more" in err), (0, False))

    def test_is_cut_short_by_a_signal_and_keeps_the_status(self):
        holder = self.start("--min-hold", "1h", self.lock, "--", "sh", "-c", 'touch "$0"; exit 3', self.file("ran"))
        wait_for(lambda: os.path.exists(self.file("ran")) and not self.marked(), "the command ended")
        holder.send_signal(signal.SIGUSR1)
        holder.terminate()
        # The signal may come before the end of the command is known: then it is the command's, which is gone.
        self.assertEqual(holder.end(10), 3)
        self.assert_free(2)

    def test_does_not_hold_for_a_command_that_is_missing(self):
        began = time.monotonic()
        self.assertEqual(self.call("--min-hold", "1h", self.lock, "--", "/no/such/command")[0], 127)
        self.assertLess(time.monotonic() - began, 10)


class Nohup(CommandTest):
    def test_background_job_of_a_script(self):
        """Without job control a shell starts these with INT and QUIT ignored: so they stay, for the command too."""
        done = subprocess.run(["sh", "-c", '"$0" "$1" -- grep ^SigIgn /proc/self/status & wait $!', BINARY, self.lock],
                              env=self.environment(), stdout=subprocess.PIPE, check=True)
        ignored = int(done.stdout.split()[1], 16)
        self.assertEqual(ignored & 0x6, 0x6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
