# SPDX-License-Identifier: Apache-2.0
"""kazoo as a contender: kazoo_peer.py lock|blind SERVERS SESSION_MS PATH ID FOLDER

Commands come as lines on standard input, answers and events go as lines to standard output; peers.py has the list. Moments
are CLOCK_MONOTONIC. The end of standard input is the end.

`blind` is a lock without the option for foreign names."""

import fcntl
import os
import random
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException


def say(*words):
    # One write a line, whatever thread it comes from.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def sequence(node):
    return int(node[-10:])


class Resource:
    """What is done in a grant: to be alone there, and to be seen there."""

    def __init__(self, folder, name):
        self.name = name
        self.held = os.open(os.path.join(folder, "held"), os.O_RDWR | os.O_CREAT, 0o666)
        self.log = os.open(os.path.join(folder, "grants"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def use(self, number, token, most_ms):
        """The record lock is the kernel's: it goes with its process, whatever ends that."""
        try:
            fcntl.lockf(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("overlap", number, token)
            os._exit(3)
        os.write(self.log, b"%s %d %d\n" % (self.name.encode(), number, token))
        time.sleep(random.randint(0, most_ms) / 1000)
        fcntl.lockf(self.held, fcntl.LOCK_UN)

    def intrude(self):
        fcntl.lockf(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        say("intruding")


class Peer:
    def __init__(self, recipe, servers, session_ms, path, name, folder):
        self.path = path
        self.client = KazooClient(servers, timeout=int(session_ms) / 1000)
        self.client.start()
        # Without the pattern it does not see zklock's nodes, and holds beside them.
        patterns = [] if recipe == "blind" else ["-lock-"]
        self.lock = self.client.Lock(path, name, extra_lock_patterns=patterns)
        self.resource = Resource(folder, name)
        self.stopping = False
        self.working = None

    def token(self):
        """zklock's: counted on from the birth of the directory, which stays while somebody holds."""
        return self.client.retry(self.client.exists, self.path).czxid + sequence(self.lock.node)

    def take_turns(self, most_ms):
        try:
            while not self.stopping:
                self.lock.acquire()
                self.resource.use(sequence(self.lock.node), self.token(), most_ms)
                self.lock.release()
            say("stopped")
        except Exception as e:  # pylint: disable=broad-except
            say("failed", repr(e))
            os._exit(1)

    def grants(self, most_ms):
        self.working = threading.Thread(target=self.take_turns, args=(int(most_ms),))
        self.working.start()

    def stop(self):
        self.stopping = True
        self.working.join()

    def intrude(self):
        self.resource.intrude()

    def acquire(self):
        try:
            self.lock.acquire()
        except KazooException as e:
            say("raised", type(e).__name__)
            return
        say("held", sequence(self.lock.node), self.token(), time.monotonic_ns())

    def release(self):
        self.lock.release()
        say("released")

    def participants(self):
        say("participants", len(self.lock.contenders()))

    def holder(self):
        say("holder", (self.lock.contenders() or ["nobody"])[0].replace("\n", "|"))


def main(arguments):
    peer = Peer(*arguments)
    say("ready", os.getpid())
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            peer.client.stop()
            break
        getattr(peer, words[0])(*words[1:])
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
