# SPDX-License-Identifier: Apache-2.0
"""A client that writes every 150 ms beside the tests: keep_moving.py FOLDER PORT...

Debian 12's ZooKeeper 3.8.0 loses wake-ups in a quorum (ZOOKEEPER-4537, fixed in 3.8.1): a committed request of a lone
client can wait for its reply until some other request arrives at that server. A write is committed on every server and so
wakes all of them. It must not wait for the reply of the one before, which may be the very one that is stuck.

The write is the deletion of a node that never exists: a transaction like any other that changes nothing. It ends by
itself when the ensemble's folder goes."""

import os
import select
import socket
import struct
import sys
import time

import wire

INTERVAL_S = 0.15
SILENCE_S = 2.0
SESSION_MS = 10000
PATH = "/zklock-keeps-moving"


def move(port, folder):
    """Writes through one server until it fails or says nothing for a while."""
    with wire.connect(port, 1.0) as sock:
        wire.open_session(sock, SESSION_MS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        heard = time.monotonic()
        xid = 0
        while os.path.isdir(folder):
            xid += 1
            sock.sendall(wire.request(xid, wire.DELETE, wire.string(PATH) + struct.pack(">i", -1)))
            until = time.monotonic() + INTERVAL_S
            while (left := until - time.monotonic()) > 0:
                if select.select([sock], [], [], left)[0]:
                    if not sock.recv(65536):
                        return
                    heard = time.monotonic()
            if time.monotonic() - heard > SILENCE_S:
                return


def main(folder, *ports):
    turn = 0
    while os.path.isdir(folder):
        try:
            move(int(ports[turn % len(ports)]), folder)
        except (OSError, struct.error):
            pass
        turn += 1
        time.sleep(INTERVAL_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
