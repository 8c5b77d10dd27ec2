"""The report as annotations of a GitHub Actions run.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions#setting-an-error-message
"""

from __future__ import annotations

from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.printable import visible
from envcheck.render.wording import (
    NEAREST,
    fix_lines,
    ignored_hits,
    nearest_lines,
    severity_hits,
    severity_word,
    shown_severity,
    unknown_groups,
    verdict_line,
)
from envcheck.report.report import Report, Reported

_COMMAND = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """One annotation a finding, one for what could not be told, and the verdict."""
    lines = [_annotation(one, report, fix_suggest) for one in report.findings]
    lines += [_line("notice", f"could not tell: {', '.join(rules[:5])}", reason) for reason, rules in unknown_groups(report).items()]
    lines += [_line("notice", NEAREST, "\n".join(nearest_lines(report)))] if report.nearest else []
    lines += [_line("notice", f"ignored: {rule}", because) for rule, because in ignored_hits(report)]
    lines += [_line("notice", f"severity changed: {rule}", became) for rule, became in severity_hits(report)]
    lines += [_line("warning", "configuration", one) for one in report.configuration.passed_over]
    word = {"pass": "notice", "fail": "error", "inconclusive": "warning"}[report.verdict]
    return "\n".join([*lines, _line(word, report.name, verdict_line(report))]) + "\n"


def _annotation(reported: Reported, report: Report, fix_suggest: bool) -> str:
    finding = reported.finding
    word = _COMMAND[shown_severity(finding)]
    body = [finding.message, *(f"{one.source}: {one.text}" for one in finding.evidence[:3])]
    body += fix_lines(reported.fixes, report.tool, fix_suggest)
    mark = f"{severity_word(finding)}: " if finding.confidence is Confidence.LIKELY else ""
    return _line(word, f"{finding.rule}: {mark}{finding.title}", "\n".join(body))


def _line(command: str, title: str, text: str) -> str:
    return f"::{command} title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts escapes these three, and two more in properties."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
