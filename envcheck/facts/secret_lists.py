"""Secrets of a command that is written as a list of its words: Python's repr, JSON, strace, items of YAML. What its line would not show,
its list does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# A word of a list, as it is written there: in quotation marks, also those of a text in a text, to the end of one that was cut off, or
# within a call (PosixPath('x'))
_SINGLE = r"(?:[^'\\\n]|\\[^\n]){0,4000}"
_DOUBLE = r"(?:[^\"\\\n]|\\[^\n]){0,4000}"
_INNER = r"[^\"'\\\n]{0,4000}"
_MARK = r"\\{1,3}[\"']"
_QUOTED = rf"(?:\w{{1,20}}\()?[bBrRuU]{{0,2}}(?:'{_SINGLE}(?:'|\Z)|\"{_DOUBLE}(?:\"|\Z)|{_MARK}{_INNER}(?:{_MARK}|\Z))(?:\.{{3}})?\)?"
_LIST = re.compile(
    rf"(?<![^\s\[({{=:,>`'\"]){_QUOTED}"
    rf"(?:(?:\s{{0,8}},\s{{0,80}}(?:{_QUOTED}|[\w.+-]{{1,40}}(?![\w.+(-]))|\x20{{1,4}}{_QUOTED})(?!\s{{0,4}}[:=])){{1,400}}"
)
_BEHIND = r"(?<![^\s\[({=:,>`'\"bBrRuU])"
_WORD = re.compile(
    rf"{_BEHIND}'({_SINGLE})(?:'|\Z)|{_BEHIND}\"({_DOUBLE})(?:\"|\Z)|{_MARK}({_INNER})(?:{_MARK}|\Z)|(?<=[\s,])([\w.+-]{{1,40}})(?=[\s,]|\Z)"
)
_ITEM = r"[\x20\t]{0,60}-[\x20\t]{1,8}(?:'[^'\n]{0,400}'|\"[^\"\n]{0,400}\"|[^\s\"'#]\S{0,400})[\x20\t\r]{0,8}(?![^\n])"
_ITEMS = re.compile(rf"(?<![^\n]){_ITEM}(?:\n{_ITEM}){{1,400}}")
_ITEM_WORD = re.compile(r"(?<![^\n])[\x20\t]{0,60}-[\x20\t]{1,8}(?:'([^'\n]{0,400})'|\"([^\"\n]{0,400})\"|([^\s\"'#]\S{0,400}))")
# What parts words or commands on a line, and does not within a word; a text of several words hides as a whole, but for what it begins with
# (`-pX y`, `name:X y`). In its place stands what no expression takes for a letter or a blank.
_PARTS = re.compile(r"[|;&\"'\\]")
_SEVERAL = re.compile(r"\s|\\[nrt]")
_HEAD = re.compile(r"-\w(?=\S)|[\w.-]{1,40}:(?=[^\s/])|")
_STANDS_IN = "\ue000"
_NO_VALUE = ("=", ":")  # a word that ends so has none: the next word is another


_SIGNS = ("',", '",', "' '", '" "', "'),", '"),', '"...,')


def may_hold_a_list(text: str) -> bool:
    return ("\n" in text and "- " in text) or any(sign in text for sign in _SIGNS)


def lists_masked(text: str, again: Callable[[str], str]) -> str:
    """Text with the words of its lists masked as a line of them is. What else it holds stays."""
    for whole, word in ((_LIST, _WORD), (_ITEMS, _ITEM_WORD)):
        parts, last = [], 0
        for found in whole.finditer(text):
            words = [(one[one.lastindex or 0], one.start(one.lastindex or 0)) for one in word.finditer(text, found.start(), found.end())]
            for (said, at), shown in zip(words, words_masked([said for said, _ in words], again), strict=True):
                if shown == said and may_hold_a_list(said):  # a text that quotes a command
                    shown = lists_masked(said, again)
                if shown != said:
                    parts += [text[last:at], shown]
                    last = at + len(said)
        text = "".join([*parts, text[last:]]) if parts else text
    return text


def words_masked(words: Sequence[str], again: Callable[[str], str]) -> list[str]:
    """Each word as it is when the line of all of them is masked."""
    lines: list[list[str]] = [[]]
    for word in words:
        lines[-1].append(word)
        if word.endswith(_NO_VALUE):
            lines.append([])
    return [shown for line in lines for shown in _of_a_line(line, again)]


def _of_a_line(words: Sequence[str], again: Callable[[str], str]) -> list[str]:
    if len(words) < 2:
        return list(words)
    written = [_written(word, again) for word in words]
    line = " ".join(written)
    hidden = again(line)
    if hidden == line:
        return list(words)
    shown = hidden.split(" ")
    if len(shown) != len(words):  # a secret of several words
        return [word if one in shown else "[secret]" for word, one in zip(words, written, strict=True)]
    return [
        word if one == other or not word else _as_written(word, one, other) for word, one, other in zip(words, written, shown, strict=True)
    ]


def _written(word: str, again: Callable[[str], str]) -> str:
    """A word as it stands on the line, as long as it is. One that hides a secret itself, or has hidden it, says no more there."""
    several = _SEVERAL.search(word)
    if word and not several and not _PARTS.search(word):
        return word
    if not word or "[secret]" in word or again(word) != word:
        return _STANDS_IN * max(1, len(word))
    if not several:
        return _PARTS.sub(_STANDS_IN, word)
    head = _HEAD.match(word)
    kept = head[0] if head else ""
    return kept + _STANDS_IN * (len(word) - len(kept))


def _as_written(word: str, written: str, shown: str) -> str:
    """The word with what was masked in it, and else as it was."""
    before = _same(written, shown)
    behind = _same(written[before:][::-1], shown[before:][::-1])
    return word[:before] + shown[before : len(shown) - behind] + word[len(word) - behind :]


def _same(one: str, other: str) -> int:
    """In how many letters two texts begin alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
