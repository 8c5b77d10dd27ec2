"""`envcheck explain RULE` and `envcheck rules`: what the rules are about, from their files, offline."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from envcheck.commands.configuration import rule_session
from envcheck.commands.output import put
from envcheck.engine.rule import FAMILY_RANK, RuleText
from envcheck.errors import UsageError, near_word
from envcheck.facts.printable import one_line
from envcheck.facts.record import replace
from envcheck.facts.snapshot import SECTIONS

if TYPE_CHECKING:
    from envcheck.report.session import RuleSession


# Where the documentation is: until it is hosted, where `mkdocs serve` shows it in a checkout. Who hosts a copy sets the variable.
SITE, SITE_VARIABLE = "http://127.0.0.1:8000/", "ENVCHECK_DOCS_URL"


def execute(args: argparse.Namespace) -> int:
    """The two commands on the command line; `args.command` tells them apart."""
    from envcheck.commands.rendering import wanted_language
    from envcheck.commands.terminal import columns

    by = rule_session(args)
    if not getattr(args, "json", False) and (code := wanted_language(args, True, sys.stdout)):
        by = replace(by, language=code)
    if args.command == "explain" and args.url:
        put("".join(f"{address(rule, by, os.environ.get(SITE_VARIABLE))}\n" for rule in args.rule))
        return 0
    # A pipe gets each rule in one line, a terminal what fits into it.
    width = (columns(sys.stdout, os.environ) or 80) if sys.stdout.isatty() else 0
    put(explain(" ".join(args.rule), by, width, _system()) if args.command == "explain" else catalogue(by, as_json=args.json, width=width))
    return 0


def _system() -> str:
    """The reader's own, as pages call it."""
    return "WSL" if os.environ.get("WSL_DISTRO_NAME") else {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, "Linux")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    names = sorted(known)
    if found := near_word(word, names):
        return found
    parts = set(word.split("-"))
    best = max(names, key=lambda name: len(parts & set(name.split("-"))), default=None)
    return best if best is not None and parts & set(best.split("-")) else None


def unknown_rule(word: str, known: Iterable[str]) -> UsageError:
    """The error for an id that is no rule: one line that names the nearest right one."""
    near = nearest(word, known)
    hint = f"did you mean {near}?" if near else "`envcheck rules` lists them"
    return UsageError(f"no rule is called {one_line(word, 80)!r}; {hint}")


def address(rule_id: str, by: RuleSession, site: str | None = None) -> str:
    """Where the page of a rule is. Raises UsageError for what is no rule."""
    if rule_id.lower() not in by.texts.ids:
        raise unknown_rule(rule_id, by.texts.ids)
    return f"{(site or SITE).rstrip('/')}/rules/{rule_id.lower()}/"


def explain(rule_id: str, by: RuleSession, width: int = 0, system: str = "Linux") -> str:
    """The page of one rule, or the pages about some words, in lines of at most `width` columns if that is not 0. What to do on `system`
    comes before what others do.

    UsageError where there is neither, naming the nearest rule.
    """
    rule_id = rule_id.lower() if rule_id.lower() in by.texts.ids else rule_id
    if rule_id.lower() in FAMILY_RANK:
        return _family(rule_id.lower(), by, width)
    if rule_id not in by.texts.ids:
        return _about(rule_id, by, width)
    from envcheck.commands.page import page

    return page(rule_id, by, system)


def _row(lead: str, title: str, width: int) -> Iterator[str]:
    """A row of a list; on a terminal of so many columns the title goes on below itself, elsewhere (0, `| grep`) a row is one line."""
    if not width:
        yield lead + title
        return
    from envcheck.render.styled import Styled, width_of

    at = min(width_of(lead), max(width - 30, 4))
    first, *rest = (line.plain for line in Styled(title).wrapped(width - at))
    yield from [lead + first] if at == width_of(lead) else [lead.rstrip(), " " * at + first]
    yield from (" " * at + line for line in rest)


def _family(family: str, by: RuleSession, width: int) -> str:
    from envcheck.report.titles import general_title

    rows = [by.texts.read(rule) for rule in by.texts.ids if by.texts.family(rule) == family]
    longest = max((len(row.id) for row in rows), default=0)
    pairs = ((f"  envcheck explain {row.id:<{longest}}  ", general_title(row.title, by.spoken.say)) for row in rows)
    lines = [line for lead, title in pairs for line in _row(lead, title, width)]
    heading = by.spoken.say(f"The rules of the family {family} (--select {family} judges by them alone):")
    return "\n".join([heading, *lines, ""])


PAGES = 5  # that a question is answered with


def _about(words: str, by: RuleSession, width: int) -> str:
    from envcheck.commands.nearest import CHINESE, nearest_to_words
    from envcheck.report.titles import general_title

    # "torch-misssing" is a rule's name with a slip of the pen; a word that stands somewhere is a question.
    slip = not words.split()[1:] and ("-" in words or "_" in words)
    language = "zh" if CHINESE.search(words) else ""  # of the words, whatever that of the answer is
    found = () if slip else nearest_to_words(words, replace(by, language=language), PAGES)
    if not found:
        raise unknown_rule(words, by.texts.ids)
    longest = max(len(one.rule) for one in found)
    say = by.spoken.say
    lines: list[str] = []
    for one in found:
        title = f"{general_title(by.texts.read(one.rule).title, say)} ({say('words')}: {', '.join(one.words)})"
        lines += _row(f"  envcheck explain {one.rule:<{longest}}  ", title, width)
    return "\n".join([say(f"Pages about {one_line(words, 80)!r}:"), *lines, ""])


def catalogue(by: RuleSession, *, as_json: bool = False, width: int = 0) -> str:
    """All rules, family by family: a table, or JSON with everything of the rule files but the examples."""
    needs = {one.id: one.reads for one in by.every_check}
    rows = sorted(map(by.texts.read, by.texts.ids), key=lambda row: (FAMILY_RANK[row.family], row.family, row.id))
    if as_json:
        import json

        from envcheck import __version__

        head = {"schema": 1, "tool": {"name": "envcheck", "version": __version__}}
        return json.dumps({**head, "rules": [_as_json(row, needs.get(row.id, ())) for row in rows]}, indent=2) + "\n"
    from envcheck.render.styled import padded
    from envcheck.report.titles import general_title

    longest, say = max((len(row.id) for row in rows), default=0), by.spoken.say
    lines: list[str] = []
    for row in rows:
        if not lines or row.family != rows[rows.index(row) - 1].family:
            lines += ["", row.family] if lines else [row.family]
        lines += _row(f"  {row.id:<{longest}}  {padded(say(row.severity.value), 9)}", general_title(row.title, say), width)
    return "\n".join([*lines, "", say(f"{len(rows)} rules; `envcheck explain RULE` says more"), ""])


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
        "confirm": row.confirm,
        "notes": list(row.notes),
        "needs": [name for name in needs if name in SECTIONS],
        "explains": list(row.explains),
        "layer": row.layer,
        "decides": list(row.decides),
        "about": row.about,
        "docs": list(row.docs),
        **({"when": [dict(one) for one in row.when]} if row.when else {}),
    }
