"""The report of a job as JSON, version 1, written out key by key. JSON Schema: envcheck/schema/fleet-v1.json."""

from __future__ import annotations

from typing import Any

from envcheck.facts.codec import encode
from envcheck.facts.fleet import FleetFacts, FleetGroup
from envcheck.facts.hostlist import fold
from envcheck.facts.record import replace
from envcheck.render.json_v1 import finding_document, fix_document, json_text
from envcheck.report.fleet import FleetCase, FleetFinding, FleetReport

SCHEMA = 1


def render(report: FleetReport) -> str:
    return json_text(document(report))


def document(report: FleetReport) -> dict[str, Any]:
    """The report as plain values, in the order of the contract."""
    return {
        "schema": SCHEMA,
        "tool": {"name": report.name, "version": report.version},
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "because": list(report.because),
        "hosts": list(report.hosts),
        "hostlist": fold(report.hosts),
        "bad_hosts": list(report.bad_hosts),
        "exclude": fold(report.bad_hosts),
        "findings": [_finding(one) for one in report.findings],
        "unknown": [{"rule": one.rule, "reason": one.reason, "hosts": list(one.hosts)} for one in report.unknown],
        "unread": [{"name": one.name, "reason": one.reason} for one in report.unread],
        "kinds": report.distinct,
        "replayed": report.replayed,
        "taken": report.taken or None,
        "fleet": {**_without_hosts(report.fleet), "groups": [_group(one) for one in report.fleet.groups]},
    }


def _without_hosts(fleet: FleetFacts) -> dict[str, Any]:
    value: dict[str, Any] = encode(replace(fleet, hosts=(), groups=()))
    del value["hosts"]  # they stand above
    return value


def _group(one: FleetGroup) -> dict[str, Any]:
    """Its hosts in Slurm's form: of fifty thousand, most are in each."""
    return {"layer": one.layer, "digest": one.digest, "hostlist": fold(one.hosts), "count": len(one.hosts), "values": dict(one.values)}


def _finding(one: FleetFinding) -> dict[str, Any]:
    """As in the report of one machine; evidence and fixes are those of the case that most hosts have."""
    return {
        **finding_document(one.finding, one.cases[0].fixes if one.cases else (), one.why),
        "of": one.of,
        "hosts": list(one.hosts),
        "hostlist": fold(one.hosts),
        "cases": [_case(case) for case in one.cases],
    }


def _case(case: FleetCase) -> dict[str, Any]:
    return {
        "hostlist": fold(case.hosts),
        "count": len(case.hosts),
        "message": case.message,
        "evidence": [{"source": one.source, "text": one.text} for one in case.evidence],
        "fixes": [fix_document(fix) for fix in case.fixes],
    }
