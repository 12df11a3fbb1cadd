# SPDX-License-Identifier: Apache-2.0
"""A run as one page: a lane a process, time from left to right, faults as bands."""

import html

import checker
from history import MS

STYLE = """
body { font: 13px sans-serif; margin: 1em; color: #222 }
.sheet { display: flex; border: 1px solid #ccc } .scroll { overflow-x: auto }
svg text { font: 10px sans-serif } .name { font-weight: bold; font-size: 11px }
.fault { fill: #f5c542; fill-opacity: .22; stroke: #c99700; stroke-width: .5 } .touched { fill: #f5a742; fill-opacity: .5 }
.label { fill: #7a5c00 } .wait { stroke: #aaa; stroke-width: 1.5 } .odd { fill: #2f6db3 } .even { fill: #7fb0e6 }
.lead.odd { fill: #2c8a57 } .lead.even { fill: #83cda4 } .theirs.odd { fill: #8a5fb0 } .theirs.even { fill: #c2a5dc }
.late { fill: #c0392b; fill-opacity: .12; stroke: #c0392b; stroke-width: 1.2; stroke-dasharray: 2 1.5 }
.lost { stroke: #d01818; stroke-width: 2 } .dead { stroke: #000; stroke-width: 1.5 }
.overlap { fill: #ff0000; fill-opacity: .5 }
.paused { fill: #888; fill-opacity: .55 } .serves { fill: #9ad19a } .axis { stroke: #ddd }
.odd + .token { fill: #fff }
"""
LEGEND = ("<p>Coloured: holds (blue: lock, green: election, violet: another library), two shades in turn, with the last digits "
          "of the token where there is room. Grey line: waits. Red cross: lost. Black bar: the process ended by a signal or a "
          "failure. Grey block: stopped. Dashed red: acts that ended after the lease, by a process that was paused. Bright "
          "red: two hold at once. Light green on top: when some server commits. Yellow bands: faults; deeper on the lanes that "
          "they were aimed at. Rest the pointer on anything to read more.</p>")
NAMES, LEFT, LANE, BAR, LABELS, WIDEST = 110, 6, 22, 15, 5, 40000


class Drawing:
    def __init__(self, verdict):
        self.verdict, self.history = verdict, verdict.history
        self.start = verdict.began()
        self.end = max(verdict.ended(), self.start + 1)
        self.scale = min(24.0, WIDEST / ((self.end - self.start) / 1e9))  # a second
        self.top = 16 + 12 * LABELS + 14
        order = list(self.history.paths.values())
        self.lanes = sorted((lane for lane in self.history.lanes.values() if lane.resource in order),
                            key=lambda lane: (order.index(lane.resource), lane.name))
        self.height = self.top + LANE * len(self.lanes) + 20
        self.parts = []

    def x(self, at):
        return LEFT + (min(max(at, self.start), self.end) - self.start) / 1e9 * self.scale

    def y(self, lane):
        return self.top + LANE * self.lanes.index(lane)

    def box(self, kind, begin, end, y, height, title="", least=0.6):
        x = self.x(begin)
        text = "<title>%s</title>" % html.escape(title) if title else ""
        self.parts.append('<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d">%s</rect>' % (
            kind, x, y, max(self.x(end) - x, least), height, text))

    def line(self, kind, x1, y1, x2, y2, title=""):
        text = "<title>%s</title>" % html.escape(title) if title else ""
        self.parts.append('<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f">%s</line>' % (kind, x1, y1, x2, y2, text))

    def text(self, kind, x, y, text):
        self.parts.append('<text class="%s" x="%.1f" y="%.1f">%s</text>' % (kind, x, y, html.escape(text)))

    # ---- what is in it ----

    def axis(self):
        seconds = int((self.end - self.start) / 1e9)
        for second in range(0, seconds + 1, 5):
            x = LEFT + second * self.scale
            self.line("axis", x, self.top - 14, x, self.height - 14)
            self.text("", x + 2, self.height - 4, "%d s" % second)

    def faults(self):
        free = [0.0] * LABELS
        for i, fault in enumerate(self.history.faults):
            title = "%.1f to %.1f s: %s" % (self.verdict.seconds(fault.began), self.verdict.seconds(fault.ended), fault.text)
            self.box("fault", fault.began, fault.ended, 14, self.height - 30, title, 2)
            for lane in self.lanes:
                if lane.name in fault.touched:
                    self.box("touched", fault.began, fault.ended, self.y(lane), LANE - 2, title, 2)
            x = self.x(fault.began)
            text = "%d. %s" % (i + 1, fault.text)
            row = next((row for row in range(LABELS) if free[row] <= x), min(range(LABELS), key=free.__getitem__))
            free[row] = x + 5.2 * len(text) + 6
            self.text("label", x + 2, 24 + 12 * row, text)

    def servers(self):
        for begin, end in self.history.available:
            self.box("serves", begin, end, self.top - 12, 6, "a server commits")

    def lane(self, lane, kind):
        y = self.y(lane)
        middle = y + BAR / 2
        for begin, end in lane.waits:
            self.line("wait", self.x(begin), middle, self.x(end), middle)
        for begin, end in lane.pauses:
            self.box("paused", begin, end, y + 1, BAR - 2, "stopped for %.0f ms" % ((end - begin) / MS))
        for i, hold in enumerate(lane.holds):
            self.hold(hold, y, kind + (" odd" if i % 2 else " even"))
        for pid, _, end in lane.processes:
            if end is not None and end < self.end and pid in lane.killed:
                self.line("dead", self.x(end), y - 1, self.x(end), y + BAR + 1, "process %d ended" % pid)

    def hold(self, hold, y, kind):
        title = "%s, token %d, epoch %d: %.3f to %.3f s, %d acts%s" % (
            hold.name, hold.token, hold.epoch, self.verdict.seconds(hold.start), self.verdict.seconds(hold.end), len(hold.acts),
            ", lost" if hold.outcome == "lost" else "")
        self.box(kind, hold.start, hold.end, y, BAR, title)
        label = str(hold.token)[-5:]
        if self.x(hold.end) - self.x(hold.start) > 6 * len(label):
            self.text("token", self.x(hold.start) + 2, y + 11, label)
        for act in hold.acts:
            if act.late:
                self.box("late", act.began, act.ended, y + 1, BAR - 2, "an act of %.0f ms with token %d, the lease over: %s" % (
                    (act.ended - act.began) / MS, hold.token, "refused" if act.guarded < 0 else "not refused"), 2)
        if hold.outcome == "lost":
            x, middle = self.x(hold.outcome_at), y + BAR / 2
            for sign in (-1, 1):
                self.line("lost", x - 4, middle - 4 * sign, x + 4, middle + 4 * sign, "%s lost token %d at %.3f s" % (
                    hold.name, hold.token, self.verdict.seconds(hold.outcome_at)))

    def overlaps(self):
        for found in self.verdict.found.values():
            lanes = [self.y(lane) for lane in self.lanes if lane.resource == found.resource]
            for before, after in found.overlapping:
                end = min(before.end, after.end)
                self.box("overlap", after.start, end, min(lanes), max(lanes) - min(lanes) + BAR,
                         "%s (token %d) and %s (token %d): %.1f ms" % (
                             before.name, before.token, after.name, after.token, (end - after.start) / MS), 2)

    def names(self):
        """They stay where they are while the rest is moved."""
        self.parts = []
        for lane in self.lanes:
            self.text("name", 4, self.y(lane) + 11, lane.name)
        self.text("", 4, self.top - 6, "servers commit")
        return self.svg(NAMES)

    def sheet(self):
        self.parts = []
        kinds = dict(zip(self.history.paths.values(), ("own", "lead", "theirs")))
        self.axis()
        self.faults()
        self.servers()
        for lane in self.lanes:
            self.lane(lane, kinds[lane.resource])
        self.overlaps()
        return self.svg(self.x(self.end) + 300)

    def svg(self, width):
        return '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" style="flex: none"><style>%s</style>%s</svg>' % (
            width, self.height, STYLE, "\n".join(self.parts))


def page(verdict, name):
    failed = [text for passed, text in verdict.checks if not passed]
    heading = "overlap %.1f ms, %d updates lost, %d orphans; %d checks, %d failed" % (
        verdict.overlap_ms, verdict.lost_updates, len(verdict.orphans), len(verdict.checks), len(failed))
    broken = "".join("<li>%s</li>" % html.escape(text) for text in failed)
    drawing = Drawing(verdict)
    return ('<!DOCTYPE html><!-- SPDX-License-Identifier: Apache-2.0 --><html lang="en"><head><meta charset="utf-8">'
            "<title>chaos %s</title><style>%s</style></head><body><h1>%s</h1><p><b>%s</b></p><ul>%s</ul>%s"
            '<div class="sheet">%s<div class="scroll">%s</div></div><pre>%s</pre></body></html>\n') % (
                html.escape(name), STYLE, html.escape(name), heading, broken, LEGEND, drawing.names(), drawing.sheet(),
                html.escape(checker.table(verdict)))
