# SPDX-License-Identifier: Apache-2.0
"""Does the checker find what it looks for? Histories made by hand, each with one thing wrong."""

import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import checker
import picture
from history import History, split, union, within, without

MS = 1000000
SECOND = 1000 * MS
SESSION_MS, TICK_MS = 4000, 500


class Story:
    """Writes a history. Times are in ms; token and number begin where they stand."""

    def __init__(self, case):
        self.folder = tempfile.mkdtemp(prefix="zklock-checker-")
        case.addCleanup(shutil.rmtree, self.folder)
        self.number = self.guarded = 0
        self.write("run.log", "session %d" % SESSION_MS, "tick %d" % TICK_MS, "resource lock /lock")
        self.served(0, 1)
        self.nodes(0)
        self.process("lock.lib1", 101)
        self.process("lock.lib2", 102)
        self.process("lock.run1", 103)

    def write(self, name, *lines):
        with open(os.path.join(self.folder, name), "a", encoding="ascii") as file:
            file.write("".join(line + "\n" for line in lines))

    def process(self, name, pid, at=0):
        self.write("run.log", "process %s %d %d" % (name, pid, at * MS))

    def served(self, begin, end, server=1):
        self.write("witness.log", *["commits %d %d %d" % (server, at * MS, (at + 5) * MS) for at in range(begin, end, 100)])

    def fault(self, begin, end, touched="all", text="a fault"):
        self.write("run.log", "fault %d %d %s %s" % (begin * MS, end * MS, touched, text))

    def nodes(self, at, *nodes):
        self.write("witness.log", "nodes %d /lock %s" % (at * MS, " ".join(nodes)))

    def act(self, name, begin, end, token, left=1000, number=None, guarded=None):
        """The next number in the file and in the register where none is given."""
        self.number = self.number + 1 if number is None else number
        if guarded is None:
            self.guarded = guarded = self.guarded + 1
        if guarded >= 0:
            self.write("register.log", "%d lock %d %d" % (end * MS, token, guarded))
        self.write(name + ".history", "act %d %d %d %d %d %d" % (begin * MS, end * MS, left, token, self.number, guarded))

    def begin(self, name, at, token):
        self.write(name + ".history", "hold %d %d %d" % (at * MS, token, token))

    def end(self, name, at, token, how="free"):
        self.write(name + ".history", "%s %d %d" % (how, at * MS, token))

    def hold(self, name, begin, end, token, how="free"):
        """With an act at its begin and one at its end."""
        self.begin(name, begin, token)
        self.act(name, begin, begin + 10, token)
        self.act(name, end - 10, end, token)
        self.end(name, end, token, how)

    def verdict(self):
        return checker.Verdict(History(self.folder).read_all())


class Intervals(unittest.TestCase):
    def test_union_bridges(self):
        self.assertEqual(union([(5, 6), (0, 2), (1, 3)]), [(0, 3), (5, 6)])
        self.assertEqual(union([(0, 3), (5, 6)], 2), [(0, 6)])

    def test_without_cuts_out(self):
        self.assertEqual(without([(0, 10)], [(2, 3), (5, 6)]), [(0, 2), (3, 5), (6, 10)])
        self.assertEqual(without([(0, 4), (6, 9)], [(3, 7)]), [(0, 3), (7, 9)])
        self.assertEqual(without([(0, 4)], [(0, 4)]), [])

    def test_split_makes_two(self):
        self.assertEqual(split([(0, 4), (6, 9)], [7, 3, 4, 5, 8]), [(0, 3), (3, 4), (6, 7), (7, 8), (8, 9)])

    def test_within_finds_the_one(self):
        self.assertEqual(within([(0, 3), (5, 6)], 6), (5, 6))
        self.assertEqual(within([(0, 3), (3, 6)], 3), (3, 6))
        self.assertIsNone(within([(0, 3), (5, 6)], 4))


class Checker(unittest.TestCase):
    def setUp(self):
        self.story = Story(self)

    def assert_broken(self, *parts):
        """These promises and no others."""
        verdict = self.story.verdict()
        broken = [text for passed, text in verdict.checks if not passed]
        self.assertEqual(len(broken), len(parts), broken)
        for text, part in zip(broken, parts):
            self.assertIn(part, text)
        # And it can be drawn.
        self.assertIn("</svg>", picture.page(verdict, "test"))
        self.assertIn("overlap", checker.table(verdict))
        return verdict, verdict.found["lock"]

    def test_nothing_is_found_where_nothing_is_wrong(self):
        self.story.served(0, 9000)
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.fault(450, 500)
        self.story.hold("lock.lib2", 401, 700, 8)
        self.story.hold("lock.run1", 5000, 5200, 9)
        verdict, _ = self.assert_broken()
        self.assertEqual((verdict.overlap_ms, verdict.lost_updates, verdict.orphans), (0, 0, {}))
        self.assertGreater(len(verdict.checks), 8)

    # ---- two at a time ----

    def test_overlap_is_measured(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.act("lock.lib1", 400, 430, 7)
        self.story.begin("lock.lib2", 401, 8)
        self.story.act("lock.lib2", 440, 700, 8)
        verdict, _ = self.assert_broken("never two at a time; worst overlap 29.0 ms (lock.lib1 with token 7, lock.lib2 with 8)")
        self.assertEqual(verdict.overlap_ms, 29)

    def test_overlap_is_found_across_others(self):
        """The first one held all the time."""
        self.story.begin("lock.lib1", 100, 7)
        self.story.act("lock.lib1", 100, 110, 7)
        self.story.hold("lock.lib2", 200, 300, 8)
        self.story.hold("lock.run1", 400, 500, 9)
        self.story.act("lock.lib1", 990, 1000, 7, guarded=-1)
        _, found = self.assert_broken("never two at a time; worst overlap 100.0 ms", "no write in time refused; 1")
        self.assertEqual(len(found.overlapping), 2)

    def test_who_does_nothing_any_more_does_not_overlap(self):
        self.story.hold("lock.lib1", 100, 300, 7, how="lost")
        self.story.fault(0, 10)
        self.story.end("lock.lib1", 900, 7, how="lost")
        self.story.hold("lock.lib2", 301, 700, 8)
        self.assert_broken()

    def test_command_that_outlives_its_wrapper_is_found(self):
        """The next one of the same lane holds already."""
        self.story.hold("lock.run1", 100, 300, 7)
        self.story.begin("lock.run1", 400, 8)
        self.story.act("lock.run1", 400, 410, 8)
        self.story.act("lock.run1", 420, 430, 7, guarded=-1)
        self.story.act("lock.run1", 440, 450, 8)
        self.assert_broken("never two at a time; worst overlap 30.0 ms", "no write in time refused; 1")

    # ---- tokens ----

    def test_token_that_falls_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 8)
        self.story.guarded = 2
        self.story.begin("lock.lib2", 500, 7)
        self.story.act("lock.lib2", 500, 510, 7, guarded=-1)
        self.assert_broken("tokens and epochs grow; 1 do not", "no write in time refused; 1")

    def test_token_that_is_given_twice_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 8)
        self.story.begin("lock.lib2", 500, 8)
        self.assert_broken("tokens and epochs grow; 1 do not")

    # ---- writes ----

    def test_lost_update_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.begin("lock.lib2", 500, 8)
        self.story.act("lock.lib2", 500, 510, 8, number=1)
        verdict, found = self.assert_broken("no update of the unguarded file lost; 2 were")
        self.assertEqual((verdict.lost_updates, found.late_lost_updates), (2, 0))

    def test_update_that_a_late_act_overwrites_while_another_ends_is_reported_apart(self):
        for wrote in (4, 3):
            with self.subTest(wrote=wrote):
                self.setUp()
                self.story.fault(0, 2000, "lock.lib1")
                self.story.begin("lock.lib1", 100, 7)
                self.story.act("lock.lib1", 100, 1495, 7, left=100, number=4, guarded=-1)
                self.story.end("lock.lib1", 1496, 7, "lost")
                self.story.begin("lock.lib2", 1000, 8)
                self.story.act("lock.lib2", 1490, 1500, 8, number=50)
                self.story.act("lock.lib2", 1510, 1520, 8, number=wrote + 1)
                self.story.end("lock.lib2", 1520, 8)
                if wrote == 4:
                    self.assertEqual(self.assert_broken()[1].late_lost_updates, 46)
                else:
                    self.assert_broken("no update of the unguarded file lost; 47 were")

    def test_update_of_a_killed_process_is_not_missed(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.number += 1
        self.story.hold("lock.lib2", 500, 600, 8)
        self.assert_broken()

    def test_write_that_the_register_should_have_refused_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 8)
        self.story.write("register.log", "%d lock 7 3" % (450 * MS))
        self.story.guarded = 3
        self.story.hold("lock.lib2", 500, 600, 9)
        self.assert_broken("no guarded write lost; 1 were")

    def test_write_that_the_register_should_not_have_refused_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 8)
        self.story.write("register.log", "%d lock 8 refused" % (410 * MS))
        self.assert_broken("no guarded write lost; 1 were")
        self.story.write("register.log", "%d lock 9 raised" % (420 * MS), "%d lock 8 refused" % (430 * MS))
        self.assert_broken("no guarded write lost; 1 were")

    def test_write_that_the_register_lost_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.guarded = 0
        self.story.hold("lock.lib2", 500, 600, 8)
        self.assert_broken("no guarded write lost; 1 were")

    # ---- apart: who was paused ----

    def test_late_act_of_the_paused_is_reported_apart(self):
        self.story.begin("lock.lib1", 100, 7)
        self.story.act("lock.lib1", 100, 110, 7)
        self.story.hold("lock.lib2", 3000, 3300, 8)
        self.story.act("lock.lib1", 120, 3200, 7, left=2500, number=2, guarded=-1)
        verdict, found = self.assert_broken()
        self.assertEqual((len(found.late), found.late_overlap, found.late_lost_updates, len(found.late_refused)),
                         (1, 200 * MS, 1, 1))
        self.assertEqual(verdict.lost_updates, 0)

    def test_act_that_is_paused_and_in_time_is_no_excuse(self):
        self.story.begin("lock.lib1", 100, 7)
        self.story.act("lock.lib1", 120, 2600, 7, left=2500)
        self.story.begin("lock.lib2", 2500, 8)
        self.story.act("lock.lib2", 2650, 3300, 8)
        self.assert_broken("never two at a time; worst overlap 100.0 ms")

    def test_command_whose_whole_wrapper_was_paused_is_apart(self):
        self.story.begin("lock.run1", 100, 7)
        self.story.act("lock.run1", 100, 110, 7, left=2 ** 63 - 1)
        self.story.hold("lock.lib1", 5000, 6300, 8)
        self.story.act("lock.run1", 120, 6200, 7, left=2 ** 63 - 1, number=2, guarded=-1)
        self.story.write("run.log", "paused lock.run1 %d %d" % (130 * MS, 6190 * MS))
        self.assert_broken()

    def test_command_whose_wrapper_was_paused_for_a_moment_is_not(self):
        self.story.begin("lock.run1", 100, 7)
        self.story.act("lock.run1", 100, 110, 7, left=2 ** 63 - 1)
        self.story.act("lock.run1", 120, 1400, 7, left=2 ** 63 - 1)
        self.story.hold("lock.lib1", 1390, 2000, 8)
        self.story.write("run.log", "paused lock.run1 %d %d" % (130 * MS, 1300 * MS))
        self.assert_broken("never two at a time; worst overlap 10.0 ms")

    # ---- losses and time without a holder ----

    def test_loss_without_a_fault_is_found(self):
        self.story.served(0, 20000)
        self.story.hold("lock.lib1", 5000, 6000, 7, how="lost")
        self.story.hold("lock.lib2", 6001, 7000, 8)
        self.assert_broken("nothing lost without a fault; lock.lib1 at 6.0 s")

    def test_loss_by_a_fault_of_another_is_found(self):
        self.story.served(0, 20000)
        self.story.fault(4500, 5500, "lock.lib2")
        self.story.hold("lock.lib1", 5000, 6000, 7, how="lost")
        self.assert_broken("nothing lost without a fault; lock.lib1")

    def test_loss_is_excused(self):
        for text in ("fault", "servers", "machine"):
            with self.subTest(text):
                self.story = Story(self)
                self.story.served(0, 4000)
                self.story.served(4000 if text != "servers" else 5900, 9000)
                if text == "fault":
                    self.story.fault(4500, 5500, "lock.lib1")
                if text == "machine":
                    self.story.write("witness.log", "stall %d %d" % (5500 * MS, 600 * MS))
                self.story.hold("lock.lib1", 5000, 6000, 7, how="lost")
                self.assert_broken()

    def idle(self, begin, end, *outage):
        """Servers serve but in that outage; nobody holds from begin to end."""
        self.story.served(0, outage[0] if outage else 30000)
        if outage:
            self.story.served(outage[1], 30000)
        self.story.hold("lock.lib1", 100, begin, 7)
        self.story.fault(begin, begin + 100, text="it is killed")
        self.story.hold("lock.lib2", end, end + 100, 8)
        self.story.write("run.log", "told %d" % ((end + 200) * MS))

    def test_too_long_without_a_holder_is_found(self):
        self.idle(1000, 6100)
        self.assert_broken("held again within T + 2 ticks (5.0 s) of servers that serve; 5.1 s after 1.0 s, it is killed")

    def test_faults_that_overlap_count_from_when_they_began(self):
        self.idle(1000, 6100)
        self.story.fault(900, 7000, text="it is stopped") # written down behind the other one
        verdict, _ = self.assert_broken("5.1 s after 1.0 s, it is killed")
        self.assertEqual([fault.text for fault in verdict.history.faults], ["it is stopped", "it is killed"])

    def test_time_in_which_no_server_serves_does_not_count(self):
        self.idle(1000, 8000, 2000, 4000)
        verdict, _ = self.assert_broken()
        self.assertEqual(verdict.longest_without_grant(verdict.found["lock"], verdict.history.faults[0]), 7000 * MS)

    def test_time_counts_anew_when_servers_serve_again(self):
        self.idle(1000, 9200, 2000, 4000)
        self.assert_broken("held again within T + 2 ticks (5.0 s) of servers that serve; 5.2 s")

    # ---- orphans ----

    def crowd_with(self, ended=None, until=12000, **broken):
        self.story.served(0, broken.get("begin", until))
        self.story.served(broken.get("end", until), until)
        if ended is not None:
            self.story.write("run.log", "ended lock.lib1 101 %d -9" % (ended * MS))
        self.story.hold("lock.lib2", 11000, 11100, 7)

    def test_node_of_a_dead_process_is_an_orphan_once_its_session_must_be_over(self):
        self.crowd_with(ended=3000)
        self.story.nodes(2900, "_c_a-lock-0000000001:101", "_c_b-lock-0000000002:102")
        self.story.nodes(3500, "_c_a-lock-0000000001:101")
        self.story.nodes(8400, "_c_a-lock-0000000001:101")
        self.story.nodes(12000)
        self.assert_broken()
        self.story.nodes(8600, "_c_a-lock-0000000001:101")
        self.story.nodes(12001)
        verdict, _ = self.assert_broken("no orphaned node; _c_a-lock-0000000001")
        self.assertEqual(verdict.orphans, {"_c_a-lock-0000000001": "/lock"})

    def test_process_that_has_the_id_of_an_earlier_or_later_one_lives_in_its_own_time(self):
        self.crowd_with(ended=10000)
        self.story.process("lock.lib1", 101, 11500)
        for at in (1000, 6500, 9900):
            self.story.nodes(at, "_c_a-lock-0000000001:101")
        self.story.nodes(12000)
        self.assert_broken()

    def test_new_leader_of_the_servers_gives_a_session_its_time_anew(self):
        self.crowd_with(ended=3000, begin=5000, end=7000)
        self.story.nodes(3500, "_c_a-lock-0000000001:101")
        self.story.nodes(7100, "_c_a-lock-0000000001:101")
        self.story.nodes(11900, "_c_a-lock-0000000001:101")
        self.story.nodes(12000)
        self.assert_broken()

    def test_server_that_comes_back_gives_a_session_its_time_anew(self):
        self.crowd_with(ended=3000)
        self.story.served(7000, 12000, server=2)
        self.story.nodes(3500, "_c_a-lock-0000000001:101")
        self.story.nodes(7100, "_c_a-lock-0000000001:101")
        self.story.nodes(11900, "_c_a-lock-0000000001:101")
        self.story.nodes(12000)
        self.assert_broken()

    def test_second_node_of_a_process_is_an_orphan(self):
        self.crowd_with()
        two = ("_c_a-lock-0000000001:101", "_c_a-lock-0000000003:101")
        self.story.nodes(1000, *two)
        self.story.nodes(6100, *two)
        self.story.nodes(12000)
        self.assert_broken("no orphaned node; _c_a-lock-0000000001")

    def test_node_that_is_left_in_the_end_is_an_orphan(self):
        self.crowd_with()
        self.story.nodes(12000, "_c_a-lock-0000000001:101")
        self.assert_broken("no orphaned node; _c_a-lock-0000000001")

    # ---- the rest ----

    def test_failed_call_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.write("lock.lib1.history", "fail %d acquire: ZKL_EZK: no" % (500 * MS))
        self.assert_broken("no call and no process failed; lock.lib1 at 0.5 s: acquire: ZKL_EZK: no")

    def test_call_that_comes_back_late_is_found(self):
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.write("lock.lib1.history", "limit %d %d 1200 acquire" % (500 * MS, 2700 * MS))
        self.assert_broken("no call later than 1000 ms after its limit; 1200 ms, acquire by lock.lib1")
        self.story.write("run.log", "paused lock.lib1 %d %d" % (600 * MS, 1600 * MS))
        self.assert_broken()

    def test_lock_that_nobody_got_is_found(self):
        self.assert_broken("lock: 0 grants")

    def test_peer_that_is_not_seen_to_overlap_is_found(self):
        self.story.write("run.log", "resource kazoo /kazoo", "peer kazoo")
        self.story.write("witness.log", "nodes 0 /kazoo")
        self.story.hold("lock.lib1", 100, 400, 7)
        self.story.hold("kazoo.kazoo1", 100, 400, 7)
        broken = [text for passed, text in self.story.verdict().checks if not passed]
        self.assertEqual(len(broken), 1, broken)
        self.assertIn("kazoo's lock is seen to overlap", broken[0])
        self.story.hold("kazoo.kazoo2", 390, 500, 8)
        self.assertTrue(all(passed for passed, _ in self.story.verdict().checks))


if __name__ == "__main__":
    unittest.main(verbosity=2)
