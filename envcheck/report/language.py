"""A finished report in another language.

Everything is judged, planned and written in English. What is for people is then said otherwise: the texts of rules by rule and message,
all other sentences as phrases with holes. What has no translation stays English. Rule ids, commands, evidence and the keys of JSON belong
to no language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from envcheck.facts.record import record

Parts: TypeAlias = Sequence[tuple[str, str | None]]  # literal, then the name of the hole behind it; the last has none
Phrases: TypeAlias = tuple[tuple[str, str], ...]
DEEP = 4  # a phrase in the hole of a phrase in the hole of a phrase
MOST_CHARACTERS = 2000
# Holes of machine text, which no phrase may touch: a word of a program's error can be one of ours by chance.
_MACHINE = frozenset({"error", "file", "path", "value", "spec", "entry", "symbol", "statement", "said"})
_QUOTED = ("=", '"', "`")  # so is what stands behind these
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_WORDS = re.compile(r"[a-z]{2,} [a-z]{2,}|^(?:an?|no|the) ")
_LETTERS = re.compile(r"[A-Za-z]")


@record
class Language:
    """The phrases of one language; none is English."""

    code: str = ""  # "zh", as in HTML's lang
    phrases: Phrases = ()
    planned: Phrases = ()  # what the planner says: of fixes and plans alone, since some of it is short enough to be met elsewhere

    @cached_property
    def planner(self) -> Language:
        """The same with the planner's phrases."""
        return Language(self.code, (*self.phrases, *self.planned)) if self.code else self

    @cached_property
    def _exact(self) -> Mapping[str, str]:
        return {english: said for english, said in self.phrases if "{" not in english}

    @cached_property
    def _templates(self) -> Sequence[tuple[Parts, str]]:
        """The ones that say most first: of two that fit a text, the one with more words of its own is meant."""
        rows = [(parts_of(english), said) for english, said in self.phrases if "{" in english]
        return sorted(rows, key=lambda row: -own_words(row[0]))

    def say(self, text: str, deep: int = DEEP) -> str:
        """A text of envcheck in this language, its values too; the text itself where there is no translation."""
        if not self.code or not text or len(text) > MOST_CHARACTERS or deep < 0:
            return text
        if text in self._exact:
            return self._exact[text]
        for parts, said in self._templates:
            caught = caught_by(parts, text)
            if caught and all(caught.values()):
                return fill(said, parts, caught, lambda value: self.say(value, deep - 1))
        return self._in_pieces(text, deep)

    def _in_pieces(self, text: str, deep: int) -> str:
        """Sentences and lists, if each piece has a translation or is a name."""
        for pieces, glue in ((_SENTENCE.split(text), ""), (text.split("; "), "；"), (text.split(", "), "，")):
            if len(pieces) < 2:
                continue
            said = [self.say(one, deep - 1) for one in pieces]
            if said != pieces and not any(one == ours and _WORDS.search(ours) for one, ours in zip(said, pieces, strict=True)):
                return glue.join(said)
        return text


ENGLISH = Language()


@lru_cache(maxsize=2)
def language(code: str) -> Language:
    """The phrases of a language of `rules/lang`."""
    if code in ("", "en"):
        return ENGLISH
    from envcheck.tables.folders import rules_folder
    from envcheck.tables.toml import load_toml

    own = load_toml(rules_folder(f"lang/{code}/report.toml"))["phrases"].items()
    ours, theirs = (load_toml(rules_folder(path)) for path in ("plan/texts.toml", f"lang/{code}/plan.toml"))
    return Language(code, tuple(own), tuple(_pairs(ours, theirs)))


def _pairs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The planner's texts by their keys. One that has no words of its own ("{name}: {why}") would fit anything."""
    for section, rows in theirs.items():
        for key, said in rows.items():
            english = ours[section][key]
            if len(_LETTERS.findall("".join(literal for literal, _ in parts_of(english)))) > 2:
                yield english, said


def parts_of(template: str) -> Parts:
    """A text with holes taken apart: ("gloo on ", "ranks"), (" ranks", None)."""
    from string import Formatter

    parts: list[tuple[str, str | None]] = []
    before = ""
    for literal, name, _, _ in Formatter().parse(template):
        before += literal
        if name is not None:  # None stands behind a doubled brace too
            parts.append((before, name))
            before = ""
    return [*parts, (before, None)]


def own_words(parts: Parts) -> int:
    return sum(len(literal) for literal, _ in parts)


def caught_by(parts: Parts, text: str) -> dict[str, str] | None:
    """What the holes of a template stand for in a text that was made from it, each as short as it can be; None if it was not."""
    first, name = parts[0]
    if not text.startswith(first):
        return None
    caught: dict[str, str] = {}
    at = len(first)
    for number, (literal, following) in enumerate(parts[1:], 2):
        last = number == len(parts)
        end = len(text) - len(literal) if last else text.find(literal, at)
        if end < at or (last and not text.endswith(literal)) or name is None:
            return None
        if caught.setdefault(name, text[at:end]) != text[at:end]:
            return None
        at, name = end + len(literal), following
    return caught if at == len(text) else None


def fill(said: str, parts: Parts, caught: Mapping[str, str], say: Callable[[str], str]) -> str:
    """A translated template with the values of the English text; machine text among them stays as it is."""
    verbatim = {name for literal, name in parts if name and (name in _MACHINE or literal.endswith(_QUOTED))}
    return said.format_map({name: value if name in verbatim else say(value) for name, value in caught.items()})


def language_of(given: str | None, env: Mapping[str, str]) -> tuple[str, bool]:
    """The language of `--lang`, and that it was asked for; else that of the locale: "" or "zh". Traditional Chinese has no texts."""
    if given:
        return ("" if given == "en" else given), True
    locale = next((env[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if env.get(name)), "").replace("-", "_").lower()
    traditional = locale.startswith(("zh_tw", "zh_hk", "zh_mo", "zh_hant"))
    return ("zh" if locale.startswith("zh") and not traditional else ""), False
