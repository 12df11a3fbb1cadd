# SPDX-License-Identifier: Apache-2.0
"""Processes of the command that we may not signal: they have become another user, and no cgroup holds them. The lock is not
given away while they live."""

import os
import shutil
import signal
import sys
import unittest

from support import BINARY, CommandTest, read_proc, wait_for, works

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
# Root's, whoever starts it.
ROOTS = '"$SETPRIV" --reuid 0 --regid 0 --clear-groups sleep 1000'


class Stuck(CommandTest):
    prefix = NOBODY

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.setpriv = self.file("setpriv")
        shutil.copy(shutil.which("setpriv"), self.setpriv)
        os.chmod(self.setpriv, 0o4755)
        if not works(*NOBODY, self.setpriv, "--reuid", "0", "true"):
            self.skipTest("set-user-ID programs gain nothing in %s" % self.folder)

    def begin(self, *arguments, script):
        """Returns the holder, and the process that it cannot signal."""
        with open(self.file("said"), "wb") as said:
            holder = self.start(*arguments, self.lock, "--", "sh", "-c", script, env={"SETPRIV": self.setpriv}, stderr=said)
        stuck = wait_for(lambda: self.roots() or (holder.poll() is not None and [0]), "it has become root's")
        self.assertIsNone(holder.poll())
        return holder, stuck[0]

    def roots(self):
        return [pid for pid in self.marked() if read_proc(pid, "cmdline") == b"sleep\x001000\0" and
                b"\nUid:\t0\t0\t" in read_proc(pid, "status")]

    def held_until_it_ends(self, holder, stuck, status, wait_s=0):
        told = wait_for(lambda: self.text("said") or (holder.poll() is not None and "ended"), "it is told")
        self.assert_one_line(told.encode(), "cannot kill 1 of the command's processes, as ", "session is kept alive")
        self.assertEqual(self.call("-w", str(wait_s), self.lock, "--", "true")[0], 75)
        self.assertIsNone(holder.poll())
        self.assertEqual(self.roots(), [stuck])
        os.kill(stuck, signal.SIGKILL)
        self.assertEqual(holder.result()[:2], (status, b""))
        self.assert_free(2)
        return self.text("said")[len(told):].encode()

    def test_left_behind(self):
        """For longer than the session timeout."""
        script = ROOTS + " & while ! grep -q '^Uid:.0.0' /proc/$!/status; do sleep 0.01; done; exit 6"
        holder, stuck = self.begin("-T", "6", script=script)
        self.assertEqual(self.held_until_it_ends(holder, stuck, 6, wait_s=8), b"")

    def test_overdue(self):
        holder, stuck = self.begin("--max-hold", "5s", "-k", "0.2", script="exec " + ROOTS)
        self.assert_one_line(self.held_until_it_ends(holder, stuck, 78), "--max-hold")

    def test_warden_killed(self):
        """The command dies with it, where it may be killed; the front cannot kill it either."""
        holder, stuck = self.begin(script=ROOTS + " & wait")
        os.kill(holder.warden(), signal.SIGKILL)
        self.assert_one_line(self.held_until_it_ends(holder, stuck, 125), "zklock-warden")

    def test_front_killed(self):
        """What nobody can end nobody can hold the lock for: with the front the session ends. What can be killed is."""
        holder, stuck = self.begin("-T", "6", script="sleep 1001 & " + ROOTS + " & wait")
        holder.kill()
        wait_for(lambda: self.marked() == [stuck], "the others are dead")
        self.assert_free()


if __name__ == "__main__":
    if os.geteuid() != 0 or not works(*NOBODY, BINARY, "--version"):
        print("root is needed, and a program that nobody can start")
        sys.exit(77)
    unittest.main(verbosity=2)
