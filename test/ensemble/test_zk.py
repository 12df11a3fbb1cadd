#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The ensembles that tests and people are given: up, down, side by side; and that nothing is left of one, however it ends."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "commands")]

# pylint: disable=wrong-import-position
from ensemble import folder_of, free_ports
from support import ZK, TidyTest, wait_for

BACKEND = subprocess.run([ZK, "backend"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
PATIENCE_S = 240


def setUpModule():
    """Where nobody else looks for what a killed owner has left."""
    folder = tempfile.TemporaryDirectory(prefix="zklock-test-")
    unittest.addModuleCleanup(folder.cleanup)
    os.environ["XDG_RUNTIME_DIR"] = folder.name


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def left_of(name):
    """What can be seen of an ensemble."""
    left = [folder_of(name)] if os.path.exists(folder_of(name)) else []
    if BACKEND == "compose":
        for kind in ("container ls --all", "volume ls", "network ls"):
            left += subprocess.run(["docker", *kind.split(), "--quiet", "--filter",
                                    "label=com.docker.compose.project=zklock-" + name],
                                   stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    else:
        left += subprocess.run(["pgrep", "-f", folder_of(name) + "/"], stdout=subprocess.PIPE, text=True,
                               check=False).stdout.split()
    return left


class Named(TidyTest):
    """An ensemble that is brought up and left."""

    def zk(self, name, *words, port=None):
        env = dict(os.environ, ZKLOCK_ENSEMBLE=name, **({"ZKLOCK_TEST_PORT": str(port)} if port else {}))
        done = subprocess.run([ZK, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def test_up_side_by_side_and_down(self):
        names = ["test-%d-%s" % (os.getpid(), which) for which in "ab"]
        ports = free_ports(2)
        for name in names:
            self.addCleanup(self.zk, name, "down")
        for name, port in zip(names, ports):
            status, _, said = self.zk(name, "up", "1", port=port)
            self.assertEqual(status, 0, said)
        for name, port in zip(names, ports):
            self.assertEqual(self.zk(name, "hosts"), (0, "127.0.0.1:%d" % port, ""))
            self.assertEqual(self.zk(name, "status"), (0, "1 127.0.0.1:%d standalone" % port, ""))
        status, _, said = self.zk(names[0], "up", "1", port=ports[0])
        self.assertEqual((status, "up already" in said), (0, True), said)
        self.assertEqual(self.zk(names[0], "down"), (0, "", ""))
        self.assertEqual(left_of(names[0]), [])
        self.assertFalse(listens(ports[0]))
        self.assertTrue(listens(ports[1]), "the other one serves on")
        self.assertEqual(self.zk(names[0], "down"), (0, "", ""))
        status, _, said = self.zk(names[0], "hosts")
        self.assertEqual((status, names[0] in said), (1, True), said)


class Run(TidyTest):
    """An ensemble for one command."""

    def start(self):
        zk = subprocess.Popen([ZK, "run", "1", "--", "sh", "-c", "echo $ZKLOCK_ENSEMBLE; exec sleep 1000"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(zk.stdout.close)
        self.addCleanup(zk.wait, PATIENCE_S)
        self.addCleanup(zk.terminate)
        return zk

    def name_of(self, zk):
        """As soon as its folder is there."""
        prefix = os.path.basename(folder_of("run-%d-x" % zk.pid))[:-1]
        folder = os.path.dirname(folder_of("x"))
        found = []

        def look():
            found[:] = [each for each in os.listdir(folder) if each.startswith(prefix)]
            return found
        wait_for(look, "it is brought up", PATIENCE_S)
        return found[0].removeprefix("zklock-")

    def test_is_gone_when_it_is_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                zk = self.start()
                name = zk.stdout.readline().strip()
                self.assertNotEqual(left_of(name), [])
                zk.send_signal(number)
                self.assertEqual(zk.wait(PATIENCE_S), 128 + number)
                self.assertEqual(left_of(name), [])

    def test_is_gone_when_it_is_interrupted_on_its_way_up(self):
        for delay_s in (0, 0.5, 1.5):
            with self.subTest(delay_s=delay_s):
                zk = self.start()
                name = self.name_of(zk)
                # The moment itself is what is varied.
                time.sleep(delay_s)
                zk.send_signal(signal.SIGINT)
                self.assertEqual(zk.wait(PATIENCE_S), 128 + signal.SIGINT)
                self.assertEqual(left_of(name), [])

    def test_that_of_a_killed_owner_goes_with_the_next_one(self):
        zk = self.start()
        name = zk.stdout.readline().strip()
        zk.kill()
        zk.wait()
        self.assertNotEqual(left_of(name), [])
        subprocess.run([ZK, "run", "1", "--", "true"], stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        self.assertEqual(left_of(name), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
