"""Where torch, its ranks, launchers and compilers put their temporary files: into our folder, which is removed."""

from __future__ import annotations

import os
import sys

USUAL = ("/tmp", "/var/tmp", "/usr/tmp")  # noqa: S108 - where the standard library looks if no variable says otherwise
# What a socket may be called in all: 104 bytes on macOS, 108 on Linux. The longest below: torch-shm-dir-XXXXXX/manager.sock.
LONGEST_FOLDER = 104 - 34 - 1


def keep_in(folder: str) -> None:
    """Set TMPDIR to `folder`, which lies in the user's own. It stays as it is where ours lies elsewhere, since a bad one then shows,
    and where sockets below ours would get names too long, which below the user's they would not."""
    given = next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), None)
    place = os.path.dirname(folder)
    if place not in (USUAL if given is None else (os.path.abspath(given),)) or len(os.fsencode(folder)) > LONGEST_FOLDER:
        return
    os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:  # a sitecustomize may have asked before us
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
