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
            with suppress(OSError, IndexError):  # gone, or just going
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[1])  # any bytes are a name
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


def listeners() -> dict[str, str]:
    """Inode → local address (hex) of each listener in this network namespace."""
    addresses: dict[str, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:] if Path(table).exists() else ():  # a kernel without IPv6
            columns = line.split()
            if columns[3] == "0A":
                addresses[columns[9]] = columns[1].partition(":")[0]
    return addresses


def listening(root: int, addresses: dict[str, str] | None = None) -> dict[str, str]:
    """Local address (hex) → command line of each listener below `root` in this network namespace, or of those given."""
    addresses = listeners() if addresses is None else addresses
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
        self.failed: Exception | None = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)

    def sample(self) -> None:
        known: set[str] = set()  # whose a socket is, is asked once: a walk through all processes takes longer than some listen
        try:
            while not self.over.wait(0.02):
                new = {inode: address for inode, address in listeners().items() if inode not in known}
                self.seen.update(listening(self.root, new))
                known |= new.keys()
        except Exception as error:  # noqa: BLE001  # told where the `with` ends: one that fell silent has seen nothing
            self.failed = error

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(10)
        if self.failed is not None:
            raise self.failed

    @property
    def abroad(self) -> dict[str, str]:
        """Those outside loopback."""
        return {address: command for address, command in self.seen.items() if address not in LOOPBACK}
