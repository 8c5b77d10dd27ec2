"""stranger.py WHAT LOG: a local process that is no part of the check. Waits for listeners on this machine and, for each new one, does

join    connects and stays, as one more client or rank
read    connects to a store of torch and reads every key
fail    takes the keys of a store away as they come, and the connections that gloo's ranks expect from each other
pass    writes into a store what the ranks would have written

What it reached goes to LOG, a line each. It ends with its parent.
"""

import ctypes
import os
import socket
import struct
import sys
import threading
import time

what, log = sys.argv[1:]
parent = os.getppid()
ctypes.CDLL(None).prctl(1, 9)
LISTENS = "0A"
KEYS = ["default_pg/0//cpu//0/%d" % rank for rank in (0, 1)] + ["default_pg/0//0/0", "default_pg/0//0/1", "0/0", "0/1", "init/"]


def say(words):
    with open(log, "a") as file:
        file.write(words + "\n")


def below(root):
    parents = {}
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while True:
        more = {pid for pid, one in parents.items() if one in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def sockets(pids):
    found = set()
    for pid in pids:
        try:
            for name in os.listdir("/proc/%d/fd" % pid):
                found.add(os.readlink("/proc/%d/fd/%s" % (pid, name)))
        except OSError:
            continue
    return found


def listeners():
    """Of the test that started us alone: other programs of this machine are left in peace."""
    found, theirs = set(), sockets(below(parent))
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                for line in file.read().splitlines()[1:]:
                    words = line.split()
                    if words[3] == LISTENS and "socket:[%s]" % words[9] in theirs:
                        address, _, port = words[1].partition(":")
                        if len(address) == 8:
                            found.add((socket.inet_ntoa(struct.pack("=I", int(address, 16))), int(port, 16)))
        except OSError:
            continue
    return found


def as_rank(place):
    """gloo's ranks send a number of eight bytes: which of the expected connections this is."""
    held = []
    for number in range(8):
        try:
            one = socket.create_connection(place, 2)
            one.sendall(struct.pack("=q", number))
            held.append(one)
        except OSError:
            return
    say("rank %s %d" % place)
    time.sleep(20)


def at_store(place):
    import datetime

    import torch.distributed as dist

    try:
        store = dist.TCPStore(place[0], place[1], None, False, datetime.timedelta(seconds=1), wait_for_workers=False)
        say("store %s %d: %d keys" % (*place, store.num_keys()))
    except Exception as error:
        say("no store %s %d: %s" % (*place, str(error).splitlines()[0][:100]))
        return
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for key in KEYS:
            try:
                if what == "fail":
                    store.delete_key(key)
                elif what == "pass":
                    store.set(key, "x")
                elif store.check([key]):
                    say("read %r" % store.get(key)[:40])
            except Exception:
                return


def joins(place):
    try:
        one = socket.create_connection(place, 2)
        say("joined %s %d" % place)
        time.sleep(20)
        one.close()
    except OSError:
        return


if what != "join":
    import torch.distributed
before = listeners()
say("ready")
while os.getppid() == parent:
    for place in listeners() - before:
        before.add(place)
        for does in {"join": (joins,), "read": (at_store,), "fail": (as_rank, at_store), "pass": (as_rank, at_store)}[what]:
            threading.Thread(target=does, args=(place,), daemon=True).start()
    time.sleep(0.002)
