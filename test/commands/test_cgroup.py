# SPDX-License-Identifier: Apache-2.0
"""The command's cgroup: whom it holds together, what is left of it, and what happens where it cannot be had."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest
import uuid

from support import BINARY, CommandTest, cgroup_mount, cgroups_of, lives, own_cgroup, wait_for, works

WALK = "the command's tree: process walk, since "


class CgroupTest(CommandTest):
    def told(self, *arguments, status=0, **options):
        """What -v says of how the tree is found."""
        ended, _, err = self.call("-v", *arguments, self.lock, "--", "true", **options)
        self.assertEqual(ended, status, err)
        return re.search("the command's tree: .*", err.decode()).group(0)

    def outer_cgroup(self):
        """One in which zklock-run itself shall run."""
        folder = os.path.join(own_cgroup(), "zklock-test-" + uuid.uuid4().hex[:8])
        os.mkdir(folder)
        self.addCleanup(os.rmdir, folder)
        return folder


class Used(CgroupTest):
    def test_holds_the_command_and_is_removed(self):
        holder = self.hold("-v")
        folder, = cgroups_of(holder.pid)
        with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as procs:
            self.assertEqual(int(procs.read()), holder.command)
        holder.terminate()
        status, _, err = holder.result()
        self.assertEqual(status, -signal.SIGTERM)
        self.assertIn("the command's tree: cgroup %s\n" % folder, err.decode())
        self.assertEqual(cgroups_of(holder.pid), [])

    def test_nothing_is_made_by_who_waits_or_cannot_execute(self):
        self.hold()
        waiter = self.queue()
        self.assertEqual(cgroups_of(waiter.pid), [])
        other = self.start(self.lock + "-other", "--", "/no/such/command")
        self.assertEqual(other.end(), 127)
        self.assertEqual(cgroups_of(other.pid), [])

    def test_who_is_nobodys_descendant_is_ended_before_the_release(self):
        """As one that a daemon outside has put in: no walk from the warden finds it."""
        ready = self.file("heard")
        deaf = 'trap \'echo heard >> "$0"\' TERM; touch "$0"; while :; do sleep 0.05; done'
        holder = self.hold("-k", "2.5")
        other = subprocess.Popen(["sh", "-c", deaf, ready], env=self.environment())
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        wait_for(lambda: os.path.exists(ready), "it runs")
        folder, = cgroups_of(holder.pid)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as procs:
            procs.write(str(other.pid))
        holder.terminate()
        self.assertEqual(holder.end(), -signal.SIGTERM)
        self.assertEqual(other.wait(1), -signal.SIGKILL)
        # It heard TERM, and once.
        self.assertEqual(self.text("heard"), "heard\n")
        self.assertEqual(cgroups_of(holder.pid), [])

    def test_who_moves_out_is_ended_too(self):
        script = 'setsid sh -c \'trap "" TERM; echo 0 > "$0/cgroup.procs"; touch "$1"; while :; do sleep 1000; done\' ' \
                 '"$0" "$1" & while [ ! -e "$1" ]; do sleep 0.01; done'
        status, _, err = self.call("-k", "0.1", self.lock, "--", "sh", "-c", script, own_cgroup(), self.file("ready"))
        self.assertEqual((status, err), (0, b""))
        self.assert_nothing_lives()

    def test_cgroups_of_the_command_go_with_it(self):
        script = 'here=$(sed -n "s|^0::.*/||p" /proc/self/cgroup); cd "$0/$here"; mkdir -p a/b c; ' \
                 'setsid sh -c \'echo 0 > a/b/cgroup.procs; touch "$0"; trap "" TERM; while :; do sleep 1000; done\' "$1" & ' \
                 'while [ ! -e "$1" ]; do sleep 0.01; done'
        wrapper = self.start("-k", "0.1", self.lock, "--", "sh", "-c", script, own_cgroup(), self.file("ready"))
        self.assertEqual(wrapper.result(), (0, b"", b""))
        self.assert_nothing_lives()
        self.assertEqual(cgroups_of(wrapper.pid), [])

    def test_each_command_of_a_leader_has_one(self):
        script = 'sed -n "s|^0::.*/||p" /proc/self/cgroup >> "$0"; setsid sleep 1000 &'
        wrapper = self.start("--leader", "-k", "0.1", self.lock, "--", "sh", "-c", script, self.file("names"))
        wait_for(lambda: len(self.text("names").splitlines()) >= 3, "it was elected again and again")
        wrapper.terminate()
        wrapper.end()
        for name in self.text("names").splitlines():
            self.assertTrue(name.startswith("zklock-run-%d-" % wrapper.pid), name)
        self.assert_nothing_lives()
        self.assertEqual(cgroups_of(wrapper.pid), [])

    def test_survivor_removes_it(self):
        for victim in ("front", "warden", "keeper"):
            with self.subTest(killed=victim):
                holder = self.hold("-T", "4")
                pids = {"front": holder.pid, "warden": holder.warden(), "keeper": holder.keeper()}
                os.kill(pids[victim], signal.SIGKILL)
                if victim == "keeper":
                    holder.terminate()
                holder.end()
                wait_for(lambda holder=holder: not cgroups_of(holder.pid), "it is removed")
                for pid in pids.values():
                    wait_for(lambda pid=pid: not lives(pid), "none of ours is left")
                self.assert_nothing_lives()
                self.assert_free()

    def test_within_another_lock(self):
        inner = (BINARY, self.lock + "-inner", "--", "sh", "-c", "setsid sleep 1000 & exit 5")
        wrapper = self.start(self.lock, "--", *inner)
        self.assertEqual(wrapper.result(), (5, b"", b""))
        self.assert_nothing_lives()
        self.assertEqual(cgroups_of(wrapper.pid), [])


    def test_release_does_not_wait_until_it_is_removed(self):
        """Cgroups that are nested deeper than anybody looks keep it from being removed, which is tried for 200 ms."""
        script = 'here=$(sed -n "s|^0::.*/||p" /proc/self/cgroup); mkdir -p "$0/$here/$1"'

        def release_takes():
            holder = self.start(self.lock, "--", "sh", "-c", script, own_cgroup(), "/".join("a" * 70))
            wait_for(lambda: cgroups_of(holder.pid) and not self.marked() or holder.poll() is not None, "the command ended")
            began = time.monotonic()
            self.assert_free()
            took = time.monotonic() - began
            self.assertEqual(holder.result(), (0, b"", b""))
            for folder, _, _ in os.walk(*cgroups_of(holder.pid), topdown=False):
                os.rmdir(folder)
            return took
        # At least once on a machine as busy as this.
        wait_for(lambda: release_takes() < 0.1, "the release comes first")


class Frozen(CgroupTest):
    @staticmethod
    def freeze(holder):
        """Returns what thaws it."""
        folder, = cgroups_of(holder.pid)

        def write(value):
            with open(os.path.join(folder, "cgroup.freeze"), "w", encoding="ascii") as file:
                file.write(value)

        def is_frozen():
            with open(os.path.join(folder, "cgroup.events"), encoding="ascii") as file:
                return "frozen 1" in file.read()
        write("1")
        wait_for(is_frozen, "it is frozen")
        return lambda: write("0")

    def test_is_ended_when_the_lock_is_lost(self):
        holder = self.hold("-k", "0.2")
        self.freeze(holder)
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assert_nothing_lives()
        self.assertEqual(cgroups_of(holder.pid), [])

    def test_signal_that_has_no_effect_is_told_of(self):
        ready = self.file("traps")
        holder = self.hold(command=("sh", "-c", 'exec 2>&-; trap "exit 4" TERM; trap "" USR1; touch "$0"; while :; do sleep 0.05; done', ready))
        wait_for(lambda: os.path.exists(ready), "it handles signals")
        thaw = self.freeze(holder)
        folder, = cgroups_of(holder.pid)
        holder.send_signal(signal.SIGUSR1)
        holder.terminate()
        wait_for(lambda: select.select([holder.stderr], [], [], 0)[0], "a line is said")
        thaw()
        status, _, err = holder.result()
        self.assertEqual(status, 4)
        self.assert_one_line(err, "the command's cgroup %s is frozen" % folder)


class NotToBeHad(CgroupTest):
    def run_in(self, script, *arguments):
        self.prefix = ("unshare", "--mount", "sh", "-c", script + ' && exec "$@"', *arguments)

    def test_not_mounted(self):
        self.run_in('umount "$0"', cgroup_mount()[0])
        self.assertEqual(self.told(), WALK + "no cgroup v2 is mounted")

    def test_read_only(self):
        self.run_in('mount -o remount,bind,ro "$0"', cgroup_mount()[0])
        self.assertEqual(self.told(), WALK + "no cgroup can be made in %s: Read-only file system" % own_cgroup())

    def test_threaded(self):
        folder = self.outer_cgroup()
        inner = os.path.join(folder, "threads")
        os.mkdir(inner)
        self.addCleanup(os.rmdir, inner)
        with open(os.path.join(inner, "cgroup.type"), "w", encoding="ascii") as file:
            file.write("threaded")
        script = 'import os, sys\n' \
                 'open(sys.argv[1] + "/cgroup.procs", "w").write("0")\n' \
                 'open(sys.argv[2] + "/cgroup.threads", "w").write("0")\n' \
                 'os.execvp(sys.argv[3], sys.argv[3:])\n'
        self.prefix = (sys.executable, "-c", script, folder, inner)
        self.assertEqual(self.told(), WALK + "no cgroup can be made in %s: Operation not supported" % inner)

    def test_silent_without_verbose(self):
        self.run_in('umount "$0"', cgroup_mount()[0])
        self.assertEqual(self.call(self.lock, "--", "sh", "-c", "setsid sleep 1000 & exit 2"), (2, b"", b""))
        self.assert_nothing_lives()

    def test_without_permission(self):
        self.prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        if not works(*self.prefix, BINARY, "--version"):
            self.skipTest("%s cannot be executed by nobody" % BINARY)
        self.assertEqual(self.told(), WALK + "no cgroup can be made in %s: Permission denied" % own_cgroup())


class Delegated(CgroupTest):
    """As a user's systemd does it: the folder and some of its files belong to somebody who is not root."""

    def setUp(self):
        super().setUp()
        self.outer = self.outer_cgroup()
        for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(os.path.join(self.outer, name), 65534, 65534)
        os.chmod(self.folder, 0o777)
        self.prefix = ("sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
                       self.outer)
        if not works("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", BINARY, "--version"):
            self.skipTest("%s cannot be executed by nobody" % BINARY)

    def test_process_that_has_become_another_user_is_ended_too(self):
        """Nobody may signal root, but may write to the cgroup's cgroup.kill."""
        setpriv = self.file("setpriv")
        shutil.copy(shutil.which("setpriv"), setpriv)
        os.chmod(setpriv, 0o4755)
        wrapper = self.start("-v", "-k", "0.1", self.lock, "--", "sh", "-c",
                             'setsid "$0" --reuid 0 --regid 0 --clear-groups sleep 1000 & '
                             'while ! grep -q "^Uid:.0.0" /proc/$!/status; do sleep 0.01; done; exit 6',
                             setpriv)
        status, _, err = wrapper.result()
        self.assertEqual(status, 6)
        self.assertIn("the command's tree: cgroup %s/" % self.outer, err.decode())
        self.assert_nothing_lives()
        self.assertEqual([each for each in os.listdir(self.outer) if each.startswith("zklock")], [])


if __name__ == "__main__":
    if os.geteuid() != 0 or own_cgroup() is None or not works("unshare", "--mount", "true"):
        print("root is needed, and a cgroup v2 below which others can be made")
        sys.exit(77)
    unittest.main(verbosity=2)
