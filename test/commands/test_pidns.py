# SPDX-License-Identifier: Apache-2.0
"""--pidns: as without it, but for what the command sees of others, and that nothing outlives us."""

import os
import select
import signal
import subprocess
import sys
import unittest

import test_status
import test_terminal
import test_tree
from support import BINARY, CommandTest, lives, state_of, wait_for, works


class AsWithout:
    """The tests of what does not change."""
    options = ("--pidns",)


class Status(AsWithout, test_status.TheCommandsOwn):
    pass


class Terminal(AsWithout, test_terminal.Terminal):
    pass


class DiesTraced(AsWithout, test_tree.TracedTest):
    def test_lock_is_held_until_its_tracer_takes_note(self):
        """The first process of the namespace waits for that in the kernel."""
        holder = self.hold_traced("-k", "0.1")
        self.go()
        wait_for(lambda: select.select([holder.stderr], [], [], 0)[0], "a line is said")
        self.assertIn(b"cannot kill 1 of the command's processes", os.read(holder.stderr.fileno(), 4096))
        self.assertEqual(len(self.nodes()), 1)
        self.let_go(holder.command)
        self.assertEqual(holder.end(), 5)
        self.assert_free(2)


class Namespace(AsWithout, CommandTest):
    def test_command_sees_its_own_processes_only(self):
        status, out, err = self.call(self.lock, "--", "sh", "-c", "sleep 1000 & echo $$ $PPID /proc/[0-9]* && cat /proc/1/comm")
        self.assertEqual((status, err), (0, b""))
        first, second = out.decode().splitlines()
        self.assertEqual((first, second), ("2 0 /proc/1 /proc/2 /proc/3", "zklock-init"))

    def test_proc_is_mounted_for_the_command_alone(self):
        # Where mounts are shared, as systemd has them, one in a copy of the namespace is one in the original.
        if works("unshare", "--mount", "--propagation", "shared", "true"):
            self.prefix = ("unshare", "--mount", "--propagation", "shared")
        holder = self.hold()
        self.assertEqual(proc_mounts(holder.pid), proc_mounts("self"))
        self.assertEqual(proc_mounts(holder.command), proc_mounts("self") + 1)

    def test_signals_reach_the_command_and_not_the_first_process(self):
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            with self.subTest(signal=number):
                holder = self.hold()
                self.assertEqual(os.getpgid(holder.command), holder.command)
                holder.send_signal(number)
                self.assertEqual(holder.result(), (-number, b"", b""))
                self.assertFalse(lives(holder.command))

    def test_stopped_command_is_continued(self):
        holder = self.hold()
        os.kill(holder.command, signal.SIGSTOP)
        wait_for(lambda: state_of(holder.command) == "T", "it is stopped")
        holder.send_signal(signal.SIGCONT)
        wait_for(lambda: state_of(holder.command) == "S", "it goes on")
        holder.terminate()
        self.assertEqual(holder.end(), -signal.SIGTERM)

    def test_no_grace_is_waited_for_when_nothing_is_left(self):
        status, _, err = self.call("-v", self.lock, "--", "true")
        self.assertEqual((status, b"TERM" in err), (0, False), err)
        status, _, err = self.call("-v", self.lock, "--", "sh", "-c", "(sleep 1000 & sleep 1000 & sleep 1000) & exit 3")
        self.assertEqual((status, b"sending TERM" in err, b"sending KILL" in err), (3, True, False), err)
        self.assert_nothing_lives()

    def test_first_process_that_is_stopped_goes_on(self):
        holder = self.hold("-v")
        init = int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(holder.warden())], text=True).split()[0])
        self.assertNotEqual(init, holder.command)
        # The front first: it continues the warden, and the warden this one.
        pids = (holder.pid, holder.warden(), init)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda pid=pid: state_of(pid) == "T", "it is stopped")
        holder.send_signal(signal.SIGCONT)
        wait_for(lambda: state_of(init) == "S", "it goes on")
        # It is remembered, so that nothing is left with the command.
        holder.terminate()
        status, _, err = holder.result()
        self.assertEqual((status, b"sending TERM" in err), (-signal.SIGTERM, False), err)

    def test_nested_in_itself(self):
        for inner in ((), self.options):
            status, _, err = self.call(self.lock, "--", BINARY, *inner, self.lock, "--", "true")
            self.assertEqual(status, 64)
            self.assert_one_line(err, "under the same lock already")

    def test_nested_in_another_one_within_the_outermost(self):
        """From the inner namespace neither warden is seen."""
        status, _, err = self.call(self.lock, "--", BINARY, "--pidns", self.lock + "-inner", "--", BINARY, self.lock, "true")
        self.assertEqual(status, 64)
        self.assert_one_line(err, "under the same lock already")

    def test_another_lock_inside_is_fine(self):
        status, out, err = self.call(self.lock, "--", BINARY, "--pidns", self.lock + "-inner", "--", "echo", "in")
        self.assertEqual((status, out, err), (0, b"in\n", b""))

    def test_closed_standard_descriptors(self):
        script = '"$@" <&- >&- 2>&-'
        done = subprocess.run(["sh", "-c", script, "sh", BINARY, *self.options, self.lock, "--", "sh", "-c", "exit 5"],
                              env=self.environment(), check=False)
        self.assertEqual(done.returncode, 5)

    def test_no_descriptor_of_ours(self):
        status, out, err = self.call(self.lock, "--", sys.executable, "-c",
                                     "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])")
        self.assertEqual((status, out, err), (0, b"[0, 1, 2]\n", b""))


class Unprivileged(AsWithout, CommandTest):
    prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups") if os.geteuid() == 0 else ()

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        if not works(*self.prefix, BINARY, "--version"):
            self.skipTest("%s cannot be executed by nobody" % BINARY)
        if not works(*self.prefix, "unshare", "--user", "--pid", "--fork", "--mount-proc", "true"):
            self.skipTest("this kernel gives no user namespaces")

    def test_user_and_files_stay_what_they_are(self):
        status, out, err = self.call(self.lock, "--", "sh", "-c", 'id -u; id -g; umask 077; touch "$0"', self.file("made"))
        self.assertEqual((status, err), (0, b""))
        made = os.stat(self.file("made"))
        self.assertEqual(out.decode().split(), [str(made.st_uid), str(made.st_gid)])

    def test_command_gets_no_privilege(self):
        status, out, _ = self.call(self.lock, "--", "grep", "^Cap[PE]", "/proc/self/status")
        self.assertEqual((status, set(out.split()[1::2])), (0, {b"0" * 16}))

    def test_leftovers_are_ended(self):
        deaf = "trap '' TERM; while :; do sleep 1000; done"
        self.assertEqual(self.call("-k", "0.1", self.lock, "--", "sh", "-c", 'setsid sh -c "$0" & exit 4', deaf),
                         (4, b"", b""))
        self.assert_nothing_lives()

    def test_killed_both_at_once(self):
        holder = self.hold(command=("sh", "-c", "setsid sleep 1000 & exec sleep 1000"))
        wait_for(lambda: len(self.marked()) == 2, "both run")
        self.kill_at_once(holder.pid, holder.warden())
        wait_for(lambda: not self.marked(), "nothing of the tree lives")


class NotPermitted(AsWithout, CommandTest):
    # Root in a user namespace that may have no other below it, without a capability.
    prefix = ("unshare", "--user", "--map-root-user", "sh", "-c",
              'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all --inh-caps -all "$@"', "sh")

    def test_one_line_and_nothing_is_started(self):
        if not works(*self.prefix, "true"):
            self.skipTest("this kernel gives no user namespaces")
        status, out, err = self.call(self.lock, "--", "touch", self.file("ran"))
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "--pidns: cannot make a PID namespace: ", "be root, or permit user namespaces")
        self.assertFalse(os.path.exists(self.file("ran")))
        self.assertEqual(self.nodes(), [])

    def test_it_is_told_before_anything_is_waited_for(self):
        if not works(*self.prefix, "true"):
            self.skipTest("this kernel gives no user namespaces")
        self.options = ()
        prefix, self.prefix = self.prefix, ()
        self.hold()
        self.prefix = prefix
        self.assertEqual(self.call("--pidns", self.lock, "--", "true")[0], 125)


def proc_mounts(pid):
    """How many of them are on /proc."""
    with open("/proc/%s/mounts" % pid, encoding="utf-8") as file:
        return [line.split()[1] for line in file].count("/proc")


if __name__ == "__main__":
    if not works("unshare", "--pid", "--fork", "--mount-proc", "true") and \
       not works("unshare", "--user", "--pid", "--fork", "--mount-proc", "true"):
        print("no PID namespace can be made here")
        sys.exit(77)
    unittest.main(verbosity=2)
