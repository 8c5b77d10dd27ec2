"""What an import leaves in the background (a daemon in a session of its own) comes to us on Linux, and ends with the check."""

from __future__ import annotations

import os
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
PATIENCE_SECONDS = 1.0


def adopt(wanted: bool) -> None:
    """Become (or be no longer) the parent of descendants whose own parent has left. Nothing elsewhere than on Linux."""
    if sys.platform != "linux":
        return
    import ctypes

    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(wanted))
    except (OSError, AttributeError):
        return  # a libc without prctl: the orphans go to init, as they would without us


def children() -> frozenset[int]:
    """The processes whose parent is this one; zombies too."""
    found: set[int] = set()
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                found.update(int(pid) for pid in file.read().split())
    except OSError:  # no /proc, or a kernel without CONFIG_PROC_CHILDREN
        return frozenset()
    return frozenset(found)


def end(before: frozenset[int]) -> None:
    """Kill every child that was not there before. What a killed one leaves comes to us in turn."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (orphans := children() - before) and time.monotonic() < deadline:
        for pid in orphans:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError, PermissionError):
                continue
        time.sleep(0.005)
