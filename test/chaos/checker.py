# SPDX-License-Identifier: Apache-2.0
"""What was promised, looked for in a history."""

from history import MS, split, union, within, without

# Commits of a server that follow each other so closely leave no time in which it did not serve.
BRIDGE_NS = 600 * MS
# A call with a limit in time, on a busy machine.
LIMIT_MS = 1000


class Findings:
    """Of one resource."""

    def __init__(self, history, resource):
        self.history, self.resource = history, resource
        self.holds = history.holds(resource)
        self.acting = [hold for hold in self.holds if hold.in_time]
        self.acts = sorted((act for hold in self.holds for act in hold.acts), key=lambda act: act.ended)
        self.late = [act for act in self.acts if act.late]
        self.overlap, self.overlapping = _overlap(self.acting, lambda hold: hold.end)
        self.late_overlap = _overlap(self.acting, lambda hold: hold.last)[0]
        self.misordered = _misordered(self.holds, self.acting)
        self.lost_updates, self.late_lost_updates = _lost_updates(self.acts)
        self.refused = [act for act in self.acts if act.guarded < 0 and not act.late]
        self.late_refused = [act for act in self.acts if act.guarded < 0 and act.late]
        self.unfenced = _unfenced([entry for entry in history.register if entry[1] == resource])
        self.lost = [hold for hold in self.holds if hold.outcome == "lost"]
        self.spurious = [hold for hold in self.lost if _is_spurious(history, hold)]
        self.idle = _idle(history, self.holds)


def _overlap(holds, end_of):
    """The worst one, and the pairs that overlap."""
    worst, pairs, before = 0, [], None
    for hold in holds:
        if before is not None and end_of(before) > hold.start:
            worst = max(worst, min(end_of(before), end_of(hold)) - hold.start)
            pairs.append((before, hold))
        if before is None or end_of(hold) > end_of(before):
            before = hold
    return worst, pairs


def _misordered(holds, acting):
    """Grants whose token, or epoch, is not greater than that of the one before. Who was paused may tell late of a grant with
    which it did nothing; its token is its own all the same."""
    found = [after for before, after in zip(acting, acting[1:])
             if after.token <= before.token or after.epoch <= before.epoch]
    seen = set()
    for hold in holds:
        if hold.token in seen:
            found.append(hold)
        seen.add(hold.token)
    return found


def _lost_updates(acts):
    """Of the number in the file, by acts in time and by late ones. An act that was killed wrote perhaps and said nothing: the
    number may be greater than the acts say, never smaller. A late act that says that it has ended between two others may have
    written behind the second one's write, which is then lost by it, as the number tells that the next one finds."""
    lost = late_lost = 0
    before = None
    late = [act for act in acts if act.late]
    for act in acts:
        if before is not None and act.value - 1 < before.value:
            found = any(each.value == act.value - 1 and each.began < act.ended and each.ended > before.began for each in late)
            if act.late or before.late or found:
                late_lost += before.value - act.value + 1
            else:
                lost += before.value - act.value + 1
        before = act
    return lost, late_lost


def _unfenced(entries):
    """What the register should have done otherwise: it took a write of an older token, or one that was not made of the newest
    number; it refused a token that was not older."""
    mark = value = 0
    found = []
    for entry in entries:
        _, _, token, what = entry
        if (what == "refused") != (token < mark):
            found.append(entry)
        if what.isdigit():
            if int(what) != value + 1:
                found.append(entry)
            value = int(what)
        mark = max(mark, token)
    return found


def available(history):
    """When some client could have some server commit, from where on sessions had all of their time: a new leader gives each
    its time anew; and so does a server that has been away, to those that were made meanwhile (it takes the making of a session
    for a word of its client: LearnerSessionTracker.commitSession)."""
    serving = []
    for server in {commit[0] for commit in history.commits}:
        serving += union([commit[1:] for commit in history.commits if commit[0] == server], BRIDGE_NS)
    return split(without(union(serving), union(history.outages)), [begin for begin, _ in serving])


def _is_spurious(history, hold):
    """Lost without a fault that could have cost it."""
    tail = history.session_ns + 2 * history.tick_ns
    at = hold.outcome_at
    if any(fault.touches(hold.name) and fault.began <= at <= fault.ended + tail for fault in history.faults):
        return False
    served = within(history.available, at - history.tick_ns) or within(history.available, at)
    if served is None or served[0] > at - history.session_ns:
        return False
    return history.stalled(at - history.session_ns, at) < history.session_ns // 8


def _idle(history, holds):
    """Stretches in which nobody held although the servers served: (from, to). In the end all leave."""
    free = without(history.available, union((hold.start, hold.end) for hold in holds))
    return without(free, [(history.told_ns, float("inf"))] if history.told_ns else [])


def orphans(history):
    """Nodes that nobody wants for longer than a session lives: {name: path}. They are unwanted while their process is dead, or
    has a newer one."""
    patience = history.session_ns + 2 * history.tick_ns
    lives = {}  # in a long run process ids come again
    for lane in history.lanes.values():
        for pid, began, ended in lane.processes:
            lives.setdefault(pid, []).append((began, float("inf") if ended is None else ended))
    since, found = {}, {}
    for at, path, nodes in history.nodes:
        served = within(history.available, at)
        for i, (name, pid) in enumerate(nodes):
            wanted = pid == 0 or (any(began <= at < ended for began, ended in lives.get(pid, ())) and
                                  all(other != pid for _, other in nodes[i + 1:]))
            if wanted or served is None:
                since.pop(name, None)
                continue
            since[name] = max(since.get(name, at), served[0])
            if at - since[name] > patience:
                found[name] = path
    # The last look comes when all have ended and as long after it.
    for path in history.paths:
        looks = [nodes for _, seen, nodes in history.nodes if seen == path]
        found.update((name, path) for name, _ in (looks[-1] if looks else ()))
    return found


# ---- the verdict --------------------------------------------------------------------------------------------------------

class Verdict:
    def __init__(self, history):
        self.history = history
        self.checks, self.kept = [], []  # of all that were kept, what there is to say
        peer = history.peer
        history.available = available(history)
        self.found = {resource: Findings(history, resource) for resource in history.paths.values()}
        self.ours = [found for found in self.found.values() if found.resource != peer]
        self.orphans = {name: path for name, path in orphans(history).items() if history.paths[path] != peer}
        self.overlap_ms = max((found.overlap for found in self.ours), default=0) / MS
        self.lost_updates = sum(found.lost_updates for found in self.ours)
        for found in self.ours:
            self._check_resource(found)
        self._check_all()
        if peer:
            self._check_peer(self.found[peer])

    def check(self, passed, text, brief=False):
        self.checks.append((bool(passed), text))
        if passed and not brief:
            self.kept.append(text)

    def _check_resource(self, found):
        name = found.resource
        self.check(found.holds, "%s: %d grants to %d contenders" % (
            name, len(found.holds), len({hold.name for hold in found.holds})))
        self.check(not found.overlapping, "%s: never two at a time; %s" % (name, _overlap_text(found)))
        self.check(not found.misordered, "%s: tokens and epochs grow; %d do not" % (name, len(found.misordered)))
        self.check(not found.lost_updates, "%s: no update of the unguarded file lost; %d were" % (name, found.lost_updates))
        self.check(not found.unfenced, "%s: no guarded write lost; %d were, or taken wrongly" % (name, len(found.unfenced)))
        self.check(not found.refused, "%s: no write in time refused; %d were" % (name, len(found.refused)))
        self.check(not found.spurious, "%s: nothing lost without a fault; %s" % (
            name, ", ".join("%s at %.1f s" % (hold.name, self.seconds(hold.outcome_at)) for hold in found.spurious) or "0"))
        bound = self.history.session_ns + 2 * self.history.tick_ns
        promise = "%s: held again within T + 2 ticks (%.1f s) of servers that serve" % (name, bound / 1e9)
        idle = [(self.longest_idle(found, fault), fault) for fault in self.history.faults]
        for worst, fault in idle:
            self.check(worst <= bound, "%s; %.1f s after %.1f s, %s" % (
                promise, worst / 1e9, self.seconds(fault.began), fault.text), brief=True)
        kept = [worst for worst, _ in idle if worst <= bound]
        self.kept.append("%s; after %d of %d faults, %.1f s at most" % (
            promise, len(kept), len(idle), max(kept, default=0) / 1e9))

    def _check_all(self):
        lanes = [lane for lane in self.history.lanes.values() if lane.resource in {found.resource for found in self.ours}]
        self.check(self.history.commits and all(
            path in {seen for _, seen, _ in self.history.nodes} for path in self.history.paths),
            "the witness saw %d commits and %d lists of nodes" % (len(self.history.commits), len(self.history.nodes)))
        self.check(not self.orphans, "no orphaned node; %s" % (", ".join(self.orphans) or "0"))
        failures = ["%s at %.1f s: %s" % (lane.name, self.seconds(at), text) for lane in lanes for at, text in lane.failures]
        self.check(not failures, "no call and no process failed; %s" % ("; ".join(failures[:5]) or "0"))
        worst, where = max(((late_ms - self.history.stalled(began, ended) / MS - _paused(lane, began, ended) / MS,
                             "%s by %s" % (call, lane.name))
                            for lane in lanes for began, ended, late_ms, call in lane.limits), default=(0, "-"))
        self.check(worst <= LIMIT_MS, "no call later than %d ms after its limit; %.0f ms, %s" % (LIMIT_MS, worst, where))

    def _check_peer(self, found):
        self.check(found.overlapping, "%s's lock is seen to overlap: %s, %d updates lost" % (
            found.resource, _overlap_text(found), found.lost_updates))

    # ---- figures ----

    def seconds(self, at):
        return (at - self.began()) / 1e9

    def began(self):
        return min((lane.processes[0][1] for lane in self.history.lanes.values() if lane.processes), default=0)

    def window(self, fault):
        """From this fault to the next one."""
        i = self.history.faults.index(fault)
        rest = self.history.faults[i + 1:]
        return fault.began, rest[0].began if rest else self.ended()

    def ended(self):
        """When the contenders were told to end."""
        return self.history.told_ns or max((hold.last for found in self.ours for hold in found.holds), default=0)

    def longest_idle(self, found, fault):
        """The longest stretch of it after this fault, in ns, of which the machine stood still for nothing."""
        begin, end = self.window(fault)
        return max((min(b, end) - a - self.history.stalled(a, b) for a, b in found.idle if a < end and b > begin), default=0)

    def longest_without_grant(self, found, fault):
        begin, end = self.window(fault)
        moments = [begin] + [hold.start for hold in found.holds if begin <= hold.start <= end] + [end]
        return max(after - before for before, after in zip(moments, moments[1:]))


def _overlap_text(found):
    text = "worst overlap %.1f ms" % (found.overlap / MS)
    if found.overlapping:
        before, after = max(found.overlapping, key=lambda pair: min(pair[0].end, pair[1].end) - pair[1].start)
        text += " (%s with token %d, %s with %d)" % (before.name, before.token, after.name, after.token)
    return text


def _paused(lane, begin, end):
    return sum(max(0, min(end, b) - max(begin, a)) for a, b in lane.pauses)


def table(verdict):
    """One line a fault, then one a resource."""
    history = verdict.history
    names = [found.resource for found in verdict.found.values()]
    lines = ["%7s  %6s  %-58s %s" % ("at", "for", "fault", "  ".join("%22s" % ("%s: s no grant, lost" % name) for name in names))]
    for fault in history.faults:
        begin, end = verdict.window(fault)
        cells = []
        for found in verdict.found.values():
            lost = sum(begin <= hold.outcome_at < end for hold in found.lost)
            cells.append("%18.1f %3s" % (verdict.longest_without_grant(found, fault) / 1e9, lost or "-"))
        lines.append("%6.1fs  %5.1fs  %-58s %s" % (verdict.seconds(fault.began), (fault.ended - fault.began) / 1e9,
                                                   fault.text[:58], "  ".join(cells)))
    lines += ["", "%-36s%s" % ("", "".join("%14s" % name for name in names))]
    for title, value in (
            ("grants", lambda f: len(f.holds)),
            ("acts in time", lambda f: len(f.acts) - len(f.late)),
            ("overlap, ms", lambda f: "%.1f" % (f.overlap / MS)),
            ("  in all, ms", lambda f: "%.1f" % (sum(min(a.end, b.end) - b.start for a, b in f.overlapping) / MS)),
            ("tokens out of order", lambda f: len(f.misordered)),
            ("updates of the file lost", lambda f: f.lost_updates),
            ("writes in time refused", lambda f: len(f.refused)),
            ("guarded writes lost or wrongly taken", lambda f: len(f.unfenced)),
            ("losses", lambda f: len(f.lost)),
            ("  without a fault", lambda f: len(f.spurious)),
            ("longest free while servers serve, s", lambda f: "%.1f" % (max((b - a for a, b in f.idle), default=0) / 1e9)),
            ("apart: acts of paused processes", lambda f: len(f.late)),
            ("  overlap by them, ms", lambda f: "%.1f" % (max(0, f.late_overlap - f.overlap) / MS)),
            ("  updates of the file lost by them", lambda f: f.late_lost_updates),
            ("  their writes refused", lambda f: len(f.late_refused))):
        lines.append("%-36s%s" % (title, "".join("%14s" % value(found) for found in verdict.found.values())))
    time = verdict.ended() - verdict.began()
    served = time - sum(end - begin for begin, end in without([(verdict.began(), verdict.ended())], history.available))
    lines.append("%-36s%14s" % ("servers served, % of the time", "%.0f" % (100 * served / max(1, time))))
    stalls = [end - begin for begin, end in history.stalls]
    lines.append("%-36s%14s" % ("longest stall of the machine, ms", "%.0f" % (max(stalls, default=0) / MS)))
    return "\n".join(lines)
