"""Reads back what `envcheck record` and `--json` write: the facts of another run, of any machine."""

from __future__ import annotations

import json

from envcheck.errors import UsageError
from envcheck.facts.codec import DecodeError, decode_snapshot
from envcheck.facts.given_file import read_given
from envcheck.facts.printable import one_line
from envcheck.facts.snapshot import Snapshot

SCHEMA = 1
FACTS_LIMIT_BYTES = 64 << 20
RECORDED = (
    "system", "limits", "driver", "gpus", "cuda_driver", "toolkit", "visibility", "container", "network", "launcher",
    "rocm", "xpu", "mps", "python", "packages", "torch", "backends", "devices",
)  # fmt: skip

OF_TEXTS = ("asked",)  # sections that only a text fills; left out where there is none


def load_snapshot(path: str) -> Snapshot:
    """The facts of a report or recording (`--facts FILE`). Raises UsageError with one line that says what is wrong with the file."""
    return parse_snapshot(_read(path), path)


def _read(path: str) -> str:
    try:
        return read_given(path, "--facts", FACTS_LIMIT_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"--facts {one_line(path, 200)}: not JSON: not UTF-8 text") from None


def parse_snapshot(text: str, name: str) -> Snapshot:
    """The facts of a JSON document; `name` is what the error calls it."""
    name = one_line(name, 200)
    try:
        value = json.loads(text)
    except RecursionError:
        raise UsageError(f"--facts {name}: nested too deeply to be a report") from None
    except ValueError as error:
        raise UsageError(f"--facts {name}: not JSON: {one_line(str(error), 120)}") from None
    return snapshot_of(value, name)


def snapshot_of(value: object, name: str) -> Snapshot:
    """The facts of a document that was parsed already."""
    if not isinstance(value, dict) or "schema" not in value:
        raise UsageError(f"--facts {name}: not an envcheck report: it has no `schema` (observations are for `envcheck diagnose --facts`)")
    schema = value["schema"]
    if schema != SCHEMA or isinstance(schema, bool):
        found = one_line(repr(schema), 40)
        raise UsageError(f"--facts {name}: this is version {found} of the report; this envcheck reads version {SCHEMA}")
    facts, live = value.get("facts"), value.get("live")
    if not isinstance(facts, dict):
        raise UsageError(f"--facts {name}: it has no `facts`")
    sections = {key: facts[key] for key in (*RECORDED, *OF_TEXTS) if key in facts}
    if live is not None:
        sections["live"] = live
    if value.get("symptoms") is not None:
        sections["symptoms"] = value["symptoms"]
    try:
        return decode_snapshot(sections)
    except (DecodeError, RecursionError) as error:
        raise UsageError(f"--facts {name}: {one_line(str(error), 200)}") from None
