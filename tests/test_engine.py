"""Causes and consequences: who is folded into whom, and in which order findings come."""

from __future__ import annotations

from pathlib import Path

from envcheck.engine.judge import Outcome, Verdict, findings
from envcheck.engine.rule import Confidence, Hit, RuleTexts, Severity


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
