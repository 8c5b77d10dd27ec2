"""ordinary_user.py NUMBER: as this user, against checks of another one: bytes to each port that listens on loopback, names in /tmp before and
beside theirs, their private folders, signals, ptrace. Ends when something is written to it, and prints what it could do."""

import ctypes
import glob
import os
import random
import signal
import socket
import sys
import time
from contextlib import suppress

PTRACE_SEIZE = 0x4206
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
done = dict.fromkeys(("bytes", "in folders", "signals", "traces"), 0)
made, held = set(), []
before = set(glob.glob("/tmp/envcheck-*") + glob.glob("/dev/shm/envcheck-*"))
os.set_blocking(0, False)


def ports():
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[1].startswith(("0100007F", "00000000")) and fields[7] != sys.argv[1]:
            yield int(fields[1].rpartition(":")[2], 16)


def look():
    for port in ports():
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 0.1))
            held[-1].sendall(random.randbytes(64))
            done["bytes"] += 64
            del held[:-100]
    for folder in set(glob.glob("/tmp/envcheck-*") + glob.glob("/dev/shm/envcheck-*")) - made - before:
        for try_it in (os.listdir, lambda one: open(one + "/agent.jsonl", "ab"), lambda one: os.rename(one, one + "x")):
            with suppress(OSError):
                try_it(folder)
                done["in folders"] += 1
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):
        with suppress(OSError):
            if b"envcheck" in open(f"/proc/{pid}/cmdline", "rb").read() and pid != os.getpid():
                done["traces"] += ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, 0, 0) == 0
                os.kill(pid, signal.SIGKILL)
                done["signals"] += 1
    name = f"/tmp/envcheck-{random.getrandbits(32):08x}"
    with suppress(OSError):
        random.choice([os.mkdir, os.mkfifo, lambda one: os.symlink("/etc", one)])(name)
        made.add(name)


print("ready", flush=True)
while True:
    with suppress(BlockingIOError):
        if sys.stdin.buffer.raw.read(1) is not None:
            break
    look()
    time.sleep(0.002)
for name in made:
    (os.rmdir if os.path.isdir(name) and not os.path.islink(name) else os.unlink)(name)
print({name: count for name, count in done.items() if name != "bytes" and count} or "nothing")
