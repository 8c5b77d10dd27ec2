"""The live check on a real torch with faults put into it: each is named, within its deadline, and nothing is left running."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from patients import HERE, LAUNCHERS, NO_ISOLATION, THEIR_OWN, all_gone, examine, needs_torch, no_launcher_reaches

from envcheck.facts.snapshot import LiveFacts, LiveStatus
from envcheck.target.process import Budget

pytestmark = [needs_torch, pytest.mark.torch]

# One of each kind by a whole agent; every stage and more faults: test_faults_ranks, where torch is imported once.
FAULTS = [
    ("off-by-one", LiveStatus.FAIL, r"all_reduce of 65536 bytes .* 15384 of 16384 values are wrong, the first at 1000"),
    ("rank-1-stays-away", LiveStatus.HANG, r"rank 1 did not enter the collective of the stage all_reduce .*sitecustomize\.py"),
    ("kill:init", LiveStatus.FAIL, r"rank 1: died with SIGKILL in the stage init"),
    ("stop:ddp", LiveStatus.HANG, r"rank 1 did not leave the stage ddp: stopped by a signal"),
]


def live_of(facts: dict[str, object]) -> LiveFacts:
    live = facts["live"]
    assert isinstance(live, LiveFacts), live
    return live


@pytest.mark.parametrize(("fault", "status", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_fault_is_named(fault: str, status: LiveStatus, words: str) -> None:
    examined = examine(path=HERE / "faults" / "torch_patches", env={"ENVCHECK_FAULT": fault}, live="quick", stage_seconds=6.0)
    live = live_of(examined.facts)
    assert live.status is status
    assert re.search(words, live.reason), live.reason
    assert examined.ended.finished, "the agent itself lives"
    assert all_gone(str(examined.folder))
    if status is LiveStatus.HANG:
        assert any(rank.stack for rank in live.ranks)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_healthy(method: str) -> None:
    examined = examine(live="quick", start_method=method, budget=Budget(180))
    live = live_of(examined.facts)
    assert live.status is LiveStatus.PASS, live.reason
    assert (live.start_method, live.world_size, live.backend) == (method, 2, "gloo")
    for rank in live.ranks:
        assert [stage.name for stage in rank.stages] == ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"]
        assert all(stage.status == "ok" and stage.seconds is not None for stage in rank.stages)
    assert {arm.name for arm in live.arms} == {"gloo-loopback", "gloo-as-is"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_healthy_without_a_process_group(method: str) -> None:
    examined = examine(path=HERE / "faults" / "torch_without_group", live="quick", start_method=method, budget=Budget(180))
    live = live_of(examined.facts)
    assert live.status is LiveStatus.PASS and live.not_proved == ("torch.distributed is not in this build",), live
    assert [arm.name for arm in live.arms] == ["one-process"] and not examined.facts["backends"].distributed


@pytest.mark.slow
def test_launcher_variables_do_not_reach_ranks_that_are_started_afresh(tmp_path: Path) -> None:
    """Forked ones: test_faults_ranks."""
    given = {**LAUNCHERS, **THEIR_OWN, "ENVCHECK_FAULT": "environment-told", "ENVCHECK_TOLD": str(tmp_path)}
    live = live_of(examine(path=HERE / "faults" / "torch_patches", live="quick", env=given, start_method="spawn").facts)
    assert (live.status, live.start_method) == (LiveStatus.PASS, "spawn"), live.reason
    no_launcher_reaches(tmp_path, 4)  # two arms of two ranks


def test_a_bad_interface_costs_only_the_arm_that_uses_it() -> None:
    live = live_of(examine(live="quick", env={"GLOO_SOCKET_IFNAME": "no-such-interface0"}).facts)
    status = {arm.name: arm.status for arm in live.arms}
    control = ("gloo-loopback",) if NO_ISOLATION else ("gloo-loopback", "gloo-host-loopback")
    assert status == {**dict.fromkeys(control, LiveStatus.PASS), "gloo-as-is": LiveStatus.FAIL}
    assert live.status is LiveStatus.FAIL and "no-such-interface0" in live.reason


def test_four_ranks() -> None:
    live = live_of(examine(live="quick", nproc=4).facts)
    assert live.status is LiveStatus.PASS and len(live.ranks) == 4
