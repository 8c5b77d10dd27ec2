"""`--try`: the ways of a plan, or the fixes of a report, tried one after the other until one passes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from envcheck.commands.try_flags import is_terminal
from envcheck.engine.rule import Severity
from envcheck.facts.printable import visible
from envcheck.facts.record import replace
from envcheck.facts.snapshot import LiveFacts, LiveStatus, PythonFacts, read
from envcheck.planner.as_installed import as_installed
from envcheck.planner.install_commands import name_of
from envcheck.planner.installers import texts
from envcheck.planner.profile import profile_of
from envcheck.planner.result import TOOLS, Commands, Fix, Grade, PlanReport, TrialResult, Way
from envcheck.trial.commands import NotOurs, exports, read_line
from envcheck.trial.installer import Tick, find_installer
from envcheck.trial.resolve import run_resolve
from envcheck.trial.trial import Attempt, Bench, Checked, run_check, run_trial

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.report import Report, Reported
    from envcheck.report.session import RuleSession


def try_plan(
    report: PlanReport, snapshot: Snapshot, args: argparse.Namespace, by: RuleSession, elsewhere: bool, judged: Judged
) -> PlanReport:
    """The plan with what became of its ways; one that passed stands first."""
    trials = _Trials(snapshot, args, by, elsewhere, judged)
    ways = tuple(
        way if trials.over else with_trial(way, trials.of(way.title, way.commands, way.who), trials.untried) for way in report.ways
    )
    return replace(report, ways=tuple(sorted(ways, key=lambda way: way.grade is not Grade.TRIED)))


def try_fixes(report: Report, args: argparse.Namespace, by: RuleSession, elsewhere: bool, judged: Judged) -> Report:
    """The report with what became of its fixes. What one would paste is tried together: the first command of every error (of every
    warning, where there is no error).

    Where a finding has several ways out, the next one takes its place if the trial fails.
    """
    trials = _Trials(report.snapshot, args, by, elsewhere, judged)
    wanted = next((rows for level in (Severity.ERROR, Severity.WARNING) if (rows := _curable(report, level))), [])
    trials.cures = frozenset(one.finding.rule for one in wanted)
    if not wanted:
        print("envcheck: --try: no finding has a command that could be tried", file=sys.stderr)
    offered = [list(dict.fromkeys(fix.commands for fix in one.fixes if _pasted(fix))) for one in wanted]
    rounds = _rounds(offered)
    results: dict[Commands, TrialResult] = {}
    for chosen in rounds:
        if trials.over:
            break
        title = next(fix.title for one in wanted for fix in one.fixes if fix.commands == chosen[0])
        trial = trials.of(title, _joined(chosen))
        results |= {commands: trial for commands in chosen if commands not in results or trial.status == "passed"}

    def known(fix: Fix) -> Fix:
        return with_trial(fix, results[fix.commands], trials.untried) if fix.commands in results and fix.commands != Commands() else fix

    findings = tuple(replace(one, fixes=tuple(map(known, one.fixes))) for one in report.findings)
    ways = tuple(with_trial(way, results[way.commands], trials.untried) if way.commands in results else way for way in report.plan.ways)
    return replace(report, findings=findings, plan=replace(report.plan, ways=ways))


def _curable(report: Report, severity: Severity) -> list[Reported]:
    return [one for one in report.findings if one.finding.severity is severity and any(map(_pasted, one.fixes))]


def _pasted(fix: Fix) -> bool:
    """Whether a user would paste its commands, and they change the environment or a variable."""
    return fix.who == "user" and fix.kind != "manual" and fix.commands != Commands()


def _rounds(offered: Sequence[Sequence[Commands]]) -> list[tuple[Commands, ...]]:
    """The first choice of all, then the second where there is one, else the last. What several findings share is run once."""
    most = max(map(len, offered), default=0)
    return [tuple(dict.fromkeys(commands[min(number, len(commands) - 1)] for commands in offered)) for number in range(most)]


def _joined(chosen: Sequence[Commands]) -> Commands:
    """The lines of several fixes; those that install torch come first, for the others stand beside it."""
    ordered = sorted(chosen, key=lambda one: not any(" torch==" in line for line in (*one.pip, *one.uv)))

    def lines(of: Callable[[Commands], tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for one in ordered for line in of(one)))

    return Commands(lines(lambda one: one.pip), lines(lambda one: one.uv), (), lines(lambda one: one.shell))


Judged: TypeAlias = "Callable[[argparse.Namespace, RuleSession], Report]"  # a check from its flags to its report
T = TypeVar("T", Way, Fix)


def with_trial(one: T, trial: TrialResult, untried: str) -> T:
    """A way or fix with what became of it, and with the grade that follows; `untried` says that nothing was installed."""
    note = one.note.replace(untried, "").strip()
    if trial.status == "passed":
        return replace(one, trial=trial, grade=Grade.TRIED, note=note)
    if trial.status == "failed":  # whatever the tables say
        return replace(one, trial=trial, grade=Grade.UNCHECKED, proved=False, note=note)
    if trial.status == "resolved" and one.grade is Grade.CHECKED:
        return replace(one, trial=trial, grade=Grade.RESOLVED)
    return replace(one, trial=trial)


class _Trials:
    """The trials of one command: what they share, and whether another one makes sense."""

    def __init__(self, snapshot: Snapshot, args: argparse.Namespace, by: RuleSession, elsewhere: bool, judged: Judged) -> None:
        self.snapshot, self.args, self.by, self.elsewhere, self.judged = snapshot, args, by, elsewhere, judged
        self.deadline = time.monotonic() + args.try_timeout
        self.over = False
        self.declined = False
        self.cures: frozenset[str] = frozenset()  # rules that must find nothing afterwards, whatever their severity
        self.untried = texts(by.tables).say("note.proof")

    def of(self, title: str, commands: Commands, who: str = "user") -> TrialResult:
        """Try some commands. None of an administrator's, and none of conda's."""
        if who != "user":
            return TrialResult("not-run", "it needs an administrator")
        target = read(self.snapshot.python, PythonFacts).executable
        installer = find_installer(self.args.tool, sys.executable if self.elsewhere or not target else target, os.environ)
        if installer is None:
            return TrialResult("not-run", "uv is not here" if self.args.tool == "uv" else "envcheck tries the lines of pip and uv only")
        with _line() as (tick, clear):
            bench = Bench(installer, self._checked, self._agreed, self.deadline, tick, clear)
            trial = self._trial(title, commands, bench, target)
        self.over = trial.status == "passed" or self.declined or time.monotonic() > self.deadline
        return trial

    def _trial(self, title: str, commands: Commands, bench: Bench, target: str | None) -> TrialResult:
        if self.elsewhere:
            return run_resolve(Attempt(title, commands), bench, profile_of(self.snapshot, self.by.tables))
        try:
            if target and not any(map(commands.of, TOOLS)):  # what is there is kept
                return run_check(target, bench, exports(commands.shell))
            moved = {name_of(one) for text in (*commands.pip, *commands.uv) if (line := read_line(text)) for one in line.requirements}
        except NotOurs as error:
            return TrialResult("not-run", str(error))
        base = as_installed(
            self.snapshot, self.by.tables, moved, checks=self.by.checks, texts=self.by.texts, index_base=self.args.index_base
        )
        if base is None:
            return TrialResult("not-run", "the torch that stays is from no index: it cannot be put into another environment")
        return run_trial(Attempt(title, commands, base), bench)

    def _checked(self, python: str, variables: Mapping[str, str | None], seconds: float) -> Checked:
        """envcheck's own check of an interpreter, the live step in it."""
        given = vars(self.args)
        live = {name: given.get(name, value) for name, value in LIVE.items()}
        live |= {"live": "quick" if live["live"] == "off" else live["live"], "timeout": min(self.args.timeout, seconds)}
        look = argparse.Namespace(**{**given, **QUIET, **live, "python": python})
        with _variables(variables):
            report = self.judged(look, self.by)
        found = [one.finding for one in report.findings]
        errors = [one for one in found if one.severity is Severity.ERROR or one.rule in self.cures]
        live_facts = report.snapshot.live
        if report.verdict == "pass" and not (isinstance(live_facts, LiveFacts) and live_facts.status is LiveStatus.PASS):
            return Checked("inconclusive", (), "the live check did not decide")
        verdict = "fail" if any(one.rule in self.cures for one in errors) else report.verdict
        return Checked(verdict, tuple(f"{one.title} [{one.rule}]" for one in errors), "; ".join(report.because[:2]))

    def _agreed(self, question: str) -> bool:
        print(visible(f"envcheck: {question}"), file=sys.stderr, end="\n" if self.args.yes else "; go on? [y/N] ", flush=True)
        agreed = self.args.yes or sys.stdin.readline().strip().lower() in ("y", "yes")
        self.declined = not agreed
        return bool(agreed)


# What a check takes from the command that it belongs to, and what it has where `plan` has no such flag.
LIVE: Mapping[str, Any] = {
    "live": "quick",
    "nproc": None,
    "backend": "auto",
    "start_method": "auto",
    "expect": [],
    "fail_on": "error",
    "strict": False,
}
QUIET: Mapping[str, Any] = {
    "static": False,
    "facts": None,
    "assume": [],
    "output": None,
    "host": None,
    "evidence": None,
    "python_named_in": None,
    "format": "json",
}


@contextmanager
def _variables(variables: Mapping[str, str | None]) -> Iterator[None]:
    """os.environ as the way's shell lines leave it, for the time of a check."""
    before = dict(os.environ)
    for name, value in variables.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _line() -> Iterator[tuple[Tick, Callable[[], None]]]:
    """The progress line where stderr is a terminal, and what clears it."""
    if not is_terminal(sys.stderr):
        yield None, lambda: None
        return
    from envcheck.commands.progress import Progress

    with Progress(sys.stderr) as line:
        yield line, line.clear
