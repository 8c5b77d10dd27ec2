"""Every rule file's examples, and the ties between files, functions and placeholders."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest

from envcheck.checks import all_checks
from envcheck.commands.bases import base, example_snapshot
from envcheck.engine.judge import Outcome, Verdict, findings, judge
from envcheck.engine.rule import DECISIONS, LAYERS, SUBJECTS, Hit, RuleTexts
from envcheck.facts.snapshot import SymptomsFacts
from envcheck.render.wording import in_short
from envcheck.report.stack import stack
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

RULES = Path(rules_folder())
TEXTS = RuleTexts((RULES,))
CHECKS = {check.id: check for check in all_checks()}
TABLES = Tables((RULES / "compat",))


def _examples() -> list[Any]:
    return [
        pytest.param(rule, example, id=f"{rule}: {example.get('name', i)}")
        for rule in TEXTS.ids
        for i, example in enumerate(TEXTS.read(rule).examples)
    ]


@pytest.mark.parametrize(("rule", "example"), _examples())
def test_example(rule: str, example: dict[str, Any]) -> None:
    snapshot = example_snapshot(RULES, example)
    [verdict] = judge(snapshot, [CHECKS[rule]], TABLES)
    assert verdict.outcome is not Outcome.CRASHED, verdict.reason
    allowed = {"ok": {Outcome.OK, Outcome.NOT_APPLICABLE}, "hit": {Outcome.HIT}, "unknown": {Outcome.UNKNOWN}}[example["expect"]]
    assert verdict.outcome in allowed, verdict
    if verdict.hit:
        if "variant" in example:
            assert verdict.hit.variant == example["variant"]
        [finding] = findings([verdict], TEXTS)
        assert "{" not in finding.message or "{" in str(verdict.hit.values)
        if "severity" in example:
            assert finding.severity.value == example["severity"]
        for text in example.get("says", ()):
            assert text in finding.message


@pytest.mark.parametrize(("rule", "example"), _examples())
def test_an_example_says_what_was_printed(rule: str, example: dict[str, Any]) -> None:
    """Never what the scanner should have made of it; and a text that no entry knows would show nothing."""
    assert set(example) <= {"name", "expect", "base", "set", "log", "stated", "variant", "severity", "says"}
    assert not [path for path in example.get("set", {}) if path.partition(".")[0] == "symptoms"]
    if "log" in example or "stated" in example:
        symptoms = example_snapshot(RULES, example).symptoms
        assert isinstance(symptoms, SymptomsFacts) and symptoms.matches


def test_files_and_functions_match() -> None:
    assert set(TEXTS.ids) == set(CHECKS)


KEYS = {
    "severity", "confidence", "since", "rank", "title", "message", "messages", "why", "confirm", "notes", "docs", "explains", "layer",
    "decides", "about", "constants", "fix", "example",
}  # fmt: skip
FIX_KEYS = {
    "kind", "when", "who", "on", "not_on", "text", "commands", "name", "value", "note", "requirements", "remove", "reinstall", "version",
}  # fmt: skip


@pytest.mark.parametrize("rule", sorted(TEXTS.ids))
def test_no_key_of_a_rule_file_is_read_by_nobody(rule: str) -> None:
    """A misspelt key would be lost without a word."""
    data = load_toml(RULES / TEXTS.family(rule) / f"{rule}.toml")
    assert set(data) - KEYS == set(), "a key that CONTRIBUTING.md does not name"
    for fix in data.get("fix", ()):
        assert set(fix) - FIX_KEYS == set(), "a key of a fix that CONTRIBUTING.md does not name"


def test_a_hole_that_a_row_does_not_have_is_unknown() -> None:
    said = Verdict("user-without-name", Outcome.HIT, hit=Hit({}))
    [one] = findings([said], TEXTS)
    assert "{" not in one.message and "unknown" in one.title + one.message


@pytest.mark.parametrize("rule", sorted(TEXTS.ids))
def test_rule_file(rule: str) -> None:
    text = TEXTS.read(rule)
    expects = [example["expect"] for example in text.examples]
    assert "hit" in expects and "ok" in expects, "a rule needs an example that hits and one that is ok"
    assert text.title and not text.title.endswith(".")
    assert "!" not in text.title + "".join(text.messages.values())
    assert 80 < len(text.why.strip()) <= 450, "what is wrong, why it bites and what it looks like; the rest goes into notes"
    assert text.confirm.endswith("."), "how a reader sees that it is so"
    assert all(url.startswith("https://") for url in text.docs)
    assert set(text.explains) <= set(CHECKS), "explains a rule that does not exist"
    assert text.layer in (None, *LAYERS)
    assert set(text.decides) <= set(DECISIONS)
    assert text.about in (None, *SUBJECTS)
    # a family about one part of the stack: its row shows the finding
    assert text.layer or text.family in ("container", "packages", "launch", "limits", "toolkit", "meta"), "no layer"
    short = in_short(text.why)  # what the report shows of it
    assert short.count('"') % 2 == 0 and short.count("(") == short.count(")"), "the first two sentences are cut inside of a quotation"
    assert not any(fix.get("text", "").startswith("Or") for fix in text.fixes), "the list says itself that it is one of these"
    for message in text.messages.values():
        list(string.Formatter().parse(message))


@pytest.mark.parametrize("name", sorted(path.stem for path in (RULES / "bases").glob("*.toml")))
def test_healthy_base_is_quiet(name: str) -> None:
    verdicts = judge(base(RULES, name), CHECKS.values(), TABLES)
    loud = [(v.rule, v.reason, v.hit and v.hit.values) for v in verdicts if v.outcome in (Outcome.HIT, Outcome.CRASHED, Outcome.UNKNOWN)]
    assert not loud


def test_the_rows_of_the_stack_are_the_layers_of_the_rules() -> None:
    shown = {layer.name for path in (RULES / "bases").glob("*.toml") for layer in stack(base(RULES, path.stem), ())}
    assert shown == set(LAYERS) == {TEXTS.read(rule).layer for rule in TEXTS.ids} - {None}
