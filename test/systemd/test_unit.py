# SPDX-License-Identifier: Apache-2.0
"""The example's systemd unit, under a real systemd: who leads is what `systemctl status` says, and stopping the unit resigns.

The systemd is that of a container which shares this machine's network; the other candidate runs on this machine and tells
its status to a socket of ours.

ZKLOCK_LEADER_RUN, ZKLOCK_LIBRARY    the example, and the library that it is linked to"""

import os
import signal
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]
# pylint: disable=wrong-import-position
import image
import support
from support import PATIENCE, SERVERS, wait_for

EXAMPLE = os.environ["ZKLOCK_LEADER_RUN"]
LIBRARY = os.path.realpath(os.environ["ZKLOCK_LIBRARY"])
UNIT = os.path.join(HERE, "..", "..", "examples", "leader_run.service")


def docker(*words):
    return subprocess.run(["docker", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          check=False)


class Machine:
    """A container that has booted systemd."""

    def __init__(self, name):
        self.name = name
        booted = docker("run", "--detach", "--rm", "--name", name, "--network", "host", "--cap-add", "SYS_ADMIN",
                        "--security-opt", "seccomp=unconfined", "--tmpfs", "/run", "--tmpfs", "/run/lock",
                        image.find_peers(), "/lib/systemd/systemd")
        if booted.returncode:
            raise AssertionError(booted.stdout)

    def run(self, *words):
        done = docker("exec", self.name, *words)
        return done.returncode, done.stdout.strip()

    def must(self, *words):
        status, out = self.run(*words)
        if status:
            raise AssertionError("%s: status %d, %s" % (" ".join(words), status, out))
        return out

    def copy(self, source, target):
        done = docker("cp", "--follow-link", source, "%s:%s" % (self.name, target))
        if done.returncode:
            raise AssertionError(done.stdout)

    def show(self, unit, name):
        return self.must("systemctl", "show", "--property", name, "--value", unit)

    def remove(self):
        docker("rm", "--force", self.name)


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


class UnitTest(support.CommandTest):
    def setUp(self):
        super().setUp()
        self.machine = Machine("zklock-systemd-%d-%s" % (os.getpid(), self.mark[:8]))
        self.addCleanup(self.machine.remove)
        wait_for(lambda: self.machine.run("systemctl", "is-system-running")[1] in ("running", "degraded"), "it has booted")
        with open(UNIT, encoding="utf-8") as unit:
            text = unit.read().replace("/elections/job", self.lock)
        with open(self.file("leader_run.service"), "w", encoding="utf-8") as unit:
            unit.write(text)
        with open(self.file("zklock.conf"), "w", encoding="utf-8") as conf:
            conf.write("ZKLOCK_SERVERS=%s\n" % SERVERS)
        self.machine.copy(self.file("leader_run.service"), "/etc/systemd/system/")
        self.machine.copy(self.file("zklock.conf"), "/etc/")
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
    # The peers' image has a systemd; it is had where the servers are containers, too.
    if os.environ.get("ZKLOCK_TEST_BACKEND") == "process":
        print("a container engine is needed")
        sys.exit(77)
    unittest.main(verbosity=2)
