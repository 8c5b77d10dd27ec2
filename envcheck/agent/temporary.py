"""Where torch, its ranks, launchers and compilers put their temporary files: into our folder, which is removed."""

from __future__ import annotations

import os
import sys

from . import jsonl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

USUAL = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - where the standard library looks if no variable says otherwise
# What a socket may be called in all: 104 bytes on macOS, 108 on Linux. The longest below: torch-shm-dir-XXXXXX/manager.sock.
LONGEST_FOLDER = 104 - 34 - 1


_owner = 0  # the process that has asked for it; those that it forks share what torch made at the import


def keep_in(folder: str) -> None:
    """Set TMPDIR to `folder`, which is ours. It stays as it is where the user's own could not serve, since a bad one then shows, and where
    sockets below ours would get names too long, which below the user's they would not."""
    global _owner
    _owner = os.getpid()
    given = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)
    if not serves(given, os.path.dirname(folder)) or len(os.fsencode(folder)) > LONGEST_FOLDER:
        return
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:  # a sitecustomize may have asked before us
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]


def serves(given: Optional[str], ours: str) -> bool:
    """Whether the user's folder is one that could be used; ours may lie elsewhere for reasons of its own (envcheck/collect.py)."""
    if given is None or ours == os.path.abspath(given):
        return given is not None or ours in USUAL
    return len(os.fsencode(given)) <= LONGEST_FOLDER and os.path.isdir(given) and os.access(given, os.W_OK | os.X_OK)


def clean() -> None:
    """Where TMPDIR stayed: torch.distributed.nn makes a folder when it is imported, and removes it at an exit that we do not take."""
    made = getattr(sys.modules.get("torch.distributed.nn.jit.instantiator"), "_TEMP_DIR", None)
    if made is not None and os.getpid() == _owner:
        jsonl.attempt(lambda: made.cleanup())
