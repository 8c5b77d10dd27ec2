"""`envcheck compare A.json B.json`: what differs between two snapshots, and which rules it flips."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from envcheck.commands.configuration import rule_session
from envcheck.commands.output import put

# These differ between any two runs and mean nothing.
VOLATILE = (
    "date", "time", "seconds", "pid", "uptime_seconds", "memory_available_bytes", "shm_free_bytes", "tmp_free_bytes", "utilization_percent",
    "temperature_celsius", "power_watts", "sm_clock_mhz", "group_tasks",
)  # fmt: skip


def execute(args: argparse.Namespace) -> int:
    """0 if nothing of weight differs, 1 if a fact or a verdict does."""
    from envcheck.facts.codec import encode
    from envcheck.facts.recorded import load_snapshot
    from envcheck.render.json_v1 import json_text
    from envcheck.report.session import verdicts_of

    before, after = load_snapshot(args.before), load_snapshot(args.after)
    changed = list(differences(encode(before), encode(after)))
    by = rule_session(args, getattr(args, "select", ()))
    first = {one.rule: one.outcome.value for one in verdicts_of(before, by)}
    second = {one.rule: one.outcome.value for one in verdicts_of(after, by)}
    flipped = [(rule, first[rule], second[rule]) for rule in first if first[rule] != second[rule]]
    if args.json:
        document = {
            "schema": 1,
            "facts": [{"fact": path, "before": old, "after": new} for path, old, new in changed],
            "rules": [{"rule": rule, "before": old, "after": new} for rule, old, new in flipped],
        }
        put(json_text(document))
    else:
        put(_text(changed, flipped))
    return int(bool(changed or flipped))


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


def _text(changed: list[tuple[str, Any, Any]], flipped: list[tuple[str, str, str]]) -> str:
    from envcheck.facts.printable import one_line

    lines = [f"{one_line(path)}: {_short(old)} → {_short(new)}" for path, old, new in changed]
    lines += [""] if flipped else []
    lines += [f"{rule}: {was} → {now}" for rule, was, now in flipped]
    differ = f"{len(changed)} facts differ, {len(flipped)} rules change their verdict"
    lines.append(differ if changed or flipped else "the same facts, the same verdicts")
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    from envcheck.facts.printable import one_line

    return one_line(json.dumps(value, ensure_ascii=False), 100)
