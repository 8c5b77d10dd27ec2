"""The report as one self-contained HTML file: nothing loaded, light and dark.

Its one script filters the table of facts. The page's policy names that script by its hash: no other one runs, whatever the facts hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape as _html_escape
from typing import Any

from envcheck.facts.printable import visible
from envcheck.facts.snapshot import LiveFacts
from envcheck.planner.result import Fix, Tool
from envcheck.render.bandwidth_chart import lines as wire_lines
from envcheck.render.bandwidth_chart import svg as wire_svg
from envcheck.render.bandwidth_chart import wire_of
from envcheck.render.pictures import bars, peers, scrolled, topology
from envcheck.render.timeline import timelines
from envcheck.render.wording import (
    NEAREST,
    command_groups,
    fix_aside,
    layers,
    nearest_lines,
    note_of,
    setting_lines,
    severity_word,
    shown_severity,
    unknown_groups,
    verdict_line,
)
from envcheck.report.report import Report, Reported, configuration_lines, host_line

_STYLE = """
:root { color-scheme: light dark; --ok: #116329; --bad: #b31d28; --warn: #7d4e00; --unknown: #6639ba; --none: #57606a; }
:root { --line: #d0d7de; --code: #f6f8fa; --page: #fff; --ink: #1f2328; }
:root { --bar: #0969da; --step0: #b6d4f5; --step1: #d4e5f9; --tint: 9, 105, 218; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ok: #56d364; --bad: #ff8f88; --warn: #e3b341; --unknown: #c8a4ff; --none: #9da7b3; --line: #3d444d; --code: #161b22; }
  :root { --page: #0d1117; --ink: #e6edf3; --bar: #58a6ff; --step0: #1f4b7d; --step1: #163354; --tint: 88, 166, 255; }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { background: var(--page); color: var(--ink); overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; } .finding h2 { margin-top: 0; } a { color: var(--bar); }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; vertical-align: top; text-align: left; font-weight: normal; }
th { overflow-wrap: normal; }
pre, code { font-family: ui-monospace, monospace; font-size: .9em; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .6rem .8rem; overflow-x: auto; overflow-wrap: normal; } pre code { padding: 0; }
.finding { border-left: 4px solid var(--none); padding-left: 1rem; margin: 1.5rem 0; }
.ok, .pass { color: var(--ok); } .bad, .fail, .error { color: var(--bad); } .warn, .warning { color: var(--warn); }
.unknown, .inconclusive { color: var(--unknown); } .none, .info { color: var(--none); }
.finding.error { border-color: var(--bad); color: inherit; }
.finding.warning, .finding.likely { border-color: var(--warn); color: inherit; }
.likely { color: var(--warn); } .finding.info { color: inherit; }
ol, ul { padding-left: 1.4rem; }
.stack { border-collapse: separate; border-spacing: 0 4px; width: 100%; }
.stack td, .stack th { padding: .4rem .7rem; background: var(--code); }
.stack th { white-space: nowrap; width: 1%; font-weight: 600; }
.stack .mark { width: 1%; border-left: 5px solid currentColor; font-weight: bold; }
.wide { overflow-x: auto; max-width: 100%; margin-top: .5rem; } svg { display: block; } svg text { fill: var(--ink); }
.step0 { fill: var(--step0); } .step1 { fill: var(--step1); } .hurt { fill: var(--bad); } svg text.on-hurt { fill: var(--page); }
.tick { stroke: var(--line); } .stood { width: 100%; margin: .5rem 0; table-layout: fixed; }
.stood td, .stood th { border-top: 1px solid var(--line); } .stood th:first-child { width: 3rem; } .stood :nth-child(2) { width: 7rem; }
pre + br { display: none; }
.sides { width: 100%; table-layout: fixed; } .sides td, .sides th { border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.ways > li { margin: 1rem 0; } h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
.bars { width: 100%; } .bars .number { text-align: right; } .bars .bar { width: 60%; vertical-align: middle; }
.bar div { height: .7rem; background: var(--bar); min-width: 1px; print-color-adjust: exact; }
.grid td, .grid th { padding: .2rem .5rem; text-align: center; white-space: nowrap; overflow-wrap: normal; border: 1px solid var(--line); }
.grid td { print-color-adjust: exact; }
.link-nv, .speed3 { background: rgba(var(--tint), .32); } .link-pix, .link-pxb, .speed2 { background: rgba(var(--tint), .2); }
.grid .off, .grid .odd { background: rgba(179, 29, 40, .18); font-weight: bold; } .grid .same, .grid .untried { color: var(--none); }
.cell-on { fill: var(--step1); } .cell-off { fill: var(--bad); } .cell-untried { fill: var(--code); }
.link-phb, .speed1 { background: rgba(var(--tint), .1); }
#facts table { width: 100%; table-layout: fixed; font-size: .9em; } #facts th { width: 45%; overflow-wrap: anywhere; }
#facts tr { border-top: 1px solid var(--line); } [hidden] { display: none !important; }
input { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--none); border-radius: 4px; padding: .2rem .5rem; }
input { max-width: 100%; } :focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; } summary { cursor: pointer; }
@media print {
  pre { white-space: pre-wrap; overflow-wrap: anywhere; } .finding, .stack tr, .wide { break-inside: avoid; } h2 { break-after: avoid; }
  .wide { overflow: visible; } svg { max-width: 100%; height: auto; } .search { display: none; }
  .grid { font-size: .6em; max-width: 100%; } .grid td, .grid th { padding: .1rem .15rem; white-space: normal; overflow-wrap: anywhere; }
  .finding details::details-content, .ways details::details-content, .sides details::details-content {
    content-visibility: visible; block-size: auto;
  }
}
.verdict { border-top: 1px solid var(--line); padding-top: 1rem; font-weight: bold; }
"""

SCRIPT = """
const box = document.getElementById("search"), facts = document.getElementById("facts"), rows = [...facts.querySelectorAll("tbody tr")];
box.closest(".search").hidden = false;
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/);
  let found = 0;
  for (const row of rows) {
    row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    found += row.hidden ? 0 : 1;
  }
  facts.open = true;
  document.getElementById("found").textContent = `${found} / ${rows.length}`;
});
"""


def render(report: Report, *, fix_suggest: bool = True) -> str:
    """The whole page. All commands are shown: there is room."""
    title, say = escape(verdict_line(report)), report.language.say
    body = [
        f"<h1>{escape(report.name)} {escape(report.version)}: <span class='{report.verdict}'>{title}</span></h1>",
        table([(say("target"), say(report.target)), (say("host"), host_line(report.snapshot)), *_beside(report)]),
        _stack(report),
        *(_finding(one, report, fix_suggest) for one in report.findings),
        *_nearest(report),
        *_unknown(report),
        *timelines(report, escape),
        *_wire(report),
        *topology(report.snapshot, escape, say),
        *bars(report, escape),
        *_not_proved(report),
        *(f"<p class='none'>{escape(line)}</p>" for line in setting_lines(report)),
        f"<p class='verdict {report.verdict}'>{title}</p>",
        *_facts(report),
    ]
    return page(title, body, SCRIPT, report.language.code)


def page(title: str, body: Iterable[str], script: str = "", language: str = "") -> str:
    """A whole page of these parts. `title` is HTML already; no other script than this one runs."""
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {_script_hash(script)}"
    return (
        f"<!doctype html>\n<html lang='{'zh-Hans' if language == 'zh' else 'en'}'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main>{f'<script>{script}</script>' if script else ''}</body></html>\n"
    )


def _script_hash(script: str) -> str:
    if not script:
        return "'none'"
    from base64 import b64encode
    from hashlib import sha256

    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


def _beside(report: Report) -> list[tuple[str, str]]:
    say = report.language.say
    return [*((say("config"), one) for one in configuration_lines(report)), *((say("assumed"), one) for one in report.assumed)]


def escape(text: str) -> str:
    """Machine text as HTML text."""
    return _html_escape(visible(text))


def prose(text: str) -> str:
    """Sentences in which `words between ticks` are code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a tick without its fellow
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def table(rows: list[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows) + "</table>"


def _stack(report: Report) -> str:
    rows = [
        f"<tr><td class='mark {layer.mark.value}'>{layer.mark.sign}</td><th scope='row'>{escape(layer.name)}</th><td>{escape(layer.value)}"
        + "".join(f" <code>{escape(rule)}</code>" for rule in layer.rules)
        + "</td></tr>"
        for layer in layers(report)
    ]
    return f"<h2>{report.language.say('The stack')}</h2>\n<table class='stack'>" + "".join(rows) + "</table>"


def _finding(reported: Reported, report: Report, fix_suggest: bool) -> str:
    finding = reported.finding
    word = report.language.say(severity_word(finding))
    kind = finding.severity.value if shown_severity(finding) is finding.severity else f"{finding.severity.value} likely"
    parts = [
        f"<section class='finding {kind}'>",
        f"<h2><span class='{kind}'>{word}</span>: {escape(finding.title)} <code>{escape(finding.rule)}</code></h2>",
        f"<p>{prose(finding.message)}</p>",
    ]
    if reported.fixes:
        parts.append("<ol>" + "".join(fix_item(fix, report.tool, fix_suggest, report.language.say) for fix in reported.fixes) + "</ol>")
    if finding.evidence:
        parts.append(
            "<ul>" + "".join(f"<li>{escape(one.source)}: <code>{escape(one.text)}</code></li>" for one in finding.evidence) + "</ul>"
        )
    why = [f"<p>{prose(' '.join(paragraph.split()))}</p>" for paragraph in reported.why.strip().split("\n\n") if paragraph]
    if why:
        parts += [f"<details class='why'><summary>{report.language.say('Why')}</summary>", *why, "</details>"]
    links = [url for url in finding.docs if url.startswith(("https://", "http://"))]
    if links:
        parts.append("<p>" + " · ".join(f"<a href='{escape(url)}' rel='noreferrer'>{escape(url)}</a>" for url in links) + "</p>")
    return "\n".join([*parts, "</section>"])


def fix_item(fix: Fix, tool: Tool, fix_suggest: bool, say: Callable[[str], str] = str) -> str:
    aside = say(fix_aside(fix))
    parts = [escape(fix.title or fix.text) + (f" ({escape(aside)})" if aside else "")]
    if fix.title and fix.text and fix.text != fix.title:
        parts.append(f"<br>{escape(fix.text)}")
    for label, lines in command_groups(fix.commands, tool, fix_suggest):
        parts.append(
            (f"<br>{escape(say(f'{label}:'))}" if label else "") + "<pre tabindex='0'><code>" + escape("\n".join(lines)) + "</code></pre>"
        )
    if note := note_of(fix, fix_suggest):
        parts.append(f"<p>{escape(note)}</p>")
    return "<li>" + "".join(parts) + "</li>"


def _nearest(report: Report) -> list[str]:
    rows = [f"<li>{escape(line)}</li>" for line in nearest_lines(report)]
    return [f"<h2>{escape(report.language.say(NEAREST))}</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _unknown(report: Report) -> list[str]:
    rows = [
        f"<li>{' '.join(f'<code>{escape(rule)}</code>' for rule in rules)}: {escape(reason)}</li>"
        for reason, rules in unknown_groups(report).items()
    ]
    return [f"<h2>{report.language.say('Could not tell')}</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _not_proved(report: Report) -> list[str]:
    live = report.snapshot.live
    say = report.language.say
    rows = [f"<li>{escape(say(one))}</li>" for one in live.not_proved] if isinstance(live, LiveFacts) else []
    return [f"<h2>{say('Not tested by the live check')}</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _wire(report: Report) -> list[str]:
    wire = wire_of(report.snapshot.live)
    if wire is None:
        return []
    curve = wire_svg(wire, report.language.say)
    say = report.language.say
    chart = scrolled(say("Bandwidth over message size"), curve) if curve else ""
    rows = [(say(what), say(figure)) for what, figure in wire_lines(wire, unicode=False)]
    return [f"<h2>{say('Speed of the connections')}</h2>", chart, table(rows), peers(wire, escape, say)]


def _facts(report: Report) -> list[str]:
    """A table to search, and the same as JSON, which `envcheck diagnose` reads back: it stays the last fold of the page."""
    import json

    from envcheck.render.json_v1 import compact

    value, say = compact(report.snapshot), report.language.say
    named = {**value.get("facts", {}), **{name: part for name, part in value.items() if name != "facts"}}
    rows = "".join(f"<tr><th scope='row'>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in _leaves(named))
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return [
        f"<h2>{say('Facts')}</h2>",
        search(say),
        f"<details id='facts'><summary>{say('Facts, one a line')}</summary><table>{rows}</table></details>",
        f"<details><summary>{say('Facts as JSON')}</summary><pre tabindex='0'><code>{escape(text)}</code></pre></details>",
    ]


def search(say: Callable[[str], str]) -> str:
    """The field of SCRIPT, which shows it."""
    field = f"<label>{say('Search the facts')}: <input id='search' type='search'></label>"
    return f"<p class='search' hidden>{field} <output id='found'></output></p>"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path as `--expect` takes it, value) of each fact; a list of plain values is one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for at, item in enumerate(value):
            yield from _leaves(item, f"{path}.{at}")
    elif isinstance(value, list):
        yield path, ", ".join(str(item) for item in value)
    else:
        yield path, {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
