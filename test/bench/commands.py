# SPDX-License-Identifier: Apache-2.0
"""A command under a lock, from its start to its end: the wrapper, beside the least that connects, creates, deletes and
closes; and beside flock, and etcdctl where ./dev has found the distribution's etcd (ZKLOCK_BENCH_ETCD). And what one of several
costs that wait for their turn with a short command."""

import contextlib
import operator
import os
import subprocess
import tempfile
import time

from report import Figure
from workers import PATIENCE_S, PROGRAMS, SERVERS, Directory, Fail

from ensemble import free_ports

ETCD = os.environ.get("ZKLOCK_BENCH_ETCD")


def took_ms(command):
    began = time.monotonic_ns()
    status = subprocess.call(command, stdout=subprocess.DEVNULL)
    took = (time.monotonic_ns() - began) / 1e6
    if status != 0:
        raise Fail("%s ended with %d" % (os.path.basename(command[0]), status))
    return took


@contextlib.contextmanager
def etcd():
    """Three servers of etcd, with their data in memory as far as this machine has a place for that: they cannot be told not
    to sync. What etcdctl is called with."""
    folder = tempfile.TemporaryDirectory(prefix="zklock-bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    ports = free_ports(6)
    clients, peers = (["http://127.0.0.1:%d" % port for port in each] for each in (ports[:3], ports[3:]))
    cluster = ",".join("s%d=%s" % item for item in enumerate(peers))
    servers = [subprocess.Popen(
        [ETCD + "/etcd", "--name", "s%d" % i, "--data-dir", "%s/s%d" % (folder.name, i), "--initial-cluster", cluster,
         "--listen-client-urls", clients[i], "--advertise-client-urls", clients[i], "--listen-peer-urls", peers[i],
         "--initial-advertise-peer-urls", peers[i]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(3)]
    try:
        etcdctl = [ETCD + "/etcdctl", "--endpoints", ",".join(clients)]
        os.environ["ETCDCTL_API"] = "3"
        end = time.monotonic() + PATIENCE_S
        while subprocess.call(etcdctl + ["put", "up", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
            if time.monotonic() > end:
                raise Fail("etcd does not serve after %d s" % PATIENCE_S)
            time.sleep(0.1)
        yield etcdctl
    finally:
        for each in servers:
            each.kill()
            each.wait()
        folder.cleanup()


def measure(figure, commands, floor, count):
    for kind, command in commands.items():
        took_ms(command)
        for _ in range(count):
            floor_ms = took_ms(floor)
            figure.add(kind, took_ms(command), floor_ms)


def turn_ms(holder, command, directory, waiting):
    """From a release to the end of the last one, for each of them."""
    holder.ask("hold", directory.path, answer="held")
    processes = []
    for ahead in range(1, waiting + 1):
        processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        directory.wait_for(ahead + 1)
    released, = holder.ask("release", answer="released")
    statuses = [each.wait(PATIENCE_S) for each in processes]
    took = (time.monotonic_ns() - released) / 1e6 / waiting
    if any(statuses):
        raise Fail("%s ended with %s" % (os.path.basename(command[0]), statuses))
    return took


def run_in_turn(table, crews, count):
    waiting = 8
    figure = Figure("%d zklock-run L true wait, a turn" % waiting, "ms", None)
    directory = Directory("turns")
    command = [os.environ["ZKLOCK_RUN"], "-s", SERVERS, directory.path, "true"]
    for _ in range(count):
        figure.add("zklock", turn_ms(crews.of("zklock", 1)[0], command, directory, waiting))
    table.add(figure)


def run(table, crews, short):
    figure = Figure("zklock-run L true", "ms", "connect .. close", "<= 4", against=operator.sub)
    path = Directory("command").path
    floor = [PROGRAMS + "/bench_once", SERVERS, path]
    with tempfile.NamedTemporaryFile(prefix="zklock-bench-") as file, contextlib.ExitStack() as stack:
        commands = {"zklock": [os.environ["ZKLOCK_RUN"], "-s", SERVERS, path, "true"], "flock": ["flock", file.name, "true"]}
        if ETCD:
            commands["etcdctl"] = stack.enter_context(etcd()) + ["lock", "bench", "true"]
        measure(figure, commands, floor, 10 if short else 60)
    table.add(figure)
    run_in_turn(table, crews, 3 if short else 20)
