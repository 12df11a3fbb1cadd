# SPDX-License-Identifier: Apache-2.0
"""The example's systemd unit, under a real systemd: who leads is what `systemctl status` says, and stopping the unit resigns.

The systemd is that of a container which shares this machine's network; the other candidate runs on this machine and tells
its status to a socket of ours.

ZKLOCK_LEADER_RUN, ZKLOCK_LIBRARY    the example, and the library that it is linked to"""

import os
import signal
import socket
import subprocess
import unittest

import container
from container import PATIENCE, SERVERS, wait_for

EXAMPLE = os.environ["ZKLOCK_LEADER_RUN"]
LIBRARY = os.path.realpath(os.environ["ZKLOCK_LIBRARY"])
UNIT = os.path.join(container.EXAMPLES, "leader_run.service")


class Standby:
    """The example on this machine, with ourselves for systemd."""

    def __init__(self, folder, path):
        address = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)
        self.status = ""
        self.process = subprocess.Popen([EXAMPLE, SERVERS, path], env=dict(os.environ, NOTIFY_SOCKET=address),
                                        stdout=subprocess.DEVNULL)

    def says(self, text):
        while True:
            try:
                lines = self.socket.recv(4096).decode().split("\n")
            except BlockingIOError:
                return text in self.status
            self.status = ([line[7:] for line in lines if line.startswith("STATUS=")] or [self.status])[-1]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.socket.close()


class UnitTest(container.CommandTest):
    def setUp(self):
        super().setUp()
        self.machine = container.Machine()
        self.addCleanup(self.machine.remove)
        with open(UNIT, encoding="utf-8") as unit:
            self.machine.write("/etc/systemd/system/leader_run.service", unit.read().replace("/elections/job", self.lock))
        self.machine.copy(EXAMPLE, "/usr/local/bin/leader_run")
        self.machine.copy(LIBRARY, "/usr/local/lib/libzklock.so.0")
        self.machine.must("ldconfig")

    def status(self):
        return self.machine.show("leader_run", "StatusText")

    def test_status_tells_who_leads_and_stop_resigns(self):
        self.assertEqual(self.machine.must("systemd-analyze", "verify", "/etc/systemd/system/leader_run.service"), "")
        self.machine.must("systemctl", "start", "leader_run")
        wait_for(lambda: self.status() == "leading, epoch 0", "the unit leads")
        self.assertEqual(self.machine.show("leader_run", "ActiveState"), "active")
        standby = Standby(self.folder, self.lock)
        self.addCleanup(standby.end)
        wait_for(lambda: standby.says("standby, at most 1 before us"), "the other one waits")
        self.machine.must("systemctl", "stop", "leader_run")
        wait_for(lambda: standby.says("leading, epoch 1"), "the other one leads")
        self.assertEqual(self.machine.show("leader_run", "ActiveState"), "inactive")
        self.assertEqual(self.machine.show("leader_run", "Result"), "success")
        self.machine.must("systemctl", "start", "leader_run")
        wait_for(lambda: self.status() == "standby, at most 1 before us", "the unit waits")
        standby.process.send_signal(signal.SIGTERM)
        self.assertEqual(standby.process.wait(PATIENCE), 0)
        wait_for(lambda: self.status() == "leading, epoch 2", "the unit leads again")
        # Killed, it is started again by systemd, and leads once its old session has ended.
        self.machine.must("systemctl", "kill", "--signal=KILL", "leader_run")
        wait_for(lambda: self.status() == "leading, epoch 3", "it leads after a crash")
        self.machine.must("systemctl", "stop", "leader_run")
        self.assert_free()


if __name__ == "__main__":
    container.skip_without_engine()
    unittest.main(verbosity=2)
