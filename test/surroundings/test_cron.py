# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real cron daemon, and what it mails. They are those that it runs when it starts, since nobody wants to wait for the
next minute; how it runs them is the same."""

import unittest

import container
from container import CommandTest, wait_for

# Called with options and the recipient; each mail becomes a file, without its head.
SENDMAIL = """#!/bin/sh
for to; do :; done
sed '1,/^$/d' > "/srv/$to/new.$$"
mv "/srv/$to/new.$$" "/srv/$to/mail.$$"
"""


def setUpModule():
    global machine  # pylint: disable=global-variable-undefined
    machine = container.Machine()
    unittest.addModuleCleanup(machine.remove)
    machine.write("/usr/sbin/sendmail", SENDMAIL, 0o755)


class CronTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.user = self.mark[:8]
        self.run = "/srv/" + self.user
        machine.must("mkdir", self.run)
        machine.write(self.run + "/job", "#!/bin/sh\necho ran >> %s/ran\n" % self.run, 0o755)

    def cron(self, *jobs):
        lines = ["@reboot root %s; echo status $?\n" % job for job in jobs]
        machine.write("/etc/cron.d/zklock", "PATH=/usr/local/bin:/usr/bin:/bin\nMAILTO=%s\n%s" % (self.user, "".join(lines)))
        self.addCleanup(machine.run, "rm", "/etc/cron.d/zklock")
        machine.must("sh", "-c", "systemctl stop cron; rm -f /run/crond.reboot; systemctl start cron")

    def mails(self, count):
        """What cron mails of so many jobs that have ended, their status in the last line."""
        def names():
            return machine.must("find", self.run, "-name", "mail.*").split()

        wait_for(lambda: len(names()) == count, "cron mails")
        return sorted(map(machine.text, names()))

    def test_short_job_of_many_hosts_runs_once(self):
        """As many lines as hosts, of which one has a clock that is behind."""
        job = "zklock-run -n --min-hold 60s %s -- %s/job" % (self.lock, self.run)
        self.cron(job, job, job, "sleep 1; " + job)
        self.assertEqual(self.mails(3), ["status 75"] * 3)
        self.assertEqual(machine.text(self.run + "/ran"), "ran")

    def test_command_is_started_as_without_the_wrapper(self):
        look = r"""#!/bin/sh
unset ZKLOCK_HELD # of several lines
env | grep -v -e ^ZKLOCK_ -e ^_= | sort
tty
(: </dev/tty) 2>&1 | sed 's/.*: //'
cat | wc -c
while read -r line; do case $line in SigBlk*|SigIgn*|SigCgt*) echo "$line" ;; esac; done </proc/$$/status
umask
pwd
"""
        machine.write(self.run + "/look", look, 0o755)
        self.cron("%s/look" % self.run, "zklock-run %s -- %s/look" % (self.lock, self.run))
        without, within = self.mails(2)
        self.assertEqual(without, within)
        self.assertIn("not a tty", within)
        self.assertIn("status 0", within)

    def test_ensemble_that_is_down_is_told_in_time_and_mailed(self):
        # To cron a % is the end of the command.
        self.cron("date +\\%%s; zklock-run -s 127.0.0.1:1 --connect-timeout 2s %s -- %s/job; status=$?; date +\\%%s; (exit $status)"
                  % (self.lock, self.run))
        mail, = self.mails(1)
        # The mailer breaks long lines.
        began, line, ended, status = mail.replace("=\n", "").splitlines()
        self.assertEqual((line, status), ("zklock-run: no ensemble reached at 127.0.0.1:1 within 2.000 s"
                                          " (127.0.0.1:1: Connection refused): check the servers and -s,"
                                          " or give a longer --connect-timeout", "status 69"))
        self.assertTrue(1 <= int(ended) - int(began) <= 10, mail)
        self.assertEqual(machine.text(self.run + "/ran"), "")


if __name__ == "__main__":
    container.skip_without_engine()
    unittest.main(verbosity=2)
