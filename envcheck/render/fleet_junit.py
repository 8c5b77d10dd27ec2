"""The report of a job as JUnit XML: a case a host, and one for the job as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from envcheck.render.fleet_wording import verdict_line
from envcheck.render.junit import xml_attributes, xml_text
from envcheck.render.wording import fix_lines, severity_word
from envcheck.report.fleet import FleetCase, FleetFinding, FleetReport

Told: TypeAlias = tuple[FleetFinding, FleetCase]

JOB = "job"  # the case of what is no host's


def render(report: FleetReport) -> str:
    """A host fails with what fails the run and names it; its other findings are its output. The job's case fails with what names no host,
    and is an error where nobody can tell."""
    named: dict[str, list[Told]] = {host: [] for host in report.hosts}
    for one in report.findings:
        for case in one.cases or (FleetCase(one.hosts, one.finding.message),):
            for host in case.hosts:
                named.setdefault(host, []).append((one, case))
    bad = frozenset(report.fleet.bad_hosts)
    cases = [_case(host, host in bad, found, report) for host, found in named.items()]
    of_job = [(one, case) for one in report.findings if not one.hosts for case in one.cases or (FleetCase((), one.finding.message),)]
    cases.append(_undecided(report) if report.verdict == "inconclusive" else _case(JOB, False, of_job, report))
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum("<failure" in case for case in cases)),
        "errors": str(sum("<error" in case for case in cases)),
    }
    suite = {"name": "envcheck.fleet", **counts, "skipped": "0", **({"timestamp": report.taken} if report.taken else {})}
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {xml_attributes({'name': report.name, **counts})}>",
        f"  <testsuite {xml_attributes(suite)}>",
        *cases,
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _head(name: str) -> str:
    return f"    <testcase {xml_attributes({'classname': 'envcheck.fleet', 'name': name})}"


def _case(name: str, bad: bool, rows: Sequence[Told], report: FleetReport) -> str:
    failing = [one for one in rows if report.fails(one[0])]
    others = [one for one in rows if one not in failing]
    parts = []
    if failing or bad:
        rules = ", ".join(one.finding.rule for one, _ in failing) or report.language.say("named bad by the trials")
        parts.append(f"<failure {xml_attributes({'message': rules, 'type': 'fleet'})}>{_body(failing)}</failure>")
    if others:
        parts.append(f"<system-out>{_body(others)}</system-out>")
    inside = "".join(f"\n      {part}" for part in parts)
    return f"{_head(name)}>{inside}\n    </testcase>" if parts else _head(name) + "/>"


def _body(rows: Sequence[Told]) -> str:
    return xml_text("\n".join(line for one in rows for line in _lines(*one)))


def _undecided(report: FleetReport) -> str:
    message = {"message": verdict_line(report), "type": "inconclusive"}
    because = "\n".join(map(report.language.say, report.because))
    return f"{_head(JOB)}>\n      <error {xml_attributes(message)}>{xml_text(because)}</error>\n    </testcase>"


def _lines(one: FleetFinding, case: FleetCase) -> list[str]:
    evidence = [f"{each.source}: {each.text}" for each in case.evidence[:5]]
    return [f"{severity_word(one.finding)}: {case.message} [{one.finding.rule}]", *evidence, *fix_lines(case.fixes, "pip", False)]
