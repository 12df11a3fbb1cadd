# SPDX-License-Identifier: Apache-2.0
"""Every line of golden.txt: what is typed, what comes out of it, and the exit status.

    == free      begins with a lock of its own: free, held by another, or one whose directory denies access, is for those
                 who have the credentials in $DIR/auth only, or has a quota that leaves no room
    $ ...        the command line, without a shell; $LOCK, $SERVERS and $DIR, a folder of its own, stand for the real ones
    1: 2:        a line of standard output and of standard error; "..." stands for any more of them
    [75]         the exit status, or the name of the signal

What is never the same twice is written as # (numbers), or HOLDER. The command `lose` takes its own lock away and stays."""

import os
import re
import shlex
import signal
import subprocess
import sys
import unittest
import uuid

from support import BINARY, PATIENCE, SERVERS, CommandTest, limit_contenders, zkwire

HERE = os.path.dirname(os.path.realpath(__file__))
LOSE = """#!/bin/sh
%s -B -c 'import os, sys
sys.path.insert(0, "%s")
import zkwire
with zkwire.Client("%s") as client:
    client.delete(os.environ["ZKLOCK_NODE"])'
exec sleep 1000
"""


def blocks():
    """(Line number, situation, examples), each example being a list of its lines."""
    with open(os.path.join(HERE, "golden.txt"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if line.startswith("== "):
            found.append((number, line[3:], []))
        elif line.startswith("$ "):
            found[-1][2].append([line])
        elif line and not line.startswith("#"):
            found[-1][2][-1].append(line)
    return found


class Golden(CommandTest):
    def setUp(self):
        super().setUp()
        self.holder = None
        os.mkdir(self.file("bin"))
        with open(self.file("bin/lose"), "w", encoding="ascii") as file:
            file.write(LOSE % (sys.executable, HERE, SERVERS))
        os.chmod(self.file("bin/lose"), 0o755)
        for name, text, mode in (("auth", "digest:user:password", 0o600), ("bad", "password", 0o600),
                                 ("other", "digest:user:other", 0o600), ("strange", "user:password", 0o600),
                                 ("open", "digest:user:password", 0o644), ("bin/orphan", "#!/no/such/interpreter\n", 0o755)):
            with open(self.file(name), "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(self.file(name), mode)
        self.path = ":".join((self.file("bin"), os.path.dirname(BINARY), os.environ["PATH"]))

    def given(self, situation):
        self.lock = "/commands/golden-" + uuid.uuid4().hex
        if situation == "held":
            self.holder = self.hold()
        elif situation == "denied":
            with zkwire.Client(SERVERS) as client:
                client.make(self.lock, zkwire.ALL & ~zkwire.CREATING)
        elif situation == "limited":
            limit_contenders(self, self.lock, 0)
        elif situation == "owned":
            self.assertEqual(self.call("--auth-file", self.file("auth"), self.lock, "--", "true")[0], 0)
        else:
            self.assertEqual(situation, "free")

    def real(self, text):
        return text.replace("$LOCK", self.lock).replace("$SERVERS", SERVERS).replace("$DIR", self.folder)

    def same_each_time(self, text):
        text = text.replace(self.lock, "$LOCK").replace(SERVERS, "$SERVERS").replace(self.folder, "$DIR")
        if self.holder is not None:
            text = re.sub(r"\S+:%d [^ ,]+" % self.holder.pid, "HOLDER", text)
        text = re.sub(r"\b(token|epoch|process|after|since) [\d.:]+", r"\1 #", text)
        text = re.sub(r"(the command's tree:) (cgroup|process walk, since) .*", r"\1 #", text)
        return re.sub(r"^(zklock-\S+) \d+\.\d+\.\d+$", r"\1 #.#.#", text)

    def shown(self, example):
        """The example, with what comes out of it now."""
        done = subprocess.run(shlex.split(self.real(example[0][2:])), env=self.environment(PATH=self.path),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=PATIENCE, check=False)
        lines = [example[0]]
        for number, text in (("1: ", done.stdout), ("2: ", done.stderr)):
            wanted = [line for line in example if line.startswith(number)]
            found = [number + self.same_each_time(line) for line in text.splitlines()]
            if wanted[-1:] == [number + "..."]:
                found[len(wanted) - 1:] = wanted[-1:]
            lines += found
        return lines + ["[%s]" % (done.returncode if done.returncode >= 0 else signal.Signals(-done.returncode).name)]

    def test_each(self):
        for number, situation, examples in blocks():
            self.given(situation)
            for example in examples:
                with self.subTest(block=number, command=example[0]):
                    self.assertEqual("\n".join(self.shown(example)), "\n".join(example))
            if situation != "owned":
                self.assertEqual(len(self.nodes()), situation == "held")

    def test_every_option_and_every_status_is_among_them(self):
        examples = [example for _, _, block in blocks() for example in block]
        for command in ("zklock-run", "zklock-fence"):
            told = subprocess.run([os.path.join(os.path.dirname(BINARY), command), "--help"], stdout=subprocess.PIPE,
                                  check=True, text=True).stdout
            typed = [word for example in examples for word in shlex.split(example[0]) if command in example[0]]
            for option in re.findall(r"--?[\w-]+", " ".join(re.findall(r"(?m)^ +(-\S+(?: -\S+)*)", told))):
                if option.startswith("--"):
                    self.assertTrue(any(word.partition("=")[0] == option for word in typed), option)
                else:
                    self.assertTrue(any(re.match(r"-\w*%s" % option[1], word) for word in typed), option)
            statuses = re.findall(r"(?<!-)\b\d{2,3}\b", told.partition("Exit status: ")[2])
            self.assertLessEqual({"[%s]" % status for status in statuses},
                                 {example[-1] for example in examples if command in example[0]})


if __name__ == "__main__":
    unittest.main(verbosity=2)
