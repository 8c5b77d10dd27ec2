"""Every rule file's examples, and the ties between files, functions and placeholders."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envcheck.checks import all_checks
from envcheck.commands.bases import base, example_snapshot
from envcheck.engine.judge import Outcome, Verdict, findings, judge
from envcheck.engine.rule import DECISIONS, LAYERS, SUBJECTS, Hit, RuleTexts, Severity
from envcheck.facts.snapshot import SymptomsFacts
from envcheck.render.wording import in_short
from envcheck.report.session import report_on, rule_session
from envcheck.report.stack import stack
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

RULES = Path(rules_folder())
TEXTS = RuleTexts((RULES,))
CHECKS = {check.id: check for check in all_checks()}
TABLES = Tables((RULES / "compat",))
SESSION = rule_session()


def file_of(rule: str) -> str:
    """The file to open."""
    return f"rules/{TEXTS.family(rule)}/{rule}.toml"


def example_of(rule: str, example: Mapping[str, Any]) -> str:
    return f"{file_of(rule)}, example {example.get('name', '')!r}"


@pytest.mark.parametrize("rule", TEXTS.ids)
def test_examples(rule: str) -> None:
    for example in TEXTS.read(rule).examples:
        holds(rule, example)


def holds(rule: str, example: Mapping[str, Any]) -> None:
    snapshot = example_snapshot(RULES, example)
    [verdict] = judge(snapshot, [CHECKS[rule]], TABLES)
    where, check = example_of(rule, example), f"def {rule.replace('-', '_')} in envcheck/checks"
    assert verdict.outcome is not Outcome.CRASHED, f"{where}: {check} raised: {verdict.reason}"
    allowed = {"ok": {Outcome.OK, Outcome.NOT_APPLICABLE}, "hit": {Outcome.HIT}, "unknown": {Outcome.UNKNOWN}}[example["expect"]]
    got = f"{verdict.outcome.value}: {verdict.reason or (verdict.hit and verdict.hit.values)}"
    assert verdict.outcome in allowed, f"{where}: expected {example['expect']}, but {check} says {got}"
    if verdict.hit:
        if "variant" in example:
            assert verdict.hit.variant == example["variant"], (
                f"{where}: expected variant {example['variant']!r}, not {verdict.hit.variant!r}"
            )
        [finding] = findings([verdict], TEXTS)
        assert "{" not in finding.message or "{" in str(verdict.hit.values), f"{where}: a placeholder is left in {finding.message!r}"
        if "severity" in example:
            expected = example["severity"]
            assert finding.severity.value == expected, f"{where}: expected severity {expected!r}, not {finding.severity.value!r}"
        for text in example.get("says", ()):
            assert text in finding.message, f"{where}: expected {text!r} (says) in the message {finding.message!r}"


@pytest.mark.parametrize("rule", TEXTS.ids)
def test_each_variant_ends_in_something_to_do(rule: str) -> None:
    """At error or warning. The message rows alone: tests/symptoms/test_cures.py."""
    for example in TEXTS.read(rule).examples:
        if example["expect"] == "hit":
            found = report_on(example_snapshot(RULES, example), SESSION).findings
            bare = [one for one in found if one.finding.rule == rule and one.finding.severity is not Severity.INFO and not one.fixes]
            assert not bare, f"{example_of(rule, example)}: no fix under {bare[0].finding.message!r}; add a [[fix]] with its `when`"


@pytest.mark.parametrize("rule", TEXTS.ids)
def test_an_example_says_what_was_printed(rule: str) -> None:
    """Never what the scanner should have made of it; and a text that no entry knows would show nothing."""
    for example in TEXTS.read(rule).examples:
        where = example_of(rule, example)
        strange = set(example) - {"name", "expect", "base", "set", "log", "stated", "variant", "severity", "says"}
        assert not strange, f"{where}: {strange} is no key of an example"
        given = [path for path in example.get("set", {}) if path.partition(".")[0] == "symptoms"]
        assert not given, f"{where}: set holds {given}; write what was printed into log"
        if "log" in example or "stated" in example:
            symptoms = example_snapshot(RULES, example).symptoms
            told = isinstance(symptoms, SymptomsFacts) and symptoms.matches
            assert told, f"{where}: no row of rules/symptoms knows a line of its log or stated; take one that does, or add a row there"


def test_files_and_functions_match() -> None:
    alone = set(TEXTS.ids) ^ set(CHECKS)
    assert not alone, (
        f"{sorted(alone)}: a rule is rules/<family>/<id>.toml and, unless a message alone shows it, a function in envcheck/checks"
    )


KEYS = {
    "severity", "confidence", "since", "rank", "title", "message", "messages", "variants", "why", "confirm", "notes", "docs", "explains",
    "layer", "decides", "about", "constants", "fix", "example",
}  # fmt: skip
FIX_KEYS = {
    "kind", "when", "who", "on", "not_on", "text", "commands", "choose", "afterwards", "name", "value", "beside", "note", "requirements",
    "remove", "reinstall", "version",
}  # fmt: skip


_SHOWN = re.compile(  # what a command, a log or a program does that shows the fault
    r"\b(?:prints?|shows?|lists?|names?|says?|ends?|works?|fails?|dies|counts?|lacks?|finds|takes|points?|turns|decides"
    r"|is (?:not|True|larger|slow|newer|below)|not connect|begins|came|gets no|passes|tells)\b"
)
RULE_LEVELS = {rule: {"severity": TEXTS.read(rule).severity.value, "confidence": TEXTS.read(rule).confidence.value} for rule in TEXTS.ids}


@pytest.mark.parametrize("rule", sorted(TEXTS.ids))
def test_no_key_of_a_rule_file_is_read_by_nobody(rule: str) -> None:
    """A misspelt key would be lost without a word."""
    data = load_toml(RULES / TEXTS.family(rule) / f"{rule}.toml")
    assert set(data) - KEYS == set(), f"{file_of(rule)}: a key that CONTRIBUTING.md (Add a rule, 5) does not name"
    for variant, own in data.get("variants", {}).items():
        assert variant in ("default", *data["messages"]), f"{file_of(rule)}: variants.{variant} has no message"
        assert own and set(own) <= {"severity", "confidence"}, f"{file_of(rule)}: variants.{variant} has severity, confidence or both"
        assert RULE_LEVELS[rule].items().isdisjoint(own.items()), f"{file_of(rule)}: variants.{variant} repeats what the rule is anyway"
    for number, fix in enumerate(data.get("fix", ()), 1):
        assert set(fix) - FIX_KEYS == set(), f"{file_of(rule)}: fix {number}: a key that CONTRIBUTING.md (Add a rule, 5) does not name"


def test_a_hole_that_a_row_does_not_have_is_unknown() -> None:
    said = Verdict("user-without-name", Outcome.HIT, hit=Hit({}))
    [one] = findings([said], TEXTS)
    assert "{" not in one.message and "unknown" in one.title + one.message


@pytest.mark.parametrize("rule", sorted(TEXTS.ids))
def test_rule_file(rule: str) -> None:
    text = TEXTS.read(rule)
    expects = {example["expect"] for example in text.examples}
    short = in_short(text.why)  # what the report shows of it
    # any other is about one part of the stack, whose row shows it
    shown = ("container", "packages", "launch", "fleet", "limits", "toolkit", "meta")
    length, unknown = len(text.why.strip()), set(text.explains) - set(CHECKS)
    cases = [case for fix in text.fixes if "when" in fix for case in ([fix["when"]] if isinstance(fix["when"], str) else fix["when"])]
    nobody = set(cases) - set(text.messages) - {"default"}
    wrong = {
        f"fix: when = {sorted(nobody)}: no such message in [messages]": bool(nobody),
        f"[[example]]: one with expect = hit and one with ok are expected, there is {sorted(expects)}": not {"hit", "ok"} <= expects,
        f"title {text.title!r}: one line without a full stop": not text.title or text.title.endswith("."),
        "title, message: no exclamation mark": "!" in text.title + "".join(text.messages.values()),
        f"why: 81 to 450 characters, not {length}: what is wrong, why it bites, what it looks like; the rest into notes": not 80
        < length
        <= 450,
        "confirm: sentences, which say how a reader sees that it is so": not text.confirm.endswith("."),
        "confirm: what the output shows when this is the cause": not _SHOWN.search(re.sub("`[^`]+`", "", text.confirm)),
        "fix: what comes afterwards comes behind a cure": any(
            one.get("afterwards") and all(other.get("afterwards") or other.get("when") != one.get("when") for other in text.fixes)
            for one in text.fixes
        ),
        "fix: choose is for several commands": any(one.get("choose") and len(one.get("commands", ())) < 2 for one in text.fixes),
        "docs: addresses with https": not all(url.startswith("https://") for url in text.docs),
        f"explains: no rule is called {unknown}": bool(unknown),
        f"layer {text.layer!r}: one of {LAYERS}": text.layer not in (None, *LAYERS),
        f"decides {text.decides}: of {DECISIONS}": not set(text.decides) <= set(DECISIONS),
        f"about {text.about!r}: one of {SUBJECTS}, or left out": text.about not in (None, *SUBJECTS),
        f"layer: the family {text.family} needs one": not (text.layer or text.family in shown),
        f"why: reports cut it after {short!r}, inside of a quotation": short.count('"') % 2 != 0 or short.count("(") != short.count(")"),
        "fix: no text begins with Or; the list says itself that it is one of these": any(
            fix.get("text", "").startswith("Or") for fix in text.fixes
        ),
    }
    assert not [f"{file_of(rule)}: {what}" for what, found in wrong.items() if found]
    for message in text.messages.values():
        list(string.Formatter().parse(message))


@pytest.mark.parametrize("name", sorted(path.stem for path in (RULES / "bases").glob("*.toml")))
def test_healthy_base_is_quiet(name: str) -> None:
    verdicts = judge(base(RULES, name), CHECKS.values(), TABLES)
    loud = [(v.rule, v.reason, v.hit and v.hit.values) for v in verdicts if v.outcome in (Outcome.HIT, Outcome.CRASHED, Outcome.UNKNOWN)]
    assert not loud, f"rules/bases/{name}.toml is a healthy machine, and these rules are not quiet on it: {loud}"


def test_the_rows_of_the_stack_are_the_layers_of_the_rules() -> None:
    shown = {layer.name for path in (RULES / "bases").glob("*.toml") for layer in stack(base(RULES, path.stem), ())}
    assert shown == set(LAYERS) == {TEXTS.read(rule).layer for rule in TEXTS.ids} - {None}


@pytest.mark.parametrize(
    ("requirement", "python", "newest"),
    [
        ("torch==1.9.0", "3.12", "3.9"),
        ("torch==1.5.1", "3.12", "3.8"),
        ("torch==2.3.0", "3.13.1", "3.12"),
        ("torch==2.9.1", "3.12.4", None),
    ],
)
def test_a_release_without_a_wheel_for_this_python_names_one_that_it_has(requirement: str, python: str, newest: str | None) -> None:
    """Those of the tables, and older ones, of which only the newest Python is known."""
    example = {
        "base": "blank",
        "set": {"python.version": python, "system.os": "linux", "system.machine": "x86_64"},
        "log": f"ERROR: No matching distribution found for {requirement}",
    }
    report = report_on(example_snapshot(RULES, example), rule_session())
    [found] = [one for one in report.findings if one.finding.rule == "no-matching-wheel"]
    commands = [command for fix in found.fixes for command in (*fix.commands.conda, *fix.commands.shell)]
    made = f"conda create -n torch-env python={newest} && conda run -n torch-env python -m pip install {requirement}"
    assert [one for one in commands if "conda create" in one] == ([made] if newest else [])
