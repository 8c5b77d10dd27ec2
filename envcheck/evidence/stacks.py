"""Stacks of several ranks, grouped: the majority waits, the minority is the suspect.

A faulthandler dump, as the agent asks for it with SIGUSR1:

    Thread 0x00007f3a2a7fc640 (most recent call first):
      File "/usr/lib/python3.11/threading.py", line 320 in wait
    Current thread 0x00007f3b8c5f0740 (most recent call first):
      File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3068 in all_reduce
      File "/home/user/train.py", line 30 in main
"""

from __future__ import annotations

from collections.abc import Mapping

from envcheck.facts.record import record

OURS = "/envcheck/agent/"
AT_WORK = "/envcheck/agent/numerics.py:"  # waits for what it has begun, or for a device: no frame of torch's need be there
WAITING = ("/torch/distributed/", "/torch/autograd/", "/torch/nn/parallel/", AT_WORK)
FRAMES = 12  # innermost frames that tell two places apart


@record
class Group:
    """Ranks whose main thread stands in the same place."""

    ranks: tuple[int, ...]
    frames: tuple[str, ...]  # innermost first: "/x/train.py:30 (main)"

    @property
    def place(self) -> str:
        return self.frames[0] if self.frames else "no Python frame"

    @property
    def waits(self) -> bool:
        """In a collective, or in what leads to one, rather than in code of its own."""
        return any(part in self.place.replace("\\", "/") for part in WAITING)


def main_frames(dump: str) -> tuple[str, ...]:
    """The frames of the main thread, innermost first; those of the check itself are left out."""
    frames: list[str] = []
    part = dump.partition("Current thread")[2]
    if not part:  # dumped by another thread: the main one is the last
        part = dump.rpartition("Thread 0x")[2] or dump
    for line in part.splitlines()[1:] if "most recent call first" in part.split("\n", 1)[0] else part.splitlines():
        if line.startswith(("Thread ", "Current thread")):
            break
        place = frame(line)
        path = place.replace("\\", "/")
        if place and (OURS not in path or (AT_WORK in path and not frames)):
            frames.append(place)
    return tuple(frames)


def frame(line: str) -> str:
    """`File "/x/y.py", line 79 in all_reduce` → "/x/y.py:79 (all_reduce)"; "" for anything else."""
    text = line.strip()
    if not text.startswith('File "'):
        return ""
    path, found, rest = text[6:].partition('", line ')
    number, _, function = rest.partition(" in ")
    return f"{path}:{number.strip()} ({function.strip()})" if found and number.strip().isdecimal() else ""


def grouped(dumps: Mapping[int, str]) -> tuple[Group, ...]:
    """Equal stacks together, the largest group first. A rank without a dump is in no group."""
    by: dict[tuple[str, ...], list[int]] = {}
    for rank, dump in sorted(dumps.items()):
        frames = main_frames(dump)
        if frames:
            by.setdefault(frames[:FRAMES], []).append(rank)
    groups = [Group(tuple(ranks), frames) for frames, ranks in by.items()]
    return tuple(sorted(groups, key=lambda group: (-len(group.ranks), group.ranks)))


def suspects(groups: tuple[Group, ...]) -> tuple[int, ...]:
    """Ranks that stand elsewhere than those that wait; () where the stacks do not tell.

    Two ranks have no majority: there the one outside the library is meant, if it is one only.
    """
    if len(groups) < 2:
        return ()
    first, rest = groups[0], groups[1:]
    others = [rank for group in rest for rank in group.ranks]
    if len(first.ranks) > len(others):
        return tuple(sorted(others))
    outside = [rank for group in groups if not group.waits for rank in group.ranks]
    inside = [rank for group in groups if group.waits for rank in group.ranks]
    return tuple(sorted(outside)) if outside and len(inside) >= len(outside) else ()
