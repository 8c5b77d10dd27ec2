"""Files of rules and tables as plain values: TOML, or the JSON that a wheel carries in its place.

The TOML parser of the standard library is written in Python, and the tables would cost a diagnosis more than everything else; so the
wheel has their content as JSON (hatch_build.py). A checkout and a site's folder have TOML.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

TOML, JSON = ".toml", ".json"
LIMIT_BYTES = 1 << 20
DEEPEST = 60
_TOKEN = re.compile(r"(#[^\n]*|[^\w\"'.# \t-]+)|([\w-]+)|(\.)|[ \t]+|(\"{3}|'{3}|[\"'])")
_CLOSING = {  # of a string, by what opens it
    '"': re.compile(r"\\.|[\"\n]", re.DOTALL),
    "'": re.compile(r"['\n]"),
    '"""': re.compile(r'\\.|"{3,5}', re.DOTALL),
    "'''": re.compile(r"'{3,5}"),
}
# Python makes an integer of it, and refuses to show that: its limit of 4,300 digits is for decimal ones.
_LONG = re.compile(r"\b0[xob][0-9A-Fa-f_]{1000}")
_DATE = "verified"  # the one key whose value JSON cannot hold


def load_toml(path: str | os.PathLike[str], most_bytes: int = LIMIT_BYTES) -> dict[str, Any]:
    """The content of "torch-build.toml", or of "torch-build.json" where that stands in its place.

    Raises OSError, or ValueError (TOMLDecodeError, JSONDecodeError) with the position, or where a file is larger.
    """
    name = os.fspath(path)
    if name.endswith(TOML):
        try:
            return parse_toml(_text(name, most_bytes))
        except FileNotFoundError:
            if not os.path.exists(json_name(name)):
                raise
            name = json_name(name)
    return _parse_json(_text(name, most_bytes))


def _text(name: str, most_bytes: int) -> str:
    with open(name, "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"larger than {most_bytes >> 20} MiB")
    return data.decode("utf-8-sig")  # editors on Windows put the mark before it


def json_name(name: str) -> str:
    """What the file is called in a wheel: "torch-build.json"."""
    return name.removesuffix(TOML) + JSON


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError (TOMLDecodeError) with the position."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    # The parser takes the square of the parts of a key, in time and in memory: one of 20,000 half a minute and 1.5 GB.
    if any(line.count(".") >= DEEPEST for line in text.split("\n")) and (key := _deep_key(text)):
        raise ValueError(f"a key of more than {DEEPEST} parts: {key[:40]}…")
    if found := _LONG.search(text):
        raise ValueError(f"a number of more than 1,000 digits: {found[0][:40]}…")
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return data


def _deep_key(text: str) -> str | None:
    """Where parts that dots join begin, if they are too many for a key. One pass; it ends where the parser ends, at a string that is not
    closed."""
    at, dots, begin, after_dot = 0, 0, 0, False
    while at < len(text) and (token := _TOKEN.match(text, at)):
        other, word, dot, opening = token.groups()
        part = word or opening
        if other or (dot and after_dot):
            dots, after_dot = 0, False
        elif dot:
            dots, after_dot = dots + 1, True
            if dots == DEEPEST:
                return text[begin:at]
        elif part:
            if not after_dot:
                dots, begin = 0, at
            after_dot = False
        at = token.end()
        if opening:
            closing = next((one for one in _CLOSING[opening].finditer(text, at) if not one[0].startswith("\\")), None)
            if closing is None or closing[0] == "\n":
                return None
            at = closing.end()
    return None


def as_json(text: str, completed: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> str:
    """The content of a TOML file for a wheel, with what `completed` adds. TypeError for a value that JSON does not know, other than the
    date of a table.
    """
    import json

    values = completed(parse_toml(text))
    if _DATE in values:
        values[_DATE] = values[_DATE].isoformat()
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def _parse_json(text: str) -> dict[str, Any]:
    import json

    try:
        values: dict[str, Any] = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _DATE in values:
        import datetime

        values[_DATE] = datetime.date.fromisoformat(values[_DATE])
    return values
