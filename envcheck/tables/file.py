"""Files of rules/compat: reading one table from several folders.

A file is a table; its sections hold rows:

    verified = 2026-11-27            # the day its facts were last checked
    [sources]
    notes = "https://…"              # where the rows come from, by short name
    [floor]
    key = ["cuda"]                   # fields that identify a row
    rows = [
      { cuda = "13.0", linux = "580.65.06", source = "notes" },
    ]

A site overlay is a folder with files of the same names and shape; a row with a known key replaces it, others are added.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from envcheck.facts.record import record
from envcheck.tables.folders import toml_files
from envcheck.tables.toml import load_toml

Row: TypeAlias = Mapping[str, Any]

CONFIDENCE = ("high", "medium", "low")
HEAD = frozenset(("verified", "sources"))


@record
class TableFile:
    """One table, merged over the folders. `sections` maps a section's name to its rows in file order."""

    name: str
    verified: datetime.date | None
    sources: Mapping[str, str]
    sections: Mapping[str, tuple[Row, ...]]

    def rows(self, section: str) -> tuple[Row, ...]:
        return self.sections.get(section, ())

    def source(self, row: Row) -> str:
        """The source of a row, written out."""
        return "; ".join(self.sources.get(name, name) for name in source_names(row.get("source", ())))


def read_table(name: str, folders: Sequence[str | os.PathLike[str]]) -> TableFile:
    """The table `name`, later folders on top. Raises FileNotFoundError if no folder has it, ValueError on bad TOML."""
    found = [path for folder in folders if (path := toml_files(folder).get(name))]
    if not found:
        raise FileNotFoundError(f"no table {name}.toml in {', '.join(map(str, folders))}")
    verified: datetime.date | None = None
    sources: dict[str, str] = {}
    sections: dict[str, dict[object, Row]] = {}
    for path in found:
        try:
            data = load_toml(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        verified = data.get("verified", verified)
        sources |= data.get("sources", {})
        for section, content in data.items():
            if section in HEAD:
                continue
            if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
                raise ValueError(f"{path}: [{section}] has no rows")
            rows = sections.setdefault(section, {})
            key = content.get("key", ())
            for row in content["rows"]:
                rows[row_key(row, key) or len(rows)] = row
    return TableFile(name, verified, sources, {section: tuple(rows.values()) for section, rows in sections.items()})


def read_texts(name: str, folders: Sequence[str | os.PathLike[str]]) -> Mapping[str, Any]:
    """A file of texts by section and name, later folders on top; of a list the rows of later folders come first."""
    merged: dict[str, Any] = {}
    for path in (path for folder in folders if (path := toml_files(folder).get(name))):
        for section, content in load_toml(path).items():
            before = merged.get(section)
            merged[section] = {**(before or {}), **content} if isinstance(content, dict) else [*content, *(before or ())]
    return merged


def row_key(row: Row, key: Sequence[str]) -> tuple[str, ...]:
    """What identifies a row of its section."""
    return tuple(repr(row.get(field)) for field in key)


def table_names(folders: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Names of all tables in the folders, sorted."""
    return tuple(sorted({name for folder in folders for name in toml_files(folder)}))


def source_names(source: object) -> tuple[str, ...]:
    """Names of the sources of a row: one or a list."""
    if isinstance(source, str):
        return (source,) if source.strip() else ()
    return tuple(str(one) for one in source if str(one).strip()) if isinstance(source, list | tuple) else ()
