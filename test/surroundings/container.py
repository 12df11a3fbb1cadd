# SPDX-License-Identifier: Apache-2.0
"""Containers that share this machine's network, with the commands in /usr/local/bin and the servers in /etc/zklock.conf.

ZKLOCK_RUN, ZKLOCK_TEST_SERVERS    as for the tests of the commands"""

import io
import os
import subprocess
import sys
import tarfile
import uuid

HERE = os.path.dirname(os.path.realpath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]
# pylint: disable=wrong-import-position,unused-import
import image
import zkwire
from support import BINARY, PATIENCE, SERVERS, CommandTest, wait_for


def skip_without_engine():
    """The peers' image has what is needed; it is had where the servers are containers, too."""
    if os.environ.get("ZKLOCK_TEST_BACKEND") == "process":
        print("these run in containers, and ZKLOCK_TEST_BACKEND is process")
        sys.exit(77)


def docker(*words, **options):
    return subprocess.run(["docker", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False, **options)


class Container:
    """Made, not started: then run() etc. work once start() was called."""

    def __init__(self, command, *options):
        self.name = "zklock-surroundings-%d-%s" % (os.getpid(), uuid.uuid4().hex[:8])
        made = docker("create", "--name", self.name, "--network", "host", *options, image.find_peers(), *command)
        if made.returncode:
            raise AssertionError(made.stdout)
        self.copy(BINARY, "/usr/local/bin/zklock-run")
        self.write("/etc/zklock.conf", "ZKLOCK_SERVERS=%s\n" % SERVERS)

    def start(self):
        started = docker("start", self.name)
        if started.returncode:
            raise AssertionError(started.stdout)

    def run(self, *words):
        done = docker("exec", self.name, *words)
        return done.returncode, done.stdout.decode(errors="replace").strip()

    def must(self, *words):
        status, out = self.run(*words)
        if status:
            raise AssertionError("%s: status %d, %s; the container's output: %s" % (
                " ".join(words), status, out, docker("logs", self.name).stdout.decode(errors="replace")))
        return out

    def warden(self, front):
        """The child of this zklock-run that is the command's parent."""
        return self.must("sh", "-c", "for each in $(cat /proc/%s/task/%s/children); do "
                         "! grep -q zklock-warden /proc/$each/comm || echo $each; done" % (front, front))

    def text(self, name):
        status, out = self.run("cat", name)
        return out if status == 0 else ""

    def copy(self, source, target):
        done = docker("cp", "--follow-link", source, "%s:%s" % (self.name, target))
        if done.returncode:
            raise AssertionError(done.stdout)

    def write(self, target, text, mode=0o644):
        """A file of root's."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo(os.path.basename(target))
            entry.mode, entry.size = mode, len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
        done = docker("cp", "-", "%s:%s" % (self.name, os.path.dirname(target)), input=archive.getvalue())
        if done.returncode:
            raise AssertionError(done.stdout)

    def remove(self):
        docker("rm", "--force", self.name)


class Machine(Container):
    """A container that has booted systemd."""

    def __init__(self):
        super().__init__(["/lib/systemd/systemd"], "--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined",
                         "--tmpfs", "/run", "--tmpfs", "/run/lock")
        try:
            self.start()
            wait_for(lambda: self.run("systemctl", "is-system-running")[1] in ("running", "degraded"), "it has booted")
        except BaseException:
            self.remove()
            raise

    def show(self, unit, name):
        return self.must("systemctl", "show", "--property", name, "--value", unit)
