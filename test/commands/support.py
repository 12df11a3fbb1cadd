# SPDX-License-Identifier: Apache-2.0
"""How the tests of zklock-run (and of zklock-fence) start it, wait for it, and see what it left behind.

ZKLOCK_RUN           the binary
ZKLOCK_TEST_SERVERS  "127.0.0.1:port,..." of a running ensemble, which `test/ensemble/zk run -- COMMAND` sets
ZKLOCK_TEST_LONG     set: more rounds

Every test has a lock of its own and a mark in the environment of all that it starts, by which survivors are found."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.dont_write_bytecode = True

import zkwire  # pylint: disable=wrong-import-position

TICK_S = int(os.environ.get("ZKLOCK_TEST_TICK_MS") or 500) / 1000
BINARY = os.path.realpath(os.environ["ZKLOCK_RUN"])
SERVERS = os.environ["ZKLOCK_TEST_SERVERS"]
LONG = bool(os.environ.get("ZKLOCK_TEST_LONG"))
ZK = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "ensemble", "zk")
# What takes longer hangs. Nothing here waits so long for something that is expected.
PATIENCE = 40.0
MARK = "ZKLOCK_TEST_MARK"
# Nothing that another shell or another test has set may change what is tested.
OURS = ("ZKLOCK_SERVERS", "ZKLOCK_AUTH_FILE", "ZKLOCK_HELD", "ZKLOCK_PATH", "ZKLOCK_NODE", "ZKLOCK_TOKEN", "ZKLOCK_EPOCH")


def wait_for(condition, what, patience=PATIENCE):
    """Until condition() is true; returns what it gave."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError("waited %.1f s in vain: %s" % (patience, what))
        time.sleep(0.005)


def read_proc(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""


def state_of(pid):
    """R S D T Z, or "" where there is none."""
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return fields[0].decode() if fields else ""


def parent_of(pid):
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def lives(pid):
    return state_of(pid) not in ("", "Z")


def cgroup_mount():
    """Where cgroup v2 is mounted, and what of it; None: nowhere."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for fields in map(str.split, mounts):
            if "cgroup2" in fields[fields.index("-") + 1:][:1]:
                return fields[4], fields[3]
    return None


def own_cgroup():
    """Its directory, where one below it can be made; else None."""
    with open("/proc/self/cgroup", encoding="utf-8") as groups:
        own = [line[3:-1] for line in groups if line.startswith("0::")]
    mount = cgroup_mount()
    if not own or not mount or not own[0].startswith(mount[1].rstrip("/")):
        return None
    folder = mount[0] + own[0][len(mount[1].rstrip("/")):].rstrip("/")
    return folder if os.access(folder, os.W_OK) else None


def cgroups_of(pid):
    """The directories of cgroups that this zklock-run has made for its command."""
    folder = own_cgroup()
    found = os.listdir(folder) if folder else []
    return [os.path.join(folder, each) for each in found if each.startswith("%s-%d-" % (os.path.basename(BINARY), pid))]


def without_cgroup():
    """What zklock-run is started by, to have nothing but the walk."""
    if own_cgroup() is None:
        return ()
    return ("unshare", "--mount", "sh", "-c", 'mount -o remount,bind,ro "$0" && exec "$@"', cgroup_mount()[0])


SEIZE, INTERRUPT, DETACH, TRACE_EXIT, WAIT_ALL = 0x4206, 0x4207, 17, 0x40, 0x40000000


def trace(request, thread, data=0):
    """ptrace(2): stops one thread, and nobody else hears of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, 0, data) < 0:
        raise unittest.SkipTest("ptrace: %s" % os.strerror(ctypes.get_errno()))


def works(*words):
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def zk(verb, *arguments):
    """A fault, or the end of one. A backend that cannot do it skips the test."""
    done = subprocess.run([ZK, verb, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          check=False, text=True)
    if done.returncode == 77:
        raise unittest.SkipTest(done.stderr.strip())
    if done.returncode != 0:
        raise AssertionError("zk %s: status %d, %s" % (verb, done.returncode, done.stderr.strip()))
    return done.stdout.strip()


def limit_contenders(test, lock, most):
    """By a quota, as long as the test runs."""
    def remove():
        with zkwire.Client(SERVERS) as client:
            client.remove_limit(lock)
    with zkwire.Client(SERVERS) as client:
        client.limit(lock, most + 1)
    test.addCleanup(remove)


class Wrapper(subprocess.Popen):
    """A zklock-run that was started, and the process that it started."""

    def warden(self):
        return self.child(b"zklock-warden")

    def keeper(self):
        return self.child(b"cgroup-keeper")

    def child(self, name):
        for pid in map(int, read_proc(self.pid, "task/%d/children" % self.pid).split()):
            if read_proc(pid, "comm").strip() == name:
                return pid
        # And not 0, which to kill() is all of our own group.
        return None

    def end(self, patience=PATIENCE):
        """Its status as Popen has it: below 0, the signal."""
        return self.wait(patience)

    def result(self, patience=PATIENCE):
        out, err = self.communicate(timeout=patience)
        return self.returncode, out, err


class TidyTest(unittest.TestCase):
    """Told to end, it is cleaned up as after an error, and none comes after it."""
    _told = ""

    def run(self, result=None):
        if TidyTest._told:
            return result.stop()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(each) != signal.SIG_IGN:
                signal.signal(each, TidyTest._end)
        return super().run(result)

    @staticmethod
    def _end(number, _frame):
        if not TidyTest._told:
            TidyTest._told = "told to end by " + signal.Signals(number).name
            raise RuntimeError(TidyTest._told)


class CommandTest(TidyTest):
    # What each zklock-run of a test is started by, and with.
    prefix = ()
    options = ()

    def setUp(self):
        self.lock = "/commands/" + self.id().rpartition(".")[2][:80] + "-" + uuid.uuid4().hex[:8]
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="zklock-commands-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(self.kill_marked)

    # ---- starting ----

    def environment(self, **more):
        env = {name: value for name, value in os.environ.items() if name not in OURS}
        env.update({"ZKLOCK_SERVERS": SERVERS, MARK: self.mark}, **more)
        return {name: value for name, value in env.items() if value is not None}

    def start(self, *arguments, env=None, **options):
        for stream in ("stdin", "stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE if stream != "stdin" else subprocess.DEVNULL)
        wrapper = Wrapper([*self.prefix, BINARY, *self.options, *arguments], env=self.environment(**(env or {})), **options)
        self.addCleanup(self.reap, wrapper)
        return wrapper

    @staticmethod
    def reap(wrapper):
        if wrapper.poll() is None:
            wrapper.kill()
            wrapper.wait()
        for stream in (wrapper.stdin, wrapper.stdout, wrapper.stderr):
            if stream is not None:
                stream.close()

    def call(self, *arguments, patience=PATIENCE, **options):
        """Status (below 0: signal), standard output, standard error."""
        return self.start(*arguments, **options).result(patience)

    def begin(self, *arguments, until, what, **options):
        """A wrapper with which what is tested can begin, until() being true. On a busy machine the servers may have let its
        lease run out before: then another one is started, without the files named ready* that this one has left."""
        for _ in range(5):
            wrapper = self.start(*arguments, **options)
            wait_for(lambda wrapper=wrapper: wrapper.poll() is not None or until(), what)
            if wrapper.poll() is None:
                return wrapper
            if wrapper.returncode != 76:
                break
            for name in os.listdir(self.folder):
                if name.startswith("ready"):
                    os.remove(self.file(name))
        return self.fail("the holder ended: %r" % (wrapper.result(),))

    def hold(self, *arguments, command=("sleep", "1000"), **options):
        """A wrapper that holds the lock, its command running."""
        ready = self.file("ready-" + uuid.uuid4().hex[:8])
        script = 'echo $$ > "$0.new" && mv "$0.new" "$0" && exec "$@"'
        wrapper = self.begin(*arguments, self.lock, "--", "sh", "-c", script, ready, *command,
                             until=lambda: os.path.exists(ready), what="the command runs", **options)
        with open(ready, encoding="ascii") as file:
            wrapper.command = self.seen_from_here(int(file.read()))
        wait_for(lambda: script.encode() not in read_proc(wrapper.command, "cmdline"), "the shell has become the command")
        return wrapper

    def seen_from_here(self, number):
        """A process of this test that has this number where it runs, which may be a PID namespace."""
        for pid in self.marked():
            for line in read_proc(pid, "status").splitlines():
                if line.startswith(b"NSpid:") and int(line.split()[-1]) == number:
                    return pid
        return number

    def queue(self, *arguments, command=("true",), ahead=1, **options):
        """A wrapper that waits in the queue."""
        wrapper = self.start(*arguments, self.lock, "--", *command, **options)
        wait_for(lambda: len(self.nodes()) > ahead or wrapper.poll() is not None, "it has queued")
        if wrapper.poll() is not None:
            self.fail("the waiter ended: %r" % (wrapper.result(),))
        return wrapper

    # ---- looking ----

    def told_who_holds(self, **options):
        """What -nv says; that is nothing where the servers do not answer within a second."""
        def told():
            status, out, err = self.call("-nv", self.lock, "--", "true", **options)
            self.assertEqual((status, out), (75, b""))
            return err
        return wait_for(told, "it is told who holds")

    def file(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        try:
            with open(self.file(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def nodes(self):
        return zkwire.children(SERVERS, self.lock)

    def marked(self):
        """The living processes of this test that are not zklock-run: commands and what they started."""
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if ("%s=%s" % (MARK, self.mark)).encode() not in read_proc(pid, "environ").split(b"\0"):
                continue
            try:
                if os.readlink("/proc/%d/exe" % pid) != BINARY and lives(pid):
                    found.append(pid)
            except OSError:
                continue
        return found

    def kill_marked(self):
        for pid in self.marked():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def lose(self, contenders=None):
        """Deletes the node of who is first, as an operator can."""
        with zkwire.Client(SERVERS) as client:
            names = client.children(self.lock)
            if contenders is not None:
                self.assertEqual(len(names), contenders)
            name, = names[:1]
            client.delete(self.lock + "/" + name)

    @staticmethod
    def kill_at_once(*pids):
        """None of them sees the others die; parents are named first. They are killed last: a stopped process group whose
        parent ends is continued by the kernel (POSIX, orphaned process groups), and a warden would act."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            wait_for(lambda pid=pid: state_of(pid) == "T", "it is stopped")
        for pid in reversed(pids):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_lives(self):
        left = self.marked()
        self.assertEqual(left, [], "these live on: %s" % [read_proc(pid, "cmdline") for pid in left])

    def assert_free(self, patience=PATIENCE):
        """No node is left. A node goes at once with a release, after the session timeout with a crash."""
        wait_for(lambda: not self.nodes(), "the lock is free", patience)

    def assert_contenders(self, count):
        """Soon: who has left has not waited for long for servers that lag. What is left behind stays for a session."""
        wait_for(lambda: len(self.nodes()) == count, "there are %d contenders" % count, 5)

    def assert_one_line(self, err, *parts):
        self.assertEqual(err.count(b"\n"), 1, err)
        self.assertTrue(err.startswith(os.path.basename(BINARY).encode() + b": "), err)
        for part in parts:
            self.assertIn(part, err.decode(errors="replace"))
