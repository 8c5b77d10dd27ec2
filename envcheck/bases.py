"""Whole example machines of rules/bases: the ground that rule examples change one fact of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.codec import decode_snapshot, edit
from envcheck.facts import Snapshot
from envcheck.toml import load_toml


def base(folder: Path, name: str) -> Snapshot:
    """The machine rules/bases/<name>.toml."""
    return decode_snapshot(load_toml(folder / "bases" / f"{name}.toml"))


def example_snapshot(folder: Path, example: Mapping[str, Any]) -> Snapshot:
    """The snapshot of one `[[example]]`: its base with its `set` applied in order."""
    snapshot = base(folder, example["base"])
    for path, value in example.get("set", {}).items():
        snapshot = edit(snapshot, path, value)
    return snapshot
