# SPDX-License-Identifier: Apache-2.0
"""The faults. Each is a method: it says what it does and to whom when it begins, and has put it right when it returns.

Faults that are aimed at a holder let it stay in its hold until they have struck. Two come at once where one hits one
client or its link and the other servers: each puts right what it did, so that a quorum is never lost for good."""

import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import threading
import time

import ensemble
from contenders import now_ns
from network import Network


class Impossible(Exception):
    """Not now: nobody holds, or what was aimed at is gone."""


FAULTS = []
# Of two at once one is of the first kind, one of the second. Those of neither come alone: they are two already, or leave all
# clients too few ways to the servers that are left for anything to be promised.
CLIENTS, SERVERS = "a client", "servers"


def fault(kind="", needs=""):
    """Registers one; needs: what the ensemble must be able to do."""
    def register(method):
        FAULTS.append((method, kind, needs))
        return method
    return register


def abilities(state, backend):
    found = {""}
    if backend.NAME == "compose":
        found.add("cut")
        if os.geteuid() == 0 and shutil.which("nsenter") and shutil.which("iptables"):
            found.add("block")
    return found if state["servers"] > 1 else {""}


class Nemesis:
    def __init__(self, run):
        self.run, self.random = run, random.Random(run.seed)
        self.state, self.zk, self.network = run.state, run.backend, run.network
        self.session_s, self.tick_s = run.session_ms / 1000, run.state["tick_ms"] / 1000
        self.began = None
        self.text, self.touched = "", ()
        self.broken_off = threading.Event()

    # ---- aiming ----

    def begins(self, text, *touched):
        self.text, self.touched, self.began = text, touched or ("all",), now_ns()
        self.run.say(text)

    def wait(self, seconds):
        """The run can be broken off here."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.run.check_going_on()
            if self.broken_off.is_set():
                raise Impossible
            time.sleep(min(left, 0.05))

    def until(self, condition, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            self.wait(0.02)
        raise Impossible

    def those(self, *kinds):
        return [each for each in self.run.contenders if each.kind in kinds]

    @contextlib.contextmanager
    def holder(self, chosen):
        """One of these that holds, and goes on holding to the end of the context."""
        asked = now_ns()
        for each in chosen:
            each.stay(True)

        def found():
            self.run.history.update()
            for each in chosen:
                hold = self.run.history.lane(each.name).holding()
                if each.process and hold and hold.acts and hold.acts[-1].began > asked:
                    return each
            return None
        try:
            one = self.until(found, 3 * self.session_s)
            for each in chosen:
                each.stay(each is one)
            yield one
        finally:
            for each in chosen:
                each.stay(False)

    @staticmethod
    def part(wrapper, which):
        family = wrapper.family()
        if len(family) != 3:
            raise Impossible
        return family[("front", "warden", "command").index(which)]

    def anybody(self):
        return self.random.choice([each for each in self.run.contenders if each.family()] or self.run.contenders)

    def any_resource(self):
        return self.random.choice((self.those("lib", "run"), self.those("cand")))

    def leader(self):
        found = ensemble.modes(self.state)
        if "leader" not in found:
            raise Impossible
        return found.index("leader") + 1

    def follower(self):
        leader = self.leader()
        return self.random.choice([number for number in self.state.numbers if number != leader])

    # ---- processes ----

    @fault(CLIENTS)
    def kill_holder(self):
        with self.holder(self.any_resource()) as one:
            self.begins("kill -9 %s, which holds" % one, one.name)
            one.kill()

    @fault(CLIENTS)
    def kill_anybody(self):
        one = self.anybody()
        self.begins("kill -9 %s" % one, one.name)
        one.kill()

    @fault(CLIENTS)
    def kill_half_of_the_wrapper(self):
        with self.holder(self.those("run")) as one:
            which = self.random.choice(("front", "warden", "command"))
            pid = self.part(one, which)
            self.begins("kill -9 the %s of %s, which holds" % (which, one), one.name)
            one.signal(signal.SIGKILL, [pid])

    def pause(self, one, pids, seconds, whole):
        from_ns = now_ns()
        one.signal(signal.SIGSTOP, pids)
        try:
            self.wait(seconds)
        finally:
            one.signal(signal.SIGCONT, pids)
            if whole:
                self.run.log("paused", one.name, from_ns, now_ns())

    @fault(CLIENTS)
    def pause_holder_for_long(self):
        with self.holder(self.any_resource()) as one:
            self.begins("stop %s, which holds, for 1.5 T" % one, one.name)
            self.pause(one, one.family(), 1.5 * self.session_s, True)

    @fault(CLIENTS)
    def pause_holder_for_a_moment(self):
        with self.holder(self.any_resource()) as one:
            # Two thirds of the shortest lease; no excuse for anybody.
            self.begins("stop %s, which holds, for T/4" % one, one.name)
            self.pause(one, one.family(), self.session_s / 4, True)

    @fault(CLIENTS)
    def pause_anybody(self):
        one = self.anybody()
        seconds = self.random.uniform(0.2, 2) * self.session_s
        self.begins("stop %s for %.1f s" % (one, seconds), one.name)
        self.pause(one, one.family(), seconds, True)

    @fault(CLIENTS)
    def pause_half_of_the_wrapper(self):
        with self.holder(self.those("run")) as one:
            which = self.random.choice(("front", "warden"))
            pid = self.part(one, which)
            self.begins("stop the %s of %s, which holds, for 1.5 T" % (which, one), one.name)
            self.pause(one, [pid], 1.5 * self.session_s, False)

    # ---- between clients and servers ----

    @contextlib.contextmanager
    def network_fault(self):
        try:
            yield
        finally:
            self.network.heal()

    def silence_of_holder(self, ways, text):
        with self.holder(self.any_resource()) as one, self.network_fault():
            self.begins("%s %s, which holds" % (text, one), one.name)
            self.network.hold(ways, one.number)
            self.wait(1.5 * self.session_s)

    @fault(CLIENTS)
    def cut_holder_off(self):
        self.silence_of_holder(Network.SILENT, "no link to the servers for 1.5 T for")

    @fault(CLIENTS)
    def silence_to_the_servers(self):
        self.silence_of_holder(Network.SILENT_TO_SERVER, "one way for 1.5 T: nothing reaches the servers from")

    @fault(CLIENTS)
    def silence_from_the_servers(self):
        self.silence_of_holder(Network.SILENT_TO_CLIENT, "one way for 1.5 T: nothing comes from the servers to")

    @fault()
    def short_silence_for_all(self):
        # Less than the lease that everybody has when it begins: nothing needs to be lost, and a little may.
        with self.network_fault():
            seconds = self.random.uniform(0.1, 0.4) * self.session_s
            self.begins("no link between clients and servers for %.1f s" % seconds)
            self.outage(seconds)

    @fault()
    def long_silence_for_all(self):
        with self.network_fault():
            self.begins("no link between clients and servers for 1.5 T")
            self.outage(1.5 * self.session_s)

    def outage(self, seconds):
        from_ns = now_ns()
        try:
            self.network.hold(Network.SILENT)
            # It takes a while until nobody is answered who connects.
            self.wait(seconds - (now_ns() - from_ns) / 1e9)
        finally:
            self.network.heal()
            self.run.log("outage", from_ns, now_ns())

    @fault()
    def one_server_out_of_reach(self):
        number = self.random.choice(self.state.numbers)
        with self.network_fault():
            self.begins("no link between clients and server %d for 2 T" % number)
            self.network.hold(Network.SILENT, "*", number - 1)
            self.wait(2 * self.session_s)

    @fault()
    def slow_links(self):
        """Each way lets go what has come each 150 ms."""
        with self.network_fault():
            self.begins("slow links for 2 T: up to 150 ms each way")
            end = time.monotonic() + 2 * self.session_s
            while time.monotonic() < end:
                for ways in (Network.SILENT_TO_SERVER, Network.SILENT_TO_CLIENT):
                    self.network.hold(ways)
                    self.wait(0.15)

    @fault()
    def lossy_links(self):
        """What TCP makes of lost packets: one link or another stands still for a while, or breaks."""
        with self.network_fault():
            self.begins("lossy links for 2 T: some stand still for 0.2 to 0.6 s, some break")
            end = time.monotonic() + 2 * self.session_s
            while time.monotonic() < end:
                bad = [(each.number, self.random.choice(self.state.numbers) - 1) for each in self.run.contenders
                       if self.random.random() < 0.3]
                for client, server in bad:
                    if self.random.random() < 0.2:
                        self.network.cut(client, server)
                    self.network.hold(self.random.choice((1, 2, 3)), client, server)
                self.wait(self.random.uniform(0.2, 0.6))
                for client, server in bad:
                    self.network.hold(0, client, server)

    # ---- servers ----

    @contextlib.contextmanager
    def server_fault(self, number, undo):
        try:
            yield
        finally:
            undo(self.state, number)

    def server_down(self, number, text, seconds):
        with self.server_fault(number, self.zk.start):
            self.begins("kill -9 %s, server %d, start it after %.1f s" % (text, number, seconds))
            self.zk.kill(self.state, number)
            self.wait(seconds)

    @fault(SERVERS)
    def kill_leader(self):
        self.server_down(self.leader(), "the leader", self.random.uniform(0, 1.5) * self.session_s)

    @fault(SERVERS)
    def kill_follower(self):
        self.server_down(self.follower(), "a follower", self.random.uniform(0, 1.5) * self.session_s)

    @fault(SERVERS)
    def lose_the_quorum(self):
        one, other = self.random.sample(self.state.numbers, 2)
        seconds = self.random.uniform(0.2, 2) * self.session_s
        with self.server_fault(one, self.zk.start), self.server_fault(other, self.zk.start):
            self.begins("kill -9 servers %d and %d, start them after %.1f s" % (one, other, seconds))
            self.zk.kill(self.state, one)
            self.zk.kill(self.state, other)
            self.wait(seconds)

    @fault()
    def kill_leader_while_holder_is_stopped(self):
        """It goes on when the new leader has given its session another life."""
        number = self.leader()
        with self.holder(self.any_resource()) as one, self.server_fault(number, self.zk.start):
            self.begins("kill -9 the leader, server %d, and stop %s, which holds, for T" % (number, one))
            self.zk.kill(self.state, number)
            self.pause(one, one.family(), self.session_s, True)

    @fault(SERVERS)
    def rolling_restart(self):
        self.begins("restart each server in turn")
        for number in self.random.sample(self.state.numbers, self.state["servers"]):
            with self.server_fault(number, self.zk.start):
                self.zk.kill(self.state, number)

    def server_paused(self, number, text):
        with self.server_fault(number, self.zk.resume):
            self.begins("stop %s, server %d, for 2 T" % (text, number))
            self.zk.pause(self.state, number)
            self.wait(2 * self.session_s)

    @fault(SERVERS)
    def pause_follower(self):
        self.server_paused(self.follower(), "a follower")

    @fault(SERVERS)
    def pause_leader(self):
        self.server_paused(self.leader(), "the leader")

    # ---- between servers ----

    @contextlib.contextmanager
    def holder_at(self, number, chosen):
        """One of these, made to connect to this server."""
        one = self.random.choice(chosen)
        try:
            for other in self.state.numbers:
                if other != number:
                    self.network.refuse(one.number, other - 1)
            with self.holder([one]):
                self.until(lambda: one.servers() == [number], self.session_s)
                self.network.heal()
                yield one
        finally:
            self.network.heal()

    @fault(needs="cut")
    def cut_follower_off_its_leader(self):
        """The follower goes on answering its clients. In a contest of libraries, holders of both are among them."""
        number = self.follower()
        chosen = [self.those("lib", "run"), self.those(self.run.peer)] if self.run.peer else [self.any_resource()]
        with contextlib.ExitStack() as stack:
            holders = [stack.enter_context(self.holder_at(number, each)) for each in chosen]
            names = [one.name for one in holders]
            with self.server_fault(number, self.zk.heal):
                self.begins("cut server %d off its peers for 2.5 T; with it %s, which hold" % (number, " and ".join(names)))
                self.zk.cut(self.state, number)
                self.wait(2.5 * self.session_s)

    @fault(SERVERS, "cut")
    def cut_leader_off(self):
        number = self.leader()
        with self.server_fault(number, self.zk.heal):
            self.begins("cut the leader, server %d, off both followers for 3 T" % number)
            self.zk.cut(self.state, number)
            self.wait(3 * self.session_s)

    def one_way(self, source, target, text):
        with self.server_fault(target, self.zk.unblock):
            self.begins("one way for 2.5 T: nothing reaches %s" % text)
            self.zk.block(self.state, source, target)
            self.wait(2.5 * self.session_s)

    @fault(needs="block")
    def follower_deaf(self):
        number = self.follower()
        with self.holder_at(number, self.any_resource()) as one:
            self.one_way(self.leader(), number, "server %d from the leader; with it %s, which holds" % (number, one))

    @fault(needs="block")
    def follower_dumb(self):
        number = self.follower()
        with self.holder_at(number, self.any_resource()) as one:
            self.one_way(number, self.leader(), "the leader from server %d; with it %s, which holds" % (number, one))

    # ---- a run of them ----

    def possible(self):
        able = abilities(self.state, self.zk)
        chosen = [method for method, _, needs in FAULTS if needs in able]
        if self.run.peer:
            chosen = [method for method in chosen if method.__name__ == "cut_follower_off_its_leader"]
        return chosen, [method.__name__ for method, _, needs in FAULTS if needs not in able]

    def deck(self):
        """Each by itself, and each that hits servers once more, with one that hits clients."""
        chosen = self.possible()[0]
        first, second = ([method for method, kind, _ in FAULTS if kind == wanted and method in chosen]
                         for wanted in (CLIENTS, SERVERS))
        cards = [(method,) for method in chosen] + [(self.random.choice(first), method) for method in second if first]
        self.random.shuffle(cards)
        return cards

    def strike(self, method):
        self.began = None
        try:
            method(self)
        except Impossible:
            if self.began is None:
                return False
        finally:
            if self.began is not None:
                self.run.log("fault", self.began, now_ns(), ",".join(self.touched), self.text)
        return True

    def strike_both(self, first, second):
        """The second one begins while the first, which may have to wait for somebody to hold, is there."""
        other = Nemesis(self.run)
        other.random = random.Random(self.random.random())
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            struck = pool.submit(other.strike, first)
            try:
                while not struck.done() and other.began is None:
                    self.wait(0.02)
                if other.began is not None:
                    self.wait(self.random.uniform(0, 0.5) * self.session_s)
                    self.strike(second)
            except BaseException:
                other.broken_off.set()
                raise
            return struck.result()

    def recover(self):
        """Until everybody who can be granted has been, so that faults do not add up; not for ever."""
        healed = now_ns()

        def progress():
            lanes = self.run.history.update().lanes.values()
            return {lane.resource for lane in lanes if lane.holds and lane.holds[-1].start > healed} == set(self.run.paths)
        try:
            self.until(progress, 3 * self.session_s)
        except Impossible:
            self.run.say("no progress within 3 T")
        self.wait(self.random.uniform(0.5, 1.5))

    def rage(self, until):
        """All kinds of faults in turn, some of them in pairs, in another order each time."""
        deck, turn = [], 0
        self.recover()
        while time.monotonic() < until:
            # How often it is asked for a number depends on the machine; the next fault shall not.
            turn += 1
            self.random = random.Random("%d %d" % (self.run.seed, turn))
            deck = deck or self.deck()
            card = deck.pop()
            if self.strike(*card) if len(card) == 1 else self.strike_both(*card):
                self.recover()
