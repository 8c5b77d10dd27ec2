"""Messages as templates: a program's own words with typed holes, and what finds them in a text.

    Connect to {peer:word} failed : {reason:=Connection refused|No route to host}

A hole is of one of the types of TYPES, or one of several texts (`=`; there `*` stands for letters, digits and underscores, and `**`
for whatever is no blank), or as an exception a piece of regular expression (`{/…/}`). With a name it is a value of the match. Every
hole is bounded and most hold no blank, so a match takes time that grows with the text alone. A brace of the message itself is
doubled. A quote may be of any kind, and a copy may have lost it. A message begins and ends with whole words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeAlias

from envcheck.facts.record import record

TYPES = {
    "int": r"\d{1,20}",
    "version": r"\d(?:[\w.+-]{0,40}\w)?",
    "name": r"\w{1,200}",
    "word": r"[^\s']{0,300}[^\s'.,:;]",
    "path": r"[^\s':;,()]{0,300}[^\s':;,().]",
    "words": r"\w[\w -]{0,80}",
    "any": r"[^\n]{0,400}?",
    "line": r"[^\n]{0,1200}?",  # a compiler's command with all its folders
}
SAMPLES = {
    "int": "29500",
    "version": "12.4.1",
    "name": "worker_1",
    "word": "node-1",
    "path": "/opt/venv/lib/x.so",
    "words": "no such device",
    "any": "of this run",
    "line": "of this run, with a good many arguments",
}
_STARS = {"*": r"\w{0,100}", "**": r"[^\s',:;()]{0,200}"}

_STAR = re.compile(r"(\*{1,2})")
_HOLE = re.compile(
    r"\{\{|\}\}|\{(?:(?P<name>[a-z_]{1,20}):)?(?:(?P<type>[a-z]{3,7})|=(?P<choices>[^{}]{1,4000})|/(?P<regex>(?:[^/]|/(?!\})){1,2000})/)\}"
)
# Where a quote stood: the quote, escaped or not, or the edge of a word with what belongs to a name or a path.
_QUOTE = r"(?:\\{0,8}'|(?!')(?:(?<![\w./-])|(?![./-]?\w)))"
# A message begins and ends with whole words.
_BEGIN, _END = r"(?:(?![^\W_])|(?<![^\W_]))", r"(?:(?<![^\W_])|(?![^\W_]))"
_QUOTES = "'\"`"
_QUOTE_MARK = re.compile(f"[{_QUOTES}]")


@record
class Hole:
    name: str
    type: str = ""
    choices: tuple[str, ...] = ()
    regex: str = ""

    @property
    def expression(self) -> str:
        if self.regex:
            inner = f"(?:{self.regex})"
        elif self.choices:
            # the longest first, or "torch" would hide "torchvision"
            ordered = sorted(self.choices, key=len, reverse=True)
            inner = "(?:" + "|".join("".join(_STARS.get(one) or _literal(one) for one in _STAR.split(each)) for each in ordered) + ")"
        else:
            inner = TYPES[self.type]
        return f"(?P<{self.name}>{inner})" if self.name else inner

    @property
    def begin(self) -> str:
        """Where a message begins with this hole: not within a name or a path, if that is what it takes."""
        if self.regex:
            return ""
        return r"(?<![\w./-])" if self.type or self.choices[0].startswith("*") else _BEGIN

    def before(self, after: Part) -> str:
        """The expression of the hole where this follows: a value goes on to a quote, and at the end of the message to a bracket."""
        if self.type == "any" and (self.name or after):
            end = "()" if not after else "'" if isinstance(after, str) and after[0] in _QUOTES else ""
            if end:
                return f"(?P<{self.name}>[^\\n{end}]{{0,400}})" if self.name else f"[^\\n{end}]{{0,400}}"
        return self.expression

    @property
    def sample(self) -> str:
        return self.choices[0].replace("**", "x").replace("*", "x") if self.choices else SAMPLES[self.type]


Part = str | Hole


def parts_of(text: str) -> tuple[Part, ...]:
    """The words and holes of a template. ValueError for a brace that is neither."""
    found: list[Part] = []
    at = 0
    for match in _HOLE.finditer(text):
        _plain(text, text[at : match.start()], found)
        at = match.end()
        if match[0] in ("{{", "}}"):
            _plain(text, "", found, match[0][0])
            continue
        name, type_, choices, regex = match["name"] or "", match["type"] or "", match["choices"], match["regex"] or ""
        if type_ and type_ not in TYPES:
            raise ValueError(f"{text}: {type_} is no type of a hole; there are {', '.join(TYPES)}")
        found.append(Hole(name, type_, tuple(choices.split("|")) if choices else (), regex))
    _plain(text, text[at:], found)
    return tuple(found)


def _plain(text: str, words: str, found: list[Part], brace: str = "") -> None:
    if "{" in words or "}" in words:
        raise ValueError(f"{text}: a brace that opens no hole is written twice")
    if words + brace:
        if found and isinstance(found[-1], str):
            found[-1] += words + brace
        else:
            found.append(words + brace)


def _literal(words: str) -> str:
    made = []
    for at, one in enumerate(words):
        if one not in _QUOTES:
            made.append(" " if one.isspace() else re.escape(one))
        elif words[at - 1 : at].isalpha() and words[at + 1 : at + 2].isalpha():
            made.append("'?")  # an apostrophe within a word
        else:
            made.append(_QUOTE)
    return "".join(made)


def expression(parts: tuple[Part, ...]) -> str:
    """The regular expression of a template, for text with one kind of quotes and single blanks."""
    made, first = [], _first(parts)
    for index, part in enumerate(parts):
        if isinstance(part, Hole):
            made.append(part.before(parts[index + 1] if index + 1 < len(parts) else ""))
        elif index == first and _sentence(part):  # it may begin elsewhere
            made.append(f"[{part[0].upper()}{part[0].lower()}]" + _literal(part[1:]))
        else:
            made.append(_literal(part))
    start, end = parts[0], parts[-1]
    begin = start.begin if isinstance(start, Hole) else _BEGIN
    return begin + "".join(made) + ("" if isinstance(end, Hole) and end.regex else _END)


def _sentence(words: str) -> bool:
    return words[0].isalpha() and words.count(" ") >= 2


def _first(parts: tuple[Part, ...]) -> int | None:
    """Where a template begins with words: conditions of what stands before do not count."""
    for index, part in enumerate(parts):
        if isinstance(part, str):
            return index
        if not part.regex:
            break
    return None


Word: TypeAlias = str | tuple[str, str]  # a run of letters, or two that follow each other


@record
class Anchor:
    """What a text must hold where a message can be: one piece as it stands, and these words anywhere."""

    piece: str
    words: tuple[str, ...]  # "segment", and two that follow each other: "shared memory"; the one that tells most comes first

    @property
    def rarest(self) -> Word:
        """Empty where there is no word at all."""
        return _word(self.words[0]) if self.words else ""

    @cached_property
    def needed(self) -> frozenset[Word]:
        return frozenset(map(_word, self.words))


def _word(text: str) -> Word:
    first, blank, second = text.partition(" ")
    return (first, second) if blank else first


RARE = 9  # characters of a piece that are rare enough


def anchors(parts: tuple[Part, ...]) -> tuple[Anchor, ...]:
    """One of these occurs in every text with the message. Where its own words are few, those of a hole's choices join them."""
    ways, pieces = [parts], [_longest_piece(parts)]
    if len(pieces[0]) >= RARE:
        return (Anchor(pieces[0], words_of(parts)),)
    for index, part in enumerate(parts):
        if isinstance(part, Hole) and part.choices:
            each = [_joined((*parts[:index], *_pieces(one), *parts[index + 1 :])) for one in part.choices]
            theirs = [_longest_piece(way) for way in each]
            if min(map(len, theirs)) > min(map(len, pieces)):
                ways, pieces = each, theirs
    return tuple(dict.fromkeys(map(Anchor, pieces, map(words_of, ways))))


def _pieces(choice: str) -> Iterator[Part]:
    for one in _STAR.split(choice):
        if one:
            yield Hole("", "word") if one in _STARS else one


def _joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    made: list[Part] = []
    for part in parts:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        else:
            made.append(part)
    return tuple(made)


def _longest_piece(parts: tuple[Part, ...]) -> str:
    first, found = _first(parts), ""
    for index, part in enumerate(parts):
        if isinstance(part, str):
            words = part[1:] if index == first and _sentence(part) else part
            for piece in _QUOTE_MARK.split(words):
                piece = " ".join(piece.split())
                found = piece if len(piece) > len(found) else found
        elif part.type == "line":
            # A message is looked for around its piece, and further behind it than before it: what a long hole holds has to come after.
            break
    return found


def words_of(parts: tuple[Part, ...]) -> tuple[str, ...]:
    """The words that a text with the message holds, two that follow each other as one: a long log has most words of most messages, but
    hardly ever in their order. Those beside a hole may be a part of a longer one.
    """
    joined = "".join([part if isinstance(part, str) else "0" if part.type == "int" else "\x00" for part in parts])
    pairs: dict[str, None] = {}
    alone: dict[str, None] = {}
    between = _APOSTROPHE.sub("\x00", joined).lower().split("\x00")
    for number, piece in enumerate(between):
        runs = _RUN.findall(piece)
        if number and "a" <= piece[:1] <= "z":
            del runs[0]
        if number + 1 < len(between) and "a" <= piece[-1:] <= "z":
            del runs[-1:]
        if len(runs) > 1:
            pairs.update(dict.fromkeys(map(" ".join, zip(runs, runs[1:], strict=False))))
        elif runs and len(runs[0]) > 1:
            alone[runs[0]] = None
    first = max(pairs or alone, key=len, default=None)
    return tuple(dict.fromkeys((first, *pairs, *alone))) if first else ()


_RUN, _APOSTROPHE = re.compile("[a-z]+"), re.compile(r"(?<=\w)['\"`](?=\w)")


def condition_anchor(text: str) -> Anchor:
    """Of a text that may begin and end in the middle of a word."""
    return Anchor(text, words_of((Hole("", "any"), text, Hole("", "any"))))


def sample_of(parts: tuple[Part, ...]) -> str:
    """The message with something in each hole."""
    return "".join(part if isinstance(part, str) else part.sample for part in parts)


def weight(parts: tuple[Part, ...]) -> tuple[int, int]:
    """How much a message tells: its values, then its words."""
    values = sum(isinstance(part, Hole) and (bool(part.name) or "(?P<" in part.regex) for part in parts)
    return values, sum(len(part) for part in parts if isinstance(part, str))
