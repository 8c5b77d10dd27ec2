"""Secrets of a list, a set or a tuple below a name for one: api_key=['…'], {"passwords": ["…", "…"]}, api_keys: and items below it.

Behind the name alone what stands there is a secret, a plain word too."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from envcheck.facts.secret_references import is_reference, of_a_state
from envcheck.facts.secret_shapes import drawn, thought_of

_NAME = r"(?<![\w.-])([\w.-]{3,80})"
# A name for secrets ends with the word for them, or says behind it which of them. What does not tells of them, or is a package:
# password_policy, secretstorage. Below those only what looks like a secret is one.
_ENDS = re.compile(
    r"(?i)(?:pass(?:words?|wds?|phrases?|codes?|keys?)?|pwds?|pw|pat|psk|secrets?|keys?|tokens?|cookies?|connection_?strings?|codes?|credential)"
    r"(?:[_.-]?(?:lists?|array|dict|map|by_?\w{1,20}|fallbacks?|values?|history|old|new|prev(?:ious)?|backup|prod(?:uction)?|dev|staging|test|tmp"
    r"|primary|secondary|base|v?\d{1,4})|[_.-][ab])?\Z"
)
# Names of several, words of a vocabulary, the working folder, steps of a model or a compiler
_OF_OTHERS = re.compile(
    r"(?i)[\w.-]{0,80}tokens?|(?:\w{0,40}pull_?secrets?|secrets)|pwd"
    r"|(?:[\w.-]{0,60}[_.-])?(?:forward|backward|fusion|\w{0,10}process|grad|graph|custom|pre|post|first|second|single|one|two|no|by|lowering)_?pass"
)
_OF_A_SERVICE = re.compile(
    r"(?i)(?:(?:hf|hub|auth|access|api|bearer|refresh|bot|github|gitlab|wandb|slack|vault|consul|discord|telegram|openai|npm|pypi|jwt|csrf|admin"
    r"|deploy|runner|registration|join)[_-]?tokens?(?:_?\d{1,3})?|session[_-]?tokens?)\Z"
)
_QUOTE = r"\\{0,3}[\"']"
_QUOTED = rf"[bBrRuU]{{0,2}}{_QUOTE}(?:\[secret\]|[^\"'\\\n\[\](){{}}]{{0,400}}){_QUOTE}"
_WORD = r"(?:\[secret\]|[^\s\"'\\,;:\[\](){}<>#]{4,400})"
_ITEM = rf"(?:(?:\w{{1,20}}\()?{_QUOTED}\)?|None|\d{{1,20}})(?!\s{{0,8}}:)"  # no key of a mapping
# No text is read in two ways, here and below: a mark parts two items, or blanks alone do
_PARTED = r"(?:\s{0,40},\s{0,40}|\s{1,40}(?!,))"
# As tables, arguments that are printed and languages part a name from its value
_SIGN = (
    rf"(?:{_QUOTE})?\]?(?:\s\(\d{{1,4}}\))?(?::\s?(?i:list)\[str\])?"
    r"(?:\s{0,40}(?:=>|->|:=|[=:|](?![=:])|\.{3,90})\s{0,8}|\x20{2,40})(?:[A-Za-z_.]{1,30}[!(]|\[\]string)?"
)
_COMMENT = r"[\x20\t]{0,8}(?:\x20#[^\r\n]{0,200})?\r?(?:\n|\Z)"
_LINES = r"(?:[\x20\t]{0,40}(?:#[^\r\n]{0,200})?\r?\n){0,3}"  # empty ones and comments
_HELD = (
    re.compile(rf"{_NAME}{_SIGN}[\[({{]{{1,3}}\s{{0,40}}{_ITEM}(?:{_PARTED}{_ITEM}){{0,400}}"),
    re.compile(rf"{_NAME}(?::\x20?|=)\[\x20?{_WORD}(?:(?:,\x20{{0,4}}|\x20){_WORD}){{0,400}}\x20?\]"),
    re.compile(rf"{_NAME}:{_COMMENT}{_LINES}(?:[\x20\t]{{0,40}}-[\x20\t]{{1,8}}(?:{_QUOTED}|{_WORD}){_COMMENT}){{1,400}}"),
)
_MEMBERS = (
    re.compile(rf"(?<=[\"'])[^\s\"'\\,\[\](){{}}]{{4,400}}(?={_QUOTE})"),
    re.compile(rf"(?<=[\[\s,]){_WORD}(?=[\s,\]])"),
    re.compile(rf"(?:(?<=-\s)|(?<=-\s[\"'])){_WORD}(?=[\s\"']|\Z)"),
)
_KEPT = re.compile(r"\[?secret\]?|\$[A-Za-z_{(]|<[\w-]{1,40}>|[*…%]|\.\.\.|(?i:none|true|false|null|empty)(?![\w-])")
_A_NAME = re.compile(r"[A-Z][A-Z_]{1,60}|[a-z]{1,40}(?:_[a-z]{1,40}){0,4}")


def collections_masked(text: str, mask: str, named: Callable[[str], bool]) -> str:
    """Text without them."""
    for held, member in zip(_HELD, _MEMBERS, strict=True):
        text = held.sub(partial(_without, member, mask, named), text)
    return text


def _of_secrets(name: str, named: Callable[[str], bool]) -> bool:
    if _OF_A_SERVICE.search(name):
        return True
    return bool(_ENDS.search(name)) and named(name) and not _OF_OTHERS.fullmatch(name)


def _without(member: re.Pattern[str], mask: str, named: Callable[[str], bool], found: re.Match[str]) -> str:
    whole, name = found[0], found[1]
    every = _of_secrets(name, named)
    if not every and not named(name):
        return whole
    begin = re.search(r"[:=]", whole)

    def hidden(one: re.Match[str]) -> str:
        said = one[0]
        kept = (begin and one.start() < begin.end()) or _KEPT.match(said) or (_A_NAME.fullmatch(said) and named(said))
        kept = kept or not (every or thought_of(said, False) or drawn(said))
        return said if kept or of_a_state(said) or is_reference(whole, one.start(), one.start()) else mask

    return member.sub(hidden, whole)
