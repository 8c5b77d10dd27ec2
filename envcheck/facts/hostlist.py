"""Names of hosts folded into ranges as Slurm writes them, and unfolded: `n[017,203-204]`, `rack[1-2]n[01-16]-ib`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from envcheck.facts.printable import one_line

LIMIT = 1 << 20  # hosts that one text may stand for; `n[1-9999999999]` is a typing error or an attack


def fold(hosts: Iterable[str]) -> str:
    """All the names in one text, each once. Numbers keep their leading zeros: n07 and n7 are two hosts.

    It is the inverse of `unfold`. Names that cannot be written so ("a[b") stand for themselves, whatever reads them back.
    """
    blocks = [_Block(name) for name in sorted(set(hosts), key=natural)]
    for place in reversed(range(max((len(one.numbers) for one in blocks), default=0))):
        blocks = _merged(blocks, place)
    return ",".join(block.text for block in blocks)


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """The key by which people order names: n2 before n10, n2 before n02."""
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in _PARTS.split(name) if part)


_PARTS = re.compile(r"([0-9]{1,18})")  # int() of more may take its time
_PLAIN = re.compile(r"[^\[\],\s]+")


class _Block:
    """Names that differ in nothing but their numbers, at each place of which stands a list of runs."""

    __slots__ = ("numbers", "words")

    def __init__(self, name: str) -> None:
        parts = _PARTS.split(name) if _PLAIN.fullmatch(name) else [name]
        self.words: tuple[str, ...] = tuple(parts[::2])
        self.numbers: list[tuple[str, ...]] = [(number,) for number in parts[1::2]]

    @property
    def text(self) -> str:
        made = self.words[0]
        for numbers, word in zip(self.numbers, self.words[1:], strict=True):
            made += (numbers[0] if len(numbers) == 1 else f"[{','.join(_runs(numbers))}]") + word
        return made


def _merged(blocks: list[_Block], place: int) -> list[_Block]:
    """Blocks that are the same but for one place become one block with the numbers of all of them there."""
    made: dict[object, _Block] = {}
    for block in blocks:
        if place >= len(block.numbers):
            made[block] = block
            continue
        others = (*block.numbers[:place], *block.numbers[place + 1 :])
        into = made.setdefault((block.words, others), block)
        if into is not block:
            into.numbers[place] = (*into.numbers[place], *block.numbers[place])
    for block in made.values():
        if place < len(block.numbers):
            block.numbers[place] = tuple(sorted(block.numbers[place], key=lambda number: (len(number), int(number))))
    return list(made.values())


def _runs(numbers: Iterable[str]) -> Iterator[str]:
    """1, 2, 3, 7 → "1-3", "7". A run has one width: 08 and 09 are followed by 10, 9 is not by 10 where 09 stands before it."""
    first = last = ""
    for number in numbers:
        if last and number == _next(last):
            last = number
            continue
        if last:
            yield first if first == last else f"{first}-{last}"
        first = last = number
    if last:
        yield first if first == last else f"{first}-{last}"


def _next(number: str) -> str:
    return str(int(number) + 1).zfill(len(number))


def unfold(text: str) -> tuple[str, ...]:
    """The names that a text stands for, in its order, each once. ValueError, with one line, for what is none."""
    made: dict[str, None] = {}
    for item in _items(text):
        for name in _unfolded(item):
            made[name] = None
            if len(made) > LIMIT:
                raise ValueError(f"more than {LIMIT} hosts")
    return tuple(made)


def _items(text: str) -> Iterator[str]:
    """What stands between commas that are in no brackets."""
    depth, item = 0, ""
    for char in text:
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"{one_line(text, 60)}: the brackets do not match")
        if depth == 0 and (char == "," or char.isspace()):
            if item:
                yield item
            item = ""
        else:
            item += char
    if depth:
        raise ValueError(f"{one_line(text, 60)}: the brackets do not match")
    if item:
        yield item


def _unfolded(item: str) -> Iterator[str]:
    parts = re.split(r"\[([^\[\]]*)\]", item)
    choices = [_choices(part, item) if at % 2 else (part,) for at, part in enumerate(parts)]
    count = 1
    for one in choices:
        count *= len(one)
    if count > LIMIT:
        raise ValueError(f"{one_line(item, 60)}: more than {LIMIT} hosts")
    return ("".join(one) for one in product(*choices))


def _choices(text: str, item: str) -> list[str]:
    made: list[str] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal()) or max(len(first), len(last)) > 18:
            raise ValueError(f"{one_line(item, 60)}: {one_line(part, 20)!r} is no range of numbers")
        if int(last) < int(first) or int(last) - int(first) >= LIMIT:
            raise ValueError(f"{one_line(item, 60)}: {one_line(part, 20)!r} is no range, or one of too many hosts")
        made += (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return made
