"""`envcheck explain RULE` and `envcheck rules`: what the rules are about, from their files, offline."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from envcheck.errors import UsageError
from envcheck.rule import FAMILY_RANK, Check, Confidence, RuleText, RuleTexts

WIDTH = 80
_CONFIDENCE = {Confidence.CERTAIN: "certain", Confidence.LIKELY: "likely: it says what may be, and never fails a run alone"}


def execute(args: argparse.Namespace) -> int:
    """The two commands on the command line; `args.command` tells them apart."""
    from envcheck.rule import rules_folder

    texts = RuleTexts((rules_folder(),))
    if args.command == "explain":
        print(explain(args.rule, texts), end="")
        return 0
    from envcheck.checks import all_checks

    print(catalogue(texts, all_checks(), as_json=args.json), end="")
    return 0


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    import difflib

    names = sorted(known)
    found = difflib.get_close_matches(word, names, 1, 0.55)
    if found:
        return found[0]
    parts = set(word.split("-"))
    best = max(names, key=lambda name: len(parts & set(name.split("-"))), default=None)
    return best if best is not None and parts & set(best.split("-")) else None


def unknown_rule(word: str, known: Iterable[str]) -> UsageError:
    """The error for an id that is no rule: one line that names the nearest right one."""
    near = nearest(word, known)
    hint = f"did you mean {near}?" if near else "`envcheck rules` lists them"
    return UsageError(f"no rule is called {' '.join(word.split())[:80]!r}; {hint}")


def explain(rule_id: str, texts: RuleTexts) -> str:
    """The page of one rule. Raises UsageError for an unknown id, naming the nearest one."""
    if rule_id not in texts.paths:
        raise unknown_rule(rule_id, texts.paths)
    text = texts.read(rule_id)
    blocks = [
        _title(text),
        _paragraphs(text.why),
        *_messages(text),
        *_fixes(text),
        *_listed("Explains also", text.explains),
        *_listed("Examples it is tested with", [f"{one['name']}: {_EXPECT[one['expect']]}" for one in text.examples if "name" in one]),
        *_listed("Sources", text.docs),
    ]
    return "\n\n".join(blocks) + "\n"


_EXPECT = {"hit": "found", "ok": "not found", "unknown": "cannot be told"}


def _title(text: RuleText) -> str:
    about = f"{text.severity.value}, {_CONFIDENCE[text.confidence]}; family {text.family}; since {text.since}"
    return f"{text.id}\n{_wrap(text.title)}\n{_wrap(about)}"


def _paragraphs(text: str) -> str:
    """Paragraphs wrapped; indented lines and list items stay as they are."""
    return "\n\n".join(_paragraph(one) for one in text.strip().split("\n\n"))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if not any(line.startswith((" ", "\t", "- ", "* ", "$ ")) for line in lines):
        return _wrap(text)
    return "\n".join(line if len(line) <= WIDTH or line.startswith((" ", "$")) else _wrap(line) for line in lines)


def _wrap(text: str, first: str = "", rest: str = "") -> str:
    text = " ".join(text.split())
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)


def _messages(text: RuleText) -> list[str]:
    """The sentences it reports, placeholders and all."""
    rows = [_wrap(message, "  - ", "    ") for message in dict.fromkeys(text.messages.values())]
    return ["What it reports\n" + "\n".join(rows)]


def _fixes(text: RuleText) -> list[str]:
    rows = [row for fix in text.fixes for row in _fix(fix)]
    return ["How it is mended\n" + "\n".join(rows)] if rows else []


def _fix(fix: Any) -> list[str]:
    match fix["kind"]:
        case "manual":
            who = " (administrator)" if fix.get("who") == "admin" else ""
            return [_wrap(fix["text"] + who, "  - ", "    "), *(f"      {line}" for line in fix.get("commands", ()))]
        case "env":
            line = f"unset {fix['name']}" if fix.get("value") is None else f"export {fix['name']}={fix['value']}"
            return [f"  - {line}", *([_wrap(fix["note"], "    ", "    ")] if fix.get("note") else [])]
        case "install":
            remove = f"uninstall {' '.join(fix['remove'])}, then " if fix.get("remove") else ""
            note = f": {fix['note']}" if fix.get("note") else ""
            return [_wrap(f"{remove}install {' '.join(fix['requirements'])}{note}", "  - ", "    ")]
        case _:
            return [_wrap("a torch build that fits this host: `envcheck --fix-suggest` searches it", "  - ", "    ")]


def _listed(heading: str, rows: Sequence[str]) -> list[str]:
    return [heading + "\n" + "\n".join(f"  {row}" for row in rows)] if rows else []


def catalogue(texts: RuleTexts, checks: Iterable[Check], *, as_json: bool = False) -> str:
    """All rules, family by family: a table, or JSON with everything of the rule files but the examples."""
    needs = {one.id: one.parameters for one in checks}
    rows = sorted((texts.read(rule) for rule in texts.paths), key=lambda row: (FAMILY_RANK[row.family], row.family, row.id))
    if as_json:
        import json

        from envcheck import __version__

        head = {"schema": 1, "tool": {"name": "envcheck", "version": __version__}}
        return json.dumps({**head, "rules": [_as_json(row, needs.get(row.id, ())) for row in rows]}, indent=2) + "\n"
    width = max((len(row.id) for row in rows), default=0)
    lines: list[str] = []
    for row in rows:
        if not lines or row.family != rows[rows.index(row) - 1].family:
            lines += ["", row.family] if lines else [row.family]
        lines.append(f"  {row.id:<{width}}  {row.severity.value:<7}  {row.title}")
    return "\n".join([*lines, "", f"{len(rows)} rules; `envcheck explain RULE` says more", ""])


def _as_json(row: RuleText, needs: Sequence[str]) -> dict[str, Any]:
    return {
        "rule": row.id,
        "family": row.family,
        "severity": row.severity.value,
        "confidence": row.confidence.value,
        "since": row.since,
        "title": row.title,
        "message": row.messages[""],
        "why": row.why.strip(),
        "needs": [name for name in needs if name != "tables"],
        "explains": list(row.explains),
        "docs": list(row.docs),
    }
