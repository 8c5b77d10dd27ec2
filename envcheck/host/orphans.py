"""What an import leaves in the background (a daemon in a session of its own) ends with the check, on Linux.

In a process of envcheck's own it comes to us, and every child that was not there before is one of it. In somebody else's (a notebook, a
server) other threads have children too: only what carries our mark in its environment is ours, and nothing of that process is changed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
PATIENCE_SECONDS = 1.0
KEEPER_SECONDS = 6.0  # torch's needs three of an idle machine
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


def statuses_are_lost() -> bool:
    """Whether the kernel reaps our children, and keeps to itself how they ended: who started us ignores SIGCHLD, and we inherit that."""
    return hasattr(signal, "SIGCHLD") and signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN


@contextmanager
def statuses_kept() -> Iterator[None]:
    """Undo that, in a process of our own, for as long as it lasts: a command that follows has what it would have had alone."""
    try:
        lost = own_process and statuses_are_lost()
        if lost:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    except (ValueError, OSError):  # not in the main thread; a filter of system calls
        lost = False
    try:
        yield
    finally:
        if lost:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)


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


def _our_numbers() -> bool:
    """Whether /proc counts processes as we do: in a namespace of processes that kept the /proc of another one, who is killed by a number
    from there is somebody else."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def children(parent: int | str = "self") -> frozenset[int]:
    """The processes whose parent is this one, or that one; zombies too. None where /proc is not ours to ask."""
    found: set[int] = set()
    if not _our_numbers():
        return frozenset()
    try:
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as file:
                found.update(int(pid) for pid in file.read().split())
    except OSError:  # no /proc, or a kernel without CONFIG_PROC_CHILDREN
        return frozenset()
    return frozenset(found)


def _end_children(before: frozenset[int]) -> None:
    """What a killed one leaves comes to us in turn."""
    end_all(lambda: children() - before)


def end_all(left: Callable[[], Collection[int]]) -> None:
    """Kill processes until none is left, those that keep shared memory the last: they end by themselves when the others have, and
    remove what those left in /dev/shm."""
    began = time.monotonic()
    deadline = began + PATIENCE_SECONDS
    while (pids := left()) and time.monotonic() < deadline:
        keepers = [pid for pid in pids if _keeps_shared_memory(pid, began)]
        if keepers:
            deadline = time.monotonic() + PATIENCE_SECONDS
        for pid in pids:
            if pid not in keepers:
                _kill(pid)
            _reaped(pid)
        time.sleep(0.005)


KEEPERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


def _keeps_shared_memory(pid: int, since: float) -> bool:
    """Whether it does, and is waited for since then and no longer than it may be."""
    spent = time.monotonic() - since
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(MARK_LIMIT)
    except OSError:
        return False
    if not words:  # one that is just becoming another program has none for a moment
        return spent < 0.75 * PATIENCE_SECONDS
    return spent < KEEPER_SECONDS and any(one in words for one in KEEPERS)


def group_of(leader: int) -> frozenset[int]:
    """The processes of a group that have not ended; nothing where there is no /proc."""
    found = set()
    for pid in _processes():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:  # 812 (my (odd) name) S parent group …
                state, _, group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(group) == leader and state != b"Z":
            found.add(pid)
    return frozenset(found)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if _our_numbers() else []
    except OSError:
        return []


def _end_marked(mark: bytes) -> None:
    """Look until nothing is found twice: one that is just becoming another program has no environment for a moment."""
    began = time.monotonic()
    deadline = began + PATIENCE_SECONDS
    killed: set[int] = set()
    quiet = 0
    while quiet < 2 and time.monotonic() < deadline:
        found = _marked(mark)
        for pid in found:
            if _keeps_shared_memory(pid, began):
                deadline = time.monotonic() + PATIENCE_SECONDS
            else:
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
    found = set()
    for pid in _processes():
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
    except OSError:  # not our child, or a filter of system calls that lets nobody wait
        return True
