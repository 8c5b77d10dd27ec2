"""Is a process that does not come back at work, or does nothing move in it? From /proc, by whoever started it."""

from __future__ import annotations

import os
import time

from envcheck.facts.record import record

WINDOW_SECONDS = 8.0  # what was long ago says nothing of now
LEAST_SECONDS = 0.5
CHILDREN = 32  # of one process, that are looked at: a compiler, a loader


@record
class Activity:
    """The last seconds of a process and its children. Not known where there is no /proc."""

    seconds: float
    cpu_seconds: float
    read_bytes: int  # from files, the cache included
    faults: int  # pages that had to come from storage: how a mapped library is read
    state: str  # of its main thread: "R", "S", "D" (waits for storage), "T"

    def facts(self) -> dict[str, float | int | str]:
        """As the fields of facts.ImportFailure."""
        return {
            "watched_seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "read_bytes": self.read_bytes,
            "page_faults": self.faults,
            "state": self.state,
        }


@record
class _Sample:
    at: float
    cpu_seconds: float
    read_bytes: int
    faults: int
    state: str


class Watch:
    """Samples of one process, taken whenever its waiter wakes up anyhow."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.samples: list[_Sample] = []

    def look(self) -> None:
        now = time.monotonic()
        found = [one for one in (_sample(pid, now) for pid in _family(self.pid)) if one]
        if not found:
            return
        own = found[0]
        both = [sum(one.cpu_seconds for one in found), sum(one.read_bytes for one in found), sum(one.faults for one in found)]
        self.samples.append(_Sample(now, float(both[0]), int(both[1]), int(both[2]), own.state))
        while len(self.samples) > 2 and self.samples[1].at < now - WINDOW_SECONDS:
            del self.samples[0]

    def activity(self) -> Activity | None:
        if not self.samples or self.samples[-1].at - self.samples[0].at < LEAST_SECONDS:
            return None
        first, last = self.samples[0], self.samples[-1]
        # A child that has ended took its counts along.
        cpu, read, faults = last.cpu_seconds - first.cpu_seconds, last.read_bytes - first.read_bytes, last.faults - first.faults
        return Activity(last.at - first.at, max(0.0, cpu), max(0, read), max(0, faults), last.state)


def _family(pid: int) -> list[int]:
    """The process and its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii", errors="replace") as file:
            return [pid, *(int(word) for word in file.read().split()[:CHILDREN])]
    except (OSError, ValueError):
        return [pid]


def _sample(pid: int, now: float) -> _Sample | None:
    """812 (my (odd) name) S 1 812 812 0 -1 4194304 minflt cminflt majflt cmajflt utime stime cutime cstime …; rchar: 3234 …"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        state, faults, ticks = words[0], int(words[9]), sum(int(word) for word in words[11:15])
    except (OSError, ValueError, IndexError):
        return None
    read = 0
    try:
        with open(f"/proc/{pid}/io", encoding="ascii", errors="replace") as file:
            read = int(file.readline().partition(":")[2])
    except (OSError, ValueError):  # hidden from us, or a kernel that does not count
        pass
    return _Sample(now, ticks / os.sysconf("SC_CLK_TCK"), read, faults, state)
