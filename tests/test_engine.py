"""Causes and consequences: who is folded into whom, and in which order findings come."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.checks import all_checks
from envcheck.engine.judge import Outcome, Verdict, findings, judge
from envcheck.engine.rule import Answer, Check, Confidence, Hit, RuleTexts, Severity, Unknown, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import SECTIONS, DriverFacts, Missing, Snapshot, SystemFacts, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder


def texts(folder: Path, **rules: str) -> RuleTexts:
    """A folder of rule files: id (underscores for hyphens) → severity, then the ids that it explains."""
    (folder / "driver").mkdir()
    for name, line in rules.items():
        severity, *explains = line.split()
        text = f'severity = "{severity}"\nsince = "0.1"\ntitle = "t"\nmessage = "m"\nwhy = "w"\nexplains = {explains}\n'
        (folder / "driver" / f"{name.replace('_', '-')}.toml").write_text(text.replace("'", '"'))
    return RuleTexts((folder,))


def found(folder: RuleTexts, **hits: Hit) -> list[tuple[str, tuple[str, ...]]]:
    verdicts = [Verdict(name.replace("_", "-"), Outcome.HIT, hit=hit) for name, hit in hits.items()]
    return [(one.rule, one.consequences) for one in findings(verdicts, folder)]


def test_a_consequence_moves_into_its_cause(tmp_path: Path) -> None:
    folder = texts(tmp_path, z_cause="error a-victim", a_victim="error")
    assert found(folder, a_victim=Hit(), z_cause=Hit()) == [("z-cause", ("a-victim",))]


def test_causes_are_followed_through_others(tmp_path: Path) -> None:
    folder = texts(tmp_path, z_cause="error middle", middle="error a-victim", a_victim="error")
    assert found(folder, a_victim=Hit(), middle=Hit(), z_cause=Hit()) == [("z-cause", ("middle", "a-victim"))]


def test_a_guess_does_not_swallow_what_is_certain(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_cause="error b-victim", b_victim="error")
    guess = Hit(confidence=Confidence.LIKELY)
    assert found(folder, b_victim=Hit(), a_cause=guess) == [("a-cause", ()), ("b-victim", ())]
    assert found(folder, b_victim=guess, a_cause=guess) == [("a-cause", ("b-victim",))]


def test_a_note_does_not_swallow_an_error(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_cause="info b-victim", b_victim="error", c_other="warning")
    assert found(folder, b_victim=Hit(), a_cause=Hit(), c_other=Hit()) == [("a-cause", ()), ("b-victim", ()), ("c-other", ())]
    assert found(folder, b_victim=Hit(severity=Severity.INFO), a_cause=Hit()) == [("a-cause", ("b-victim",))]


def test_two_that_explain_each_other_both_stay(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_one="error b-other", b_other="error a-one")
    assert found(folder, b_other=Hit(), a_one=Hit()) == [("a-one", ()), ("b-other", ())]


def test_errors_first_then_certain_ones_then_by_name(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_note="info", b_warning="warning", c_error="error", d_error="error")
    order = found(folder, a_note=Hit(), b_warning=Hit(), d_error=Hit(), c_error=Hit(confidence=Confidence.LIKELY))
    assert [rule for rule, _ in order] == ["d-error", "c-error", "b-warning", "a-note"]


TABLES = Tables((Path(rules_folder()) / "compat",))


@pytest.mark.parametrize("one", [pytest.param(one, id=one.id) for one in all_checks()])
@pytest.mark.parametrize("why", [Why.FAILED, Why.TIMEOUT])
def test_nothing_is_ok_where_nothing_could_be_read(one: Check, why: Why) -> None:
    snapshot = Snapshot(**{name: Missing(why, "broken") for name in SECTIONS})
    [verdict] = judge(snapshot, [one], TABLES)
    if (one.id, why) == ("libcuda-unresponsive", Why.TIMEOUT):  # that libcuda and torch both hang is what it is about
        assert verdict.outcome is Outcome.HIT
    else:
        assert verdict.outcome is Outcome.UNKNOWN and "broken" in verdict.reason


@check(needs=("system", "driver"))
def sample(system: SystemFacts, driver: DriverFacts, absent: frozenset[str]) -> Answer:
    if driver.version == "1":
        return Unknown("undecided")
    return Hit({"os": system.os}) if system.os == "broken" or "gpus" in absent else None


HEALTHY = Snapshot(system=SystemFacts(os="linux"), driver=DriverFacts(version="580.95.05"))


@pytest.mark.parametrize(
    ("changes", "outcome", "section"),
    [
        ({}, Outcome.OK, None),
        ({"driver": Missing(Why.FAILED, "x")}, Outcome.UNKNOWN, "driver"),
        ({"driver": Missing(Why.TIMEOUT, "x")}, Outcome.UNKNOWN, "driver"),
        ({"driver": Missing(Why.ABSENT, "x")}, Outcome.NOT_APPLICABLE, "driver"),
        ({"driver": Missing(Why.SKIPPED, "x")}, Outcome.NOT_APPLICABLE, "driver"),
        # what could not be read outweighs what is not there
        ({"system": Missing(Why.ABSENT, "x"), "driver": Missing(Why.FAILED, "x")}, Outcome.UNKNOWN, "driver"),
        # a hit stands on what was read, whatever else is missing
        ({"system": SystemFacts(os="broken"), "driver": Missing(Why.FAILED, "x")}, Outcome.HIT, None),
        ({"driver": DriverFacts(version="1")}, Outcome.UNKNOWN, None),
        # absent is known not to exist; not read is not
        ({"gpus": Missing(Why.ABSENT, "x")}, Outcome.HIT, None),
        ({"gpus": Missing(Why.SKIPPED, "x")}, Outcome.OK, None),
        ({"gpus": Missing(Why.FAILED, "x")}, Outcome.OK, None),
    ],
)
def test_a_check_names_what_it_needs(changes: dict[str, object], outcome: Outcome, section: str | None) -> None:
    [verdict] = judge(replace(HEALTHY, **changes), [sample], TABLES)
    assert (verdict.outcome, verdict.section) == (outcome, section)


@check(needs=())
def about_a_failure(missing: dict[str, Missing]) -> Answer:
    return Hit({"why": missing["driver"].reason}) if "driver" in missing else None


def test_a_check_may_be_about_what_could_not_be_read() -> None:
    [verdict] = judge(replace(HEALTHY, driver=Missing(Why.FAILED, "no answer")), [about_a_failure], TABLES)
    assert verdict.hit == Hit({"why": "no answer"})
    assert judge(HEALTHY, [about_a_failure], TABLES)[0].outcome is Outcome.OK
