# SPDX-License-Identifier: Apache-2.0
"""Which images the tests run, and how they are had.

The servers', in this order: ZKLOCK_TEST_IMAGE where it is set; the official image where it is present; the local image
where it was built before; the official image by a pull; the local image, built now. The local one is ZooKeeper from
Debian trixie (3.9.3): bookworm's 3.8.0 loses wake-ups in a quorum (ZOOKEEPER-4537).

The peers' is a local one always: the same trixie with what is newer there than on most machines and is to be tested with
zklock (Curator, kazoo, the C client), and with a systemd and a cron that can be booted."""

import fcntl
import hashlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ensemble import Fail, say, tool

OFFICIAL = "zookeeper:3.9"
SUITE = "trixie"
SERVER_PACKAGES = "libzookeeper-java,default-jre-headless"
PEERS_PACKAGES = ("default-jre-headless,libcurator-client-java,libcurator-framework-java,libcurator-recipes-java,"
                  "libslf4j-java,python3,python3-kazoo,"
                  "gcc,libc6-dev,cmake,ninja-build,pkg-config,libzookeeper-mt-dev,libcunit1-dev,libsystemd-dev,"
                  "locales,systemd,dbus,cron")
ENTRYPOINT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "entrypoint.sh")

# A registry that is out of reach can leave a pull without a word for minutes; one that answers says so at once, and
# then a slow line is given its time.
FIRST_WORD_S = 15
PULL_S = 900
BUILD_S = 1200



def _recipe(packages):
    # Without the manual pages of /usr/share/man the JRE's configuration fails, so those stay.
    return ["mmdebstrap", "--variant=essential", "--include=" + packages, "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            '--aptopt=Apt::Install-Recommends "false"']


def _local(kind, recipe, entrypoint=b""):
    """A local image's name. It changes with the recipe, so that a changed one is built anew."""
    return "zklock-%s:%s-%s" % (kind, SUITE, hashlib.sha256(entrypoint + repr(recipe).encode()).hexdigest()[:12])


def _present(name):
    return subprocess.run(["docker", "image", "inspect", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=60, check=False).returncode == 0


def _pull(name):
    """True when it was pulled."""
    say("pulling %s" % name)
    deadline = time.monotonic() + PULL_S
    with subprocess.Popen(["docker", "pull", name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as pull:
        try:
            if not select.select([pull.stdout], [], [], FIRST_WORD_S)[0]:
                return False
            while time.monotonic() < deadline:
                if select.select([pull.stdout], [], [], 1)[0] and not os.read(pull.stdout.fileno(), 65536):
                    return pull.wait() == 0
            return False
        finally:
            pull.kill()


def _mmdebstrap(recipe, words, log):
    """Its status. It mounts file systems below its temporary folder: it must be told to end and never be killed."""
    with open(log, "wb") as out, \
            subprocess.Popen(recipe + words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                             env=dict(os.environ, DEBIAN_FRONTEND="noninteractive")) as process:
        try:
            return process.wait(BUILD_S)
        finally:
            # To what it has started as well, which it would wait for.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def _build(name, recipe, changes, entrypoint=None):
    if not shutil.which("mmdebstrap"):
        raise Fail("mmdebstrap, which builds %s, is not installed" % name)
    say("building %s from Debian %s, once; it takes a minute or two" % (name, SUITE))
    words = ["--mode=root"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="zklock-image-") as folder:
        if entrypoint is not None:
            # The name inside the image is the name of the file that is copied in.
            copy = os.path.join(folder, "docker-entrypoint.sh")
            shutil.copy(entrypoint, copy)
            os.chmod(copy, 0o755)
            words.append("--customize-hook=copy-in %s /" % copy)
        tarball = os.path.join(folder, "root.tar")
        log = os.path.join(folder, "log")
        status = _mmdebstrap(recipe, words + [SUITE, tarball], log)
        if status:
            with open(log, errors="replace", encoding="utf-8") as f:
                sys.stderr.write("".join(f.readlines()[-20:]))
            raise Fail("mmdebstrap failed with status %d" % status)
        tool(["docker", "import"] + [word for change in changes for word in ("-c", change)] + [tarball, name],
             timeout=BUILD_S)


def find(build=True):
    """The name of an image for servers that is present, or None where it must be built and build is False."""
    wanted = os.environ.get("ZKLOCK_TEST_IMAGE")
    if wanted:
        if not _present(wanted) and not _pull(wanted):
            raise Fail("the image %s of ZKLOCK_TEST_IMAGE is neither present nor can it be pulled" % wanted)
        return wanted
    recipe = _recipe(SERVER_PACKAGES)
    # Two that start side by side on a fresh machine build one image.
    with open(ENTRYPOINT, "rb") as lock:
        local = _local("zookeeper", recipe, lock.read())
        for name in (OFFICIAL, local):
            if _present(name):
                return name
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _present(local):
            return local
        if _pull(OFFICIAL):
            return OFFICIAL
        if not build:
            return None
        _build(local, recipe, ['ENTRYPOINT ["/docker-entrypoint.sh"]', 'VOLUME ["/data", "/datalog"]'], ENTRYPOINT)
    return local


def find_peers(build=True):
    """The same for the peers."""
    recipe = _recipe(PEERS_PACKAGES)
    local = _local("peers", recipe)
    with open(os.path.realpath(__file__), "rb") as lock:
        if _present(local):
            return local
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _present(local):
            if not build:
                return None
            _build(local, recipe, ["CMD [\"/bin/bash\"]"])
    return local
