# SPDX-License-Identifier: Apache-2.0
"""Servers as JVMs of the distribution's package on loopback, where no container engine runs.

A process of an ensemble is known by an argument that lies in the ensemble's folder, so that nothing is killed by a number
that may be somebody else's by now, and the end needs no list of what was started."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from ensemble import Fail, PortTaken, Unsupported, check_ports, free_ports, signals_held, wait_until_started

NAME = "process"
JAR = "/usr/share/java/zookeeper.jar"
# The log binding is only for what goes wrong; without one the servers say nothing at all.
CLASS_PATH = JAR + ":/usr/share/java/slf4j-simple.jar"
HERE = os.path.dirname(os.path.realpath(__file__))
GONE_S = 30


def ports(count, base):
    if count > 9:
        raise Fail("at most nine servers")
    chosen = [base + i for i in range(count)]
    check_ports(chosen)
    return chosen


def prepare():
    if not shutil.which("java") or not os.path.exists(JAR):
        raise Fail("no ZooKeeper server is installed (packages default-jre-headless and libzookeeper-java)")


def _config(state, number):
    return os.path.join(state.folder, "server%d" % number, "zoo.cfg")


def _pids(argument):
    """The processes with this very argument. One that has ended and was not waited for has none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                if argument.encode() in f.read().split(b"\0"):
                    yield int(pid)
        except OSError:
            continue


def _signal(argument, number):
    sent = False
    for pid in _pids(argument):
        try:
            os.kill(pid, number)
            sent = True
        except ProcessLookupError:
            continue
    return sent


def _end(argument):
    """Kills what has this argument and waits until it is gone."""
    deadline = time.monotonic() + GONE_S
    for pid in list(_pids(argument)):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if pid in _pids(argument):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not select.select([handle], [], [], max(0, deadline - time.monotonic()))[0]:
                raise Fail("process %d does not end" % pid)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


def _spawn(args, log, more_env=()):
    """Starts a process that outlives us and that a Ctrl-C does not reach, with none of our signals blocked in it."""
    with signals_held(), open(log, "ab") as out:
        # Its parent may end at any time after; there is nothing to wait for.
        return subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                cwd=os.path.dirname(log), env=dict(os.environ, **dict(more_env)),
                                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, set()))


def _clock(number):
    """What makes the clock of this server run at the rate that is asked for."""
    library, *rates = os.environ.get("ZKLOCK_SERVER_CLOCKS", "").split() or [""]
    if number > len(rates):
        return {}
    return {"LD_PRELOAD": library,
            "ZKLOCK_CHAOS_CLOCK": "%s %d" % (rates[number - 1], time.clock_gettime_ns(time.CLOCK_BOOTTIME))}


def _start_server(state, number):
    config = _config(state, number)
    _spawn(["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            # It would leave a file behind when it is killed.
            "-XX:-UsePerfData",
            # A stall of the disk is not what is tested, nor is a loss of power.
            "-Dzookeeper.forceSync=no",
            # Idle containers go within a second or two in place of a minute.
            "-Dznode.container.checkIntervalMs=1000",
            # Quotas are in force, where one is set.
            "-Dzookeeper.enforceQuota=true", *os.environ.get("ZKLOCK_JVMFLAGS", "").split(),
            "-cp", CLASS_PATH, "org.apache.zookeeper.server.quorum.QuorumPeerMain", config],
           os.path.join(os.path.dirname(config), "log"), _clock(number))


def up(state):
    peers = free_ports(2 * state["servers"])
    lines = ["tickTime=%d" % state["tick_ms"], "initLimit=60", "syncLimit=%d" % state["sync_limit"],
             "maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=*", "clientPortAddress=127.0.0.1"]
    if state["servers"] > 1:
        lines += ["server.%d=127.0.0.1:%d:%d" % (i, peers[2 * i - 2], peers[2 * i - 1]) for i in state.numbers]
    for i in state.numbers:
        config = _config(state, i)
        data = os.path.join(os.path.dirname(config), "data")
        os.makedirs(data)
        if state["data"]:
            shutil.copytree(state["data"], os.path.join(data, "version-2"))
        with open(os.path.join(data, "myid"), "w", encoding="ascii") as f:
            f.write("%d\n" % i)
        with open(config, "w", encoding="utf-8") as f:
            own = os.environ.get("ZKLOCK_CFG3", "").split() if i == 3 else []
            f.write("\n".join(lines + own + ["clientPort=%d" % state.port(i), "dataDir=" + data]) + "\n")
    for i in state.numbers:
        _start_server(state, i)
    _spawn([sys.executable, "-B", os.path.join(HERE, "keep_moving.py"), state.folder] + [str(p) for p in state["ports"]],
           os.path.join(state.folder, "keep_moving.log"))


def still_alive(state, numbers):
    """A function that raises when one of these servers has ended by itself."""
    def check():
        for i in numbers:
            if any(_pids(_config(state, i))):
                continue
            with open(os.path.join(os.path.dirname(_config(state, i)), "log"), errors="replace", encoding="utf-8") as f:
                text = f.read()
            if re.search("BindException|Address already in use", text):
                raise PortTaken("a port of server %d was taken meanwhile" % i)
            raise Fail("server %d ended: %s" % (i, " / ".join(text.strip().splitlines()[-5:])))
    return check


def down(state):
    _end(state.folder)
    for i in state.numbers:
        _end(_config(state, i))


def pid(state, number):
    for found in _pids(_config(state, number)):
        return found
    raise Fail("server %d does not run" % number)


def pause(state, number):
    if not _signal(_config(state, number), signal.SIGSTOP):
        raise Fail("server %d does not run" % number)


def resume(state, number):
    if not _signal(_config(state, number), signal.SIGCONT):
        raise Fail("server %d does not run" % number)


def kill(state, number):
    _end(_config(state, number))


def start(state, number):
    if not any(_pids(_config(state, number))):
        _start_server(state, number)
    wait_until_started(state, number, still_alive(state, [number]))


def fill(state, number):
    raise Unsupported("fill: a folder's size cannot be limited without mounting; the compose backend can")


def cut(state, number):
    raise Unsupported("cut: on loopback a server cannot be taken off its peers; the compose backend can")


def heal(state, number):
    raise Unsupported("heal: on loopback a server cannot be taken off its peers; the compose backend can")


def block(state, source, target):
    raise Unsupported("block: on loopback servers cannot be told apart; the compose backend can")


def unblock(state, target):
    raise Unsupported("unblock: on loopback servers cannot be told apart; the compose backend can")
