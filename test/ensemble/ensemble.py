# SPDX-License-Identifier: Apache-2.0
"""What both backends share: an ensemble's name, its folder and state, ports, and waiting until servers serve.

The state of an ensemble is one JSON file in a folder of its own, named after it. It is written when the ensemble comes
up and read by every fault, which are processes of their own."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import wire

# Modules that only some commands need are imported where they are used: a fault is a process of its own, and tests wait
# for it.

# Three JVMs on a small machine that also compiles: seconds when idle, a multiple of that when not.
SERVE_S = 180


class Fail(Exception):
    """One line for people; the command ends with status 1."""


class PortTaken(Fail):
    """Somebody else listens there; with ports of our own choosing others can be tried."""


class Unsupported(Exception):
    """This backend cannot do it; the command ends with status 77."""


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_held():
    """An interruption comes before what is done within or after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def say(text):
    print("zk: " + text, file=sys.stderr, flush=True)


def tool(args, timeout=120, env=None):
    """Runs a command to its end and returns what it printed. In a session of its own: a Ctrl-C at the terminal is for us
    to handle and must not cut short what we do to tidy up."""
    try:
        done = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                              timeout=timeout, check=False, start_new_session=True)
    except FileNotFoundError:
        raise Fail("%s is not installed" % args[0]) from None
    except subprocess.TimeoutExpired:
        raise Fail("`%s` did not end within %d s" % (" ".join(args[:3]), timeout)) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Fail("`%s`: %s" % (" ".join(args[:3]), " / ".join(lines[-3:])))
    return done.stdout.decode(errors="replace")


def identity(pid):
    """Names a process beyond the life of its number; None when there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
        return [pid, fields[19], os.readlink("/proc/self/ns/pid")] if fields[0] != "Z" else None
    except OSError:
        return None


def base_folder():
    """Where the folders of this user's ensembles are."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return runtime if os.path.isdir(runtime) and os.access(runtime, os.W_OK) else "/tmp"


def folder_of(name):
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        raise Fail("'%s' is no name for an ensemble: a-z, 0-9, - and _ only, at most 40" % name)
    return os.path.join(base_folder(), "zklock-" + name)


class State(dict):
    """name, backend, servers, ports, tick_ms, sync_limit, disk_mb (0: not limited), data (a folder that each server's data are
    a copy of; None: it begins empty), owner; and what the backend adds."""

    @property
    def folder(self):
        return folder_of(self["name"])

    @property
    def hosts(self):
        return ",".join("127.0.0.1:%d" % port for port in self["ports"])

    @property
    def numbers(self):
        return range(1, self["servers"] + 1)

    def port(self, number):
        return self["ports"][number - 1]

    def create(self):
        """Takes the name. Of two that try only one succeeds."""
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            raise Fail("there is an ensemble named %s already; `down` ends it" % self["name"]) from None
        self.save()

    def save(self):
        path = os.path.join(self.folder, "state.json")
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(self, f, indent=1)
        os.replace(path + ".new", path)

    def remove(self):
        import shutil
        shutil.rmtree(self.folder, ignore_errors=True)


def load(name):
    """The state of the ensemble of that name, None where there is none."""
    folder = folder_of(name)
    try:
        # In /tmp anybody could have made a folder of that name.
        if os.stat(folder).st_uid != os.geteuid():
            raise Fail("%s belongs to another user; choose another name by ZKLOCK_ENSEMBLE" % folder)
        with open(os.path.join(folder, "state.json"), encoding="utf-8") as f:
            return State(json.load(f))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def abandoned():
    """Ensembles whose `run` or `up` was killed with -9 before it could tidy up."""
    import glob
    for path in glob.glob(os.path.join(base_folder(), "zklock-*", "state.json")):
        try:
            with open(path, encoding="utf-8") as f:
                state = State(json.load(f))
            owner = state["owner"]
            # Numbers of another pid namespace say nothing here.
            if owner and os.stat(path).st_uid == os.geteuid() and owner[2] == os.readlink("/proc/self/ns/pid") \
                    and identity(owner[0]) != owner:
                yield state
        except (OSError, ValueError, KeyError):
            continue


def _port_is_free(port):
    with socket.socket() as sock:
        # As the servers do: what lingers of closed connections does not matter.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def check_ports(ports):
    for port in ports:
        if not _port_is_free(port):
            raise PortTaken("port %d of 127.0.0.1 is taken; name another base port in ZKLOCK_TEST_PORT" % port)


def free_ports(count):
    """Below the range from which the kernel takes the ports of outgoing connections: one of those could take a port of a
    server while it is down."""
    import random
    ports = []
    while len(ports) < count:
        port = random.randrange(12000, 32000)
        if port not in ports and _port_is_free(port):
            ports.append(port)
    return ports


def modes(state):
    """The mode of every server, asked at the same time: one that is stopped costs its whole timeout."""
    import threading
    found = [None] * state["servers"]

    def ask(number):
        found[number - 1] = wire.mode(state.port(number))
    threads = [threading.Thread(target=ask, args=(i,)) for i in state.numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def wait_until_served(state, numbers, still_alive=lambda: None, timeout=SERVE_S):
    """Waits until each of these servers commits a transaction. still_alive() is called now and then, to give up at once
    when there is nothing left to wait for."""
    deadline = time.monotonic() + timeout
    asked = time.monotonic()
    for number in numbers:
        while not wire.commits(state.port(number), 2.0):
            now = time.monotonic()
            if now > deadline:
                raise Fail("server %d does not serve after %d s: the servers are %s" %
                           (number, timeout, ", ".join(modes(state))))
            if now > asked + 1:
                still_alive()
                asked = now
            time.sleep(0.05)


def wait_until_started(state, number, still_alive):
    """Waits until a server that was started serves; or until it runs, where too few others run for it ever to serve: who
    starts them all one by one must get on to the next."""
    deadline = time.monotonic() + SERVE_S
    while not wire.commits(state.port(number), 2.0):
        found = modes(state)
        runs = [mode for mode in found if mode not in ("down", "silent")]
        if found[number - 1] == "not serving" and len(runs) <= state["servers"] // 2:
            return
        if time.monotonic() > deadline:
            raise Fail("server %d does not serve after %d s: the servers are %s" % (number, SERVE_S, ", ".join(found)))
        still_alive()
        time.sleep(0.05)
