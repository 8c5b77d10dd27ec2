"""Where the files of rules and tables are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeAlias

from envcheck import FOLDER
from envcheck.tables.toml import JSON, TOML

Folder: TypeAlias = str | os.PathLike[str]


def rules_folder(part: str = "") -> str:
    """`rules/` inside the installed package, else beside the checkout; or a folder or file below it."""
    inside = os.path.join(FOLDER, "_rules")
    folder = inside if os.path.isdir(inside) else os.path.join(os.path.dirname(FOLDER), "rules")
    return os.path.join(folder, part) if part else folder


def folders_in(folder: Folder) -> tuple[str, ...]:
    """The names of the folders in a folder, sorted, without the hidden ones."""
    return tuple(sorted(one.name for one in os.scandir(folder) if not one.name.startswith(".") and one.is_dir()))


def is_folder(folder: Folder) -> bool:
    return os.path.isdir(folder)


def is_file(path: Folder) -> bool:
    """Whether there is a plain file: nothing that keeps an open waiting."""
    return os.path.isfile(path)


def toml_files(folder: Folder, part: str = "") -> Mapping[str, str]:
    """The TOML files of a folder, or of one below it: name without ending → path, sorted. Empty where there is no such folder.

    In an installed package they are JSON; where both are there, somebody has written the TOML file since, and it counts.
    """
    below = os.path.join(folder, part)
    if not os.path.isdir(below):
        return {}
    names = (os.path.splitext(name) for name in sorted(os.listdir(below)))  # ".json" comes before ".toml"
    return {name: os.path.join(below, name + ending) for name, ending in names if ending in (JSON, TOML)}
