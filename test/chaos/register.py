# SPDX-License-Identifier: Apache-2.0
"""The resource that refuses an older token: register.py FOLDER

A process of its own, which no fault stops. Each resource has a mark and a number. A request is one packet, RESOURCE TOKEN
VALUE; VALUE -1 reads. Every access goes by the mark, reads too: a token below it is refused (-1), any other raises it. What was
written, refused, and raised the mark goes to FOLDER/register.log in that order: NS RESOURCE TOKEN VALUE, "refused" or "raised"
in place of the value."""

import os
import selectors
import socket
import sys
import time


def main(folder):
    path = os.path.join(folder, "register")
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(path + ".new")
    door.listen(64)
    os.rename(path + ".new", path)
    waiting = selectors.DefaultSelector()
    waiting.register(door, selectors.EVENT_READ)
    marks, values = {}, {}
    with open(os.path.join(folder, "register.log"), "w", encoding="ascii", buffering=1) as log:
        while True:
            for key, _ in waiting.select():
                if key.fileobj is door:
                    waiting.register(door.accept()[0], selectors.EVENT_READ)
                    continue
                try:
                    words = key.fileobj.recv(256).decode().split()
                except ConnectionError:
                    words = []
                if not words:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()
                    continue
                resource, token, value = words[0], int(words[1]), int(words[2])
                now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                answer = -1
                if token >= marks.get(resource, 0):
                    if token > marks.get(resource, 0):
                        log.write("%d %s %d raised\n" % (now, resource, token))
                    marks[resource] = token
                    if value >= 0:
                        values[resource] = value
                        log.write("%d %s %d %d\n" % (now, resource, token, value))
                    answer = values.get(resource, 0)
                else:
                    log.write("%d %s %d refused\n" % (now, resource, token))
                try:
                    key.fileobj.send(b"%d" % answer)
                except OSError:
                    pass


if __name__ == "__main__":
    main(sys.argv[1])
