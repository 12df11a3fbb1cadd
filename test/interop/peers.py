# SPDX-License-Identifier: Apache-2.0
"""The contenders of the interoperation tests: how they are started, told what to do, heard, and killed.

ZKLOCK_PEER          our contender, zklock_peer
ZKLOCK_PEER_NAIVE    the same on a library that takes reads for proofs, to see tests fail
ZKLOCK_PEER_CLASSES  where CuratorPeer.class is

All are started with the same arguments, take the same commands as lines and answer in lines (NS: when, by CLOCK_MONOTONIC):

    ready PID                                     first of all, once it is connected (zklock: at once)
    grants MS                                     goes on getting it, using it for up to MS, letting go; no answer
    stop         -> stopped                       after the grant under way
    intrude      -> intruding                     uses what the grants are for, without one
    quit                                          ends the session and the process
    failed WHAT, overlap SEQUENCE TOKEN           at any time; the process has ended

    acquire      -> held SEQUENCE TOKEN NS        of locks; kazoo: or raised EXCEPTION
    release      -> released
    participants -> participants N
    holder       -> holder ID

    start        -> started                       of elections
    close        -> closed
    participants -> participants ID...            Curator
    leader       -> leader ID                     zklock: and epoch, and how many wait
    elected SEQUENCE TOKEN NS, deposed NS         at any time

    watch        -> no NS                         zklock: once check() has said no: the last yes
    beats N      -> beaten                        zklock: after N heartbeats

A peer of this machine runs the distribution's Curator or kazoo; one of trixie is the same program in a container with
trixie's, which shares this machine's network, processes and the test's folder."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]
# pylint: disable=wrong-import-position
import image
from support import PATIENCE, SERVERS, lives, state_of, wait_for

# A container with a JVM in it on a machine that runs many; they are ready within two seconds elsewhere.
START_S = 120
JARS = "/usr/share/java/"
# A compiler that starts fast, a small heap, and no file left behind by a kill.
JAVA = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp"]
# The other jars are named in Curator's own manifest.
CLASS_PATH = ":".join((os.environ["ZKLOCK_PEER_CLASSES"], JARS + "curator-recipes.jar", JARS + "slf4j-nop.jar"))
PROGRAMS = {
    "zklock": [os.environ["ZKLOCK_PEER"]],
    "naive": [os.environ["ZKLOCK_PEER_NAIVE"]],
    "curator": JAVA + [CLASS_PATH, "CuratorPeer"],
    # The distribution's Python, which is the one that has its kazoo.
    "kazoo": ["/usr/bin/python3", "-B", os.path.join(HERE, "kazoo_peer.py")],
}


def in_container(program, folder):
    """As ourselves, and with the numbers that processes have here: a kill is the same as for any other peer, and a record
    lock on a file in the folder is one for both sides. The end of its standard input ends it and so the container."""
    mounts = [word for each in (HERE, os.environ["ZKLOCK_PEER_CLASSES"]) for word in ("-v", "%s:%s:ro" % (each, each))]
    return ["docker", "run", "--rm", "-i", "--network", "host", "--pid", "host",
            "--user", "%d:%d" % (os.geteuid(), os.getegid()), *mounts, "-v", "%s:%s" % (folder, folder),
            image.find_peers(), *program]


class Peer:
    """A process of one contender."""

    def __init__(self, kind, name, recipe, path, folder, session_ms, servers=SERVERS):
        self.kind, self.name = kind, name
        program, _, suite = kind.partition("-")
        command = PROGRAMS[program] + [recipe, servers, str(session_ms), path, name, folder]
        if suite:
            command = in_container(command, folder)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.killed = False
        self.pid = None
        self.lines = []
        self.read = 0
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()

    def __str__(self):
        return "%s (%s %s)" % (self.name, state_of(self.pid or 0), "; ".join(self.lines[-3:]))

    def _listen(self):
        for line in self.process.stdout:
            line = line.decode(errors="replace").rstrip("\n")
            if line.startswith("ready "):
                self.pid = int(line.split()[1])
            self.lines.append(line)

    def tell(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def heard(self, word):
        """The words behind this one in the next line that begins with it, None while there is none. Lines before that
        one are passed over."""
        for i in range(self.read, len(self.lines)):
            words = self.lines[i].split()
            if words[0] == word:
                self.read = i + 1
                return [""] + words[1:]
        return None

    def hear(self, word, patience=PATIENCE):
        def heard():
            return self.heard(word) or self.check_alive()
        return wait_for(heard, "%s says '%s'" % (self, word), patience)[1:]

    def ask(self, command, answer=None, patience=PATIENCE):
        self.tell(command)
        return self.hear(answer or command, patience)

    def wait_ready(self):
        wait_for(lambda: self.pid or self.check_alive(), "%s is ready" % self, START_S)
        return self

    def check_alive(self):
        """None ends by itself, and a Curator or kazoo that fails is as bad as ours."""
        if not self.killed and self.process.poll() is not None:
            self.reader.join(PATIENCE)
            raise AssertionError("%s ended with status %d" % (self, self.process.returncode))

    def end(self):
        """Its status, once it has ended by itself."""
        self.killed = True
        self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return self.process.returncode

    def kill(self):
        self.killed = True
        os.kill(int(self.pid), signal.SIGKILL)
        # Not until the engine has put a container away.
        wait_for(lambda: not lives(self.pid), "%s is gone" % self)

    def close(self):
        """Whatever it does."""
        self.killed = True
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            for end in (lambda: self.pid and os.kill(self.pid, signal.SIGKILL), self.process.kill):
                with contextlib.suppress(ProcessLookupError):
                    end()
            self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
