"""Whether a file that nobody named may be obeyed: git's model of ownership, for what is found in or above the working folder; and
where root looks for programs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator


def foreign(path: str) -> str | None:
    """Why neither this user nor root alone decides what is at `path`: whose it is, or who else can write to it. None where they do.

    A link is judged with what it leads to. OSError if there is nothing.
    """
    return foreign_entry(path) or _foreign(os.stat(path))


def foreign_entry(path: str) -> str | None:
    """The same of the entry alone: a link may lead to what belongs to others."""
    return _foreign(os.lstat(path))


def foreign_file(descriptor: int, path: str) -> str | None:
    """The same for a file that is open already, so that nobody can put another in its place; and for the folders that lead to it.

    Where others may write to the folder itself they can bring in any file, a link to one of ours too. Further up it matters only
    without the sticky bit, under which each can move no more than his own: a folder of ours below /tmp is ours.
    """
    reason = _foreign(os.fstat(descriptor)) or foreign_entry(path)
    if reason is not None or not hasattr(os, "geteuid"):
        return reason
    for number, folder in enumerate(_folders(path)):
        mode = os.stat(folder).st_mode
        if mode & stat.S_IWOTH and not (number and mode & stat.S_ISVTX):
            return f"others can write to {folder}"
    return None


def path_for_root(path: str) -> tuple[str, tuple[str, ...]]:
    """PATH without the entries into which others could put a program, and those: relative ones, empty ones, folders open to all."""
    entries = path.split(os.pathsep)
    safe = [entry for entry in entries if os.path.isabs(entry) and not _open_to_all(entry)]
    return os.pathsep.join(safe), tuple(dict.fromkeys(entry for entry in entries if entry not in safe))


def _open_to_all(folder: str) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _folders(path: str) -> Iterator[str]:
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _foreign(found: os.stat_result) -> str | None:
    if not hasattr(os, "geteuid"):  # Windows keeps its access lists elsewhere
        return None
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to {_user(found.st_uid)}"
    if found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode):  # the mode of a link says nothing
        return "others can write to it"
    return None


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"
