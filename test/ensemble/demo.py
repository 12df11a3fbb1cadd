#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: demo.py ZKLOCK_RUN, inside `zk run`.

Two commands, alice and bob, want one lock. First they take turns. Then the server that alice's wrapper is connected to is
cut off from the others: it goes on answering her, yet her command is ended before bob's begins.

The commands are this file again (`demo.py work NAME SECONDS`). They report to the demo over a datagram socket, with the
time of the one clock that both share."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
PATH = "/zklock-demo"
TIMEOUT_S = 4
# The worst case is the session timeout and a tick for the grant, and this machine may be busy with other things.
PATIENCE_S = 30


class Fail(Exception):
    pass


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# ---- the command that zklock-run runs --------------------------------------------------------------------------------

def work(name, seconds):
    """Reports that it begins, that it is at work each 20 ms, and that it ends."""
    report_to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    report_to.connect(os.environ["ZKLOCK_DEMO_SOCKET"])
    token = int(os.environ["ZKLOCK_TOKEN"])
    told = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))

    def report(what):
        report_to.send(json.dumps({"at": now(), "who": name, "what": what, "token": token}).encode())

    report("begins")
    end = now() + seconds
    while now() < end and not told:
        report("works")
        time.sleep(0.02)
    report("told to end" if told else "ends")


# ---- the demo --------------------------------------------------------------------------------------------------------

class Stage:
    """Starts wrappers, reads what their commands report and prints it as it comes."""

    def __init__(self, zklock_run, folder):
        self.zklock_run = zklock_run
        self.address = os.path.join(folder, "reports")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.address)
        self.began = now()
        self.wrappers = {}
        self.seen = []

    def say(self, at, who, text):
        print("  %6.2f s  %-6s %s" % (at - self.began, who, text), flush=True)

    def start(self, who, servers, seconds):
        command = [self.zklock_run, "-s", servers, "-T", "%ds" % TIMEOUT_S, PATH, "--", sys.executable,
                   os.path.realpath(__file__), "work", who, str(seconds)]
        # Without a terminal: zklock-run would put its command into the foreground, and a Ctrl-C is for the demo.
        self.wrappers[who] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                              env=dict(os.environ, ZKLOCK_DEMO_SOCKET=self.address),
                                              start_new_session=True)
        self.say(now(), who, "asks for the lock")

    def look(self, seconds):
        """Takes in what is reported within so many seconds; returns at the first event that is worth a line."""
        deadline = now() + seconds
        while (left := deadline - now()) > 0:
            if not select.select([self.socket], [], [], min(left, 0.05))[0]:
                for who, wrapper in list(self.wrappers.items()):
                    # Its last reports came before it ended, and are read by now.
                    if wrapper.poll() is not None and not select.select([self.socket], [], [], 0)[0]:
                        del self.wrappers[who]
                        return self.note({"at": now(), "who": who, "what": "exit", "status": wrapper.returncode,
                                          "said": wrapper.stderr.read().decode(errors="replace").splitlines()})
                continue
            event = json.loads(self.socket.recv(4096))
            if event["what"] != "works":
                return self.note(event)
            self.seen.append(event)
        return None

    def note(self, event):
        self.seen.append(event)
        at, who, what = event["at"], event["who"], event["what"]
        if what == "begins":
            self.say(at, who, "HOLDS     token %d" % event["token"])
        elif what == "ends":
            self.say(at, who, "is done")
        elif what == "told to end":
            self.say(at, who, "is told to end, and ends")
        else:
            for line in event["said"]:
                self.say(at, who, "| " + line)
            if event["status"] not in (0, 76):
                raise Fail("%s's zklock-run ended with status %d" % (who, event["status"]))
            if event["status"] == 76:
                self.say(at, who, "zklock-run ends with status 76: lock lost")
        return event

    def until(self, condition):
        deadline = now() + PATIENCE_S
        while now() < deadline:
            event = self.look(deadline - now())
            if event and condition(event):
                return event
        raise Fail("nothing came of it within %d s" % PATIENCE_S)

    def holds(self):
        """Every hold, as (token, who, first report, last report)."""
        holds = {}
        for event in self.seen:
            if "token" in event:
                token, who, first, last = holds.get(event["token"], (event["token"], event["who"], event["at"], 0))
                holds[event["token"]] = (token, who, first, max(last, event["at"]))
        return [holds[token] for token in sorted(holds)]

    def close(self):
        for wrapper in self.wrappers.values():
            wrapper.terminate()
        for wrapper in self.wrappers.values():
            try:
                wrapper.wait(10)
            except subprocess.TimeoutExpired:
                wrapper.kill()


def zk(*words):
    done = subprocess.run([os.path.join(HERE, "zk")] + list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=False)
    if done.returncode:
        raise Fail("`zk %s` failed" % " ".join(words))
    return done.stdout.decode().strip()


def in_turns(stage, servers):
    print("\nTwo commands want the lock %s, each twice.\n" % PATH)
    left = {"alice": 1, "bob": 1}
    for who in left:
        stage.start(who, servers, 0.7)
    while stage.wrappers:
        event = stage.until(lambda event: event["what"] == "exit")
        if left[event["who"]]:
            left[event["who"]] -= 1
            stage.start(event["who"], servers, 0.7)


def cut_off(stage, servers):
    addresses = servers.split(",")
    leader = int(zk("leader"))
    number = leader % len(addresses) + 1
    others = ",".join(address for i, address in enumerate(addresses, 1) if i != number)
    verb, doing = ("cut", "cut off from the others") if os.environ["ZKLOCK_TEST_BACKEND"] == "compose" \
        else ("pause", "stopped")
    print("\nalice knows server %d only, a follower. It is %s while she holds. Session timeout: %d s.\n" %
          (number, doing, TIMEOUT_S))
    stage.start("alice", addresses[number - 1], 300)
    stage.until(lambda event: event["what"] == "begins")
    stage.start("bob", others, 0.7)
    # The wrapper of a holder proves its session twice in T/3; what is to be seen is not the first moment of a hold.
    while (event := stage.look(1.0)) is not None:
        if event["what"] == "exit":
            raise Fail("the lock was lost before anything happened to it")
    zk(verb, str(number))
    stage.say(now(), "", "-- server %d is %s" % (number, doing))
    stage.until(lambda event: event["what"] == "begins")
    if verb == "cut":
        stage.say(now(), "", "-- server %d, asked now, says it is a %s" % (number, zk("mode", str(number))))
    while stage.wrappers:
        stage.until(lambda event: event["what"] == "exit")


def judge(stage):
    """Looks at every two holds that follow each other, also those that nothing happened to."""
    holds = stage.holds()
    print("\n  token %20s  %-6s  from       to\n" % ("", "who") + "\n".join(
        "  %-26d  %-6s  %6.2f s   %6.2f s" % (token, who, first - stage.began, last - stage.began)
        for token, who, first, last in holds))
    for before, after in zip(holds, holds[1:]):
        if after[2] <= before[3]:
            raise Fail("%s began with token %d before %s had ended" % (after[1], after[0], before[1]))
    print("\nEach began after the one before had ended, and with a greater token. After the cut bob began %.2f s after\n"
          "alice's last sign of life." % (holds[-1][2] - holds[-2][3]))


def main(zklock_run):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    servers = os.environ["ZKLOCK_TEST_SERVERS"]
    print("Three servers: " + servers)
    with tempfile.TemporaryDirectory(prefix="zklock-demo-") as folder:
        stage = Stage(os.path.abspath(zklock_run), folder)
        try:
            in_turns(stage, servers)
            cut_off(stage, servers)
            judge(stage)
        finally:
            stage.close()


if __name__ == "__main__":
    try:
        if sys.argv[1] == "work":
            work(sys.argv[2], float(sys.argv[3]))
        else:
            main(sys.argv[1])
    except Fail as e:
        print("demo: %s" % e, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
