"""Secrets of a list, a set or a tuple below a name for one: api_key=['…'], {"passwords": ["…", "…"]}, api_keys: and items below it.

Behind the name alone what stands there is a secret, a plain word too: so are those that somebody has thought of."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from envcheck.facts.secret_references import OF_ANOTHER, is_reference, of_a_state

_QUOTE = r"\\{0,3}[\"']"
_WORD = r"(?:\[secret\]|[^\s\"'\\,;:\[\](){}<>#]{4,400})"
_QUOTED = rf"{_QUOTE}(?:\[secret\]|[^\"'\\\n\[\](){{}}]{{0,400}}){_QUOTE}"
_HELD = (
    re.compile(
        rf"(?<![\w.-])([\w.-]{{3,80}})(?:{_QUOTE})?\]?\s{{0,8}}(?:=>|[=:](?![=:]))\s{{0,8}}(?:(?:list|set|tuple|frozenset|deque)\()?"
        rf"[\[({{]\s{{0,40}}(?:[bBrRuU]?{_QUOTED}\s{{0,8}},?\s{{0,40}}){{1,40}}(?=[\])}}]|\.\.\.|\Z)"
    ),
    re.compile(rf"(?<![\w.-])([\w.-]{{3,80}}):\x20\[\x20?{_WORD}(?:,\x20{{0,4}}{_WORD}){{0,40}}\x20?\]"),
    re.compile(
        rf"(?<![\w.-])([\w.-]{{3,80}}):[\x20\t]{{0,8}}\n(?:[\x20\t]{{0,40}}-[\x20\t]{{1,8}}{_WORD}[\x20\t]{{0,8}}(?:\n|\Z)){{1,40}}"
    ),
)
_MEMBERS = (
    re.compile(rf"(?<=[\"'])(?<![\w\"'][\"'])[^\s\"'\\,\[\](){{}}]{{4,400}}(?={_QUOTE})"),
    re.compile(rf"(?<=[\[\s,]){_WORD}(?=[\s,\]])"),
    re.compile(rf"(?<=[\s]){_WORD}(?=\s|\Z)"),
)
# What is told of a secret, names of several, and words of a vocabulary
_OF_ANOTHER = re.compile(
    rf"{OF_ANOTHER}s?|(?i:(?:[\w-]{{0,80}}[_.-])?(?:tokens?|credentials)|[\w.-]{{0,80}}secrets|[\w.-]{{0,80}}(?:validator|hasher|source|provider"
    r"|backend|pattern|arg|param|var|scope|error|message|option|requirement|rule|column|reason|role|check)s?)"
)
_OF_A_SERVICE = re.compile(r"(?i)(?:hf|hub|auth|access|api|bearer|refresh|session|bot|github|gitlab|wandb)[_-]?tokens?\Z")
_KEPT = re.compile(r"\[?secret\]?|\$|[<*…%]|\.\.\.|(?i:none|true|false|null|empty)(?![\w-])")


def collections_masked(text: str, mask: str, named: Callable[[str], bool]) -> str:
    """Text without them."""
    if "[" not in text and "{" not in text and "(" not in text and "\n" not in text:
        return text
    for held, member in zip(_HELD, _MEMBERS, strict=True):
        text = held.sub(partial(_without, member, mask, named), text)
    return text


def _of_secrets(name: str, named: Callable[[str], bool]) -> bool:
    return named(name) and (bool(_OF_A_SERVICE.search(name)) or not _OF_ANOTHER.fullmatch(name))


def _without(member: re.Pattern[str], mask: str, named: Callable[[str], bool], found: re.Match[str]) -> str:
    if not _of_secrets(found[1], named):
        return found[0]
    begin = found.end(1) - found.start()

    def hidden(one: re.Match[str]) -> str:
        kept = one.start() < begin or _KEPT.match(one[0]) or of_a_state(one[0]) or is_reference(one.string, one.start(), one.start())
        return one[0] if kept else mask

    return member.sub(hidden, found[0])
