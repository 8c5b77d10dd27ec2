"""One host speaks for all of its kind: whatever is left out of a digest, no rule says anything else for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fleet_hosts import base

from envcheck.engine.judge import findings, judge
from envcheck.facts.codec import DecodeError, decode_snapshot
from envcheck.fleet.layers import digests
from envcheck.report.session import rule_session

BY = rule_session()


def leaves(node: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*way, key))
    elif isinstance(node, list) and node:
        for at, value in enumerate(node):
            yield from leaves(value, (*way, at))
    else:
        yield way


def others(value: Any) -> list[Any]:
    """What may stand in its place."""
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int | float):
        return [value + 1, value / 2 if isinstance(value, float) else value // 2, 0, value * 100, None]
    if isinstance(value, str):
        return [value + "x", "", "0", "10.1.2.3", None]
    return [None, ["x"], 1, 1.5, "x", True] if value is None or value == [] else []


def said(facts: dict[str, Any]) -> list[tuple[str, str, str]] | None:
    try:
        snapshot = decode_snapshot(facts)
    except (DecodeError, TypeError, ValueError):
        return None
    verdicts = judge(snapshot, BY.checks, BY.tables)
    open_ones = [(one.rule, one.outcome.value, one.reason) for one in verdicts if one.outcome.value in ("unknown", "crashed")]
    return [(one.rule, one.severity.value, one.message) for one in findings(verdicts, BY.texts)] + open_ones


STARTED = {
    "launcher": "slurm", "scheduler": "slurm", "rank": 3, "world_size": 16, "local_rank": 0, "master_addr": "n1", "master_port": "29500",
    "master_addr_resolves": ["10.0.0.1"], "nodes": 2, "variables": {"SLURM_PROCID": "3", "RANK": "3", "MASTER_ADDR": "n1"},
    "readings": [{"launcher": "slurm", "rank": 3, "world_size": 16, "local_rank": 0, "node_rank": 1, "nodes": 2, "complete": True}],
}  # fmt: skip
NETWORK = {
    "hostname": "n2", "addresses": ["10.0.0.2"], "resolve_seconds": 0.01, "reverse_seconds": 0.01, "variables": {"NCCL_DEBUG": "WARN"},
    "interfaces": [{"name": "eth0", "up": True, "loopback": False, "addresses": ["10.0.0.2"], "mtu": 9000}],
}  # fmt: skip


@pytest.mark.parametrize("started", [False, True], ids=["recorded", "in a job"])
@pytest.mark.parametrize("name", ["h100x8", "cpu", "mi300x", "wsl2"])
def test_what_is_left_out_changes_no_finding(name: str, started: bool) -> None:
    """Each fact of whole machines is changed in several ways; where no digest notices, the rules must say the same."""
    facts = base(name)
    if started:
        facts |= {"launcher": STARTED, "network": NETWORK}
    before, words = digests(facts), said(facts)
    looked, wrong = 0, []
    for way in list(leaves(facts)):
        if len(way) > 2 and isinstance(way[2], int) and way[2] > 1:
            continue  # two rows of a list are enough
        node = facts
        for part in way[:-1]:
            node = node[part]
        here = node[way[-1]]
        for value in others(here)[: 2 if started else None]:  # of the rest the machines by themselves have been asked
            node[way[-1]] = value
            if digests(facts) != before:
                continue
            looked += 1
            now = said(facts)
            if now is not None and now != words:
                wrong.append((".".join(map(str, way)), value, [one for one in now if one not in (words or [])]))
        node[way[-1]] = here
    assert looked > 30
    assert not wrong, wrong
