"""Variables and limits that are about CUDA or NCCL, where neither can run: an image or a cluster's module sets them on every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from report_samples import TEXTS, machine

from envcheck.checks import all_checks
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Severity
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

TABLES = Tables((rules_folder("compat"),))
FABRIC = {"network.infiniband": [{"device": "mlx5_0", "port": 1, "state": "ACTIVE", "link_layer": "InfiniBand"}]}
RECORDER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
NO_HOME = {"cuda_home": "/nonexistent", "cuda_home_source": "CUDA_HOME", "cuda_home_exists": False}
# what is set → the rule that speaks of it where there are GPUs, and what else that takes
ODD: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("nccl-interface", {"network.variables": {"NCCL_SOCKET_IFNAME": "ib0"}}),
    ("nccl-interface", {"network.variables": {"NCCL_SOCKET_IFNAME": "=eth"}}),
    ("nccl-interface", {"network.variables": {"NCCL_SOCKET_IFNAME": "lo"}, "launcher": {"nodes": 2}}),
    ("nccl-infiniband", {"network.variables": {"NCCL_IB_HCA": "mlx9"}, **FABRIC}),
    ("nccl-debug-leftover", {"network.variables": {"NCCL_IB_DISABLE": "1"}, **FABRIC}),
    ("nccl-debug-leftover", {"network.nccl_conf": {"NCCL_P2P_DISABLE": "1"}}),
    ("nccl-debug-leftover", {"python.variables": {"CUDA_LAUNCH_BLOCKING": "1"}}),
    ("flight-recorder-unreliable", {"network.variables": RECORDER}),
    ("memlock-low", {"limits.memlock_read": True, "limits.memlock_soft_bytes": 65536, **FABRIC}),
    ("visible-devices-duplicate", {"visibility.cuda_visible_devices": "0,0"}),
    ("visible-devices-duplicate", {"visibility.cuda_visible_devices": "0,1,1"}),
    ("visible-devices-truncated", {"visibility.cuda_visible_devices": "0,abc,1"}),
    ("visible-devices-out-of-range", {"visibility.cuda_visible_devices": "99"}),
    ("visible-devices-unreadable", {"visibility.cuda_visible_devices": "abc"}),
    ("visible-devices-empty", {"visibility.cuda_visible_devices": ""}),
    ("cuda-home-missing", {"python.variables": {"CUDA_HOME": "/nonexistent"}, "toolkit": NO_HOME}),
)
NOT_TRIED = {"missing": "skipped", "reason": "--static"}
ROWS = [pytest.param(rule, changes, id=f"{rule}-{number}") for number, (rule, changes) in enumerate(ODD)]
UNREAD = [row for row in ROWS if str(row.values[0]).startswith(("nccl-", "visible-devices-duplicate", "memlock"))]
CUDA_BUILD = {"torch.version": "2.14.1+cu130", "torch.cuda": "13.0", "torch.cpu_build": False, "backends.nccl": True}


def told(base: str, changes: Mapping[str, Any]) -> dict[str, Severity]:
    """The rules that hit, with how grave it is."""
    verdicts = judge(machine(base, changes), all_checks(), TABLES)
    return {one.rule: TEXTS.read(one.rule).severity_of(one.hit) for one in verdicts if one.outcome is Outcome.HIT and one.hit}


@pytest.mark.parametrize(("_rule", "changes"), ROWS)
def test_a_healthy_cpu_machine_stays_healthy(_rule: str, changes: Mapping[str, Any]) -> None:
    assert told("cpu", changes) == {}


@pytest.mark.parametrize(("rule", "changes"), [row for row in ROWS if row.values[0] != "cuda-home-missing"])
def test_so_does_one_with_a_build_for_cuda(rule: str, changes: Mapping[str, Any]) -> None:
    """Extensions are built on such a node: CUDA_HOME counts there."""
    assert rule not in told("cpu", {**CUDA_BUILD, **changes})


def test_all_of_them_at_once() -> None:
    variables = {name: value for _, one in ODD for name, value in one.get("network.variables", {}).items()}
    changes = {"network.variables": variables, "network.nccl_conf": {"NCCL_P2P_DISABLE": "1"}, "visibility.cuda_visible_devices": "0,0"}
    assert told("cpu", {**changes, **FABRIC}) == {}


@pytest.mark.parametrize(("rule", "changes"), ROWS)
def test_with_gpus_it_is_told(rule: str, changes: Mapping[str, Any]) -> None:
    assert rule in told("h100x8", {"devices": NOT_TRIED, "live": NOT_TRIED, **changes})


@pytest.mark.parametrize(("rule", "changes"), UNREAD)
def test_gpus_that_could_not_be_read_are_not_none(rule: str, changes: Mapping[str, Any]) -> None:
    unread = {name: {"missing": "timeout", "reason": "no answer"} for name in ("gpus", "driver", "devices", "live")}
    assert rule in told("h100x8", {**unread, **changes})


def test_rccl_reads_the_same_variables() -> None:
    assert "nccl-interface" in told("mi300x", {"live": NOT_TRIED, "network.variables": {"NCCL_SOCKET_IFNAME": "ib0"}})
