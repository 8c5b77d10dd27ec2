"""The report as SARIF 2.1.0, for code scanning and other viewers of results.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import Any

from envcheck.engine.rule import Severity
from envcheck.facts.printable import visible
from envcheck.render.json_v1 import without_facts
from envcheck.render.wording import first_paragraph, fix_lines, severity_word, shown_severity, verdict_line
from envcheck.report.report import Report, Reported, taken_at

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
# An environment has no source line, and GitHub shows no result without a file: the one that says what the project needs stands for it.
PLACE = "pyproject.toml"
LOCATIONS = [{"physicalLocation": {"artifactLocation": {"uri": PLACE}, "region": {"startLine": 1}}}]
# What a run that cannot tell is listed under; no rule of the catalogue, so it has no page.
_UNDECIDED: dict[str, Any] = {
    "id": "cannot-tell",
    "shortDescription": {"text": "envcheck could not tell whether training will start"},
    "help": {"text": "Exit code 3: what could not be read, and why, stands in the result."},
    "properties": {"tags": ["environment", "meta"]},
}


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """One run with a result for each finding. A run that cannot tell did not succeed: `invocations` states it, and since viewers show
    results alone, one of them does too."""
    open_ = report.verdict == "inconclusive"
    rules = {one.finding.rule: one for one in report.findings}
    index = {rule: number for number, rule in enumerate(rules)}
    notes = [_notification(reason) for reason in report.because]
    ended = taken_at(report.snapshot)
    run: dict[str, Any] = {
        "tool": {"driver": {"name": report.name, "version": report.version, "rules": [*map(_rule, rules.values()), *[_UNDECIDED] * open_]}},
        "invocations": [
            {
                "executionSuccessful": not open_,
                "exitCode": report.exit_code,
                "exitCodeDescription": _text(verdict_line(report)),
                "toolExecutionNotifications": notes,
                **({"endTimeUtc": ended} if ended else {}),
            }
        ],
        "results": [
            *(_result(one, index[one.finding.rule], report, fix_suggest) for one in report.findings),
            *([_undecided(report, len(rules))] if open_ else []),
        ],
        "columnKind": "unicodeCodePoints",
        "properties": {report.name: without_facts(report)},  # so that `envcheck diagnose` reads it as it reads JSON
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _notification(reason: str) -> dict[str, Any]:
    return {"level": "warning", "message": {"text": _text(reason)}}


def _rule(one: Reported) -> dict[str, Any]:
    finding = one.finding
    help_uri = {"helpUri": finding.docs[0]} if finding.docs else {}
    return {
        "id": finding.rule,
        "shortDescription": {"text": _text(finding.title)},
        "fullDescription": {"text": _text(first_paragraph(one.why) or finding.title)},
        "help": {"text": f"envcheck explain {finding.rule}"},
        "properties": {"tags": ["environment", finding.family]},
        **help_uri,
    }


def _result(one: Reported, index: int, report: Report, fix_suggest: bool) -> dict[str, Any]:
    finding = one.finding
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[shown_severity(finding)],
        "message": {"text": _text("\n".join(_lines(one, report, fix_suggest)))},
        "locations": LOCATIONS,
        "partialFingerprints": {"envcheckRule/v1": finding.rule},
        "properties": {"confidence": finding.confidence.value},
    }


def _undecided(report: Report, index: int) -> dict[str, Any]:
    return {
        "ruleId": _UNDECIDED["id"],
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": _text("\n".join([verdict_line(report), *report.because]))},
        "locations": LOCATIONS,
        "partialFingerprints": {"envcheckRule/v1": _UNDECIDED["id"]},
    }


def _lines(one: Reported, report: Report, fix_suggest: bool) -> list[str]:
    finding = one.finding
    lines = [f"{severity_word(finding)}: {finding.title}", finding.message, *(f"{row.source}: {row.text}" for row in finding.evidence[:3])]
    lines += fix_lines(one.fixes, report.tool, fix_suggest)
    return lines


def _text(text: str) -> str:
    return visible(text)
