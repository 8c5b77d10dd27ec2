"""Whether a folder for temporary files is full: by its file system, its number of files or a quota."""

from __future__ import annotations

import errno
import os

from envcheck.facts.snapshot import FullFolder
from envcheck.host.syscalls import allocate, disk_space

SMALL_FILE = 64 << 10
FEW_FILES = 24  # what a check of two ranks writes in its folder
REFUSALS = tuple(os.strerror(one) for one in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)))


def full_folder(path: str, stopped: bool = False) -> FullFolder | None:
    """None where a small file finds room in it, and where the system says anything else. Free space alone tells nothing of a quota."""
    error = allocate(path, SMALL_FILE).error
    if error not in REFUSALS:
        return None
    space = disk_space(path)
    return FullFolder(path, error, space.free_bytes if space else None, space.total_bytes if space else None, _free_files(path), stopped)


def has_room(path: str) -> bool:
    """Whether a check can begin in this folder."""
    files = _free_files(path)
    return full_folder(path) is None and (files is None or files >= FEW_FILES)


def _free_files(path: str) -> int | None:
    """None where files are not counted: Btrfs says that it has none at all."""
    try:
        found = os.statvfs(path) if hasattr(os, "statvfs") else None
    except OSError:
        return None
    return found.f_favail if found and found.f_files else None
