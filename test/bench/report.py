# SPDX-License-Identifier: Apache-2.0
"""What was measured, as a table for people and as lines of JSON.

Floor and subject are measured in pairs, one right after the other, again and again: noise that lasts longer than a pair is in
both. A ratio is the median of the pairs' ratios; their quartiles show what is left of the noise."""

import json
import operator
import statistics

# In the order of the table's columns.
SUBJECTS = ("zklock", "curator", "kazoo")
RELATIONS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge}


def quartiles(values):
    """The median between the lower and the upper quartile."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


class Figure:
    """One row. against: how a value is set against its floor; operator.sub where what it costs on top is what counts.
    wanted: what of that (or, without a floor, of the values) ours is to reach, as "<= 1.05"; None: reported. judged: which of
    them is compared with it."""

    def __init__(self, name, unit, floor, wanted=None, *, against=operator.truediv, judged=statistics.median):
        self.name, self.unit, self.floor, self.wanted = name, unit, floor, wanted
        self.against, self.judged = against, judged
        self.pairs = {}

    def add(self, subject, value, floor=None):
        self.pairs.setdefault(subject, []).append((value, floor))

    def values(self, subject):
        return [value for value, _ in self.pairs[subject]]

    def compared(self, subject):
        if not self.floor:
            return self.values(subject)
        return [self.against(value, floor) for value, floor in self.pairs[subject]]

    def floors(self):
        return [floor for pairs in self.pairs.values() for _, floor in pairs]

    @property
    def met(self):
        if self.wanted is None or "zklock" not in self.pairs:
            return None
        relation, limit = self.wanted.split()
        return RELATIONS[relation](self.judged(self.compared("zklock")), float(limit))

    def as_json(self):
        line = {"figure": self.name, "unit": self.unit, "wanted": self.wanted, "met": self.met}
        if self.floor:
            line["floor"] = {"what": self.floor, "median": quartiles(self.floors())[1]}
        for subject in self.pairs:
            low, median, high = quartiles(self.compared(subject))
            line[subject] = {"n": len(self.pairs[subject]), "median": quartiles(self.values(subject))[1], "low": low,
                             "high": high}
            if self.floor:
                line[subject]["on_top" if self.against is operator.sub else "ratio"] = median
        return json.dumps(line)

    def _cell(self, subject):
        if subject not in self.pairs:
            return ""
        values = quartiles(self.compared(subject))
        low, median, high = map(signed if self.against is operator.sub else number, values)
        return median if len(self.pairs[subject]) == 1 else "%s (%s .. %s)" % (median, low, high)

    def as_row(self):
        floor = "%s %s" % (number(quartiles(self.floors())[1]), self.unit) if self.floor else self.unit
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        beside = ["%s %s" % (subject, self._cell(subject)) for subject in self.pairs if subject not in SUBJECTS]
        return [self.name, self.floor or "", floor, *map(self._cell, SUBJECTS), self.wanted or "", verdict, *beside]


def number(value):
    """Three digits that count."""
    return "%.0f" % value if abs(value) >= 100 else "%#.3g" % value


def signed(value):
    return ("" if value < 0 else "+") + number(value)


class Table:
    """Rows are printed as they come, in columns of a fixed width: a long run shows how far it is."""

    HEADS = ("figure", "floor", "floor is", *SUBJECTS, "wanted")
    WIDTHS = (42, 23, 10, 22, 22, 22, 8, 6)

    def __init__(self, out, as_json):
        self.out, self.as_json = out, as_json

    def _print(self, cells):
        padded = [cell.ljust(width) for cell, width in zip(cells, self.WIDTHS)] + cells[len(self.WIDTHS):]
        self.out.write("  ".join(padded).rstrip() + "\n")
        self.out.flush()

    def begin(self, surroundings):
        if self.as_json:
            self.out.write(json.dumps({"surroundings": surroundings}) + "\n")
            return
        self.out.write(", ".join("%s %s" % item for item in surroundings.items()) + "\n")
        self.out.write("each subject: median of its ratios to the floor (lower .. upper quartile), or of its values\n\n")
        self._print(list(self.HEADS))

    def add(self, figure):
        if not figure.pairs:
            return
        if self.as_json:
            self.out.write(figure.as_json() + "\n")
            self.out.flush()
        else:
            self._print(figure.as_row())
