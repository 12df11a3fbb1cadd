# SPDX-License-Identifier: Apache-2.0
"""kazoo's lock as a contender, written as its manual says: kazoo_worker.py lock SERVERS SESSION_MS PATH FOLDER NAME SEED

The same acts and the same history as worker.c. It believes that it holds from acquire() to release(), unless its client says
SUSPENDED or LOST before."""

import contextlib
import os
import random
import signal
import socket
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, LockTimeout
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Worker:
    def __init__(self, servers, session_ms, path, folder, name, seed):
        self.random = random.Random(int(seed) + os.getpid())
        self.session_s = int(session_ms) / 1000
        self.path = path
        self.resource = name.partition(".")[0]
        self.stay = os.path.join(folder, name + ".stay")
        self.history = os.open(os.path.join(folder, name + ".history"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.counter = os.open(os.path.join(folder, self.resource + ".counter"), os.O_RDWR | os.O_CREAT, 0o666)
        self.register = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.register.connect(os.path.join(folder, "register"))
        self.stopping = False
        self.connected = False
        self.client = KazooClient(servers, timeout=self.session_s)
        self.client.add_listener(self.on_state)
        self.lock = self.client.Lock(path, name)

    def on_state(self, state):
        self.connected = state == KazooState.CONNECTED

    def note(self, *words):
        os.write(self.history, (" ".join(map(str, words)) + "\n").encode())

    def ask(self, token, value):
        self.register.send(b"%s %d %d" % (self.resource.encode(), token, value))
        return int(self.register.recv(128))

    def act(self, token):
        began = now_ns()
        count = int(os.pread(self.counter, 31, 0) or 0)
        guarded = self.ask(token, -1)
        time.sleep(self.random.randint(1, 8) / 1000)
        os.pwrite(self.counter, b"%20d" % (count + 1), 0)
        if guarded >= 0:
            guarded = self.ask(token, guarded + 1)
        self.note("act", began, now_ns(), 2 ** 63 - 1, token, count + 1, guarded)

    def work(self, token):
        """Whether it held to the end, as far as it knows."""
        began = time.monotonic()
        end = began + self.random.uniform(0.05, 0.3)
        while not self.stopping and (
                time.monotonic() < end or (time.monotonic() < began + 3 * self.session_s and os.path.exists(self.stay))):
            if not self.connected:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.stay)
                return False
            self.act(token)
            time.sleep(self.random.uniform(0, 0.008))
        return True

    def turn(self):
        self.note("wait", now_ns())
        if not self.lock.acquire(timeout=5):
            return
        number = int(self.lock.node[-10:])
        token = self.client.exists(self.path).czxid + number
        self.note("hold", now_ns(), token, number)
        held = self.work(token)
        self.note("free" if held else "lost", now_ns(), token)
        self.lock.release()

    def run(self):
        self.client.start(timeout=60)
        while not self.stopping:
            try:
                self.turn()
            except (KazooException, KazooTimeoutError, LockTimeout) as e:
                self.note("idle", now_ns(), type(e).__name__)
                self.lock.cancel()
                self.lock = self.client.Lock(self.path, self.resource)
                time.sleep(0.2)
        self.client.stop()

    def stop(self, *_):
        self.stopping = True


def main(arguments):
    worker = Worker(*arguments[1:])
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()
    # Its threads may wait for a server that never comes.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
