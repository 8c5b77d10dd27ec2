"""A finished report in another language.

Everything is judged, planned and written in English. What is for people is then said otherwise: the texts of rules by rule and message,
all other sentences as phrases with holes. What has no translation stays English. Rule ids, commands, evidence and the keys of JSON belong
to no language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from envcheck.report.english import English
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

Parts: TypeAlias = Sequence[tuple[str, str | None]]  # literal, then the name of the hole behind it; the last has none
Templates: TypeAlias = Sequence[tuple[Parts, str]]
Phrases: TypeAlias = tuple[tuple[str, str], ...]
DEEP = 4  # a phrase in the hole of a phrase in the hole of a phrase
MOST_CHARACTERS = 2000
# Holes of machine text, of which only what we say in its absence ("not set") is ours: one word of it can be one of ours by chance.
_MACHINE = frozenset({"file", "path", "value", "spec", "entry", "symbol", "statement", "said", "family"})
_QUOTED = ("=", '"', "`")  # so is what stands behind these
_NUMBERS = frozenset({"n", "all", "ok", "bad", "seen", "seconds", "bytes"})  # holes of numbers
_ONE = frozenset({"version", "cuda", "rate", "size"})  # holes of one thing, which a list does not fit
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z]|(?:envcheck|torch|gloo) )")
_STOP = re.compile(r"(?<=。)(?=.)")
_WORDS = re.compile(r"[a-z]{2} [a-z]{2}|^(?:an?|no|the) ")
_LETTERS = re.compile(r"[A-Za-z]")
_NAME = re.compile(r"[\w.+, -]{2,60}")  # "torch 2.15.0", a rule, a trial: what may stand before a colon
_BLANK = re.compile(r"(?<=[\u3000-\u9fff\uff01-\uff5e]) (?=[\u3000-\u9fff\uff01-\uff5e])")  # between two wide characters


class Language(English):
    """The phrases of one language. No record: redaction, which walks through a report, has nothing to find in it."""

    def __init__(self, code: str, phrases: Phrases, planned: Phrases = (), of_job: Phrases = ()) -> None:
        self.code = code
        self.phrases = phrases
        self.planned = planned  # what the planner says: of fixes and plans alone, since some of it is short enough to be met elsewhere
        self.of_job = of_job

    @cached_property
    def planner(self) -> Language:
        """The same with the planner's phrases."""
        return Language(self.code, (*self.phrases, *self.planned))

    @cached_property
    def job(self) -> Language:
        """The same with the phrases of a job's report, which renderers alone say: "on" and "slow" mean something else in a message."""
        return Language(self.code, (*self.phrases, *self.of_job))

    @cached_property
    def _exact(self) -> Mapping[str, str]:
        return {english: said for english, said in self.phrases if "{" not in english}

    @cached_property
    def _templates(self) -> tuple[Templates, Templates]:
        """Those of several clauses, and the others; in both the ones that say most first: of two that fit, the one with more words of its
        own is meant."""
        rows = sorted(((parts_of(english), said) for english, said in self.phrases if "{" in english), key=lambda row: -own_words(row[0]))
        several = [row for row in rows if any("; " in literal for literal, _ in row[0])]
        return several, [row for row in rows if row not in several]

    def say(self, text: str, deep: int = DEEP) -> str:
        """A text of envcheck in this language, its values too; the text itself where there is no translation."""
        if not text or len(text) > MOST_CHARACTERS or deep < 0:
            return text
        several, others = self._templates
        return (
            self._exact.get(text)
            or self._from_template(several, text, deep)
            or self._in_pieces(_SENTENCE.split(text), "", deep)
            or self._in_pieces(text.split("; "), "；", deep)
            or self._from_template(others, text, deep)
            or self._in_pieces(text.split(", "), "，", deep)
            or self._behind_name(text, deep)
            or text
        )

    def fill(self, said: str, parts: Parts, caught: Mapping[str, str], deep: int = DEEP) -> str:
        """A translated template with the values of the English text; machine text among them stays as it is."""
        machine = {name for literal, name in parts if name and (name in _MACHINE or literal.endswith(_QUOTED))}
        values = {name: self._absence(value) if name in machine else self.say(value, deep - 1) for name, value in caught.items()}
        return _BLANK.sub("", said.format_map(values))

    def _absence(self, value: str) -> str:
        return self._exact.get(value, value) if " " in value else value

    def _from_template(self, templates: Templates, text: str, deep: int) -> str:
        for parts, said in templates:
            caught = caught_by(parts, text)
            if caught and all(_fits(name, value) for name, value in caught.items()):
                return self.fill(said, parts, caught, deep)
        return ""

    def _in_pieces(self, pieces: Sequence[str], glue: str, deep: int) -> str:
        """Several sentences, or a list, if each of them has a translation or is a name."""
        said = [self.say(one, deep - 1) for one in pieces] if len(pieces) > 1 else []
        whole = said != pieces and not any(one == ours and _WORDS.search(ours) for one, ours in zip(said, pieces, strict=False))
        return glue.join(said) if whole else ""

    def _behind_name(self, text: str, deep: int) -> str:
        """ "torch-missing: not read": the reason alone."""
        name, colon, reason = text.partition(": ")
        said = self.say(reason, deep - 1) if colon and _NAME.fullmatch(name) and not _WORDS.search(name) else reason
        return f"{self.say(name, deep - 1)}：{said}" if said != reason else ""


@lru_cache(maxsize=2)
def language(code: str) -> Language:
    """The phrases of a language of `rules/lang`."""
    own = load_toml(rules_folder(f"lang/{code}/report.toml"))
    ours, theirs = (load_toml(rules_folder(path)) for path in ("plan/texts.toml", f"lang/{code}/plan.toml"))
    return Language(code, (*own["phrases"].items(), *own["symptoms"].items()), tuple(_pairs(ours, theirs)), tuple(own["job"].items()))


def _pairs(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The planner's texts by their keys. One that has no words of its own ("{name}: {why}") would fit anything."""
    for section, rows in theirs.items():
        for key, said in rows.items():
            english = ours[section][key]
            sentences = list(zip(_SENTENCE.split(english), _STOP.split(said), strict=False))
            for one in {(english, said), *(sentences if len(sentences) > 1 else ())}:
                if len(_LETTERS.findall("".join(literal for literal, _ in parts_of(one[0])))) > 2:
                    yield one


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


def _fits(name: str, value: str) -> bool:
    return bool(value) and (name not in _NUMBERS or value[0].isdigit()) and (name not in _ONE or ", " not in value)
