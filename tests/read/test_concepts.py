"""The tables of words: what a text speaks of, and what that says together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from expressions import parser

from envcheck.engine.rule import RuleTexts
from envcheck.read.concepts import _LETTERS, Said, table
from envcheck.read.counted import COUNTED
from envcheck.read.gists import heard, read_complaints, rows, told_faults
from envcheck.tables.folders import rules_folder

LANGUAGES = frozenset(("any", "en", "de", "fr", "es", "pt", "it", *_LETTERS))
ROWS = [
    pytest.param(kind, row, id=f"{kind}-{number}-{row.get('rule', 'nothing')}")
    for kind, some in rows().items()
    for number, row in enumerate(some)
]
PHRASES = [(concept, name, phrase) for concept, row in table().items() for name in row if name != "not_after" for phrase in row[name]]


def said(kind: str, text: str) -> list[tuple[str, str]]:
    signs = told_faults(text, "post") if kind != "complaint" else getattr(read_complaints(text), "signs", ())
    return [(one.rule, one.variant) for one in signs]


@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_the_example_of_a_row_tells_its_rule_and_no_other(kind: str, row: dict[str, Any]) -> None:
    told = said(kind, row["example"])
    meant = [(row["rule"], row.get("variant", ""))] if "rule" in row else []
    assert (told[:1] if row.get("goes_on") else told) == meant


@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_a_row_needs_each_of_its_concepts(kind: str, row: dict[str, Any]) -> None:
    """Without the words of a concept the row says nothing; and no two concepts are the same words, or one would do."""
    for concept in row["every"]:
        if concept not in COUNTED:
            assert heard(Said(without(row["example"], concept)), row) is None
    named = [one for one in row["every"] if one not in COUNTED]
    for one, other in itertools.permutations(named, 2):
        assert Said(without(row["example"], one)).find(other) or nested(row["example"], one, other)


def nested(text: str, one: str, other: str) -> bool:
    """Whether one concept stands within the words of the other: the narrower one says more."""
    a, b = Said(text).find(one), Said(text).find(other)
    return a is not None and b is not None and (a.start, a.end) != (b.start, b.end)


def without(text: str, concept: str) -> str:
    for _ in range(40):
        if (place := Said(text).find(concept)) is None:
            return text
        text = text[: place.start] + "\N{BULLET}" + text[max(place.end, place.start + 1) :]
    raise AssertionError(concept)


def test_every_concept_is_asked_for_and_there() -> None:
    keys = ("every", "some", "unless", "unless_line")
    asked = {one for kind in rows().values() for row in kind for key in keys for one in row.get(key, ())}
    assert asked <= table().keys() | COUNTED.keys()
    assert not table().keys() & COUNTED.keys()
    by_code = {"over", "exit-code", "windows-code", "asked-about", "channel", "goes-on", "driver-stated", "cuda-of-build", "open-module"}
    by_code |= {"driver-file", "container-started", "served-by-several", "room-given", "several-gpus", "single-machine", "run-fails"}
    by_code |= {"collective-of-rank"}
    assert asked | by_code | {one for row in table().values() for one in row.get("not_after", ())} == table().keys() | COUNTED.keys()


def test_rules_of_rows_are_rules() -> None:
    known = set(RuleTexts((rules_folder(),)).ids)
    assert {row["rule"] for kind in rows().values() for row in kind if "rule" in row} <= known
    assert {one for kind in rows().values() for row in kind for one in row.get("explains", ())} <= known


def test_phrases_are_filed_under_their_language() -> None:
    assert {language for _, language, _ in PHRASES} <= LANGUAGES
    assert [
        one for one in PHRASES if one[1] not in _LETTERS and any(needs(parser.parse(one[2]), letter) for letter in _LETTERS.values())
    ] == []
    assert [one for one in PHRASES if one[1] in _LETTERS and not needs(parser.parse(one[2]), _LETTERS[one[1]])] == []


def needs(tree: Any, letter: re.Pattern[str]) -> bool:
    """Whether all that an expression matches has such a letter."""
    return any(_item_needs(str(name), argument, letter) for name, argument in tree)


def _item_needs(name: str, argument: Any, letter: re.Pattern[str]) -> bool:
    match name:
        case "LITERAL":
            return bool(letter.match(chr(argument)))
        case "IN":
            return all(letter.match(one) for one in _first_of(argument))
        case "BRANCH":
            return all(needs(branch, letter) for branch in argument[1])
        case "SUBPATTERN":
            return needs(argument[-1], letter)
        case "MAX_REPEAT" | "MIN_REPEAT":
            return argument[0] > 0 and needs(argument[2], letter)
        case "ASSERT":
            return needs(argument[1], letter)
    return False


def _first_of(tests: Any) -> Iterator[str]:
    for name, argument in tests:
        yield chr(argument) if str(name) == "LITERAL" else chr(argument[0]) if str(name) == "RANGE" else "a"


def test_a_phrase_is_one_and_no_list() -> None:
    """`\\b` before the first of "\\bone|two" would be put before both."""
    inside = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|\((?:[^()\[\\]|\\.)*\)")
    for _, _, phrase in PHRASES:
        rest = phrase
        while (shorter := inside.sub("", rest)) != rest:
            rest = shorter
        assert "|" not in rest, phrase


def test_a_phrase_stands_once_in_its_concept() -> None:
    assert len(set(PHRASES)) == len(PHRASES)


def test_words_edge_is_not_asked_for_behind_a_letter_that_is_not_ascii() -> None:
    assert [one for one in PHRASES if re.search(r"[^\x00-\x7f]\)?\??\\b", one[2])] == []
