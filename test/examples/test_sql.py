# SPDX-License-Identifier: Apache-2.0
"""fenced_sqlite and fenced_postgres, against the real thing; and the forms that look right and are not, shown failing.

test_sql.py sqlite|postgres PROGRAM SCHEMA"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import databases

KIND, PROGRAM, SCHEMA = sys.argv[1:4]
PATIENCE = 60.0
# Of a lock directory, and of the one that was made after it had been deleted.
BIRTH, NEXT_BIRTH = 4294967301, 4294967400


def wait_for(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain: " + what)
        time.sleep(0.01)


def setUpModule():
    global folder, database  # pylint: disable=global-variable-undefined
    folder = tempfile.mkdtemp(prefix="zklock-sql-")
    unittest.addModuleCleanup(shutil.rmtree, folder, True)
    database = databases.of_kind(KIND)(folder)
    unittest.addModuleCleanup(database.close)


class SqlTest(unittest.TestCase):
    def setUp(self):
        self.session = self.connect()
        for table in ("fence", "account"):
            self.session.run("DROP TABLE IF EXISTS " + table)
        with open(SCHEMA, encoding="ascii") as file:
            self.session.script(file.read())

    def connect(self):
        session = database.session()
        self.addCleanup(session.close)
        return session

    def start(self, form, token, amount):
        book = subprocess.Popen([PROGRAM, database.name, form, str(token), str(amount)], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, book)
        return book

    @staticmethod
    def end(book):
        if book.poll() is None:
            book.kill()
        book.communicate()

    def book(self, form, token, amount):
        """The balance, or None where a newer holder was there."""
        book = self.start(form, token, amount)
        out, err = book.communicate(timeout=PATIENCE)
        if book.returncode == 79:
            self.assertIn("a newer holder was here", err)
            return None
        self.assertEqual((book.returncode, err), (0, ""))
        return int(out)

    def balance(self):
        return int(self.session.run("SELECT balance FROM account WHERE id = 1"))


class TheRightForms(SqlTest):
    def test_older_holder_is_refused_and_the_holder_itself_is_not(self):
        for form in ("row", "mark"):
            with self.subTest(form=form):
                self.setUp()
                self.assertEqual(self.book(form, BIRTH + 5, 10), 10)
                self.assertEqual(self.book(form, BIRTH + 5, 10), 20)
                self.assertIsNone(self.book(form, BIRTH + 4, 100))
                self.assertEqual(self.book(form, 2**63 - 1, 1), 21)
                self.assertIsNone(self.book(form, BIRTH + 5, 100))
                self.assertEqual(self.balance(), 21)

    def test_token_that_fits_no_column_is_refused_and_leaves_the_mark(self):
        for form in ("row", "mark"):
            for token in (2**63, 0, "5x"):
                with self.subTest(form=form, token=token):
                    refused = self.start(form, token, 100)
                    self.assertIn("usage: ", refused.communicate(timeout=PATIENCE)[1])
                    self.assertEqual(refused.returncode, 64)
            self.assertIsNotNone(self.book(form, BIRTH, 1))

    @unittest.skipIf(KIND == "sqlite", "psql is for PostgreSQL")
    def test_script_for_psql(self):
        """What the manual shows."""
        for token, status, balance in ((BIRTH + 5, 0, 10), (BIRTH + 5, 0, 20), (BIRTH + 4, 3, 20), (BIRTH + 6, 0, 30)):
            with self.subTest(token=token):
                done = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", "-v", "token=%d" % token, "-f",
                                       os.path.join(os.path.dirname(SCHEMA), "book.sql"), database.name],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
                self.assertEqual((done.returncode, self.balance()), (status, balance), done.stderr)

    def test_many_at_once_lose_nothing(self):
        for form in ("row", "mark"):
            with self.subTest(form=form):
                self.setUp()
                for each in [self.start(form, BIRTH, 1) for _ in range(12)]:
                    self.assertEqual(each.wait(PATIENCE), 0)
                self.assertEqual(self.balance(), 12)

    def test_who_was_admitted_is_done_before_a_newer_one_is_admitted(self):
        old = self.connect()
        old.run(database.BEGIN)
        self.assertEqual(old.run("UPDATE fence SET mark = 5 WHERE path = '/locks/account' AND mark <= 5"), 1)
        new = self.start("mark", 6, 7)
        wait_for(lambda: database.somebody_waits(self.session), "the newer one waits")
        self.assertEqual(old.run("UPDATE account SET balance = 1000 WHERE id = 1"), 1)
        self.assertIsNone(new.poll())
        old.run("COMMIT")
        self.assertEqual(new.communicate(timeout=PATIENCE), ("1007\n", ""))
        self.assertIsNone(self.book("mark", 5, 1))


class TheWrongForms(SqlTest):
    """Each ends as it must not."""

    def test_refusing_what_is_equal_refuses_the_holder_itself(self):
        admit = "UPDATE fence SET mark = 5 WHERE path = '/locks/account' AND mark < 5"
        self.assertEqual(self.session.run(admit), 1)
        self.assertEqual(self.session.run(admit), 0)

    def test_comparing_outside_of_the_transaction_lets_an_old_write_through(self):
        old = self.connect()
        self.assertEqual(old.run("UPDATE fence SET mark = 5 WHERE path = '/locks/account' AND mark <= 5"), 1)
        # Here it is paused for longer than its lease.
        self.assertEqual(self.book("mark", 6, 7), 7)
        self.assertEqual(old.run("UPDATE account SET balance = 1000 WHERE id = 1"), 1)
        self.assertEqual(self.balance(), 1000)

    @unittest.skipIf(KIND == "sqlite", "in SQLite one who has read keeps others from writing")
    def test_comparing_by_select_in_the_transaction_does_too(self):
        old = self.connect()
        old.run("BEGIN")
        self.assertEqual(old.run("SELECT mark <= 5 FROM fence WHERE path = '/locks/account'"), "t")
        self.assertEqual(self.book("mark", 6, 7), 7)
        self.assertEqual(old.run("UPDATE account SET balance = 1000 WHERE id = 1"), 1)
        old.run("COMMIT")
        self.assertEqual(self.balance(), 1000)

    def test_a_bare_sequence_number_refuses_the_new_holder_and_admits_the_old(self):
        # The lock directory was deleted and made anew, as a server does with an idle container: the sequence begins at 0.
        old, new = 41, 0
        self.assertEqual(self.book("mark", old, 1), 1)
        admit = "UPDATE fence SET mark = %d WHERE path = '/locks/account' AND mark <= %d"
        self.assertEqual(self.session.run(admit % (new, new)), 0)
        self.assertEqual(self.book("mark", old, 1), 2)
        # Counted on from the birth of the directory, as zkl_grant.token is:
        self.setUp()
        self.assertEqual(self.book("mark", BIRTH + old, 1), 1)
        self.assertEqual(self.book("mark", NEXT_BIRTH + new, 1), 2)
        self.assertIsNone(self.book("mark", BIRTH + old, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
