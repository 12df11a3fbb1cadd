# SPDX-License-Identifier: Apache-2.0
"""Servers as containers, by the repository's docker-compose.yml.

Compose only brings them up. What comes after goes to the engine by id: compose takes a second for what the engine does in
a tenth, and it finds nothing once its file has changed. Everything that belongs to an ensemble carries compose's label of
the project, so that the end needs no state."""

import json
import os
import random
import subprocess
import time

import image
import wire
from ensemble import Fail, PortTaken, Unsupported, check_ports, signals_held, tool, wait_until_served, wait_until_started

NAME = "compose"
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))

# How long a healed server may take to go on with its old connections before it is started anew.
HEAL_S = 2.0
PAUSE_S = 20.0


def engine_runs():
    try:
        return subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=10,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _compose():
    """The plugin where there is one, else the older command."""
    for command in (["docker", "compose"], ["docker-compose"]):
        try:
            tool(command + ["version"])
            return command
        except Fail:
            continue
    raise Fail("neither `docker compose` nor `docker-compose` is installed")


def _project(state):
    return "zklock-" + state["name"]


def _of_project(state):
    return "label=com.docker.compose.project=" + _project(state)


def ports(count, base):
    if count > 3:
        raise Fail("docker-compose.yml has three servers")
    chosen = [base + i for i in range(count)]
    check_ports(chosen)
    return chosen


def prepare():
    """What may take minutes and leaves nothing of the ensemble behind when it is broken off."""
    return image.find()


def _fewer_servers(state):
    """A second compose file for an ensemble of less than three, whose servers must not wait for the others."""
    servers = " ".join("server.%d=%s.%d:2888:3888;2181" % (i, state["peers_net"], i + 10) for i in state.numbers)
    path = os.path.join(state.folder, "fewer.yml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"services": {"zk%d" % i: {"environment": {"ZOO_SERVERS": servers}} for i in state.numbers}}, f)
    return path


def _small_disks(state):
    """Another compose file, for logs on file systems of their own, which outlive a crash of their server."""
    path = os.path.join(state.folder, "disks.yml")
    small = {"driver": "local", "driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=%dm" % state["disk_mb"]}}
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"volumes": {"log%d" % i: small for i in state.numbers}}, f)
    return path


def _weigh_as_one():
    """Whether all containers together would get no more of the CPUs than one process of ours gets: where each cgroup weighs as
    much as a process beside it, and we are in none. On a busy machine the servers would stall for many seconds then."""
    def of_cpu(line):
        return "cpu" in line.split(":")[1].split(",")
    with open("/proc/self/cgroup", encoding="ascii") as f:
        ours = [line.rstrip("\n").split(":", 2)[2] for line in f if of_cpu(line)]
    return ours == ["/"] and tool(["docker", "info", "--format", "{{.CgroupDriver}}"]).strip() == "cgroupfs"


def _beside_us(state):
    """Another compose file, for servers that weigh as much as processes of ours, each."""
    path = os.path.join(state.folder, "weight.yml")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"services": {"zk%d" % i: {"cgroup_parent": "/"} for i in state.numbers}}, f)
    return path


def _containers(state):
    found = dict(reversed(line.split()) for line in
                 tool(["docker", "ps", "-a", "--no-trunc", "--filter", _of_project(state), "--format",
                       '{{.ID}} {{.Label "com.docker.compose.service"}}']).splitlines())
    return [found["zk%d" % i] for i in state.numbers]


def _up(state, env):
    state["peers_net"] = env["ZKLOCK_PEERS"] = "198.%d.%d" % (random.choice((18, 19)), random.randrange(256))
    command = _compose() + ["-f", os.path.join(TOP, "docker-compose.yml")]
    if state["servers"] < 3:
        command += ["-f", _fewer_servers(state)]
    if state["disk_mb"]:
        command += ["-f", _small_disks(state)]
    if _weigh_as_one():
        command += ["-f", _beside_us(state)]
    command += ["-p", _project(state), "up"]
    services = ["zk%d" % i for i in state.numbers]
    # Broken off in the middle, compose can leave the engine at work on a container that `down` does not see yet.
    with signals_held():
        if state["data"]:
            tool(command + ["--no-start"] + services, env=env)
            for container in _containers(state):
                tool(["docker", "cp", os.path.join(state["data"], "."), container + ":/data/version-2"])
        tool(command + ["-d"] + services, env=env)


def up(state):
    env = dict(os.environ)
    env.update({
        "ZKLOCK_IMAGE": image.find(),
        "ZKLOCK_TICK_MS": str(state["tick_ms"]),
        "ZKLOCK_SYNC_LIMIT": str(state["sync_limit"]),
    })
    for i in state.numbers:
        env["ZKLOCK_PORT%d" % i] = str(state.port(i))
    for attempt in range(5):
        try:
            _up(state, env)
            break
        except Fail as e:
            if "already allocated" in str(e) or "already in use" in str(e):
                raise PortTaken("a port of %s was taken meanwhile" % state.hosts) from None
            # The addresses of `peers` are another ensemble's.
            if "overlap" not in str(e) or attempt == 4:
                raise
    state["containers"] = _containers(state)
    state["peers"] = tool(["docker", "network", "ls", "-q", "--no-trunc", "--filter", _of_project(state), "--filter",
                           "label=com.docker.compose.network=peers"]).strip()
    state.save()


def _container(state, number):
    return state["containers"][number - 1]


def still_alive(state, numbers):
    """A function that raises when one of these servers has ended by itself."""
    def check():
        ended = set(tool(["docker", "ps", "-aq", "--no-trunc", "--filter", _of_project(state), "--filter",
                          "status=exited"]).split())
        ended = [_container(state, i) for i in numbers if _container(state, i) in ended]
        if ended:
            logs = subprocess.run(["docker", "logs", "--tail", "5", ended[0]], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60, check=False).stdout
            raise Fail("a server ended: " + logs.decode(errors="replace").strip().replace("\n", " / "))
    return check


def down(state):
    # A container's own volumes go with it, the named ones afterwards.
    for kind, find, remove in (("container", ["docker", "ps", "-aq"], ["docker", "rm", "-f", "-v"]),
                               ("network", ["docker", "network", "ls", "-q"], ["docker", "network", "rm"]),
                               ("volume", ["docker", "volume", "ls", "-q"], ["docker", "volume", "rm", "-f"])):
        for _ in range(3):
            left = tool(find + ["--filter", _of_project(state)]).split()
            if not left:
                break
            try:
                tool(remove + left)
            except Fail:
                # The engine reports a container that is just going away; whether it is gone is what counts.
                time.sleep(0.2)
        else:
            raise Fail("a %s of %s is left over: %s" % (kind, _project(state), " ".join(left)))


def pause(state, number):
    """The engine freezes all processes within some tries or gives up, as it does where they are many or busy: ask again."""
    deadline = time.monotonic() + PAUSE_S
    while True:
        try:
            return tool(["docker", "pause", _container(state, number)])
        except Fail as failure:
            if "unable to freeze" not in str(failure) or time.monotonic() > deadline:
                raise


def resume(state, number):
    tool(["docker", "unpause", _container(state, number)])


def kill(state, number):
    tool(["docker", "kill", "-s", "KILL", _container(state, number)])


def start(state, number):
    tool(["docker", "start", _container(state, number)])
    wait_until_started(state, number, still_alive(state, [number]))


def fill(state, number):
    if not state["disk_mb"]:
        raise Unsupported("fill: only where the ensemble was brought up with --disk")
    # In a file that has no name any more, held open by a process that ends with the server.
    tool(["docker", "exec", _container(state, number), "bash", "-c",
          "exec 3>/datalog/full 2>/dev/null; rm /datalog/full; dd if=/dev/zero bs=64k >&3; dd if=/dev/zero bs=1 >&3; "
          "sleep infinity </dev/null >/dev/null &"])


def cut(state, number):
    if state["servers"] == 1:
        raise Unsupported("cut: a single server has no peers")
    tool(["docker", "network", "disconnect", state["peers"], _container(state, number)])


def heal(state, number):
    container = _container(state, number)
    try:
        tool(["docker", "network", "connect", "--ip", "%s.%d" % (state["peers_net"], number + 10), state["peers"],
              container])
    except Fail as e:
        if "already exists" not in str(e):
            raise
    # With the address that it had its connections go on where they stopped, unless they have timed out or the next attempt
    # of the kernel to send is far off.
    deadline = time.monotonic() + HEAL_S
    while not wire.commits(state.port(number), 0.5):
        if time.monotonic() > deadline:
            tool(["docker", "restart", "-t", "0", container])
            break
        time.sleep(0.05)
    wait_until_served(state, [number])


def pid(state, number):
    return int(tool(["docker", "inspect", "-f", "{{.State.Pid}}", _container(state, number)]))


def _in_network_of(state, number, *command):
    tool(["nsenter", "-t", str(pid(state, number)), "-n", *command])


def block(state, source, target):
    """Nothing from one server reaches another one; the other way is open."""
    _in_network_of(state, target, "iptables", "-I", "INPUT", "-s", "%s.%d" % (state["peers_net"], source + 10), "-j", "DROP")


def unblock(state, target):
    """Of all that were blocked."""
    _in_network_of(state, target, "iptables", "-F", "INPUT")
    heal(state, target)
