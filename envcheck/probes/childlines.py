"""The JSON lines of a child, as far as it came."""

from __future__ import annotations

import json
from typing import Any

Line = dict[str, Any]


def read_lines(text: str) -> list[Line]:
    """Lines that are JSON objects with a `step`; what a library printed between them is not ours."""
    found: list[Line] = []
    for row in text.splitlines():
        if not row.startswith('{"step":'):
            continue
        try:
            line = json.loads(row)
        except (ValueError, RecursionError):  # cut by the child's death, or not ours after all
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), str):
            found.append(line)
    return found


def step(lines: list[Line], name: str) -> Line | None:
    """The first line of a step, or None if the child did not come so far."""
    return next((line for line in lines if line["step"] == name), None)


def cuda_version(number: object) -> str | None:
    """CUDA's integer form: 13000 is "13.0"."""
    if not isinstance(number, int) or number < 1000:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"
