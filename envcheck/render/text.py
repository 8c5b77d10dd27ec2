"""The report for a terminal. Machine text is never read as markup."""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.engine.rule import Severity
from envcheck.facts.printable import ascii_only, one_line, visible
from envcheck.facts.record import record
from envcheck.facts.snapshot import LiveFacts, LiveStatus
from envcheck.planner.result import TOOLS, Fix
from envcheck.render.styled import Styled, padded, width_of, written
from envcheck.render.wording import (
    NEAREST,
    command_groups,
    fix_aside,
    in_short,
    layers,
    nearest_lines,
    note_of,
    setting_lines,
    severity_word,
    shown_severity,
    unknown_groups,
    verdict_line,
)
from envcheck.report.english import English
from envcheck.report.report import Report, Reported, configuration_lines, host_line
from envcheck.report.stack import Mark

EVIDENCE_SHOWN = 3
EVIDENCE_CHARACTERS = 160
WIDEST = 120  # longer lines are harder to read
MOST_OF_A_VERDICT = 300  # one line for `tail -n 1`, wider than the page: a reason that was cut is none


@record
class PageOptions:
    """What the stream can show."""

    width: int = 80
    is_tty: bool = False
    color: bool = False
    unicode: bool = True
    quiet: bool = False  # nothing where all is well, else findings and verdict only
    verbose: bool = False  # everything uncut


_STYLE = {Mark.OK: "green", Mark.BAD: "bold red", Mark.WARN: "yellow", Mark.UNKNOWN: "magenta", Mark.NONE: "dim"}
_SEVERITY = {Severity.ERROR: ("✗", "bold red"), Severity.WARNING: ("!", "yellow"), Severity.INFO: ("–", "cyan")}
_VERDICT = {"pass": "bold green", "fail": "bold red", "inconclusive": "bold magenta"}


def render(report: Report, *, fix_suggest: bool = False, options: PageOptions | None = None) -> str:
    """The whole report; its last line is the verdict. Empty if the reader wants to hear nothing where all is well."""
    page = _Page(options or PageOptions(), report.language)
    loud = [one for one in report.findings if one.finding.severity is not Severity.INFO]
    if page.options.quiet:
        blocks = [finding_text(one, report, page.options, fix_suggest) for one in loud]
        return "\n".join([*blocks, verdict_line(report) + "\n"]) if blocks or report.verdict != "pass" else ""
    _head(page, report)
    _stack(page, report)
    _wire(page, report)
    for one in report.findings:
        _finding(page, one, report, fix_suggest)
    _nearest(page, report)
    _unknown(page, report)
    _parts(page, report)
    _not_proved(page, report)
    _settings(page, report)
    _timings(page, report)
    _hints(page, loud, fix_suggest)
    page.gap()
    page.line(Styled((one_line(verdict_line(report), MOST_OF_A_VERDICT), _VERDICT[report.verdict])))
    return page.text()


def finding_text(one: Reported, report: Report, options: PageOptions, fix_suggest: bool) -> str:
    """One finding as it stands in the report."""
    page = _Page(options, report.language)
    _finding(page, one, report, fix_suggest)
    return page.text()


class _Page:
    """Lines of styled text at one width. Blocks have a hanging indent; commands are never broken."""

    def __init__(self, options: PageOptions, language: English) -> None:
        self.options = options
        self.say = language.say
        self.ascii = not options.unicode and not language.code  # a stream of Chinese lacks a few signs, and spells those alone
        self.width = options.width
        self.unicode = options.unicode
        self._lines: list[Styled] = []

    def line(self, line: Styled) -> None:
        """One line, however long."""
        self._lines.append(line)

    def label(self, word: str, columns: int = 10) -> str:
        """What stands before a block, as wide as all of them."""
        return padded(self.say(word), columns)

    def gap(self) -> None:
        self._lines.append(Styled())

    def block(self, lead: Styled, body: str, style: str = "", indent: int | None = None) -> None:
        """`lead`, then `body` wrapped behind it with every further line at `indent`."""
        at = lead.width if indent is None else indent
        for number, paragraph in enumerate(visible(body).split("\n")):
            whole = (Styled(" " * at) if number else lead) + Styled((paragraph, style))
            cut = len(lead.plain) if indent is None and not number else at  # characters, where a Chinese one has two columns
            margin = whole.part(0, cut)
            for line in whole.part(cut).wrapped(max(self.width - at, 20)):
                self.line(margin + line)
                margin = Styled(" " * at)

    def commands(self, lines: tuple[str, ...], at: int) -> None:
        for line in lines:
            for part in visible(line).split("\n"):
                self.line(Styled(" " * at, (part, "cyan")))

    def text(self) -> str:
        lines = [line.rstrip() for line in written(self._lines, self.options.color).split("\n")]
        text = "\n".join(lines).strip("\n") + "\n"
        return ascii_only(text) if self.ascii else text


def _head(page: _Page, report: Report) -> None:
    page.line(Styled((f"{report.name} {report.version}", "bold")))
    page.block(Styled((page.label("target", 8), "dim")), one_line(page.say(report.target)))
    page.block(Styled((page.label("host", 8), "dim")), one_line(page.say(host_line(report.snapshot))))
    for one in configuration_lines(report):
        page.block(Styled((page.label("config", 8), "dim")), one_line(one))
    for one in report.assumed:
        page.block(Styled((page.label("assumed", 8), "dim")), one_line(one), "yellow")
    page.gap()


def _stack(page: _Page, report: Report) -> None:
    rows = layers(report)
    names = max(width_of(layer.name) for layer in rows)
    for layer in rows:
        style = _STYLE[layer.mark]
        lead = Styled((layer.mark.sign, style), f" {layer.name}{' ' * (names - width_of(layer.name))}  ")
        rules = f" [{', '.join(layer.rules[:2])}{', …' if len(layer.rules) > 2 else ''}]" if layer.rules else ""
        page.block(lead, one_line(layer.value, 300) + rules, "dim" if layer.mark is Mark.NONE else "")


def _wire(page: _Page, report: Report) -> None:
    live = report.snapshot.live
    if not isinstance(live, LiveFacts) or live.wire is None:
        return
    from envcheck.render.bandwidth_chart import lines

    rows = lines(live.wire, page.unicode)
    if not rows:
        return
    page.gap()
    page.line(Styled((page.say("Speed of the connections"), "bold")))
    for what, figure in rows:
        page.block(Styled((f"  {page.say(what)}: ", "dim")), one_line(page.say(figure)))


def _finding(page: _Page, reported: Reported, report: Report, fix_suggest: bool) -> None:
    finding = reported.finding
    sign, style = _SEVERITY[shown_severity(finding)]
    page.gap()
    page.block(
        Styled((f"{sign} {page.say(severity_word(finding))}: ", style)), f"{one_line(finding.title)} [{finding.rule}]", "bold", indent=2
    )
    page.block(Styled("  "), finding.message)
    verbose = page.options.verbose
    shown = finding.evidence[: None if verbose else EVIDENCE_SHOWN]
    for number, evidence in enumerate(shown):
        source, text = one_line(evidence.source), one_line(evidence.text, None if verbose else EVIDENCE_CHARACTERS)
        page.block(Styled("  ", (page.label("" if number else "evidence"), "dim")), f"{source}: {text}" if text else source, "dim")
    if len(finding.evidence) > len(shown):
        page.block(Styled(" " * 12), page.say(f"and {len(finding.evidence) - len(shown)} more (--verbose has them all)"), "dim")
    if reported.why and finding.severity is not Severity.INFO:
        page.block(Styled("  ", (page.label("why"), "dim")), in_short(reported.why))
    if finding.consequences:
        page.block(
            Styled("  ", (page.label("leads to"), "dim")),
            ", ".join(finding.consequences),
        )
    _fixes(page, reported.fixes, report, fix_suggest)


def _fixes(page: _Page, fixes: tuple[Fix, ...], report: Report, fix_suggest: bool) -> None:
    if len(fixes) > 1:
        page.block(Styled("  ", (page.label("fix"), "dim")), page.say("one of these:"))
    for number, fix in enumerate(fixes, 1):
        label = f"{number}. " if len(fixes) > 1 else ""
        lead = Styled(f"{' ' * 12}{label}") if label else Styled("  ", (page.label("fix"), "dim"))
        at = lead.width
        aside = page.say(fix_aside(fix))
        title, text = one_line(fix.title), one_line(fix.text)
        page.block(lead, (title or text) + (f" ({aside})" if aside else ""))
        if title and text and text != title:
            page.block(Styled(" " * at), text)
        for name, lines in command_groups(fix.commands, report.tool, fix_suggest):
            if name:
                page.line(Styled(" " * at, (page.say(f"{name}:"), "dim")))
            page.commands(lines, at + 2)
        if note := note_of(fix, fix_suggest):
            page.block(Styled(" " * at), one_line(note), "dim")
        if fix_suggest:
            for tool, reason in fix.no_command.items():
                page.block(Styled(" " * at), page.say(f"{tool}: no command: {reason}"), "dim")


def _nearest(page: _Page, report: Report) -> None:
    lines = nearest_lines(report)
    if not lines:
        return
    page.gap()
    page.line(Styled((page.say(NEAREST), "bold")))
    for line in lines:
        page.block(Styled("  "), one_line(line), indent=4)


def _unknown(page: _Page, report: Report) -> None:
    groups = unknown_groups(report)
    if not groups:
        return
    page.gap()
    page.line(Styled((page.say("Could not tell"), "bold")))
    for reason, rules in groups.items():
        few = rules if page.options.verbose else rules[:3]
        names = ", ".join(few) + (page.say(f" and {len(rules) - len(few)} more") if len(rules) > len(few) else "")
        page.block(Styled(("? ", "magenta")), f"{names}: {one_line(reason, 2 * EVIDENCE_CHARACTERS)}")


def _parts(page: _Page, report: Report) -> None:
    """The full live check: what passed by part, and a line for each that went wrong. What was left out stands below."""
    live = report.snapshot.live
    arms = [arm for arm in live.arms if arm.part] if isinstance(live, LiveFacts) else []
    if not arms:
        return
    page.gap()
    page.line(Styled((page.say("The full live check"), "bold")))
    for part in dict.fromkeys(arm.part for arm in arms):
        passed = [arm.name for arm in arms if arm.part == part and arm.status is LiveStatus.PASS]
        if passed:
            page.block(Styled((f"{Mark.OK.sign} ", _STYLE[Mark.OK]), f"{page.say(part)}  "), one_line(", ".join(passed), 2000), indent=4)
    for arm in arms:
        if arm.status in (LiveStatus.FAIL, LiveStatus.HANG):
            said = one_line(f"{page.say(arm.status.value)}: {page.say(arm.reason)}", EVIDENCE_CHARACTERS)
            page.block(Styled((f"{Mark.BAD.sign} ", _STYLE[Mark.BAD]), f"{arm.name}  "), said, indent=4)


def _not_proved(page: _Page, report: Report) -> None:
    live = report.snapshot.live
    if not isinstance(live, LiveFacts) or not live.not_proved:
        return
    page.gap()
    page.line(Styled((page.say("Not tested by the live check"), "bold")))
    for one in live.not_proved:
        page.block(Styled(("– ", "dim")), one_line(page.say(one)))


def _settings(page: _Page, report: Report) -> None:
    lines = setting_lines(report)
    if lines:
        page.gap()
    for line in lines:
        page.block(Styled(""), line, "dim", indent=2)


def _timings(page: _Page, report: Report) -> None:
    if not (page.options.verbose and report.timings):
        return
    page.gap()
    page.line(Styled((page.say("Seconds"), "bold")))
    for what, seconds in sorted(report.timings.items(), key=lambda row: -row[1]):
        page.line(Styled(f"{seconds:8.2f}  {one_line(what)}"))


def _hints(page: _Page, loud: Sequence[Reported], fix_suggest: bool) -> None:
    if not loud:
        return
    hints = [f"envcheck explain {loud[0].finding.rule}"]
    choices = [{fix.commands.of(tool) for tool in TOOLS} - {()} for one in loud for fix in one.fixes]
    if any(len(lines) > 1 for lines in choices) and not fix_suggest:
        hints.append(page.say("--fix-suggest for uv, pip and conda"))
    page.gap()
    page.block(Styled((page.say("More: "), "dim")), "; ".join(hints), "dim")
