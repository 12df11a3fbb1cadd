# SPDX-License-Identifier: Apache-2.0
"""A queue that is drained: one process holds, the others wait; once all of them stand and all is quiet it lets go, and each
of them does in its turn."""

from workers import Directory, Fail, received, wait_quiet

PROCESSES = 10


class Drained:
    """What came of it. took: from each release to the next grant, in ms, in their order. moments: of the grants, in s from
    the first release on. bytes: what came from the servers meanwhile."""

    def __init__(self, released, turns, received_bytes):
        self.took, self.moments, self.bytes = [], [], received_bytes
        began = released
        for granted, next_released in sorted(turns):
            if granted < released:
                raise Fail("granted %d ns before it was released" % (released - granted))
            self.took.append((granted - released) / 1e6)
            self.moments.append((granted - began) / 1e9)
            released = next_released


def drain(crews, kind, waiters, hold_us, rounds=1, **options):
    """So many waiters in up to ten processes beside the holder's, in turns among them, each of which queues again until it
    has had its rounds."""
    directory = Directory("queue")
    holder, *others = crews.of(kind, 1 + min(PROCESSES, waiters), **options)
    holder.ask("hold", directory.path, answer="held")
    for i, each in enumerate(others):
        each.tell("queue", directory.path, waiters // len(others) + (i < waiters % len(others)), hold_us, rounds)
    directory.wait_for(waiters + 1)
    before = wait_quiet([holder, *others])
    released, = holder.ask("release", answer="released")
    turns = []
    for each in others:
        times = each.hear("turns")
        turns += zip(times[::2], times[1::2])
    return Drained(released, turns, received([holder, *others]) - before)
