# SPDX-License-Identifier: Apache-2.0
"""zklock-run --leader: who leads runs the command, whoever is deposed ends it first, and all of them go on until they are
told to stop."""

import os
import re
import signal
import subprocess
import time
import unittest
import uuid

from support import SERVERS, TICK_S, CommandTest, lives, parent_of, read_proc, wait_for, zkwire

# Says when it began and by which term, and ends with the status in the file NAME.status, or by a signal.
TERM = r"""
log=$1
echo "$2 $ZKLOCK_EPOCH $ZKLOCK_TOKEN $ZKLOCK_NODE $ZKLOCK_PATH $(date +%s%N)" >> "$log"
while [ ! -e "$log.$2" ]; do sleep 0.01; done
status=$(cat "$log.$2")
rm "$log.$2"
exit "$status"
"""


class LeaderTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.log = self.file("log")

    def lead(self, name, *arguments, script=TERM, **options):
        """A candidate whose command says `name` in each of its terms."""
        candidate = self.start("--leader", "-v", *arguments, self.lock, "--", "sh", "-c", script, "term", self.log, name,
                               stderr=self.told(name, "w"), **options)
        candidate.name = name
        return candidate

    def told(self, name, mode="r"):
        """What it says goes into a file, so that it can be waited for."""
        # pylint: disable=consider-using-with
        file = open(self.file(name + ".err"), mode, encoding="utf-8")
        self.addCleanup(file.close)
        return file

    def lines(self, name, pattern=""):
        return [line for line in self.text(name + ".err").splitlines() if re.search(pattern, line)]

    def queue_up(self, *names, arguments=()):
        """Candidates in this order."""
        found = []
        for at, name in enumerate(names):
            found.append(self.lead(name, *arguments))
            wait_for(lambda: len(self.nodes()) == at + 1, "it stands")  # pylint: disable=cell-var-from-loop
        return found

    def terms(self):
        """(name, epoch, token, node, path, nanoseconds) of each term so far."""
        found = []
        for line in self.text("log").splitlines():
            name, epoch, token, node, path, at = line.split()
            found.append((name, int(epoch), int(token), node, path, int(at)))
        return found

    def begun(self, *names):
        """These terms have begun, in this order, and no others. Returns the last one."""
        wait_for(lambda: len(self.terms()) >= len(names), "terms of %s, not %s" % (names, self.terms()))
        terms = self.terms()
        self.assertEqual([term[0] for term in terms], list(names))
        return terms[-1]

    def commands(self):
        found = [pid for pid in self.marked() if b"\0term\0" in read_proc(pid, "cmdline")]
        # What a shell is about to run is a shell for a moment.
        return [pid for pid in found if parent_of(pid) not in found]

    def end_term(self, name, status=0):
        path = self.log + "." + name
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(str(status))
        os.rename(path + ".new", path)

    def stop(self, candidate, number=signal.SIGTERM):
        candidate.send_signal(number)
        self.assertEqual(candidate.end(), -number, self.lines(candidate.name))


class Terms(LeaderTest):
    def test_command_finds_its_term_in_the_environment(self):
        leader = self.lead("a")
        _, epoch, token, node, path, _ = self.begun("a")
        self.assertEqual((epoch, path), (0, self.lock))
        self.assertGreater(token, 0)
        self.assertEqual(node, self.lock + "/" + self.nodes()[0])
        self.assertIn("-latch-", node)
        self.end_term("a")
        second = self.begun("a", "a")
        self.assertEqual((second[1], second[2]), (1, token + 1))
        self.assertNotEqual(second[3], node)
        self.stop(leader)
        self.assert_free(2)

    def test_command_that_ends_lets_the_next_one_lead(self):
        first, second = self.queue_up("a", "b")
        self.begun("a")
        self.end_term("a")
        self.begun("a", "b")
        wait_for(lambda: len(self.nodes()) == 2, "the first one campaigns again")
        self.end_term("b")
        self.begun("a", "b", "a")
        self.stop(second)
        self.stop(first)
        self.assertEqual([line.split(": ")[1].split()[0] for line in
                          self.lines("a", "elected|resigned|campaigning|deposed")],
                         ["elected", "resigned", "campaigning", "elected"])
        self.assert_free(2)

    def test_what_the_command_left_behind_is_ended_before_the_next_one_leads(self):
        script = 'setsid sh -c \'trap "" TERM; touch "$0"; while :; do sleep 1000; done\' "$1.left" & ' \
                 'while [ ! -e "$1.left" ]; do sleep 0.01; done; echo $! > "$1.pid"; exit 0'
        first = self.lead("a", "-T", "8", "-k", "0.5", script=script)
        wait_for(lambda: self.text("log.pid"), "the command has left something behind")
        left = int(self.text("log.pid"))
        second = self.lead("b")
        self.begun("b")
        self.assertFalse(lives(left))
        self.stop(second)
        first.kill()

    def test_killed_leader_is_followed_when_its_session_is_over(self):
        session_s = 4
        lock = self.lock

        def takes():
            self.lock = lock + "-" + uuid.uuid4().hex[:8]
            for name in os.listdir(self.folder):
                os.remove(self.file(name))
            first, second = self.queue_up("a", "b", arguments=("-T", str(session_s)))
            wait_for(self.terms, "the first one leads")
            killed = time.monotonic()
            first.kill()
            # A busy machine may have cost the first one its lease before that.
            wait_for(lambda: self.terms()[-1][0] == "b", "the second one leads")
            took = time.monotonic() - killed
            self.assertEqual(len(self.commands()), 1)
            self.assertEqual(sorted({term[1] for term in self.terms()}), [term[1] for term in self.terms()])
            deposed = self.lines("a", "deposed")
            second.terminate()
            second.end()
            return 1000 if deposed else took
        # At least once on a machine as busy as this.
        wait_for(lambda: takes() < session_s + 2 * TICK_S + 2, "the second one leads in time")

    def test_path_of_a_lock_is_refused(self):
        self.hold()
        status, out, err = self.call("--leader", self.lock, "--", "true")
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, self.lock, "other kind")

    def test_max_hold_ends_the_term_and_lets_the_next_one_lead(self):
        began = time.time_ns()
        first, second = self.queue_up("a", "b", arguments=("--max-hold", "3"))
        self.begun("a")
        self.begun("a", "b")
        self.assertGreaterEqual(self.terms()[1][5] - began, 2.9e9)
        wait_for(lambda: len(self.terms()) >= 4, "they lead by turns")
        self.assertEqual([term[0] for term in self.terms()[:4]], ["a", "b", "a", "b"])
        self.assertEqual(self.lines("a", "campaigning again"), [])
        # By TERM, each time.
        wait_for(lambda: len(self.lines("a", "died by signal 15")) == 2, "the second term is over, too")
        self.assertEqual(self.lines("a", "sending KILL"), [])
        for candidate in (first, second):
            candidate.terminate()
            self.assertEqual(candidate.end(), -signal.SIGTERM)
        self.assert_nothing_lives()


class Deposed(LeaderTest):
    def test_tree_is_gone_before_it_campaigns_again(self):
        script = TERM.replace("log=$1", 'log=$1; trap "" TERM; setsid sh -c "trap \'\' TERM; sleep 1000" &')
        first = self.lead("a", "-T", "8", "-k", "1", script=script)
        self.begun("a")
        tree = self.marked()
        began = time.monotonic()
        self.lose()
        wait_for(lambda: self.lines("a", "deposed from " + self.lock), "it is deposed")
        wait_for(lambda: self.nodes() or time.monotonic() - began > 20, "it campaigns again")
        took = time.monotonic() - began
        self.assertFalse(any(lives(pid) for pid in tree))
        # It ignores TERM, so that the grace had to pass.
        self.assertTrue(0.9 <= took < 20, took)
        self.begun("a", "a")
        self.assertEqual(self.lines("a", "campaigning again"), [])
        first.send_signal(signal.SIGTERM)
        self.end_term("a", 3)
        self.assertEqual(first.end(), 3)
        self.assert_nothing_lives()

    def test_front_that_was_stopped_beyond_its_session_goes_on_as_a_candidate(self):
        session_s = 8
        first, second = self.queue_up("a", "b", arguments=("-T", str(session_s)))
        self.begun("a")
        first.send_signal(signal.SIGSTOP)
        self.begun("a", "b")
        self.assertEqual(len(self.commands()), 1)
        first.send_signal(signal.SIGCONT)
        wait_for(lambda: len(self.nodes()) == 2, "it campaigns again")
        self.assertEqual(len(self.lines("a", "deposed")), 1)
        self.stop(second)
        self.begun("a", "b", "a")
        self.stop(first)
        self.assert_free(2)

    def test_command_that_ends_at_that_instant(self):
        first = self.lead("a")
        wait_for(self.terms, "it leads")
        for number in range(5):
            # What is deposed may leave its end to the next term: there may be two more.
            terms = len(self.terms())
            self.end_term("a", number % 2)
            self.depose_if_any()
            wait_for(lambda terms=terms: len(self.terms()) > terms, "it leads again")
        # Where the fifth term ended first, the sixth has been told to end by itself.
        first.send_signal(signal.SIGTERM)
        self.assertIn(first.end(), (0, -signal.SIGTERM), self.lines(first.name))
        self.assert_free(2)

    def depose_if_any(self):
        try:
            self.lose()
        except (ValueError, zkwire.Refused):
            pass  # it had resigned

    def test_warden_that_is_killed_ends_it(self):
        first = self.lead("a")
        self.begun("a")
        os.kill(first.warden(), signal.SIGKILL)
        self.assertEqual(first.end(), 125)
        self.assertIn("zklock-warden", self.lines("a")[-1])
        self.assert_nothing_lives()
        self.assert_free(2)


class BackOff(LeaderTest):
    def pauses(self, name):
        return [float(re.search(r"again in ([0-9.]+) s", line).group(1)) for line in self.lines(name, "again in")]

    def test_pauses_double_while_the_command_fails_and_begin_anew_after_a_success(self):
        first = self.lead("a")
        for number, status in enumerate((1, 7, 0, 2)):
            self.begun(*["a"] * (number + 1))
            ended = time.time()
            self.end_term("a", status)
            node = self.begun(*["a"] * (number + 2))[3]
            # It was no candidate meanwhile.
            with zkwire.Client(SERVERS) as client:
                self.assertGreaterEqual(client.created(node), ended + self.pauses("a")[number] - 0.01)
        self.assertEqual(self.pauses("a"), [1, 2, 1, 1])
        begun = [term[5] / 1e9 for term in self.terms()]
        for number, pause in enumerate(self.pauses("a")):
            self.assertGreaterEqual(begun[number + 1] - begun[number], pause)
        self.stop(first)

    def test_death_by_a_signal_is_a_failure(self):
        first = self.lead("a", script='echo "a 0 1 - - 0" >> "$1"; kill -SEGV $$')
        wait_for(lambda: len(self.pauses("a")) >= 2, "two pauses")
        self.assertEqual(self.pauses("a")[:2], [1, 2])
        self.stop(first)

    def test_stop_while_backing_off(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            with self.subTest(signal=number):
                first = self.lead("a", script="exit 1")
                # For four seconds.
                wait_for(lambda: len(self.pauses("a")) >= 3, "it backs off")
                began = time.monotonic()
                self.stop(first, number)
                self.assertLess(time.monotonic() - began, 3)
                self.assert_free(2)

    def test_others_lead_meanwhile(self):
        first, second = self.queue_up("a", "b")
        self.begun("a")
        self.end_term("a", 1)
        self.begun("a", "b")
        self.assertIn("resigned from", "\n".join(self.lines("a")))
        self.stop(first)
        self.stop(second)


class Stop(LeaderTest):
    def test_status_is_the_commands(self):
        script = 'trap "touch $1.told; exit 9" TERM; touch "$1"; while :; do sleep 0.01; done'
        first = self.lead("a", script=script)
        wait_for(lambda: os.path.exists(self.log), "the command runs")
        first.terminate()
        self.assertEqual(first.end(), 9)
        self.assertTrue(os.path.exists(self.log + ".told"))
        self.assert_free(2)

    def test_status_of_0(self):
        script = 'trap "exit 0" TERM; touch "$1"; while :; do sleep 0.01; done'
        first = self.lead("a", script=script)
        wait_for(lambda: os.path.exists(self.log), "the command runs")
        first.terminate()
        self.assertEqual(first.end(), 0)
        self.assert_free(2)

    def test_candidate_that_waits_leaves_no_node(self):
        first, second = self.queue_up("a", "b")
        self.stop(second)
        self.assert_contenders(1)
        self.assertEqual(self.lines("b", "elected"), [])
        self.stop(first)

    def test_signals_that_do_not_ask_for_an_end_do_not_end_it(self):
        script = 'trap "echo usr >> $1.usr" USR1; ' + TERM
        first = self.lead("a", script=script)
        self.begun("a")
        first.send_signal(signal.SIGUSR1)
        wait_for(lambda: self.text("log.usr"), "the command heard it")
        self.end_term("a", 0)
        self.begun("a", "a")
        self.stop(first)

    def test_command_that_cannot_be_executed(self):
        for command, status in (("/no/such/command", 127), (self.folder, 126)):
            code, out, err = self.call("--leader", self.lock, "--", command)
            self.assertEqual((code, out), (status, b""))
            self.assert_one_line(err, command)
            self.assert_free(2)

    def test_nobody_there(self):
        code, out, err = self.call("--leader", "-s", "127.0.0.1:1", "--connect-timeout", "0.5", self.lock, "--", "true")
        self.assertEqual((code, out), (69, b""))
        self.assert_one_line(err, "no ensemble reached")

    def test_options_that_have_no_meaning_are_refused(self):
        for arguments in (("-n",), ("-w", "1"), ("-E", "1"), ("--min-hold", "1")):
            code, out, err = self.call("--leader", *arguments, self.lock, "--", "true")
            self.assertEqual((code, out), (64, b""))
            self.assert_one_line(err, "--leader", arguments[0])
        self.assertEqual(self.nodes(), [])


class Others(LeaderTest):
    def test_candidate_of_the_library_leads_by_turns_with_it(self):
        """The example program: it leads until it is told to end."""
        with subprocess.Popen([os.environ["ZKLOCK_CANDIDATE"], "-s", SERVERS, self.lock], stdout=subprocess.PIPE,
                              text=True) as theirs:
            self.addCleanup(theirs.kill)
            self.assertEqual(theirs.stdout.readline(), "elected 0\n")
            first = self.lead("a", "--name", "ours")
            wait_for(lambda: self.lines("a", "is held by .*:%d candidate" % theirs.pid), "it says who leads")
            self.assertEqual(self.terms(), [])
            theirs.terminate()
            self.assertEqual(theirs.wait(20), 0)
        self.assertEqual(self.begun("a")[1], 1)
        with subprocess.Popen([os.environ["ZKLOCK_CANDIDATE"], "-s", SERVERS, self.lock], stdout=subprocess.PIPE,
                              text=True) as theirs:
            self.addCleanup(theirs.kill)
            wait_for(lambda: len(self.nodes()) == 2, "they have queued")
            self.end_term("a")
            self.assertEqual(theirs.stdout.readline(), "elected 2\n")
            wait_for(lambda: len(self.nodes()) == 2, "ours campaigns again")
            self.assertEqual(len(self.terms()), 1)
            theirs.terminate()
            self.begun("a", "a")
        self.stop(first)


if __name__ == "__main__":
    unittest.main(verbosity=2)
