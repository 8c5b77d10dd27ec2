"""Rules that have a text and messages, and no function."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.checks import all_checks, passed_on
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Confidence, Hit
from envcheck.facts.codec import decode_snapshot
from envcheck.facts.snapshot import Missing, Snapshot, SymptomsFacts, TextEvidence, Why
from envcheck.report.session import report_on, rule_session, verdicts_of
from envcheck.symptoms.scan import SymptomTable
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((rules_folder("compat"),))
GUESS = TextEvidence("a.log", "it may be this", "made-up", variant="guess", confidence="likely", values={"port": "1"})
SURE = TextEvidence("a.log", "it is that", "made-up", variant="that", values={"port": "2"})
LATER = TextEvidence("b.log", "and this too", "made-up", variant="later")
OTHER = TextEvidence("a.log", "something else", "another")


def answer(*matches: TextEvidence) -> Hit | None:
    [verdict] = judge(Snapshot(symptoms=SymptomsFacts(matches)), [passed_on.passed_on("made-up")], TABLES)
    assert verdict.outcome in (Outcome.HIT, Outcome.OK), verdict
    return verdict.hit


def test_the_surest_message_decides_and_of_these_the_first() -> None:
    hit = answer(OTHER, GUESS, SURE, LATER)
    assert hit and hit.variant == "that" and hit.confidence is None and hit.values == {"port": "2"}
    assert [one.text for one in hit.evidence] == ["it is that", "and this too", "it may be this"]


def test_a_guess_alone_stays_one() -> None:
    hit = answer(GUESS)
    assert hit and hit.variant == "guess" and hit.confidence is Confidence.LIKELY


def test_without_a_message_nothing_is_said() -> None:
    assert answer(OTHER) is None and answer() is None


def test_a_text_without_a_function_gets_its_check() -> None:
    checks = all_checks(("driver-too-old", "made-up"))
    assert [one.id for one in checks].count("driver-too-old") == 1 and checks[-1].id != "made-up"
    check = next(one for one in checks if one.id == "made-up")
    for symptoms, outcome in (
        (SymptomsFacts((SURE,)), Outcome.HIT),
        (SymptomsFacts(), Outcome.OK),
        (Missing(Why.FAILED, "unreadable"), Outcome.UNKNOWN),
    ):
        [verdict] = judge(Snapshot(symptoms=symptoms), [check], TABLES)
        assert verdict.outcome is outcome, verdict


def test_a_rule_without_a_function_has_messages() -> None:
    named = {rule for row in SymptomTable((rules_folder(),)).messages for rule in row.rules}
    silent = {one.id for one in all_checks() if one.function.__module__ == passed_on.__name__}
    assert silent <= named, "nothing could ever bring them about"


@pytest.mark.parametrize(
    ("rule", "of_strangers"),
    [
        ("nccl-shm-small", {"variant": "1.2.3.4.5"}),
        ("driver-too-old", {"values": {"found": "a%OS%b"}}),
        ("gpu-xid", {"values": {"xid": "9" * 5000}}),
        ("shm-small", {"variant": "ray", "values": {"bytes": "many", "gigabytes": "1e999"}}),
        ("numpy-abi", {"values": {"built": "0xzz"}}),
    ],
)
def test_what_a_strangers_record_says_a_line_held_fails_no_rule(rule: str, of_strangers: dict[str, Any]) -> None:
    by = rule_session()
    document = {"matches": [{"source": "log", "text": "said", "rule": rule, "symptom": "x", **of_strangers}]}
    snapshot = decode_snapshot({"symptoms": document})
    assert not [one.rule for one in verdicts_of(snapshot, by) if one.outcome is Outcome.CRASHED]
    report_on(snapshot, by)
