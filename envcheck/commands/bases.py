"""Whole example machines of rules/bases: the ground that rule examples change one fact of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from envcheck.facts.codec import decode_snapshot, edit
from envcheck.facts.snapshot import Snapshot
from envcheck.tables.folders import Folder
from envcheck.tables.toml import load_toml


def base(folder: Folder, name: str) -> Snapshot:
    """The machine rules/bases/<name>.toml."""
    return decode_snapshot(load_toml(os.path.join(folder, "bases", f"{name}.toml")))


def example_snapshot(folder: Folder, example: Mapping[str, Any]) -> Snapshot:
    """The snapshot of one `[[example]]`: its base with its `set` applied in order."""
    snapshot = base(folder, example["base"])
    for path, value in example.get("set", {}).items():
        snapshot = edit(snapshot, path, value)
    return snapshot
