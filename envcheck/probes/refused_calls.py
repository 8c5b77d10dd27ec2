"""System calls that a filter refuses; asked only where a check has failed, for filters refuse much that nobody needs."""

from __future__ import annotations

from envcheck.host.access import Host

SECONDS = 5.0


def probe(host: Host) -> tuple[str, ...]:
    """ "connect: Operation not permitted" """
    done = host.child("calls_child", timeout=SECONDS)
    found = []
    for line in done.stdout.splitlines():
        name, tab, words = line.partition("\t")
        if not tab and done.signal:
            words = f"the process is killed by {done.signal}"
        if words:
            found.append(f"{name}: {words}")
    return tuple(found)
