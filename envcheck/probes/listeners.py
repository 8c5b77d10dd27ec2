"""Who listens on a TCP port of this host, from /proc."""

from __future__ import annotations

import time
from typing import NamedTuple

from envcheck.facts.program_names import program_of
from envcheck.host.access import Host

LISTEN = "0A"
SCAN_SECONDS = 0.3  # a host may have thousands of processes
READ_LIMIT = 8 << 20


class Listener(NamedTuple):
    address: str  # as the kernel writes it: hexadecimal, in the byte order of the machine
    port: int
    uid: str
    inode: str


def parse_listeners(text: str | None) -> tuple[Listener, ...]:
    """Listening sockets of /proc/net/tcp or tcp6.

    sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
     0: 0100007F:8CA1 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 61232 1 0000000000000000 100 0 0 10 0
    """
    found = []
    for line in (text or "").splitlines()[1:]:
        words = line.split()
        if len(words) < 10 or words[3] != LISTEN:
            continue
        address, _, port = words[1].rpartition(":")
        try:
            found.append(Listener(address, int(port, 16), words[7], words[9]))
        except ValueError:
            continue
    return tuple(found)


def port_owner(host: Host, port: int) -> str | None:
    """ "python3 train.py (pid 4242)"; less where that process may not be looked at; None if nobody listens."""
    listeners = [one for name in ("tcp", "tcp6") for one in parse_listeners(host.read(f"/proc/net/{name}", READ_LIMIT)) if one.port == port]
    if not listeners:
        return None
    wanted = {f"socket:[{one.inode}]" for one in listeners}
    deadline = time.monotonic() + SCAN_SECONDS
    for pid in host.listdir("/proc") or ():
        if not pid.isdecimal():
            continue
        if time.monotonic() > deadline:
            break
        for fd in host.listdir(f"/proc/{pid}/fd") or ():
            if host.readlink(f"/proc/{pid}/fd/{fd}") in wanted:
                name = command_name(host.read(f"/proc/{pid}/cmdline", 4096)) or program_of([host.read(f"/proc/{pid}/comm", 64) or ""])
                return f"{name or 'a process'} (pid {pid})"
    return f"a process of user {listeners[0].uid}"


def command_name(cmdline: str | None) -> str:
    """Program and script or module of a NUL-separated command line."""
    return program_of(words_of(cmdline))


def words_of(cmdline: str | None) -> list[str]:
    """Empty ones too: `-W ""` takes none of those behind it."""
    words = (cmdline or "").rstrip("\0").split("\0")
    return words if words[0] else []
