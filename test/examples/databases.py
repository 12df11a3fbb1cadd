# SPDX-License-Identifier: Apache-2.0
"""Databases of a test's own."""

import glob
import os
import pwd
import sqlite3
import subprocess

PATIENCE = 60.0


class Sqlite:
    """A database in a file. BEGIN is what a careful transaction begins with."""
    BEGIN = "BEGIN IMMEDIATE"

    def __init__(self, folder):
        self.name = os.path.join(folder, "database")

    def session(self):
        return SqliteSession(self.name)

    @staticmethod
    def somebody_waits(other):
        """Whoever wants to write now cannot: a waiter of SQLite's polls, and nobody sees it."""
        try:
            other.run("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        other.run("ROLLBACK")
        return False

    def close(self):
        pass


class SqliteSession:
    def __init__(self, name):
        self.connection = sqlite3.connect(name, timeout=0, isolation_level=None)

    def run(self, sql):
        """Rows changed, or the first value."""
        cursor = self.connection.execute(sql)
        row = cursor.fetchone()
        return row[0] if row else cursor.rowcount

    def script(self, sql):
        self.connection.executescript(sql)

    def close(self):
        self.connection.close()


class Postgres:
    """A server of our own, on a socket in a folder."""
    BEGIN = "BEGIN"

    def __init__(self, folder):
        self.tools = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.data = os.path.join(folder, "data")
        # It refuses to run as root.
        self.user = None
        if os.geteuid() == 0:
            self.user = pwd.getpwnam("postgres")
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.call("initdb", "-D", self.data, "-A", "trust", "-U", "fence", "-E", "UTF8", "--locale=C")
        self.call("pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", os.path.join(folder, "log"), "-o",
                  "-c listen_addresses='' -c unix_socket_directories='%s'" % folder, "start")
        self.name = "host=%s user=fence dbname=fence" % folder
        self.call("createdb", "-h", folder, "-U", "fence", "fence")

    def call(self, tool, *arguments):
        run_as = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        subprocess.run([os.path.join(self.tools, tool), *arguments], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, cwd="/", timeout=120, **run_as)

    def session(self):
        return PostgresSession(self)

    @staticmethod
    def somebody_waits(other):
        return other.run("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"

    def close(self):
        self.call("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")


class PostgresSession:
    def __init__(self, database):
        self.psql = subprocess.Popen([os.path.join(database.tools, "psql"), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                                      database.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, sql):
        self.psql.stdin.write(sql + ";\n\\echo ---\n")
        self.psql.stdin.flush()
        lines = []
        for line in self.psql.stdout:
            if line == "---\n":
                first = lines[0].split() if lines else [""]
                return int(first[-1]) if first[0] in ("UPDATE", "INSERT") else lines[0] if lines else ""
            lines.append(line.rstrip("\n"))
        raise AssertionError("psql ended")

    def script(self, sql):
        for statement in sql.split(";"):
            if any(line and not line.startswith("--") for line in statement.splitlines()):
                self.run(statement)

    def close(self):
        self.psql.stdin.close()
        self.psql.wait(PATIENCE)
        self.psql.stdout.close()


def of_kind(kind):
    return {"sqlite": Sqlite, "postgres": Postgres}[kind]
