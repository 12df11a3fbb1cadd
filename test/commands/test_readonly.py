# SPDX-License-Identifier: Apache-2.0
"""A server that has lost its quorum and serves who wants to read only (readonlymode.enabled): it is no ensemble. Run this alone
on its ensemble."""

import os
import time
import unittest

from support import SERVERS, CommandTest, wait_for, zk


class ReadOnly(CommandTest):
    def test_is_no_ensemble(self):
        first = SERVERS.split(",")[0]
        holder = self.hold("-T", "4")
        zk("kill", 2)
        zk("kill", 3)
        status, _, err = holder.result()
        self.assertEqual(status, 76)
        self.assert_one_line(err, self.lock, "command ended")
        self.assert_nothing_lives()
        wait_for(lambda: zk("mode", 1) == "read-only", "the server that is left reads only", 120)
        for arguments in ((), ("-n",), ("-w", "20"), ("--leader",)):
            with self.subTest(arguments=arguments):
                began = time.monotonic()
                status, out, err = self.call("-s", first, "--connect-timeout", "2", *arguments, self.lock, "--", "touch",
                                             self.file("ran"))
                self.assertEqual((status, out), (69, b""))
                self.assert_one_line(err, first)
                self.assertGreaterEqual(time.monotonic() - began, 2)
        self.assertEqual(zk("mode", 1), "read-only")
        self.assertFalse(os.path.exists(self.file("ran")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
