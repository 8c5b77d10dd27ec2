"""What an import leaves in the background (a daemon in a session of its own) ends with the check, on Linux.

In a process of envcheck's own it comes to us, and every child that was not there before is one of it. In somebody else's (a notebook, a
server) other threads have children too: only what carries our mark in its environment is ours, and nothing of that process is changed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
PATIENCE_SECONDS = 1.0
MARK = "ENVCHECK_STARTED"  # its value is made for one check, so that two side by side do not end each other's
MARK_LIMIT = 1 << 20  # bytes of an environment

own_process = False  # set by the command, which is alone in its process


class Offspring:
    """Everything that is started from here on, and all that it starts."""

    def __init__(self) -> None:
        self._before = children() if own_process else None
        self._adopted_before: bool | None = None
        # To be added to the environment of each process that we start.
        self.mark: Mapping[str, str] = {} if own_process else {MARK: os.urandom(16).hex()}

    def __enter__(self) -> Offspring:
        self.adopt()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def adopt(self) -> None:
        """Become the parent of descendants whose own parent has left, if this process is ours."""
        if self._before is not None and self._adopted_before is None:
            self._adopted_before = _subreaper(True)

    def end(self) -> None:
        """Kill what is left of it, and be what we were before."""
        if self._before is None:
            _end_marked(f"{MARK}={self.mark[MARK]}".encode())
            return
        _end_children(self._before)
        if self._adopted_before is not None:
            _subreaper(self._adopted_before)
            self._adopted_before = None


def _subreaper(wanted: bool) -> bool | None:
    """Whether it was one; None where it cannot be (not Linux, a libc without prctl): orphans go to init, as they would without us."""
    if sys.platform != "linux":
        return None
    import ctypes

    was = ctypes.c_int(0)
    try:
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(was))
        prctl(PR_SET_CHILD_SUBREAPER, int(wanted))
    except (OSError, AttributeError):
        return None
    return bool(was.value)


def children(parent: int | str = "self") -> frozenset[int]:
    """The processes whose parent is this one, or that one; zombies too."""
    found: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as file:
                found.update(int(pid) for pid in file.read().split())
    except OSError:  # no /proc, or a kernel without CONFIG_PROC_CHILDREN
        return frozenset()
    return frozenset(found)


def _end_children(before: frozenset[int]) -> None:
    """What a killed one leaves comes to us in turn."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (orphans := children() - before) and time.monotonic() < deadline:
        for pid in orphans:
            _kill(pid)
            _reaped(pid)
        time.sleep(0.005)


def _end_marked(mark: bytes) -> None:
    """Look until nothing is found twice: one that is just becoming another program has no environment for a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    killed: set[int] = set()
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        found = _marked(mark)
        for pid in found:
            _kill(pid)
        killed |= found
        quiet = 0 if found else quiet + 1
        time.sleep(0.005)
    # They are our children only where this process is init's deputy (the first one of a container).
    while killed and time.monotonic() < deadline:
        killed = {pid for pid in killed if not _reaped(pid)}
        time.sleep(0.005 if killed else 0)


def _marked(mark: bytes) -> set[int]:
    """Processes that live and were started, or forked by one that was started, with this variable."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return set()
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if pid != os.getpid() and mark in file.read(MARK_LIMIT).split(b"\0"):
                    found.add(pid)
        except OSError:  # gone meanwhile, or somebody else's
            continue
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _reaped(pid: int) -> bool:
    """Whether nothing of it waits for us."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
