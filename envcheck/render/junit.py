"""The report as JUnit XML: one case a rule, so that a CI page shows what was decided and what was not.

Findings stand in a suite of their family, all other rules in one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envcheck.engine.judge import Outcome
from envcheck.facts.printable import visible
from envcheck.facts.snapshot import Missing
from envcheck.render.wording import NEAREST, fix_lines, ignored_because, nearest_lines, severity_hits, severity_word, verdict_line
from envcheck.report.report import Ignored, Report, Reported, taken_at

# XML 1.0 has no way to write these, not even as a reference: https://www.w3.org/TR/xml/#charsets
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

WHOLE = "verdict"  # the case of the run as a whole


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """One document. What fails the run is a failure, a run that cannot tell an error of its last case; other findings pass, with their
    text; undecided rules are skipped cases."""
    found = {one.finding.rule: one for one in report.findings}
    suites: dict[str, list[str]] = {}
    totals = {"failures": 0, "skipped": 0, "tests": 0, "errors": 0}
    for rule, outcome, reason in _cases(report):
        reported = found.get(rule)
        family = reported.finding.family if reported else "rules"
        suites.setdefault(family, []).append(_case(rule, family, outcome, reason, reported, report, fix_suggest))
        totals["tests"] += 1
        totals["failures"] += reported is not None and report.fails(reported.finding)
        totals["errors"] += rule == WHOLE and outcome is Outcome.UNKNOWN
        totals["skipped"] += rule != WHOLE and reported is None and outcome in (Outcome.UNKNOWN, Outcome.CRASHED, Outcome.NOT_APPLICABLE)
    of_all = {"name": report.name, **_texts({key: count for key, count in totals.items() if key != "skipped"})}  # Jenkins' XSD
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {xml_attributes(of_all)}>",
        *(line for family, cases in suites.items() for line in _suite(family, cases, report)),
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _cases(report: Report) -> Sequence[tuple[str, Outcome, str]]:
    """(rule, outcome, reason) of all verdicts, then of findings that no verdict stands for, then the run as a whole."""
    rows = [(one.rule, one.outcome, one.reason) for one in report.verdicts]
    known = {row[0] for row in rows}
    rows += [(one.rule, Outcome.NOT_APPLICABLE, _ignored(one)) for one in report.ignored]
    known |= {one.rule for one in report.ignored}
    rows += [(one.finding.rule, Outcome.HIT, "") for one in report.findings if one.finding.rule not in known]
    whole = Outcome.UNKNOWN if report.verdict == "inconclusive" else Outcome.OK
    return [*rows, (WHOLE, whole, verdict_line(report))]


def _ignored(one: Ignored) -> str:
    return f"ignored: {ignored_because(one)} (it would be a finding)" if one.outcome is Outcome.HIT else f"ignored: {ignored_because(one)}"


def _suite(family: str, cases: Sequence[str], report: Report) -> Sequence[str]:
    counts = {
        "tests": len(cases),
        "failures": sum("<failure" in case for case in cases),
        "skipped": sum("<skipped" in case for case in cases),
        "errors": sum("<error" in case for case in cases),
    }
    network = report.snapshot.network
    told = {"name": f"envcheck.{family}", **_texts(counts)}
    if ended := taken_at(report.snapshot):
        told["timestamp"] = ended
    if not isinstance(network, Missing) and network.hostname:
        told["hostname"] = network.hostname
    return [f"  <testsuite {xml_attributes(told)}>", *cases, "  </testsuite>"]


def _case(rule: str, family: str, outcome: Outcome, reason: str, reported: Reported | None, report: Report, fix_suggest: bool) -> str:
    head = f"    <testcase {xml_attributes({'classname': f'envcheck.{family}', 'name': rule})}"
    if reported is not None:
        body = xml_text(_body(reported, report, fix_suggest))
        finding = reported.finding
        if report.fails(finding):
            kind = {"message": finding.title, "type": f"{finding.confidence.value} {finding.severity.value}"}
            return f"{head}>\n      <failure {xml_attributes(kind)}>{body}</failure>\n    </testcase>"
        return f"{head}>\n      <system-out>{severity_word(finding)}: {body}</system-out>\n    </testcase>"
    if rule == WHOLE and outcome is Outcome.UNKNOWN:
        body = xml_text("\n".join([*report.because, *([NEAREST, *nearest_lines(report)] if report.nearest else [])]))
        return f"{head}>\n      <error {xml_attributes({'message': reason, 'type': 'inconclusive'})}>{body}</error>\n    </testcase>"
    if outcome in (Outcome.UNKNOWN, Outcome.CRASHED, Outcome.NOT_APPLICABLE):
        message = reason if rule in {one.rule for one in report.ignored} else f"{outcome.value}: {reason}"
        return f"{head}>\n      <skipped {xml_attributes({'message': message})}/>\n    </testcase>"
    if reason:
        return f"{head}>\n      <system-out>{xml_text(reason)}</system-out>\n    </testcase>"
    return f"{head}/>"


def _body(reported: Reported, report: Report, fix_suggest: bool) -> str:
    finding = reported.finding
    became = dict(severity_hits(report)).get(finding.rule)
    lines = [finding.title, *([f"severity changed: {became}"] if became else []), finding.message]
    lines += [f"{one.source}: {one.text}" for one in finding.evidence]
    lines += fix_lines(reported.fixes, report.tool, fix_suggest)
    return "\n".join(lines)


def _texts(counts: Mapping[str, int]) -> dict[str, str]:
    return {key: str(value) for key, value in counts.items()}


def xml_text(text: str) -> str:
    text = _NOT_XML.sub("\ufffd", visible(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def xml_attributes(values: Mapping[str, str]) -> str:
    return " ".join(f'{key}="{xml_text(value).replace(chr(10), "&#10;")}"' for key, value in values.items())
