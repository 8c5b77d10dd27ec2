"""NCCL's RAS service: its answer about every communicator, and the ranks that are behind. The question is asked by the agent.

The counts are of launches: a hang in which every rank has launched the same (a dead link, a switch) shows no difference and is
not to be seen here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from envcheck.facts.record import record

_STRING = r'(?<!\\)"(?:[^"\\]|\\.)*"'  # not from within another one, which would read the rest of the text once more
# The end of a value, then only blanks, then the beginning of another one: between them a comma is missing.
_TOKENS = re.compile(rf'({_STRING}|[}}\]]|-?\d[\d.eE+-]{{0,40}}|true|false|null)(\s+)(?=["{{\[])|{_STRING}')


@record
class Communicator:
    hash: str
    size: int
    missing: tuple[int, ...] = ()  # ranks that did not answer
    counts: Mapping[int, int] | None = None  # rank → collectives launched
    errors: tuple[int, ...] = ()  # ranks with an asynchronous error

    @property
    def behind(self) -> tuple[int, ...]:
        """Ranks that launched fewer collectives than the others."""
        if not self.counts:
            return ()
        most = max(self.counts.values())
        return tuple(sorted(rank for rank, count in self.counts.items() if count < most))


@record
class RasState:
    """What the service said. `text` is the answer where it was no JSON: NCCL before 2.28.7."""

    version: str | None = None
    communicators: tuple[Communicator, ...] = ()
    text: str = ""

    @property
    def said(self) -> tuple[str, ...]:
        """The state in words, one line a communicator that is not in order."""
        lines = []
        for one in self.communicators:
            name = f"communicator {one.hash} of {one.size} ranks"
            if one.missing:
                lines.append(f"{name}: no answer from rank {_list(one.missing)}")
            if one.behind:
                lines.append(f"{name}: rank {_list(one.behind)} launched fewer collectives than the others")
            if one.errors:
                lines.append(f"{name}: rank {_list(one.errors)} has an asynchronous error")
        if self.communicators and not lines:
            lines.append("all ranks have launched the same collectives: what hangs is below NCCL's launches, or outside NCCL")
        return tuple(lines)


def _list(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks))


def read_ras(answer: str) -> RasState | None:
    """The answer to STATUS, as JSON or text; None if it is neither.

    OK
    {"nccl_version": "2.28.9", "communicators": [{"hash": "0xec…", "size": 2, "ranks": [{"rank": 0, "status": {"async_error": 0},
    "collective_counts": {"AllReduce": 3}}], "missing_ranks": [{"rank": 1}]}]}
    """
    start = answer.find("{")
    if start >= 0 and '"' in answer[start : start + 200]:
        data = loads(answer[start:])
        if isinstance(data, dict):
            found = data.get("communicators")
            rows = [_communicator(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
            version = data.get("nccl_version")
            return RasState(version if isinstance(version, str) else None, tuple(rows))
    if match := re.search(r"NCCL version (\d{1,2}\.\d{1,2}\.\d{1,2})", answer):
        return RasState(match[1], text=answer.strip())
    return None


def loads(text: str) -> Any:
    """JSON, also where NCCL 2.28.9 leaves out the commas between missing ranks; None if it cannot be read."""
    for attempt in (text, _TOKENS.sub(lambda m: m[0] if m[1] is None else f"{m[1]},{m[2]}", text)):
        try:
            value, _ = json.JSONDecoder().raw_decode(attempt)
            return value
        except (ValueError, RecursionError):
            continue
    return None


def _communicator(row: Mapping[str, Any]) -> Communicator:
    given = row.get("ranks")
    ranks = [one for one in (given if isinstance(given, list) else ()) if isinstance(one, dict) and isinstance(one.get("rank"), int)]
    counts = {}
    errors = []
    for one in ranks:
        numbers = one.get("collective_counts")
        if isinstance(numbers, dict):
            counts[one["rank"]] = sum(value for value in numbers.values() if isinstance(value, int))
        status = one.get("status")
        if isinstance(status, dict) and status.get("async_error") not in (0, None):
            errors.append(one["rank"])
    size = row.get("size")
    absent = row.get("missing_ranks")
    missing = [one.get("rank") if isinstance(one, dict) else one for one in (absent if isinstance(absent, list) else ())]
    return Communicator(
        str(row.get("hash") or "?"),
        size if isinstance(size, int) else len(ranks) + len(missing),
        tuple(sorted(one for one in missing if isinstance(one, int))),
        counts or None,
        tuple(sorted(errors)),
    )
