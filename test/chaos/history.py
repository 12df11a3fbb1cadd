# SPDX-License-Identifier: Apache-2.0
"""What happened in a run, read back from its folder. Moments are ns by CLOCK_BOOTTIME.

RESOURCE.NAME.history, by the contender:

    wait NS                                 it asks for the lock, or campaigns
    hold NS TOKEN EPOCH                     it has been granted
    act BEGAN ENDED LEFT_MS TOKEN VALUE GUARDED
                                            at BEGAN it held for LEFT_MS more, as far as it knew. It wrote VALUE to the
                                            file, and GUARDED to the register (-1: refused)
    free NS TOKEN, lost NS TOKEN            it has let go; it was told or found that it had lost
    idle NS WHY                             it gave up waiting
    limit BEGAN ENDED LATE_MS CALL          a call with a limit in time came back so much later than that
    fail NS TEXT                            a call failed that should not

run.log, by the harness:

    session MS, tick MS
    resource RESOURCE PATH                  a lock or an election of its own
    peer RESOURCE                           that one of them is another library's
    process NAME PID NS, ended NAME PID NS STATUS
    failed NAME NS TEXT
    paused NAME FROM TO                     all its processes were stopped
    fault BEGAN ENDED NAME,... TEXT         whom it touched: names, or all
    outage FROM TO                          no client reached any server
    told NS                                 the contenders were told to end

register.log and witness.log: see register.py and witness.py."""

import bisect
import glob
import os

MS = 1000000


class Hold:
    """From the grant to the end of the last act that was begun and done in time. An act is late if it ended after the time that
    its process had when it began: it was paused beyond its lease."""

    def __init__(self, name, start, token, epoch):
        self.name, self.start, self.token, self.epoch = name, start, token, epoch
        self.acts = []
        self.outcome, self.outcome_at = "", None  # free, lost

    @property
    def in_time(self):
        return [act for act in self.acts if not act.late]

    @property
    def end(self):
        return max((act.ended for act in self.in_time), default=self.start)

    @property
    def last(self):
        return max((act.ended for act in self.acts), default=self.start)


class Act:
    def __init__(self, hold, words):
        began, ended, left_ms, _, self.value, self.guarded = map(int, words)
        self.hold, self.began, self.ended = hold, began, ended
        # One more, since it was rounded down.
        self.late = ended > began + (left_ms + 1) * MS


class Lane:
    """A contender, through all its processes."""

    def __init__(self, name):
        self.name, self.resource = name, name.partition(".")[0]
        self.holds, self.waits, self.failures, self.limits, self.pauses = [], [], [], [], []
        self.processes = []  # [pid, from, to or None]
        self.killed = set()
        self.waiting = None
        self._by_token = {}

    def _stop_waiting(self, at):
        if self.waiting is not None:
            self.waits.append((self.waiting, at))
        self.waiting = None

    def take(self, line):
        words = line.split()
        verb, at = words[0], int(words[1])
        if verb == "wait":
            self._stop_waiting(at)
            self.waiting = at
        elif verb == "hold":
            self._stop_waiting(at)
            self.holds.append(Hold(self.name, at, int(words[2]), int(words[3])))
            self._by_token[int(words[2])] = self.holds[-1]
        elif verb == "act":
            # Not always the newest one: a command may outlive its wrapper.
            hold = self._by_token[int(words[4])]
            hold.acts.append(Act(hold, words[1:]))
        elif verb in ("free", "lost"):
            self._end_hold(self._by_token[int(words[2])], verb, at)
        elif verb == "idle":
            self._stop_waiting(at)
        elif verb == "limit":
            self.limits.append((at, int(words[2]), int(words[3]), words[4]))
        elif verb == "fail":
            self.failures.append((at, " ".join(words[2:])))

    @staticmethod
    def _end_hold(hold, outcome, at):
        if not hold.outcome or outcome == "lost":
            hold.outcome, hold.outcome_at = outcome, at

    def end_process(self, pid, at, status):
        self._stop_waiting(at)
        if status not in (0, 69, 75, 76):
            self.killed.add(pid)
        for process in self.processes:
            if process[0] == pid and process[2] is None:
                process[2] = at
        if status == 76 and self.holds:  # zklock-run: lock lost
            self._end_hold(max((hold for hold in self.holds if hold.start < at), key=lambda hold: hold.start), "lost", at)

    def holding(self):
        return self.holds[-1] if self.holds and not self.holds[-1].outcome else None


class Fault:
    def __init__(self, began, ended, touched, text):
        self.began, self.ended, self.touched, self.text = began, ended, touched, text

    def touches(self, name):
        return "all" in self.touched or name in self.touched


class History:
    """Can be read while it is being written: update() takes in what is new."""

    def __init__(self, folder):
        self.folder = folder
        self.lanes, self.paths, self.peer = {}, {}, ""
        self.faults, self.outages, self.stalls = [], [], []
        self.commits, self.nodes, self.register = [], [], []
        self.session_ns = self.tick_ns = self.told_ns = 0
        self._read = {}

    def _lines(self, path):
        with open(path, "rb") as file:
            file.seek(self._read.get(path, 0))
            text = file.read()
        whole = text.rpartition(b"\n")[0]
        if whole:
            self._read[path] = self._read.get(path, 0) + len(whole) + 1
        return whole.decode(errors="replace").split("\n") if whole else []

    def lane(self, name):
        return self.lanes.setdefault(name, Lane(name))

    def update(self):
        for path in sorted(glob.glob(os.path.join(self.folder, "*.history"))):
            lane = self.lane(os.path.basename(path)[:-len(".history")])
            for line in self._lines(path):
                lane.take(line)
        return self

    def read_all(self):
        """And what is not needed while it goes on."""
        self.update()
        for name, take in (("run.log", self._take_run), ("witness.log", self._take_witness),
                           ("register.log", self._take_register)):
            path = os.path.join(self.folder, name)
            for line in self._lines(path) if os.path.exists(path) else ():
                take(line.split())
        for lane in self.lanes.values():
            self._judge_pauses(lane)
        self.commits.sort(key=lambda commit: commit[1])
        self.faults.sort(key=lambda fault: fault.began) # they are written down when they are over
        return self

    def _take_run(self, words):
        verb = words[0]
        if verb == "session":
            self.session_ns = int(words[1]) * MS
        elif verb == "tick":
            self.tick_ns = int(words[1]) * MS
        elif verb == "told":
            self.told_ns = int(words[1])
        elif verb == "peer":
            self.peer = words[1]
        elif verb == "resource":
            self.paths[words[2]] = words[1]
        elif verb == "process":
            self.lane(words[1]).processes.append([int(words[2]), int(words[3]), None])
        elif verb == "ended":
            self.lane(words[1]).end_process(int(words[2]), int(words[3]), int(words[4]))
        elif verb == "failed":
            self.lane(words[1]).failures.append((int(words[2]), " ".join(words[3:])))
        elif verb == "paused":
            self.lane(words[1]).pauses.append((int(words[2]), int(words[3])))
        elif verb == "fault":
            self.faults.append(Fault(int(words[1]), int(words[2]), words[3].split(","), " ".join(words[4:])))
        elif verb == "outage":
            self.outages.append((int(words[1]), int(words[2])))

    def _take_witness(self, words):
        if words[0] == "commits":
            self.commits.append((int(words[1]), int(words[2]), int(words[3])))
        elif words[0] == "nodes":
            self.nodes.append((int(words[1]), words[2], [(name, int(pid)) for name, _, pid in
                                                         (word.partition(":") for word in words[3:])]))
        elif words[0] == "stall":
            self.stalls.append((int(words[1]) - int(words[2]), int(words[1])))

    def _take_register(self, words):
        self.register.append((int(words[0]), words[1], int(words[2]), words[3]))

    def _judge_pauses(self, lane):
        """The command of zklock-run does not know how long it holds. Where it and all that could end it were stopped for
        longer than the shortest lease, it is late from there on."""
        for begin, end in lane.pauses:
            if end - begin < self.session_ns * 3 // 8:
                continue
            for hold in lane.holds:
                if hold.start < end:
                    for act in hold.acts:
                        act.late = act.late or (act.ended >= begin and lane.name.partition(".")[2].startswith("run"))

    # ---- what all of it tells ----

    def holds(self, resource):
        return sorted((hold for lane in self.lanes.values() if lane.resource == resource for hold in lane.holds),
                      key=lambda hold: hold.start)

    def stalled(self, begin, end):
        """For how long the machine stood still between these."""
        return sum(max(0, min(end, b) - max(begin, a)) for a, b in self.stalls)


# ---- intervals: sorted lists of (from, to) that do not overlap --------------------------------------------------------------

def union(intervals, bridge=0):
    found = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1] + bridge:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return [tuple(each) for each in found]


def without(intervals, holes):
    found = []
    for begin, end in intervals:
        for a, b in holes:
            if b <= begin or a >= end:
                continue
            if a > begin:
                found.append((begin, a))
            begin = max(begin, b)
        if begin < end:
            found.append((begin, end))
    return found


def split(intervals, moments):
    """Each in two where one of these moments is in it."""
    found = []
    for begin, end in intervals:
        for at in sorted(moments):
            if begin < at < end:
                found.append((begin, at))
                begin = at
        found.append((begin, end))
    return found


def within(intervals, at):
    """That one which contains this moment, the later one of two; or None."""
    i = bisect.bisect_right(intervals, (at, float("inf"))) - 1
    return intervals[i] if i >= 0 and intervals[i][0] <= at <= intervals[i][1] else None
