"""envcheck's JSON: a report, the one in a SARIF file, or what `envcheck record` wrote. Alone, or in the middle of other text.

It is ours if it has a `schema` and says that its `tool` is envcheck. Values of another type than ours are left out, never trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from envcheck.errors import UsageError
from envcheck.facts.recorded import snapshot_of
from envcheck.read import own_pages
from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding, ReportedFix

MOST_DOCUMENTS = 64  # in one text
# A document of ours, or SARIF, in which one stands
_BEGIN = re.compile(r'\{\s{0,40}"(?:schema"\s{0,4}:\s{0,4}\d{1,4}\b|\$schema"\s{0,4}:\s{0,4}"https://[\w./-]{1,120}sarif)')


def take_json(text: str) -> tuple[str, list[OwnReport]]:
    """The raw text without the documents in it, and these."""
    if '"schema"' not in text or ('"envcheck"' not in text and '"rules"' not in text):
        return text, []
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith("{") and (whole := _document(stripped, 0)) is not None and not stripped[whole[1] :].strip():
        return "\n" * text.count("\n"), [whole[0]]  # whatever the order of its keys
    found: list[OwnReport] = []
    at = 0
    for _ in range(MOST_DOCUMENTS):
        match = _BEGIN.search(text, at)
        if match is None:
            break
        made = _document(text, match.start())
        at = match.end()
        if made is not None:
            found.append(made[0])
            text, at = own.blanked(text, match.start(), made[1]), match.start()
    return text, found


def _document(text: str, at: int) -> tuple[OwnReport, int] | None:
    """The document that begins here, and where it ends; None if it is not ours."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    report = report_of(value)
    return None if report is None else (report, end)


def report_of(value: object) -> OwnReport | None:
    """A parsed document as a report; None if it is another program's."""
    form = "JSON"
    if isinstance(value, dict) and isinstance(value.get("runs"), list):
        form, value = "SARIF", _in_sarif(value["runs"])
    if not isinstance(value, dict) or not isinstance(value.get("schema"), int) or isinstance(value["schema"], bool):
        return None
    if (other := own_pages.of_document(value)) is not None:
        return other
    tool = value.get("tool")
    if not isinstance(tool, dict) or tool.get("name") != "envcheck":
        return None
    reported = isinstance(value.get("findings"), list) and isinstance(value.get("verdict"), str)
    if not reported and not isinstance(value.get("facts"), dict):
        return None
    try:
        snapshot = snapshot_of(value, "report")
    except UsageError:  # of a version whose facts are others, or damaged: what it found stands
        snapshot = None
    if not reported and snapshot is None:
        return None
    findings = tuple(made for one in _rows(value, "findings", own.MOST_FINDINGS) if (made := _finding(one)) is not None)
    ignored = tuple(_word(one, "rule") for one in _rows(value, "ignored", own.MOST_FINDINGS))
    because = tuple(_words(value, "because"))
    line = _LINES.get(_word(value, "verdict"), "")
    return OwnReport(form if reported else "record", _word(tool, "version")[:50], findings, line, because, ignored, snapshot)


def _in_sarif(runs: list[Any]) -> object:
    """The document that `render.sarif` puts into the property bag of its one run."""
    bag = runs[0].get("properties") if len(runs) == 1 and isinstance(runs[0], dict) else None
    return bag.get("envcheck") if isinstance(bag, dict) else None


_LINES = {"pass": "No problem found", "fail": "Not ready: ", "inconclusive": "Cannot tell: "}


def _rows(value: Mapping[str, Any], key: str, most: int) -> list[Mapping[str, Any]]:
    rows = value.get(key)
    return [one for one in rows[:most] if isinstance(one, dict)] if isinstance(rows, list) else []


def _word(value: Mapping[str, Any], key: str) -> str:
    word = value.get(key)
    return word[: own.TEXT_LIMIT] if isinstance(word, str) else ""


def _words(value: Mapping[str, Any], key: str) -> list[str]:
    words = value.get(key)
    return [one[: own.TEXT_LIMIT] for one in words[: own.MOST_COMMANDS] if isinstance(one, str)] if isinstance(words, list) else []


def _finding(one: Mapping[str, Any]) -> ReportedFinding | None:
    rule, known = _word(one, "rule"), own.severity_and_likely(_word(one, "severity"))
    if known is None or not own.is_rule_id(rule):
        return None
    return ReportedFinding(
        rule,
        known[0],
        _word(one, "confidence") == "likely",
        _word(one, "title"),
        _word(one, "message"),
        tuple((_word(row, "source"), _word(row, "text")) for row in _rows(one, "evidence", own.MOST_EVIDENCE)),
        tuple(_fix(row) for row in _rows(one, "fixes", own.MOST_FIXES)),
        tuple(rule for rule in _words(one, "consequences") if own.is_rule_id(rule)),
        _word(one, "family"),
        _word(one, "why"),
    )


def _fix(row: Mapping[str, Any]) -> ReportedFix:
    commands = row.get("commands")
    groups = [_words(commands, name) for name in ("pip", "uv", "conda")] if isinstance(commands, dict) else []
    shell = _words(commands, "shell") if isinstance(commands, dict) else []
    lines = (*next((group for group in groups if group), ()), *shell)
    text = (_word(row, "title") or _word(row, "text")).replace(own.AS_REPORTED, "")
    return ReportedFix(text, lines, "admin" if row.get("who") == "admin" else "user")
