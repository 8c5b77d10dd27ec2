"""Messages that somebody typed from memory or from a picture: "Dataloader worker is killed by signal:killed".

Only where nothing that a program printed names a rule. Letters, digits and "+" alone are compared, in any case, so that what was read is
likely at most. Rows whose holes carry a value or a condition keep to the printed form: here neither could be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from envcheck.symptoms.template import Hole, Part

LIMIT = 1 << 14  # characters of a text that a person may have typed
WORDS, LETTERS = 3, 17  # fewer are in too many sentences
SHORT = 6  # letters; what is shorter, as "Errno", a person may leave out beside more
_BETWEEN = ".{0,40}?"  # what a hole may hold
_NOISE = re.compile(r"[^\w+]+|_+")  # "c++" is not "c"


class TypedRow(Protocol):
    """What is asked of a row of the tables."""

    @property
    def kind(self) -> str: ...
    @property
    def typed(self) -> Sequence[str]: ...


AnyRow = TypeVar("AnyRow", bound=TypedRow)


def retyped(rows: Sequence[AnyRow], text: str) -> Iterator[tuple[AnyRow, int]]:
    """Rows that name a rule, each with the place in the text where its message begins."""
    places = [at for at, one in enumerate(text) if one.isalnum() or one == "+"]
    squeezed = "".join(text[at].lower()[0] for at in places)
    taken: list[tuple[int, int]] = []
    found: list[tuple[AnyRow, int, int]] = []
    for row in rows:
        if not row.typed or max(row.typed, key=len) not in squeezed:
            continue
        words = re.compile(_BETWEEN.join(map(re.escape, row.typed)))
        match = next((one for one in words.finditer(squeezed) if _whole(text, places[one.start()], places[one.end() - 1])), None)
        if match and row.kind == "symptom":
            found.append((row, *match.span()))
        elif match:
            taken.append(match.span())
    for row, start, end in found:
        if not any(first < end and start < last for first, last in taken):
            yield row, places[start]


def typed_pieces(parts: Sequence[Part]) -> Sequence[str]:
    """The letters and digits of a message between its holes; none where they say too little, or where a hole says more."""
    if any(map(_tells, parts)):
        return ()
    pieces = [part for part in parts if isinstance(part, str)]
    if sum(len(part.split()) for part in pieces) < WORDS:
        return ()
    squeezed = [one for part in pieces if (one := _NOISE.sub("", part.lower()))]
    squeezed = [one for one in squeezed if len(one) >= SHORT] or squeezed
    return squeezed if sum(map(len, squeezed)) >= LETTERS else ()


def _whole(text: str, first: int, last: int) -> bool:
    """Whether neither end is within a word: in "directory cudart" no file "c" is missing. Others write no blank beside their words."""
    return not any(re.fullmatch("[a-zA-Z]{2}", pair) for pair in (text[max(first - 1, 0) : first + 1], text[last : last + 2]))


def _tells(part: Part) -> bool:
    return isinstance(part, Hole) and bool(part.name or part.regex)
