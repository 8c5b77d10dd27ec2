"""From a snapshot to the finished report: the one way that check, diagnose, compare and run all take."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from envcheck.engine.judge import Finding, Verdict, findings, judge
from envcheck.engine.rule import FAMILY_RANK, Check, RuleTexts, Severity
from envcheck.errors import UsageError
from envcheck.facts.record import field, record, replace
from envcheck.facts.snapshot import Snapshot
from envcheck.tables.compat import Tables
from envcheck.tables.folders import Folder, rules_folder

if TYPE_CHECKING:
    from envcheck.plan.result import Fix, PlanReport
    from envcheck.report.report import FailOn, Report, Reported


@record
class Judging:
    """What judges: checks, texts and tables, a site's overlays included, and what the user wants of them."""

    checks: tuple[Check, ...]
    texts: RuleTexts
    tables: Tables
    severities: Mapping[str, Severity] = field(default_factory=dict)


def judging(
    select: Sequence[str] = (), ignore: Sequence[str] = (), severities: Mapping[str, str] | None = None, overlays: Sequence[str] = ()
) -> Judging:
    """The rules that are asked for; UsageError for a rule, family, severity or folder that does not exist."""
    from envcheck.checks import all_checks

    for folder in overlays:
        if not os.path.isdir(folder):
            raise UsageError(f"rules folder {folder}: there is none")
    folders: tuple[Folder, ...] = (rules_folder(), *overlays)
    texts = RuleTexts(folders)
    levels: dict[str, Severity] = {}
    for rule, level in (severities or {}).items():
        _known(rule, texts)
        try:
            levels[rule] = Severity(level)
        except ValueError:
            raise UsageError(f"severity of {rule}: {level!r} is none of {', '.join(one.value for one in Severity)}") from None
    for name in (*select, *ignore):
        _known(name, texts)
    chosen = tuple(
        check
        for check in all_checks()
        if (not select or _named(check.id, select, texts)) and not (ignore and _named(check.id, ignore, texts))
    )
    compat = tuple(path for folder in folders if os.path.isdir(path := os.path.join(folder, "compat")))
    return Judging(chosen, texts, Tables(compat), levels)


def _known(name: str, texts: RuleTexts) -> None:
    if name in texts.paths or name in FAMILY_RANK:
        return
    import difflib

    near = difflib.get_close_matches(name, [*texts.paths, *FAMILY_RANK], 1, 0.4)
    raise UsageError(f"{name}: no such rule or family" + (f"; did you mean {near[0]}?" if near else "; `envcheck rules` lists them"))


def _named(rule: str, names: Sequence[str], texts: RuleTexts) -> bool:
    return rule in names or texts.family(rule) in names


def report_on(
    snapshot: Snapshot,
    by: Judging,
    *,
    fail_on: FailOn = "error",
    strict: bool = False,
    live_requested: bool = True,
    assumed: Sequence[str] = (),
    timings: Mapping[str, float] | None = None,
    tool: str = "auto",
    index_base: str | None = None,
    choose: Callable[[Sequence[Finding]], Sequence[Finding]] | None = None,
) -> Report:
    """Judge a snapshot and turn what was found into a report with commands. `choose` keeps and orders findings."""
    from envcheck.report.report import finish

    verdicts = judge(snapshot, by.checks, by.tables)
    found = _with_severities(findings(verdicts, by.texts), by)
    reported, plan = _reported(choose(found) if choose else found, snapshot, by, tool, index_base)
    return finish(
        reported,
        verdicts,
        snapshot,
        fail_on=fail_on,
        strict=strict,
        live_requested=live_requested,
        plan=plan,
        assumed=assumed,
        timings=timings,
        tool=None if tool == "auto" else tool,  # type: ignore[arg-type]  # argparse's choices are the Tool literals
    )


def verdicts_of(snapshot: Snapshot, by: Judging) -> tuple[Verdict, ...]:
    return judge(snapshot, by.checks, by.tables)


def _with_severities(found: Sequence[Finding], by: Judging) -> tuple[Finding, ...]:
    if not by.severities:
        return tuple(found)
    changed = [replace(one, severity=by.severities.get(one.rule, one.severity)) for one in found]
    return tuple(sorted(changed, key=lambda one: one.severity.order))


def _reported(
    found: Sequence[Finding], snapshot: Snapshot, by: Judging, tool: str, index_base: str | None
) -> tuple[tuple[Reported, ...], PlanReport | None]:
    from envcheck.report.report import Reported

    if not found:
        return (), None
    from envcheck import plan
    from envcheck.engine.intents import TorchBuild

    def fixes(one: Finding) -> tuple[Fix, ...]:
        return plan.fixes(one.fixes, snapshot, by.tables, checks=by.checks, texts=by.texts, tool=tool, index_base=index_base)

    rows = tuple(Reported(one, fixes(one), by.texts.read(one.rule).why) for one in found)
    if not any(isinstance(intent, TorchBuild) for one in found for intent in one.fixes):
        return rows, None
    return rows, plan.search(snapshot, by.tables, checks=by.checks, texts=by.texts, tool=tool, index_base=index_base)
