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
    from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTEN = "0A"  # include/net/tcp_states.h
HOLDER_SECONDS = 0.3  # for the question whose sockets these are
SHARE = 10  # times what a look took is waited before the next: a busy node has tens of thousands of connections
AT_ONCE = 0.3  # seconds of looks that are not waited for
MORE = 3  # looks after the one that was called for: who holds a socket is not always to be seen at once
CAME = ("01", "04", "05", "06", "08", "09", "0B")  # all states of a connection that has been accepted
DENSE = 0.1  # seconds between two looks within which an end of a rank's own connection would have been seen
NO_ADDRESS = ("00000000", "0" * 32)  # of a listener on all of them


class Watch:
    """Looks again and again. `seen`: who was there, in words. With a smaller `share` of the time waited between two looks it sees more."""

    def __init__(self, share: float = SHARE) -> None:
        self.share = share
        self.lasting = False  # whether ranks' own connections last as long as they do: not those to a store
        self.ports: Set[str] = set()  # that ranks listen on, as /proc/net/tcp writes them
        self.places: Set[str] = set()  # the same with the address, where it is one
        self.taken: Set[str] = set()  # ends of connections that ranks have accepted, of ranks themselves
        self.served: Set[str] = set()  # ports that others listen on, or have
        self.elsewhere: Set[Tuple[str, str]] = set()  # connections to other listeners of this machine that have come since the beginning
        self.at_first: Optional[int] = None  # how many connections this machine had accepted, and has by the last look
        self.accepted: Optional[int] = None
        self.before: Set[Tuple[str, str]] = set()
        self.looked, self.dense = 0.0, True
        self.ours: Set[str] = set()  # ends of connections that are our ranks'
        self.seen: Dict[str, str] = {}
        self.next = 0.0
        self.held: Set[str] = set()  # sockets of the ranks
        self.spent, self.more, self.later = 0.0, 0, 0.0

    def begin(self) -> None:
        """Before ranks are there."""
        self.at_first = passive_opens()
        self.before = {(local, remote) for local, remote, _, _, _ in table()}

    def look(self, pids: Sequence[int], last: bool = False) -> None:
        """Once more, unless it is too early; at the `last` time at once, when the ranks may have ended.

        To read the table of connections the kernel goes through all that it has room for, which takes 7 ms where there are 262,144
        places. How many connections have been accepted, and which sockets the ranks hold, is read in a tenth of one: while neither changes
        there is nobody new to be found.
        """
        began = time.monotonic()
        if began < self.next and not last:
            return
        if not last:  # then the ranks have been ended, which takes longer
            self.dense = self.dense and not (self.ports and self.looked and began - self.looked > DENSE)
        before, self.accepted, self.held = (self.accepted, self.held), passive_opens(), sockets_of(pids)
        changed = self.accepted is None or (self.accepted, self.held) != before
        if not changed and not last and (not self.more or began < self.later):
            self.looked = began
            return
        self.more = MORE if changed else self.more - 1
        rows = list(table())
        own = self.held | sockets_of(pids)  # what was opened meanwhile
        ends = {local: (inode, user) for local, _, _, inode, user in rows}
        for local, _, state, inode, _ in rows:
            if inode in own:
                self.ours.add(local)
                if state == LISTEN:
                    address, _, port = local.rpartition(":")
                    self.ports.add(port)
                    if address not in NO_ADDRESS:
                        self.places.add(local)
        there = [
            (remote, *ends.get(remote, ("0", "")))
            for local, remote, state, _, _ in rows
            if state != LISTEN and local.rpartition(":")[2] in self.ports and remote not in self.ours and remote not in self.seen
        ]
        self.judge([one for one in there if one[1] != "0"])  # a rank's own may be gone before it is looked at
        self.look_for_gone(rows)
        self.look_elsewhere(rows)
        self.looked = now = time.monotonic()
        self.spent += now - began
        self.later = now + self.share * (now - began)
        self.next = now if self.spent < AT_ONCE and self.accepted is not None else self.later

    def look_for_gone(self, rows: Sequence[Tuple[str, str, str, str, str]]) -> None:
        """A connection that was closed stays in the table for a minute, of nobody. A rank's own has been seen while it was open."""
        for local, remote, state, inode, _ in rows:
            place, end = (local, remote) if local in self.places else (remote, local)
            if state == LISTEN or place not in self.places:
                continue
            if end in self.ours:
                self.taken.add(end)
            elif inode == "0" and self.lasting and self.dense and end not in self.seen:
                self.seen[end] = GONE

    def look_elsewhere(self, rows: Sequence[Tuple[str, str, str, str, str]]) -> None:
        """A connection has two rows where both of its ends are here. One whose ends are both at ports that somebody listens on, or that is
        its own other end, is none that the kernel must have accepted: two who connect to each other do without."""
        self.served.update(local.rpartition(":")[2] for local, _, state, _, _ in rows if state == LISTEN)
        self.served -= self.ports
        for local, remote, state, _, _ in rows:
            if state in CAME and (local, remote) not in self.before:
                served = [one.rpartition(":")[2] in self.served for one in (local, remote)]
                if served.count(True) == 1:
                    self.elsewhere.add((local, remote) if served[0] else (remote, local))

    def others_came(self) -> bool:
        """Whether this machine has accepted connections meanwhile that are no rank's and were not seen at another listener: somebody has
        come and gone between two looks."""
        return self.lasting and self.dense and self.may_have_come()

    def may_have_come(self) -> bool:
        """The same of ranks whose own connections may be gone before they are looked at: no proof, but a reason to try again."""
        if self.at_first is None or self.accepted is None:
            return False
        return self.accepted - self.at_first > len(self.taken) + len(self.elsewhere)

    def judge(self, there: Sequence[Tuple[str, str, str]]) -> None:
        """Only what is certainly another process counts. End, inode and user of each."""
        owners = holders({inode for _, inode, _ in there}) if there else {}
        for end, inode, user in there:
            if inode in owners:
                self.seen[end] = owners[inode]
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


def passive_opens() -> Optional[int]:
    """How many connections this network namespace has accepted since it began; None where the kernel does not say."""
    try:
        with open("/proc/net/snmp", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file if line.startswith("Tcp:")]
        return int(rows[1][rows[0].index("PassiveOpens")])
    except (OSError, ValueError, IndexError):
        return None


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


def holders(inodes: Set[str]) -> Dict[str, str]:
    """Which processes hold these sockets, in words; without those that we may not look at, and what is left when there are too many
    descriptors to look through."""
    wanted, until = {"socket:[%s]" % inode for inode in inodes}, time.monotonic() + HOLDER_SECONDS
    found: Dict[str, str] = {}
    for pid in jsonl.attempt(os.listdir, "/proc") or ():
        if not pid.isdecimal():
            continue
        if len(found) == len(wanted) or time.monotonic() > until:
            break
        folder = "/proc/%s/fd" % pid
        for name in jsonl.attempt(os.listdir, folder) or ():
            target = jsonl.attempt(os.readlink, "%s/%s" % (folder, name))
            if target in wanted:
                found[target[8:-1]] = "%s (process %s)" % (name_of(pid), pid)
    return found


def name_of(pid: str) -> str:
    try:
        with open("/proc/%s/comm" % pid, encoding="utf-8", errors="replace") as file:
            return (file.read().split() or ["a process"])[0]  # a process may give itself a whole sentence
    except OSError:
        return "a process"


GONE = "a process that had gone again"
UNSEEN = "connections came and went meanwhile that are none of the ranks', and may have caused what went wrong"


def doubted(result: Dict[str, object], watch: Watch) -> Dict[str, object]:
    """The result of a trial; one that went wrong, or for which the time ran out, while a stranger was connected says nothing, and neither
    do its ranks' words."""
    if not watch.seen or result["status"] not in ("fail", "hang", "inconclusive"):
        return result
    if killed(result) and set(watch.seen.values()) == {GONE}:  # a rank that is killed at once leaves such a connection, too
        return result
    reason = "%s was connected to the ranks meanwhile, and may have caused what went wrong" % watch.words()
    ranks: List[object] = []
    return dict(result, status="inconclusive", reason=reason, ranks=ranks)


def killed(result: Dict[str, object]) -> bool:
    """Whether a rank died in a way that nobody brings about by what he sends; gloo ends by SIGABRT."""
    return "died with SIG" in str(result.get("reason")) and "SIGABRT" not in str(result.get("reason"))
