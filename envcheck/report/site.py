"""A site's folder of rules, looked through before it counts: what nothing would read, or would break a run, is a mistake."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from envcheck.checks.thresholds import ThresholdError, conditions
from envcheck.engine.rule import FAMILY_RANK, LAYERS, RuleTexts
from envcheck.errors import UsageError, near_word
from envcheck.facts.printable import one_line
from envcheck.symptoms.scan import SymptomTable
from envcheck.tables.compat import Tables
from envcheck.tables.file import HEAD, TableFile
from envcheck.tables.folders import Folder, folders_in, is_file, is_folder, rules_folder, toml_files
from envcheck.tables.toml import load_toml

T = TypeVar("T")
COMPAT, PLAN, SYMPTOMS, LANGUAGES = "compat", "plan", "symptoms", "languages"


def check_site(folder: Folder) -> None:
    """UsageError, with the file, unless each of a site's files can be read and is about a rule, table or text that exists."""
    if not is_folder(folder):
        raise UsageError(f"rules folder {folder}: there is none")
    for part in ("", *folders_in(folder)):
        for path in toml_files(folder, part).values():
            if not is_file(path):  # an open of a FIFO waits for ever
                raise UsageError(f"{path}: not a file")
    _check_places(folder)
    _check_texts_of_rules(folder)
    _check_tables(folder)
    _check_plan(folder)
    _check_symptoms(folder)
    _check_languages(folder)


def _check_places(folder: Folder) -> None:
    """A rule that stands where nothing reads it is a gate that is not there."""
    known = (*FAMILY_RANK, COMPAT, PLAN, SYMPTOMS, LANGUAGES)
    for part in ("", *(name for name in folders_in(folder) if name not in known)):
        for name, path in toml_files(folder, part).items():
            if _is_rule(path):
                near = near_word(part, known)
                hint = f"; did you mean {near}/{name}.toml?" if near else f", as in limits/{name}.toml"
                raise UsageError(f"{path}: a rule stands in the folder of its family{hint}")
    if not any(toml_files(folder, part) for part in known):
        raise UsageError(f"rules folder {folder}: it holds no rule, text, symptom or table; a rule stands there as limits/NAME.toml")


def _is_rule(path: str) -> bool:
    """Whether a file that may be anybody's is one of ours."""
    try:
        return not {"when", "symptom"}.isdisjoint(load_toml(path))
    except (OSError, ValueError):
        return False


def _readable(path: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, re.error) as error:  # not TOML, or values of another shape
        said = " ".join(str(error).split()).removeprefix(f"{path}: ")
        raise UsageError(f"{path}: cannot be used: {said}") from None


def _content(path: str) -> Mapping[str, Any]:
    return _readable(path, lambda: load_toml(path))


def _check_texts_of_rules(folder: Folder) -> None:
    ours, both = RuleTexts((rules_folder(),)), RuleTexts((rules_folder(), folder))
    for family in FAMILY_RANK:
        for rule, path in toml_files(folder, family).items():
            content = _content(path)
            if "when" in content:
                _check_own(path, rule, content, ours)
            elif ours.family(rule) != family:
                raise UsageError(
                    f"{path}: no rule of the family {family} is called {rule!r}; `envcheck rules` lists them"
                    " (a rule of your own has [[when]])"
                )
            else:
                _check_kinds(path, content)
            _readable(path, lambda rule=rule: both.read(rule))  # type: ignore[misc]  # bound to the loop's own value


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_A_TEXT, _TEXTS = ("a text in quotes", _is_text), ("a list of texts", _are_texts)
# Keys of a site's own rule: what is expected of their values, and whether a value is that. The first two are required.
_KEYS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "severity": ("one of error, warning, info", lambda value: value in ("error", "warning", "info")),
    "title": _A_TEXT,
    "confidence": ("certain or likely", lambda value: value in ("certain", "likely")),
    "message": _A_TEXT,
    "why": _A_TEXT,
    "confirm": _A_TEXT,
    "notes": _TEXTS,
    "docs": _TEXTS,
    "layer": (f"one of {', '.join(LAYERS)}", lambda value: value in LAYERS),
    "fix": ("a text in quotes, or tables [[fix]]", lambda value: _is_text(value) or _are_fixes(value)),
}
# The same of keys that ours have besides, which a site says otherwise.
_OURS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    **_KEYS,
    "since": _A_TEXT,
    "about": _A_TEXT,
    "messages": ("a table of texts", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))),
    "variants": ("a table of tables", lambda value: isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())),
    "explains": _TEXTS,
    "decides": _TEXTS,
    "rank": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "example": ("tables [[example]]", lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value)),
}
# Kind of a [[fix]] → the keys without which it says nothing.
_FIXES = {"manual": ("text",), "env": ("name",), "install": ("requirements",), "torch": ()}


def _are_fixes(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and one.get("kind") in tuple(_FIXES) and all(key in one for key in _FIXES[one["kind"]]) for one in value
    )


def _check_own(path: str, rule: str, content: Mapping[str, Any], ours: RuleTexts) -> None:
    """A rule of the site's own: a name that is free, texts, and thresholds that fit their facts."""
    if ours.family(rule):
        raise UsageError(f"{path}: when: the condition of {rule} is envcheck's; give a rule of your own another name")
    if not re.fullmatch(r"[a-z][a-z0-9]{0,40}(?:-[a-z0-9]{1,40}){0,12}", rule):
        raise UsageError(f"{path}: a rule's name is words in small letters with hyphens, as in scratch-too-small")
    for key, value in content.items():
        if key != "when" and key not in _KEYS:
            near = near_word(key, _KEYS)
            hint = f"did you mean {near!r}?" if near else f"there are {', '.join(_KEYS)}"
            raise UsageError(f"{path}: unknown key {one_line(key, 60)!r}; {hint}")
        if key != "when" and not _KEYS[key][1](value):
            raise UsageError(f"{path}: {key} = {one_line(str(value), 60)!r}: {_KEYS[key][0]} is expected")
    for key in ("severity", "title"):
        if key not in content:
            raise UsageError(f"{path}: {key} is missing: {_KEYS[key][0]} is expected")
    for key in ("title", "message"):
        unknown = _readable(path, lambda key=key: _placeholders(content.get(key, ""))) - ({"found"} if key == "message" else frozenset())  # type: ignore[misc]
        if unknown:
            raise UsageError(
                f"{path}: {key}: nothing fills {{{min(unknown)}}}" + ("; {found} is what was found" if key == "message" else "")
            )
    try:
        conditions(content["when"])
    except ThresholdError as error:
        raise UsageError(f"{path}: {error}") from None


def _check_kinds(path: str, content: Mapping[str, Any]) -> None:
    """What a site says otherwise of a rule of ours has the kind that ours has."""
    for key, value in content.items():
        if key in _OURS and not _OURS[key][1](value):
            raise UsageError(f"{path}: {key} = {one_line(str(value), 60)!r}: {_OURS[key][0]} is expected")


def _check_tables(folder: Folder) -> None:
    ours = Tables((rules_folder(COMPAT),))
    for name, path in toml_files(folder, COMPAT).items():
        if name not in toml_files(rules_folder(COMPAT)):
            raise UsageError(f"{path}: there is no table {name!r} that it could add to")
        content = _content(path)
        _readable(path, lambda name=name: Tables((rules_folder(COMPAT), f"{folder}/{COMPAT}")).table(name))  # type: ignore[misc]
        _check_rows(path, ours.table(name), content)


def _check_rows(path: str, ours: TableFile, content: Mapping[str, Any]) -> None:
    """A site's rows hold what all of ours hold, in values of the same kind."""
    for section, values in content.items():
        if section in HEAD:
            continue
        rows = ours.rows(section)
        if not rows:
            raise UsageError(f"{path}: the table {ours.name} has no section {section!r}")
        for number, row in enumerate(values["rows"], 1):
            absent = [key for key in rows[0] if key not in row and all(key in one for one in rows)]
            other = [key for key in row if (kinds := {type(one[key]) for one in rows if key in one}) and type(row[key]) not in kinds]
            if absent or other:
                what = f"has no {absent[0]!r}" if absent else f"has another kind of {other[0]!r} than the rows of envcheck"
                raise UsageError(f"{path}: row {number} of {section} {what}")


def _check_plan(folder: Folder) -> None:
    """Texts with names and placeholders that the planner knows."""
    ours = Tables(()).plan_texts()
    for name, path in toml_files(folder, PLAN).items():
        if name != "texts":
            raise UsageError(f"{path}: of the planner a site can change texts.toml alone")
        for section, texts in _content(path).items():
            for key, text in texts.items() if isinstance(texts, dict) else ():
                known = ours.get(section, {}).get(key)
                if not isinstance(known, str) or not isinstance(text, str):
                    raise UsageError(f"{path}: the planner has no text {section}.{key}")
                unknown = _readable(path, lambda text=text: _placeholders(text)) - _placeholders(known)  # type: ignore[misc]
                if unknown:
                    raise UsageError(f"{path}: {section}.{key}: nothing fills {{{min(unknown)}}}")


def _placeholders(text: str) -> frozenset[str]:
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def _check_symptoms(folder: Folder) -> None:
    rules = RuleTexts((rules_folder(),)).ids
    for path in toml_files(folder, SYMPTOMS).values():
        for rows in _content(path).values():
            for row in rows if isinstance(rows, list) else ():
                more = row.get("also", ()) if isinstance(row, dict) else ()
                if not isinstance(more, list | tuple):
                    raise UsageError(f"{path}: also = {one_line(str(more), 60)!r}: a list of rules is expected")
                also = [one.get("rule") if isinstance(one, dict) else one for one in more]
                for rule in (row.get("rule"), *also) if isinstance(row, dict) else ():
                    if rule is not None and rule not in rules:
                        raise UsageError(f"{path}: no rule is called {rule!r}; `envcheck rules` lists them")
    _readable(f"{folder}/{SYMPTOMS}", lambda: [row.pattern for row in SymptomTable((folder,)).messages])


def _check_languages(folder: Folder) -> None:
    for path in toml_files(folder, LANGUAGES).values():
        for name, table in _content(path).items():
            if name != "sources" and not (isinstance(table, dict) and all(map(_are_texts, table.values()))):
                raise UsageError(f"{path}: [{name}] is not a table of lists of texts")
