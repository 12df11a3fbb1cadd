# SPDX-License-Identifier: Apache-2.0
"""The processes that are measured: how they are started, told what to do, heard, and ended.

ZKLOCK_BENCH_PROGRAMS  where bench_worker and CuratorWorker.class are

All are started with the same arguments, take the same commands as lines and answer with a line each. Times are in ns, moments
those of CLOCK_MONOTONIC.

    ready                                                 first of all, once it is connected
    cycles PATH N       -> cycles (ACQUIRE RELEASE)*N     how long each took, one after the other
    hold PATH           -> held MOMENT
    release             -> released MOMENT                when it was begun
    queue PATH COUNT HOLD_US ROUNDS -> turns (GRANTED RELEASED)*
                                                          COUNT threads with a contender each, of which each gets it, holds
                                                          it and begins to let go, ROUNDS times; all of it, in any order"""

import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ZK = os.path.join(HERE, "..", "ensemble", "zk")
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]

import zkwire  # pylint: disable=wrong-import-position

PROGRAMS = os.environ["ZKLOCK_BENCH_PROGRAMS"]
SERVERS = os.environ["ZKLOCK_TEST_SERVERS"]
SESSION_MS = 10000
# What takes longer hangs.
PATIENCE_S = 120
JARS = "/usr/share/java/"
JAVA = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-cp",
        ":".join((PROGRAMS, JARS + "curator-recipes.jar", JARS + "slf4j-nop.jar")), "CuratorWorker"]
KAZOO = ["/usr/bin/python3", "-B", os.path.join(HERE, "kazoo_worker.py")]
COMMANDS = {"zklock": [PROGRAMS + "/bench_worker"], "curator": JAVA, "kazoo": KAZOO}


class Fail(Exception):
    """One line for people."""


class Program:
    """A process that answers in lines."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hear(self, word):
        """The numbers behind this word in the next line."""
        patience = threading.Timer(PATIENCE_S, self.process.kill)
        patience.start()
        line = self.process.stdout.readline().split()
        patience.cancel()
        if line[:1] != [word]:
            raise Fail("%s said '%s' in place of '%s'" % (self.name, " ".join(line[:3]), word))
        return list(map(int, line[1:]))

    def ask(self, *words, answer=None):
        self.tell(*words)
        return self.hear(answer or words[0])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def server_of(index):
    """Processes are spread over the servers in the same way, whatever they are: how far two sessions are from each other
    depends on their servers."""
    servers = SERVERS.split(",")
    return servers[index % len(servers)]


class Worker(Program):
    """kind: zklock, curator, kazoo, or raw or bare, the floors."""

    def __init__(self, kind, index, recipe="lock", session_ms=SESSION_MS):
        is_floor = kind not in COMMANDS
        command = COMMANDS["zklock" if is_floor else kind] + [kind if is_floor else recipe]
        super().__init__("%s %d" % (kind, index), command + [server_of(index), str(session_ms)])


class Holders(Program):
    """So many sessions of one process, with so many locks in each."""

    def __init__(self, session_ms, prefix, sessions, locks):
        super().__init__("holders", [PROGRAMS + "/bench_sessions", SERVERS, *map(str, (session_ms, prefix, sessions, locks))])
        self.hear("ready")


def cpu_s(pids):
    """Time that these processes have had so far, by the clocks of clock_getcpuclockid(3)."""
    return sum(time.clock_gettime(~pid << 3 | 2) for pid in pids)


class Servers:
    def __init__(self):
        self.pids = [int(subprocess.run([ZK, "pid", str(i + 1)], stdout=subprocess.PIPE, check=True).stdout)
                     for i in range(SERVERS.count(",") + 1)]

    def cpu_s(self):
        return cpu_s(self.pids)


class Crews:
    """The workers of a run, started when they are first asked for and ended with it, beside the servers."""

    def __init__(self):
        self.crews = {}
        self.servers = Servers()

    def of(self, kind, size, **options):
        """So many workers of a kind; the same ones each time, with more behind them as need be."""
        crew = self.crews.setdefault((kind, *sorted(options.items())), [])
        new = [Worker(kind, i, **options) for i in range(len(crew), size)]
        for each in new:
            crew.append(each)
        for each in new:
            each.hear("ready")
        return crew[:size]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in [worker for crew in self.crews.values() for worker in crew]:
            each.close()


def connections(workers, number):
    """What the kernel says of each connection to a server of these processes, by the name of a number. There may be none."""
    pids = {each.process.pid for each in workers}
    sockets = subprocess.run(["ss", "-Htinp", "state", "established"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for each in re.split(r"\n(?=\S)", sockets):
        pid = re.search(r"pid=(\d+)", each)
        value = re.search(number + r":(\d+)", each)
        if pid and value and int(pid.group(1)) in pids:
            yield int(value.group(1))


def received(workers):
    """Bytes that these processes have read from servers. The servers' own count of them is the same, where they count at
    all, but has other clients in it."""
    return sum(connections(workers, "bytes_received"))


def silent_s(worker):
    """How long ago it has sent anything to a server."""
    return min(connections([worker], "lastsnd")) / 1000


def wait_quiet(workers):
    """Until nothing comes from the servers any more."""
    before, end = None, time.monotonic() + PATIENCE_S
    while (now := received(workers)) != before:
        if time.monotonic() > end:
            raise Fail("servers still send after %d s" % PATIENCE_S)
        before = now
        time.sleep(0.05)
    return now


class Directory:
    """One for each thing that is measured, made beforehand and by hand, so that it is the same for all. (Curator's are
    containers, which servers remove.)"""

    made = 0

    def __init__(self, what):
        Directory.made += 1
        self.path = "/bench/%s-%d" % (what, Directory.made)
        with zkwire.Client(SERVERS) as client:
            client.make(self.path)

    def wait_for(self, contenders):
        end = time.monotonic() + PATIENCE_S
        with zkwire.Client(SERVERS) as client:
            while (count := len(client.children(self.path))) != contenders:
                if time.monotonic() > end:
                    raise Fail("%s has %d contenders in place of %d" % (self.path, count, contenders))
                time.sleep(0.02)
