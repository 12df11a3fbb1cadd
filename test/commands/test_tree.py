# SPDX-License-Identifier: Apache-2.0
"""What the command leaves behind: ended before the lock is released, and nobody else with it."""

import os
import signal
import subprocess
import time
import unittest

from support import BINARY, CommandTest, lives, parent_of, read_proc, state_of, wait_for

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
        began = time.monotonic()
        self.assertEqual(self.call(self.lock, "--", "sh", "-c", "sleep 1000 & exit 0"), (0, b"", b""))
        self.assertLess(time.monotonic() - began, 5)
        self.assert_nothing_lives()
        self.assert_free(2)

    def test_get_the_grace_to_end_in(self):
        script = "sh -c 'trap \"sleep 0.3; echo done > $0; exit\" TERM; touch \"$READY.1\"; " \
                 "while :; do sleep 0.01; done' " + self.file("tidied") + " &"
        self.leave("-k", "2", script=script)
        self.assertEqual(self.text("tidied"), "done\n")

    def test_that_ignore_term_are_killed_after_the_grace(self):
        took = self.leave("-k", "0.4", script='sh -c "$DEAF" deaf 1 & sh -c "$DEAF" deaf 2 &', ready=2)
        self.assertTrue(0.4 <= took < 10, took)

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
        script = 'sh -c "$DEAF" deaf 1 & while [ ! -e "$READY.1" ]; do sleep 0.01; done; exit 0'
        holder = self.start("-T", "8", "-k", "2", self.lock, "--", "sh", "-c", script,
                            env={"READY": self.file("ready"), "DEAF": DEAF})
        wait_for(lambda: os.path.exists(ready), "it runs")
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
