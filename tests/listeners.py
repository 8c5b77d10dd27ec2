"""Who listens where: the TCP listeners of a process and everything below it, from /proc."""

from __future__ import annotations

import os
import re
import socket
import threading
from contextlib import suppress
from pathlib import Path

LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")  # as /proc/net/tcp writes them


def family(root: int) -> set[int]:
    """`root` and its descendants."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError):
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    found = {root}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return found


def sockets(pid: int) -> set[str]:
    found: set[str] = set()
    with suppress(OSError):
        for entry in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(f"/proc/{pid}/fd/{entry}")))
    return found


def listening(root: int) -> dict[str, str]:
    """Local address (hex) → command line of each listener below `root` in this network namespace."""
    addresses: dict[str, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():  # a kernel without IPv6
            columns = line.split()
            if columns[3] == "0A":
                addresses[columns[9]] = columns[1].partition(":")[0]
    found: dict[str, str] = {}
    for pid in family(root) if addresses else ():
        for inode in sockets(pid) & addresses.keys():
            with suppress(OSError):
                found[addresses[inode]] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return found


def own_addresses() -> set[str]:
    """Those that gloo listens on by itself: of this host's name. As /proc/net/tcp writes them."""
    found = set()
    for kind, _, _, _, place in socket.getaddrinfo(socket.gethostname(), 0, type=socket.SOCK_STREAM):
        packed = socket.inet_pton(kind, str(place[0]).partition("%")[0])
        found.add("".join(packed[at : at + 4][::-1].hex().upper() for at in range(0, len(packed), 4)))
    return found


class Watch:
    """Samples the listeners below the process `root` within the `with`. `seen`: address (hex) → one command line that listened there."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.seen: dict[str, str] = {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)

    def sample(self) -> None:
        while not self.over.wait(0.02):
            self.seen.update(listening(self.root))

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(10)

    @property
    def abroad(self) -> dict[str, str]:
        """Those outside loopback."""
        return {address: command for address, command in self.seen.items() if address not in LOOPBACK}
