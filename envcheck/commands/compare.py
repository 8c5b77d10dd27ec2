"""`envcheck compare A.json B.json`: what differs between two snapshots, and which rules it flips."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from envcheck.commands.configuration import rule_session
from envcheck.commands.output import deliver
from envcheck.commands.rendering import words

if TYPE_CHECKING:
    from envcheck.facts.snapshot import Snapshot
    from envcheck.report.english import English

# These differ between any two runs and mean nothing.
VOLATILE = (
    "date", "time", "seconds", "pid", "uptime_seconds", "memory_available_bytes", "shm_free_bytes", "tmp_free_bytes", "utilization_percent",
    "temperature_celsius", "power_watts", "sm_clock_mhz", "group_tasks",
)  # fmt: skip


def execute(args: argparse.Namespace) -> int:
    """0 if nothing of weight differs, 1 if a fact or a verdict does."""
    from envcheck.facts.codec import encode
    from envcheck.facts.recorded import load_snapshot
    from envcheck.report.session import verdicts_of

    before, after = load_snapshot(args.before, "compare:"), load_snapshot(args.after, "compare:")
    changed = list(differences(encode(before), encode(after)))
    by = rule_session(args, getattr(args, "select", ()))
    first = {one.rule: one.outcome.value for one in verdicts_of(before, by)}
    second = {one.rule: one.outcome.value for one in verdicts_of(after, by)}
    flipped = [(rule, first[rule], second[rule]) for rule in first if first[rule] != second[rule]]
    flipped.sort(key=lambda row: "hit" not in row)  # what came or went is looked for; what only became decidable is not
    shown = _redacted(changed, before, after) if args.redact else changed
    deliver(args, lambda form, to_stdout: _written(form, args, shown, flipped, words(args, form, to_stdout)))
    return int(bool(changed or flipped))


def _written(
    form: str, args: argparse.Namespace, changed: list[tuple[str, Any, Any]], flipped: list[tuple[str, str, str]], spoken: English
) -> str:
    if form == "html":
        from envcheck import __version__
        from envcheck.render import compare_html

        files = [os.path.basename(one) for one in (args.before, args.after)]
        return compare_html.render(f"envcheck {__version__}", files, _verdict(changed, flipped), changed, flipped, spoken)
    if form == "json":
        from envcheck.render.json_v1 import json_text

        document = {
            "schema": 1,
            "facts": [{"fact": path, "before": old, "after": new} for path, old, new in changed],
            "rules": [{"rule": rule, "before": old, "after": new} for rule, old, new in flipped],
        }
        return json_text(document)
    return _text(changed, flipped, spoken.say)


def _redacted(changed: list[tuple[str, Any, Any]], before: Snapshot, after: Snapshot) -> list[tuple[str, Any, Any]]:
    """Without what names either machine; the same thing has the same placeholder on both sides."""
    from envcheck.commands.rendering import myself
    from envcheck.facts.record import fields
    from envcheck.report.redact import Identity, Redactor, identity, map_strings

    one, other = identity(before, **myself()), identity(after, **myself())
    change = Redactor(Identity(**{part.name: getattr(one, part.name) | getattr(other, part.name) for part in fields(Identity)}))
    hosts = ("network.hostname", "[host]", "[host]")  # a name of two letters is one too
    return [hosts if row[0] == hosts[0] else map_strings(row, change) for row in changed]


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Leaves of two encoded snapshots that differ, as dotted paths; a list of another length is one difference."""
    name = path.rpartition(".")[2]
    if before == after or name in VOLATILE or name.endswith("_seconds"):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for at, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}.{at}")
    else:
        yield path, before, after


def _text(changed: list[tuple[str, Any, Any]], flipped: list[tuple[str, str, str]], say: Callable[[str], str]) -> str:
    from envcheck.facts.printable import one_line

    lines = [f"{one_line(path)}: {_short(old)} → {_short(new)}" for path, old, new in changed]
    lines += [""] if flipped else []
    lines += [f"{rule}: {say(was)} → {say(now)}" for rule, was, now in flipped]
    return "\n".join([*lines, say(_verdict(changed, flipped))]) + "\n"


def _verdict(changed: list[tuple[str, Any, Any]], flipped: list[tuple[str, str, str]]) -> str:
    differ = f"{len(changed)} facts differ, {len(flipped)} rules change their verdict"
    return differ if changed or flipped else "the same facts, the same verdicts"


def _short(value: Any) -> str:
    from envcheck.facts.printable import one_line

    return one_line(json.dumps(value, ensure_ascii=False), 100)
