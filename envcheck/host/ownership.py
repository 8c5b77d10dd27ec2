"""Whether a file that nobody named may be obeyed: git's model of ownership, for what is found in or above the working folder; and
where root looks for programs."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from envcheck.facts.dead_mount import answers
from envcheck.host.plain_files import descriptor, pyvenv_rows, real_path


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
    return reason or _foreign_place(path)


def _foreign_place(path: str) -> str | None:
    if not hasattr(os, "geteuid"):
        return None
    for folder in dict.fromkeys((os.path.dirname(os.path.abspath(path)), os.path.dirname(real_path(path)))):
        found = os.stat(folder)
        if who := _writers(found, folder):
            return f"{who} can write to {folder}"
        if os.geteuid() == 0 and found.st_uid != 0:
            return f"{folder} belongs to {_user(found.st_uid)}"
    return _open_above(path)


def foreign_or_open(path: str) -> tuple[str | None, bool]:
    """The same of a path that a program looks at by itself, and whether something is there. Of nothing: who could put something there.
    What does not answer is told so."""
    if not answers(path):
        return "the file system that it is on does not answer", True
    try:
        return foreign(path) or _foreign_place(path), True
    except OSError:  # nothing, or a link to nothing
        return _maker(path), False


def _maker(path: str) -> str | None:
    """Who else can put something at a path where nothing is."""
    if not hasattr(os, "geteuid"):
        return None
    for place in dict.fromkeys((os.path.abspath(path), real_path(path))):
        folder = os.path.dirname(place)
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        found = os.stat(folder)
        if not stat.S_ISDIR(found.st_mode):  # HOME=/dev/null
            continue
        if who := _writers(found, folder):
            return f"{who} can write to {folder}"
        if os.geteuid() == 0 and found.st_uid not in _trusted():
            return f"{folder} belongs to {_user(found.st_uid)}"
        if reason := _open_above(os.path.join(folder, "ours")):
            return reason
    return None


def foreign_folder(folder: str) -> str | None:
    """The same of a folder of rules, of what leads to it and of what is in it. Root alone asks: a user knows whose
    folder he has named."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or not os.path.isdir(folder):
        return None
    return foreign(folder) or _open_above(folder) or _foreign_below(folder)


MOST_ENTRIES = 200_000  # an environment with torch has 40,000


def _foreign_below(folder: str) -> str | None:
    """The same of all that is in a folder, and of what links there lead to, wherever that is. More than can be looked at is not trusted."""
    waiting, seen, left = [folder], {real_path(folder)}, MOST_ENTRIES
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # gone meanwhile; root may look into every folder of a disk
            continue
        left -= len(entries)
        if left < 0:
            return f"more than {MOST_ENTRIES} files are in it, which is too many to look whose they are"
        for entry in entries:
            if reason := _foreign_as_entry(entry):
                return f"{entry.path}: {reason}"
            if entry.is_dir() and (not entry.is_symlink() or real_path(entry.path) not in seen):
                seen.add(real_path(entry.path) if entry.is_symlink() else entry.path)
                waiting.append(entry.path)
    return None


def _foreign_as_entry(entry: os.DirEntry[str]) -> str | None:
    if not entry.is_symlink():
        return _foreign(entry.stat(follow_symlinks=False), entry.path)
    if not answers(entry.path):
        return "the file system that it leads to does not answer"
    try:
        return foreign(entry.path) or _open_above(entry.path)
    except OSError:  # a link to nothing: somebody may put something there
        place = os.path.dirname(real_path(entry.path))
        while not os.path.exists(place):
            place = os.path.dirname(place)
        return foreign(place) or _open_above(place)


def foreign_environment(folder: str, python: str) -> str | None:
    """The same of an environment and its interpreter. What lies in site-packages is started too (`.pth` files). Whose the interpreter
    is that a link leads to, and each single file, is a question of root's: a user may have an environment of his team's Python."""
    libraries = [
        os.path.join(glob.escape(folder), *parts) for parts in (("lib*",), ("lib*", "python*"), ("lib*", "python*", "site-packages"))
    ]
    found = [path for pattern in libraries for path in glob.glob(pattern)]
    for path in (folder, os.path.dirname(python), os.path.join(folder, "pyvenv.cfg"), *found):
        if os.path.exists(path) and (reason := foreign(path)):
            return reason
    reason = foreign_entry(python) or _open_above(folder)
    if reason or os.geteuid() != 0:
        return reason
    code = [os.path.dirname(python), *glob.glob(libraries[0])]  # not what lies beside them: uv's .lock is for everybody to write
    below = next((reason for path in code if (reason := _foreign_below(path))), None)
    return foreign(python) or _open_above(python) or below or _foreign_through_pth(found) or _foreign_home(folder)


def _foreign_home(folder: str) -> str | None:
    """Of the folder beside which the standard library is looked for, whether the interpreter is a link to it or a copy."""
    for home in (value for key, value in pyvenv_rows(folder) if key.lower() == "home"):
        if reason := foreign_or_open(home)[0]:
            return f"{os.path.join(folder, 'pyvenv.cfg')} leads to {home}: {reason}"
    return None


def _foreign_through_pth(folders: list[str]) -> str | None:
    """Of the folders that the `.pth` files there add to sys.path."""
    for path in (path for folder in folders for path in glob.glob(os.path.join(glob.escape(folder), "*.pth"))):
        with open(descriptor(path), encoding="utf-8", errors="replace") as file:
            named = [
                os.path.join(os.path.dirname(path), line.strip()) for line in file if line.strip() and not line.startswith(("#", "import"))
            ]
        for one in named:
            if os.path.exists(one) and (reason := foreign(one) or _open_above(one)):
                return f"{path} leads to {one}: {reason}"
    return None


def planted(path: str, opened: os.stat_result | None = None) -> str | None:
    """Why nothing is to be written to `path`: a link on the way to it, or what has its place, is somebody else's and lies in a folder in
    which anybody can put such things, for root a group too. A folder of theirs is another matter: who names it knows whose it is.

    `opened` is the file to write to, once it is open: where others have a hand in the way, it has to be what is still there."""
    if not hasattr(os, "geteuid"):
        return None
    ours, folder, shared = (0, os.geteuid()), os.sep, False
    found: os.stat_result | None = None
    whole = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)  # as the system goes it: behind a link, .. is elsewhere
    for name in whole.split(os.sep):
        if name in ("", os.curdir):
            continue
        entry = os.path.join(folder, name)
        try:
            above = os.stat(folder)
            who = _writers(above, folder)
            shared = shared or who is not None or above.st_uid not in ours
            found = os.lstat(entry)
        except OSError:
            found = None
            break
        if who and found.st_uid not in ours and not stat.S_ISDIR(found.st_mode):
            return f"{entry} belongs to {_user(found.st_uid)}, and {'anybody' if who == 'others' else who} can write to {folder}"
        folder = entry
    if opened and shared and not (found and os.path.samestat(found, opened)):
        return "the file was exchanged or removed while it was opened"
    return None


def path_for_root(path: str) -> tuple[str, tuple[str, ...]]:
    """PATH without the entries into which others could put a program, and those: relative ones, empty ones, folders open to all, and
    somebody else's in one that is (in /tmp). Another folder of somebody's is the caller's own choice. What lies on a mount that does not
    answer is left out as well: whose it is cannot be asked."""
    entries = path.split(os.pathsep)
    if not answers(*filter(os.path.isabs, entries)):
        entries = [entry for entry in entries if not os.path.isabs(entry) or answers(entry)]
    inside = ((entry, os.path.join(entry, "program")) for entry in entries if os.path.isabs(entry))
    safe = [entry for entry, program in inside if not (_anybody_makes(entry) or _open_above(program, groups=False))]
    return os.pathsep.join(safe), tuple(dict.fromkeys(entry for entry in entries if entry not in safe))


def _anybody_makes(folder: str) -> bool:
    """Whether anybody can put a file there, or make it where it does not exist yet: below a sticky folder, too."""
    for step in (folder, *map(str, PurePath(folder).parents)):
        if os.path.lexists(step):
            return _open_to_all(step)
    return False


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


def others_put(folder: str) -> str | None:
    """Why a file of somebody else's can come to lie in `folder` or in one above it, where programs look for their settings: the sticky
    bit keeps nobody from adding one. What belongs to others counts for root alone, as on the way to a file."""
    if not hasattr(os, "geteuid"):
        return None
    for step in (folder, *map(str, PurePath(folder).parents)):
        try:
            found = os.stat(step)
        except OSError as error:
            return f"{step}: {error.strerror}"
        if os.geteuid() == 0 and found.st_uid not in _trusted():
            return f"{step} belongs to {_user(found.st_uid)}"
        if who := _writers(found, step):
            return f"{who} can write to {step}"
    return _open_above(folder)


def _trusted() -> set[int]:
    return {0, os.geteuid(), os.stat(os.sep).st_uid}  # who has / has all: in a namespace of users that is nobody


def _open_above(path: str, *, groups: bool = True) -> str | None:
    """Who can put another folder in the place of one on the way to `path`. Under the sticky bit each moves no more than his own: a
    folder of ours below /tmp is ours, a folder or link of somebody else's there is not. For root what belongs to others is theirs to move;
    without `groups` only what everybody can do counts."""
    if not hasattr(os, "geteuid"):
        return None
    trusted = _trusted()
    strict = groups and os.geteuid() == 0
    for step in dict.fromkeys(_way(path)):
        try:
            found = os.lstat(step)
        except OSError:
            continue
        link = stat.S_ISLNK(found.st_mode)
        if found.st_uid not in trusted and (strict or _open_to_all(os.path.dirname(step))):
            return f"{step} belongs to {_user(found.st_uid)}"
        open_to = not link and not found.st_mode & stat.S_ISVTX and (groups or found.st_mode & stat.S_IWOTH)
        if open_to and (who := _writers(found, step)):
            return f"{who} can write to {step}"
    return None


MOST_LINKS = 40  # more in a row no system follows


def _way(path: str) -> Iterator[str]:
    """Every folder and link that is passed on the way to `path`, through links as well."""
    here, rest, links = os.sep, os.path.abspath(path).split(os.sep)[::-1], 0
    while rest and links <= MOST_LINKS:
        name = rest.pop()
        if name in ("", os.curdir):
            continue
        if name == os.pardir:
            here = os.path.dirname(here)
            continue
        yield here
        entry = os.path.join(here, name)
        try:
            leads_to = os.readlink(entry)
        except OSError:  # no link
            here = entry
            continue
        yield entry
        links += 1
        rest += leads_to.split(os.sep)[::-1]
        here = os.sep if os.path.isabs(leads_to) else here


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
