# SPDX-License-Identifier: Apache-2.0
"""A queue that is drained: one process holds, the others wait; once all of them stand and all is quiet it lets go, and each
of them does in its turn."""

from workers import Directory, Fail, cpu_s, received, wait_quiet

PROCESSES = 10


class Drained:
    """What came of it. took: from each release to the next grant, in ms, in their order. moments: of the grants, in s from
    the first release on. bytes: what came from the servers meanwhile. clients_ms, servers_ms: CPU time for each grant."""

    def __init__(self, released, turns, spent):
        self.took, self.moments, self.bytes = [], [], spent[0]
        self.clients_ms, self.servers_ms = (1000 * seconds / len(turns) for seconds in spent[1:])
        began = released
        for granted, next_released in sorted(turns):
            if granted < released:
                raise Fail("granted %d ns before it was released" % (released - granted))
            self.took.append((granted - released) / 1e6)
            self.moments.append((granted - began) / 1e9)
            released = next_released


def spent_by(crews, workers):
    return received(workers), cpu_s(each.process.pid for each in workers), crews.servers.cpu_s()


def drain(crews, kind, waiters, hold_us, rounds=1, **options):
    """So many waiters in up to ten processes beside the holder's, in turns among them, each of which queues again until it
    has had its rounds."""
    directory = Directory("queue")
    holder, *others = crews.of(kind, 1 + min(PROCESSES, waiters), **options)
    holder.ask("hold", directory.path, answer="held")
    for i, each in enumerate(others):
        each.tell("queue", directory.path, waiters // len(others) + (i < waiters % len(others)), hold_us, rounds)
    directory.wait_for(waiters + 1)
    wait_quiet([holder, *others])
    before = spent_by(crews, [holder, *others])
    released, = holder.ask("release", answer="released")
    turns = []
    for each in others:
        times = each.hear("turns")
        turns += zip(times[::2], times[1::2])
    after = spent_by(crews, [holder, *others])
    return Drained(released, turns, [end - begin for begin, end in zip(before, after)])
