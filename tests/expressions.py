"""The repeats of a regular expression, for tests of what makes a match slow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as parser
else:
    import sre_parse as parser


def repeats_of(expression: str, flags: int = 0) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Each repeat as (kind, most, the most of every repeat around it, outermost first)."""
    yield from _repeats(parser.parse(expression, flags), ())


def _repeats(parsed: Any, around: tuple[int, ...]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for operation, argument in parsed:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, inner = argument
            yield name, int(most), around
            yield from _repeats(inner, (*around, int(most)))
        elif name == "SUBPATTERN":
            yield from _repeats(argument[-1], around)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _repeats(branch, around)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeats(argument[1], around)
