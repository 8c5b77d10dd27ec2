"""The findings of a finished report in another language; its other sentences are said by `language`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from envcheck.facts.record import replace
from envcheck.report.language import Language, caught_by, language, own_words, parts_of
from envcheck.report.report import Reported
from envcheck.report.titles import general_title

if TYPE_CHECKING:
    from envcheck.engine.rule import RuleText, RuleTexts
    from envcheck.planner.result import Fix
    from envcheck.report.fleet import FleetFinding, FleetReport
    from envcheck.report.report import Report


def translated(report: Report, code: str, texts: RuleTexts) -> Report:
    """The report with its findings in a language, and the phrases with which renderers say the rest."""
    spoken = language(code)
    theirs = replace(texts, language=code)
    known = set(texts.ids)

    def of(one: Reported) -> Reported:
        rule = one.finding.rule
        return _finding(one, texts.read(rule), theirs.read(rule), spoken) if rule in known else one

    near = tuple(replace(one, title=general_title(theirs.read(one.rule).title, spoken.say)) for one in report.nearest)
    return replace(report, language=spoken, findings=tuple(of(one) for one in report.findings), nearest=near)


def translated_fleet(report: FleetReport, code: str, texts: RuleTexts) -> FleetReport:
    """The same of the report of a job."""
    spoken = language(code)
    theirs = replace(texts, language=code)
    known = set(texts.ids)

    def of(one: FleetFinding) -> FleetFinding:
        rule = one.finding.rule
        if rule not in known:
            return one
        first = Reported(one.finding, (), one.why)
        each = (replace(first, finding=replace(one.finding, message=case.message), fixes=case.fixes) for case in one.cases)
        whole, *rows = (_finding(row, texts.read(rule), theirs.read(rule), spoken) for row in (first, *each))
        cases = (replace(case, message=said.finding.message, fixes=said.fixes) for case, said in zip(one.cases, rows, strict=True))
        return replace(one, finding=whole.finding, cases=tuple(cases), why=whole.why)

    return replace(report, language=spoken.job, findings=tuple(of(one) for one in report.findings))


def reported_in(one: Reported, english: RuleText, theirs: RuleText, code: str) -> Reported:
    """One finding in a language, for the page of its rule."""
    return _finding(one, english, theirs, language(code))


def _finding(one: Reported, english: RuleText, theirs: RuleText, spoken: Language) -> Reported:
    title = _filled([(english.title, theirs.title)], one.finding.title, spoken)
    rows = [(text, theirs.messages.get(variant, text)) for variant, text in english.messages.items()]
    message = _filled(rows, one.finding.message, spoken)
    why = theirs.why if one.why == english.why else one.why
    sentences = list(_of_fixes(english, theirs))
    fixes = tuple(_fix(fix, sentences, spoken) for fix in one.fixes)
    return replace(one, finding=replace(one.finding, title=title, message=message), fixes=fixes, why=why)


def _of_fixes(english: RuleText, theirs: RuleText) -> Iterator[tuple[str, str]]:
    for ours, said in zip(english.fixes, theirs.fixes, strict=False):
        for key in ("text", "note"):
            if ours.get(key):
                yield ours[key], said.get(key, ours[key])


def _fix(fix: Fix, sentences: Iterable[tuple[str, str]], spoken: Language) -> Fix:
    rows, planner = list(sentences), spoken.planner
    return replace(
        fix,
        title=_filled(rows, fix.title, planner),
        text=_filled(rows, fix.text, planner),
        note=_filled(rows, fix.note, planner),
        no_command={tool: planner.say(reason) for tool, reason in fix.no_command.items()},
    )


def _filled(rows: Iterable[tuple[str, str]], text: str, spoken: Language) -> str:
    """The translation of the template that a text was made from, with its values; else what the phrases make of it."""
    found = [(parts, said, caught) for ours, said in rows if (caught := caught_by(parts := parts_of(ours), text)) is not None]
    if not found:
        return spoken.say(text)
    parts, said, caught = max(found, key=lambda row: own_words(row[0]))
    return spoken.fill(said, parts, caught)
