# SPDX-License-Identifier: Apache-2.0
"""The example's unit, under a real systemd: waiting, running, stopping, and a lock that is lost."""

import os
import re
import unittest

import container
from container import CommandTest, wait_for

UNIT = os.path.join(container.EXAMPLES, "zklock-run.service")
# Writes down who sends it TERM, and ends when it may.
PATIENT = r"""exec python3 -c '
import os, signal
def log(name, value):
    with open(os.environ["DIR"] + "/" + name, "a") as file:
        file.write("%d\n" % value)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
log("ran", os.getpid())
told = False
while not (told and os.path.exists(os.environ["DIR"] + "/go")):
    info = signal.sigtimedwait([signal.SIGTERM], 0.02)
    if info:
        log("told", info.si_pid)
        told = True
'"""
# What it starts has a session of its own.
DEAF = r"""
trap '' TERM
setsid sh -c 'trap "" TERM HUP; echo $$ > "$DIR/below"; while :; do sleep 0.1; done' &
while ! [ -e "$DIR/below" ]; do sleep 0.02; done
echo $$ >> "$DIR/ran"
while :; do sleep 0.02; done
"""
# Starts something that is root's, and ends.
CLIMBS = r"""
setsid /usr/local/bin/become --reuid 0 --regid 0 --clear-groups sleep 1000 &
while ! grep -q '^Uid:.0.0' /proc/$!/status; do sleep 0.02; done
echo $! > "$DIR/below"
"""
NOTIFIES = r"""
systemd-notify --ready --status="at work with token $ZKLOCK_TOKEN"
exec sleep 1000
"""


def setUpModule():
    global machine  # pylint: disable=global-variable-undefined
    machine = container.Machine()
    unittest.addModuleCleanup(machine.remove)


class ServiceTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.unit = "worker-%s.service" % self.mark[:8]
        self.run = "/srv/%s" % self.mark[:8]
        machine.must("mkdir", self.run)
        self.addCleanup(machine.run, "systemctl", "stop", self.unit)
        self.addCleanup(machine.run, "systemctl", "kill", "--signal=KILL", self.unit)

    def install(self, script, *changes):
        """The example with another worker; and with lines that replace those with the same key, or are added."""
        machine.write("/usr/local/bin/" + self.unit + "-worker", "#!/bin/sh\nDIR=%s\nexport DIR\n%s" % (self.run, script), 0o755)
        with open(UNIT, encoding="utf-8") as file:
            lines = file.read().replace("/locks/worker", self.lock).replace("-- worker", "-- %s-worker" % self.unit).splitlines()
        for change in changes:
            key = change.partition("=")[0] + "="
            lines = [line for line in lines if not line.startswith(key)]
            lines.insert(lines.index("[Service]") + 1, change)
        machine.write("/etc/systemd/system/" + self.unit, "\n".join(lines) + "\n")
        machine.must("systemctl", "daemon-reload")

    def state(self):
        return machine.show(self.unit, "ActiveState")

    def show(self, *names):
        return tuple(machine.show(self.unit, name) for name in names)

    def warden(self):
        return machine.warden(machine.show(self.unit, "MainPID"))

    def lines(self, name):
        return machine.text("%s/%s" % (self.run, name)).splitlines()

    def start_unit(self):
        machine.must("systemctl", "start", self.unit)
        wait_for(lambda: self.lines("ran"), "the worker runs")


class Example(ServiceTest):
    def test_is_a_valid_unit(self):
        machine.write("/usr/local/bin/worker", "#!/bin/sh\n", 0o755)
        machine.copy(UNIT, "/etc/systemd/system/zklock-run.service")
        self.assertEqual(machine.must("systemd-analyze", "verify", "/etc/systemd/system/zklock-run.service"), "")


class WaitAndStop(ServiceTest):
    def test_unit_is_active_while_it_waits_and_stop_gives_up_its_place(self):
        self.install(PATIENT)
        holder = self.hold()
        machine.must("systemctl", "start", self.unit)
        wait_for(lambda: len(self.nodes()) == 2, "it has queued")
        self.assertEqual(self.state(), "active")
        machine.must("systemctl", "stop", self.unit)
        self.assertEqual(self.show("ActiveState", "Result"), ("inactive", "success"))
        self.assert_contenders(1)
        self.assertEqual(self.lines("ran"), [])
        machine.must("systemctl", "start", self.unit)
        wait_for(lambda: len(self.nodes()) == 2, "it has queued again")
        holder.terminate()
        wait_for(lambda: self.lines("ran"), "the worker runs")

    def test_stop_tells_the_worker_once_and_the_lock_is_free_before_the_unit_is_inactive(self):
        self.install(PATIENT)
        self.start_unit()
        machine.must("systemctl", "stop", "--no-block", self.unit)
        wait_for(lambda: self.lines("told"), "the worker was told")
        self.assertEqual((self.state(), len(self.nodes())), ("deactivating", 1))
        warden = self.warden()
        machine.must("touch", self.run + "/go")
        # Asked in this order: a unit that was inactive before the nodes were looked at has none.
        while True:
            state, nodes = self.state(), self.nodes()
            if state != "deactivating":
                break
        self.assertEqual((state, nodes), ("inactive", []))
        self.assertEqual(self.lines("told"), [warden])
        self.assertEqual(self.show("Result", "ExecMainStatus"), ("success", "0"))

    def test_worker_that_does_not_end_is_killed_with_all_that_it_has_started(self):
        self.install(DEAF, "TimeoutStopSec=1")
        self.start_unit()
        pids = self.lines("ran") + self.lines("below")
        machine.must("systemctl", "stop", self.unit)
        self.assertEqual(self.show("ActiveState", "Result"), ("failed", "timeout"))
        self.assertEqual([pid for pid in pids if machine.run("kill", "-0", pid)[0] == 0], [])
        self.assert_free()

    def test_both_processes_of_ours_killed_at_once_leave_nothing_behind(self):
        """Without systemd, which ends what is left of a unit, the worker's own child would live on."""
        self.install(DEAF, "Restart=no")
        self.start_unit()
        pids = self.lines("ran") + self.lines("below")
        machine.must("kill", "-9", self.warden(), machine.show(self.unit, "MainPID"))
        wait_for(lambda: self.state() == "failed", "the unit has failed")
        self.assertEqual([pid for pid in pids if machine.run("kill", "-0", pid)[0] == 0], [])
        self.assertEqual(self.show("Result", "ExecMainStatus"), ("signal", "9"))


class Restart(ServiceTest):
    def test_worker_that_fails_at_once_is_started_again_and_again(self):
        """By default systemd gives up after five starts within ten seconds."""
        self.install('echo $$ >> "$DIR/ran"\nexit 1\n')
        machine.must("systemctl", "start", self.unit)
        wait_for(lambda: len(self.lines("ran")) > 6 or self.state() == "failed", "it was started often", 3 * container.PATIENCE)
        self.assertGreater(len(self.lines("ran")), 6)


class Notify(ServiceTest):
    def test_workers_word_reaches_systemd(self):
        self.install(NOTIFIES, "Type=notify", "NotifyAccess=all", "TimeoutStartSec=infinity")
        holder = self.hold()
        machine.must("systemctl", "start", "--no-block", self.unit)
        wait_for(lambda: len(self.nodes()) == 2, "it has queued")
        self.assertEqual(self.state(), "activating")
        holder.terminate()
        wait_for(lambda: self.state() == "active", "the worker is ready")
        self.assertRegex(machine.show(self.unit, "StatusText"), r"^at work with token \d+$")
        machine.must("systemctl", "stop", self.unit)
        self.assertEqual(self.show("ActiveState", "Result"), ("inactive", "success"))
        self.assertEqual(self.nodes(), [])


class Delegate(ServiceTest):
    """The unit of somebody who is not root."""

    def install_for_nobody(self, *changes):
        mounts = machine.must("cat", "/proc/self/mountinfo").splitlines()
        if not any(" - cgroup2 " in mount and mount.split()[5].startswith("rw") for mount in mounts):
            self.skipTest("this systemd has no cgroup v2 to delegate")
        machine.must("install", "-m", "4755", "/usr/bin/setpriv", "/usr/local/bin/become")
        machine.must("chown", "nobody", self.run)
        self.install(CLIMBS, "User=nobody", "Restart=no",
                     "ExecStart=/usr/local/bin/zklock-run -v -k 0.1 %s -- %s-worker" % (self.lock, self.unit), *changes)
        machine.must("systemctl", "start", self.unit)

    def said(self):
        return machine.must("journalctl", "--unit", self.unit, "--output=cat")

    def test_what_has_become_root_is_ended_too(self):
        self.install_for_nobody()
        wait_for(lambda: self.state() == "inactive", "the unit has ended")
        self.assertEqual(self.show("Result", "ExecMainStatus"), ("success", "0"))
        below, = self.lines("below")
        self.assertNotEqual(machine.run("kill", "-0", below)[0], 0)
        # The journal may lag behind.
        wait_for(lambda: re.search("the command's tree: cgroup /.*/%s/zklock-run-" % self.unit, self.said()), "it is told")
        self.assertEqual(self.nodes(), [])

    def test_without_it_the_lock_stays_held_until_that_has_ended(self):
        """And the unit's cgroup is left alone."""
        self.install_for_nobody("Delegate=no")
        wait_for(lambda: "cannot kill 1 of the command's processes" in self.said(), "it is told")
        self.assertRegex(self.said(), "process walk, since no cgroup can be made in .*/%s: Permission denied" % self.unit)
        self.assertEqual((self.state(), len(self.nodes())), ("active", 1))
        machine.must("kill", "-9", *self.lines("below"))
        wait_for(lambda: self.state() == "inactive", "the unit has ended")
        self.assertEqual(self.nodes(), [])


class Failures(ServiceTest):
    def test_lost_lock_is_a_failed_unit_with_status_76(self):
        self.install(PATIENT, "Restart=no")
        machine.must("touch", self.run + "/go")
        self.start_unit()
        self.lose(contenders=1)
        wait_for(lambda: self.state() == "failed", "the unit has failed")
        self.assertEqual(self.show("Result", "ExecMainStatus"), ("exit-code", "76"))
        self.assertEqual(len(self.lines("told")), 1)
        # The journal may lag behind.
        wait_for(lambda: "zklock-run: lock %s lost, its node was deleted; command ended" % self.lock in
                 machine.must("journalctl", "--unit", self.unit, "--output=cat").splitlines(), "the journal tells it")

    def test_lost_lock_is_had_again(self):
        self.install(PATIENT)
        machine.must("touch", self.run + "/go")
        self.start_unit()
        first, = self.nodes()
        self.lose(contenders=1)
        wait_for(lambda: len(self.lines("ran")) == 2, "the worker runs again")
        self.assertEqual(self.show("ActiveState", "NRestarts"), ("active", "1"))
        self.assertGreater(int(self.nodes()[0][-10:]), int(first[-10:]))

    def test_what_would_change_nothing_is_not_tried_again(self):
        for change, status in (("ExecStart=/usr/local/bin/zklock-run %s -- no-such-worker" % self.lock, "127"),
                               ("ExecStart=/usr/local/bin/zklock-run locks/worker -- worker", "64")):
            with self.subTest(status=status):
                self.install(PATIENT, change)
                machine.must("systemctl", "start", self.unit)
                wait_for(lambda: self.state() == "failed", "the unit has failed")
                self.assertEqual(self.show("Result", "ExecMainStatus", "NRestarts"), ("exit-code", status, "0"))


if __name__ == "__main__":
    container.skip_without_engine()
    unittest.main(verbosity=2)
