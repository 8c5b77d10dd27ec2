"""Where the throwaway environment stands: on the file system of the installer's cache if that can be, so that hard links make it."""

from __future__ import annotations

import os
import shutil
import stat
import time

from envcheck.facts.record import record
from envcheck.host.ownership import others_move
from envcheck.host.plain_files import descriptor, make_folders, temporary_folder
from envcheck.trial.interruption import Interruption

PREFIX = "envcheck-try-"
LOCK = "lock"
YOUNG_SECONDS = 60.0  # a folder may be so old before its lock is there


@record
class Place:
    """A folder for throwaway environments."""

    path: str
    free_bytes: int
    links: bool = False  # what stands here and in the cache takes its room once


def find_place(cache: str | None) -> Place | None:
    """The temporary folder if it is on the cache's file system, else the folder that holds the cache, else the one with most room."""
    usual = temporary_folder()
    candidates = ["/tmp" if others_move(usual) else usual]  # noqa: S108 - as of `private_folder`
    if cache:
        candidates.append(_existing(os.path.dirname(os.path.abspath(cache))))
    device = _device(_existing(cache)) if cache else None
    found = [
        Place(path, free, device is not None and _device(path) == device) for path in candidates if (free := _usable(path)) is not None
    ]
    found.sort(key=lambda place: (not place.links, -place.free_bytes if not place.links else 0))
    return found[0] if found else None


def free_bytes(path: str) -> int | None:
    """Room for this user on the file system of `path`, or of what exists above it."""
    try:
        return shutil.disk_usage(_existing(path)).free
    except OSError:
        return None


def _usable(path: str) -> int | None:
    """Free bytes of a folder in which an environment can be made and its libraries loaded; None of another, and of one that others move."""
    try:
        if not os.access(path, os.W_OK | os.X_OK) or others_move(path):
            return None
        if hasattr(os, "statvfs") and hasattr(os, "ST_NOEXEC") and os.statvfs(path).f_flag & os.ST_NOEXEC:
            return None
    except OSError:
        return None
    return free_bytes(path)


def _existing(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev
    except OSError:
        return None


class Throwaway:
    """A private folder that is gone when the context is left, however it is left. SIGKILL alone leaves one: the next trial removes it."""

    def __init__(self, place: Place) -> None:
        sweep(place.path)
        self.path = os.path.join(place.path, f"{PREFIX}{os.getpid()}-{os.urandom(4).hex()}")
        self._lock: int | None = None

    def make(self) -> None:
        """OSError if it cannot be made (a full disk)."""
        os.mkdir(self.path, 0o700)
        os.chmod(self.path, 0o700)
        self._lock = descriptor(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT)
        locked(self._lock)
        make_folders(os.path.join(self.path, "tmp"))

    def folder(self, name: str) -> str:
        return os.path.join(self.path, name)

    def discard(self, interruption: Interruption) -> None:
        """Remove it; to be called in two nested `finally` (see Interruption)."""
        interruption.hold = True
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        remove(self.path)


def remove(path: str) -> None:
    """Delete a folder, what is read-only in it too. Links are cut, what they lead to is not touched."""
    for _ in range(3):  # a process that has just been killed may have written once more
        if not os.path.lexists(path):
            return
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            for folder, _folders, _files in os.walk(path):
                try:
                    os.chmod(folder, stat.S_IRWXU)
                except OSError:
                    continue


def sweep(path: str) -> None:
    """Remove what a trial left that was killed with SIGKILL: a folder of ours whose lock nobody holds."""
    try:
        names = [name for name in os.listdir(path) if name.startswith(PREFIX)]
    except OSError:
        return
    for name in names:
        folder = os.path.join(path, name)
        try:
            found = os.lstat(folder)
            if (
                not stat.S_ISDIR(found.st_mode)
                or time.time() - found.st_mtime < YOUNG_SECONDS
                or (hasattr(os, "getuid") and found.st_uid != os.getuid())
            ):
                continue
            descriptor = os.open(os.path.join(folder, LOCK), os.O_RDWR)
        except OSError:
            continue
        free = locked(descriptor)
        os.close(descriptor)
        if free:
            remove(folder)


def locked(descriptor: int) -> bool:
    """Whether the lock is ours now; False where another process holds it, or the system has no such locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
