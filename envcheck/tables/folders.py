"""Where the files of rules and tables are."""

from __future__ import annotations

import os
from typing import TypeAlias

from envcheck import FOLDER

Folder: TypeAlias = str | os.PathLike[str]


def rules_folder(part: str = "") -> str:
    """`rules/` inside the installed package, else beside the checkout; or a folder or file below it."""
    inside = os.path.join(FOLDER, "_rules")
    folder = inside if os.path.isdir(inside) else os.path.join(os.path.dirname(FOLDER), "rules")
    return os.path.join(folder, part) if part else folder
