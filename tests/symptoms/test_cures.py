"""A message alone, with nothing else known: each finding at error or warning ends in something to do."""

from __future__ import annotations

import pytest

from envcheck.commands.diagnose import Given, diagnose
from envcheck.engine.rule import Severity
from envcheck.report.session import rule_session
from envcheck.symptoms.scan import Message
from envcheck.symptoms.template import parts_of, sample_of

SESSION = rule_session()
ROWS: dict[str, list[Message]] = {}
for _row in SESSION.symptoms.messages:
    if _row.kind == "symptom" and not _row.stated:
        ROWS.setdefault(_row.id, []).append(_row)


@pytest.mark.parametrize("symptom", ROWS)
def test_a_bare_message_ends_in_something_to_do(symptom: str) -> None:
    for row in ROWS[symptom]:
        given = Given(SESSION)
        given.scanner.met.update(row.data.get("needs", ())[:1])
        given.take_text(row.sample or sample_of(parts_of(row.text)), "log")
        report, _ = diagnose(given)
        for one in report.findings:
            if one.finding.severity is not Severity.INFO and one.finding.rule in row.rules:
                assert one.fixes, f"{row.text}: {one.finding.rule}: {one.finding.message}"
