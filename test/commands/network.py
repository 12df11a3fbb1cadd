# SPDX-License-Identifier: Apache-2.0
"""A bad network between each client and each server.

ZKLOCK_TEST_PROXIES  the program, test/chaos/proxies.c"""

import os
import subprocess
import threading


class Network:
    """Clients and servers are numbered from 0; "*" is all of them."""

    SILENT_TO_SERVER, SILENT_TO_CLIENT, SILENT = 1, 2, 3

    def __init__(self, clients, servers):
        self.process = subprocess.Popen([os.environ["ZKLOCK_TEST_PROXIES"], str(clients)] + servers.split(","),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lists = [self.process.stdout.readline().strip() for _ in range(clients)]
        self.mutex = threading.Lock()

    def _order(self, *words):
        with self.mutex:
            self.process.stdin.write(" ".join(map(str, words)) + "\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "done\n":
                raise AssertionError("the proxies have ended")

    def hold(self, ways, client="*", server="*"):
        """Silence; where it is both ways, nobody gets an answer when he connects."""
        self._order("hold", client, server, ways)
        self._order("door", client, server, 2 if ways == self.SILENT else 0)

    def refuse(self, client="*", server="*"):
        self._order("door", client, server, 1)
        self.cut(client, server)

    def cut(self, client="*", server="*"):
        self._order("cut", client, server)

    def drop(self, dropping, client="*", server="*"):
        """Packets to the servers vanish; the kernel sends what was in them again, ever more seldom."""
        self._order("drop", client, server, int(dropping))

    def heal(self, client="*", server="*"):
        self.drop(False, client, server)
        self.hold(0, client, server)

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
