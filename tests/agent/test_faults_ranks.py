"""Ranks that die, stop, or never start, at every stage: named by rank and stage within the deadline, and nothing is left running.

The ranks are the agent's own, forked from a process that has imported torch once (rank_server); test_live_faults starts whole agents.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patients import LAUNCHERS, SOON, THEIR_OWN, needs_torch, no_launcher_reaches
from rank_server import Ranks, serving

from envcheck.agent import arm_run, jsonl, processes, rank_process, rank_start, rank_verdicts
from envcheck.evidence.insights import analyse
from envcheck.facts.codec import decode
from envcheck.facts.snapshot import Arm, LiveFacts, LiveStatus
from envcheck.target.sections import summary

pytestmark = [needs_torch, pytest.mark.torch]
LOOPBACK: dict[str, Any] = {"name": "gloo-loopback", "backend": "gloo", "device": "cpu", "world": 2, "loopback": True}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    yield from serving()


def arms(lines: list[dict[str, Any]]) -> tuple[Arm, ...]:
    return tuple(decode(Arm, line["value"]) for line in lines if line.get("section") == "arm")


def one_arm(ranks: Ranks, folder: Path, **request: Any) -> Arm:
    [arm] = arms(ranks.run(folder, arm=LOOPBACK, **request))
    return arm


def gone(arm: Arm) -> bool:
    return not any(Path(f"/proc/{rank.pid}").exists() for rank in arm.ranks if rank.pid)


@pytest.mark.parametrize("stage", ["start", "device", "store", "init", "barrier", "all_reduce", "ddp", "destroy"])
@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("kill", LiveStatus.FAIL, r"^rank 1: died with SIGKILL in the stage {}$"),
        ("stop", LiveStatus.HANG, r"^rank 1 did not leave the stage {}: stopped by a signal$"),
    ],
)
def test_at_every_stage(ranks: Ranks, tmp_path: Path, stage: str, fault: str, status: LiveStatus, words: str) -> None:
    began = time.monotonic()
    how = "strike" if stage in ("start", "device") else "fault"
    arm = one_arm(ranks, tmp_path, **{how: f"{fault}:{stage}"}, stage_seconds=6.0)
    assert arm.status is status
    assert re.search(words.format(stage), arm.reason), arm.reason
    assert time.monotonic() - began < 20
    assert gone(arm)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("segv:all_reduce", r"rank 1: died with SIGSEGV in the stage all_reduce"),
        ("exit:ddp", r"rank 1: left with exit code 7 in the stage ddp"),
        ("raise:barrier", r"rank 1: RuntimeError: a fault of the test"),
        ("off-by-one", r"all_reduce of 65536 bytes .* 15384 of 16384 values are wrong, the first at 1000"),
        ("ddp-does-not-average", r"DDP: the gradients of step 1 on rank \d of 2: 17468 of 17468 values are wrong"),
    ],
)
def test_other_deaths(ranks: Ranks, tmp_path: Path, fault: str, words: str) -> None:
    arm = one_arm(ranks, tmp_path, fault=fault)
    assert arm.status is LiveStatus.FAIL and re.search(words, arm.reason), arm.reason


def test_an_arm_that_is_started_again(ranks: Ranks, tmp_path: Path) -> None:
    """Its ranks meet each other, not the addresses that ranks of the first time left in the rendezvous file."""
    arm = {**LOOPBACK, "store": "file"}
    [first] = arms(ranks.run(tmp_path, arm=arm, fault="kill:barrier"))
    assert first.status is LiveStatus.FAIL and (tmp_path / "gloo-loopback.store").stat().st_size > 0
    again = arms(ranks.run(tmp_path, arm=arm, stage_seconds=6.0))[-1]
    assert again.status is LiveStatus.PASS, again.reason


def test_a_rank_that_sleeps_at_the_end(ranks: Ranks, tmp_path: Path) -> None:
    arm = one_arm(ranks, tmp_path, fault="sleep:destroy", stage_seconds=6.0)
    assert arm.status is LiveStatus.HANG and "stage destroy" in arm.reason


def test_a_rank_that_never_starts(ranks: Ranks, tmp_path: Path) -> None:
    arm = one_arm(ranks, tmp_path, never_starts=1, stage_seconds=6.0)
    assert arm.status is LiveStatus.HANG and arm.reason == "rank 1 did not leave the stage start"
    assert gone(arm)


def test_no_process_to_be_had_is_no_verdict(ranks: Ranks, tmp_path: Path) -> None:
    arm = one_arm(ranks, tmp_path, forks=2)  # the first child tries what store this torch has
    assert arm.status is LiveStatus.INCONCLUSIVE and "rank 1 could not be started" in arm.reason


def test_the_deadline_of_the_whole_run(ranks: Ranks, tmp_path: Path) -> None:
    arm = one_arm(ranks, tmp_path, fault="sleep:barrier", stage_seconds=30.0, within=3.0)
    assert arm.status is LiveStatus.INCONCLUSIVE and "ran out in the stage barrier" in arm.reason
    assert gone(arm)


@pytest.mark.parametrize("fault", ["rank-1-stays-away", "rank-1-stays-away-later"])
def test_stacks_name_the_one_that_does_something_else(ranks: Ranks, tmp_path: Path, fault: str) -> None:
    """Later: the others have begun an all_reduce with async_op, and wait for it in a function of the check itself."""
    [arm] = arms(ranks.run(tmp_path, arm={**LOOPBACK, "world": 4}, fault=fault, stage_seconds=6.0))
    assert arm.status is LiveStatus.HANG
    assert re.match(r"rank 1 did not enter the collective of the stage all_reduce .*sitecustomize\.py", arm.reason), arm.reason
    live = summary([arm], "fork", ())
    [found] = analyse(live, str(tmp_path), "python", 0)["arms"]
    assert found["suspects"] == (1,)
    assert found["stacks"][0]["ranks"] == (0, 2, 3) and found["stacks"][0]["waits"]


def test_too_few_descriptors_for_the_group(ranks: Ranks, tmp_path: Path) -> None:
    """3N+13: 24 ranks need 85 and get 64."""
    [arm] = arms(ranks.run(tmp_path, arm={**LOOPBACK, "world": 24}, open_files=64, stage_seconds=6.0))
    assert arm.status is LiveStatus.FAIL
    assert "Too many open files" in " ".join(rank.error + rank.stderr for rank in arm.ranks)
    assert rules_said(arm) >= {"open-files-low"}


def rules_said(arm: Arm) -> set[str]:
    """Rules that the symptom table names for what the ranks said."""
    from envcheck.symptoms.scan import Scanner, SymptomTable
    from envcheck.tables.folders import rules_folder

    scanner = Scanner(SymptomTable((rules_folder(),)))
    for rank in arm.ranks:
        scanner.scan(f"{rank.error}\n{rank.stderr}", f"rank {rank.rank}")
    return {match.rule for match in scanner.finish().matches}


def test_leaked_variables_do_not_reach_the_ranks(ranks: Ranks, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.mkdir()
    lines = ranks.run(tmp_path, env={**LAUNCHERS, **THEIR_OWN, "ENVCHECK_TOLD": str(told)}, fault="environment-told")
    assert [arm.status for arm in arms(lines)] == [LiveStatus.PASS, LiveStatus.PASS]
    no_launcher_reaches(told, 4)


def test_twenty_healthy_runs(ranks: Ranks, tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        live = summary(arms(ranks.run(folder, stage_seconds=10.0)), "fork", ())  # the least that a stage is ever given
        assert isinstance(live, LiveFacts) and live.status is LiveStatus.PASS, live.reason


def test_stuck_in_the_kernel_is_left_behind_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL does not end a process in an uninterruptible wait: here a process of ours that seems never to be reaped."""
    import os
    import signal

    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        monkeypatch.setattr(processes, "exit_status", lambda pid: None)
        stuck = rank_process.RankProcess(1, str(tmp_path / "x-1"), pid)
        stuck.events.append({"enter": "device"})
        began = time.monotonic()
        arm_run.end([stuck])
        assert stuck.abandoned and time.monotonic() - began < SOON
        result = rank_verdicts.judge_ranks({"stages": ["start", "device"], "name": "x"}, [stuck], 1.0)
        assert result["status"] == "hang" and "stuck in the kernel" in result["ranks"][0]["error"]
    finally:
        os.waitpid(pid, 0)


def test_stages_of_all_ranks_stand_on_one_clock(ranks: Ranks, tmp_path: Path) -> None:
    """What a rank did comes one after the other, and nobody leaves the barrier before the last has entered it."""
    arm = one_arm(ranks, tmp_path, fault="kill:all_reduce", stage_seconds=10.0)
    assert min(stage.began_seconds for rank in arm.ranks for stage in rank.stages) == 0
    for rank in arm.ranks:
        for stage, following in zip(rank.stages, rank.stages[1:], strict=False):
            assert stage.began_seconds + stage.seconds <= following.began_seconds
    barriers = [stage for rank in arm.ranks for stage in rank.stages if stage.name == "barrier"]
    assert len(barriers) == 2
    assert max(one.began_seconds for one in barriers) <= min(one.began_seconds + one.seconds for one in barriers)


def test_a_stage_that_failed_took_until_then() -> None:
    arm: Any = {"stages": ["start", "init"], "name": "x"}
    events = [
        [{"enter": "start", "at": 100.0}, {"leave": "start", "seconds": 1.5}, {"enter": "init", "at": 101.5}],
        [{"enter": "start", "at": 99.0}, {"fail": "start", "status": "failed", "text": "no", "at": 99.25}],
    ]
    told: Any = [SimpleNamespace(number=at, pid=None, path="/none/x", state="", late=False, abandoned=False, status=1) for at in (0, 1)]
    rows = [rank_verdicts.RankVerdict(arm, one, part) for one, part in zip(told, events, strict=True)]
    first, second = rank_verdicts.judge_rows(arm, rows, 3.0)["ranks"]
    assert [(one["began_seconds"], one.get("seconds")) for one in first["stages"]] == [(1.0, 1.5), (2.5, None)]
    assert [(one["began_seconds"], one.get("seconds")) for one in second["stages"]] == [(0.0, 0.25)]


def test_a_resting_rank_that_has_died_is_replaced(tmp_path: Path) -> None:
    import subprocess

    plan = rank_start.Plan({"folder": str(tmp_path), "live": "quick"}, jsonl.Writer(str(tmp_path / "x")), False, 5.0, time.monotonic() + 20)
    dead = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    dead.wait(10)
    plan.resting[0, False] = dead
    arm = {"name": "x", "backend": "gloo", "device": "cpu", "world_size": 1, "stages": ["start", "destroy"], "environment": {}}
    fresh = rank_start.start_rank(plan, arm, 0)
    try:
        assert fresh.pid != dead.pid and not plan.resting and fresh.exit_status() is None
    finally:
        rank_process.discard(fresh.process)
        fresh.file.close()
    assert gone_pid(fresh.pid)


def gone_pid(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("change", "rests"),
    [({}, True), ({"tasks": ["wire"]}, True), ({"stages": ["ddp"]}, False), ({"tasks": ["ddp-join"]}, False), ({"backend": "nccl"}, False),
     ({"device": "cuda"}, False), ({"alone": True}, False)],
)  # fmt: skip
def test_only_what_leaves_nothing_behind_lets_a_rank_go_on(change: dict[str, Any], rests: bool) -> None:
    assert rank_start.may_rest({"backend": "gloo", "device": "cpu", "stages": ["init"], **change}) is rests
