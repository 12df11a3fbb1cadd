# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each process of ours, one by one and together, at random times: what the command had started never goes on
beside a next holder, but where nothing holds it together."""

import ctypes
import os
import random
import signal
import time
import unittest

from support import LONG, CommandTest, cgroups_of, lives, own_cgroup, state_of, wait_for, without_cgroup

# The command, one that is stopped, one far away in the tree, and some that run away by forking, each deaf to TERM.
TREE = r"""
exec >/dev/null 2>&1
trap '' TERM HUP INT
flee() { (flee) & exit; }
(flee) &
sh -c 'touch "$READY.1"; kill -STOP $$; sleep 1000' &
(setsid sh -c 'trap "" TERM; touch "$READY.2"; while :; do sleep 1000; done' &) &
touch "$READY.0"
while :; do sleep 0.05; done
"""
# One that would go on for ever, and one that has started it.
PAIR = 'setsid sh -c "echo \\$\\$ > \\$0.new; mv \\$0.new \\$0; exec sleep 1000" "$0" </dev/null >/dev/null 2>&1 & exec sleep 1000'


class KillTest(CommandTest):
    def hold_pair(self, *arguments):
        holder = self.hold(*arguments, command=("sh", "-c", PAIR, self.file("left")))
        holder.left = self.seen_from_here(int(wait_for(lambda: self.text("left"), "what it starts runs")))
        return holder

    def start_tree(self, *arguments):
        return self.begin(*arguments, self.lock, "--", "sh", "-c", TREE, env={"READY": self.file("ready")},
                          until=lambda: all(os.path.exists(self.file("ready.%d" % n)) for n in range(3)), what="the tree stands")

    def kill_both_at_the_start(self, is_clean, what):
        for number in range(60 if LONG else 12):
            with self.subTest(round=number):
                wrapper = self.start("%s-%d" % (self.lock, number), "--", "sh", "-c", "setsid sleep 1000 & sleep 1000")
                warden = wait_for(wrapper.warden, "the warden runs")
                # The moment itself is what is varied.
                time.sleep(number * 0.003)
                self.kill_at_once(wrapper.pid, warden)
                wrapper.end()
                wait_for(lambda: not self.marked(), "nothing is left")
                wait_for(lambda wrapper=wrapper: is_clean(wrapper), what)

    def kill_at_random(self, victims, rounds):
        """In any order."""
        for number in range(rounds):
            with self.subTest(round=number):
                for name in os.listdir(self.folder):
                    os.remove(self.file(name))
                holder = self.start_tree("-T", "3", "-k", "0.2")
                pids = [pid for pid in victims(holder) if pid]
                random.shuffle(pids)
                for pid in pids:
                    # The moment itself is what is varied.
                    time.sleep(random.choice((0, random.uniform(0, 0.3))))
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                wait_for(lambda: not self.marked(), "nothing of the tree lives")
                holder.result()
                self.assert_free()
                wait_for(lambda holder=holder: not cgroups_of(holder.pid), "no cgroup is left")


class Walk(KillTest):
    prefix = without_cgroup()

    def test_both_at_once_the_command_dies_and_what_it_started_goes_on(self):
        """The one thing that no walk can do: nobody is left to do it. The manual says so."""
        holder = self.hold_pair()
        self.kill_at_once(holder.pid, holder.warden())
        wait_for(lambda: not lives(holder.command), "the command is dead")
        self.assert_free()
        self.assertEqual(self.marked(), [holder.left])

    def test_front_stopped_and_warden_killed(self):
        """The manual says so, too."""
        for beyond in (False, True):
            with self.subTest(beyond_the_session=beyond):
                holder = self.hold_pair("-T", "6" if beyond else "20")
                stop(holder.pid)
                os.kill(holder.warden(), signal.SIGKILL)
                wait_for(lambda holder=holder: not lives(holder.command), "the command is dead")
                if beyond:
                    self.assert_free()
                self.assertEqual(self.marked(), [holder.left])
                holder.send_signal(signal.SIGCONT)
                self.assertEqual(holder.end(), 76 if beyond else 125)
                self.assert_nothing_lives()
                self.assert_free()
                os.remove(self.file("left"))

    def test_front_stopped_beyond_the_session_and_then_the_warden_killed(self):
        holder = self.hold_pair("-T", "6")
        warden = holder.warden()
        stop(holder.pid)
        wait_for(lambda: not self.marked(), "the warden has ended the tree")
        os.kill(warden, signal.SIGKILL)
        self.assert_free()
        holder.send_signal(signal.SIGCONT)
        self.assertEqual(holder.end(), 76)

    def test_warden_stopped_and_front_killed(self):
        """Below a subreaper of our session, or the kernel would continue it as an orphaned process group."""
        be_subreaper(1)
        self.addCleanup(be_subreaper, 0)
        holder = self.hold_pair("-T", "6")
        warden = holder.warden()
        stop(holder.pid, warden)
        holder.kill()
        wait_for(lambda: not self.marked(), "nothing of the tree lives")
        wait_for(lambda: not lives(warden), "the warden has ended")
        self.assertIn(b"died", holder.result()[2])
        self.assert_free()

    def test_one_of_them_at_any_time(self):
        self.kill_at_random(lambda holder: [holder.pid], 10 if LONG else 3)
        self.kill_at_random(lambda holder: [holder.warden()], 10 if LONG else 3)

    def test_the_command_itself(self):
        """As when memory runs out: it is the command's own end, and its tree goes with it."""
        holder = self.hold_pair()
        os.kill(holder.command, signal.SIGKILL)
        self.assertEqual(holder.end(), -signal.SIGKILL)
        self.assert_nothing_lives()
        self.assert_free(2)


@unittest.skipIf(own_cgroup() is None, "no cgroup can be made here")
class Cgroup(KillTest):
    def test_both_at_once_nothing_goes_on(self):
        holder = self.hold_pair()
        keeper = holder.keeper()
        self.kill_at_once(holder.pid, holder.warden())
        wait_for(lambda: not self.marked(), "nothing of the tree lives")
        wait_for(lambda: not cgroups_of(holder.pid), "the cgroup is removed")
        wait_for(lambda: not lives(keeper), "the keeper has ended")

    def test_keeper_is_not_taken_by_pkill_of_our_name(self):
        holder = self.hold_pair()
        self.assertEqual(open_text(holder.keeper(), "comm"), "cgroup-keeper\n")
        # Nor by -f and the lock's path, as front and warden are.
        self.assertEqual(open_text(holder.keeper(), "cmdline").rstrip("\0"), "cgroup-keeper")

    def test_keeper_that_is_stopped_goes_on(self):
        """As soon as the front can see to it, and at its death."""
        for number in (signal.SIGCONT, signal.SIGKILL):
            with self.subTest(signal=number):
                holder = self.hold("-T", "5")
                keeper = holder.keeper()
                stop(holder.pid, keeper)
                holder.send_signal(number)
                wait_for(lambda keeper=keeper: state_of(keeper) != "T", "the keeper goes on")
                holder.kill()
                holder.end()
                self.assert_free()

    def test_all_three_at_once_the_command_dies(self):
        holder = self.hold_pair()
        self.kill_at_once(holder.pid, holder.warden(), holder.keeper())
        wait_for(lambda: not lives(holder.command), "the command is dead")
        self.assertEqual(self.marked(), [holder.left])
        os.kill(holder.left, signal.SIGKILL)
        for folder in cgroups_of(holder.pid):
            wait_for(lambda folder=folder: try_rmdir(folder), "the cgroup is empty")

    def test_any_of_them_at_any_time(self):
        """But not all three."""
        self.kill_at_random(front_or_warden_or_both, 20 if LONG else 5)
        self.kill_at_random(lambda holder: [holder.keeper(), random.choice((holder.pid, holder.warden()))],
                            20 if LONG else 4)

    def test_both_at_any_moment_of_the_start(self):
        self.kill_both_at_the_start(lambda wrapper: not cgroups_of(wrapper.pid), "no cgroup is left")


class Namespace(KillTest):
    prefix = without_cgroup()
    options = ("--pidns",)

    def test_both_at_once_nothing_goes_on(self):
        holder = self.hold_pair()
        self.kill_at_once(holder.pid, holder.warden())
        wait_for(lambda: not self.marked(), "nothing of the tree lives")

    def test_any_of_them_at_any_time(self):
        self.kill_at_random(front_or_warden_or_both, 20 if LONG else 6)

    def test_both_at_any_moment_of_the_start(self):
        self.kill_both_at_the_start(lambda _: not self.inits(), "no first process of a namespace is left")

    def inits(self):
        """Of this test's namespaces."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if open_text(pid, "comm") == "zklock-init\n" and self.lock in open_text(pid, "cmdline") and lives(pid)]

    def test_first_process_of_the_namespace(self):
        """The kernel kills the command then, and the rest with it."""
        holder = self.hold_pair()
        init, = self.inits()
        os.kill(init, signal.SIGKILL)
        self.assertEqual(holder.end(), -signal.SIGKILL)
        self.assert_nothing_lives()
        self.assert_free(2)


def stop(*pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda pid=pid: state_of(pid) == "T", "it is stopped")


def be_subreaper(yes):
    ctypes.CDLL(None).prctl(36, yes)


def front_or_warden_or_both(holder):
    return random.sample((holder.pid, holder.warden()), random.randint(1, 2))


def open_text(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def try_rmdir(folder):
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    unittest.main(verbosity=2)
