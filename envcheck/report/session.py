"""The rules of one command, and the one way from a snapshot to the finished report: check, diagnose, compare and run take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from envcheck.engine.rule import FAMILY_RANK, Check, RuleTexts, Severity
from envcheck.errors import UsageError, near_word
from envcheck.facts.record import field, record, replace
from envcheck.report.english import ENGLISH, English
from envcheck.tables.folders import Folder, is_folder, rules_folder

if TYPE_CHECKING:
    from envcheck.engine.judge import Finding, Verdict
    from envcheck.facts.snapshot import Snapshot
    from envcheck.planner.result import Fix, PlanReport
    from envcheck.report.report import Decides, FailOn, Ignored, Report, Reported, SeverityChange
    from envcheck.symptoms.scan import SymptomTable
    from envcheck.tables.compat import Tables


@record
class IgnoreSetting:
    """A rule or family that the user does not want to hear of. `file`: where it says so; None is the command line."""

    name: str
    reason: str = ""
    file: str | None = None


@record
class RuleSession:
    """What judges in one command: checks, texts, tables and known messages, a site's included, and what the user wants of them."""

    folders: tuple[Folder, ...] = field(default_factory=lambda: (rules_folder(),))  # ours, then a site's
    select: tuple[str, ...] = ()
    ignore: tuple[IgnoreSetting, ...] = ()
    severities: Mapping[str, Severity] = field(default_factory=dict)
    severities_file: str | None = None
    language: str = ""  # of the rules' texts; reports are judged in English and translated afterwards

    @cached_property
    def spoken(self) -> English:
        """The words of the language that the texts are in."""
        if not self.language:
            return ENGLISH
        from envcheck.report.language import language

        return language(self.language)

    @cached_property
    def texts(self) -> RuleTexts:
        return RuleTexts(self.folders, tuple(self.severities.items()), self.language)

    @cached_property
    def tables(self) -> Tables:
        from envcheck.tables.compat import Tables

        compat, plan = (tuple(path for folder in self.folders if is_folder(path := f"{folder}/{part}")) for part in ("compat", "plan"))
        return Tables(compat, plan)

    @cached_property
    def symptoms(self) -> SymptomTable:
        from envcheck.symptoms.scan import SymptomTable

        return SymptomTable(self.folders)

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The rules that count."""
        return tuple(check for check in self._selected if self.setting(check.id) is None)

    @cached_property
    def ignored(self) -> tuple[tuple[Check, IgnoreSetting], ...]:
        """The rules that would count if they were not ignored, and who ignores them."""
        return tuple((check, setting) for check in self._selected if (setting := self.setting(check.id)) is not None)

    @cached_property
    def _selected(self) -> tuple[Check, ...]:
        if not self.select:
            return self.every_check
        return tuple(check for check in self.every_check if self._named(check.id) & frozenset(self.select))

    @property
    def every_check(self) -> tuple[Check, ...]:
        from envcheck.checks import all_checks

        return all_checks(self.texts.ids, self._of_site)

    @property
    def _of_site(self) -> tuple[Check, ...]:
        if not self.folders[1:]:
            return ()
        from envcheck.checks.thresholds import threshold

        return tuple(threshold(rule, self.texts.read(rule).when) for rule in self.texts.of_site)

    def prepare(self) -> None:
        """Import what judging needs; there is time for it while the agent imports torch."""
        import envcheck.engine.judge
        import envcheck.report.report  # noqa: F401

        tuple(self.checks)

    def setting(self, rule: str) -> IgnoreSetting | None:
        """Who ignores a rule, and why."""
        return next((one for one in self.ignore if one.name in self._named(rule)), None)

    def _named(self, rule: str) -> frozenset[str]:
        return frozenset((rule, self.texts.family(rule)))


def rule_session(
    select: Sequence[str] = (),
    ignore: Sequence[IgnoreSetting] = (),
    severities: Mapping[str, str] | None = None,
    site: Sequence[Folder] = (),
    *,
    file: str | None = None,
) -> RuleSession:
    """The rules that are asked for, nothing of them read yet. `file` is the configuration that sets the severities.

    UsageError for a rule, family, severity or folder that does not exist, and for a site's file that cannot be used.
    """
    for folder in site:
        from envcheck.report.site import check_site

        check_site(folder)
    texts = RuleTexts((rules_folder(), *site))
    for name in (*select, *(one.name for one in ignore)):
        _known(name, (*texts.ids, *FAMILY_RANK), "rule or family")
    return RuleSession((rules_folder(), *site), tuple(select), tuple(ignore), _severities(severities or {}, texts), file)


def _severities(levels: Mapping[str, str], texts: RuleTexts) -> Mapping[str, Severity]:
    made: dict[str, Severity] = {}
    for rule, level in levels.items():
        _known(rule, texts.ids, "rule")
        try:
            made[rule] = Severity(level)
        except ValueError:
            raise UsageError(f"severity of {rule}: {level!r} is none of {', '.join(one.value for one in Severity)}") from None
    return made


def _known(name: str, names: Sequence[str], what: str) -> None:
    if name in names:
        return
    near = near_word(name, names)
    raise UsageError(f"{name}: no such {what}" + (f"; did you mean {near}?" if near else "; `envcheck rules` lists them"))


def report_on(
    snapshot: Snapshot,
    by: RuleSession,
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
    from envcheck.engine.judge import findings, standing_second
    from envcheck.facts.snapshot import Missing
    from envcheck.facts.traits import traits
    from envcheck.report.report import finish

    verdicts = verdicts_of(snapshot, by)
    matches = () if isinstance(snapshot.symptoms, Missing) else snapshot.symptoms.matches
    plain = findings(verdicts, by.texts, traits(snapshot), standing_second(verdicts, matches))
    found = _with_severities(plain, by)
    reported, plan = _reported(choose(found) if choose else found, snapshot, by, tool, index_base)
    report = finish(
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
        decides=decisions(verdicts, by.texts),
    )
    if not by.ignore and not by.severities:
        return report
    return replace(report, ignored=_ignored(snapshot, by), severity_changes=_severity_changes(plain, verdicts, by))


def verdicts_of(snapshot: Snapshot, by: RuleSession) -> tuple[Verdict, ...]:
    from envcheck.engine.judge import judge

    return judge(snapshot, by.checks, by.tables)


def decisions(verdicts: Sequence[Verdict], texts: RuleTexts) -> Decides:
    """What is open because of the rules that nobody could decide; the texts of all others stay unread."""
    from envcheck.engine.judge import Outcome

    return {one.rule: texts.read(one.rule).decides for one in verdicts if one.outcome in (Outcome.UNKNOWN, Outcome.CRASHED)}


def _ignored(snapshot: Snapshot, by: RuleSession) -> tuple[Ignored, ...]:
    """What the ignored rules would have said: who reads the report shall know what it keeps quiet about."""
    from envcheck.engine.judge import judge
    from envcheck.report.report import Ignored

    verdicts = judge(snapshot, [check for check, _ in by.ignored], by.tables)
    rows = zip(verdicts, (setting for _, setting in by.ignored), strict=True)
    return tuple(Ignored(verdict.rule, setting.reason, setting.file, verdict.outcome) for verdict, setting in rows)


def _severity_changes(plain: Sequence[Finding], verdicts: Sequence[Verdict], by: RuleSession) -> tuple[SeverityChange, ...]:
    from envcheck.report.report import SeverityChange

    found = {one.rule: one.severity for one in plain}
    outcomes = {one.rule: one.outcome for one in verdicts}
    return tuple(
        SeverityChange(rule, found.get(rule) or by.texts.read(rule).severity, severity, by.severities_file, outcomes[rule])
        for rule, severity in by.severities.items()
        if rule in outcomes
    )


def _with_severities(found: Sequence[Finding], by: RuleSession) -> tuple[Finding, ...]:
    if not by.severities:
        return tuple(found)
    changed = [replace(one, severity=by.severities.get(one.rule, one.severity)) for one in found]
    return tuple(sorted(changed, key=lambda one: one.severity.order))


def _reported(
    found: Sequence[Finding], snapshot: Snapshot, by: RuleSession, tool: str, index_base: str | None
) -> tuple[tuple[Reported, ...], PlanReport | None]:
    from envcheck.report.report import Reported

    if not found:
        return (), None
    from envcheck import planner
    from envcheck.engine.intents import TorchBuild

    def fixes(one: Finding) -> tuple[Fix, ...]:
        return planner.fixes(one.fixes, snapshot, by.tables, checks=by.checks, texts=by.texts, tool=tool, index_base=index_base)

    # a rule without a family is one that another version reported
    rows = tuple(Reported(one, fixes(one), by.texts.read(one.rule).why if by.texts.family(one.rule) else "") for one in found)
    if not any(isinstance(intent, TorchBuild) for one in found for intent in one.fixes):
        return rows, None
    return rows, planner.search(snapshot, by.tables, checks=by.checks, texts=by.texts, tool=tool, index_base=index_base)
