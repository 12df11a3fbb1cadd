# SPDX-License-Identifier: Apache-2.0
"""zklock-fence: whom it lets in, what the command finds, and who holds the fence when one of its processes is killed."""

import fcntl
import os
import pty
import resource
import signal
import struct
import subprocess
import sys
import time
import unittest

from support import BINARY, CommandTest, cgroups_of, lives, own_cgroup, state_of, wait_for

OLD, TOKEN, NEW = "4294967297", "4294967301", "4294967302"


class FenceTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.fence = self.file("fence")

    def greatest(self):
        return int(self.text("fence")[20:40])

    def is_free(self):
        """Nobody is in there: the lock of the file could be taken."""
        with open(self.fence, "r+b") as file:
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, lock)
            return struct.unpack("hhqqi4x", found)[0] == fcntl.F_UNLCK

    def inside(self, *command, token=TOKEN):
        """A command that runs, behind the fence."""
        ready = self.file("ready-" + token)
        script = 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@"'
        wrapper = self.start(self.fence, token, "--", "sh", "-c", script, ready, *(command or ("sleep", "1000")))
        wait_for(lambda: os.path.exists(ready) or wrapper.poll() is not None, "the command runs")
        if wrapper.poll() is not None:
            self.fail("it ended: %r" % (wrapper.result(),))
        wrapper.command = int(self.text("ready-" + token))
        return wrapper

    def somebody_waits(self):
        end = ":%d 0 EOF" % os.stat(self.fence).st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            return any(" -> " in line and line.rstrip().endswith(end) for line in locks)


class WhoComesIn(FenceTest):
    def test_older_token_is_refused_with_one_line(self):
        self.assertEqual(self.call(self.fence, TOKEN, "--", "true"), (0, b"", b""))
        self.assertEqual(self.call(self.fence, TOKEN, "true"), (0, b"", b""))
        status, out, err = self.call(self.fence, OLD, "--", "touch", self.file("ran"))
        self.assertEqual((status, out), (79, b""))
        self.assert_one_line(err, self.fence, "token %s is older than %s" % (OLD, TOKEN))
        self.assertFalse(os.path.exists(self.file("ran")))
        self.assertEqual(self.call(self.fence, NEW, "--", "true")[0], 0)
        self.assertEqual(self.greatest(), int(NEW))

    def test_next_one_waits_until_the_command_has_ended(self):
        first = self.inside("sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.01; done; echo first >> "$1"',
                            self.file("go"), self.file("log"))
        second = self.start(self.fence, NEW, "--", "sh", "-c", 'echo second >> "$0"', self.file("log"))
        wait_for(self.somebody_waits, "it waits")
        # A stale one need not.
        self.assertEqual(self.call(self.fence, OLD, "--", "true")[0], 79)
        with open(self.file("go"), "w", encoding="ascii"):
            pass
        self.assertEqual((first.end(), second.end()), (0, 0))
        self.assertEqual(self.text("log"), "first\nsecond\n")

    def test_waiter_dies_by_a_signal_and_lets_nobody_in(self):
        self.inside()
        waiter = self.start(self.fence, NEW, "--", "touch", self.file("ran"))
        wait_for(self.somebody_waits, "it waits")
        waiter.send_signal(signal.SIGTERM)
        self.assertEqual(waiter.result(), (-signal.SIGTERM, b"", b""))
        self.assertEqual(self.greatest(), int(TOKEN))
        self.assertFalse(self.is_free())

    def test_wait_that_is_not_wanted_or_over_lets_nobody_in(self):
        self.inside()
        for arguments, least in (("-n",), 0), (("-w", "0"), 0), (("-w", "300ms"), 0.3), (("--wait=0.001",), 0):
            with self.subTest(arguments=arguments):
                began = time.monotonic()
                self.assertEqual(self.call(*arguments, self.fence, NEW, "--", "touch", self.file("ran")), (75, b"", b""))
                self.assertGreaterEqual(time.monotonic() - began, least)
                # What is stale is not busy.
                self.assertEqual(self.call(*arguments, self.fence, OLD, "--", "true")[0], 79)
        self.assertEqual(self.greatest(), int(TOKEN))
        self.assertFalse(os.path.exists(self.file("ran")))
        self.assertFalse(self.is_free())

    def test_wait_ends_on_time_whatever_alarms_did_before(self):
        self.inside()
        for prepare in (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN),
                        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})):
            self.assertEqual(self.call("-w", "100ms", self.fence, NEW, "--", "true", preexec_fn=prepare), (75, b"", b""))

    def test_alarm_is_not_the_waits(self):
        """Who has started it may have set a timer, which outlasts exec; and ALRM may be ignored."""
        self.assertEqual(self.call("-w", "1h", self.fence, TOKEN, "--", "sleep", "1000", preexec_fn=lambda: signal.alarm(1))[0],
                         -signal.SIGALRM)
        self.inside()
        self.assertEqual(self.call("-w", "1h", self.fence, NEW, "--", "true", preexec_fn=lambda: signal.alarm(1))[0],
                         -signal.SIGALRM)
        began = time.monotonic()
        waiter = self.start("-w", "2s", self.fence, NEW, "--", "true",
                            preexec_fn=lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN))
        wait_for(self.somebody_waits, "it waits")
        waiter.send_signal(signal.SIGALRM)
        self.assertEqual(waiter.result()[0], 75)
        self.assertGreaterEqual(time.monotonic() - began, 2)

    def test_command_finds_alarms_as_they_were(self):
        """And none goes off in it."""
        look = ("sh", "-c", "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status")
        for prepare in (None, lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN),
                        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})):
            without = self.call(self.fence, TOKEN, "--", *look, preexec_fn=prepare)
            self.assertEqual(without[0], 0)
            self.assertEqual(self.call("-w", "1h", self.fence, TOKEN, "--", *look, preexec_fn=prepare), without)
        self.assertEqual(self.call("-w", "200ms", self.fence, TOKEN, "--", "sleep", "1"), (0, b"", b""))

    def test_wait_long_enough(self):
        first = self.inside("sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.01; done', self.file("go"))
        second = self.start("-w", "1h", self.fence, NEW, "--", "sh", "-c", "exit 3")
        wait_for(self.somebody_waits, "it waits")
        with open(self.file("go"), "w", encoding="ascii"):
            pass
        self.assertEqual((first.end(), second.result()), (0, (3, b"", b"")))

    def test_file_that_is_removed_while_one_waits_lets_nobody_in(self):
        first = self.inside("sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.01; done; rm "$1"', self.file("go"), self.fence)
        waiter = self.start(self.fence, NEW, "--", "touch", self.file("ran"))
        wait_for(self.somebody_waits, "it waits")
        with open(self.file("go"), "w", encoding="ascii"):
            pass
        self.assertEqual(first.end(), 0)
        status, out, err = waiter.result()
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "zklock-fence: %s was removed or replaced while open: open it again" % self.fence)
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_fence_within_itself_is_refused_and_another_is_not(self):
        status, _, err = self.call(self.fence, TOKEN, "--", BINARY, "%s/../%s/fence" % (
            self.folder, os.path.basename(self.folder)), TOKEN, "--", "true")
        self.assertEqual(status, 64)
        self.assert_one_line(err, "under the same fence already")
        self.assertEqual(self.call(self.fence, TOKEN, "--", BINARY, self.file("other"), "1", "--", "true")[0], 0)


    def test_limit_to_the_size_of_files(self):
        def small():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        status, out, err = self.call(self.fence, TOKEN, "--", "true", preexec_fn=small)
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "File too large")
        self.assertFalse(os.path.exists(self.fence))
        self.assertEqual(self.call(self.fence, OLD, "--", "grep", "-q", "^SigBlk:.0*$", "/proc/self/status")[0], 0)
        status, out, err = self.call(self.fence, TOKEN, "--", "touch", self.file("ran"), preexec_fn=small)
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, self.fence, "File too large")
        self.assertEqual(self.greatest(), int(OLD))
        self.assertFalse(os.path.exists(self.file("ran")))


class TheCommand(FenceTest):
    def test_status_is_the_commands(self):
        for status in (0, 1, 64, 79, 125, 126, 127, 255):
            with self.subTest(status=status):
                self.assertEqual(self.call(self.fence, TOKEN, "--", "sh", "-c", "exit %d" % status), (status, b"", b""))

    def test_death_by_signal_is_ours_too(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE):
            with self.subTest(signal=number):
                self.assertEqual(self.call(self.fence, TOKEN, "--", sys.executable, "-c",
                                           "import os,signal; signal.signal(13,signal.SIG_DFL); os.kill(os.getpid(),%d)"
                                           % number, cwd=self.folder), (-number, b"", b""))

    def test_that_cannot_be_executed(self):
        for command, expected, reason in (("/no/such", 127, "No such file"), (self.folder, 126, "Permission denied")):
            status, out, err = self.call(self.fence, TOKEN, "--", command)
            self.assertEqual((status, out), (expected, b""))
            self.assert_one_line(err, 'cannot execute "%s"' % command, reason)
        self.assertTrue(self.is_free())

    def test_finds_its_token_and_no_descriptor_of_ours(self):
        script = "import os; print(os.environ['ZKLOCK_TOKEN'], 'ZKLOCK_PATH' in os.environ, " \
                 "sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
        status, out, err = self.call(self.fence, TOKEN, "--", sys.executable, "-c", script)
        self.assertEqual((status, out.decode(), err), (0, "%s False [0, 1, 2]\n" % TOKEN, b""))

    def test_standard_input_and_output_pass_through(self):
        data = os.urandom(200000)
        wrapper = self.start(self.fence, TOKEN, "--", "cat", stdin=subprocess.PIPE)
        self.assertEqual(wrapper.communicate(data, timeout=30), (data, b""))

    def test_signals_are_passed_on(self):
        wrapper = self.inside("sh", "-c", 'trap "exit 7" TERM; : > "$0"; while :; do sleep 0.01; done', self.file("trap"))
        wait_for(lambda: os.path.exists(self.file("trap")), "the trap is set")
        wrapper.send_signal(signal.SIGTERM)
        status, _, err = wrapper.result()
        self.assertEqual((status, b"zklock" in err), (7, False))

    def test_what_it_leaves_behind_is_waited_for(self):
        wrapper = self.inside("sh", "-c", 'setsid sleep 1 & echo $! > "$0.new"; mv "$0.new" "$0"; exit 3', self.file("left"))
        left = int(wait_for(lambda: self.text("left"), "it was left behind"))
        waiter = self.start(self.fence, NEW, "--", "sh", "-c", "! kill -0 %d" % left, stderr=subprocess.DEVNULL)
        self.assertEqual(waiter.end(), 0)
        self.assertEqual(wrapper.result(), (3, b"", b""))
        self.assertTrue(self.is_free())


class Killed(FenceTest):
    def test_wrapper_the_command_is_ended_before_anyone_comes_in(self):
        # It takes its time to end; there is another below it that does not end by TERM.
        script = 'trap "" TERM; echo $$ > "$0"; while :; do sleep 0.01; done'
        wrapper = self.inside("sh", "-c", 'trap "" TERM; sh -c \'%s\' "$0"; :' % script, self.file("below"))
        below = int(wait_for(lambda: self.text("below"), "the one below runs"))
        wrapper.kill()
        wrapper.wait()
        waiter = self.start(self.fence, NEW, "--", "sh", "-c", "! kill -0 %d && ! kill -0 %d" % (wrapper.command, below),
                            stderr=subprocess.DEVNULL)
        self.assertEqual(waiter.end(), 0)

    def test_warden_the_command_is_ended_before_anyone_comes_in(self):
        wrapper = self.inside("sh", "-c", 'setsid sleep 1000 & echo $! > "$0"; wait', self.file("below"))
        below = int(wait_for(lambda: self.text("below"), "the one below runs"))
        os.kill(wrapper.warden(), signal.SIGKILL)
        waiter = self.start(self.fence, NEW, "--", "sh", "-c", "! kill -0 %d && ! kill -0 %d" % (wrapper.command, below),
                            stderr=subprocess.DEVNULL)
        self.assertEqual(waiter.end(), 0)
        status, _, err = wrapper.result()
        self.assertEqual(status, 125)
        self.assert_one_line(err, "zklock-warden process was killed")

    def test_both_the_command_dies_with_them(self):
        wrapper = self.inside()
        self.kill_at_once(wrapper.pid, wrapper.warden())
        wait_for(lambda: not lives(wrapper.command), "the command is dead")

    @unittest.skipIf(own_cgroup() is None, "no cgroup can be made here")
    def test_both_with_a_cgroup_what_was_started_is_ended_before_anyone_comes_in(self):
        wrapper = self.inside("sh", "-c", "trap '' TERM; setsid sleep 1000 & exec sleep 1000")
        wait_for(lambda: len(self.marked()) == 2, "both run")
        self.kill_at_once(wrapper.pid, wrapper.warden())
        wait_for(self.is_free, "nobody is in there")
        self.assert_nothing_lives()
        wait_for(lambda: not cgroups_of(wrapper.pid), "the cgroup is removed")

    def test_wrapper_is_stopped_and_the_fence_stays_held(self):
        wrapper = self.inside("sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.01; done', self.file("go"))
        wrapper.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(wrapper.pid) == "T", "it is stopped")
        self.assertFalse(self.is_free())
        with open(self.file("go"), "w", encoding="ascii"):
            pass
        wait_for(lambda: not lives(wrapper.command), "the command has ended")
        self.assertFalse(self.is_free())
        wrapper.send_signal(signal.SIGCONT)
        self.assertEqual(wrapper.result(), (0, b"", b""))


class Terminal(FenceTest):
    def test_ctrl_z_has_no_effect_where_no_shell_could_continue_it(self):
        pid, terminal = pty.fork()
        if pid == 0:
            # No shell: one that is about to run something cannot be stopped for a moment, in vfork.
            script = "import signal, sys\n" \
                     "signal.signal(signal.SIGCONT, lambda *_: sys.exit(3))\n" \
                     "open(sys.argv[1], 'w').close()\n" \
                     "while True: signal.pause()\n"
            os.execve(BINARY, [BINARY, self.fence, TOKEN, "--", sys.executable, "-c", script, self.file("runs")],
                      self.environment())
        try:
            wait_for(lambda: os.path.exists(self.file("runs")), "the command runs")
            os.write(terminal, b"\x1a")
            wait_for(lambda: state_of(pid) == "Z", "it has ended")
        finally:
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 3)

    def test_command_that_others_stop_and_continue_is_in_the_foreground_again(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(BINARY, [BINARY, self.fence, TOKEN, "--", "sleep", "1000"], self.environment())
        try:
            command = wait_for(lambda: next((each for each in self.marked() if os.getpgid(each) == each), 0), "it runs")
            wait_for(lambda: os.tcgetpgrp(terminal) == command, "the terminal is the command's")
            os.kill(command, signal.SIGSTOP)
            wait_for(lambda: os.tcgetpgrp(terminal) == pid, "the terminal is ours")
            os.kill(command, signal.SIGCONT)
            wait_for(lambda: os.tcgetpgrp(terminal) == command, "the terminal is the command's again")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)

    def test_ctrl_z_stops_both_and_fg_continues_both(self):
        pid, terminal = pty.fork()
        if pid == 0:
            # A shell with job control: all of it that is needed.
            script = 'set -m; "$0" "$1" %s -- sh -c \'echo $$ > "$1/pid"; read x; echo "got $x" > "$1/got"\' sh "$2"; ' \
                     'echo stopped > "$2/stopped"; fg; echo $? > "$2/status"' % TOKEN
            os.execvpe("bash", ["bash", "-c", script, BINARY, self.fence, self.folder], self.environment())
        try:
            command = int(wait_for(lambda: self.text("pid"), "the command runs"))
            wait_for(lambda: os.tcgetpgrp(terminal) == command, "the command has the terminal")
            os.write(terminal, b"\x1a")
            wait_for(lambda: self.text("stopped"), "the shell has the terminal")
            self.assertFalse(self.is_free())
            wait_for(lambda: os.tcgetpgrp(terminal) == command and state_of(command) == "S", "the command goes on")
            os.write(terminal, b"line\n")
            self.assertEqual(wait_for(lambda: self.text("status"), "the job has ended"), "0\n")
            self.assertEqual(self.text("got"), "got line\n")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)


class WrongUse(FenceTest):
    def test_is_told_in_one_line(self):
        for arguments, expected in (((), "no FILE given"), ((self.fence,), "no TOKEN given"),
                                    ((self.fence, TOKEN), "no COMMAND given"), ((self.fence, TOKEN, "--"), "no COMMAND given"),
                                    ((self.fence, "0", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "-1", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "+1", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "1x", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "9223372036854775808", "--", "true"), "TOKEN must be a number"),
                                    ((self.fence, "99999999999999999999", "--", "true"), "TOKEN must be a number"),
                                    (("-x", self.fence, TOKEN, "--", "true"), "unknown option -x"),
                                    (("-xy", self.fence, TOKEN, "--", "true"), "unknown option -xy"),
                                    (("--what", self.fence, TOKEN, "--", "true"), "unknown option --what")):
            with self.subTest(arguments=arguments):
                status, out, err = self.call(*arguments)
                self.assertEqual((status, out), (64, b""))
                self.assert_one_line(err, expected, "zklock-fence --help")
        self.assertFalse(os.path.exists(self.fence))

    def test_file_that_will_not_do(self):
        with open(self.fence, "w", encoding="ascii") as file:
            file.write("not a fence's\n")
        for name, expected in ((self.fence, "is not a fence's file"), (self.file("no/such"), "cannot open the directory"),
                               (self.folder + "/", "is a directory: name a file in it")):
            status, out, err = self.call(name, TOKEN, "--", "true")
            self.assertEqual((status, out), (125, b""))
            self.assert_one_line(err, expected)

    def test_help_and_version(self):
        status, out, err = self.call("--help")
        self.assertEqual((status, err), (0, b""))
        self.assertIn(b"79", out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()))
        status, out, err = self.call("--version")
        self.assertEqual((status, err), (0, b""))
        self.assertRegex(out, rb"\Azklock-fence \d+\.\d+\.\d+\n\Z")

    def test_needs_no_zookeeper(self):
        needed = subprocess.run(["readelf", "-d", BINARY], stdout=subprocess.PIPE, check=True).stdout
        self.assertNotIn(b"zookeeper", needed)


if __name__ == "__main__":
    unittest.main()
