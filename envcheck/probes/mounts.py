"""/proc/self/mountinfo as rows."""

from __future__ import annotations

from typing import NamedTuple


class Mount(NamedTuple):
    root: str  # of the mounted file system: not "/" for a bind mount
    point: str
    kind: str  # "overlay", "cgroup2"
    source: str
    options: str  # of the super block


def parse_mountinfo(text: str | None) -> tuple[Mount, ...]:
    r"""Rows of mountinfo; lines that do not fit are left out. Spaces are written as \040 there.

    36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    """
    rows = []
    for line in (text or "").splitlines():
        left, dash, right = line.partition(" - ")
        head, tail = left.split(" "), right.split(" ", 2)
        if dash and len(head) >= 6 and len(tail) == 3:
            rows.append(Mount(_plain(head[3]), _plain(head[4]), tail[0], _plain(tail[1]), tail[2]))
    return tuple(rows)


def _plain(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\") if "\\" in text else text


def root_mount(mounts: tuple[Mount, ...]) -> Mount | None:
    """The file system at / ; the last row wins, as a later mount covers an earlier one."""
    return next((mount for mount in reversed(mounts) if mount.point == "/"), None)
