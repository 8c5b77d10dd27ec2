"""What files of wishes have in common: requirements.txt, pyproject.toml, environment.yml and locks as requirements with their places."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from envcheck.errors import UsageError
from envcheck.facts.printable import one_line
from envcheck.facts.record import record
from envcheck.tables.versions import applies, requirement

if TYPE_CHECKING:
    from packaging.markers import Marker
    from packaging.requirements import Requirement

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


def taken(place: str, entry: str, value: str) -> Requirement:
    """An entry as a requirement, which `value` is as pip writes it. UsageError for one that pip would not take either."""
    from packaging.requirements import InvalidRequirement

    try:
        return requirement(value)
    except InvalidRequirement as error:
        raise not_taken(place, entry, error) from None


def holds(place: str, entry: str, marker: Marker | str, environment: Mapping[str, str]) -> bool:
    """Whether the marker of an entry holds. UsageError for one that has no answer."""
    from packaging.markers import InvalidMarker

    try:
        return applies(marker, environment)
    except InvalidMarker as error:
        raise not_taken(place, entry, error) from None


def not_taken(place: str, entry: str, error: Exception) -> UsageError:
    """Secrets in an entry are masked before it is cut."""
    return UsageError(f"{place}: '{one_line(entry, 80)}' is not a requirement: {one_line(str(error).partition(chr(10))[0], 200)}")


def place_of(name: str, line: int) -> str:
    """ "requirements.txt:3"; the name alone where the line is not known."""
    return f"{name}:{line}" if line else name


class LineNumbers:
    """The lines of places in a text, from 1. Counting them anew for each place would take the square of the text."""

    def __init__(self, text: str) -> None:
        self._ends = [one.start() for one in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        return bisect_left(self._ends, place) + 1
