# SPDX-License-Identifier: Apache-2.0
"""The kernel runs out of memory within a limit, and kills the command, the warden or the front."""

import os
import signal
import sys
import unittest
import uuid

from support import CommandTest, Wrapper, cgroup_mount, cgroups_of, wait_for

LIMIT = 64 << 20
# Takes memory, a little at a time, until the kernel has killed something within the limit; then it is quiet. What it takes is
# none of its own size, by which the kernel would choose it. Beside it is a process that it has started.
HUNGRY = r"""
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)
def killed():
    with open(sys.argv[1]) as file:
        return dict(line.split() for line in file)["oom_kill"] != "0"
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[2] + ".go"):
    time.sleep(0.01)
memory, taken = os.memfd_create("memory"), 0
while taken < int(sys.argv[3]) // 2 or not killed():
    taken += os.write(memory, bytes(1 << 14))
while True:
    time.sleep(1)
"""


def controller():
    """Folder, and the names of the files for the limit, for that of swap, and for what was killed; None: there is none."""
    mount = cgroup_mount()
    if mount:
        with open(mount[0] + "/cgroup.controllers", encoding="ascii") as file:
            if "memory" in file.read().split():
                return mount[0], "memory.max", "memory.swap.max", "memory.events"
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for fields in map(str.split, mounts):
            if "memory" in fields[-1].split(",") and "cgroup" in fields:
                return fields[4], "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"
    return None


class OutOfMemory(CommandTest):
    def setUp(self):
        super().setUp()
        root, limit, swap, self.events = controller()
        self.limited = os.path.join(root, "zklock-test-" + uuid.uuid4().hex[:8])
        try:
            os.mkdir(self.limited)
            self.addCleanup(self.remove)
            self.put(limit, LIMIT)
        except OSError as error:
            self.skipTest("no limit can be set: %s" % error)
        if os.path.exists(os.path.join(self.limited, swap)):
            self.put(swap, LIMIT if swap.startswith("memory.memsw") else 0)
        self.prefix = ("sh", "-c", 'echo 0 > "$0/cgroup.procs" && exec "$@"', self.limited)

    def put(self, name, value):
        with open(os.path.join(self.limited, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def remove(self):
        self.kill_marked()
        wait_for(self.try_remove, "the cgroup is empty", 10)

    def try_remove(self):
        try:
            os.rmdir(self.limited)
        except OSError:
            return False
        return True

    def killed_within(self):
        with open(os.path.join(self.limited, self.events), encoding="ascii") as file:
            return int(dict(line.split() for line in file)["oom_kill"])

    def run_out(self, choose):
        """Who has a thousand points more than by its size is the kernel's choice."""
        ready = self.file("ready")
        holder = self.start("-T", "8", self.lock, "--", sys.executable, "-c", HUNGRY, os.path.join(self.limited, self.events),
                            ready, str(LIMIT))
        wait_for(lambda: os.path.exists(ready) or holder.poll() is not None, "the command runs")
        self.assertIsNone(holder.poll())
        victim = choose(holder)
        with open("/proc/%d/oom_score_adj" % victim, "w", encoding="ascii") as file:
            file.write("1000")
        with open(ready + ".go", "w", encoding="ascii"):
            pass
        result = holder.result()
        if holder.pid != victim:
            self.assert_nothing_lives()
        wait_for(lambda: not self.marked(), "nothing of the command lives")
        wait_for(lambda: not cgroups_of(holder.pid), "no cgroup is left")
        self.assertEqual(self.killed_within(), 1)
        return result

    def test_command(self):
        status, out, err = self.run_out(lambda _: min(self.marked()))
        self.assertEqual((status, out, err), (-signal.SIGKILL, b"", b""))
        self.assert_free(2)

    def test_warden(self):
        status, out, err = self.run_out(Wrapper.warden)
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "zklock-warden", "killed")
        self.assert_free(2)

    def test_front(self):
        status, out, err = self.run_out(lambda holder: holder.pid)
        self.assertEqual((status, out), (-signal.SIGKILL, b""))
        self.assertIn(b"died", err)
        self.assert_free()


if __name__ == "__main__":
    if os.geteuid() != 0 or controller() is None:
        print("root is needed, and cgroups that limit memory")
        sys.exit(77)
    unittest.main(verbosity=2)
