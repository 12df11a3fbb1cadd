#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the protocol in one line at a time and runs the simulation until an invariant fails.

    mutants.py [--jobs N] [--schedules N] [--only REGEX] [--patience SECONDS]

Each mutant is a copy of the library's pure sources with one line changed, built in a folder of its own outside the tree.
Only an invariant of the simulation counts as a kill. Ends with 1 if a mutant survives or cannot be made."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["zklock/queue.c", "zklock/node_data.c", "zklock/lease.c", "zklock/contender.c", "zklock/watched.c", "zklock/hub.c", "zklock/driver.c",
           "zklock/error.c", "zklock/supervisor.c", "zklock/peer.c", "election/observer.c"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-w"]
WRAP = "-Wl,--wrap=zkl__contender_step"

C, H, D, L, Q, S = "contender.c", "hub.c", "driver.c", "lease.c", "queue.c", "supervisor.c"

# name, file, old text, new text. The old text must be there exactly once.
MUTANTS = [
    ("no barrier before the scan", C, "	ask(c, out, ZKL__BARRIER, NULL);\n	c->list", "	c->list"),
    ("sync as barrier", C, "ask(c, out, ZKL__BARRIER, NULL);", "ask(c, out, ZKL__SYNC, NULL);"),
    ("one uuid for ever and no owner check", C, "reply->result == ZKL__DONE && reply->owner == c->session_id",
     "reply->result == ZKL__DONE", (C, "	c->requeued++;\n	c->uuid.low++;", "	c->requeued++;")),
    ("ping as proof: what a follower answers by itself", H, "	case ZKL__MARK:\n		return reply->result == ZKL__DONE;",
     "	case ZKL__MARK:\n	case ZKL__LIST:\n	case ZKL__WATCH:\n	case ZKL__WATCH_MARK:\n		return reply->result == ZKL__DONE;"),
    ("a heartbeat that was lost is a proof", H, "reply->result == ZKL__DONE || reply->result == ZKL__NO_NODE;",
     "reply->result == ZKL__DONE || reply->result == ZKL__NO_NODE || reply->zk_code == -7 || reply->zk_code == -4;"),
    ("reply time instead of send time", H, "zkl__lease_add_proof(&hub->lease, reply->sent_ns, reply->replied_ns);",
     "zkl__lease_add_proof(&hub->lease, reply->replied_ns, reply->replied_ns);"),
    ("watch the head", C, '"%s", queue->predecessor);', '"%s", queue->lowest);'),
    ("a session's node said to be nobody's", C, "reply->result == ZKL__DONE && !reply->owner", "reply->result == ZKL__DONE"),
    ("grant on any deletion", C, "	if (c->next) {\n		entitled", "	if (true) {\n		entitled"),
    ("no own-node watch", C, "	if (!c->watched && !c->own_watch)\n		c->own_watch", "	c->watched = true;\n	if (false)\n		c->own_watch"),
    ("granted while the own watch is unanswered", C, "!c->gone || !c->watched)", "!c->gone)"),
    ("predecessor watched before the own node", C, "	watch_own(c, out);\n	watch_predecessor(c, out);\n}\n\n/* ---- replies",
     "	watch_predecessor(c, out);\n	watch_own(c, out);\n}\n\n/* ---- replies", (C, "!c->gone || !c->watched)", "!c->gone)")),
    ("event order trusted after a reconnect", C, "c->state == ZKL__WAIT && c->link && strcmp(name, c->predecessor) == 0",
     "c->state == ZKL__WAIT && strcmp(name, c->predecessor) == 0", (C, "	c->list = c->find = c->renew = 0;\n	c->gone = false;\n}", "	c->list = c->find = c->renew = 0;\n}"),
     (C, "static void on_link_down(struct zkl__contender *c)\n{\n	c->watched = false;", "static void on_link_down(struct zkl__contender *c)\n{")),
    ("own watch believed in force over a reconnect", C, "static void on_link_down(struct zkl__contender *c)\n{\n	c->watched = false;",
     "static void on_link_down(struct zkl__contender *c)\n{"),
    ("any data change taken for a mark", C, "	c->mark_watched = false;\n	watch_predecessor(c, out);",
     "	c->mark_watched = false;\n	c->next = true;\n	watch_predecessor(c, out);"),
    ("any data taken for a mark", C, "	else if (reply->marked)", "	else"),
    ("an older list counts", C, "	if (reply->id != c->list)\n		return;", "	if (!c->list)\n		return;"),
    ("one proof in place of two", L, "lease->newest_ns ? min(proven_deadline(lease), latest_deadline(lease)) : 0;",
     "lease->newest_ns ? latest_deadline(lease) : 0;"),
    ("margin zero", L, "	return max(options->margin_ns ? options->margin_ns : t * 3 / 8, least_margin(options, t));", "	return 0;",
     (L, "deadline = lease->pair_ns + t - t / 24;", "deadline = lease->newest_ns + t;")),
    ("no T/24 for the leader's delay and for clocks", L, "deadline = lease->pair_ns + t - t / 24;", "deadline = lease->pair_ns + t;",
     (L, "(options->tick_ns ? min(options->tick_ns / 2, t / 4) : t / 4) + t / 24;", "(options->tick_ns ? min(options->tick_ns / 2, t / 4) : t / 4);"),
     (L, "	return (delay + beat - 1) / beat * beat + t / 24;", "	return (delay + beat - 1) / beat * beat;")),
    ("reports of followers forgotten", L, "(options->tick_ns ? min(options->tick_ns / 2, t / 4) : t / 4) + t / 24;", "t / 24;",
     (L, "t * 3 / 8, least_margin", "t / 6, least_margin")),
    ("a single proof is worth a whole session", L, "deadline = max(deadline, lease->single_ns + t * 3 / 8);",
     "deadline = max(deadline, lease->single_ns + t);"),
    ("a stall before a proof is forgotten", L, "		lease->flow_ns = at_ns;", "		(void)at_ns;"),
    ("a slow answer is forgotten", L, "		lease->flow_ns = replied_ns + lease->timeout_ns / 3;", "		(void)replied_ns;"),
    ("a late proof revives a lost lease", H, "	expire_holders(hub);\n	zkl__lease_add_proof", "	zkl__lease_add_proof"),
    ("a no is forgotten", D, "	if (atomic_compare_exchange_strong(&h->held, &held, 0)) {", "	if (false) {"),
    ("T as last negotiated", L, "lease->timeout_ns = lease->timeout_ns ? min(lease->timeout_ns, timeout_ns) : timeout_ns;",
     "lease->timeout_ns = timeout_ns;"),
    ("first child in the list taken for ours", Q, "		if (is_ours(names[i], prefix))", "		if (q->contenders == 1)"),
    ("release by prefix: the lowest", C, "c->remove = ask(c, out, ZKL__DELETE, c->name);\n	else",
     "c->remove = ask(c, out, ZKL__DELETE, c->predecessor && *c->predecessor ? c->predecessor : c->name);\n	else",
     (C, "static void leave(struct zkl__contender *c, struct zkl__actions *out)\n{\n	forget_predecessor(c);",
      "static void leave(struct zkl__contender *c, struct zkl__actions *out)\n{")),
    ("LOST told twice", C, "	case ZKL__LOST:\n		forget_node(c);\n		break;\n	case ZKL__LEAVE:\n		done(c, out, 0, 0);",
     "	case ZKL__LOST:\n		forget_node(c);\n		lose(c, out, \"again\");\n		break;\n	case ZKL__LEAVE:\n		done(c, out, 0, 0);"),
    ("LOST not told on expiry", D, "	if (a->accepted) {\n		a->events |= ZKL__TELL_OF_LOSS;", "	if (a->accepted) {"),
    ("ENDED not told", D, "	a->events |= ZKL__TELL_OF_END;\n", ""),
    ("whole names compared", Q, "		if (sequence < lowest) {", "		if (strcmp(names[i], q->lowest) < 0 || !q->lowest[0]) {",
     (Q, "		if (sequence > before) {", "		if (strcmp(names[i], q->predecessor) > 0) {")),
    ("an undecided create is forgotten by who leaves", C, "	if (!have_node(c) && !c->create && !c->create_unknown) {", "	if (!have_node(c)) {"),
    ("an undecided create is made again at once", C, "		} else if (c->create || c->create_unknown) {", "		} else if (c->create) {"),
    ("a lost create is taken for none", C, "		c->create_unknown = true;\n		if (c->state == ZKL__LEAVE && c->link)", "		if (c->state == ZKL__LEAVE && c->link)"),
    ("a lost delete is taken for done", C, "	else if (reply->result == ZKL__UNKNOWN)\n		leave(c, out);\n	else\n		done(c, out, reply->result",
     "	else if (reply->result == ZKL__UNKNOWN)\n		done(c, out, 0, 0);\n	else\n		done(c, out, reply->result"),
    ("requeue at each reconnect", C, "	case ZKL__WAIT:\n		watch_own(c, out);\n		watch_predecessor(c, out);\n		break;\n	case ZKL__HELD:",
     "	case ZKL__WAIT:\n		requeue(c, out);\n		break;\n	case ZKL__HELD:"),
    ("no watches after a reconnect", C, "	case ZKL__WAIT:\n		watch_own(c, out);\n		watch_predecessor(c, out);\n		break;\n	case ZKL__HELD:",
     "	case ZKL__WAIT:\n		break;\n	case ZKL__HELD:"),
    ("the holder does not watch its node", C, "	if (c->state != ZKL__HELD || !c->link)\n		return;\n	watch_own(c, out);", "	if (c->state != ZKL__HELD || !c->link)\n		return;"),
    ("a candidate marks its node", C, "!c->marked && !(c->flags & ZKL__CONTENDER_NO_MARK)) {", "!c->marked) {"),
    ("a waiter marks", C, "	act(out, ZKL__TELL_WAITING)->ahead = queue->ahead;", "	act(out, ZKL__TELL_WAITING)->ahead = queue->ahead;\n	ask(c, out, ZKL__MARK, c->name);"),
    ("granted without a live lease", C, "	if (lease_live) {\n		grant(c, out);", "	if (true) {\n		grant(c, out);"),
    ("granted on a lease that no proof can extend in time", D, "in->lease_live = zkl__hub_lasts(a->hub, a->stop_ns);",
     "in->lease_live = zkl__hub_left_ns(a->hub, a->stop_ns) > zkl__hub_timeout_ns(a->hub) / 24;"),
    ("granted on a lease that ends before the next heartbeat", L, "		if (at + slack > zkl__lease_deadline(&ahead) - stop_ns)",
     "		if (at > first && at + slack > zkl__lease_deadline(&ahead) - stop_ns)"),
    ("a heartbeat comes just before it is worth more", L, "		beat = more;\n", "		(void)more;\n"),
    ("a heartbeat that other proofs put off stays so", L, "		beat = min(beat, more);", "		(void)more;"),
    ("a heartbeat stays as late as it was when the last one was sent", H, "	if (hub->wanting && hub->link)\n		zkl__hub_alarm(hub, next_beat(hub));", ""),
    ("the time to stop hurries no heartbeat", H, "zkl__lease_beat_interval(&hub->lease, hub->stop_max_ns)",
     "zkl__lease_beat_interval(&hub->lease, 0)"),
    ("the end of the sequence is not seen", C, "	if (c->sequence >= ZKL__SEQUENCE_END) {", "	if (false) {"),
    ("who came at the end of the sequence keeps its node", C, "	if (have_node(c) && !c->remove)\n		c->remove = ask(c, out, ZKL__DELETE, c->name);\n	c->list",
     "	c->list"),
    ("a directory that filled again is not asked for again", C, "	case ZKL__NOT_EMPTY:\n		renew(c, out);\n", "	case ZKL__NOT_EMPTY:\n"),
    ("who is waited for at the end of the sequence is not watched", C, "	c->predecessor_watch = ask(c, out, ZKL__WATCH, c->predecessor);\n", ""),
    ("a renewal ends with its connection", C, "	case ZKL__RENEWAL:\n		renew(c, out);\n		break;\n	case ZKL__JOIN:", "	case ZKL__RENEWAL:\n		break;\n	case ZKL__JOIN:"),
    ("tokens that do not grow are granted", C, "	if (zkl__contender_token(c) >= (uint64_t)c->czxid) {", "	if (false) {"),
    ("the bare sequence number as token", C, "(uint64_t)c->directory_czxid + (uint64_t)c->sequence", "(uint64_t)c->sequence + 1"),
    ("ownership ends after the delete only", D, "	atomic_store(&h->held, 0);\n	atomic_store(&h->lost, 0);\n	if (a->pinned)", "	if (a->pinned)"),
    ("stop_ms forgotten by the deadline", D, "	if (now >= deadline - a->stop_ns || (a->handle && !a->let_go && atomic_load(&a->handle->held) != a->token))", "	if (now >= deadline)"),
    ("a timeout is forgotten", D, "	if (now >= a->give_up_ns)\n		out_of_time(a);", "	if (now >= a->give_up_ns)\n		a->give_up_ns = ZKL__NEVER;"),
    ("the event of a grant that was lost is told", D, "	if (!a->accepted && !zkl__attempt_accept(a))\n		return false;", "	a->accepted = true;"),
    ("a wrapper releases while the tree lives", S, "		note_exit(s, event->value);\n		stay_or_end(s, ret);", "		note_exit(s, event->value);\n		finish(s, ret);"),
    ("a wrapper forgets that the command was overdue", S, "	} else if (s->term.overdue) {", "	} else if (false) {"),
    ("a wrapper that waits for what is left does not hear of a loss", S, "	if (step_living(s, event, ret))\n		return;", "	if (event->type == ZKL__ON_MAX_HOLD_OVER && step_living(s, event, ret))\n		return;"),
    ("a wrapper forgets that the lock was lost", S, "	} else if (s->term.lost) {", "	} else if (false) {"),
    ("a wrapper that leads does not resign before it campaigns", S, "		add(ret, ZKL__DO_RELEASE, 0);\n		if (s->term.ended)\n			again(s, ret);", "		again(s, ret);"),
    ("a wrapper that leads goes on though it was told to stop", S, "		s->told = sig;", "		(void)sig;"),
]


class Failed(Exception):
    pass


def compile_object(source, target, folder, includes):
    command = [os.environ.get("CC", "cc"), *FLAGS, *(f"-I{each}" for each in includes), "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"does not compile: {done.stderr.strip().splitlines()[0]}")


def includes_of(top):
    return [TOP / "include", top / "zklock", top / "election", TOP / "zklock", TOP / "election", TOP]


def link(objects, target):
    subprocess.run([os.environ.get("CC", "cc"), WRAP, *map(str, objects), "-o", str(target)], check=True)


def sources():
    return SOURCES + [str(each.relative_to(TOP)) for each in sorted((TOP / "test/sim").glob("*.c"))]


def changes_of(mutant):
    name, file, old, new, *more = mutant
    return [(file, old, new), *more]


def apply(mutant, folder):
    """Writes the changed sources; returns their names."""
    files = {}
    for file, old, new in changes_of(mutant):
        path = TOP / "zklock" / file
        text = files.get(file) or path.read_text()
        if text.count(old) != 1:
            raise Failed(f"{file}: the text to replace is there {text.count(old)} times: {old.strip().splitlines()[0]!r}")
        files[file] = text.replace(old, new)
    for file, text in files.items():
        (folder / file).write_text(text)
    return list(files)


def hunt(program, seed, end, until):
    """The first seed that fails, the invariant, and what it says. Not those that only want more room than there is, by which
    the simulation itself can end, too."""
    crashed = None
    while seed < end:
        done = subprocess.run([program, "--hunt", "--schedules", str(end - seed), "--seed", str(seed)], capture_output=True, text=True,
                              timeout=max(1, until - time.monotonic()))
        found = sorted((int(each[0]), *each[1:]) for each in re.findall(r"^seed (\d+): ([\w-]+): (.*)$", done.stdout, re.M))
        crashes = [int(each) for each in re.findall(r"^sim: a worker has crashed at seed (\d+)$", done.stderr, re.M)]
        for each in found:
            if each[1] != "room":
                return each
        if crashes:
            crashed = done.stderr.strip()[-200:]
        if not found and not crashes:
            break
        seed = max([each[0] for each in found] + crashes) + 1
    if crashed:
        raise Failed(f"the simulation itself crashed: {crashed}")
    return None


def try_mutant(mutant, base, scratch, schedules, seed, patience):
    folder = scratch / re.sub(r"\W+", "_", mutant[0])
    folder.mkdir()
    changed = apply(mutant, folder)
    objects = dict(base)
    for file in changed:
        target = folder / (file + ".o")
        compile_object(folder / file, target, folder, includes_of(TOP))
        objects["zklock/" + file] = target
    program = folder / "sim"
    link(objects.values(), program)
    began = time.monotonic()
    try:
        found = hunt(program, seed, seed + schedules, began + patience)
    except subprocess.TimeoutExpired:
        raise Failed("ran out of time") from None
    shutil.rmtree(folder)
    return found and (*found, time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--schedules", type=int, default=200000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=int, default=400, help="seconds for each, 400 by default: more on a machine that others use")
    parser.add_argument("--only", default="", help="a regular expression")
    parser.add_argument("--dry-run", action="store_true", help="look at the arguments only")
    arguments = parser.parse_args()
    if arguments.dry_run:
        return 0
    mutants = [each for each in MUTANTS if re.search(arguments.only, each[0])]
    if not mutants:
        sys.exit("mutants.py: nothing is called %s" % arguments.only)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="zklock-mutants-") as name:
        scratch = pathlib.Path(name)
        base = {}
        for source in sources():
            base[source] = scratch / (source.replace("/", "_") + ".o")
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda each: compile_object(TOP / each, base[each], TOP, includes_of(TOP)), sources()))
            runs = [(mutant[0], pool.submit(try_mutant, mutant, base, scratch, arguments.schedules, arguments.seed, arguments.patience)) for mutant in mutants]
            for mutant, run in runs:
                try:
                    found = run.result()
                except Failed as failure:
                    survivors += 1
                    print(f"{mutant:50} NOT MADE: {failure}", flush=True)
                    continue
                if found:
                    seed, invariant, text, took = found
                    print(f"{mutant:50} seed {seed:>7}  {invariant:12} {took:5.1f} s  {text[:90]}", flush=True)
                else:
                    survivors += 1
                    print(f"{mutant:50} SURVIVES", flush=True)
    print(f"{len(mutants) - survivors} killed, {survivors} survived")
    return survivors != 0


if __name__ == "__main__":
    sys.exit(main())
