"""Two snapshots side by side as one self-contained HTML file: rules whose verdict differs first, then the facts, to be searched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from envcheck.facts.printable import one_line
from envcheck.render.html import SCRIPT, escape, page, search
from envcheck.report.english import ENGLISH, English

MOST_CHARACTERS, SHORT = 200, 60  # of a value that stands there, and of the line of one that is folded
_KIND = {"hit": "bad", "crashed": "bad", "ok": "ok", "unknown": "unknown", "not_applicable": "none"}


def render(
    name: str,
    files: Sequence[str],
    verdict: str,
    facts: Sequence[tuple[str, Any, Any]],
    rules: Sequence[tuple[str, str, str]],
    spoken: English = ENGLISH,
) -> str:
    """`name` is the tool and its version, `files` the two that were compared, `verdict` the last line of the text."""
    kind, say = "warn" if facts or rules else "pass", spoken.say
    name, verdict = f"{name}, {say('compare')}", say(verdict)
    body = [f"<h1>{escape(name)}: <span class='{kind}'>{escape(verdict)}</span></h1>"]
    if rules:
        rows = (
            f"<tr><th scope='row'><code>{escape(rule)}</code></th>{_outcome(was, say)}{_outcome(now, say)}</tr>" for rule, was, now in rules
        )
        body += [f"<h2>{say('Rules')}</h2>", _table(say("rule"), files, rows)]
    if facts:
        rows = (f"<tr><th scope='row'>{escape(path)}</th><td>{_shown(old)}</td><td>{_shown(new)}</td></tr>" for path, old, new in facts)
        body += [
            f"<h2>{say('Facts')}</h2>",
            search(say),
            f"<div id='facts'>{_table(say('fact'), files, rows)}</div>",
        ]
    return page(escape(f"{name}: {verdict}"), body, SCRIPT if facts else "", spoken.code)


def _table(what: str, files: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th scope='col'>{escape(one)}</th>" for one in (what, *files))
    return f"<table class='sides'><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _outcome(one: str, say: Callable[[str], str]) -> str:
    return f"<td class='{_KIND[one]}'>{say(one.replace('_', ' '))}</td>"


def _shown(value: Any) -> str:
    """A value as HTML, a long one in a fold."""
    text = "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_CHARACTERS:
        return escape(text)
    return f"<details><summary>{escape(one_line(text, SHORT))}</summary>{escape(text)}</details>"
