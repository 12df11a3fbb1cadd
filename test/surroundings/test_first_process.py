# SPDX-License-Identifier: Apache-2.0
"""zklock-run as the first process of a container: `docker run image zklock-run ...`."""

import unittest

import container
from container import CommandTest, docker, wait_for


class FirstProcess(CommandTest):
    def container(self, *command, options=()):
        """Started, with zklock-run as its command."""
        made = container.Container(["zklock-run", *options, self.lock, "--", *command])
        self.addCleanup(made.remove)
        made.start()
        return made

    def running(self, script, *arguments):
        """A shell that has come as far as `touch /ready`."""
        made = self.container("sh", "-c", script, "sh", *arguments)
        wait_for(lambda: made.run("test", "-e", "/ready")[0] == 0, "the command runs")
        return made

    def status(self, made):
        done = docker("wait", made.name)
        return int(done.stdout)

    def output(self, made):
        return docker("logs", made.name).stdout

    def test_status_is_the_commands(self):
        made = self.container("sh", "-c", "echo out; exit 7")
        self.assertEqual((self.status(made), self.output(made)), (7, b"out\n"))
        self.assertEqual(self.nodes(), [])

    def test_death_by_a_signal_is_128_and_the_signal(self):
        """The first process survives its own signals, so that it cannot die by them."""
        for number in (9, 11, 15):
            with self.subTest(signal=number):
                made = self.container("sh", "-c", "kill -%d $$" % number)
                self.assertEqual((self.status(made), self.output(made)), (128 + number, b""))
                self.assertEqual(self.nodes(), [])

    def test_signals_are_passed_on_though_the_first_process_has_no_defaults(self):
        for name, number in (("TERM", 15), ("INT", 2), ("USR1", 10), ("HUP", 1)):
            with self.subTest(signal=name):
                made = self.running("touch /ready; exec sleep 1000")
                docker("kill", "--signal", name, made.name)
                self.assertEqual(self.status(made), 128 + number)
                self.assertEqual(self.nodes(), [])

    def test_docker_stop_gives_the_command_its_time(self):
        made = self.running("exec 2>&-; trap 'sleep 0.5; echo tidied; exit 9' TERM; touch /ready; while :; do sleep 0.02; done")
        docker("stop", "--time", "30", made.name)
        self.assertEqual((self.status(made), self.output(made)), (9, b"tidied\n"))
        self.assertEqual(self.nodes(), [])

    def test_signal_while_waiting(self):
        self.hold()
        made = self.container("true")
        wait_for(lambda: len(self.nodes()) == 2, "it has queued")
        docker("stop", "--time", "30", made.name)
        self.assertEqual(self.status(made), 128 + 15)
        self.assert_contenders(1)

    def test_refusals_keep_their_status(self):
        self.hold()
        made = self.container("true", options=("-n",))
        self.assertEqual((self.status(made), self.output(made)), (75, b""))
        self.assertEqual(self.status(self.container("/no/such", options=("-s", "127.0.0.1:1", "--connect-timeout", "1"))), 69)

    def test_zombies_are_reaped_those_of_others_too(self):
        """Orphans of the command become the warden's, those of `docker exec` the first process's."""
        made = self.running("(setsid sh -c 'exec sleep 600' &); touch /ready; exec sleep 1000")
        made.must("sh", "-c", "sleep 600 >/dev/null 2>&1 & exit 0")
        states = r"cat /proc/[0-9]*/stat 2>/dev/null | sed -n 's/^[0-9]* (sleep) \(.\) \([0-9]*\) .*/\1\2/p' | sort"
        look = lambda: made.must("sh", "-c", states).split()
        warden = made.warden(1)
        wait_for(lambda: look() == sorted(["S1", "S" + warden, "S" + warden]), "both are orphans")
        made.must("sh", "-c", "for i in $(grep -lz '^600$' /proc/[0-9]*/cmdline 2>/dev/null); do i=${i#/proc/}; kill ${i%/*}; done")
        wait_for(lambda: look() == ["S" + warden], "what is left is the command")

    def test_killed_warden_ends_the_container(self):
        made = self.running("touch /ready; exec sleep 1000")
        made.must("kill", "-9", made.warden(1))
        self.assertEqual(self.status(made), 125)
        self.assertEqual(self.nodes(), [])


if __name__ == "__main__":
    container.skip_without_engine()
    unittest.main(verbosity=2)
