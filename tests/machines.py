"""Recorded and hand-made machines for tests of host probes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envcheck.host.recording import ReplayHost

FOLDER = Path(__file__).parent / "hosts" / "system"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def machine(name: str, answers: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None) -> ReplayHost:
    """The machine tests/hosts/system/<name>.json, with some answers or variables changed."""
    import json

    recorded = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return ReplayHost({**recorded["answers"], **(answers or {})}, {**recorded["env"], **(env or {})})


def linux(answers: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None) -> ReplayHost:
    """A Linux host that says nothing but what is given."""
    return ReplayHost({"platform": {"system": "Linux", "release": "6.8.0", "machine": "x86_64", "node": "host"}, **(answers or {})}, env)
