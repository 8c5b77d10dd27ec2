"""Files of rules/compat: reading one table from several folders, and what must hold for every file.

A file is a table; its sections hold rows:

    verified = 2026-11-27            # the day its facts were last checked
    newer = "unknown"                # what to answer above the newest row: "unknown" | "assume-newest"
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from envcheck.toml import load_toml

Row: TypeAlias = Mapping[str, Any]

NEWER = ("unknown", "assume-newest")
CONFIDENCE = ("high", "medium", "low")
_HEAD = frozenset(("verified", "newer", "sources"))


@dataclass(frozen=True)
class TableFile:
    """One table, merged over the folders. `sections` maps a section's name to its rows in file order."""

    name: str
    verified: datetime.date | None
    newer: str
    sources: Mapping[str, str]
    sections: Mapping[str, tuple[Row, ...]]

    def rows(self, section: str) -> tuple[Row, ...]:
        return self.sections.get(section, ())

    def source(self, row: Row) -> str:
        """The source of a row, written out."""
        return "; ".join(self.sources.get(name, name) for name in _names(row.get("source", ())))


def read_table(name: str, folders: Sequence[str | os.PathLike[str]]) -> TableFile:
    """The table `name`, later folders on top. Raises FileNotFoundError if no folder has it, ValueError on bad TOML."""
    found = [path for folder in folders if os.path.isfile(path := os.path.join(folder, f"{name}.toml"))]
    if not found:
        raise FileNotFoundError(f"no table {name}.toml in {', '.join(map(str, folders))}")
    head: dict[str, Any] = {}
    sources: dict[str, str] = {}
    sections: dict[str, dict[object, Row]] = {}
    for path in found:
        try:
            data = load_toml(path)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        head |= {key: data[key] for key in ("verified", "newer") if key in data}
        sources |= data.get("sources", {})
        for section, content in data.items():
            if section in _HEAD:
                continue
            if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
                raise ValueError(f"{path}: [{section}] has no rows")
            rows = sections.setdefault(section, {})
            key = content.get("key", ())
            for row in content["rows"]:
                rows[row_key(row, key) or len(rows)] = row
    return TableFile(
        name,
        head.get("verified"),
        str(head.get("newer", "unknown")),
        sources,
        {section: tuple(rows.values()) for section, rows in sections.items()},
    )


def row_key(row: Row, key: Sequence[str]) -> tuple[str, ...]:
    """What identifies a row of its section."""
    return tuple(repr(row.get(field)) for field in key)


def table_names(folders: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Names of all tables in the folders, sorted."""
    files = (file for folder in folders if os.path.isdir(folder) for file in os.listdir(folder))
    return tuple(sorted({file[:-5] for file in files if file.endswith(".toml")}))


def problems(folder: str | os.PathLike[str], *, overlay: bool = False) -> tuple[str, ...]:
    """Everything in a folder of tables that breaks the format, one line each, with file, section and row."""
    return tuple(line for name in table_names((folder,)) for line in _problems(os.path.join(folder, f"{name}.toml"), overlay))


def _problems(path: str, overlay: bool) -> Iterator[str]:
    name = os.path.basename(path)
    try:
        data = load_toml(path)
    except (OSError, ValueError) as error:
        yield f"{name}: cannot be read: {error}"
        return
    if not overlay:
        for field in ("verified", "newer", "sources"):
            if field not in data:
                yield f"{name}: has no `{field}`"
    if "verified" in data and type(data["verified"]) is not datetime.date:
        yield f"{name}: verified is not a date"
    if data.get("newer", "unknown") not in NEWER:
        yield f"{name}: newer is {data['newer']!r}, not one of {', '.join(NEWER)}"
    sources = data.get("sources", {})
    for key, text in sources.items():
        if not isinstance(text, str) or not text.strip():
            yield f"{name}: source {key} is empty"
    used: set[str] = set()
    for section, content in data.items():
        if section in _HEAD:
            continue
        if not isinstance(content, dict) or not isinstance(content.get("rows"), list) or not content.get("key"):
            yield f"{name} [{section}]: needs `key` and `rows`"
            continue
        seen: set[tuple[str, ...]] = set()
        for number, row in enumerate(content["rows"], 1):
            where = f"{name} [{section}] row {number}"
            if not isinstance(row, dict):
                yield f"{where}: is not a table"
                continue
            if not any(field in row for field in content["key"]):
                yield f"{where}: has none of its key fields {', '.join(content['key'])}"
            key_of_row = row_key(row, content["key"])
            if key_of_row in seen:
                yield f"{where}: twice the key {' '.join(key_of_row)}"
            seen.add(key_of_row)
            names = _names(row.get("source", ()))
            used |= set(names)
            if not names:
                yield f"{where}: has no source"
            for one in names:
                if one not in sources and not overlay:
                    yield f"{where}: source {one!r} is not in [sources]"
            for field in ("confidence", "exists"):
                if row.get(field, "high") not in CONFIDENCE:
                    yield f"{where}: {field} is {row[field]!r}"
            yield from (f"{where}: {line}" for line in _bad_versions(row))
    if not overlay:
        for key in sorted(set(sources) - used):
            yield f"{name}: source {key} is used by no row"


_VERSION_FIELDS = frozenset((
    "cuda", "from", "to", "linux", "windows", "windows_unclear_from", "compute_capability", "first_cuda", "last_cuda", "glibc", "macos",
))  # fmt: skip
_SPECIFIER_FIELDS = frozenset(("torch", "python", "triton", "torchcodec", "torchvision", "torchaudio", "requires_python"))  # or a version


def _bad_versions(row: Row) -> Iterator[str]:
    """Version fields that are no versions, and ranges that run backwards."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    parsed: dict[str, Version] = {}
    for field in _VERSION_FIELDS & row.keys():
        if not isinstance(row[field], str):
            continue
        try:
            parsed[field] = Version(row[field])
        except InvalidVersion:
            yield f"{field} = {row[field]!r} is not a version"
    for field in _SPECIFIER_FIELDS & row.keys():
        text = str(row[field])
        try:
            SpecifierSet(text if not text or text[0] in "<>=!~" else f"=={text}")
        except InvalidSpecifier:
            yield f"{field} = {text!r} is neither a version nor a specifier"
    if "from" in parsed and "to" in parsed and parsed["from"] > parsed["to"]:
        yield f"runs backwards: from {row['from']} to {row['to']}"


def _names(source: object) -> tuple[str, ...]:
    if isinstance(source, str):
        return (source,) if source.strip() else ()
    return tuple(str(one) for one in source if str(one).strip()) if isinstance(source, list | tuple) else ()
