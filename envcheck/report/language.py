"""A finished report in another language.

Everything is judged, planned and written in English. What is for people is then said otherwise: the texts of rules by rule and message,
all other sentences as phrases with holes. What has no translation stays English. Rule ids, commands, evidence and the keys of JSON belong
to no language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from envcheck.facts.record import record
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

Parts: TypeAlias = Sequence[tuple[str, str | None]]  # literal, then the name of the hole behind it; the last has none
DEEP = 3  # a phrase in the hole of a phrase in the hole of a phrase
MOST_CHARACTERS = 2000


@record
class Language:
    """The phrases of one language; none is English."""

    code: str = ""  # "zh", as in HTML's lang
    phrases: tuple[tuple[str, str], ...] = ()

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
        if not self.code or not text or len(text) > MOST_CHARACTERS:
            return text
        if text in self._exact:
            return self._exact[text]
        for parts, said in self._templates:
            caught = caught_by(parts, text)
            if caught is not None:
                return said.format_map({name: self._value(name, value, deep) for name, value in caught.items()})
        return text

    def _value(self, name: str, value: str, deep: int) -> str:
        if deep < 1:
            return value
        if name.startswith("list"):
            return "，".join(self.say(one, deep - 1) for one in value.split(", "))
        return self.say(value, deep - 1)


ENGLISH = Language()


@lru_cache(maxsize=2)
def language(code: str) -> Language:
    """The phrases of a language of `rules/lang`."""
    if code in ("", "en"):
        return ENGLISH
    return Language(code, tuple(load_toml(rules_folder(f"lang/{code}/report.toml"))["phrases"].items()))


def parts_of(template: str) -> Parts:
    """A text with holes taken apart: ("gloo on ", "ranks"), (" ranks", None)."""
    from string import Formatter

    parts = [(literal, name) for literal, name, _, _ in Formatter().parse(template)]
    return [*parts, ("", None)] if parts and parts[-1][1] is not None else parts


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


def language_of(given: str | None, env: Mapping[str, str]) -> tuple[str, bool]:
    """The language of `--lang`, and that it was asked for; else that of the locale: "" or "zh". Traditional Chinese has no texts."""
    if given:
        return ("" if given == "en" else given), True
    locale = next((env[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if env.get(name)), "").replace("-", "_").lower()
    traditional = locale.startswith(("zh_tw", "zh_hk", "zh_mo", "zh_hant"))
    return ("zh" if locale.startswith("zh") and not traditional else ""), False
