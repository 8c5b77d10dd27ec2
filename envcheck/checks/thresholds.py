"""Rules of a site: thresholds over facts, written in TOML and typed by the facts that they are about."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from envcheck.engine.rule import Answer, Check, Evidence, Facts, Hit, Unknown
from envcheck.facts.codec import DecodeError, check_path
from envcheck.facts.paths import distribution, walk
from envcheck.facts.record import record
from envcheck.facts.recorded import RECORDED
from envcheck.facts.snapshot import Missing, Why
from envcheck.tables.versions import parsed

if sys.version_info >= (3, 11):
    from re import _parser as regular
else:
    import sre_parse as regular

OPERATORS = {
    "lt": "is less than", "le": "is at most", "eq": "is", "ge": "is at least", "gt": "is more than", "in": "is one of",
    "matches": "matches", "missing": "is not here",
}  # fmt: skip
LARGEST = 1e300  # above it is no fact, and a whole number may be larger than any float
# Last word of a fact's name → the units that a value may have, as multiples of the fact's own.
UNITS: Mapping[str, Mapping[str, float]] = {
    "bytes": {
        "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    },
    "seconds": {"ms": 1e-3, "s": 1, "min": 60, "h": 3600},
    "mhz": {"MHz": 1, "GHz": 1e3},
    "watts": {"W": 1, "kW": 1e3},
    "celsius": {"°C": 1, "C": 1},
    "percent": {"%": 1},
}  # fmt: skip
Value: TypeAlias = "bool | float | str | tuple[float | str, ...]"
STEPS = 1e8  # that a site's own expression may need: a second or two
FEW = 8  # a repeat of no more stands for as many copies of what it repeats


class Kind(Enum):
    NUMBER = "a number"
    SWITCH = "true or false"
    WORD = "a word"  # one of a few
    TEXT = "a text or version"


@record
class Comparison:
    operator: str
    value: Value  # in the unit of the fact
    shown: str  # as the site wrote it


@record
class Condition:
    """All comparisons hold for one fact; with `*` in the path, for one of several."""

    fact: str
    comparisons: tuple[Comparison, ...]

    @property
    def said(self) -> str:
        return f"{self.fact} " + " and ".join(map(_said, self.comparisons))


class ThresholdError(ValueError):
    """What is wrong with a row, with its key, what stands there and what is expected."""


def conditions(rows: object) -> tuple[Condition, ...]:
    """The rows `[[when]]` of a site's rule. ThresholdError for what cannot be meant."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ThresholdError(f"when = {_got(rows)}: one or more tables [[when]] are expected")
    return tuple(_condition(row, f"when {number}") for number, row in enumerate(rows, 1))


def _condition(row: Mapping[str, Any], where: str) -> Condition:
    fact = row.get("fact")
    if not isinstance(fact, str):
        raise ThresholdError(f"{where}: fact = {_got(fact)}: a path is expected, as in limits.shm_bytes")
    kind, words = _kind(fact, f"{where}: fact = {fact!r}")
    comparisons = []
    for operator, value in row.items():
        if operator == "fact":
            continue
        if operator not in OPERATORS:
            raise ThresholdError(f"{where}: unknown key {operator!r}; there are fact, {', '.join(OPERATORS)}")
        comparisons.append(_comparison(operator, value, fact, kind, words, f"{where}: {operator} = {_got(value)}"))
    if not comparisons:
        raise ThresholdError(f"{where}: {fact} is compared with nothing; one of {', '.join(OPERATORS)} is expected")
    if len(comparisons) > 1 and "missing" in row:
        raise ThresholdError(f"{where}: missing stands alone: what is not here cannot be compared")
    return Condition(fact, tuple(comparisons))


def _kind(fact: str, where: str) -> tuple[Kind, tuple[str, ...]]:
    """What can stand at a path; for one of a few words, which."""
    if fact.partition(".")[0] not in (*RECORDED, "live"):
        raise ThresholdError(f"{where}: a path begins with one of {', '.join((*RECORDED, 'live'))}")
    if name := distribution(fact):
        from envcheck.agent.inventory import CONDA_NAMES, wanted

        if name and (wanted(name) or name in CONDA_NAMES):
            return Kind.TEXT, ()
        raise ThresholdError(f"{where}: only distributions that bear on torch are looked for, and {name} is not among them")
    try:
        hint = check_path(fact)
    except DecodeError as error:
        raise ThresholdError(f"{where}: {error}") from None
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Kind.WORD, tuple(str(one.value) for one in hint)
    kinds = {bool: Kind.SWITCH, int: Kind.NUMBER, float: Kind.NUMBER, str: Kind.TEXT}
    if hint not in kinds:
        raise ThresholdError(f"{where}: that is no single value; name a field below it (`.*` stands for each of a list)")
    return kinds[hint], ()


def _comparison(operator: str, value: Any, fact: str, kind: Kind, words: Sequence[str], where: str) -> Comparison:
    if operator == "missing":
        if not isinstance(value, bool):
            raise ThresholdError(f"{where}: true or false is expected")
        return Comparison(operator, value, "")
    if operator == "matches":
        return Comparison(operator, _expression(value, kind, where), repr(value))
    if operator == "in":
        if not isinstance(value, list) or not value:
            raise ThresholdError(f"{where}: a list of values is expected")
        return Comparison(operator, tuple(_value(one, fact, kind, words, where) for one in value), ", ".join(map(str, value)))
    if operator != "eq" and kind in (Kind.SWITCH, Kind.WORD):
        raise ThresholdError(f"{where}: {operator} compares numbers and versions, and {fact} is {kind.value}; use eq")
    if operator != "eq" and kind is Kind.TEXT and not (isinstance(value, str) and parsed(value)):
        raise ThresholdError(f'{where}: a version in quotes is expected, as in "580.65"')
    return Comparison(operator, _value(value, fact, kind, words, where), str(value).lower() if isinstance(value, bool) else str(value))


def _expression(value: Any, kind: Kind, where: str) -> str:
    if kind not in (Kind.TEXT, Kind.WORD):
        raise ThresholdError(f"{where}: matches is for texts, and this fact is {kind.value}")
    try:
        re.compile(value)
    except (TypeError, re.error) as error:
        raise ThresholdError(f"{where}: a regular expression is expected: {error}") from None
    text: str = value
    if _choices(regular.parse(text)) is None:
        raise ThresholdError(f"{where}: a repeat around a repeat or a choice can take for ever; write it as one repeat, [ab]+ for (a|b)+")
    return text


def _choices(parsed: Any) -> int | None:
    """Parts of an expression that can read a text in several ways; None where a repeat multiplies them without end, as in (a+)+."""
    count = 0
    for operation, argument in parsed:
        name = str(operation)
        copies, inner = 1, []
        if name.endswith("_REPEAT"):
            low, high, body = argument
            count += low != high
            copies, inner = int(high), [body]
        elif name == "BRANCH":
            count += 1
            inner = argument[1]
        elif name == "GROUPREF":
            count += 1
        elif isinstance(argument, tuple):
            inner = [part for part in argument if isinstance(part, regular.SubPattern)]
        elif isinstance(argument, regular.SubPattern):
            inner = [argument]
        for part in inner:
            within = _choices(part)
            if within is None or (within and copies > FEW):
                return None
            count += within * copies
    return count


def _longest(expression: str) -> int:
    """How long a text may be that it is tried on: with k choices, a search looks at n^(k+1) / (k+1)! ways through n characters at most."""
    choices = min((_choices(regular.parse(expression)) or 0) + 1, 60)
    return int((STEPS * math.factorial(choices)) ** (1 / choices))


def _value(value: Any, fact: str, kind: Kind, words: Sequence[str], where: str) -> Any:
    match kind:
        case Kind.NUMBER:
            return _number(value, fact, where)
        case Kind.SWITCH if not isinstance(value, bool):
            raise ThresholdError(f"{where}: true or false is expected")
        case Kind.WORD if value not in words:
            raise ThresholdError(f"{where}: one of {', '.join(words)} is expected")
        case Kind.TEXT if not isinstance(value, str):
            raise ThresholdError(f"{where}: a text in quotes is expected")
    return value


def _number(value: Any, fact: str, where: str) -> float:
    units = UNITS.get(fact.rpartition(".")[2].rpartition("_")[2], {})
    number = value
    if isinstance(value, str) and (found := re.fullmatch(r"\s*(-?\d{1,15}(?:\.\d{1,9})?)\s*(\S{1,3})\s*", value)) and found[2] in units:
        number = float(found[1]) * units[found[2]]
    if isinstance(number, bool) or not isinstance(number, int | float) or not -LARGEST < number < LARGEST:
        unit = f', or one with a unit ({", ".join(units)}), as in "8 {list(units)[-1]}"' if units else ""
        raise ThresholdError(f"{where}: a number is expected{unit}")
    return float(number)


def _got(value: object) -> str:
    if as_iso := getattr(value, "isoformat", None):  # a date, as TOML writes it
        return str(as_iso())
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."


def _said(comparison: Comparison) -> str:
    if comparison.operator == "missing":
        return OPERATORS["missing"] if comparison.value else "is here"
    return f"{OPERATORS[comparison.operator]} {comparison.shown}"


# ---- judging


def threshold(rule: str, rows: Sequence[Mapping[str, Any]]) -> Check:
    """The check of a site's rule: it hits where all of its conditions hold, and is unknown where one is and none is known to fail."""
    wanted = conditions(list(rows))
    sections = tuple(dict.fromkeys(one.fact.partition(".")[0] for one in wanted))

    def function(facts: Facts) -> Answer:
        found = [_judged(one, facts) for one in wanted]
        if any(holds is False for holds, _ in found):
            return None
        if unknown := [evidence for holds, evidence in found if holds is None]:
            return Unknown("; ".join(one.text for one in unknown))
        said = "; ".join(f"{evidence.source} {evidence.text}" for _, evidence in found)
        return Hit({"found": said}, tuple(evidence for _, evidence in found))

    # "Nothing found" of one fact means nothing where its section is not there; of several, one that fails decides whatever the rest.
    alone = len(wanted) == 1 and wanted[0].comparisons[0].operator != "missing"
    return Check(rule, function, sections if alone else (), sections)


def _judged(condition: Condition, facts: Facts) -> tuple[bool | None, Evidence]:
    """Whether it holds, and of which fact; None with the reason where that is not known."""
    head = condition.fact.partition(".")[0]
    found = list(walk(facts.missing.get(head) or getattr(facts, head), condition.fact))
    doubt: Evidence | None = None
    if condition.comparisons[0].operator == "missing":
        return _is_missing(condition, found)
    for path, value in found:
        if isinstance(value, Missing):
            if value.why is not Why.ABSENT:
                doubt = doubt or Evidence(path, value.reason)
            continue
        answers = [_holds(comparison, value) for comparison in condition.comparisons]
        if all(answers):
            return True, Evidence(path, f"is {_shown(value)}, and {' and '.join(map(_said, condition.comparisons))}")
        if False not in answers:
            doubt = doubt or Evidence(path, f"{_shown(value)} cannot be compared with {condition.comparisons[answers.index(None)].shown}")
    return (None, doubt) if doubt else (False, Evidence(condition.fact, ""))


def _is_missing(condition: Condition, found: Sequence[tuple[str, Any]]) -> tuple[bool | None, Evidence]:
    """Not here is what is known not to exist. What was not read may be here."""
    wanted = condition.comparisons[0].value
    unread = [(path, value) for path, value in found if isinstance(value, Missing) and value.why is not Why.ABSENT]
    present = any(not isinstance(value, Missing) for _, value in found)
    if unread and not present:
        return None, Evidence(unread[0][0], unread[0][1].reason)
    return present is not wanted, Evidence(condition.fact, _said(condition.comparisons[0]))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}" if isinstance(value, float) else str(value)


def _holds(comparison: Comparison, value: Any) -> bool | None:
    """None where the two cannot be compared: a version that is none, a text too long for an expression."""
    if comparison.operator == "eq":
        return bool(value == comparison.value)
    if comparison.operator == "in":
        return value in comparison.value  # type: ignore[operator]  # a tuple, as _comparison made it
    if comparison.operator == "matches":
        text, expression = str(value), str(comparison.value)
        return re.search(expression, text) is not None if len(text) <= _longest(expression) else None
    mine, other = (parsed(value), parsed(str(comparison.value))) if isinstance(value, str) else (value, comparison.value)
    return None if mine is None or other is None else _ORDER[comparison.operator](mine, other)


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "lt": lambda mine, other: mine < other,
    "le": lambda mine, other: mine <= other,
    "ge": lambda mine, other: mine >= other,
    "gt": lambda mine, other: mine > other,
}
