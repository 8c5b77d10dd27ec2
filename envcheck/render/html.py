"""The report as one self-contained HTML file: no script, nothing loaded, light and dark."""

from __future__ import annotations

from html import escape as _html_escape

from envcheck.facts.printable import visible
from envcheck.facts.snapshot import LiveFacts
from envcheck.plan.result import Fix
from envcheck.render.bandwidth_chart import lines as wire_lines
from envcheck.render.bandwidth_chart import svg as wire_svg
from envcheck.render.bandwidth_chart import wire_of
from envcheck.render.wording import (
    NEAREST,
    command_groups,
    fix_aside,
    nearest_lines,
    setting_lines,
    severity_word,
    shown_severity,
    unknown_groups,
    verdict_line,
)
from envcheck.report.report import Report, Reported, configuration_lines, host_line
from envcheck.report.stack import stack

_STYLE = """
:root { color-scheme: light dark; --ok: #1a7f37; --bad: #cf222e; --warn: #9a6700; --unknown: #8250df; --none: #6e7781; }
:root { --line: #d0d7de; --code: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --ok: #3fb950; --bad: #f85149; --warn: #d29922; --unknown: #a371f7; --none: #8b949e; --line: #30363d; --code: #161b22; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { background: Canvas; color: CanvasText; overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-bottom: .3rem; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; vertical-align: top; text-align: left; font-weight: normal; }
pre, code { font-family: ui-monospace, monospace; font-size: .9em; background: var(--code); border-radius: 4px; }
code { padding: .1em .3em; } pre { padding: .6rem .8rem; overflow-x: auto; overflow-wrap: normal; } pre code { padding: 0; }
.finding { border-left: 4px solid var(--none); padding-left: 1rem; margin: 1.5rem 0; }
.ok, .pass { color: var(--ok); } .bad, .fail, .error { color: var(--bad); } .warn, .warning { color: var(--warn); }
.unknown, .inconclusive { color: var(--unknown); } .none, .info { color: var(--none); }
.finding.error { border-color: var(--bad); color: inherit; }
.finding.warning, .finding.likely { border-color: var(--warn); color: inherit; }
.likely { color: var(--warn); } .finding.info { color: inherit; }
ol, ul { padding-left: 1.4rem; } svg { max-width: 100%; height: auto; } th { white-space: nowrap; }
@media print { pre { white-space: pre-wrap; } .finding { break-inside: avoid; } }
.verdict { border-top: 1px solid var(--line); padding-top: 1rem; font-weight: bold; }
"""


def render(report: Report, *, fix_suggest: bool = True) -> str:
    """The whole page. All commands are shown: there is room."""
    title = escape(verdict_line(report))
    body = [
        f"<h1>{escape(report.name)} {escape(report.version)}: <span class='{report.verdict}'>{title}</span></h1>",
        _table([("target", report.target), ("host", host_line(report.snapshot)), *_beside(report)]),
        _stack(report),
        *_wire(report),
        *(_finding(one, report, fix_suggest) for one in report.findings),
        *_nearest(report),
        *_unknown(report),
        *_not_proved(report),
        *(f"<p class='none'>{escape(line)}</p>" for line in setting_lines(report)),
        _facts(report),
        f"<p class='verdict {report.verdict}'>{title}</p>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n" + "\n".join(body) + "\n</main></body></html>\n"
    )


def _beside(report: Report) -> list[tuple[str, str]]:
    return [*(("config", one) for one in configuration_lines(report)), *(("assumed", one) for one in report.assumed)]


def escape(text: str) -> str:
    """Machine text as HTML text."""
    return _html_escape(visible(text))


def _prose(text: str) -> str:
    """Sentences in which `words between ticks` are code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a tick without its fellow
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _table(rows: list[tuple[str, str]]) -> str:
    return "<table>" + "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows) + "</table>"


def _stack(report: Report) -> str:
    rows = [
        f"<tr><td class='{layer.mark.value}'>{layer.mark.sign}</td><th>{escape(layer.name)}</th><td>{escape(layer.value)}"
        + "".join(f" <code>{escape(rule)}</code>" for rule in layer.rules)
        + "</td></tr>"
        for layer in stack(report.snapshot, [one.finding for one in report.findings])
    ]
    return "<h2>The stack</h2>\n<table>" + "".join(rows) + "</table>"


def _finding(reported: Reported, report: Report, fix_suggest: bool) -> str:
    finding = reported.finding
    word = severity_word(finding)
    kind = finding.severity.value if shown_severity(finding) is finding.severity else f"{finding.severity.value} likely"
    parts = [
        f"<section class='finding {kind}'>",
        f"<h2><span class='{kind}'>{word}</span>: {escape(finding.title)} <code>{escape(finding.rule)}</code></h2>",
        f"<p>{_prose(finding.message)}</p>",
    ]
    if reported.fixes:
        parts.append("<ol>" + "".join(_fix(fix, report, fix_suggest) for fix in reported.fixes) + "</ol>")
    if finding.evidence:
        parts.append(
            "<ul>" + "".join(f"<li>{escape(one.source)}: <code>{escape(one.text)}</code></li>" for one in finding.evidence) + "</ul>"
        )
    why = [f"<p>{_prose(' '.join(paragraph.split()))}</p>" for paragraph in reported.why.strip().split("\n\n") if paragraph]
    if why:
        parts += ["<details><summary>Why</summary>", *why, "</details>"]
    links = [url for url in finding.docs if url.startswith(("https://", "http://"))]
    if links:
        parts.append("<p>" + " · ".join(f"<a href='{escape(url)}' rel='noreferrer'>{escape(url)}</a>" for url in links) + "</p>")
    return "\n".join([*parts, "</section>"])


def _fix(fix: Fix, report: Report, fix_suggest: bool) -> str:
    aside = fix_aside(fix)
    parts = [escape(fix.title or fix.text) + (f" ({escape(aside)})" if aside else "")]
    if fix.title and fix.text and fix.text != fix.title:
        parts.append(f"<br>{escape(fix.text)}")
    for label, lines in command_groups(fix.commands, report.tool, fix_suggest):
        parts.append((f"<br>{escape(label)}:" if label else "") + "<pre tabindex='0'><code>" + escape("\n".join(lines)) + "</code></pre>")
    if fix.note:
        parts.append(f"<p>{escape(fix.note)}</p>")
    return "<li>" + "".join(parts) + "</li>"


def _nearest(report: Report) -> list[str]:
    rows = [f"<li>{escape(line)}</li>" for line in nearest_lines(report)]
    return [f"<h2>{escape(NEAREST)}</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _unknown(report: Report) -> list[str]:
    rows = [
        f"<li>{' '.join(f'<code>{escape(rule)}</code>' for rule in rules)}: {escape(reason)}</li>"
        for reason, rules in unknown_groups(report).items()
    ]
    return [f"<h2>Could not tell</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _not_proved(report: Report) -> list[str]:
    live = report.snapshot.live
    rows = [f"<li>{escape(one)}</li>" for one in live.not_proved] if isinstance(live, LiveFacts) else []
    return [f"<h2>Not tested by the live check</h2><ul>{''.join(rows)}</ul>"] if rows else []


def _wire(report: Report) -> list[str]:
    wire = wire_of(report.snapshot.live)
    return ["<h2>Speed of the connections</h2>", wire_svg(wire), _table(list(wire_lines(wire, unicode=False)))] if wire else []


def _facts(report: Report) -> str:
    import json

    from envcheck.render.json_v1 import compact

    text = json.dumps(compact(report.snapshot), indent=1, ensure_ascii=False)
    return f"<details><summary>Facts</summary><pre tabindex='0'><code>{escape(text)}</code></pre></details>"
