# SPDX-License-Identifier: Apache-2.0
"""An independent client: witness.py FOLDER SERVERS PATH...

What it sees goes as lines to FOLDER/witness.log, moments in ns by CLOCK_BOOTTIME:

    commits SERVER SENT ANSWERED     a write through this server was committed, begun and answered then
    nodes NS PATH [NAME:PID]...      who stands there, in order; PID 0: not one of zklock's
    stall NS LENGTH                  the machine let this process wait: it slept for so much longer than it asked for

Each server is asked by a thread of its own; the nodes are asked for through whichever answers."""

import os
import re
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", each) for each in ("ensemble", "commands")]
# pylint: disable=wrong-import-position
import wire
import zkwire

GET_DATA = 4
COMMIT_S = 0.1
NODES_S = 0.5
ANSWER_S = 1.0
STALL_S = 0.05


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def owner(client, path):
    """The process of a node, None where the node is gone."""
    try:
        data = client.ask(GET_DATA, wire.string(path) + b"\0")
    except zkwire.Refused:
        return None
    size, = struct.unpack(">i", data[:4])
    found = re.search(rb"^pid=(\d+)$", data[4:4 + max(size, 0)], re.MULTILINE)
    return int(found.group(1)) if found else 0


class Witness:
    def __init__(self, folder, servers, paths):
        self.log = os.open(os.path.join(folder, "witness.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.servers, self.paths = servers, paths

    def note(self, *words):
        os.write(self.log, (" ".join(map(str, words)) + "\n").encode())

    def with_client(self, servers, look, every_s):
        """Looks again and again, by a new session where the one before failed."""
        while True:
            try:
                with zkwire.Client(servers, ANSWER_S) as client:
                    while True:
                        look(client)
                        time.sleep(every_s)
            except (OSError, struct.error, zkwire.Refused):
                time.sleep(every_s)

    def watch_server(self, number):
        def look(client):
            began = now_ns()
            try:
                client.delete("/zklock-chaos-nothing")
            except zkwire.Refused as refused:
                if refused.code != zkwire.NO_NODE:
                    raise
            self.note("commits", number, began, now_ns())
        self.with_client(self.servers.split(",")[number - 1], look, COMMIT_S)

    def watch_nodes(self):
        def look(client):
            # A list of a follower that lags, or is cut off, would show the dead.
            try:
                client.delete("/zklock-chaos-nothing")
            except zkwire.Refused:
                pass
            for path in self.paths:
                found = []
                for name in client.children(path):
                    pid = owner(client, path + "/" + name)
                    if pid is not None:
                        found.append("%s:%d" % (name, pid))
                self.note("nodes", now_ns(), path, *found)
        self.with_client(self.servers, look, NODES_S)

    def watch_machine(self):
        while True:
            began = time.monotonic()
            time.sleep(0.02)
            late = time.monotonic() - began - 0.02
            if late > STALL_S:
                self.note("stall", now_ns(), int(late * 1e9))


def main(folder, servers, *paths):
    witness = Witness(folder, servers, paths)
    for number in range(1, len(servers.split(",")) + 1):
        threading.Thread(target=witness.watch_server, args=(number,), daemon=True).start()
    threading.Thread(target=witness.watch_nodes, daemon=True).start()
    witness.watch_machine()


if __name__ == "__main__":
    main(*sys.argv[1:])
