# SPDX-License-Identifier: Apache-2.0
"""What the options do: how long the lock is held, what is waited for, who one says one is, with what credentials."""

import contextlib
import os
import signal
import time
import unittest

from support import SERVERS, TICK_S, CommandTest, state_of, wait_for, zkwire

# Does not want to end, and says that it is there.
DEAF = "trap '' TERM HUP INT; touch \"$0\"; while :; do sleep 1000; done"


class HoldTest(CommandTest):
    def ready(self, *names):
        wait_for(lambda: all(os.path.exists(self.file(name)) for name in names), "these are there: %s" % (names,))

    def in_time(self, attempt):
        """attempt(SECONDS) is true with a --max-hold that is long enough for what the command does first, on a busy machine."""
        for seconds in (1, 4, 16):
            for name in os.listdir(self.folder):
                os.remove(self.file(name))
            if attempt(seconds):
                return
        self.fail("no --max-hold was long enough")


class MaxHold(HoldTest):
    def test_ends_the_command(self):
        def takes():
            began = time.monotonic()
            status, out, err = self.call("--max-hold", "1", self.lock, "--", "sleep", "1000")
            took = time.monotonic() - began
            self.assertEqual((status, out), (78, b""))
            self.assert_one_line(err, "--max-hold", "1.000 s")
            self.assertGreaterEqual(took, 1)
            self.assert_nothing_lives()
            self.assert_free(2)
            return took
        # At least once on a machine as busy as this.
        wait_for(lambda: takes() < 5, "it ends in time")

    def test_status_is_its_own_whatever_the_command_says(self):
        script = 'trap "echo told >> $0; exit 0" TERM; while :; do sleep 0.02; done'

        def is_told(seconds):
            self.assertEqual(self.call("--max-hold", str(seconds), self.lock, "--", "sh", "-c", script, self.file("told"))[0], 78)
            return self.text("told") == "told\n"
        self.in_time(is_told)

    def test_kills_after_the_grace(self):
        script = 'sh -c "$1" "$0.1" & setsid sh -c "$1" "$0.2" & eval "$1"'

        def all_are_deaf(seconds):
            began = time.monotonic()
            holder = self.start("-T", "8", "-k", "1.5", "--max-hold", str(seconds), self.lock, "--", "sh", "-c", script,
                                self.file("deaf"), DEAF)
            self.assertEqual(holder.end(), 78)
            self.assert_nothing_lives()
            self.assert_free(2)
            if not all(os.path.exists(self.file(name)) for name in ("deaf", "deaf.1", "deaf.2")):
                return False
            self.assertGreaterEqual(time.monotonic() - began, seconds + 1.5)
            return True
        self.in_time(all_are_deaf)

    def test_ends_a_command_that_is_stopped(self):
        holder = self.hold("--max-hold", "4", command=("sh", "-c", "kill -STOP $$"))
        wait_for(lambda: state_of(holder.command) == "T" or holder.poll() is not None, "the command is stopped")
        self.assertEqual(holder.end(), 78)
        self.assert_nothing_lives()

    def test_counts_from_the_grant(self):
        holder = self.hold()
        began = time.monotonic()
        waiter = self.queue("--max-hold", "4", command=("sh", "-c", "sleep 0.2; exit 4"))
        wait_for(lambda: time.monotonic() - began > 5, "it has waited for longer than that")
        holder.terminate()
        self.assertEqual(waiter.result(), (4, b"", b""))

    def test_command_that_ends_in_time(self):
        self.assertEqual(self.call("--max-hold", "1h", self.lock, "--", "sh", "-c", "exit 5"), (5, b"", b""))

    def test_loss_counts_more(self):
        script = 'trap "touch $0.told" TERM; touch "$0"; while :; do sleep 0.02; done'

        def loses_it_in_its_grace(seconds):
            holder = self.start("-T", "8", "-k", "2", "--max-hold", str(seconds), self.lock, "--", "sh", "-c", script,
                                self.file("run"))
            wait_for(lambda: os.path.exists(self.file("run.told")) or holder.poll() is not None, "it is told")
            with contextlib.suppress(ValueError, zkwire.Refused):
                self.lose()
            self.assertIn(holder.end(), (76, 78))
            return holder.returncode == 76
        self.in_time(loses_it_in_its_grace)


class WaitAll(HoldTest):
    def test_what_is_left_behind_may_end_by_itself(self):
        """Also in a session of its own. The lock is held meanwhile, and the status is the command's."""
        script = 'setsid sh -c \'while [ ! -e "$0.go" ]; do sleep 0.02; done; touch "$0.done"\' "$0" & touch "$0"; exit 7'
        holder = self.start("--wait-all", self.lock, "--", "sh", "-c", script, self.file("left"),
                            stdout=None, stderr=None)
        self.ready("left")
        self.assertEqual(self.call("-n", self.lock, "--", "true")[0], 75)
        wait_for(lambda: len(self.marked()) == 1 or holder.poll() is not None, "the command itself has ended")
        self.assertIsNone(holder.poll())
        with open(self.file("left.go"), "w", encoding="ascii"):
            pass
        self.assertEqual(holder.end(), 7)
        self.assertTrue(os.path.exists(self.file("left.done")))
        self.assert_free(2)

    def test_nothing_left_behind(self):
        self.assertEqual(self.call("--wait-all", self.lock, "--", "sh", "-c", "exit 7"), (7, b"", b""))

    def leave(self, *arguments):
        """Somebody who ignores TERM is all that is left of the command."""
        holder = self.start("-T", "8", "-k", "0.5", "--wait-all", *arguments, self.lock, "--", "sh", "-c",
                            'sh -c "$1" "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exit 7', self.file("deaf"),
                            DEAF)
        self.ready("deaf")
        wait_for(lambda: state_of(holder.pid) and not self.shells_of(holder), "the command has ended")
        return holder

    def shells_of(self, holder):
        with open("/proc/%d/task/%d/children" % (holder.warden(), holder.warden()), encoding="ascii") as file:
            return [pid for pid in map(int, file.read().split()) if b"exit 7" in self.command_line(pid)]

    @staticmethod
    def command_line(pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                return file.read()
        except OSError:
            return b""

    def test_signal_ends_it_all(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                holder = self.leave("--min-hold", "1h")
                holder.send_signal(number)
                self.assertEqual(holder.end(), 7)
                self.assert_nothing_lives()
                os.remove(self.file("deaf"))

    def test_loss_ends_it_all(self):
        holder = self.leave()
        self.lose(contenders=1)
        self.assertEqual(holder.end(), 76)
        self.assert_nothing_lives()

    def test_max_hold_ends_it_all(self):
        began = time.monotonic()
        holder = self.leave("--max-hold", "5")
        self.assertEqual(holder.end(), 78)
        self.assertGreaterEqual(time.monotonic() - began, 5.5)
        self.assert_nothing_lives()

    def test_front_killed_ends_it_all(self):
        holder = self.leave()
        holder.kill()
        wait_for(lambda: not self.marked(), "nothing of it lives")


class Name(CommandTest):
    def test_is_shown_to_others(self):
        holder = self.hold("--name", "nightly report")
        self.assertIn(":%d nightly report" % holder.pid, self.told_who_holds().decode())


class Margin(CommandTest):
    def test_lease_ends_earlier(self):
        """A front that is stopped proves nothing any more: the warden ends the command at the end of the lease, which is
        5T/8 behind the newest proof by default, and no proof is older than a heartbeat, T/6."""
        session_s = 8

        def lives_on():
            began = time.monotonic()
            holder = self.hold("-T", str(session_s), "-k", "0", "--margin", str(session_s * 5 / 8))
            wait_for(lambda: time.monotonic() - began > session_s / 2 or holder.poll() is not None, "heartbeats flow")
            stopped = time.monotonic()
            holder.send_signal(signal.SIGSTOP)
            wait_for(lambda: not self.marked(), "the command is dead")
            took = time.monotonic() - stopped
            lost = holder.poll()
            self.assertIn(lost, (None, 76))
            self.reap(holder)
            self.assert_free()
            return session_s if lost else took
        # At least once on a machine as busy as this, where such a lease may also be lost before.
        wait_for(lambda: lives_on() < session_s * (5 / 8 - 1 / 6), "it ends earlier")

    def test_that_does_not_fit_what_the_servers_grant(self):
        asked, granted = 3 * 20 * TICK_S, 20 * TICK_S
        status, out, err = self.call("-T", str(asked), "--margin", str(asked / 2), self.lock, "--", "true")
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, "--margin", "granted, %d ms" % (granted * 1000))
        self.assertEqual(self.nodes(), [])

    def test_refusals_name_the_options(self):
        for arguments, part in ((("-T", "20ms"), "-T: \"20ms\" is too short"),
                                (("-T", "100h"), "-T: more than a day"),
                                (("--margin", "1s"), "--margin: 1000 ms"),
                                (("--margin", "5s", "-T", "2s"), "--margin: 5000 ms")):
            with self.subTest(arguments=arguments):
                status, out, err = self.call(*arguments, self.lock, "--", "true")
                self.assertEqual((status, out), (64, b""))
                self.assert_one_line(err, part)


class Credentials(CommandTest):
    def setUp(self):
        super().setUp()
        # What the library makes under credentials is for these alone, missing parents too.
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock.rpartition("/")[0])

    def auth(self, text, name="auth", mode=0o600):
        with open(self.file(name), "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(self.file(name), mode)
        return self.file(name)

    def test_give_access_and_others_have_none(self):
        ours = self.auth("# ours\n\ndigest:user:secret\n")
        self.hold("--auth-file", ours)
        with self.assertRaises(zkwire.Refused):
            self.nodes()
        self.assertEqual(self.call("-n", "--auth-file", ours, self.lock, "--", "true"), (75, b"", b""))
        for arguments in ((), ("--auth-file", self.auth("digest:user:wrong", "other"))):
            for more in ((), ("-n",)):
                status, out, err = self.call(*arguments, *more, self.lock, "--", "touch", self.file("ran"))
                self.assertEqual((status, out), (77, b""))
                self.assert_one_line(err, self.lock)
                self.assertNotIn(b"wrong", err)
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_from_the_environment(self):
        env = {"ZKLOCK_AUTH_FILE": self.auth("digest:user:secret")}
        self.assertEqual(self.call(self.lock, "--", "true", env=env), (0, b"", b""))
        self.assertEqual(self.call(self.lock, "--", "true")[0], 77)
        wrong = self.auth("digest:user:wrong", "wrong")
        self.assertEqual(self.call("--auth-file", wrong, self.lock, "--", "true", env=env)[0], 77)

    def test_several_are_all_shown(self):
        one, two = self.auth("digest:one:1", "one"), self.auth("digest:two:2", "two")
        both = self.auth("digest:one:1\ndigest:two:2\n", "both")
        self.assertEqual(self.call("--auth-file", both, self.lock, "--", "true"), (0, b"", b""))
        for each in (one, two):
            self.assertEqual(self.call("--auth-file", each, self.lock, "--", "true"), (0, b"", b""))
        self.assertEqual(self.call("--auth-file", one, self.lock + "/b", "--", "true")[0], 0)
        self.assertEqual(self.call("--auth-file", two, self.lock + "/b", "--", "true")[0], 77)

    def test_scheme_that_the_servers_do_not_know(self):
        status, out, err = self.call("--auth-file", self.auth("user:secret\n"), self.lock, "--", "true")
        self.assertEqual((status, out), (77, b""))
        self.assert_one_line(err, "auth")

    def refused(self, path, *parts):
        status, out, err = self.call("--auth-file", path, self.lock, "--", "true")
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, path, *parts)
        self.assertNotIn(b"secret", err)

    def test_files_that_are_refused(self):
        for mode in (0o640, 0o604, 0o660, 0o622):
            self.refused(self.auth("digest:user:secret", mode=mode), "chmod 600")
        self.refused(self.file("none"), "No such file")
        os.mkdir(self.file("folder"), 0o700)
        self.refused(self.file("folder"), "Is a directory")
        self.refused(self.auth(""), "no credential")
        self.refused(self.auth("# ours\nsecret\n"), "line 2", "digest:user:password")
        self.refused(self.auth("x" * 100000), "too long")
        self.refused(self.auth("digest:secret\n"), "line 1", "needs a user and a password", "digest:user:password")
        for scheme in ("ip", "world", "auth", "sasl", "x509"):
            self.refused(self.auth("digest:user:secret\n%s:secret\n" % scheme), "line 2", "scheme " + scheme)

    @staticmethod
    def opened(wrapper, number):
        """Has it opened the pipe that it was started with once more?"""
        folder = "/proc/%d/fd/" % wrapper.pid
        try:
            links = [os.readlink(folder + each) for each in os.listdir(folder)]
            return links.count(os.readlink(folder + str(number))) == 2
        except OSError:
            return False

    def test_pipes(self):
        """One that nobody writes to is not waited for, but who writes to it is: a shell's <(...)."""
        os.mkfifo(self.file("pipe"), 0o600)
        self.refused(self.file("pipe"), "no credential")
        read, write = os.pipe()
        wrapper = self.start("--auth-file", "/dev/fd/%d" % read, self.lock, "--", "true", pass_fds=(read,))
        os.close(read)
        wait_for(lambda: self.opened(wrapper, read) or wrapper.poll() is not None, "it reads")
        os.write(write, b"digest:user:secret\n")
        os.close(write)
        self.assertEqual(wrapper.result(), (0, b"", b""))
        with self.assertRaises(zkwire.Refused):
            self.nodes()

    def test_byte_order_mark(self):
        with open(self.auth(""), "w", encoding="utf-8-sig") as file:
            file.write("digest:user:secret\r\n")
        self.assertEqual(self.call("--auth-file", self.file("auth"), self.lock, "--", "true"), (0, b"", b""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
