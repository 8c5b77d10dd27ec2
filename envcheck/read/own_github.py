"""envcheck's annotations of a GitHub Actions run: one line a finding, and one for the verdict.

::error title=driver-too-old%3A The NVIDIA driver is older than this torch build::Driver 535.183.01 …%0Asource: text%0Afix: …
::error title=envcheck::Not ready: 1 error
"""

from __future__ import annotations

import re
from collections.abc import Collection

from envcheck.read import own_report as own
from envcheck.read.own_report import OwnReport, ReportedFinding

_LINE = re.compile(r".{0,120}?::(error|warning|notice) title=([^\n:,]{1,2000})::([^\n]{0,60000})$")
_ENCODED = re.compile(r"%(25|0A|0D|3A|2C)")
_CHARACTERS = {"25": "%", "0A": "\n", "0D": "\r", "3A": ":", "2C": ","}
_NOTES = ("could not tell: ", "ignored: ", "severity changed: ", "configuration")
_SEVERITY = {"error": "error", "warning": "warning", "notice": "info"}


def take_github(text: str, rules: Collection[str]) -> tuple[str, list[OwnReport]]:
    """The text without the annotations in it, and what they report. Without the verdict only those of `rules` count."""
    if " title=" not in text or "::" not in text:
        return text, []
    lines = text.split("\n")
    rows = [(at, *_decoded(match)) for at, line in enumerate(lines) if " title=" in line and (match := _LINE.match(line))]
    verdict = next((body for _, _, title, body in rows if title == "envcheck" and own.verdict_of(body)), "")
    findings: list[ReportedFinding] = []
    told = False
    for at, word, title, body in rows:
        rule, _, words = title.partition(": ")
        finding = own.is_rule_id(rule) and bool(words) and (rule in rules or bool(verdict))
        if finding:
            findings.append(_finding(word, rule, words, body))
        if finding or (verdict and (title == "envcheck" or title.startswith(_NOTES))):
            lines[at] = ""
            told = True
    if not told:
        return text, []
    if "possible error" in verdict and not any(one.likely for one in findings):  # versions that did not say which one
        findings = [_unmarked(one) for one in findings]
    found = OwnReport("GitHub annotations", "", tuple(findings[: own.MOST_FINDINGS]), verdict, own.reasons_in(verdict))
    return "\n".join(lines), [found]


def _decoded(match: re.Match[str]) -> tuple[str, str, str]:
    title, body = (_ENCODED.sub(lambda one: _CHARACTERS[one[1]], part) for part in (match[2], match[3]))
    return match[1], title, body


def _finding(word: str, rule: str, words: str, body: str) -> ReportedFinding:
    """What is only likely says so in its title, since an error that is not certain must not show as one."""
    mark, _, title = words.partition(": ")
    known = own.severity_and_likely(mark) if mark.startswith("possible ") else None
    if known is None:
        known, title = (_SEVERITY[word], False), words
    message, evidence, fixes = own.body_parts(body.split("\n"))
    return ReportedFinding(rule, *known, title[: own.TEXT_LIMIT], message, evidence, fixes)


def _unmarked(one: ReportedFinding) -> ReportedFinding:
    from envcheck.facts.record import replace

    return replace(one, severity="", likely=True) if one.severity == "warning" else one
