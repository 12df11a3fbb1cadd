# SPDX-License-Identifier: Apache-2.0
"""The lock is lost, or a process of ours is stopped or killed: the command never outlives the lock, and nothing of it
survives.

A lock is lost here because an operator deletes its node: at once, without a server that fails."""

import contextlib
import fcntl
import os
import resource
import random
import select
import signal
import sys
import tempfile
import time
import unittest

from support import (DETACH, INTERRUPT, LONG, SEIZE, SERVERS, TICK_S, TRACE_EXIT, WAIT_ALL, CommandTest, lives, state_of, trace,
                     wait_for, zkwire)

# The command's tree: one process that ignores TERM, one in a session of its own, one that is stopped, one that is all.
TREE = r"""
exec 2>/dev/null
trap 'echo told >> "$READY.told"' TERM
deaf='trap "" TERM HUP INT; touch "$READY.$1"; while :; do sleep 1000; done'
sh -c "$deaf" deaf 1 &
setsid sh -c "$deaf" deaf 2 </dev/null >/dev/null 2>&1 &
sh -c 'touch "$READY.3"; kill -STOP $$; sleep 1000' &
(setsid sh -c 'touch "$READY.4"; trap "" TERM; kill -STOP $$; sleep 1000' &) &
touch "$READY.0"
while :; do sleep 0.05; done
"""


# A process whose first thread has ended, so that it looks like a zombie. Its memory is gone for /proc, and with it the mark
# by which processes of a test are found: but as long as it lives it has the file locked.
HEADLESS = r"""
import ctypes, fcntl, os, sys, threading, time
file = open(sys.argv[1] + ".lock", "w")
fcntl.flock(file, fcntl.LOCK_EX)
def go_on():
    while " Z " not in open("/proc/self/stat").read():
        time.sleep(0.01)
    open(sys.argv[1], "w").close()
    time.sleep(60)
    os._exit(0)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


class LossTest(CommandTest):
    def hold_headless(self, *arguments):
        return self.begin(*arguments, self.lock, "--", "sh", "-c", '"$PYTHON" -c "$HEADLESS" "$READY" & sleep 1000',
                          env={"READY": self.file("ready"), "HEADLESS": HEADLESS, "PYTHON": sys.executable},
                          until=lambda: os.path.exists(self.file("ready")), what="its first thread has ended")

    def assert_no_headless(self):
        with open(self.file("ready.lock"), "a", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def tree_stands(self):
        return all(os.path.exists(self.file("ready.%d" % n)) for n in range(5)) and \
            [state_of(pid) for pid in self.marked()].count("T") == 2

    def hold_tree(self, *arguments, **options):
        holder = self.begin(*arguments, self.lock, "--", "sh", "-c", TREE, env={"READY": self.file("ready")},
                            until=self.tree_stands, what="the tree stands, two of it are stopped", **options)
        holder.tree = self.marked()
        self.assertGreaterEqual(len(holder.tree), 5)
        return holder


class Lost(LossTest):
    def test_nothing_of_the_tree_survives(self):
        holder = self.hold_tree("-T", "10", "-k", "2.5")
        began = time.monotonic()
        self.lose()
        wait_for(lambda: not self.marked(), "nothing of the tree lives")
        took = time.monotonic() - began
        status, out, err = holder.result()
        self.assertEqual((status, out), (76, b""))
        self.assert_one_line(err, "lost", self.lock)
        self.assert_nothing_lives()
        # Some of it ignores TERM: so KILL came, and not before the grace was over.
        self.assertTrue(2.4 <= took < 10, took)
        self.assertEqual(self.text("ready.told"), "told\n")

    def test_command_has_the_grace_to_tidy_up_in(self):
        ready = self.file("ready")
        script = 'trap \'sleep 0.3; echo done > "$0.done"; exit 0\' TERM; touch "$0"; while :; do sleep 0.05; done'

        def end_takes():
            holder = self.begin("-T", "10", "-k", "2.5", self.lock, "--", "sh", "-c", script, ready,
                                until=lambda: os.path.exists(ready), what="the command runs")
            began = time.monotonic()
            self.lose()
            # Its own status is 0: that the lock was lost counts more.
            self.assertEqual(holder.end(), 76)
            took = time.monotonic() - began
            done = self.text("ready.done") == "done\n"
            for name in os.listdir(self.folder):
                os.remove(self.file(name))
            return took if done else 1000
        # At least once on a machine as busy as this.
        wait_for(lambda: end_takes() < 2.4, "it has tidied up, and no more was waited for")

    def test_command_that_ends_with_0_at_that_instant(self):
        """The command deletes the node of its own lock and exits, faster than anyone can be told."""
        script = "import os, sys; sys.path.insert(0, sys.argv[1]); os.environ['ZKLOCK_RUN'] = '/'; import zkwire\n" \
                 "client = zkwire.Client(sys.argv[2])\n" \
                 "client.delete(os.environ['ZKLOCK_NODE'])\n" \
                 "client.children(os.environ['ZKLOCK_PATH'])\n" \
                 "os._exit(0)\n"
        folder = os.path.dirname(zkwire.__file__)
        status, out, err = self.call(self.lock, "--", sys.executable, "-c", script, folder, SERVERS)
        # Which comes first to the wrapper, the deletion or the end, is open: what must not be is a hang or a leftover.
        self.assertIn(status, (0, 76))
        self.assertEqual(out, b"")
        if status == 76:
            self.assert_one_line(err, "lost")

    def test_in_the_rest_of_min_hold_the_status_is_the_commands(self):
        holder = self.start("--min-hold", "1h", self.lock, "--", "sh", "-c", 'touch "$0"; exit 3', self.file("ran"))
        wait_for(lambda: os.path.exists(self.file("ran")) and not self.marked(), "the command ended")
        # That its end is known is not to be seen from here: a loss before that is a loss.
        self.lose()
        self.assertIn(holder.end(), (3, 76))

    def test_command_dies_where_no_file_can_be_opened_too(self):
        """And so /proc and the cgroup tell nothing."""
        holder = self.hold("-T", "4", "-k", "0.1")
        for pid in holder.pid, holder.warden():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assertFalse(lives(holder.command))

    def test_who_cannot_be_killed_is_named(self):
        """As one that hangs in the kernel: here its tracer holds it on its way out."""
        holder = self.hold("-T", "4", "-k", "0.1")
        trace(SEIZE, holder.command, TRACE_EXIT)
        self.lose()
        wait_for(lambda: select.select([holder.stderr], [], [], 0)[0], "a line is said")
        line = os.read(holder.stderr.fileno(), 4096).decode()
        self.assertIn(" of the command's processes, as %d (sleep) t: " % holder.command, line)
        self.assertIsNone(holder.poll())
        trace(DETACH, holder.command)
        self.assertEqual(holder.end(), 76)
        self.assert_nothing_lives()


class FrontStopped(LossTest):
    def test_command_is_dead_before_the_session_is_and_nothing_starts_again(self):
        session_s = 8
        holder = self.hold_tree("-T", str(session_s))
        began = time.monotonic()
        holder.send_signal(signal.SIGSTOP)
        wait_for(lambda: not self.marked(), "nothing of the tree lives")
        took = time.monotonic() - began
        self.assertLess(took, session_s)
        self.assertEqual(state_of(holder.pid), "T")
        wait_for(lambda: not self.nodes(), "the session has expired")
        holder.send_signal(signal.SIGCONT)
        status, out, err = holder.result()
        self.assertEqual((status, out), (76, b""))
        self.assert_one_line(err, "lost")
        self.assert_nothing_lives()

    def test_command_that_has_ended_meanwhile(self):
        """Held throughout, as far as anyone can tell; but the lock says no when it is asked."""
        go = self.file("go")
        holder = self.hold("-T", "2", command=("sh", "-c", 'while [ ! -e "$0" ]; do sleep 0.01; done', go))
        holder.send_signal(signal.SIGSTOP)
        with open(go, "w", encoding="ascii"):
            pass
        wait_for(lambda: not self.nodes(), "the session has expired")
        holder.send_signal(signal.SIGCONT)
        self.assertEqual(holder.end(), 76)

    def test_short_stop_does_no_harm(self):
        holder = self.hold("-T", "10")
        holder.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(holder.pid) == "T", "it is stopped")
        holder.send_signal(signal.SIGCONT)
        holder.terminate()
        self.assertEqual(holder.end(), -signal.SIGTERM)

    def test_waiter_that_is_stopped_beyond_its_session(self):
        holder = self.hold()
        waiter = self.queue("-T", "4", command=("sh", "-c", "exit 5"))
        waiter.send_signal(signal.SIGSTOP)
        wait_for(lambda: len(self.nodes()) == 1, "the waiter's session has expired")
        waiter.send_signal(signal.SIGCONT)
        wait_for(lambda: len(self.nodes()) == 2, "it has queued again")
        holder.terminate()
        self.assertEqual(waiter.result()[0], 5)


class FrontKilled(LossTest):
    def test_command_dies_and_the_lock_frees_with_the_session(self):
        session_s = 4
        soon_s = session_s + 1.5 * TICK_S
        rounds = 20 if LONG else 3
        freed = []
        for number in range(rounds + 5):
            if number >= rounds and freed and min(freed) < soon_s:
                break
            with self.subTest(round=number):
                for name in os.listdir(self.folder):
                    os.remove(self.file(name))
                holder = self.hold_tree("-T", str(session_s))
                # At any time of the heartbeat's period.
                time.sleep(random.uniform(0, session_s / 6))
                warden = holder.warden()
                began = time.monotonic()
                holder.kill()
                wait_for(lambda: not self.marked(), "nothing of the tree lives")
                self.assertLess(time.monotonic() - began, session_s)
                wait_for(lambda: not lives(warden), "the warden has ended")
                wait_for(lambda: not self.nodes(), "the lock is free")
                freed.append(time.monotonic() - began)
                self.assertIn(b"died", holder.result()[2])
        # A machine that stalls is later at times, at most as much again.
        self.assertLess(max(freed), 2 * (session_s + 2 * TICK_S))
        self.assertLess(min(freed), soon_s)

    def test_at_any_moment_of_the_start(self):
        for number in range(60 if LONG else 15):
            with self.subTest(round=number):
                wrapper = self.start("-T", "1", self.lock, "--", "sh", "-c", "sleep 1000 & sleep 1000")
                # The moment itself is what is varied.
                time.sleep(number * 0.004)
                wrapper.kill()
                wrapper.end()
                wait_for(lambda: not self.marked(), "nothing is left", 10)


def ended_traced(pid):
    """Stops of it are passed over."""
    found, status = os.waitpid(pid, os.WNOHANG | WAIT_ALL)
    return found == pid and not os.WIFSTOPPED(status)


# Writes, and hears nothing.
DEAF = """trap '' TERM; while :; do echo >> "$0"; sleep 0.01; done"""


class BothStopped(LossTest):
    """What the manual says of it: the command goes on beside the next holder, and ends when one of the two goes on, at once
    and without a grace."""

    def stop_both(self, which, *arguments):
        self.lock += "-" + which
        holder = self.hold(*arguments, command=("sh", "-c", DEAF, self.file(which)))
        holder.which, holder.path, holder.two = which, self.lock, (holder.pid, holder.warden())
        os.kill(holder.pid, signal.SIGSTOP)
        wait_for(lambda: state_of(holder.pid) == "T", "it is stopped")
        if which == "front":
            # So that it stays stopped: the front continues a warden that a signal has stopped.
            trace(SEIZE, holder.two[1])
            trace(INTERRUPT, holder.two[1])
        else:
            os.kill(holder.two[1], signal.SIGSTOP)
        wait_for(lambda: state_of(holder.two[1]) in ("T", "t"), "it is stopped")
        return holder

    def test_command_ends_when_one_of_them_goes_on(self):
        session_s, grace_s = 10, 2.5
        holders = [self.stop_both(which, "-T", str(session_s), "-k", str(grace_s)) for which in ("front", "warden", "both")]
        for holder in holders:
            with self.subTest(goes_on=holder.which):
                self.lock = holder.path
                self.assertEqual(self.call(self.lock, "--", "true")[0], 0)
                size = len(self.text(holder.which))
                wait_for(lambda holder=holder, size=size: len(self.text(holder.which)) > size, "it goes on, beside the next one")
                began = time.monotonic()
                for pid in {"front": holder.two[:1], "warden": holder.two[1:], "both": holder.two}[holder.which]:
                    os.kill(pid, signal.SIGCONT)
                wait_for(lambda holder=holder: not lives(holder.command), "the command is dead")
                self.assertLess(time.monotonic() - began, grace_s)
                size = len(self.text(holder.which))
                if holder.which == "front":
                    # It kills the warden, too: its end is first told to who traces it.
                    wait_for(lambda pid=holder.two[1]: ended_traced(pid), "the warden is killed")
                else:
                    holder.send_signal(signal.SIGCONT)
                status, _, err = holder.result()
                self.assertEqual(status, 76)
                self.assert_one_line(err, "lost")
                self.assertEqual(len(self.text(holder.which)), size)
        self.assert_nothing_lives()


class GrantSeenLate(LossTest):
    """The library has the grant, and the thread that would start the command does not come to see it while the lease lives."""

    def test_is_given_back_and_the_next_one_is_used(self):
        holder = self.hold()
        waiter = self.queue("-T", "6", command=("sh", "-c", 'echo "$ZKLOCK_NODE"; exit 5'))
        trace(SEIZE, waiter.pid)
        trace(INTERRUPT, waiter.pid)
        os.waitpid(waiter.pid, WAIT_ALL)
        holder.terminate()
        holder.end()
        # Who holds is marked so after the grant.
        wait_for(lambda: (":%d zklock-run since " % waiter.pid).encode() in self.call("-nv", self.lock, "--", "true")[2],
                 "the library has the lock")
        late, = self.nodes()
        waiter.send_signal(signal.SIGSTOP)
        trace(DETACH, waiter.pid)
        wait_for(lambda: not self.nodes(), "the session has expired")
        waiter.send_signal(signal.SIGCONT)
        status, out, err = waiter.result()
        self.assertEqual((status, err), (5, b""))
        used, = out.decode().split()
        self.assertNotIn(late, used)
        self.assert_free(2)


class Headless(LossTest):
    def test_warden_killed(self):
        holder = self.hold_headless()
        os.kill(holder.warden(), signal.SIGKILL)
        self.assertEqual(holder.end(), 125)
        self.assert_no_headless()

    def test_lost(self):
        holder = self.hold_headless("-T", "6", "-k", "1")
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assert_no_headless()


class Warden(LossTest):
    def test_killed(self):
        holder = self.hold_tree()
        os.kill(holder.warden(), signal.SIGKILL)
        status, out, err = holder.result()
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "killed")
        self.assertFalse(any(lives(pid) for pid in holder.tree))
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_killed_while_waiting(self):
        self.hold()
        waiter = self.queue()
        os.kill(waiter.warden(), signal.SIGKILL)
        status, out, err = waiter.result()
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err)
        self.assert_contenders(1)

    def test_stopped_when_the_lock_is_lost(self):
        holder = self.hold_tree("-T", "8", "-k", "0.5")
        os.kill(holder.warden(), signal.SIGSTOP)
        began = time.monotonic()
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assertLess(time.monotonic() - began, 8)
        self.assertFalse(any(lives(pid) for pid in holder.tree))
        self.assert_nothing_lives()

    def test_told_to_end_does_nothing(self):
        holder = self.hold()
        warden = holder.warden()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            os.kill(warden, number)
        holder.terminate()
        self.assertEqual(holder.result(), (-signal.SIGTERM, b"", b""))


class NowhereToWrite(LossTest):
    """Pipes that nobody empties, no standard input, and a folder that is gone: none of it keeps anybody from ending the tree."""

    def hold_tree(self, *arguments, **options):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        folder = tempfile.mkdtemp(dir=self.folder)
        holder = super().hold_tree("-v", "-T", "8", "-k", "0.5", *arguments, stdout=writer, stderr=writer, cwd=folder,
                                   preexec_fn=lambda: os.close(0), **options)
        os.rmdir(folder)
        return holder

    def test_lost(self):
        holder = self.hold_tree()
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assert_nothing_lives()

    def test_told_to_end(self):
        holder = self.hold_tree()
        holder.send_signal(signal.SIGUSR1)
        self.assertEqual(holder.end(), -signal.SIGUSR1)
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_front_killed(self):
        holder = self.hold_tree()
        holder.kill()
        wait_for(lambda: not self.marked(), "nothing of the tree lives")
        self.assert_free()

    def test_warden_killed(self):
        holder = self.hold_tree()
        os.kill(holder.warden(), signal.SIGKILL)
        self.assertEqual(holder.end(), 125)
        self.assert_nothing_lives()
        self.assert_free(2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
