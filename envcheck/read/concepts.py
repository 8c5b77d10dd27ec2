"""What a text speaks of, in words of any language: the concepts of `rules/words/concepts.toml`, looked for once in a text.

no-gpu           "No GPU detected"       没有检测到显卡         keine GPU
stands-still     "it just hangs"         卡住                  bleibt einfach stehen
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any

from envcheck.facts.record import record
from envcheck.read.found import kept, line_at
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

POST = 64 << 10  # characters of what a person writes; what goes on for longer is a log
_CLAUSE = 160  # characters of a clause that are looked at before a word

# Languages that are looked for where a text has a letter of theirs; all others are in Latin letters
_LETTERS = {
    "zh": re.compile("[\u4e00-\u9fff]"),
    "ja": re.compile("[\u3041-\u30ff\u4e00-\u9fff]"),
    "ko": re.compile("[\uac00-\ud7a3]"),
    "ru": re.compile("[\u0400-\u04ff]"),
}
_NOT_LANGUAGES = frozenset(("not_after",))
_CLAUSE_ENDS = re.compile(r"[.!?。！？,，;] ?")
_GROUP = re.compile(r"\(\?P<(\w{1,30})>")


@record
class Mention:
    """Where a text says something, and the values in it."""

    start: int
    end: int
    values: Mapping[str, str]


class Said:
    """A text, and what it speaks of. Each concept is looked for once."""

    def __init__(self, text: str, languages: frozenset[str] | None = None) -> None:
        self.text = text
        self.languages = languages_of(text) if languages is None else languages
        self._found: dict[str, Mention | None] = {}

    def find(self, concept: str) -> Mention | None:
        """The first place of a concept that counts."""
        if concept not in self._found:
            self._found[concept] = next(self.all(concept), None)
        return self._found[concept]

    def all(self, concept: str) -> Iterator[Mention]:
        """All places of a concept that count, in their order."""
        pattern = expression(concept, self.languages)
        before = table()[concept].get("not_after", ())
        for match in pattern.finditer(self.text) if pattern else ():
            if not before or not any(map(self.part(self._clause(match.start())).find, before)):
                yield Mention(*match.span(), {name.rpartition("_")[0]: one for name, one in match.groupdict().items() if one})

    def line(self, place: Mention) -> str:
        """The line that a place stands in."""
        return kept(line_at(self.text, place.start)[0])

    @cached_property
    def over(self) -> bool:
        """Whether nobody complains: the text is a log, or the trouble is over."""
        return len(self.text) > POST or self.find("over") is not None

    def part(self, text: str) -> Said:
        """Another text made of this one."""
        return Said(text, self.languages)

    def _clause(self, at: int) -> str:
        """What stands before a place in its clause."""
        start = max(self.text.rfind("\n", 0, at), at - _CLAUSE) + 1
        return _CLAUSE_ENDS.split(self.text[start:at])[-1]


def languages_of(text: str) -> frozenset[str]:
    """The languages that a text has letters of, beside those in Latin letters."""
    return frozenset(() if text.isascii() else (name for name, letter in _LETTERS.items() if letter.search(text)))


@lru_cache(maxsize=1)
def said(text: str) -> Said:
    """A text whose concepts several readers ask for."""
    return Said(text)


@lru_cache(maxsize=1)
def table() -> Mapping[str, Mapping[str, Any]]:
    """The concepts, with the pieces of their phrases filled in."""
    rows = load_toml(rules_folder("words/concepts.toml"))
    pieces = rows.pop("pieces")
    filled = re.compile(r"\{(" + "|".join(pieces) + r")\}")

    def whole(phrase: str) -> str:
        return filled.sub(lambda match: str(pieces[match[1]]), phrase)

    return {
        concept: {key: one if key in _NOT_LANGUAGES else [whole(phrase) for phrase in one] for key, one in row.items()}
        for concept, row in rows.items()
    }


@cache
def expression(concept: str, languages: frozenset[str]) -> re.Pattern[str] | None:
    """One expression for all phrases of a concept in Latin letters and in these languages; None where there are none."""
    row = table()[concept]
    spoken = [name for name in row if name not in _NOT_LANGUAGES and (name not in _LETTERS or name in languages)]
    phrases = [_numbered(phrase, number) for number, phrase in enumerate(phrase for name in spoken for phrase in row[name])]
    words = [phrase.removeprefix(r"\b") for phrase in phrases if phrase.startswith(r"\b")]
    parts = [rf"\b(?:{'|'.join(words)})"] if words else []  # tried at the edges of words only
    parts += [phrase for phrase in phrases if not phrase.startswith(r"\b")]
    # others write no space between their words and Latin ones
    return re.compile("|".join(parts).replace(r"\b", r"(?a:\b)"), re.IGNORECASE | re.MULTILINE) if parts else None


def _numbered(phrase: str, number: int) -> str:
    """A phrase with names of groups that no other phrase has."""
    return _GROUP.sub(rf"(?P<\1_{number}>", phrase)
