"""Facts of whole machines, as their recordings hold them, for tests of what compares hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.commands.bases import base as base_snapshot
from envcheck.facts.codec import encode

RULES = Path(__file__).parent.parent / "rules"


def base(name: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The machine rules/bases/<name>.toml as plain values, with facts at dotted paths replaced."""
    facts: dict[str, Any] = encode(base_snapshot(RULES, name))
    return changed(facts, changes or {})


def changed(facts: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with facts at dotted paths replaced; a part may be the index in a list."""
    made: dict[str, Any] = json.loads(json.dumps(facts))
    for path, value in changes.items():
        node: Any = made
        *way, last = path.split(".")
        for part in way:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[int(last) if isinstance(node, list) else last] = value
    return made
