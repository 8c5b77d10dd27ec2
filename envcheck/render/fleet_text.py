"""The report of a job for a terminal: who, what and what to do there, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from envcheck.engine.rule import Severity
from envcheck.facts.printable import ascii_only, one_line
from envcheck.planner.result import Fix
from envcheck.render.fleet_wording import head_lines, unsure_lines, verdict_line, where
from envcheck.render.styled import Styled, written
from envcheck.render.text import PageOptions
from envcheck.render.wording import command_groups, fix_aside, in_short, severity_word, shown_severity
from envcheck.report.fleet import FleetFinding, FleetReport

FINDINGS_SHOWN = 6  # a screen; --verbose and the other formats have all
WORDS = 400  # of a message
COMMANDS = 2  # lines of a fix
UNSURE_SHOWN = 3
_SIGN = {Severity.ERROR: ("✗", "bold red"), Severity.WARNING: ("!", "yellow"), Severity.INFO: ("–", "cyan")}
_VERDICT = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold magenta"}


def render(report: FleetReport, *, options: PageOptions | None = None) -> str:
    """The whole report; its second line is the verdict, and so is its last where the page is long. Empty if the reader wants to hear
    nothing where all is well."""
    options, say = options or PageOptions(), report.language.say
    if options.quiet and report.verdict == "pass" and not _loud(report):
        return ""
    lines: list[Styled] = []
    head = head_lines(report)
    lines.append(Styled((one_line(head[0]), "bold")))
    verdict = Styled((one_line(verdict_line(report), None if options.verbose else 3 * options.width), _VERDICT[report.verdict]))
    lines.append(verdict)
    lines += [Styled((one_line(line), "dim")) for line in head[1:] if not options.quiet]
    shown = _shown(report, options)
    lines += [Styled()] if shown else []
    for one in shown:
        lines += _finding(one, report, options)
    hidden = [one for one in report.findings if one not in shown] if not options.quiet else []
    if hidden:
        lines += [Styled(), *_wrapped(Styled((say(f"{_rules(hidden)}; --verbose and -o html=FILE have all"), "dim")), options, 2)]
    lines += _unsure(report, options) if not options.quiet else []
    if len(lines) > 20:
        lines += [Styled(), verdict]
    text = "\n".join(line.rstrip() for line in written(lines, options.color).split("\n")).strip("\n") + "\n"
    return text if options.unicode or report.language.code else ascii_only(text)


def _loud(report: FleetReport) -> list[FleetFinding]:
    return [one for one in report.findings if one.finding.severity is not Severity.INFO]


def _shown(report: FleetReport, options: PageOptions) -> Sequence[FleetFinding]:
    """Errors and warnings, as many as a screen holds; notes only where the reader asks for all."""
    if options.verbose:
        return report.findings
    loud = _loud(report)
    failing = [one for one in loud if report.fails(one)]
    return loud[: max(FINDINGS_SHOWN, len(failing))] if len(failing) <= 3 * FINDINGS_SHOWN else loud[: 3 * FINDINGS_SHOWN]


def _rules(findings: Iterable[FleetFinding]) -> str:
    """ "2 more findings: fleet-systems-differ (n3), open-files-low (all 8 hosts)"."""
    rows = list(findings)
    names = ", ".join(
        f"{one.finding.rule} ({len(one.hosts)} host{'s' if len(one.hosts) > 1 else ''})" if one.hosts else one.finding.rule
        for one in rows[:6]
    )
    return f"{len(rows)} more finding{'s' if len(rows) > 1 else ''}: {names}{', …' if len(rows) > 6 else ''}"


def _finding(one: FleetFinding, report: FleetReport, options: PageOptions) -> list[Styled]:
    """Who and what in one paragraph, then what to do there."""
    finding, case, say = one.finding, one.cases[0] if one.cases else None, report.language.say
    sign, style = _SIGN[shown_severity(finding)]
    place = where(one.hosts, report)
    lead = Styled((f"{sign} ", style), (f"{place or say('the job')}: ", "bold"))
    said = one_line(case.message if case else finding.message, None if options.verbose else WORDS)
    aside = f" [{finding.rule}]" if finding.severity is Severity.ERROR else f" [{say(severity_word(finding))}: {finding.rule}]"
    lines = _wrapped(lead + Styled(said, (aside, "dim")), options, 4)
    if options.verbose:
        lines += _wrapped(Styled(f"    {_sentence(one_line(finding.title))}{in_short(one.why)}"), options, 4)
    rest = one.cases[1:]
    if rest and not options.verbose:
        others = where([host for case in rest for host in case.hosts], report)
        lines += _wrapped(Styled((f"    {say(f'with other values on {others}')}", "dim")), options, 4)
    for case in rest if options.verbose else ():
        lines += _wrapped(Styled(f"    {where(case.hosts, report)}: {one_line(case.message)}"), options, 6)
    return lines + _fixes(one, place, options, say)


def _sentence(text: str) -> str:
    """With a full stop behind it."""
    return f"{text}. " if text.isascii() else f"{text}。"


def _fixes(one: FleetFinding, place: str, options: PageOptions, say: Callable[[str], str]) -> list[Styled]:
    """The first fix; all of them for those who ask."""
    lines: list[Styled] = []
    for fix in one.fixes if options.verbose else _first(one.fixes):
        aside = say(fix_aside(fix))
        title = one_line(fix.title or fix.text) + (f" ({aside})" if aside else "")
        lines += _wrapped(Styled((f"    {say('do')} ", "dim"), f"{say('on')} {place}: {title}" if place else title), options, 7)
        commands = [line for _, rows in command_groups(fix.commands, "pip", False) for row in rows for line in row.split("\n")]
        shown = commands if options.verbose else commands[:COMMANDS]
        lines += [Styled(" " * 9, (one_line(line), "cyan")) for line in shown]
    return lines


def _first(fixes: Sequence[Fix]) -> Sequence[Fix]:
    """The first with a command; where none has one, the first."""
    return [one for one in fixes if command_groups(one.commands, "pip", False)][:1] or fixes[:1]


def _unsure(report: FleetReport, options: PageOptions) -> list[Styled]:
    rows, say = unsure_lines(report), report.language.say
    if not rows:
        return []
    shown = rows if options.verbose else rows[:UNSURE_SHOWN]
    lines = [Styled(), Styled((say("Could not tell"), "bold"))]
    for row in shown:
        lines += _wrapped(Styled(("? ", "magenta"), one_line(row, None if options.verbose else WORDS)), options, 2)
    if len(rows) > len(shown):
        lines.append(Styled((f"  {say(f'and {len(rows) - len(shown)} more')}", "dim")))
    return lines


def _wrapped(line: Styled, options: PageOptions, indent: int) -> list[Styled]:
    """The line, and what does not fit below it."""
    first = next(line.wrapped(options.width))
    after = line.plain[len(first.plain) :]
    rest = line.part(len(line.plain) - len(after.lstrip()), len(line.plain))
    return [first, *(Styled(" " * indent) + one for one in rest.wrapped(max(options.width - indent, 20)))] if rest.plain else [first]
