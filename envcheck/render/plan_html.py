"""A plan as one self-contained HTML file: what to run first, then what becomes of the files, then what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from envcheck.planner.result import AskedRow, Fix, PlanReport, Tool, Way
from envcheck.render.html import escape, fix_item, page, prose
from envcheck.render.wording import counted
from envcheck.report.english import ENGLISH, English

Text: TypeAlias = Callable[..., str]
Say: TypeAlias = Callable[[str], str]


def render(plan: PlanReport, name: str, whom: Sequence[str], tool: Tool, text: Text, spoken: English = ENGLISH) -> str:
    """`name` is the tool and its version, `whom` the machine in lines, `text` the planner's texts, `spoken` the reader's language."""
    say = spoken.planner.say

    def told(key: str, **values: object) -> str:
        return say(text(key, **values)).rstrip(".:。：")

    verdict = say(counted(len(plan.ways), "way")) if plan.ways else told("print.none")
    kind = "pass" if plan.ways else "inconclusive"
    body = [
        f"<h1>{escape(name)}, {say('plan')}: <span class='{kind}'>{escape(verdict)}</span></h1>",
        f"<p>{escape(told('print.for', target='; '.join(whom)))}</p>",
        *(["<ol class='ways'>", *(_way(way, tool, told, say) for way in plan.ways), "</ol>"] if plan.ways else []),
        *_asked(plan, told, say),
        *(_file(name, content, told) for name, content in plan.written.items()),
        *_excluded(plan, told, say),
    ]
    return page(escape(f"{name}, {say('plan')}: {verdict}"), body, language=spoken.code)


def _way(way: Way, tool: Tool, told: Text, say: Say) -> str:
    note = ". ".join(one for one in ("; ".join(map(say, way.changes)), say(way.note)) if one)
    fix = Fix(say(way.title), way.who, "install", way.commands, "", way.proved, note, {}, way.grade, way.trial)
    item = fix_item(fix, tool, True, say)
    more = "".join(f"<li>{one}: {prose(say(reason))}</li>" for one, reason in way.no_command.items())
    said = "<pre tabindex='0'><code>" + escape("\n".join(way.trial.said)) + "</code></pre>" if way.trial and way.trial.said else ""
    files = "".join(_file(name, content, told) for name, content in way.files.items())
    return item.removesuffix("</li>") + said + (f"<ul>{more}</ul>" if more else "") + files + "</li>"


def _file(name: str, content: str, told: Text) -> str:
    shown = f"<pre tabindex='0'><code>{escape(content)}</code></pre>"
    return f"<details><summary>{escape(told('print.files', name=name))}</summary>{shown}</details>"


def _asked(plan: PlanReport, told: Text, say: Say) -> list[str]:
    """What becomes of each entry of each file."""
    parts = []
    for name in dict.fromkeys(row.file for row in plan.asked):
        rows = "".join(_asked_row(row, say) for row in plan.asked if row.file == name)
        parts.append(f"<h2>{escape(told('print.asked', name=name))}</h2><table class='stood'>{rows}</table>")
    return parts


_KIND = {"fits": "ok", "kept": "ok", "moves": "warn", "refused": "bad", "unknown": "unknown", "skipped": "none"}


def _asked_row(row: AskedRow, say: Say) -> str:
    new = f" → <code>{escape(row.new)}</code>" if row.new else ""
    words = f": {prose(say(row.why))}" if row.why else ""
    stands = f"<td class='{_KIND[row.verdict]}'>{say(row.verdict)}</td>"
    return f"<tr><th scope='row'>{row.line}</th>{stands}<td><code>{escape(row.text)}</code>{new}{words}</td></tr>"


def _excluded(plan: PlanReport, told: Text, say: Say) -> list[str]:
    rows = "".join(f"<tr><th scope='row'>{escape(say(row.what))}</th><td>{prose(say(row.why))}</td></tr>" for row in plan.excluded)
    return [f"<h2>{escape(told('print.excluded'))}</h2><table>{rows}</table>"] if rows else []
