"""CUDA's minor-version compatibility where only libcuda tells what the driver offers."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.checks import all_checks
from envcheck.commands.bases import example_snapshot
from envcheck.engine.judge import Outcome, judge
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

RULES = Path(rules_folder())
TABLES = Tables((RULES / "compat",))


@pytest.mark.parametrize(
    ("offered", "built", "too_old"),
    [
        ("10.1", "10.2", True),  # below CUDA 11 every minor version needs its own driver
        ("10.2", "10.2", False),
        ("10.2", "11.0", True),
        ("11.0", "11.8", False),  # from CUDA 11 on any driver of the same major serves
        ("11.8", "12.1", True),
        ("12.0", "12.9", False),
        ("12.9", "13.0", True),
        ("13.0", "12.9", False),  # and a newer major serves an older build
        ("11.4", "10.2", False),
    ],
)
@pytest.mark.parametrize("count", [0, 1], ids=["libcuda finds no device", "libcuda works"])
def test_what_libcuda_offers_against_what_torch_was_built_for(offered: str, built: str, too_old: bool, count: int) -> None:
    facts = {
        "torch": {"version": "2.4.0", "cuda": built},
        "cuda_driver": {"driver_version": offered, "init_code": 0, "device_count": count},
    }
    snapshot = example_snapshot(RULES, {"base": "nothing", "set": facts})
    [check] = [one for one in all_checks() if one.id == "driver-too-old"]
    [verdict] = judge(snapshot, [check], TABLES)
    assert (verdict.outcome is Outcome.HIT) is too_old


@pytest.mark.parametrize(
    ("built", "os", "target"),
    [("12.8", "linux", "570 or newer"), ("12.4", "linux", "550 or newer"), ("12.4", "windows", "551 or newer")],
)
def test_ptx_needs_the_driver_that_offers_the_toolkit_itself(built: str, os: str, target: str) -> None:
    """The floor of the major version, 525, is what that driver already has."""
    facts = {"system": {"os": os}, "torch": {"version": "2.8.0", "cuda": built}, "driver": {"version": "535.183.01", "cuda": "12.2"}}
    log = "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain."
    snapshot = example_snapshot(RULES, {"base": "nothing", "set": facts, "log": log})
    [check] = [one for one in all_checks() if one.id == "driver-too-old"]
    [verdict] = judge(snapshot, [check], TABLES)
    assert verdict.hit and verdict.hit.variant == "minor"
    assert verdict.hit.values["target"] == f"{target}, which offers CUDA {built} itself"
