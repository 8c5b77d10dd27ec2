"""The report for pasting into an issue: Markdown, short; facts in a fold."""

from __future__ import annotations

import re

from envcheck.facts.printable import one_line, visible
from envcheck.facts.snapshot import LiveFacts
from envcheck.planner.result import Fix
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
    unknown_groups,
    verdict_line,
)
from envcheck.report.report import Report, Reported, configuration_lines, host_line
from envcheck.report.stack import Mark

_MARKS = {Mark.OK: "✅", Mark.BAD: "❌", Mark.WARN: "⚠️", Mark.UNKNOWN: "❔", Mark.NONE: "➖"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@!])")
# What GitHub makes links of after it has read the Markdown: "#7", "GH-7"; and while it reads it
_NUMBER = re.compile(r"(#|\b[Gg][Hh]-)(?=\d)")
_ADDRESS = re.compile(r"(?:(?<=:)(?=//)|(?<=www)(?=\.))")


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """The report, redacted by the caller if it is to be."""
    parts = [f"### {report.name} {report.version}: {escape(verdict_line(report))}", _table(report)]
    parts += [_finding(one, report, fix_suggest) for one in report.findings]
    parts += [
        *_nearest(report),
        *_unknown(report),
        *_not_proved(report),
        *_assumed(report),
        *map(escape, setting_lines(report)),
        _facts(report),
    ]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """One line of machine text that Markdown and HTML leave alone; a mention or an issue link becomes none."""
    return _escaped(one_line(text))


def _escaped(line: str) -> str:
    line = _ADDRESS.sub(r"\\", _NUMBER.sub("\\1\u200b", _SPECIAL.sub(r"\\\1", line)))
    return line.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\@", "@\u200b")


def code(text: str) -> str:
    """Inline code that holds any text."""
    text = one_line(text)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def _prose(text: str) -> str:
    """Sentences in which `words between ticks` are code."""
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:  # a tick without its fellow
        return _escaped("`".join(parts))
    return "".join(code(part) if number % 2 else _escaped(part) for number, part in enumerate(parts))


def fenced(text: str, language: str = "") -> str:
    """A code block that its own content cannot end."""
    text = visible(text)
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _table(report: Report) -> str:
    say = report.language.say
    head = [f"| | {say('target')} | {escape(say(report.target))} |", f"| | {say('host')} | {escape(host_line(report.snapshot))} |"]
    head += [f"| | {say('config')} | {escape(one)} |" for one in configuration_lines(report)]
    rows = [f"| {_MARKS[layer.mark]} | {layer.name} | {escape(one_line(layer.value, 300))} |" for layer in layers(report)]
    return "\n".join(["| | | |", "|---|---|---|", *head, *rows])


def _finding(reported: Reported, report: Report, fix_suggest: bool) -> str:
    finding = reported.finding
    word = report.language.say(severity_word(finding))
    lines = [f"#### {word}: {escape(finding.title)} ({code(finding.rule)})", "", escape(finding.message)]
    if finding.evidence:
        lines += ["", *(f"- {escape(one.source)}: {code(one_line(one.text, 400))}" for one in finding.evidence)]
    if reported.why:
        lines += ["", _prose(in_short(reported.why))]
    if reported.fixes:
        lines += ["", report.language.say("What to do:" if len(reported.fixes) == 1 else "What to do, one of:")]
        for number, fix in enumerate(reported.fixes, 1):
            lines += ["", *_fix(number, fix, report, fix_suggest)]
    return "\n".join(lines)


def _fix(number: int, fix: Fix, report: Report, fix_suggest: bool) -> list[str]:
    aside = report.language.say(fix_aside(fix))
    lines = [f"{number}. {escape(fix.title or fix.text)}{f' ({aside})' if aside else ''}"]
    if fix.title and fix.text and fix.text != fix.title:
        lines += ["", f"   {escape(fix.text)}"]
    for label, commands in command_groups(fix.commands, report.tool, fix_suggest):
        lines += [
            "",
            *([f"   {report.language.say(f'{label}:')}", ""] if label else []),
            *(f"   {line}" for line in fenced("\n".join(commands), "sh").split("\n")),
        ]
    if note := note_of(fix, fix_suggest):
        lines += ["", f"   {escape(note)}"]
    return lines


def _nearest(report: Report) -> list[str]:
    rows = [f"- {escape(line)}" for line in nearest_lines(report)]
    return [f"{report.language.say(NEAREST)}:\n\n" + "\n".join(rows)] if rows else []


def _unknown(report: Report) -> list[str]:
    rows = [f"- {', '.join(code(rule) for rule in rules)}: {escape(reason)}" for reason, rules in unknown_groups(report).items()]
    return [f"{report.language.say('Could not tell')}:\n\n" + "\n".join(rows)] if rows else []


def _not_proved(report: Report) -> list[str]:
    live = report.snapshot.live
    say = report.language.say
    rows = [f"- {escape(say(one))}" for one in live.not_proved] if isinstance(live, LiveFacts) else []
    return [f"{say('Not tested by the live check')}:\n\n" + "\n".join(rows)] if rows else []


def _assumed(report: Report) -> list[str]:
    return [f"{report.language.say('Assumed')}: " + ", ".join(code(one) for one in report.assumed)] if report.assumed else []


def _facts(report: Report) -> str:
    import json

    from envcheck.render.json_v1 import compact

    text = json.dumps(compact(report.snapshot), indent=1, ensure_ascii=False)
    return f"<details><summary>Facts</summary>\n\n{fenced(text, 'json')}\n\n</details>"
