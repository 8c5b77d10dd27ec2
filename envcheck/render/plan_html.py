"""A plan as one self-contained HTML file: what to run first, then what becomes of the files, then what was left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envcheck.planner.result import AskedRow, Fix, PlanReport, Tool, Way
from envcheck.render.html import escape, fix_item, page, prose
from envcheck.render.wording import counted


def render(plan: PlanReport, name: str, whom: Sequence[str], tool: Tool, say: Callable[..., str]) -> str:
    """`name` is the tool and its version, `whom` the machine in lines, `say` the planner's texts."""
    verdict = counted(len(plan.ways), "way") if plan.ways else say("print.none").rstrip(".")
    kind = "pass" if plan.ways else "inconclusive"
    body = [
        f"<h1>{escape(name)}, plan: <span class='{kind}'>{escape(verdict)}</span></h1>",
        f"<p>{escape(say('print.for', target='; '.join(whom)))}</p>",
        *(["<ol class='ways'>", *(_way(way, tool, say) for way in plan.ways), "</ol>"] if plan.ways else []),
        *_asked(plan, say),
        *(_file(name, content, say) for name, content in plan.written.items()),
        *_excluded(plan, say),
    ]
    return page(escape(f"{name}, plan: {verdict}"), body)


def _way(way: Way, tool: Tool, say: Callable[..., str]) -> str:
    note = ". ".join(one for one in ("; ".join(way.changes), way.note) if one)
    item = fix_item(Fix(way.title, way.who, "install", way.commands, "", way.proved, note, {}, way.grade, way.trial), tool, True)
    more = "".join(f"<li>{prose(say('print.no-command', tool=one, reason=reason))}</li>" for one, reason in way.no_command.items())
    said = "<pre tabindex='0'><code>" + escape("\n".join(way.trial.said)) + "</code></pre>" if way.trial and way.trial.said else ""
    files = "".join(_file(name, content, say) for name, content in way.files.items())
    return item.removesuffix("</li>") + said + (f"<ul>{more}</ul>" if more else "") + files + "</li>"


def _file(name: str, content: str, say: Callable[..., str]) -> str:
    shown = f"<pre tabindex='0'><code>{escape(content)}</code></pre>"
    return f"<details><summary>{escape(say('print.files', name=name).rstrip(':'))}</summary>{shown}</details>"


def _asked(plan: PlanReport, say: Callable[..., str]) -> list[str]:
    """What becomes of each entry of each file."""
    parts = []
    for name in dict.fromkeys(row.file for row in plan.asked):
        rows = "".join(_asked_row(row) for row in plan.asked if row.file == name)
        parts.append(f"<h2>{escape(say('print.asked', name=name).rstrip(':'))}</h2><table class='stood'>{rows}</table>")
    return parts


_KIND = {"fits": "ok", "kept": "ok", "moves": "warn", "refused": "bad", "unknown": "unknown", "skipped": "none"}


def _asked_row(row: AskedRow) -> str:
    new = f" → <code>{escape(row.new)}</code>" if row.new else ""
    words = f": {prose(row.why)}" if row.why else ""
    kind = _KIND[row.verdict]
    return (
        f"<tr><th scope='row'>{row.line}</th><td class='{kind}'>{row.verdict}</td><td><code>{escape(row.text)}</code>{new}{words}</td></tr>"
    )


def _excluded(plan: PlanReport, say: Callable[..., str]) -> list[str]:
    rows = "".join(f"<tr><th scope='row'>{escape(row.what)}</th><td>{prose(row.why)}</td></tr>" for row in plan.excluded)
    return [f"<h2>{escape(say('print.excluded').rstrip(':'))}</h2><table>{rows}</table>"] if rows else []
