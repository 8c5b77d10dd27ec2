"""Findings of reports that were read: taken over as they were printed, beside what this version judges from facts and messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from envcheck.engine.intents import Manual
from envcheck.engine.judge import Finding, findings, judge
from envcheck.engine.rule import Confidence, Evidence, RuleTexts, Severity
from envcheck.facts.record import replace
from envcheck.read.own_report import AS_REPORTED, OwnReport, ReportedFinding

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.session import RuleSession


def taken_over(reports: Sequence[tuple[str, OwnReport]], by: RuleSession, examined: Snapshot | None) -> tuple[Finding, ...]:
    """The findings of all reports as (file, report), each rule once, in their order. A rule that this version does not know stays.

    Facts without findings are judged, but for those of the machine that is `examined` anyway."""
    several = len(reports) > 1
    found: dict[str, Finding] = {}
    for file, report in reports:
        if report.line or report.snapshot is None or report.snapshot is examined:
            rows = [_finding(one, by.texts) for one in report.findings if _wanted(one.rule, by)]
            if report.form == "JUnit":  # in the order of its suites
                rows.sort(key=lambda one: (*_strength(one), by.texts.read(one.rule).rank if by.texts.family(one.rule) else 0))
        else:
            rows = list(findings(judge(report.snapshot, by.checks, by.tables), by.texts))
        for one in rows:
            made = _in_file(one, file) if several else one
            found[one.rule] = _stronger(found[one.rule], made) if one.rule in found else made
    return tuple(found.values())


def _in_file(one: Finding, file: str) -> Finding:
    return replace(one, evidence=tuple(replace(each, source=f"{file}: {each.source}") for each in one.evidence))


def joined(reported: Sequence[Finding], judged: Sequence[Finding], texts: RuleTexts, facts_read: bool) -> tuple[Finding, ...]:
    """What was reported, then what was judged beside it and is no consequence of that. Where the facts were there to be judged again
    (`facts_read`), the fixes are those of today."""
    again = {one.rule: one for one in judged}
    first = [
        replace(one, fixes=again[one.rule].fixes) if one.rule in again and (facts_read or not one.fixes) and again[one.rule].fixes else one
        for one in reported
    ]
    explained = {rule: _strength(one) for one in reported for rule in _consequences(one, texts)}
    names = {one.rule for one in reported}
    others = [one for one in judged if one.rule not in names and not (one.rule in explained and explained[one.rule] <= _strength(one))]
    return (*first, *others)


def _wanted(rule: str, by: RuleSession) -> bool:
    if not by.texts.family(rule):
        return not by.select
    return by.setting(rule) is None and any(check.id == rule for check in by.checks)


def _finding(one: ReportedFinding, texts: RuleTexts) -> Finding:
    known = texts.read(one.rule) if texts.family(one.rule) else None
    severity, confidence = Severity(one.severity or "warning"), Confidence.LIKELY if one.likely else Confidence.CERTAIN
    if not one.severity:  # "possible error" or "warning": the report did not say, the rule does
        severe = known is not None and known.severity is Severity.ERROR
        severity, confidence = (Severity.ERROR, Confidence.LIKELY) if severe else (Severity.WARNING, Confidence.CERTAIN)
    return Finding(
        one.rule,
        known.family if known else one.family,
        severity,
        confidence,
        one.title or (known.title if known else one.rule),
        one.message,
        tuple(Evidence(source, text) for source, text in one.evidence),
        tuple(Manual(fix.text + AS_REPORTED, fix.who, fix.commands) for fix in one.fixes if fix.text or fix.commands),
        known.docs if known else (),
        one.consequences,
        known.layer if known else None,
    )


def _strength(one: Finding) -> tuple[int, bool]:
    return one.severity.order, one.confidence is Confidence.LIKELY


def _stronger(a: Finding, b: Finding) -> Finding:
    """One finding of two reports, with the evidence of both."""
    first, second = (b, a) if _strength(b) < _strength(a) else (a, b)
    return replace(first, evidence=tuple(dict.fromkeys((*first.evidence, *second.evidence))))


def _consequences(one: Finding, texts: RuleTexts) -> set[str]:
    """What the report says that it leads to, and what its rule explains."""
    named = set(one.consequences)
    todo = [one.rule]
    while todo:
        rule = todo.pop()
        for more in texts.read(rule).explains if texts.family(rule) else ():
            if more not in named and more != one.rule:
                named.add(more)
                todo.append(more)
    return named
