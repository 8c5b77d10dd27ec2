"""The working folder is the user's, and no place for modules of ours, of torch's or of Python's own.

`python -c` and `python -m` look there first, and so multiprocessing starts its children, and torch a few of its own: a queue.py there
would be run by them although the import of torch never meets it. (A program of the user's in that folder does, which is a finding.)
"""

from __future__ import annotations

import os
import sys

from . import jsonl
from .import_guard import ImportGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

MOST_NAMES = 5000  # of a folder that is looked through; who has more of them in it is not asked
WITHOUT_IT = "import sys; sys.path[0] or sys.path.pop(0); "


def leave_out_of_children() -> None:
    """Nothing of it is imported by what is started from here on. Python 3.11 and later know a variable for that."""
    os.environ["PYTHONSAFEPATH"] = "1"
    if sys.version_info < (3, 11) or sys.flags.ignore_environment:
        jsonl.attempt(leave_out_of_multiprocessing)


def leave_out_of_multiprocessing() -> None:
    """Children of spawn, the forkserver and the resource tracker are all started by this one function (Python 3.8 to 3.14)."""
    with ImportGuard():
        import multiprocessing.util
    util: Any = multiprocessing.util
    start = util.spawnv_passfds

    def started(path: Any, words: Sequence[Any], descriptors: Any) -> Any:
        told = list(words)
        if "-c" in told[:-1]:
            told[told.index("-c") + 1] = WITHOUT_IT + told[told.index("-c") + 1]
        return start(path, told, descriptors)

    util.spawnv_passfds = started


def leave(private: str) -> None:
    """Stand in an empty folder of ours instead, where the working folder is not the user's alone: torch has children that know no such
    variable before Python 3.11, and libraries are looked for here where LD_LIBRARY_PATH has an empty entry."""
    here = jsonl.attempt(os.getcwd)
    if here is None or not open_to_strangers(here):
        return
    folders = os.environ.get("PYTHONPATH")
    if folders:
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(one) if one else one for one in folders.split(os.pathsep))
    place = os.path.join(private, "here")
    os.makedirs(place, 0o700, exist_ok=True)
    os.chdir(place)


def open_to_strangers(folder: str) -> bool:
    """Whether others than this user and root have something in the folder or can put something there; for root, who trusts no group
    either, also above it."""
    if not hasattr(os, "geteuid"):
        return False
    root = os.geteuid() == 0
    if of_others(folder) or written_by_others(folder, 0o022 if root else 0o002):
        return True
    above = os.path.dirname(folder)
    while root:
        if of_others(above) or (written_by_others(above, 0o022) and not os.stat(above).st_mode & 0o1000):
            return True
        if above == os.path.dirname(above):
            break
        above = os.path.dirname(above)
    names = jsonl.attempt(os.listdir, folder) or []
    return len(names) > MOST_NAMES or any(of_others(os.path.join(folder, name)) for name in names)


def of_others(path: str) -> bool:
    """The entry, or what a link there leads to."""
    seen = (jsonl.attempt(os.lstat, path), jsonl.attempt(os.stat, path))
    return any(found is not None and found.st_uid not in (0, os.geteuid()) for found in seen)


def written_by_others(folder: str, bits: int) -> bool:
    found = jsonl.attempt(os.stat, folder)
    return found is not None and bool(found.st_mode & bits)
