# SPDX-License-Identifier: Apache-2.0
"""As much of ZooKeeper's wire protocol as it takes to see whether a server serves: the four-letter word `srvr` and the
handshake of a session. No client library, so that a fresh machine needs none."""

import re
import socket
import struct

DELETE = 2
CLOSE_SESSION = -11


def connect(port, timeout):
    return socket.create_connection(("127.0.0.1", port), timeout)


def srvr(port, timeout=1.0):
    """What the server says of itself, "" where it says nothing or nobody is there."""
    text = b""
    try:
        with connect(port, timeout) as sock:
            sock.sendall(b"srvr")
            while chunk := sock.recv(4096):
                text += chunk
    except socket.timeout:
        return "silent"
    except OSError:
        pass
    return text.decode(errors="replace")


def mode(port, timeout=1.0):
    """leader, follower, standalone; read-only; "not serving" (it runs but is in no quorum), "silent" (connected, no answer:
    stopped or overloaded), "down"."""
    text = srvr(port, timeout)
    found = re.search(r"^Mode: ([\w-]+)", text, re.MULTILINE)
    if found:
        return found.group(1)
    if "not currently serving" in text:
        return "not serving"
    return text or "down"


def request(xid, kind, payload=b""):
    return struct.pack(">iii", len(payload) + 8, xid, kind) + payload


def string(text):
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def receive(sock, size):
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the server hung up")
        data += chunk
    return data


def open_session(sock, session_ms):
    """Makes a session on a connected socket. To make one is a transaction, so that its reply proves that this server
    commits through a quorum; `srvr` proves no such thing."""
    hello = struct.pack(">iqiq", 0, 0, session_ms, 0) + struct.pack(">i", 16) + bytes(16) + b"\0"
    sock.sendall(struct.pack(">i", len(hello)) + hello)
    size, = struct.unpack(">i", receive(sock, 4))
    reply = receive(sock, size)
    return struct.unpack(">iiq", reply[:16])[1:]


def commits(port, timeout):
    """Whether the server commits a transaction within the timeout."""
    try:
        with connect(port, timeout) as sock:
            _, session = open_session(sock, 4000)
            sock.sendall(request(1, CLOSE_SESSION))
            return session != 0
    except (OSError, struct.error):
        return False
