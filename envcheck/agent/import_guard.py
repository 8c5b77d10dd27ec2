"""Imports of our own in an interpreter that is not ours."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List


class ImportGuard:
    """While it lasts, imports are searched without PYTHONPATH, and no bytecode is written.

    So a json.py on PYTHONPATH breaks the patient and not us. What it hides is forgotten again in the end, so that the patient's own
    imports do break. Every import of ours stands in one: what is imported at the top of a file in that of who imports the file.
    """

    def __enter__(self) -> None:
        self.path, self.known, self.writes = sys.path[:], set(sys.modules), sys.dont_write_bytecode
        self.folders = [absolute(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
        if self.folders:
            stdlib = os.path.dirname(os.path.abspath(os.__file__))
            sys.path[:] = [entry for entry in self.path if entry and (entry not in self.folders or entry.startswith(stdlib))]
        sys.dont_write_bytecode = True

    def __exit__(self, *raised: Any) -> None:
        sys.path[:], sys.dont_write_bytecode = self.path, self.writes
        for name in [name for name in sys.modules if name not in self.known] if self.folders else ():
            root = name.partition(".")[0]
            if root != __name__.partition(".")[0] and hides(self.folders, root):
                del sys.modules[name]


def absolute(folder: str) -> str:
    try:
        return os.path.abspath(folder)
    except OSError:  # the working folder was deleted
        return folder


def hides(folders: List[str], name: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, *tail)) for folder in folders for tail in ((name + ".py",), (name, "__init__.py")))
