"""Where torch, its ranks, launchers and compilers put their temporary files: into our folder, which is removed."""

from __future__ import annotations

import errno
import os
import sys

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

# What a socket may be called in all: 104 bytes on macOS, 108 on Linux. The longest below: torch-shm-dir-XXXXXX/manager.sock.
LONGEST_FOLDER = 104 - 34 - 1
VARIABLES = ("TMPDIR", "TEMP", "TMP")  # in the order in which the standard library asks them

_owner = 0  # the process that has asked for it; those that it forks share what torch made at the import


def keep_in(folder: str) -> None:
    """Let temporary files go to `folder`, which is ours, and what is wrong with the user's own choice show all the same: one that is too
    long for sockets is as long in ours; one that cannot be used is still asked first, and ours is what is taken in its place."""
    global _owner
    _owner = os.getpid()
    name = next((one for one in VARIABLES if os.environ.get(one)), None)
    given = os.environ[name] if name else ""
    usable = os.path.isdir(given) and os.access(given, os.W_OK | os.X_OK)
    if not usable and os.path.dirname(folder) in last_resorts():
        return  # nothing usual can be written: torch has to meet that
    if name and not usable:
        os.environ.update({one: folder for one in VARIABLES if one != name})
    elif len(os.fsencode(given)) > max(LONGEST_FOLDER, len(os.fsencode(folder)) + 1):
        os.environ["TMPDIR"] = as_long_as(given, folder)
    elif len(os.fsencode(folder)) <= LONGEST_FOLDER:
        os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:  # a sitecustomize may have asked before us
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]


def last_resorts() -> Tuple[str, ...]:
    """Where the folder lies if nothing else can be written (envcheck/collect.py)."""
    return ("/dev/shm", "/run/user/%d" % os.getuid()) if hasattr(os, "getuid") else ()  # noqa: S108


def as_long_as(given: str, folder: str) -> str:
    """A folder in ours whose name has as many bytes as the user's, or as many as no socket can have."""
    place = os.path.join(folder, "x" * (min(len(os.fsencode(given)), 200) - len(os.fsencode(folder)) - 1))
    os.makedirs(place, 0o700, exist_ok=True)
    return place


def takes_programs(path: str) -> bool:
    """Whether a program could write to this folder and load what it has written, asked without leaving anything there: one that is not
    there yet can be made."""
    if not path:  # torch takes it as it is
        return False
    path = os.path.abspath(path)
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    if not os.path.isdir(path) or not os.access(path, os.W_OK | os.X_OK) or no_programs(path):
        return False
    try:
        file = os.open(path, os.O_TMPFILE | os.O_WRONLY, 0o600)
    except (AttributeError, OSError) as error:  # macOS, NFS: there are no files without a name
        return getattr(error, "errno", None) not in (errno.ENOSPC, errno.EDQUOT)
    try:
        return os.write(file, bytes(4096)) > 0
    except OSError:
        return False
    finally:
        os.close(file)


def no_programs(folder: str) -> bool:
    """Whether its file system is mounted noexec."""
    flags = jsonl.attempt(lambda: os.statvfs(folder).f_flag)
    return bool((flags or 0) & getattr(os, "ST_NOEXEC", 0))


def clean() -> None:
    """Where ours has too long a name: torch.distributed.nn makes a folder at its import, and removes it at an exit that we do not take."""
    made = getattr(sys.modules.get("torch.distributed.nn.jit.instantiator"), "_TEMP_DIR", None)
    if made is not None and os.getpid() == _owner:
        jsonl.attempt(lambda: made.cleanup())
