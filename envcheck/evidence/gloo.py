"""Gloo's complaints. It prints ports in network byte order, as if they were in the machine's: 36923 becomes 15248."""

from __future__ import annotations

import re

from envcheck.facts.record import record

# c10d's own messages ("SocketImpl(fd=8, addr=[localhost]:43326, remote=[localhost]:40559)") have the right port.
_REMOTE = re.compile(r"SO_ERROR: ([A-Za-z ]{3,60}), remote=\[([0-9A-Fa-f.:%\w-]{2,60})\]:(\d{1,5})\b")
_CONNECT = re.compile(r"(?:Connect timeout|connect) \[([0-9A-Fa-f.:%\w-]{2,60})\]:(\d{1,5})\b")


@record
class Refused:
    """A peer that could not be reached. `port` is the real one, `printed` what the message says."""

    address: str
    port: int
    printed: int
    error: str

    @property
    def loopback(self) -> bool:
        return self.address.startswith("127.") or self.address == "::1"


def swapped(port: int) -> int:
    """The port with its two bytes exchanged: 15248 → 36923."""
    return (port & 0xFF) << 8 | port >> 8 & 0xFF


def refused(text: str) -> tuple[Refused, ...]:
    """Peers that gloo names in a text.

    RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error
    SO_ERROR: Connection refused, remote=[127.0.1.1]:15248
    """
    found: dict[Refused, None] = {}
    for match in _REMOTE.finditer(text):
        if int(match[3]) < 65536:
            found[Refused(match[2], swapped(int(match[3])), int(match[3]), match[1].strip())] = None
    if "gloo" in text.lower():
        for match in _CONNECT.finditer(text):
            if int(match[2]) < 65536:
                found[Refused(match[1], swapped(int(match[2])), int(match[2]), "no answer")] = None
    return tuple(found)
