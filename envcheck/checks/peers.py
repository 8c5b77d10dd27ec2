"""Who is slower than its peers: by how they differ among themselves, never by a table."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

DEVIATIONS = 6.0  # of slow ones, in standard deviations estimated from the median absolute deviation
FACTOR = 2.0  # and in medians: DLRover and others call a straggler what takes twice as long as the median
FLOOR_SECONDS = 0.05  # and more than a pause of the scheduler


def slow_beyond(seconds: Sequence[float], factor: float = FACTOR, floor: float = FLOOR_SECONDS) -> float | None:
    """Above this one is slower than its peers by more than they differ among themselves; None where they are too few to tell."""
    if len(seconds) < 3:
        return None
    middle = median(seconds)
    spread = 1.4826 * median(abs(one - middle) for one in seconds)  # of a normal distribution, its standard deviation
    return middle + max(DEVIATIONS * spread, (factor - 1) * middle, floor)
