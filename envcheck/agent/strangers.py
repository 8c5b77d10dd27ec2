"""Who else speaks to the ranks: processes that are not ours at the other end of a connection to one of their listeners.

Neither a store of torch nor gloo asks who it speaks with, and any process of the machine reaches loopback. Where ranks cannot be put on a
host of their own (isolation.py), a trial that goes wrong while somebody else was connected proves nothing.
"""

from __future__ import annotations

import os
import time

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Sequence, Set, Tuple

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTEN = "0A"  # include/net/tcp_states.h
SHARE = 10  # times what a look took is waited before the next: a busy node has tens of thousands of connections


class Watch:
    """Looks again and again. `seen`: who was there, in words."""

    def __init__(self) -> None:
        self.ports: Set[str] = set()  # that ranks listen on, as /proc/net/tcp writes them
        self.ours: Set[str] = set()  # ends of connections that are our ranks'
        self.seen: Dict[str, str] = {}
        self.next = 0.0

    def look(self, pids: Sequence[int]) -> None:
        began = time.monotonic()
        if began < self.next:
            return
        own = sockets_of(pids)
        rows = list(table())
        own |= sockets_of(pids)  # what was opened meanwhile
        ends = {local: (inode, user) for local, _, _, inode, user in rows}
        for local, _, state, inode, _ in rows:
            if inode in own:
                self.ours.add(local)
                if state == LISTEN:
                    self.ports.add(local.rpartition(":")[2])
        for local, remote, state, _, _ in rows:
            if state != LISTEN and local.rpartition(":")[2] in self.ports and remote not in self.ours and remote not in self.seen:
                self.judge(remote, *ends.get(remote, ("0", "")))
        now = time.monotonic()
        self.next = now + SHARE * (now - began)

    def judge(self, end: str, inode: str, user: str) -> None:
        """Only what is certainly another process counts: a rank's own connection may be gone before it is looked at."""
        if inode == "0":
            return
        owner = holder(inode)
        if owner:
            self.seen[end] = owner
        elif user != str(os.geteuid()):
            self.seen[end] = "a process of the user with id %s" % user

    def words(self) -> str:
        return ", ".join(sorted(set(self.seen.values()))[:4])


def table() -> Iterator[Tuple[str, str, str, str, str]]:
    """Local end, remote end, state, inode and user of each TCP socket."""
    for path in TABLES:
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                next(file, None)
                for line in file:
                    words = line.split()
                    if len(words) > 9:
                        yield plain(words[1]), plain(words[2]), words[3], words[9], words[7]
        except OSError:  # no IPv6, no /proc
            continue


def plain(end: str) -> str:
    """An IPv4 address in IPv6's clothes as what it is."""
    return end[24:] if end.startswith("0000000000000000FFFF0000") else end


def sockets_of(pids: Sequence[int]) -> Set[str]:
    """Inodes of the sockets that these processes hold."""
    found: Set[str] = set()
    for pid in pids:
        folder = "/proc/%d/fd" % pid
        for name in jsonl.attempt(os.listdir, folder) or ():
            target = jsonl.attempt(os.readlink, "%s/%s" % (folder, name)) or ""
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def holder(inode: str) -> str:
    """Which process holds a socket, in words; empty if none that we may look at."""
    wanted = "socket:[%s]" % inode
    for pid in jsonl.attempt(os.listdir, "/proc") or ():
        if not pid.isdecimal():
            continue
        folder = "/proc/%s/fd" % pid
        for name in jsonl.attempt(os.listdir, folder) or ():
            if jsonl.attempt(os.readlink, "%s/%s" % (folder, name)) == wanted:
                return "%s (process %s)" % (name_of(pid), pid)
    return ""


def name_of(pid: str) -> str:
    try:
        with open("/proc/%s/comm" % pid, encoding="utf-8", errors="replace") as file:
            return (file.read().split() or ["a process"])[0]  # a process may give itself a whole sentence
    except OSError:
        return "a process"


def doubted(result: Dict[str, object], watch: Watch) -> Dict[str, object]:
    """The result of a trial; one that went wrong, or for which the time ran out, while a stranger was connected says nothing, and neither
    do its ranks' words."""
    if not watch.seen or result["status"] not in ("fail", "hang", "inconclusive"):
        return result
    reason = "%s was connected to the ranks meanwhile, and may have caused what went wrong" % watch.words()
    ranks: List[object] = []
    return dict(result, status="inconclusive", reason=reason, ranks=ranks)
