"""Golden plans: for each machine of golden/plan_hosts.toml the commands, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.planner.result import PlanReport
from envcheck.tables.toml import load_toml

HOSTS: list[dict[str, Any]] = load_toml(Path(__file__).parents[1] / "golden" / "plan_hosts.toml")["host"]


_REPORTS: dict[str, PlanReport] = {}


def planned(host: dict[str, Any]) -> PlanReport:
    if host["name"] not in _REPORTS:
        _REPORTS[host["name"]] = _planned(host)
    return _REPORTS[host["name"]]


def _planned(host: dict[str, Any]) -> PlanReport:
    return planner.search(
        machine(host),
        TABLES,
        host.get("wish", ()),
        checks=checks(),
        texts=TEXTS,
        tool=host.get("tool", "auto"),
        index_base=host.get("index_base"),
    )


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host["name"])
def test_plan(host: dict[str, Any]) -> None:
    report = planned(host)
    assert host["why"]
    if "no_plan" in host:
        assert not report.ways
        assert f"{report.excluded[0].what}: {report.excluded[0].why}" == host["no_plan"]
        return
    way, wanted = report.ways[0], host["way"]
    assert way.title == wanted["title"]
    assert way.who == wanted.get("who", "user")
    for tool in ("pip", "uv", "conda", "shell"):
        assert list(getattr(way.commands, tool)) == wanted.get(tool, []), tool
    assert [change for change in way.changes if "would break" in change] == wanted.get("breaks", [])
    assert [other.title for other in report.ways[1:]] == wanted.get("others", [])
    assert way.proved == wanted["proved"], way.note


def test_there_are_enough_machines() -> None:
    assert len(HOSTS) >= 60
    assert len({host["name"] for host in HOSTS}) == len(HOSTS)
    assert sum(host.get("way", {}).get("proved", False) for host in HOSTS) > 60


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host["name"])
def test_what_is_never_printed(host: dict[str, Any]) -> None:
    for way in planned(host).ways:
        for text in (*way.commands.pip, *way.commands.uv):
            assert "2.15.0+cu130" not in text and "2.15.0+cu126" not in text and "2.12.0+cu128" not in text
            assert "conda-forge" not in text
        for text in way.commands.conda:
            assert "--index-url" not in text and "download.pytorch.org" not in text
            assert "pytorch-cuda" not in text or "pytorch==2.5.1" in text or _below(text, (2, 5, 1))
        assert len(planned(host).ways) <= 3


def _below(command: str, limit: tuple[int, ...]) -> bool:
    number = next(word for word in command.split() if word.startswith("pytorch==")).partition("==")[2]
    return tuple(map(int, number.split("."))) <= limit
