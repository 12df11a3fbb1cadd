# SPDX-License-Identifier: Apache-2.0
"""A real terminal: Ctrl-C, Ctrl-Z, reading, and whose turn it is afterwards.

The shell is a few lines of Python that lead a session and run one job: what job control asks of a shell, and nothing
else."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import unittest

from support import BINARY, SERVERS, CommandTest, lives, parent_of, state_of, wait_for

# Says "stopped" and "ended STATUS" of its job, and whether the terminal is its own then; puts it into the foreground and
# continues it when told "fg".
SHELL = r"""
import os, signal, sys, termios
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
if 'TOSTOP' in os.environ:
    state = termios.tcgetattr(0)
    state[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, state)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    if 'BACKGROUND' not in os.environ:
        os.tcsetpgrp(0, os.getpid())
    for number in (signal.SIGTTOU, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])
def fg(*_):
    os.tcsetpgrp(0, pid)
    os.killpg(pid, signal.SIGCONT)
signal.signal(signal.SIGUSR1, fg)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    where = 'job' if os.tcgetpgrp(0) == pid else 'other'
    if os.WIFSTOPPED(status):
        os.tcsetpgrp(0, os.getpid())
        os.write(log, b'stopped %s\n' % where.encode())
    else:
        os.write(log, b'ended %d %s\n' % (os.waitstatus_to_exitcode(status), where.encode()))
        break
"""


# Counts until it may go. No shell: one that is about to run something cannot be stopped for a moment, in vfork.
COUNT = (sys.executable, "-c", r"""
import os, time
ready = os.environ['READY']
open(ready, 'w').close()
while not os.path.exists(ready + '.go'):
    with open(ready + '.ran', 'a') as file:
        file.write('x')
    time.sleep(0.01)
""")


class TerminalTest(CommandTest):
    # What the shell shall know.
    hints = ()

    def shell(self, *arguments, script="", command=None, program=None, ready=True):
        """The job, on a terminal of its own."""
        program = program or (BINARY, *self.options, *arguments, self.lock, "--", *(command or ("sh", "-c", script)))
        pid, self.terminal = pty.fork()
        if pid == 0:
            env = self.environment(READY=self.file("ready"), **dict.fromkeys(self.hints, ""))
            os.execve(sys.executable, [sys.executable, "-c", SHELL, self.file("shell"), *program], env)
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(self.end_shell, pid)
        if ready:
            wait_for(lambda: os.path.exists(self.file("ready")), "the command runs")
        return pid

    def end_shell(self, pid):
        for each in self.marked() + [pid]:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.waitpid(pid, 0)

    def job(self):
        """The zklock-run that the shell has started."""
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if os.readlink("/proc/%d/exe" % pid) == BINARY and os.getpgid(pid) == pid and \
                   self.lock.encode() in open_bytes("/proc/%d/cmdline" % pid) and \
                   open_bytes("/proc/%d/comm" % pid) == b"zklock-run\n":
                    return pid
            except OSError:
                continue
        return 0

    def press(self, key):
        os.write(self.terminal, key)

    def told(self, line):
        wait_for(lambda: self.text("shell").splitlines()[-1:] == [line], "the shell sees: " + line)

    def foreground(self):
        return os.tcgetpgrp(self.terminal)

    @staticmethod
    def proceed(job):
        """fg"""
        os.kill(parent_of(job), signal.SIGUSR1)


class Terminal(TerminalTest):
    def reaches_the_command_once(self, key, name):
        """In the test's own folder: it may leave a core."""
        script = 'cd "${READY%%/*}"; trap \'echo told >> "$READY.told"; trap - %s; kill -%s $$\' %s; touch "$READY"; ' \
                 'while :; do sleep 0.02; done' % (name, name, name)
        self.shell(script=script)
        command = self.foreground()
        self.press(key)
        self.told("ended -%d job" % signal.Signals["SIG" + name])
        self.assertEqual(self.text("ready.told"), "told\n")
        self.assertFalse(lives(command))
        self.assert_free(2)

    def ends_the_wait(self, key, name):
        holder = self.hold()
        self.shell(script="true", ready=False)
        wait_for(lambda: len(self.nodes()) == 2, "it has queued")
        self.press(key)
        self.told("ended -%d job" % signal.Signals["SIG" + name])
        self.assert_contenders(1)
        self.assertIsNone(holder.poll())

    def test_ctrl_c_reaches_the_command_once_and_the_wrapper_dies_of_it(self):
        self.reaches_the_command_once(b"\x03", "INT")

    def test_ctrl_c_while_waiting(self):
        self.ends_the_wait(b"\x03", "INT")

    def test_command_reads_from_the_terminal(self):
        self.shell(script='touch "$READY"; read line; echo "$line" > "$READY.line"')
        self.press(b"what was typed\n")
        self.told("ended 0 job")
        self.assertEqual(self.text("ready.line"), "what was typed\n")

    def test_command_reads_until_the_end(self):
        self.shell(command=("sh", "-c", 'touch "$READY"; exec cat > "$READY.all"'))
        self.press(b"one\ntwo\n\x04")
        self.told("ended 0 job")
        self.assertEqual(self.text("ready.all"), "one\ntwo\n")

    def test_ctrl_backslash_ends_the_command_by_quit(self):
        self.reaches_the_command_once(b"\x1c", "QUIT")

    def test_ctrl_backslash_while_waiting(self):
        self.ends_the_wait(b"\x1c", "QUIT")

    def test_command_hears_of_a_new_size(self):
        script = "import os, signal, sys, time\n" \
                 "signal.signal(signal.SIGWINCH, lambda *_: sys.exit(os.get_terminal_size(0).columns))\n" \
                 "open(os.environ['READY'], 'w').close()\n" \
                 "while True: time.sleep(1)\n"
        self.shell(command=(sys.executable, "-c", script))
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 77, 0, 0))
        self.told("ended 77 job")

    def test_in_the_background_who_reads_is_stopped_and_goes_on_in_the_foreground(self):
        self.background(script='touch "$READY"; read line; echo "$line" > "$READY.line"; exit 4')
        command = wait_for(self.stopped, "it is stopped")
        self.assertEqual(self.call("-n", self.lock, "--", "true")[0], 75)
        self.press(b"what was typed\n")
        job = self.job()
        self.proceed(job)
        self.told("ended 4 job")
        self.assertEqual(self.text("ready.line"), "what was typed\n")
        self.assertFalse(lives(command))

    def test_in_the_background_who_writes_is_stopped_where_the_terminal_says_so(self):
        self.background(script='touch "$READY"; echo out; exit 4', tostop=True)
        wait_for(self.stopped, "it is stopped")
        self.proceed(self.job())
        self.told("ended 4 job")

    def test_in_the_background_who_needs_no_terminal_runs(self):
        self.background(script='touch "$READY"; exit 4')
        self.told("ended 4 other")

    def background(self, script, tostop=False):
        """A job of a shell that keeps the terminal. When told, it is put into the foreground."""
        self.hints = ("BACKGROUND", "TOSTOP") if tostop else ("BACKGROUND",)
        self.shell(script=script)

    def stopped(self):
        """The command, once it is."""
        found = [pid for pid in self.marked() if state_of(pid) == "T"]
        return found[0] if found else 0

    def test_command_is_in_the_foreground_and_we_are_afterwards(self):
        self.shell("--min-hold", "1h", script='ps -o tpgid=,pgid= -p $$ > "$READY.ps"; touch "$READY"; exit 3')
        first, second = self.text("ready.ps").split()
        self.assertEqual(first, second)
        job = wait_for(self.job, "it holds on")
        wait_for(lambda: self.foreground() == job, "the terminal is ours again")
        self.press(b"\x03")
        self.told("ended 3 job")

    def test_terminal_is_taken_back_from_a_group_that_is_gone(self):
        script = "import os, signal\n" \
                 "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n" \
                 "pid = os.fork()\n" \
                 "if pid == 0:\n" \
                 "    os.setpgid(0, 0)\n" \
                 "    os.tcsetpgrp(0, os.getpid())\n" \
                 "    os._exit(0)\n" \
                 "os.waitpid(pid, 0)\n"
        self.shell(command=(sys.executable, "-c", script), ready=False)
        self.told("ended 0 job")

    def test_ctrl_c_ends_a_command_that_is_stopped(self):
        self.shell(command=COUNT)
        command = self.foreground()
        job = wait_for(self.job, "it runs")
        self.press(b"\x1a")
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        self.press(b"\x03")
        wait_for(lambda: self.text("shell").startswith("ended"), "the job ends")
        self.assertFalse(lives(command))
        self.assert_free(2)

    def test_ctrl_z_stops_the_command_and_the_lock_stays_held(self):
        self.shell("-T", "6", command=COUNT)
        command = self.foreground()
        job = wait_for(self.job, "it runs")
        self.press(b"\x1a")
        wait_for(lambda: state_of(command) == "T", "the command is stopped")
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        # The front goes on: the lock is held beyond what a session without heartbeats would last.
        done = self.call("-w", "8", self.lock, "--", "true")
        self.assertEqual(done[0], 75)
        self.assertEqual(state_of(command), "T")
        self.assertIn(state_of(job), "SR")
        # Once more, and the job is the shell's.
        self.press(b"\x1a")
        self.told("stopped job")
        self.proceed(job)
        wait_for(lambda: state_of(command) in ("S", "R"), "the command goes on")
        wait_for(lambda: self.foreground() == command, "in the foreground")
        with open(self.file("ready.go"), "w", encoding="ascii"):
            pass
        self.told("ended 0 job")

    def test_stopped_beyond_the_lease_it_is_killed_and_does_not_go_on(self):
        self.shell("-T", "6", command=COUNT)
        command = self.foreground()
        job = wait_for(self.job, "it runs")
        self.press(b"\x1a")
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        self.press(b"\x1a")
        self.told("stopped job")
        wait_for(lambda: not lives(command), "the command is dead")
        wait_for(lambda: not self.nodes(), "the session has expired")
        ran = self.text("ready.ran")
        self.proceed(job)
        self.told("ended 76 job")
        self.assertEqual(self.text("ready.ran"), ran)

    def test_command_that_others_stop_and_continue_is_in_the_foreground_again(self):
        self.shell(command=COUNT)
        command = self.foreground()
        job = wait_for(self.job, "it runs")
        os.kill(command, signal.SIGSTOP)
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        os.kill(command, signal.SIGCONT)
        wait_for(lambda: self.foreground() == command, "the terminal is the command's")
        # It is the command that Ctrl-Z stops, and nothing but the command.
        self.press(b"\x1a")
        wait_for(lambda: state_of(command) == "T", "the command is stopped")
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        self.press(b"\x03")
        wait_for(lambda: self.text("shell"), "the job ends")
        self.assertTrue(self.text("shell").startswith("ended"))

    def test_ctrl_c_ends_what_the_command_has_left_behind(self):
        shell = self.shell("--wait-all", script="sh -c 'trap \"\" INT TERM; while :; do sleep 0.05; done' & "
                                                "touch $READY; exit 3")
        job = wait_for(self.job, "it waits")
        wait_for(lambda: self.foreground() == job, "the terminal is ours")
        self.press(b"\x03")
        self.told("ended 3 job")
        self.assertEqual([pid for pid in self.marked() if pid != shell], [])

    def test_hang_up_ends_the_command(self):
        self.shell(script='touch "$READY"; while :; do sleep 0.02; done')
        command = self.foreground()
        os.kill(wait_for(self.job, "it runs"), signal.SIGHUP)
        self.told("ended -1 job")
        self.assertFalse(lives(command))


class Script(TerminalTest):
    """A script that waits for us is in our process group: without us Ctrl-C would have reached it as well as the command."""

    def run_script(self, script, *program):
        program = program or (BINARY, self.lock, "--", "sh", "-c", script)
        self.shell(program=("bash", "-c", '"$@"; echo "$?" >"$READY.on"', "script", *program))

    def test_ctrl_c_ends_it_with_the_command(self):
        self.run_script('touch "$READY"; while :; do sleep 0.02; done')
        self.press(b"\x03")
        self.told("ended -2 job")
        self.assertFalse(os.path.exists(self.file("ready.on")))
        self.assert_free(2)

    def test_ctrl_c_that_the_command_handles_does_not(self):
        self.run_script('trap "exit 3" INT; touch "$READY"; while :; do sleep 0.02; done')
        self.press(b"\x03")
        self.told("ended 0 job")
        self.assertEqual(self.text("ready.on"), "3\n")

    def test_signal_that_is_only_the_commands_does_not(self):
        self.run_script('touch "$READY"; kill -TERM $$; while :; do sleep 0.02; done')
        self.told("ended 0 job")
        self.assertEqual(self.text("ready.on"), "143\n")

    def test_the_same_behind_a_fence(self):
        self.run_script(None, os.path.join(os.path.dirname(BINARY), "zklock-fence"), self.file("fence"), "5", "--", "sh", "-c",
                        'touch "$READY"; while :; do sleep 0.02; done')
        self.press(b"\x03")
        self.told("ended -2 job")
        self.assertFalse(os.path.exists(self.file("ready.on")))


class BesideScript(TerminalTest):
    """A script that goes on beside us (`zklock-run ... &`) is in our process group, too, and keeps its terminal."""

    def run_script(self, script, *program):
        program = program or (BINARY, *self.options, self.lock)
        self.shell(program=("bash", "-c", '"$@" & ' + script, "script", *program, "--", "sh", "-c",
                            'touch "$READY"; exec sleep 1000'))

    def test_script_reads_from_the_terminal(self):
        for fence in (False, True):
            with self.subTest(fence=fence):
                program = (os.path.join(os.path.dirname(BINARY), "zklock-fence"), self.file("fence"), "5") if fence else ()
                self.run_script('while [ ! -e "$READY" ]; do sleep 0.02; done; '
                                'read -r line; echo "$line" >"$READY.on"; kill $!; wait', *program)
                self.press(b"hello\n")
                self.told("ended 0 job")
                self.assertEqual(self.text("ready.on"), "hello\n")
                for each in ("ready", "ready.on", "shell"):
                    os.unlink(self.file(each))

    def test_ctrl_c_is_the_scripts(self):
        self.run_script("trap 'kill $!; exit 4' INT; wait")
        self.press(b"\x03")
        self.told("ended 4 job")


class Leader(TerminalTest):
    def test_ctrl_c_ends_it(self):
        self.shell("--leader", script='touch "$READY"; while :; do sleep 0.02; done')
        self.press(b"\x03")
        self.told("ended -2 job")

    def test_hang_up_below_a_shell_ends_it(self):
        shell = self.shell("--leader", script='touch "$READY"; while :; do sleep 0.02; done')
        job = wait_for(self.job, "it runs")
        os.kill(shell, signal.SIGKILL)
        wait_for(lambda: not lives(job), "it has heard of it")


# Takes away what the line was in.
ERASE = "\r\033[K"


class Progress(TerminalTest):
    """What is shown on the terminal of who waits."""

    def setUp(self):
        super().setUp()
        self.seen = ""
        self.term = "xterm"

    def shell(self, *arguments, columns=200, **options):
        pid = super().shell(*arguments, **options)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        return pid

    def see(self):
        """All that has come so far."""
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                self.seen += os.read(self.terminal, 65536).decode()
            except OSError:
                break
        return self.seen

    def shown(self, *parts):
        def is_shown():
            line = self.see().rpartition(ERASE)[2]
            return all(part in line for part in parts)
        try:
            wait_for(is_shown, "the line says: " + " ... ".join(parts))
        except AssertionError as error:
            raise AssertionError("%s; all that was seen: %r" % (error, self.seen)) from error

    def environment(self, **more):
        return super().environment(**dict({"TERM": self.term}, **more))

    def test_line_follows_the_queue_and_goes_before_the_command_speaks(self):
        holder = self.hold("--name", "nightly")
        other = self.queue()
        self.shell(script="echo out; exit 3", ready=False)
        self.shown("waiting, 2nd of 2, held by ", ":%d nightly since " % holder.pid, ": " + self.lock)
        other.terminate()
        self.shown(", 1st of ")
        # Looked at again without an event.
        self.queue(ahead=2)
        self.shown(", 1st of 2, held by ")
        self.assertNotIn("\n", self.see())
        holder.terminate()
        self.told("ended 3 job")
        self.assertEqual(self.see().rpartition(ERASE)[2], "out\r\n")

    def test_line_goes_with_a_signal(self):
        self.hold()
        self.shell(script="true", ready=False)
        self.shown("1st of 1")
        self.press(b"\x03")
        self.told("ended -2 job")
        self.assertEqual(self.see().rpartition(ERASE)[2], "")

    def test_line_stays_below_what_is_said(self):
        self.hold()
        self.shell("-v", script="true", ready=False)
        self.shown("waiting, 1st of 1")
        lines = [line for line in self.see().replace(ERASE, "").split("\r\n") if "is held by" in line]
        self.assertEqual(len(lines), 1, self.seen)

    def test_line_is_not_shown_beside_a_script(self):
        self.hold()
        self.shell(program=("bash", "-c", '"$@" & touch "$READY"; read -r line; kill $!; wait', "script", BINARY, *self.options, "-v",
                            self.lock, "true"))
        wait_for(lambda: "held by" in self.see(), "it knows who holds")
        self.press(b"hello\n")
        self.told("ended 0 job")
        self.assertNotIn("waiting,", self.see())

    def test_line_says_that_nobody_is_there(self):
        self.shell("-s", "127.0.0.1:1", script="true", ready=False)
        self.shown("no server in reach (127.0.0.1:1: Connection refused)")
        self.press(b"\x03")
        self.told("ended -2 job")

    def test_line_is_cut_to_the_width(self):
        self.hold()
        self.shell(script="true", ready=False, columns=40)
        wait_for(lambda: 0 < len(self.see().rpartition(ERASE)[2]) <= 39, "the line is cut")

    def test_nothing_is_shown_where_it_is_not_wanted(self):
        self.hold()
        for arguments, term in ((("-q",), "xterm"), ((), "dumb")):
            with self.subTest(arguments=arguments, term=term):
                self.term = term
                self.shell(*arguments, "-w", "5", script="true", ready=False)
                # And not 69: it has queued.
                self.told("ended 75 job")
                self.assertEqual(self.see(), "")
                os.remove(self.file("shell"))


class NoShell(TerminalTest):
    """Nobody could continue us (ssh -t host zklock-run): the kernel lets Ctrl-Z stop nobody there."""

    def lead(self, *arguments, env=None):
        """A zklock-run that leads the session of its terminal."""
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execve(arguments[0], arguments, self.environment(**(env or {})))
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(self.end_leader, pid)
        return pid

    @staticmethod
    def end_leader(pid):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def ends_with(self, pid, status):
        wait_for(lambda: state_of(pid) == "Z", "it has ended")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), status)

    def test_command_goes_on(self):
        script = "import os, signal, time\nready = os.environ['READY']\n" \
                 "signal.signal(signal.SIGCONT, lambda *_: open(ready + '.continued', 'w').close())\n" \
                 "open(ready, 'w').close()\nwhile not os.path.exists(ready + '.go'):\n    time.sleep(0.01)\n"
        pid = self.lead(BINARY, self.lock, "--", sys.executable, "-c", script, env={"READY": self.file("ready")})
        wait_for(lambda: os.path.exists(self.file("ready")), "the command runs")
        command = self.foreground()
        self.press(b"\x1a")
        wait_for(lambda: os.path.exists(self.file("ready.continued")), "the command is continued")
        self.assertEqual(self.foreground(), command)
        with open(self.file("ready.go"), "w", encoding="ascii"):
            pass
        self.ends_with(pid, 0)

    def test_waiter_goes_on(self):
        holder = self.hold()
        pid = self.lead(BINARY, self.lock, "--", "sh", "-c", "exit 3")
        wait_for(lambda: len(self.nodes()) == 2, "it has queued")
        self.press(b"\x1a")
        wait_for(lambda: b"^Z" in os.read(self.terminal, 65536), "the terminal has sent it")
        holder.terminate()
        self.ends_with(pid, 3)


class Pipeline(TerminalTest):
    def start_pipeline(self, pipe="|"):
        """The job is a shell without job control, and its group that of the pipeline."""
        reader = "import os, sys\nsys.stdin.readline()\nfd = os.open('/dev/tty', os.O_RDWR)\n" \
                 "open(sys.argv[1], 'w').write(str(os.tcgetpgrp(fd) == os.getpgrp()))\n"
        script = "import os, sys, time\nready = os.environ['READY']\n" \
                 "def await_file(name):\n    while not os.path.exists(name):\n        time.sleep(0.01)\n" \
                 "with open(ready, 'w') as file:\n    file.write(str(os.getpid()))\n" \
                 "await_file(ready + '.go')\nprint('out', file=sys.stderr if os.isatty(1) else sys.stdout, flush=True)\nawait_file(ready + '.answer')\n"
        self.shell(program=("/bin/sh", "-c", '"$0" "$1" -- "$3" -c "$2" %s "$3" -c "$4" "$READY.answer"' % pipe, BINARY,
                            self.lock, script, sys.executable, reader))
        command = int(wait_for(lambda: self.text("ready").strip(), "the command runs"))
        return self.foreground(), command

    def answer(self):
        """What the pager sees while the command runs."""
        with open(self.file("ready.go"), "w", encoding="ascii"):
            pass
        self.told("ended 0 job")
        self.assertEqual(self.text("ready.answer"), "True")

    def test_pager_behind_us_keeps_the_terminal(self):
        """A pipeline is one job: what we put into the foreground would put the others into the background."""
        for pipe in ("|", "2>&1 >/dev/tty |"):
            with self.subTest(pipe=pipe):
                self.start_pipeline(pipe)
                self.answer()
                for each in ("ready", "ready.go", "ready.answer", "shell"):
                    os.unlink(self.file(each))

    def start_asking(self, *arguments):
        """A command that reads from the terminal when it is told to end. It was not in the foreground until then."""
        script = "import os, signal, sys\nready = os.environ['READY']\n" \
                 "def ask(*_):\n    open(ready + '.line', 'w').write(open('/dev/tty').readline())\n    sys.exit(0)\n" \
                 "signal.signal(signal.SIGTERM, ask)\nopen(ready, 'w').close()\nwhile True: signal.pause()\n"
        self.shell(program=("/bin/sh", "-c", '{ "$@"; echo "$?" >"$READY.status"; } | cat', "sh", BINARY, *arguments,
                            self.lock, "--", sys.executable, "-c", script))
        self.press(b"what was typed\n")

    def assert_asked(self, status):
        self.told("ended 0 job")
        self.assertEqual((self.text("ready.line"), self.text("ready.status")), ("what was typed\n", "%d\n" % status))

    def test_command_that_is_told_to_end_may_ask(self):
        self.start_asking("--max-hold", "10s")
        self.assert_asked(78)

    def test_command_that_has_lost_the_lock_may_ask(self):
        """In its grace."""
        self.start_asking("-T", "10", "-k", "2.5")
        self.lose()
        self.assert_asked(76)

    def test_pager_keeps_it_after_a_stop_too(self):
        job, command = self.start_pipeline()
        self.press(b"\x1a")
        self.told("stopped job")
        wait_for(lambda: state_of(command) == "T", "the command is stopped")
        self.proceed(job)
        wait_for(lambda: state_of(command) in ("S", "R"), "the command goes on")
        self.answer()


class NoTerminal(CommandTest):
    def test_without_a_controlling_terminal(self):
        done = subprocess.run([BINARY, "-s", SERVERS, self.lock, "--", "sh", "-c", "exit 8"], env=self.environment(),
                              start_new_session=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 8)

    def test_with_nothing_open_at_all(self):
        for command, status in (("exit 8", 8), ("kill -TERM $$", -15), ("exec /no/such/command", 127)):
            with self.subTest(command=command):
                done = subprocess.run(["sh", "-c", 'exec "$0" "$1" -- sh -c "$2" <&- >&- 2>&-', BINARY, self.lock, command],
                                      env=self.environment(), start_new_session=True, cwd="/", check=False)
                self.assertEqual(done.returncode, status)


def open_bytes(path):
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main(verbosity=2)
