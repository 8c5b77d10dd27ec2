"""Lines of styled text, and where they are broken. rich writes the colours: its import takes longer than a report, so only then."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.facts.printable import inert

Run = tuple[str, str]  # a text, and its style in rich's words
# Blanks at the beginning belong to the first word. Chinese has none between words: a line may end behind each character, though not
# before the mark that closes a sentence or a bracket, nor behind one that opens it.
_CHINESE = "\u3400-\u9fff"
_CLOSING = "，。、；：！？）】》”’)"
_OPENING = "（【《“‘("
_WORD = re.compile(rf"(?:^\s*)?(?:[{_OPENING}]{{,3}}[{_CHINESE}][{_CLOSING}]*|[^\s{_CHINESE}]+?(?=[{_OPENING}]{{,3}}[{_CHINESE}]|\s|$))\s*")


def width_of(text: str) -> int:
    """Columns of a terminal: most characters take one, those of Chinese two, combining ones none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, columns: int) -> str:
    """A label as wide as all of them, and at least one blank."""
    return text + " " * max(columns - width_of(text), 1)


class Styled:
    """One line in runs of a style each, without a character that a terminal obeys: `Styled("plain", ("green words", "green"))`."""

    def __init__(self, *runs: str | Run) -> None:
        styled = ((run, "") if isinstance(run, str) else run for run in runs)
        self.runs: list[Run] = [(inert(text), style) for text, style in styled]

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.runs)

    @property
    def width(self) -> int:
        return width_of(self.plain)

    def __add__(self, other: Styled) -> Styled:
        return Styled(*self.runs, *other.runs)

    def part(self, start: int, end: int | None = None) -> Styled:
        """The characters from `start` up to `end`, each in its style."""
        kept: list[Run] = []
        at = 0
        for text, style in self.runs:
            piece = text[max(start - at, 0) : None if end is None else max(end - at, 0)]
            if piece:
                kept.append((piece, style))
            at += len(text)
        return Styled(*kept)

    def wrapped(self, width: int) -> Iterator[Styled]:
        """Lines of at most `width` columns, broken between words, without the blanks at their ends."""
        plain = self.plain
        ends = [*breaks(plain, width), len(plain)]
        for start, end in zip([0, *ends], ends, strict=False):
            yield self.part(start, start + len(plain[start:end].rstrip()))


def breaks(text: str, width: int) -> Iterator[int]:
    """Where the second line begins, the third, … A word that is wider than a line begins one, and is cut wherever that is full."""
    used = 0
    for found in _WORD.finditer(text):
        word, start = found[0], found.start()
        bare = width_of(word.rstrip())
        if used + bare <= width:
            used += width_of(word)
            continue
        if start:
            yield start
        used = 0
        if bare <= width:
            used = width_of(word)
            continue
        for at, character in enumerate(word, start):
            columns = width_of(character)
            if used + columns > width:
                yield at
                used = 0
            used += columns


def written(lines: Iterable[Styled], color: bool) -> str:
    """All lines, each with its end, however long."""
    return _colored(lines) if color else "".join(line.plain + "\n" for line in lines)


def _colored(lines: Iterable[Styled]) -> str:
    import io

    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        color_system="standard",
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    for line in lines:
        console.print(Text.assemble(*line.runs), soft_wrap=True)
    return out.getvalue()
