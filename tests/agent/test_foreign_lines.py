"""The agent's lines come out of the target's own interpreter: whatever stands in them, there is a report."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patients import examine, needs_torch

from envcheck.collect import settle, steps
from envcheck.facts.snapshot import Snapshot
from envcheck.render import render
from envcheck.report.session import report_on, rule_session
from envcheck.target import process
from envcheck.target.process import Ended, Target
from envcheck.target.sections import sections

WRONG: list[Any] = [None, True, 0, -1, 1e400, float("nan"), "x", "", [], {}, [1], [None], [{}], {"a": 1}, 10**400, "\ud800"]


@pytest.fixture(scope="module")
def healthy() -> Ended:
    return examine(live="quick").ended


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*path, key))


def changed(line: dict[str, Any], path: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    new = copy.deepcopy(line)
    inner: Any = new
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    return new


def read_back(folder: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As from a file."""
    (folder / process.LINES).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    running: Any = SimpleNamespace(folder=str(folder), lines=[], earlier=(), behind=0.0)
    process._read_lines(running)
    found: list[dict[str, Any]] = running.lines
    process._import_seconds(running)
    return found


@needs_torch
@pytest.mark.torch
def test_a_wrong_type_anywhere_costs_at_most_its_section(healthy: Ended, tmp_path: Path) -> None:
    by = rule_session()
    lines = list(healthy.lines)
    everywhere = [(at, path) for at, line in enumerate(lines) for path in places(line)]
    # five wrong types a place, others at the next one: all meet each kind of place, in a third of the time
    tried = [(*place, WRONG[(5 * number + more) % len(WRONG)]) for number, place in enumerate(everywhere) for more in range(5)]
    assert len(tried) > 900
    for number, (at, path, wrong) in enumerate(tried):
        read = read_back(tmp_path, [*lines[:at], changed(lines[at], path, wrong), *lines[at + 1 :]])
        ended = Ended(tuple(read), healthy.code, None, "", "", healthy.seconds, healthy.ended_at)
        found = sections(ended, Target("python", "the test wants it"), static=False, live_asked=True)
        assert ended.last_begin is not None and ended.seconds_of_last >= 0 and steps(ended.lines) is not None, (at, path, wrong)
        if number % 10 == 0:
            report = report_on(settle(Snapshot(**found), by), by)
            json.loads(render(report, "json"))
            assert report.verdict in render(report, "junit") or render(report, "text"), (at, path, wrong)


@pytest.mark.parametrize("kind", ["fifo", "link to what does not end", "folder", "not there", "deep", "no JSON"])
def test_no_file_of_lines(tmp_path: Path, kind: str) -> None:
    path = tmp_path / process.LINES
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "deep":
        path.write_text('{"begin": ' + "[" * 100_000)
    elif kind == "no JSON":
        path.write_bytes(b"\x00\xff{]\n" * 10)
    elif kind != "not there":
        path.symlink_to("/dev/zero")
    running: Any = SimpleNamespace(folder=str(tmp_path), lines=[], earlier=(), behind=0.0)
    process._read_lines(running)
    assert running.lines == []
