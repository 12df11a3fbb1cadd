# SPDX-License-Identifier: Apache-2.0
"""The processes of a run, the network that each has of its own, and what can be done to them.

ZKLOCK_RUN             the command
ZKLOCK_CHAOS_PROGRAMS  where the others are"""

import os
import random
import signal
import subprocess
import sys
import threading
import time

from support import lives, read_proc, wait_for

HERE = os.path.dirname(os.path.realpath(__file__))
PROGRAMS = os.environ["ZKLOCK_CHAOS_PROGRAMS"] + "/"
WORKER = PROGRAMS + "chaos_worker_zklock"
# By the library; the naive one takes a read for a proof.
LIBRARY = {"lib": [WORKER, "lock"], "cand": [WORKER, "lead"], "naive": [PROGRAMS + "chaos_worker_zklock_read_is_proof", "lock"]}
# zklock-run ended: as its command did, busy, not granted in time or not connected, lost. Of a command that was killed: 137.
EXPECTED = {"run": (0, 75, 69, 76)}


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Contender:
    """One lane: a process that is started again whenever it has ended."""

    def __init__(self, run, name, kind, number, ppm):
        self.run, self.name, self.kind, self.number, self.ppm = run, name, kind, number, ppm
        self.resource = name.partition(".")[0]
        self.random = random.Random("%d %s" % (run.seed, name))
        self.process = None
        self.expected = False  # its end, by a fault
        self.not_before = 0

    def __str__(self):
        return self.name

    # ---- its life ----

    def command(self):
        servers, path = self.run.network.lists[self.number], self.run.paths[self.resource]
        tail = [servers, str(self.run.session_ms), path, self.run.folder, self.name, str(self.run.seed)]
        if self.kind == "kazoo":
            return ["/usr/bin/python3", "-B", os.path.join(HERE, "kazoo_worker.py"), "lock"] + tail
        if self.kind in LIBRARY:
            return LIBRARY[self.kind] + tail
        patience = self.random.choice(([], [], [], ["-w", "2"], ["-n"]))
        return [os.environ["ZKLOCK_RUN"], "-s", servers, "-T", "%dms" % self.run.session_ms, *patience, path, "--", WORKER,
                "hold"] + tail

    def start(self):
        env = dict(os.environ)
        if self.ppm:
            env.update(LD_PRELOAD=PROGRAMS + "libchaos_clock.so",
                       ZKLOCK_CHAOS_CLOCK="%d %d" % (self.ppm, self.run.began_ns))
        self.expected = False
        with open(os.path.join(self.run.folder, self.name + ".stderr"), "ab") as err:
            self.process = subprocess.Popen(self.command(), env=env, stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                            start_new_session=True)
        self.run.log("process", self.name, self.process.pid, now_ns())
        if self.kind == "run":
            # Who is at the head of its queue by the library says so itself.
            with open(os.path.join(self.run.folder, self.name + ".history"), "a", encoding="ascii") as history:
                history.write("wait %d\n" % now_ns())

    def tend(self, ending):
        """Notes an end, and starts it again."""
        if self.process is None:
            if not ending and time.monotonic() >= self.not_before:
                self.start()
            return
        status = self.process.poll()
        if status is None:
            return
        self.run.log("ended", self.name, self.process.pid, now_ns(), status)
        if status == 76:
            self.stay(False)  # was meant for the hold that it has lost
        if not (self.expected or ending or status in EXPECTED.get(self.kind, ())):
            self.run.log("failed", self.name, now_ns(), "ended with status %d" % status)
        self.process = None
        self.not_before = time.monotonic() + self.random.uniform(0, 0.05 if self.kind == "run" and not self.expected else 1.5)

    # ---- its processes ----

    def family(self):
        """Front, warden and command of zklock-run, in this order; the others are alone. Empty: it has ended."""
        process = self.process
        found = [process.pid] if process and process.poll() is None else []
        for pid in found:
            found += map(int, read_proc(pid, "task/%d/children" % pid).split())
        return found

    def signal(self, number, pids=None):
        """False: it has ended meanwhile."""
        self.expected = self.expected or number == signal.SIGKILL
        reached = False
        for pid in pids if pids is not None else self.family():
            try:
                os.kill(pid, number)
                reached = True
            except ProcessLookupError:
                continue
        return reached

    def kill(self):
        """All at once."""
        pids = self.family()
        self.signal(signal.SIGKILL, pids)
        wait_for(lambda: not any(map(lives, pids)), "%s is gone" % self)

    def servers(self):
        """The servers that it is connected to, by its sockets."""
        ports = {int(address.rpartition(":")[2]): i for i, address in enumerate(self.run.network.lists[self.number].split(","))}
        process, sockets = self.process, set()
        try:
            for fd in os.listdir("/proc/%d/fd" % process.pid):
                sockets.add(os.readlink("/proc/%d/fd/%s" % (process.pid, fd)))
        except (OSError, AttributeError):
            return []
        found = []
        for line in read_proc(os.getpid(), "net/tcp").decode().splitlines()[1:]:
            words = line.split()
            port = int(words[2].partition(":")[2], 16)
            if words[3] == "01" and port in ports and "socket:[%s]" % words[9] in sockets:
                found.append(ports[port] + 1)
        return found

    @property
    def stay_file(self):
        return os.path.join(self.run.folder, self.name + ".stay")

    def stay(self, on):
        if on:
            with open(self.stay_file, "w", encoding="ascii"):
                pass
        else:
            try:
                os.unlink(self.stay_file)
            except FileNotFoundError:
                pass


class Crowd(threading.Thread):
    """Keeps all of them going."""

    def __init__(self, contenders):
        super().__init__(daemon=True)
        self.contenders = contenders
        self.ending = False
        self.failure = None

    def run(self):
        try:
            while not self.ending or any(each.process for each in self.contenders):
                for each in self.contenders:
                    each.tend(self.ending)
                time.sleep(0.01)
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def end(self, patience_s):
        """Told to end, and given the time for it; what does not end is named, and killed."""
        self.ending = True
        slow = []
        for each in self.contenders:
            each.signal(signal.SIGCONT)
            if each.process:
                each.signal(signal.SIGTERM, [each.process.pid])
        self.join(patience_s)
        if self.is_alive():
            slow = [each for each in self.contenders if each.process]
            for each in slow:
                each.run.log("failed", each.name, now_ns(), "did not end within %d s" % patience_s)
                each.signal(signal.SIGKILL)
            self.join(10)
        if self.failure:
            print("chaos: %r" % self.failure, file=sys.stderr)
        return slow
