# SPDX-License-Identifier: Apache-2.0
"""What the servers say of a lock: a look at its nodes, and the hand of an operator who deletes one. Speaks ZooKeeper's
wire protocol itself, so that what the command's own client says is not taken for the truth."""

import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "ensemble"))
import wire  # pylint: disable=wrong-import-position

SYNC = 9
CHILDREN = 8
CREATE = 1
EXISTS = 3
NO_NODE = -101
NODE_EXISTS = -110
WATCH_XID = -1
# What an access list may give.
READ, CREATING, ALL = 0x01, 0x04, 0x1f
# What a node may be made as.
EPHEMERAL = 1


class Refused(Exception):
    def __init__(self, code):
        super().__init__("the server answered with error %d" % code)
        self.code = code


class Client:
    """One session. The server is the first of the list that serves."""

    def __init__(self, servers, timeout=5.0):
        self.sock = self._connect(servers, timeout)
        self.xid = 0

    @staticmethod
    def _connect(servers, timeout):
        for server in servers.split(","):
            try:
                sock = wire.connect(int(server.rpartition(":")[2]), timeout)
                wire.open_session(sock, 10000)
                # Slow servers are found out above. This one serves, but may be busy.
                sock.settimeout(4 * timeout)
                return sock
            except (OSError, struct.error):
                continue
        raise ConnectionError("none of %s serves" % servers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.sendall(wire.request(self.xid + 1, wire.CLOSE_SESSION))
        self.sock.close()

    def ask(self, kind, payload):
        self.xid += 1
        self.sock.sendall(wire.request(self.xid, kind, payload))
        size, = struct.unpack(">i", wire.receive(self.sock, 4))
        reply = wire.receive(self.sock, size)
        xid, _, code = struct.unpack(">iqi", reply[:16])
        if xid != self.xid:
            raise ConnectionError("reply %d to request %d" % (xid, self.xid))
        if code != 0:
            raise Refused(code)
        return reply[16:]

    def children(self, path):
        """Names, in the order of their sequence numbers. A path that does not exist has none."""
        self.ask(SYNC, wire.string(path))
        try:
            body = self.ask(CHILDREN, wire.string(path) + b"\0")
        except Refused as refused:
            if refused.code == NO_NODE:
                return []
            raise
        count, = struct.unpack(">i", body[:4])
        names, at = [], 4
        for _ in range(count):
            size, = struct.unpack(">i", body[at:at + 4])
            names.append(body[at + 4:at + 4 + size].decode())
            at += 4 + size
        return sorted(names, key=lambda name: name[-10:])

    def created(self, path):
        """When a node was made, as seconds since the epoch."""
        _, _, ctime, _ = struct.unpack(">qqqq", self.ask(EXISTS, wire.string(path) + b"\0")[:32])
        return ctime / 1000

    def watch(self, path):
        """Who asks nothing more can wait until it is changed or deleted."""
        self.ask(EXISTS, wire.string(path) + b"\1")

    def wait_for_watch(self):
        size, = struct.unpack(">i", wire.receive(self.sock, 4))
        xid, = struct.unpack(">i", wire.receive(self.sock, size)[:4])
        if xid != WATCH_XID:
            raise ConnectionError("reply %d to no request" % xid)

    def make(self, path, permissions=ALL, flags=0, data=None):
        """A directory, for everybody with these permissions, or an ephemeral node; its parents with all of them."""
        parent = path.rpartition("/")[0]
        if parent:
            self.make(parent)
        acl = struct.pack(">ii", 1, permissions) + wire.string("world") + wire.string("anyone")
        data = struct.pack(">i", -1) if data is None else wire.string(data)
        try:
            self.ask(CREATE, wire.string(path) + data + acl + struct.pack(">i", flags))
        except Refused as refused:
            if refused.code != NODE_EXISTS:
                raise

    def changes(self, path):
        """A number that grows with each child that comes or goes: cversion, which stands behind four zxids and times and a
        version."""
        return struct.unpack(">i", self.ask(EXISTS, wire.string(path) + b"\0")[36:40])[0]

    def limit(self, path, nodes):
        """A quota that is enforced (ZooKeeper 3.7 and later): so many nodes at most, the path's own included."""
        quota = "/zookeeper/quota" + path
        self.make(path)
        self.make(quota + "/zookeeper_stats", data="count=1,bytes=0")
        self.make(quota + "/zookeeper_limits", data="count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d" % nodes)

    def remove_limit(self, path):
        for name in ("/zookeeper_limits", "/zookeeper_stats", ""):
            self.delete("/zookeeper/quota" + path + name)

    def delete(self, path):
        self.ask(wire.DELETE, wire.string(path) + struct.pack(">i", -1))


def children(servers, path):
    with Client(servers) as client:
        return client.children(path)


def exists(servers, path):
    parent, _, name = path.rpartition("/")
    return name in children(servers, parent or "/")
