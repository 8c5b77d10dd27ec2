"""What files of wishes have in common: requirements.txt, pyproject.toml, environment.yml and locks as requirements with their places."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Literal, TypeAlias

from envcheck.errors import UsageError
from envcheck.facts.printable import one_line
from envcheck.facts.record import record

Role: TypeAlias = Literal["wish", "constraint", "index", "extra-index", "cuda", "python", "kept"]
Kind: TypeAlias = Literal["requirements", "pyproject", "environment", "lock"]


@record
class WishLine:
    """One entry of a file. What cannot be judged is kept, with the reason."""

    line: int  # from 1; 0: not known
    text: str  # as written: "torch==2.9.*", "pytorch=2.5"
    role: Role
    value: str = ""  # a requirement as pip writes it, the URL of an index, a CUDA version, a specifier of Python
    start: int = -1  # the place of `text` in the file; -1: it has none of its own
    why: str = ""  # of what is kept: key of the reason
    hashes: bool = False  # pip is told which files alone it may take
    conda: bool = False  # a package of a conda channel
    judged: bool = True  # False: of a lock, which names every package; only what the tables know is looked at


@record
class WishFile:
    """A file of wishes. `text` is kept as it is, so that it can be written back with its comments and order."""

    name: str
    kind: Kind
    text: str
    lines: tuple[WishLine, ...] = ()
    includes: tuple[tuple[Role, str, int], ...] = ()  # files that it names: as wishes or as constraints, and in which line
    fixed: str = ""  # key of the reason why it cannot be written back


def not_taken(name: str, line: int, entry: str, error: Exception) -> UsageError:
    """Of an entry that pip would not take either. Secrets in it are masked before it is cut."""
    return UsageError(f"{name}:{line}: '{one_line(entry, 80)}' is not a requirement: {str(error).splitlines()[0]}")


class LineNumbers:
    """The lines of places in a text, from 1. Counting them anew for each place would take the square of the text."""

    def __init__(self, text: str) -> None:
        self._ends = [one.start() for one in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        return bisect_left(self._ends, place) + 1
