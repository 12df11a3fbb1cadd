# SPDX-License-Identifier: Apache-2.0
"""Does a row say what was measured? A wrong verdict would be believed."""

import io
import json
import operator
import statistics
import sys
import unittest

sys.dont_write_bytecode = True

from report import Figure, Table  # pylint: disable=wrong-import-position


def figure_of(pairs, **options):
    figure = Figure("name", "ms", "floor", **options)
    for subject, value, floor in pairs:
        figure.add(subject, value, floor)
    return figure


class ReportTest(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_pairs_ratios_and_not_the_ratio_of_medians(self):
        # The machine was ten times slower in the first pair, and the second is an outlier.
        figure = figure_of([("zklock", 11, 10), ("zklock", 9, 1), ("zklock", 1.2, 1)])
        line = json.loads(figure.as_json())
        self.assertAlmostEqual(line["zklock"]["ratio"], 1.2)
        self.assertAlmostEqual(line["zklock"]["median"], 9)
        self.assertEqual(line["floor"]["median"], 1)

    def test_what_comes_on_top_is_a_difference(self):
        line = json.loads(figure_of([("zklock", 13, 10)], against=operator.sub).as_json())
        self.assertEqual(line["zklock"]["on_top"], 3)

    def test_met_is_of_the_median_of_our_own_pairs_alone(self):
        pairs = [("kazoo", 1, 10), ("zklock", 12, 10), ("zklock", 12, 10), ("zklock", 100, 10)]
        for wanted, met in (("<= 1.2", True), ("< 1.2", False), (">= 1.2", True), ("<= 1.1", False), (">= 1.3", False)):
            self.assertIs(figure_of(pairs, wanted=wanted).met, met, wanted)
        self.assertIsNone(figure_of(pairs).met)
        self.assertIsNone(figure_of(pairs[:1], wanted="<= 1").met)

    def test_a_limit_that_must_hold_each_time_is_missed_by_the_slowest(self):
        pairs = [("zklock", value, 1) for value in (1, 1, 5)]
        self.assertTrue(figure_of(pairs, wanted="<= 2", judged=statistics.median).met)
        self.assertFalse(figure_of(pairs, wanted="<= 2", judged=max).met)

    def test_a_row_shows_floor_ratio_spread_verdict_and_what_stands_beside(self):
        out = io.StringIO()
        pairs = [("zklock", value, 10) for value in (10, 11, 12)] + [("flock", 5, 10)]
        Table(out, False).add(figure_of(pairs, wanted="<= 1.05"))
        self.assertEqual(out.getvalue().split(),
                         "name floor 10.0 ms 1.10 (1.05 .. 1.15) <= 1.05 MISSED flock 0.500".split())


if __name__ == "__main__":
    unittest.main()
