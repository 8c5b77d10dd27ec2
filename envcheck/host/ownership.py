"""Whether a file that nobody named may be obeyed: git's model of ownership, for what is found in or above the working folder; and
where root looks for programs."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Mapping

from envcheck.host.plain_files import real_path


def foreign(path: str) -> str | None:
    """Why neither this user nor root alone decides what is at `path`: whose it is, or who else can write to it. None where they do.

    A link is judged with what it leads to. OSError if there is nothing.
    """
    return foreign_entry(path) or _foreign(os.stat(path), path)


def foreign_entry(path: str) -> str | None:
    """The same of the entry alone: a link may lead to what belongs to others."""
    return _foreign(os.lstat(path), path)


def foreign_file(descriptor: int, path: str) -> str | None:
    """The same for a file that is open already, so that nobody can put another in its place; and for the folders that lead to it.

    Where others may write to the folder itself they can bring in any file, a link to one of ours too.
    """
    reason = _foreign(os.fstat(descriptor), descriptor) or foreign_entry(path)
    if reason is not None or not hasattr(os, "geteuid"):
        return reason
    for folder in dict.fromkeys((os.path.dirname(os.path.abspath(path)), os.path.dirname(real_path(path)))):
        found = os.stat(folder)
        if who := _writers(found, folder):
            return f"{who} can write to {folder}"
        if os.geteuid() == 0 and found.st_uid != 0:
            return f"{folder} belongs to {_user(found.st_uid)}"
    return _open_above(path)


def foreign_folder(folder: str) -> str | None:
    """The same of a folder of rules, of what leads to it and of what is in it. Root alone asks: a user knows whose
    folder he has named."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not os.path.isdir(folder):
        return None
    reason = foreign(folder) or _open_above(folder)
    for number, (here, folders, files) in enumerate(os.walk(folder)):
        if reason is not None or number > MOST_FOLDERS:
            break
        reason = next((f"{one}: {said}" for one in _below(here, [*folders, *files]) if (said := foreign(one))), None)
    return reason


MOST_FOLDERS = 100


def _below(folder: str, names: list[str]) -> Iterator[str]:
    return (path for name in names if os.path.exists(path := os.path.join(folder, name)))


def foreign_environment(folder: str, python: str) -> str | None:
    """The same of an environment and its interpreter, whose base may belong to whom it likes. What lies in site-packages is started
    too (`.pth` files)."""
    packages = glob.glob(os.path.join(glob.escape(folder), "lib*", "python*", "site-packages"))
    for path in (folder, os.path.dirname(python), os.path.join(folder, "pyvenv.cfg"), *packages):
        if os.path.exists(path) and (reason := foreign(path)):
            return reason
    return foreign_entry(python) or _open_above(folder)


def planted(path: str) -> str | None:
    """Why nothing is to be written to `path`: a link on the way to it, or what has its place, is somebody else's and lies in a folder in
    which anybody can put such things. A folder of theirs is another matter: who names it knows whose it is."""
    if not hasattr(os, "geteuid"):
        return None
    folder = os.sep
    for name in filter(None, os.path.abspath(path).split(os.sep)):
        entry = os.path.join(folder, name)
        try:
            found, open_to_all = os.lstat(entry), _open_to_all(folder)
        except OSError:
            return None
        if open_to_all and found.st_uid not in (0, os.geteuid()) and not stat.S_ISDIR(found.st_mode):
            return f"{entry} belongs to {_user(found.st_uid)}, and anybody can write to {folder}"
        folder = entry
    return None


def path_for_root(path: str) -> tuple[str, tuple[str, ...]]:
    """PATH without the entries into which others could put a program, and those: relative ones, empty ones, folders open to all."""
    entries = path.split(os.pathsep)
    safe = [entry for entry in entries if os.path.isabs(entry) and not (_open_to_all(entry) or _open_above(entry, groups=False))]
    return os.pathsep.join(safe), tuple(dict.fromkeys(entry for entry in entries if entry not in safe))


def _open_to_all(folder: str) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def safe_variables(env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The variables of what root starts, and the entries that were taken out of PATH. Another user's stay as they are."""
    if "PATH" not in env or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return dict(env), ()
    safe, left_out = path_for_root(env["PATH"])
    return {**env, "PATH": safe or os.defpath}, left_out  # an empty one means the working folder


def is_of_others(folder: str) -> bool:
    """Whether a folder belongs to neither this user nor root."""
    try:
        return os.stat(folder).st_uid not in (0, os.geteuid())
    except (OSError, AttributeError):  # it is not there, Windows
        return False


def others_move(folder: str) -> bool:
    """Whether somebody else can put another folder in the place of one that we make in `folder`."""
    if not hasattr(os, "geteuid"):
        return False
    return is_of_others(folder) or _open_above(os.path.join(folder, "ours")) is not None


def _open_above(path: str, *, groups: bool = True) -> str | None:
    """Who can put another folder in the place of one on the way to `path`. Under the sticky bit each moves no more than his own: a
    folder of ours below /tmp is ours."""
    if not hasattr(os, "geteuid"):
        return None
    for one in dict.fromkeys((os.path.abspath(path), real_path(path))):
        for folder in _folders(one):
            try:
                found = os.stat(folder)
            except OSError:
                continue
            if not found.st_mode & stat.S_ISVTX and (groups or found.st_mode & stat.S_IWOTH) and (who := _writers(found, folder)):
                return f"{who} can write to {folder}"
    return None


def _folders(path: str) -> Iterator[str]:
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _foreign(found: os.stat_result, path: str | int) -> str | None:
    if not hasattr(os, "geteuid"):  # Windows keeps its access lists elsewhere
        return None
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to {_user(found.st_uid)}"
    who = None if stat.S_ISLNK(found.st_mode) else _writers(found, path)  # the mode of a link says nothing
    return f"{who} can write to it" if who else None


def _writers(found: os.stat_result, path: str | int) -> str | None:
    """Who else. Of groups and access lists root trusts none; a user has chosen his own, and works in a folder of his team."""
    if found.st_mode & stat.S_IWOTH:
        return "others"
    if not found.st_mode & stat.S_IWGRP or os.geteuid() != 0:
        return None
    if found.st_gid != 0:
        return f"the group {_group(found.st_gid)}"
    try:
        return "whom its access list names" if os.getxattr(path, "system.posix_acl_access") else None
    except (AttributeError, OSError):  # no Linux, no list
        return None


def _user(number: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(number).pw_name} (uid {number})"
    except KeyError:
        return f"uid {number}"


def _group(number: int) -> str:
    import grp

    try:
        return f"{grp.getgrgid(number).gr_name} (gid {number})"
    except KeyError:
        return f"gid {number}"
