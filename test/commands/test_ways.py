# SPDX-License-Identifier: Apache-2.0
"""What test_tree and test_loss show with the way in which the tree is found here by default, once more with each other way: the
walk alone, as root and as nobody, and in a PID namespace."""

import os
import sys
import unittest

import test_loss
import test_tree
from support import BINARY, own_cgroup, without_cgroup, works


class Walk:
    prefix = without_cgroup()


class Namespace:
    """And no cgroup, which would do its work."""
    prefix = without_cgroup()
    options = ("--pidns",)


class Nobody:
    prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)


def also(way, *tests):
    for test in tests:
        name = way.__name__ + test.__name__
        globals()[name] = type(name, (way, test), {"__module__": __name__})


TREE = (test_tree.Leftovers, test_tree.Outsiders)
# In a PID namespace the first process cannot end before everybody there has been reaped: test_pidns.
TRACED = (test_tree.Traced,)
LOSS = (test_loss.Lost, test_loss.FrontStopped, test_loss.FrontKilled, test_loss.Warden)

if __name__ == "__main__":
    way = {"walk": Walk, "namespace": Namespace, "nobody": Nobody}[sys.argv.pop(1)]
    if way is Walk and own_cgroup() is None:
        print("the walk is the way here")
        sys.exit(77)
    if not works(*getattr(way, "prefix", ()), BINARY, "--version"):
        print("%s cannot be started so" % BINARY)
        sys.exit(77)
    also(way, *{Walk: TREE + TRACED + LOSS, Nobody: TREE + TRACED, Namespace: TREE + LOSS}[way])
    unittest.main(verbosity=2)
