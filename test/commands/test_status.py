# SPDX-License-Identifier: Apache-2.0
"""Exit statuses, what reaches the command, and what is refused."""

import ast
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from support import BINARY, PATIENCE, SERVERS, TICK_S, CommandTest, limit_contenders, wait_for, zkwire

CLOSED = "127.0.0.1:1"


class TheCommandsOwn(CommandTest):
    def test_status_is_the_commands(self):
        for status in (0, 1, 2, 64, 69, 75, 76, 77, 125, 126, 127, 128, 255):
            with self.subTest(status=status):
                self.assertEqual(self.call(self.lock, "--", "sh", "-c", "exit %d" % status), (status, b"", b""))

    def test_death_by_signal_is_the_wrappers_too(self):
        quiet = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)
        stops = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
        script = "import os,signal,sys; n=int(sys.argv[1]); n in (9,) or signal.signal(n,signal.SIG_DFL); " \
                 "os.kill(os.getpid(),n)"
        for number in sorted(set(signal.Signals) - set(quiet) - set(stops)):
            with self.subTest(signal=number):
                status, out, err = self.call(self.lock, "--", sys.executable, "-c", script, str(int(number)),
                                             cwd=self.folder)
                self.assertEqual((status, out, err), (-number, b"", b""))

    def test_a_shell_sees_128_and_the_signal(self):
        done = subprocess.run(["sh", "-c", '"$0" "$1" -- sh -c "kill -9 \\$\\$"; echo $?', BINARY, self.lock],
                              env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        self.assertEqual(done.stdout, b"137\n")

    def test_first_process_of_a_namespace_exits_with_128_and_the_signal(self):
        probe = subprocess.run(["unshare", "-pf", "--mount-proc", "true"], stderr=subprocess.DEVNULL, check=False)
        if probe.returncode != 0:
            self.skipTest("no pid namespaces here")
        # The shell of the namespace becomes zklock-run.
        done = subprocess.run(["unshare", "-pf", "--mount-proc", BINARY, self.lock, "--", "sh", "-c", "kill -TERM $$"],
                              env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stderr), (128 + signal.SIGTERM, b""))

    def test_without_a_proc_of_ours(self):
        """No process could be found."""
        for prefix in (("unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh"), ("unshare", "--pid", "--fork")):
            with self.subTest(prefix=prefix):
                if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                    self.skipTest("no namespaces here")
                self.prefix = prefix
                status, out, err = self.call(self.lock, "--", "true")
                self.assertEqual((status, out), (125, b""))
                self.assert_one_line(err, "/proc")

    def test_command_that_cannot_be_forked(self):
        """As root there is no limit."""
        prefix = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        if subprocess.run([*prefix, BINARY, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("%s cannot be executed by nobody" % BINARY)
        holder = self.hold()
        self.prefix = prefix
        waiter = self.queue()
        script = "import resource, sys; resource.prlimit(int(sys.argv[1]), resource.RLIMIT_NPROC, (1, 1))"
        subprocess.run([*prefix, sys.executable, "-c", script, str(wait_for(waiter.warden, "the warden runs"))], check=True)
        holder.terminate()
        status, out, err = waiter.result()
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "cannot start \"true\": Resource temporarily unavailable")
        self.assert_free(2)

    def test_command_that_is_not_found(self):
        status, out, err = self.call(self.lock, "--", "/no/such/command")
        self.assertEqual((status, out), (127, b""))
        self.assert_one_line(err, "/no/such/command", "No such file")
        self.assertEqual(self.call(self.lock, "--", "no-such-command-anywhere")[0], 127)
        self.assert_free(2)

    def test_command_that_cannot_be_executed(self):
        plain = self.file("plain")
        with open(plain, "w", encoding="ascii") as file:
            file.write("not a program\n")
        for what, reason in ((plain, "Permission denied"), (self.folder, "Permission denied")):
            status, out, err = self.call(self.lock, "--", what)
            self.assertEqual((status, out), (126, b""))
            self.assert_one_line(err, what, reason)
        self.assert_free(2)


class WhatReachesTheCommand(CommandTest):
    def test_arguments_are_untouched(self):
        arguments = ["-v", "--help", "--", "-x", "", " ", "two words", 'quo"te', "it's", "new\nline", "$HOME", "*",
                     "\\", "-n", "\t", "caf\u00e9"]
        script = "import sys; sys.stdout.write(repr(sys.argv[1:]))"
        for separator in ((), ("--",)):
            status, out, err = self.call(self.lock, *separator, sys.executable, "-c", script, *arguments)
            self.assertEqual((status, out.decode(), err), (0, repr(arguments), b""))

    def test_standard_input_passes_through(self):
        data = os.urandom(300000)
        wrapper = self.start(self.lock, "--", "cat", stdin=subprocess.PIPE)
        out, err = wrapper.communicate(data, timeout=30)
        self.assertEqual((wrapper.returncode, out == data, err), (0, True, b""))

    def test_standard_error_passes_through(self):
        self.assertEqual(self.call(self.lock, "--", "sh", "-c", "echo out; echo err >&2"), (0, b"out\n", b"err\n"))

    def test_environment_names_the_grant(self):
        script = 'for each in "$ZKLOCK_PATH" "$ZKLOCK_TOKEN" "$ZKLOCK_EPOCH" "$ZKLOCK_NODE"; do echo "$each"; done'
        status, out, err = self.call(self.lock, "--", "sh", "-c", script)
        self.assertEqual((status, err), (0, b""))
        path, token, epoch, node = out.decode().splitlines()
        self.assertEqual(path, self.lock)
        self.assertTrue(node.startswith(self.lock + "/_c_"), node)
        self.assertEqual(int(epoch), int(node[-10:]))
        self.assertGreater(int(token), int(epoch))

    def test_tokens_grow(self):
        tokens = [int(self.call(self.lock, "--", "sh", "-c", "echo $ZKLOCK_TOKEN")[1]) for _ in range(4)]
        self.assertEqual(tokens, sorted(set(tokens)))

    def descriptors(self, prefix, **options):
        script = "import os; fds = '/proc/self/fd/'\n" \
                 "print(sorted((int(n), os.readlink(fds + n)) for n in os.listdir(fds) if os.path.exists(fds + n)))"
        done = subprocess.run([*prefix, sys.executable, "-c", script], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, **options)
        return [each for each in ast.literal_eval(done.stdout.decode()) if "/proc/" not in each[1] and each[0] != 1]

    def test_no_descriptor_of_ours_and_all_of_the_callers(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        self.addCleanup(os.close, write)
        without = self.descriptors([], pass_fds=(read, write))
        self.assertEqual(self.descriptors([BINARY, self.lock, "--"], pass_fds=(read, write)), without)
        self.assertIn(read, dict(without))

    def test_closed_standard_descriptors_stay_closed(self):
        script = '"$0" "$1" -- sh -c "ls /proc/self/fd" <&- 2>&-'
        done = subprocess.run(["sh", "-c", script, BINARY, self.lock], env=self.environment(), stdout=subprocess.PIPE,
                              check=True)
        # `ls` itself opens the folder, as the lowest number that is free.
        self.assertEqual(done.stdout, b"0\n1\n")

    def test_signal_state_is_inherited(self):
        def prepare():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGALRM})

        seen = []
        for prefix in ([], [BINARY, self.lock, "--"]):
            done = subprocess.run([*prefix, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"], env=self.environment(),
                                  stdout=subprocess.PIPE, preexec_fn=prepare, restore_signals=False, check=True)
            seen.append(done.stdout)
        self.assertEqual(seen[0], seen[1])


class Refused(CommandTest):
    def refused(self, status, *arguments, parts=(), **options):
        got, out, err = self.call(*arguments, **options)
        self.assertEqual((got, out), (status, b""), err)
        self.assert_one_line(err, *parts)

    def test_usage(self):
        for arguments, part in ((("-x",), "-x"), (("--frob",), "--frob"), ((), "no PATH"), ((self.lock,), "no COMMAND"),
                                ((self.lock, "--"), "no COMMAND"), (("-n", "-w", "1", self.lock, "true"), "exclude"),
                                (("-w", "soon", self.lock, "true"), "duration"),
                                (("-w", "-1", self.lock, "true"), "-1"),
                                (("-E", "300", self.lock, "true"), "300"), (("-T", "nan", self.lock, "true"), "nan"),
                                (("-k", "2.6", self.lock, "true"), "2500 ms")):
            with self.subTest(arguments=arguments):
                self.refused(64, *arguments, parts=(part,))

    def test_path_without_a_leading_slash(self):
        self.refused(64, "locks/a", "--", "true", parts=('did you mean "/locks/a"?',))
        self.refused(64, "-q", "locks/a", "--", "true", parts=('did you mean "/locks/a"?',))

    def test_paths_that_break_a_rule(self):
        for path in ("", "/", "/a//b", "/a/", "/a/../b", "/a/./b", "/" + "x" * 10000, "/zookeeper/x", "/a\nb"):
            with self.subTest(path=path[:20]):
                self.refused(64, path, "--", "true")
        self.refused(64, b"/caf\xe9", "--", "true")
        self.refused(64, "/\U0001f512", "--", "true", parts=("four bytes of UTF-8",))

    def test_path_that_a_queue_would_take_for_a_contender(self):
        """It would block the lock on its parent, and nothing of it is made."""
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock)
        for name in ("lock-0000000001", "_c_5fdd7fd5-3dc3-4b0c-a9a5-ae18c3b1d001-lock-0000000001", "x__lock__0000000007/below"):
            for options in ((), ("-n",), ("--leader",)):
                with self.subTest(name=name, options=options):
                    self.refused(64, *options, self.lock + "/" + name, "--", "true", parts=("named like a contender's node",))
        self.assertEqual(self.nodes(), [])

    def test_own_node_as_a_path(self):
        status, out, err = self.call(self.lock, "--", "sh", "-c", '"$0" "$ZKLOCK_NODE" -- true', BINARY)
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, "named like a contender's node")
        self.assertEqual(self.nodes(), [])

    def test_path_at_or_below_an_ephemeral_node(self):
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock, flags=zkwire.EPHEMERAL)
            for below in ("", "/a", "/a/b"):
                for options in ((), ("-n",), ("--leader",)):
                    with self.subTest(below=below, options=options):
                        self.refused(64, *options, self.lock + below, "--", "true", parts=("below, an ephemeral node",))

    def test_no_server_given_anywhere(self):
        if os.path.exists("/etc/zklock.conf"):
            self.skipTest("this machine has a configuration")
        for servers in (None, ""):
            self.refused(64, self.lock, "--", "true", env={"ZKLOCK_SERVERS": servers},
                         parts=("no servers given", "ZKLOCK_SERVERS", "/etc/zklock.conf"))

    def test_servers_that_are_no_servers(self):
        self.refused(64, "-s", "h:99999", self.lock, "--", "true")

    def test_missing_chroot_is_an_error_and_is_not_created(self):
        chroot = "/no-" + self.mark
        self.refused(64, "-s", SERVERS + chroot, self.lock, "--", "true", parts=("chroot",))
        self.assertFalse(zkwire.exists(SERVERS, chroot))

    def test_nested_in_itself(self):
        status, out, err = self.call(self.lock, "--", BINARY, self.lock, "--", "true")
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, "same lock already")

    def test_nested_through_other_commands(self):
        inner = 'env -u ZKLOCK_PATH sh -c \'"$0" "$1" -- true\' "$0" "$1"; exit $?'
        self.assertEqual(self.call(self.lock, "--", BINARY, self.lock + "-b", "--", "sh", "-c", inner, BINARY,
                                   self.lock)[0], 64)

    def test_another_lock_inside_is_fine(self):
        self.assertEqual(self.call(self.lock, "--", BINARY, self.lock + "-b", "--", "sh", "-c", "exit 5"),
                         (5, b"", b""))

    def test_environment_of_a_lock_that_is_over_does_not_count(self):
        _, held, _ = self.call(self.lock, "--", "sh", "-c", 'printf "%s" "$ZKLOCK_HELD"')
        self.assertIn(self.lock.encode(), held)
        self.assertEqual(self.call(self.lock, "--", "true", env={"ZKLOCK_HELD": held.decode()})[0], 0)


class NotAContender(CommandTest):
    """A directory in the lock's, with a name like a contender's: who made it has to delete it."""

    def test_is_told_of(self):
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock + "/x-0000000001")
        self.assert_one_line(self.told_who_holds(), "no session ends: delete it by hand")
        waiter = self.queue("-v", ahead=1)
        wait_for(lambda: b"waiting behind a node that no session ends" in waiter.stderr.readline(), "it is told")
        with zkwire.Client(SERVERS) as client:
            client.delete(self.lock + "/x-0000000001")
        self.assertEqual(waiter.end(), 0)

    def test_is_told_of_no_contender(self):
        self.hold()
        self.assertNotIn(b"no session ends", self.told_who_holds())
        status, _, err = self.call("-v", "-w", "4", self.lock, "--", "true")
        self.assertEqual((status, b"no session ends" in err), (75, False))


class NoDescriptors(CommandTest):
    def test_no_descriptor_is_left(self):
        def prepare():
            os.close(0)  # the loader needs one
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))

        status, out, err = self.call(self.lock, "--", "true", preexec_fn=prepare)
        self.assertEqual((status, out), (125, b""))
        self.assert_one_line(err, "Too many open files")

    @staticmethod
    def limit(number):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))

    def test_how_many_are_needed_is_told_and_enough(self):
        needed = set()
        for number in (9, 14):
            status, out, err = self.call(self.lock, "--", "true", preexec_fn=self.limit(number))
            self.assertEqual((status, out), (125, b""))
            self.assert_one_line(err, "Too many open files", " is %d, must be " % number)
            needed.add(int(re.search(rb"must be (\d+) at least", err).group(1)))
        needed, = needed
        self.assertEqual(self.call(self.lock, "--", "true", preexec_fn=self.limit(needed - 1))[0], 125)
        holder = self.hold("-v", "-k", "0.1", command=("sh", "-c", 'trap "" TERM; setsid sh -c \'trap "" TERM; sleep 1000\' & wait'),
                           preexec_fn=self.limit(needed))
        wait_for(lambda: len(self.marked()) == 3, "the tree stands")
        for pid in (holder.pid, holder.warden()):
            used = os.listdir("/proc/%d/fd" % pid)
            self.assertLess(max(map(int, used)), needed - 4, used)
        # There need not be a terminal (for which standard error is opened again), or a cgroup (and its keeper).
        self.assertGreaterEqual(len(os.listdir("/proc/%d/fd" % holder.pid)), needed - 4 - 4)
        self.lose()
        self.assertEqual(holder.end(), 76)
        self.assert_nothing_lives()


class LargestFile(CommandTest):
    def test_that_is_the_log(self):
        """The signal that tells of the limit would end us, and the lock with us."""
        with open(self.file("log"), "wb") as log:
            log.write(b"x" * 1024)
            log.flush()
            wrapper = self.start("--max-hold", "0.2", self.lock, "--", "sleep", "1000", stderr=log,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024)))
            self.assertEqual(wrapper.end(), 78)
        self.assert_free(2)


class ShorterSessionThanAskedFor(CommandTest):
    """Servers grant 20 ticks at most."""

    def test_default_grace_follows(self):
        asked = 3 * 20 * TICK_S
        self.assertEqual(self.call("-T", str(asked), self.lock, "--", "sh", "-c", "exit 5"), (5, b"", b""))

    def test_is_told(self):
        """A longer one is, too: two ticks are the least."""
        for asked, granted in ((3 * 20 * TICK_S, 20 * TICK_S), (0.5 * TICK_S, 2 * TICK_S)):
            with self.subTest(asked=asked):
                err = self.call("-v", "-T", str(asked), self.lock, "--", "true")[2].decode()
                self.assertIn("session timeout %.3f s (asked for: %.3f s)\n" % (granted, asked), err)

    def test_grace_that_was_given_is_refused(self):
        status, out, err = self.call("-T", str(3 * 20 * TICK_S), "-k", str(10 * TICK_S), self.lock, "--", "true")
        self.assertEqual((status, out), (64, b""))
        self.assert_one_line(err, "-k", "granted", "%d ms" % (5 * TICK_S * 1000))


class Configuration(CommandTest):
    """/etc is another one for the wrapper, where the machine allows that."""

    def with_configuration(self, text, servers=None):
        etc = self.file("etc")
        os.makedirs(etc, exist_ok=True)
        with open(os.path.join(etc, "zklock.conf"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.run_with(etc, servers)

    def run_with(self, etc, servers=None):
        done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', etc, BINARY,
                               self.lock, "--", "true"], env=self.environment(ZKLOCK_SERVERS=servers),
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        return done.returncode, done.stderr

    def setUp(self):
        super().setUp()
        probe = subprocess.run(["unshare", "-m", "mount", "--bind", self.folder, "/etc"], stderr=subprocess.DEVNULL,
                               check=False)
        if probe.returncode != 0:
            self.skipTest("no mount namespaces here")

    def test_names_the_servers(self):
        self.assertEqual(self.with_configuration("# ours\n\nZKLOCK_SERVERS = %s\n" % SERVERS), (0, b""))

    def test_names_the_credentials(self):
        auth = self.file("auth")
        with open(auth, "w", encoding="ascii") as file:
            file.write("digest:user:secret\n")
        os.chmod(auth, 0o600)
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock.rpartition("/")[0])
        self.assertEqual(self.with_configuration("ZKLOCK_AUTH_FILE=%s\nZKLOCK_SERVERS=%s\n" % (auth, SERVERS)),
                         (0, b""))
        with self.assertRaises(zkwire.Refused):
            self.nodes()

    def test_is_named_where_what_it_says_is_wrong(self):
        status, err = self.with_configuration("ZKLOCK_SERVERS=h:99999\n")
        self.assertEqual(status, 64)
        self.assert_one_line(err, ': ZKLOCK_SERVERS in /etc/zklock.conf: servers "h:99999": a port must be')
        status, err = self.with_configuration("ZKLOCK_AUTH_FILE=/no/such\n", servers=SERVERS)
        self.assertEqual(status, 64)
        self.assert_one_line(err, ": ZKLOCK_AUTH_FILE in /etc/zklock.conf: /no/such: No such file")

    def test_that_cannot_be_read_is_not_passed_over(self):
        """It might name credentials: what is made without them is open to everybody."""
        status, err = self.with_configuration("nonsense\n", servers=SERVERS)
        self.assertEqual(status, 64)
        self.assert_one_line(err, "/etc/zklock.conf, line 1")
        self.assertEqual(self.with_configuration("# nothing\n", servers=SERVERS), (0, b""))

    def test_malformed_line_is_named(self):
        status, err = self.with_configuration("# ours\nnonsense\n")
        self.assertEqual(status, 64)
        self.assert_one_line(err, "/etc/zklock.conf, line 2")

    def test_missing_key(self):
        status, err = self.with_configuration("# nothing\n")
        self.assertEqual(status, 64)
        self.assert_one_line(err, "no servers given")

    def test_not_readable(self):
        status, err = self.with_configuration("")
        self.assertEqual(status, 64, err)
        os.remove(self.file("etc/zklock.conf"))
        os.mkdir(self.file("etc/zklock.conf"))
        status, err = self.run_with(self.file("etc"))
        self.assertEqual(status, 64)
        self.assert_one_line(err, "/etc/zklock.conf: Is a directory")

    def test_odd_files(self):
        """With a byte order mark and lines of another system; a pipe; a device; a link to nowhere and one in a circle."""
        self.assertEqual(self.with_configuration("\ufeffZKLOCK_SERVERS=%s\r\n" % SERVERS), (0, b""))
        for make, why in ((os.mkfifo, "no servers given"),
                          (lambda path: os.symlink("/dev/null", path), "no servers given"),
                          (lambda path: os.symlink("/dev/zero", path), "too long"),
                          (lambda path: os.symlink("nowhere", path), "no servers given"),
                          (lambda path: os.symlink("zklock.conf", path), "symbolic links")):
            os.remove(self.file("etc/zklock.conf"))
            make(self.file("etc/zklock.conf"))
            status, err = self.run_with(self.file("etc"))
            self.assertEqual(status, 64)
            self.assert_one_line(err, why)


class NobodyThere(CommandTest):
    def test_unreached_within_the_connect_timeout(self):
        for arguments in ((), ("-n",), ("-w", "20")):
            with self.subTest(arguments=arguments):
                self.unreached_within("--connect-timeout", *arguments)

    def test_unreached_within_the_wait(self):
        self.unreached_within("-w")

    def unreached_within(self, option, *arguments):
        def takes():
            began = time.monotonic()
            status, out, err = self.call("-s", CLOSED, option, "2", *arguments, self.lock, "--", "true")
            took = time.monotonic() - began
            self.assertEqual((status, out), (69, b""))
            self.assert_one_line(err, "127.0.0.1:1: Connection refused")
            self.assertGreaterEqual(took, 2)
            return took
        # At least once on a machine as busy as this.
        wait_for(lambda: takes() < 4.5, "it ends in time")

    def why(self, servers, *parts):
        """A connect timeout that is long enough for a first attempt on a busy machine."""
        status, out, err = self.call("-s", servers, "--connect-timeout", "2", self.lock, "--", "true")
        self.assertEqual((status, out), (69, b""))
        self.assert_one_line(err, *parts)

    def test_name_that_does_not_resolve(self):
        self.why("no-such-host.invalid:2181", "no-such-host.invalid: does not resolve")
        self.why("no-such-host.invalid,127.0.0.1:1", "no-such-host.invalid: does not resolve",
                 "127.0.0.1:1: Connection refused")

    def test_server_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = "127.0.0.1:%d" % server.getsockname()[1]
            self.why(address, address + ": no answer")

    def test_server_that_hangs_up(self):
        """As one that is in no quorum does."""
        def hang_up(server):
            while True:
                try:
                    with server.accept()[0] as client:
                        client.recv(1000)
                except OSError:
                    return

        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(target=hang_up, args=(server,), daemon=True).start()
            address = "127.0.0.1:%d" % server.getsockname()[1]
            self.why(address, address + ": hangs up, as without a quorum")
            server.shutdown(socket.SHUT_RDWR)

    def test_verbose_names_who_cannot_be_reached(self):
        wrapper = self.start("-v", "-T", "1s", "-s", CLOSED, self.lock, "--", "true")
        line = wrapper.stderr.readline()
        wrapper.terminate()
        self.assertEqual(wrapper.result()[0], -signal.SIGTERM)
        self.assert_one_line(line, "no server has been reached", "127.0.0.1:1: Connection refused")

    def test_signal_while_nobody_is_there(self):
        wrapper = self.start("-s", CLOSED, self.lock, "--", "true")
        wait_for(wrapper.warden, "the warden runs")
        wrapper.terminate()
        self.assertEqual(wrapper.result(), (-signal.SIGTERM, b"", b""))


class Denied(CommandTest):
    def refused(self, permissions, lock, part):
        with zkwire.Client(SERVERS) as client:
            client.make(self.lock, permissions)
        for arguments in ((), ("-n",)):
            with self.subTest(part=part, arguments=arguments):
                status, out, err = self.call(*arguments, lock, "--", "touch", self.file("ran"))
                self.assertEqual((status, out), (77, b""))
                self.assert_one_line(err, lock, part)
        self.assertFalse(os.path.exists(self.file("ran")))

    def test_directory_in_which_nothing_may_be_created(self):
        self.refused(zkwire.ALL & ~zkwire.CREATING, self.lock, "create a contender")
        self.assertEqual(self.nodes(), [])

    def test_directory_that_may_not_be_made(self):
        self.refused(zkwire.ALL & ~zkwire.CREATING, self.lock + "/below", "may not be created")
        self.assertEqual(self.nodes(), [])

    def test_directory_that_may_not_be_listed(self):
        self.refused(zkwire.ALL & ~zkwire.READ, self.lock, "list its contenders")

    def test_quota_that_is_used_up(self):
        """Not counted as a failure of ours, nor told of credentials, which have no part in it."""
        limit_contenders(self, self.lock, 0)
        for arguments in ((), ("-n",), ("--leader",)):
            with self.subTest(arguments=arguments):
                status, out, err = self.call(*arguments, self.lock, "--", "touch", self.file("ran"))
                self.assertEqual((status, out), (77, b""))
                self.assert_one_line(err, self.lock, "a quota is exceeded (", "listquota")
                self.assertNotIn(b"credentials", err)
        self.assertFalse(os.path.exists(self.file("ran")))
        self.assertEqual(self.nodes(), [])


class Busy(CommandTest):
    def test_nonblock_is_silent_and_leaves_no_node(self):
        self.hold()
        for arguments in (("-n",), ("-w", "0"), ("--nonblock",)):
            def takes(arguments=arguments):
                began = time.monotonic()
                self.assertEqual(self.call(*arguments, self.lock, "--", "true"), (75, b"", b""))
                return time.monotonic() - began
            # At least once on a machine as busy as this.
            wait_for(lambda takes=takes: takes() < 2, "it does not wait")
        self.assert_contenders(1)

    def test_another_status_on_conflict(self):
        self.hold()
        self.assertEqual(self.call("-n", "-E", "0", self.lock, "--", "false"), (0, b"", b""))
        self.assertEqual(self.call("-w", "4", "-E", "42", self.lock, "--", "true"), (42, b"", b""))

    def test_nonblock_on_a_free_lock(self):
        self.assertEqual(self.call("-n", self.lock, "--", "sh", "-c", "exit 3"), (3, b"", b""))

    def test_wait_is_never_too_short(self):
        self.hold()
        for wait, least in (("50ms", 0.05), ("0.5", 0.5), ("2s", 2.0)):
            with self.subTest(wait=wait):
                def takes(wait=wait, least=least):
                    began = time.monotonic()
                    status = self.call("-w", wait, self.lock, "--", "true")[0]
                    took = time.monotonic() - began
                    # A busy machine may not get as far as into the queue in this time.
                    self.assertIn(status, (75, 69))
                    self.assertGreaterEqual(took, least)
                    self.assert_contenders(1)
                    return took if status == 75 or least < 0.1 else 1000
                # At least once on a machine as busy as this.
                wait_for(lambda takes=takes, least=least: takes() < least + 1.0, "it waits no longer")

    def test_many_waiters_run_one_at_a_time_and_all_of_them(self):
        holder = self.hold()
        alone = ("flock", "--nonblock", self.file("alone"), "sh", "-c", 'echo "$1" >> "$0"', self.file("ran"))
        waiters = [self.queue(ahead=number + 1, command=(*alone, str(number))) for number in range(8)]
        holder.terminate()
        self.assertEqual([waiter.result() for waiter in waiters], [(0, b"", b"")] * 8)
        self.assertEqual(self.text("ran").split(), [str(number) for number in range(8)])
        self.assertEqual(self.nodes(), [])

    def test_wait_long_enough(self):
        holder = self.hold()
        waiter = self.queue("-w", "30", command=("sh", "-c", "exit 4"))
        holder.terminate()
        self.assertEqual(waiter.result(), (4, b"", b""))

    def test_verbose_tells_who_holds(self):
        holder = self.hold()
        self.assert_one_line(self.told_who_holds(), "is held by", ":%d zklock-run since " % holder.pid, ", 0 waiting")

    def test_verbose_tells_the_place_in_the_queue_and_the_wait(self):
        self.hold()
        first = self.queue("-v", ahead=1)
        second = self.queue("-v", "-w", "6.5", ahead=2)
        line = first.stderr.readline().decode()
        while "is held by" not in line:
            line = first.stderr.readline().decode()
        self.assertIn("we are 1st of ", line)
        status, _, err = second.result()
        self.assertEqual(status, 75)
        self.assertIn("we are 2nd of 2 waiting", err.decode())
        self.assertGreaterEqual(float(re.search(r"not granted after (\d+\.\d+) s", err.decode()).group(1)), 6.5)

    def test_verbose_tells_how_long_it_held_and_not_how_long_it_is_there(self):
        """Who had to wait holds since the grant."""
        first = self.hold()
        second = self.queue(command=("sh", "-c", "date +%s > $0.new && mv $0.new $0; exec sleep 1000",
                                     self.file("granted")))
        with zkwire.Client(SERVERS) as client:
            queued = client.created(self.lock + "/" + client.children(self.lock)[1])
        wait_for(lambda: time.time() > queued + 2.5, "it has waited for a while")
        released = int(time.time())
        first.terminate()
        granted = int(wait_for(lambda: self.text("granted"), "it holds"))

        def since():
            err = self.told_who_holds(env={"TZ": "UTC0"}).decode()
            self.assertIn(":%d " % second.pid, err)
            seconds = re.search(r" since (\d\d):(\d\d):(\d\d)", err)
            hours, minutes, rest = map(int, seconds.groups())
            return (hours * 60 + minutes) * 60 + rest

        # The mark is written a moment after the grant, and the command begins a moment after it, long ones where all are busy.
        wait_for(lambda: (since() - released) % 86400 <= granted - released + 5, "it is told since when it holds", 10)

    def test_verbose_tells_the_whole_story(self):
        status, out, err = self.call("-v", self.lock, "--", "sh", "-c", "echo $ZKLOCK_TOKEN; exit 3")
        self.assertEqual(status, 3)
        self.assertIn("token %d" % int(out), err.decode())
        self.assertNotIn("in the queue", err.decode())
        self.assertIn("exited with status 3", err.decode())


class NowhereToSay(CommandTest):
    """Standard error takes nothing, or is closed: the job runs all the same."""

    def everywhere(self, check):
        for name in ("full", "closed"):
            with self.subTest(stderr=name), open("/dev/full", "wb") as full:
                check(stderr=full) if name == "full" else check(preexec_fn=lambda: os.close(2))

    def test_who_waits(self):
        def check(**options):
            holder = self.hold("-v", **options)
            waiter = self.queue("-v", command=("sh", "-c", "exit 5"), **options)
            holder.terminate()
            self.assertEqual((holder.end(), waiter.end()), (-signal.SIGTERM, 5))
        self.everywhere(check)

    def test_who_is_busy_denied_or_not_connected(self):
        self.hold()

        def check(**options):
            for status, arguments in ((75, ("-vn",)), (75, ("-v", "-w", "4")), (69, ("-vs", CLOSED, "--connect-timeout", "0.5"))):
                self.assertEqual(self.call(*arguments, self.lock, "--", "true", **options)[0], status)
            self.assertEqual(self.call("-v", "no-slash", "--", "true", **options)[0], 64)
        self.everywhere(check)

    def test_who_leads(self):
        def check(**options):
            command = ("sh", "-c", 'echo >> "$0"', self.file("ran"))
            leader = self.start("--leader", "-v", self.lock + "-led", "--", *command, **options)
            wait_for(lambda: len(self.text("ran")) >= 2, "it leads a second time")
            leader.terminate()
            # As its command, where the signal comes while that ends.
            self.assertIn(leader.end(), (0, -signal.SIGTERM))
            os.remove(self.file("ran"))
        self.everywhere(check)

    def test_who_loses_the_lock(self):
        def check(**options):
            holder = self.hold("-v", **options)
            self.lose()
            self.assertEqual(holder.end(), 76)
        self.everywhere(check)


class Deaf:
    """Stands before a server, and lets nothing through to it any more once somebody reads a node's data."""
    GET_DATA = 4

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.asked = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        host, port = SERVERS.split(",")[0].split(":")
        client, server = self.listener.accept()[0], socket.create_connection((host, int(port)))
        threading.Thread(target=self.answer, args=(server, client), daemon=True).start()
        for request in iter(lambda: self.frame(client), b""):
            if struct.unpack(">i", request[8:12])[0] == self.GET_DATA:
                self.asked.set()
            if not self.asked.is_set():
                server.sendall(request)

    @staticmethod
    def answer(server, client):
        for data in iter(lambda: server.recv(65536), b""):
            client.sendall(data)

    @staticmethod
    def frame(client):
        stream = b""
        size = 4
        while len(stream) < size:
            data = client.recv(size - len(stream))
            if not data:
                return b""
            stream += data
            if len(stream) == 4:
                size = 4 + struct.unpack(">i", stream)[0]
        return stream


class Unanswered(CommandTest):
    def test_signal_does_not_wait_for_a_look_at_the_queue(self):
        """Which may take a second, and the end another one."""
        self.hold()

        def end_takes():
            server = Deaf()
            waiter = self.start("-v", "-s", server.address, self.lock, "--", "true")
            self.assertTrue(server.asked.wait(PATIENCE))
            began = time.monotonic()
            waiter.terminate()
            self.assertEqual(waiter.end(), -signal.SIGTERM)
            server.listener.close()
            return time.monotonic() - began
        # At least once on a machine as busy as this.
        wait_for(lambda: end_takes() < 1.6, "it ends without the answer")


class StandardOutput(CommandTest):
    def test_help_and_version(self):
        status, out, err = self.call("--help")
        self.assertEqual((status, err), (0, b""))
        self.assertTrue(out.startswith(b"Usage: zklock-run "), out)
        self.assertLessEqual(out.count(b"\n"), 40)
        status, out, err = self.call("--version")
        self.assertEqual((status, err), (0, b""))
        self.assertRegex(out, rb"^zklock-run \d+\.\d+\.\d+\n$")

    def test_output_that_cannot_be_written(self):
        for option in ("--help", "--version"):
            for where, why in ((">&-", "Bad file descriptor"), (">/dev/full", "No space left")):
                with self.subTest(option=option, where=where):
                    done = subprocess.run(["sh", "-c", '"$0" %s %s' % (option, where), BINARY], env=self.environment(),
                                          stderr=subprocess.PIPE, check=False)
                    self.assertEqual(done.returncode, 125)
                    self.assert_one_line(done.stderr, "standard output", why)


if __name__ == "__main__":
    unittest.main(verbosity=2)
