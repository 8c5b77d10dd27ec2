"""Reads back what `envcheck record` and `--json` write: the facts of another run, of any machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from envcheck.errors import UsageError
from envcheck.facts.codec import DecodeError, bounded_within, decode_snapshot
from envcheck.facts.given_file import read_given
from envcheck.facts.printable import one_line
from envcheck.facts.secrets import mask_values
from envcheck.facts.snapshot import Snapshot

SCHEMA = 1
FACTS_LIMIT_BYTES = 32 << 20  # one machine's have less than one, a fleet's report has some of these
RECORDED = (
    "system", "limits", "driver", "gpus", "cuda_driver", "toolkit", "visibility", "container", "network", "launcher",
    "rocm", "xpu", "mps", "python", "packages", "torch", "backends", "devices",
)  # fmt: skip

OF_TEXTS = ("asked",)  # sections that only a text fills; left out where there is none


class RecordingError(Exception):
    """A document that is no recording; one line that says what is wrong with it, without its name."""


def load_snapshot(path: str, flag: str = "--facts") -> Snapshot:
    """The facts of a report or recording (`--facts FILE`). Raises UsageError with one line that says what is wrong with the file."""
    return _named(path, lambda: snapshot_from(sections_of(parsed(read_given(path, flag, FACTS_LIMIT_BYTES)))))


def parse_snapshot(text: str, name: str) -> Snapshot:
    """The facts of a JSON document; `name` is what the error calls it."""
    return _named(name, lambda: snapshot_from(sections_of(parsed(text))))


def snapshot_of(value: object, name: str) -> Snapshot:
    """The facts of a document that was parsed already."""
    return _named(name, lambda: snapshot_from(sections_of(value)))


def _named(name: str, read: Callable[[], Snapshot]) -> Snapshot:
    try:
        return read()
    except RecordingError as error:
        raise UsageError(f"--facts {one_line(name, 200)}: {error}") from None


def parsed(data: bytes | str) -> object:
    """What the JSON says. RecordingError where it is none."""
    try:
        return json.loads(data.decode("utf-8-sig") if isinstance(data, bytes) else data)
    except UnicodeDecodeError:
        raise RecordingError("not JSON: not UTF-8 text") from None
    except RecursionError:
        raise RecordingError("nested too deeply to be a report") from None
    except ValueError as error:
        raise RecordingError(f"not JSON: {one_line(str(error), 120)}") from None


def sections_of(value: object) -> dict[str, Any]:
    """The sections of a document as plain values, what else it holds left out. RecordingError where it is of another kind or version."""
    if not isinstance(value, dict) or "schema" not in value:
        raise RecordingError("not an envcheck report: it has no `schema` (observations are for `envcheck diagnose --facts`)")
    schema = value["schema"]
    if schema != SCHEMA or isinstance(schema, bool):
        raise RecordingError(f"this is version {one_line(repr(schema), 40)} of the report; this envcheck reads version {SCHEMA}")
    facts = value.get("facts")
    if not isinstance(facts, dict):
        raise RecordingError("it has no `facts`")
    sections = {key: facts[key] for key in (*RECORDED, *OF_TEXTS) if key in facts}
    return sections | {key: value[key] for key in ("live", "symptoms") if value.get(key) is not None}


def snapshot_from(sections: Mapping[str, Any]) -> Snapshot:
    """RecordingError where a fact is of another type than it can be. Secrets are masked here, while each fact is whole: a sentence
    that holds one part of it, or another text behind it, would not be told any more."""
    try:
        return decode_snapshot(mask_values(bounded_within(sections)))
    except (DecodeError, RecursionError) as error:
        raise RecordingError(one_line(str(error), 200)) from None
