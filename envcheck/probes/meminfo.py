"""/proc/meminfo in bytes."""

from __future__ import annotations


def parse_meminfo(text: str | None) -> dict[str, int]:
    """Name → bytes.

    MemTotal:       131981020 kB
    HugePages_Total:       0
    """
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        if colon and words and words[0].isdecimal():
            found[name.strip()] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found
