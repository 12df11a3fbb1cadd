# SPDX-License-Identifier: Apache-2.0
"""What the command leaves behind: ended before the lock is released, and nobody else with it."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
import unittest
import uuid

from support import BINARY, SEIZE, WAIT_ALL, CommandTest, lives, parent_of, read_proc, state_of, trace, wait_for

# Bodies of processes that do not want to end. Each says that it is there before it goes on.
READY = 'touch "$READY.$1"; '
DEAF = "trap '' TERM HUP INT; " + READY + "while :; do sleep 1000; done"
# A child that whoever becomes zklock-run has already.
ELDER = 'sleep 1000 >/dev/null 2>&1 & echo $! > "$1"; '
STOPPED = READY + "kill -STOP $$; while :; do sleep 1000; done"


class Leftovers(CommandTest):
    def leave(self, *arguments, script, ready=1):
        """Runs a command that starts something and exits with 7 when that runs."""
        wait = 'while [ "$(ls "$READY".* 2>/dev/null | wc -l)" -lt %d ]; do sleep 0.01; done; exit 7' % ready
        began = time.monotonic()
        status, out, err = self.call(*arguments, self.lock, "--", "sh", "-c", script + "\n" + wait,
                                     env={"READY": self.file("ready"), "DEAF": DEAF, "STOPPED": STOPPED})
        self.assertEqual((status, out), (7, b""), err)
        self.assert_nothing_lives()
        self.assert_free(2)
        return time.monotonic() - began

    def test_are_ended_and_the_status_stays(self):
        self.assertEqual(self.call(self.lock, "--", "sh", "-c", "sleep 1000 & exit 0"), (0, b"", b""))
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_get_the_grace_to_end_in(self):
        script = "sh -c 'trap \"sleep 0.3; echo done > $0; exit\" TERM; touch \"$READY.1\"; " \
                 "while :; do sleep 0.01; done' " + self.file("tidied") + " &"
        self.leave("-k", "2.5", script=script)
        self.assertEqual(self.text("tidied"), "done\n")

    def test_that_ignore_term_are_killed_after_the_grace(self):
        took = self.leave("-k", "0.4", script='sh -c "$DEAF" deaf 1 & sh -c "$DEAF" deaf 2 &', ready=2)
        self.assertGreaterEqual(took, 0.4)

    def test_in_a_session_of_their_own(self):
        self.leave(script='setsid sh -c "$DEAF" deaf 1 </dev/null >/dev/null 2>&1 &')

    def test_that_have_forked_twice(self):
        self.leave("-k", "0.1", script="(setsid sh -c '(setsid sh -c \"$DEAF\" deaf 1 &) &' &) &")

    def test_that_are_stopped(self):
        self.leave("-k", "0.3", script='sh -c "$STOPPED" stopped 1 &')

    def test_that_flee_by_forking(self):
        """Each process of the chain lives for a moment only: whoever is signalled is gone already."""
        flee = "trap \"\" TERM; flee() { flee & }; touch \"$READY.$1\"; flee"
        self.leave("-k", "0.2", script="for n in 1 2 3; do sh -c '%s' flee $n & done" % flee, ready=3)

    def test_that_multiply(self):
        grow = "trap \"\" TERM; touch \"$READY.$1\"; n=0; " \
               "while [ $n -lt 300 ]; do (sleep 1000 & sleep 1000) & n=$((n+1)); done; wait"
        self.leave("-k", "0.1", script="sh -c '%s' grow 1 &" % grow)

    def test_lock_stays_held_until_they_are_gone(self):
        ready = self.file("ready.1")
        script = 'sh -c "$DEAF" deaf 1 & while [ ! -e "$READY.go" ]; do sleep 0.01; done; exit 0'
        holder = self.begin("-T", "10", "-k", "2", self.lock, "--", "sh", "-c", script,
                            env={"READY": self.file("ready"), "DEAF": DEAF}, until=lambda: os.path.exists(ready), what="it runs")
        with open(self.file("ready.go"), "w", encoding="ascii"):
            pass
        while True:
            alive = bool(self.marked())
            busy = bool(self.nodes())
            # Asked in this order: who was alive before the node was seen to be gone was alive without the lock.
            self.assertTrue(busy or not self.marked())
            if not alive and not busy:
                break
        self.assertEqual(holder.end(), 0)

    def test_daemon_is_ended_with_its_command(self):
        """A lock is held for what runs under it: a command that turns into a daemon takes nothing along."""
        self.leave(script='setsid sh -c "touch $READY.1; exec sleep 1000" </dev/null >/dev/null 2>&1 &')


class TracedTest(CommandTest):
    """By a process that stands outside (strace -p) and does not come to wait, as this test: it is not ours to reap then, and no
    SIGCHLD tells of its end. Whoever is traced here starts nothing meanwhile: at each signal but KILL it would stop."""

    def setUp(self):
        super().setUp()
        os.mkfifo(self.file("go"))
        os.chmod(self.file("go"), 0o666)

    def seize(self, pid):
        trace(SEIZE, pid)
        self.addCleanup(self.let_go, pid)
        return pid

    @staticmethod
    def let_go(pid):
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, WAIT_ALL)

    def hold_traced(self, *arguments, end="exit 5", leave=""):
        """The command ends when it is told to go."""
        runs = "runs-" + uuid.uuid4().hex
        holder = self.hold(*arguments, command=("sh", "-c", leave + ': >"$1"; read line <"$0"; ' + end, self.file("go"),
                                                self.file(runs)))
        wait_for(lambda: os.path.exists(self.file(runs)), "it runs")
        self.seize(holder.command)
        return holder

    def go(self):
        with open(self.file("go"), "w", encoding="ascii") as file:
            file.write("\n")

    def assert_zombie(self, pid):
        self.assertEqual(state_of(pid), "Z", "its tracer has it")


class Traced(TracedTest):
    def test_command_that_ends(self):
        for how, status in (("exit 5", 5), ("kill -KILL $$", -signal.SIGKILL)):
            with self.subTest(how=how):
                holder = self.hold_traced(end=how)
                self.go()
                self.assertEqual(holder.result(), (status, b"", b""))
                self.assert_zombie(holder.command)
                self.assert_free(2)

    def test_command_that_is_killed_and_leaves_something_behind(self):
        holder = self.hold_traced("-k", "1", leave="sleep 1000 & ")
        os.kill(holder.command, signal.SIGKILL)
        self.assertEqual(holder.result(), (-signal.SIGKILL, b"", b""))
        self.assert_zombie(holder.command)
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_what_is_left_behind_and_killed(self):
        """Its tracer keeps TERM from it, not KILL."""
        holder = self.hold("-k", "0.1", command=("sh", "-c", 'sleep 1000 & echo $! >"$0"; read line <"$1"', self.file("left"),
                                                 self.file("go")))
        left = self.seize(int(wait_for(lambda: self.text("left"), "it runs")))
        self.go()
        self.assertEqual(holder.result(), (0, b"", b""))
        self.assert_zombie(left)
        self.assert_free(2)

    def test_what_is_waited_for_and_ends(self):
        script = 'sh -c \'echo $$ >"$0"; read line <"$1"\' "$0" "$1" &'
        holder = self.hold("--wait-all", command=("sh", "-c", script, self.file("left"), self.file("go")))
        left = self.seize(int(wait_for(lambda: self.text("left"), "it runs")))
        wait_for(lambda: not lives(holder.command), "the command has ended")
        self.assertEqual(len(self.nodes()), 1)
        self.go()
        self.assertEqual(holder.result(), (0, b"", b""))
        self.assert_zombie(left)
        self.assert_free(2)

    def test_lock_that_is_lost(self):
        holder = self.hold_traced("-T", "6", "-k", "0.5")
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assert_zombie(holder.command)

    def test_warden_that_is_killed(self):
        holder = self.hold_traced()
        os.kill(holder.warden(), signal.SIGKILL)
        self.assertEqual(holder.end(), 125)
        self.assert_zombie(holder.command)
        self.assert_free(2)

    def test_warden_that_is_traced_and_killed(self):
        holder = self.hold()
        os.kill(self.seize(holder.warden()), signal.SIGKILL)
        self.assertEqual(holder.end(), 125)
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_leader_leads_on(self):
        leader = self.start("--leader", self.lock, "--", "sh", "-c", 'echo $$ >>"$0"; read line <"$1"; exit 0', self.file("led"),
                            self.file("go"))
        for term in (1, 2, 3):
            wait_for(lambda term=term: self.text("led").count("\n") == term, "it leads")
            self.seize(int(self.text("led").split()[-1]))
            self.go()
        wait_for(lambda: self.text("led").count("\n") == 4, "it leads again")
        leader.terminate()
        self.assertEqual(leader.end(), -signal.SIGTERM)

    def test_command_of_which_the_end_is_not_shown(self):
        """It is another user's."""
        if os.geteuid() != 0:
            self.skipTest("only root can make a program that changes its identity")
        program = self.file("sleep")
        os.chmod(self.folder, 0o777)
        shutil.copy("/bin/sleep", program)
        os.chmod(program, 0o4755)
        nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        self.prefix = (*self.prefix, *nobody) if nobody != self.prefix else nobody
        holder = self.hold(command=(program, "1000"))
        wait_for(lambda: read_proc(holder.command, "comm") == b"sleep\n", "the program runs")
        if b"\nUid:\t65534\t0\t" not in read_proc(holder.command, "status"):
            self.skipTest("no program changes its identity here")
        os.kill(self.seize(holder.command), signal.SIGKILL)
        status, out, err = holder.result()
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "told to the process that traces it")
        self.assert_free(2)


class Outsiders(CommandTest):
    def outsider(self, **options):
        other = subprocess.Popen(["sleep", "1000"], **options)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        return other

    def test_are_left_alone(self):
        others = [self.outsider(), self.outsider(start_new_session=True)]
        self.assertEqual(self.call("-k", "0.1", self.lock, "--", "sh", "-c", "trap '' TERM; sleep 1000 & exit 0")[0], 0)
        self.assertTrue(all(other.poll() is None for other in others))


    def test_children_of_who_became_us_are_left_alone(self):
        script = ELDER + 'exec "$0" $OPTIONS "$2" -- sh -c "sleep 1000 & exit 4"'
        done = subprocess.run([*self.prefix, "sh", "-c", script, BINARY, self.file("elder"), self.lock],
                              env=self.environment(OPTIONS=" ".join(self.options)), stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stderr), (4, b""))
        self.assertTrue(lives(int(self.text("elder"))))

    def test_children_of_who_became_us_are_left_alone_when_the_warden_is_killed(self):
        ready = self.file("ready")
        script = ELDER + 'exec "$0" $OPTIONS "$2" -- sh -c "touch $3; sleep 1000"'
        shell = subprocess.Popen([*self.prefix, "sh", "-c", script, BINARY, self.file("elder"), self.lock, ready],
                                 env=self.environment(OPTIONS=" ".join(self.options)), stderr=subprocess.PIPE)
        self.addCleanup(self.reap, shell)
        wait_for(lambda: os.path.exists(ready), "the command runs")
        elder = int(self.text("elder"))
        warden, = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                   if parent_of(pid) == shell.pid and read_proc(pid, "comm") == b"zklock-warden\n"]
        os.kill(warden, signal.SIGKILL)
        self.assertEqual(shell.wait(20), 125)
        self.assertEqual(self.marked(), [elder])
        self.assertEqual(state_of(elder), "S")

    def test_what_these_have_left_behind_is_left_alone_too(self):
        """It becomes a child of zklock-run, as what the command has left behind does when the warden is killed."""
        ready, heard = self.file("ready"), self.file("heard")
        elder = '(while [ ! -e "$1.go" ]; do sleep 0.01; done; (sleep 1000 & echo $! > "$1.new"); mv "$1.new" "$1"; ' \
                'exec sleep 1000) >/dev/null 2>&1 & '
        command = 'trap "echo >> $1" USR1; touch "$0"; while :; do sleep 0.02; done'
        shell = subprocess.Popen([*self.prefix, "sh", "-c", elder + 'exec "$0" $OPTIONS "$2" -- sh -c "$3" "$4" "$5"', BINARY,
                                  self.file("orphan"), self.lock, command, ready, heard],
                                 env=self.environment(OPTIONS=" ".join(self.options)), stderr=subprocess.PIPE)
        self.addCleanup(self.reap, shell)
        wait_for(lambda: os.path.exists(ready), "the command runs")
        with open(self.file("orphan.go"), "w", encoding="ascii"):
            pass
        orphan = int(wait_for(lambda: self.text("orphan"), "it was left behind"))
        wait_for(lambda: parent_of(orphan) == shell.pid, "it is a child of ours")
        # At the second one the front has looked around since.
        for count in (1, 2):
            shell.send_signal(signal.SIGUSR1)
            wait_for(lambda count=count: self.text("heard") == "\n" * count, "the command has heard")
        warden, = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                   if parent_of(pid) == shell.pid and read_proc(pid, "comm") == b"zklock-warden\n"]
        os.kill(warden, signal.SIGKILL)
        self.assertEqual(shell.wait(20), 125)
        self.assertIn(orphan, self.marked())
        self.assertEqual(len(self.marked()), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
