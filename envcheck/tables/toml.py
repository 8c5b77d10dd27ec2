"""TOML files as plain values, on every supported Python.

Beside a file of the installed package stands its content as JSON, made when the wheel was built (hatch_build.py): the parser of
the standard library is written in Python, and the tables would cost a diagnosis more than everything else. A checksum ties
the two; where the TOML file was changed, or in a checkout, the TOML file is parsed.
"""

from __future__ import annotations

import os
from typing import Any

COMPILED = ".json"  # "torch-build.toml" → "torch-build.toml.json"
_DATE = "verified"  # the one key whose value JSON cannot hold


def load_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of one file. Raises OSError, or ValueError (TOMLDecodeError) with the position."""
    with open(path, "rb") as file:
        source = file.read()
    compiled = _compiled(f"{os.fspath(path)}{COMPILED}", source)
    return parse_toml(source.decode()) if compiled is None else compiled


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError (TOMLDecodeError) with the position."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    data: dict[str, Any] = tomllib.loads(text)
    return data


def compile_toml(source: bytes) -> str:
    """What stands beside a file: a line with the checksum of its bytes, then its content as JSON.

    TypeError for a value that JSON does not know, other than the date of a table.
    """
    import json

    values = parse_toml(source.decode())
    if _DATE in values:
        values[_DATE] = values[_DATE].isoformat()
    return f"{_checksum(source)}\n{json.dumps(values, ensure_ascii=False, separators=(',', ':'))}\n"


def _compiled(path: str, source: bytes) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            if file.readline() != f"{_checksum(source)}\n":
                return None
            text = file.read()
    except OSError:
        return None
    import json

    values: dict[str, Any] = json.loads(text)
    if _DATE in values:
        import datetime

        values[_DATE] = datetime.date.fromisoformat(values[_DATE])
    return values


def _checksum(source: bytes) -> str:
    import zlib

    return f"{zlib.crc32(source):08x}"
