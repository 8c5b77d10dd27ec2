"""Who tries whom. All pairs of 1,000 hosts would be a million connections: above a few hosts each tries those at growing distances."""

from __future__ import annotations

from collections.abc import Sequence

ALL_PAIRS = 9  # up to so many hosts each tries every other one
LARGE = 6  # partners of a host that are sent the largest size


def offsets(size: int) -> tuple[int, ...]:
    """In round k host i tries host i + offset k: each is the source of one link and the target of one in every round.

    A distance and its inverse follow each other, so that a link is tried both ways. Of many hosts the distances are 1, 2, 4, …: neighbours,
    as in a ring, and far ones, as in a tree, 2 log₂ N in all.
    """
    if size <= ALL_PAIRS:
        half = [(distance, size - distance) for distance in range(1, size // 2 + 1)]
    else:
        half = [(1 << power, size - (1 << power)) for power in range((size // 2).bit_length())]
    return tuple(dict.fromkeys(one for pair in half for one in pair))


def targets(hosts: Sequence[str], source: str) -> tuple[str, ...]:
    """Whom this host tries, in the order of the rounds."""
    at = hosts.index(source)
    return tuple(hosts[(at + offset) % len(hosts)] for offset in offsets(len(hosts)))


def sources(hosts: Sequence[str], target: str) -> tuple[str, ...]:
    """Who tries this host."""
    at = hosts.index(target)
    return tuple(hosts[(at - offset) % len(hosts)] for offset in offsets(len(hosts)))
