"""What the registry says and a table does not, and the change to the table's text that would mend it."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from envcheck.tables.toml import parse_toml

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class AddRow:
    """A new row, after the last row that has the values `near` (else the last that has its first value, else at the end)."""

    section: str
    row: Row
    near: Row


@dataclass(frozen=True)
class Extend:
    """`to` of the last row that has the values `match`."""

    section: str
    match: Row
    to: str


@dataclass(frozen=True)
class Difference:
    table: str  # "torch-release"
    subject: str  # "torch 2.16.0"
    known: str  # what the table says, "" for nothing
    found: str  # what the registry says
    edit: AddRow | Extend | None = None  # None: a person must decide

    def lines(self) -> list[str]:
        """A diff of facts."""
        mark = "" if self.edit else "   (not written: please decide)"
        return [
            f"{self.table}  {self.subject}{mark}",
            *([f"  - {self.known}"] if self.known else []),
            f"  + {self.found}",
        ]


def row_text(value: object) -> str:
    """A value as the tables write it: { torch = "2.16.0", pythons_on = { … }, source = ["pypi", "wheel"] }."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {row_text(one)}' for name, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(row_text(one) for one in value)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    return str(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """A string of JSON is one of TOML, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def apply(text: str, edit: AddRow | Extend) -> str:
    """The text of a table with one edit. Tables keep one row a line, which keeps their history readable."""
    lines = text.splitlines(keepends=True)
    found = _rows(lines, edit.section)
    if isinstance(edit, Extend):
        at = [number for number, row in found if _has(row, edit.match)]
        if not at:
            raise ValueError(f"[{edit.section}]: no row with {dict(edit.match)}")
        lines[at[-1]] = re.sub(r'\bto = "[^"]*"', f'to = "{edit.to}"', lines[at[-1]], count=1)
    else:
        first = dict(list(edit.near.items())[:1])
        near = [number for number, row in found if _has(row, edit.near)] or [number for number, row in found if _has(row, first)]
        last = (near or [number for number, _ in found])[-1]
        lines.insert(last + 1, f"  {row_text(edit.row)},\n")
    return "".join(lines)


def _has(row: Row, values: Row) -> bool:
    return all(row.get(name) == value for name, value in values.items())


def _rows(lines: list[str], section: str) -> list[tuple[int, Row]]:
    """Line number and content of every row of a section.

    [pins]
    key = ["torch"]
    rows = [
      { torch = "2.15.0", pins = { … }, source = "metadata" },
    ]
    """
    start = lines.index(f"[{section}]\n")
    result: list[tuple[int, Row]] = []
    for number in range(start + 1, len(lines)):
        line = lines[number].strip()
        if line == "]" or line.startswith("["):
            break
        if line.startswith("{"):
            result.append((number, parse_toml(f"row = {line.rstrip(',')}")["row"]))
    if not result:
        raise ValueError(f"[{section}] has no rows of one line each")
    return result


def set_verified(text: str, day: datetime.date) -> str:
    return re.sub(r"^verified = \S+", f"verified = {day.isoformat()}", text, count=1, flags=re.MULTILINE)


def write(folder: str, differences: list[Difference], verified: list[str], day: datetime.date) -> list[str]:
    """Writes every edit into the tables of a folder; the paths that changed."""
    changed = []
    for table in sorted({one.table for one in differences if one.edit} | set(verified)):
        path = os.path.join(folder, f"{table}.toml")
        with open(path, encoding="utf-8") as file:
            before = text = file.read()
        for one in differences:
            if one.table == table and one.edit:
                text = apply(text, one.edit)
        if table in verified:
            text = set_verified(text, day)
        parse_toml(text)  # never leave a file behind that cannot be read
        if text != before:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            changed.append(path)
    return changed
