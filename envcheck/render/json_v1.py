"""The JSON report, version 1, written out key by key: internal names may change, this document may not.

Within version 1 keys are only added. The same facts give the same bytes, times and process ids aside;
how long the run took stands in `timings` alone. JSON Schema: envcheck/schema/report-v1.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envcheck.engine.judge import Finding
from envcheck.facts.codec import encode
from envcheck.facts.recorded import OF_TEXTS, RECORDED, SCHEMA
from envcheck.facts.secrets import MASK, is_secret_name, mask_list, mask_secrets
from envcheck.facts.snapshot import Expectation, LiveFacts, Missing, Snapshot
from envcheck.planner.result import TOOLS, Commands, Fix, PlanReport, TrialResult, Way
from envcheck.report.report import CommandRun, Report, SeverityChange


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """The document with a final newline. `fix_suggest` changes nothing: all commands are always in it."""
    return json_text(document(report))


def render_record(snapshot: Snapshot, name: str, version: str) -> str:
    """What `envcheck record` writes: the facts without a judgement. `--facts` reads it back."""
    return json_text({"schema": SCHEMA, "tool": {"name": name, "version": version}, **_facts(snapshot)})


def document(report: Report) -> dict[str, Any]:
    """The report as plain values, in the order of the contract."""
    return {
        "schema": SCHEMA,
        "tool": {"name": report.name, "version": report.version},
        "config": {"path": report.configuration.path, "passed_over": list(report.configuration.passed_over)},
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "because": list(report.because),
        "findings": [finding_document(one.finding, one.fixes, one.why) for one in report.findings],
        "unknown": [{"rule": one.rule, "reason": one.reason} for one in report.unknown],
        "ignored": [{"rule": one.rule, "reason": one.reason, "file": one.file, "outcome": one.outcome.value} for one in report.ignored],
        "severity_changes": [_severity_change(one) for one in report.severity_changes],
        "nearest": [{"rule": one.rule, "title": one.title, "words": list(one.words)} for one in report.nearest],
        "counts": dict(report.counts),
        **_facts(report.snapshot),
        **_expectations(report.snapshot),
        "plan": plan_document(report.plan),
        "assumed": list(report.assumed),
        "timings": dict(report.timings),
        **({} if report.command is None else {"command": _command(report.command)}),
    }


def without_facts(report: Report) -> dict[str, Any]:
    """What the report says, for a format that does not hold the machine."""
    kept = ("schema", "tool", "verdict", "exit_code", "because", "findings", "ignored")
    whole = document(report)
    plain: dict[str, Any] = _plain({key: whole[key] for key in kept})
    return plain


def _command(run: CommandRun) -> dict[str, Any]:
    return {
        "argv": list(run.argv),
        "started": run.started,
        "exit_code": run.exit_code,
        "signal": run.signal or None,
        "why": list(run.why),
    }


def plan_document(plan: PlanReport) -> dict[str, Any]:
    """The `plan` block, also what `envcheck plan --json` puts into its document."""
    document: dict[str, Any] = {
        "ways": [_way(way) for way in plan.ways],
        "excluded": [{"what": one.what, "why": one.why} for one in plan.excluded],
    }
    if plan.asked:  # only files ask so
        document["asked"] = [
            {"file": one.file, "line": one.line, "text": one.text, "verdict": one.verdict, "new": one.new, "why": one.why}
            for one in plan.asked
        ]
        document["written"] = dict(plan.written)
    return document


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    texts = [name for name in OF_TEXTS if not isinstance(getattr(snapshot, name), Missing)]
    facts = {"facts": {name: encode(getattr(snapshot, name)) for name in (*RECORDED, *texts)}, "live": _live(snapshot.live)}
    if not isinstance(snapshot.symptoms, Missing):
        facts["symptoms"] = encode(snapshot.symptoms)
    return facts


def _expectations(snapshot: Snapshot) -> dict[str, Any]:
    """What became of each --expect, where there was one."""
    told = snapshot.expectations
    if isinstance(told, Missing):
        return {}
    rows = [("failed", one) for one in told.failed] + [("undecided", one) for one in told.undecided]
    rows += [("met", Expectation(text)) for text in told.met]
    if not rows and told.backend is None:
        return {}
    return {
        "expectations": [
            {"expected": one.expected, "outcome": outcome, "found": one.found or None, "reason": one.reason or None}
            for outcome, one in rows
        ]
    }


def compact(snapshot: Snapshot) -> dict[str, Any]:
    """The facts without what is null or empty: for people, not for reading back."""
    value: dict[str, Any] = _pruned(_plain(_facts(snapshot)))
    return value


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: _pruned(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", [], {})}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def _live(live: LiveFacts | Missing) -> dict[str, Any]:
    """A live check that is missing keeps the shape of one that ran; `missing` tells them apart when it is read back."""
    if isinstance(live, LiveFacts):
        value: dict[str, Any] = encode(live)
        return value
    status = "inconclusive" if live.trouble else "skipped"
    shape: dict[str, Any] = {
        "backend": None,
        "world_size": None,
        "start_method": None,
        "start_reason": None,
        "ranks": [],
        "stages": [],
        "arms": [],
        "not_proved": [],
        "insights": [],
        "nccl_diagnostics": None,
        "wire": None,
    }
    return {"status": status, "reason": live.reason, **shape, "missing": live.why.value, "evidence": live.evidence}


def finding_document(finding: Finding, fixes: Sequence[Fix], why: str) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "family": finding.family,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "title": finding.title,
        "message": finding.message,
        "evidence": [{"source": one.source, "text": one.text} for one in finding.evidence],
        "fixes": [fix_document(fix) for fix in fixes],
        "docs": list(finding.docs),
        "consequences": list(finding.consequences),
        "why": why,
    }


def _severity_change(one: SeverityChange) -> dict[str, Any]:
    return {"rule": one.rule, "was": one.was.value, "severity": one.severity.value, "file": one.file, "outcome": one.outcome.value}


def fix_document(fix: Fix) -> dict[str, Any]:
    return {
        "title": fix.title,
        "who": fix.who,
        "kind": fix.kind,
        "commands": _commands(fix.commands),
        **({"choose": True} if fix.commands.choose else {}),
        "text": fix.text,
        "proved": fix.proved,
        "note": fix.note,
        "no_command": dict(fix.no_command),
        "grade": fix.grade.value,
        **_trial(fix.trial),
    }


def _way(way: Way) -> dict[str, Any]:
    return {
        "title": way.title,
        "who": way.who,
        "commands": _commands(way.commands),
        "proved": way.proved,
        "changes": list(way.changes),
        "note": way.note,
        "no_command": dict(way.no_command),
        "grade": way.grade.value,
        **_trial(way.trial),
    }


def _trial(trial: TrialResult | None) -> dict[str, Any]:
    """What --try made of it; without --try there is no such key."""
    if trial is None:
        return {}
    return {
        "trial": {
            "status": trial.status,
            "reason": trial.reason,
            "tool": trial.tool,
            "seconds": round(trial.seconds, 1),
            "commands": list(trial.commands),
            "failed": trial.failed or None,
            "said": list(trial.said),
            "download_bytes": trial.download_bytes,
        }
    }


def _commands(commands: Commands) -> dict[str, Any]:
    made = {name: list(getattr(commands, name)) for name in (*TOOLS, "shell")}
    return {**made, "cmd": {name: list(lines) for name, lines in commands.cmd.items()}} if commands.cmd else made


def json_text(value: Mapping[str, Any]) -> str:
    """A document of any command as JSON, without secrets."""
    return json.dumps(_plain(value), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Values that every JSON parser takes, without secrets: no NaN, no half of a surrogate pair (bytes that were not UTF-8)."""
    if isinstance(value, str):
        return mask_secrets(_encodable(value))
    if isinstance(value, Mapping):
        return {
            _encodable(key): MASK if isinstance(item, str) and item and key.isupper() and is_secret_name(key) else _plain(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return list(mask_list(value, _plain))
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
