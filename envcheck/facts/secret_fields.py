"""Secrets whose name stands apart from them: elsewhere in a small object, in the flag that a call declares, in what a variable is without a
value, in the command of a store of secrets."""

from __future__ import annotations

import re
from collections.abc import Callable

from envcheck.facts.secret_references import OF_ANOTHER, PREFIX, is_reference
from envcheck.facts.secret_shapes import drawn, thought_of

_KEPT = r"(?!\[secret\]|\$(?![\"'])|[<{*…]|\.\.\.|(?i:none|true|false|null)(?![\w-]))"
_QUOTE = r"\\{0,3}[\"']"
_VALUE = r"((?<=\")[^\"\\\n]{4,400}|(?<=')[^'\\\n]{4,400}|[^\s\"'<>,;|&\\{}()\[\]]{4,400})"
_NEAR = 240  # characters of a small object on either side of a value
_NUMBER = re.compile(r"[\d.+-]{1,40}(?:e[+-]?\d{1,4})?")

# ------------------------------------------------------------------ an object: the value may stand before its name, or below it

_FIELD = re.compile(
    rf"(?<![\w.-])((?i:value|default)(?:{_QUOTE})?\s{{0,8}}(?:=>|[=:](?![=:]))\s{{0,8}}(?:(?<=:\x20)(?:[|>][+-]?\n\s{{1,40}}|&\w{{1,20}}\x20))?"
    rf"{PREFIX}(?:{_QUOTE})?){_KEPT}{_VALUE}"
)
_NAMING = re.compile(
    rf"(?<![\w.-])(?i:name|key|variable|id|field)(?:{_QUOTE})?\s{{0,8}}(?:=>|[=:](?![=:]))\s{{0,8}}(?:{_QUOTE})?([\w.:/-]{{1,80}})"
)
# What begins and ends an object or an item; a "-" before "name = …" is a line that terraform removes
_BEGINS = re.compile(r"[{\[(<]|(?<![^\n])[\x20\t]{0,40}-\s(?![\w.]{1,40}\s{1,20}=)|\n[\x20\t]{0,40}\n")
_ENDS = re.compile(r"[}\])<]|(?<![=-])>|\n[\x20\t]{0,40}-\s(?![\w.]{1,40}\s{1,20}=)|\n[\x20\t]{0,40}\r?\n")
_PARENT = re.compile(r"([\w.-]{1,80})(?:[\"'])?\s{0,8}(?:=>|[=:])?\s{0,8}\Z")
_LINE_ABOVE = re.compile(r"([\x20\t]{0,40})(?:-\x20)?[\"']?([\w.-]{1,80})[\"']?:\s{0,8}\Z")


def _of_an_object(named: Callable[[str], bool]) -> Callable[[re.Match[str]], bool]:
    def judge(found: re.Match[str]) -> bool:
        text, start, value = found.string, found.start(), found[2]
        if _NUMBER.fullmatch(value) or (" " in value and not any(map(str.isdigit, value))) or is_reference(text, start, found.start(2)):
            return False
        before = text[max(0, start - _NEAR) : start]
        opened = max(_BEGINS.finditer(before), key=re.Match.end, default=None)
        inside = before[opened.end() :] if opened else before
        names = _NAMING.findall(inside)
        if names:
            return any(map(named, names))
        if opened and opened[0] == "{":
            parent = _PARENT.search(before, 0, opened.start())
            return bool(parent and named(parent[1])) or _named_behind(found, named)
        return _is_below(before, named) or _named_behind(found, named)

    return judge


def _named_behind(found: re.Match[str], named: Callable[[str], bool]) -> bool:
    """Whether the same object goes on to say what the value is called. What is a default has its name before it."""
    if found[1][:1] in "dD":
        return False
    behind = found.string[found.end() : found.end() + _NEAR]
    end = _ENDS.search(behind)
    return any(map(named, _NAMING.findall(behind[: end.start()] if end else behind)))


def _is_below(before: str, named: Callable[[str], bool]) -> bool:
    """Whether the line stands below a name of YAML, further in than that."""
    *above, line = before.split("\n")
    if line.strip() or not line:
        return False
    for one in above[:-6:-1]:
        if len(one) - len(one.lstrip()) < len(line):
            found = _LINE_ABOVE.fullmatch(one)
            return bool(found and named(found[2]))
    return False


# ------------------------------------------------------------------ a flag that a call declares, and what help says of it

_NAME = r"([\w.-]{2,80})"
_DECLARED = re.compile(
    rf"(\b(?:add_argument|option|Option|argument)\([^()\n]{{0,80}}?[\"']--?{_NAME}[\"'][^()]{{0,240}}?\bdefault\s?=\s?{PREFIX}[\"'])"
    r"(?!\[secret\]|[${<])([^\"'\\\n]{4,400})"
)
_HELP = re.compile(
    rf"((?<![\w-])--{_NAME}(?=[\s=,])[^\n]{{0,160}}?(?:\n\x20{{8,40}}[^\n]{{1,100}}?)?(?:\(default:?\s|\[(?:[^\[\]\n]{{1,60}};\s)?default:\s))"
    rf"{_KEPT}([^\s()]{{4,200}}?)(?=\)|\](?:\s|\Z)|;\s)"
)
# ${oc.env:HF_TOKEN,x}, ${HF_TOKEN:-"x"}, PASSWORD="$(echo x)"
_EXPANDED = re.compile(
    rf"(\$\{{(?:[\w.]{{1,20}}:)?{_NAME}(?:,\s{{0,4}}[\"']?|:?[-=]\$?[\"'])){_KEPT}(?![\"'])([^\"'\\\n}}]{{4,400}})"
    rf"|(?<![\w.-])([\w.-]{{2,80}}[\"']?=[\"']?(?:\$\(|`)(?:echo|printf)\s{{1,4}}(?:-\w{{1,2}}\s{{1,4}}|[\"']?%s[\"']?\s{{1,4}})?[\"']?){_KEPT}([^\s\"'()|\\`]{{4,400}})"
)


_OF_ANOTHER = re.compile(OF_ANOTHER)
_PLAIN = re.compile(rf"[a-z]{{1,40}}|{_NUMBER.pattern}")  # auto, environment, 32000


def _of_a_name(named: Callable[[str], bool]) -> Callable[[re.Match[str]], bool]:
    def judge(found: re.Match[str]) -> bool:
        if _OF_ANOTHER.fullmatch(found[2]) or _PLAIN.fullmatch(found[3]):
            return False
        return named(found[2].replace("-", "_")) and not is_reference(found.string, found.start(3), found.start(3))

    return judge


# ------------------------------------------------------------------ names that end in ".key": fs.s3a.secret.key, api.key

_DOTTED = re.compile(
    r"((?:(?<![A-Za-z0-9_])|(?<=[\s\"']-D))(?i:secret|private|api|access|account|signing|shared|encryption|master|session|service|subscription|auth|license|client)\.[kK]ey"
    rf"(?:\.[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,8}})?(?:(?:{_QUOTE})?\s{{0,8}}(?:=>|[=:](?![=:]))\s{{0,8}}{PREFIX}(?:{_QUOTE})?|[\"'],\s{{0,4}}[\"']|\x20{{1,40}}|\t))"
    rf"{_KEPT}{_VALUE}"
)


_OF_A_GROUP = ("service", "shared", "session", "client")  # streams and tables have such keys, too
_DRAWN = re.compile(r"(?![A-Za-z_-]{1,80}[_-]\d{1,4}\Z)(?=[^\d]{0,200}\d)(?=[^A-Za-z]{0,200}[A-Za-z])[^.]{8,400}")
_SIGN = re.compile("[=:]")
_CODE = re.compile(r"\x20=\x20?\Z")  # no quotation mark before the value


def _dotted(found: re.Match[str]) -> bool:
    """Whether a secret stands there: `session.key = name` is code."""
    value = found[2]
    if is_reference(found.string, found.start(), found.start(2)) or "/" in value[:2]:
        return False
    if found[1].lower().startswith(_OF_A_GROUP) and not _DRAWN.fullmatch(value):
        return False
    if thought_of(value, True) or drawn(value):
        return True
    if found[1].endswith((" ", "\t")) and not _SIGN.search(found[1]):  # no sign: spark-defaults.conf
        return found[1].lower().startswith(("secret", "access")) and value.isalnum() and not value.isalpha() and not value.isdigit()
    if _CODE.search(found[1]):
        return False
    return not value.isalpha() or not value.islower() or found[1][0] in "sSpP"


# ------------------------------------------------------------------ names that tables and charts of others have, too

_RANKED = re.compile(
    rf"((?<![\w-])(?i:(?:primary|secondary)_?key|basic_?auth)(?:{_QUOTE})?\s{{0,8}}(?:=>|[=:](?![=:]))\s{{0,8}}{PREFIX}(?:{_QUOTE})?"
    rf"(?:[\w.-]{{1,40}}:(?=\S{{4}}))?){_KEPT}{_VALUE}"
)


def _ranked(found: re.Match[str]) -> bool:
    return thought_of(found[2], False) or drawn(found[2])


# ------------------------------------------------------------------ what a reader of settings could not take, and below it its name

_REFUSED = re.compile(r"(\bValue ')(?!\[secret\])([^'\n]{4,400})(?=' of type '\w{1,20}'[^\n]{0,80}\n)")
_FULL_KEY = re.compile(r"\n\s{0,40}full_key: ([\w.-]{1,120})")


def _of_a_full_key(named: Callable[[str], bool]) -> Callable[[re.Match[str]], bool]:
    def judge(found: re.Match[str]) -> bool:
        name = _FULL_KEY.search(found.string, found.end(), found.end() + _NEAR)
        return bool(name and named(name[1]))

    return judge


# ------------------------------------------------------------------ commands of stores of secrets

_STORE = re.compile(
    r"\b(?:vault\s{1,4}kv\s{1,4}(?:put|patch)|[\w-]{2,20}\s{1,4}secrets?\s{1,4}(?:create|set|put|add|update))\s(?:\\\n|[^\n|;&]){1,2000}"
)
_STORED = re.compile(
    rf"((?<=[\s\"'])(?:[A-Za-z_][\w.-]{{0,80}}=|(?:--body(?=[=\s])|-b(?=[=\s\"']))=?\s{{0,4}})(?:{_QUOTE})?)(?!@|\[secret\]|\$|[<{{*…]){_VALUE}"
)


def fielded(text: str, mask: str, named: Callable[[str], bool]) -> str:
    """Text without the secrets whose name stands apart from them."""
    lower = text.lower()

    def hide(pattern: re.Pattern[str], judge: Callable[[re.Match[str]], bool], where: str) -> str:
        return pattern.sub(
            lambda found: found.string[found.start() : found.start(found.lastindex or 0)] + mask if judge(found) else found[0], where
        )

    if "value" in lower or "default" in lower:
        text = hide(_FIELD, _of_an_object(named), text)
    if "default" in lower:
        text = hide(_HELP, _of_a_name(named), hide(_DECLARED, _of_a_name(named), text))
    if "${" in text or "$(" in text or "`" in text:
        text = _EXPANDED.sub(lambda found: _expanded(found, mask, named), text)
    if ".key" in lower:
        text = hide(_DOTTED, _dotted, text)
    if "ary" in lower or "basic" in lower:
        text = hide(_RANKED, _ranked, text)
    if "full_key" in lower:
        text = hide(_REFUSED, _of_a_full_key(named), text)
    if "secret" in lower or "vault" in lower:
        text = _STORE.sub(lambda found: hide(_STORED, lambda one: not is_reference(one.string, one.start(), one.start(2)), found[0]), text)
    return text


def _expanded(found: re.Match[str], mask: str, named: Callable[[str], bool]) -> str:
    name, at = (found[2], found.start(3)) if found[2] else (found[4], found.start(5))
    return found.string[found.start() : at] + mask if named(name) and not is_reference(found.string, at, at) else found[0]
