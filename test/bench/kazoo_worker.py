# SPDX-License-Identifier: Apache-2.0
"""kazoo as worker.c: kazoo_worker.py lock SERVERS SESSION_MS"""

import os
import sys
import threading
import time

from kazoo.client import KazooClient


def now_ns():
    return time.monotonic_ns()


class Worker:
    def __init__(self, client):
        self.client = client
        self.holder = None

    def cycles(self, path, count):
        lock, times = self.client.Lock(path), []
        for _ in range(int(count)):
            began = now_ns()
            lock.acquire()
            held = now_ns()
            lock.release()
            times += [held - began, now_ns() - held]
        return ["cycles", *times]

    def _take_turns(self, path, hold_s, rounds, turns):
        lock = self.client.Lock(path)
        for _ in range(rounds):
            lock.acquire()
            granted = now_ns()
            if hold_s:
                time.sleep(hold_s)
            turns += [granted, now_ns()]
            lock.release()

    def queue(self, path, count, hold_us, rounds):
        turns = []
        threads = [threading.Thread(target=self._take_turns, args=(path, int(hold_us) / 1e6, int(rounds), turns))
                   for _ in range(int(count))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return ["turns", *turns]

    def hold(self, path):
        self.holder = self.client.Lock(path)
        self.holder.acquire()
        return ["held", now_ns()]

    def release(self):
        began = now_ns()
        self.holder.release()
        return ["released", began]


def main(_recipe, servers, session_ms):
    # A thread that ends by an exception ends the worker: what it should have measured is missing.
    threading.excepthook = lambda args: (sys.stderr.write("kazoo_worker: %r\n" % args.exc_value), os._exit(1))
    client = KazooClient(servers, timeout=int(session_ms) / 1000)
    client.start()
    worker = Worker(client)
    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.split()
        print(*getattr(worker, name)(*arguments), flush=True)
    client.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
