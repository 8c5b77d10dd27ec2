"""TOML files as plain values, on every supported Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def load_toml(path: Path | str) -> dict[str, Any]:
    """The content of one file. Raises OSError, or ValueError (TOMLDecodeError) with the position."""
    with open(path, "rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    return data


def parse_toml(text: str) -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads(text)
    return data
