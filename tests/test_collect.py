"""What follows from several sections of one snapshot: `settle`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from envcheck.checks.limits import host_memory_low
from envcheck.checks.live import live_failed
from envcheck.collect import Job, settle
from envcheck.engine.judge import judge
from envcheck.facts.snapshot import Arm, Gpu, GpusFacts, LiveFacts, LiveStatus, Missing, RankFacts, Snapshot, Stage, SystemFacts
from envcheck.probes.task import Task
from envcheck.report.session import rule_session
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.target.sections import summary

TABLES = Tables((rules_folder("compat"),))


def test_a_product_name_fills_in_a_capability_and_never_overrules_one() -> None:
    """A part of a family may differ from its namesakes: what the driver says of it counts."""
    gpus = (
        Gpu(0, name="NVIDIA H100 80GB HBM3", compute_capability="9.1", compute_capability_source="NVML"),
        Gpu(1, name="NVIDIA H100 80GB HBM3"),
        Gpu(2, name="A board that no table knows"),
        Gpu(3),
    )
    found = settle(Snapshot(gpus=GpusFacts(gpus)), rule_session()).gpus
    assert isinstance(found, GpusFacts)
    assert [(gpu.compute_capability, gpu.compute_capability_source) for gpu in found.devices] == [
        ("9.1", "NVML"),
        ("9.0", "table"),
        (None, gpus[2].compute_capability_source),
        (None, gpus[3].compute_capability_source),
    ]


def test_what_a_rank_says_counts_although_the_check_had_to_end_the_other_one() -> None:
    """Its own SIGKILL says nothing of the peer; that of somebody else makes "connection refused" the peer's fault, not an interface's."""
    words = "RuntimeError: makeDeviceForHostname(): unsupported gloo device"
    for other, rules in (
        (RankFacts(1, signal="SIGKILL", stages=(Stage("store", status="hang"),)), ["gloo-interface"]),
        (RankFacts(1, signal="SIGKILL", error="died with SIGKILL in the stage store"), []),
    ):
        arm = Arm("gloo-as-is", "gloo", "cpu", 2, LiveStatus.FAIL, ranks=(RankFacts(0, error=words, exit_code=1), other))
        seen = settle(Snapshot(live=summary([arm], "fork", ())), rule_session()).symptoms
        assert not isinstance(seen, Missing) and [match.rule for match in seen.matches] == rules


@pytest.mark.parametrize(("error", "hits"), [("", False), ("died with SIGKILL in the stage ddp", True)])
def test_only_a_rank_that_somebody_else_killed_may_have_been_out_of_memory(error: str, hits: bool) -> None:
    rank = RankFacts(1, signal="SIGKILL", error=error)
    arm = Arm("gloo-loopback", "gloo", "cpu", 2, LiveStatus.FAIL, ranks=(RankFacts(0), rank))
    live = summary([arm], "fork", ())
    assert isinstance(live, LiveFacts)
    [verdict] = judge(Snapshot(system=SystemFacts(memory_available_bytes=3 << 29), live=live), [host_memory_low], TABLES)
    assert (verdict.hit is not None and verdict.hit.variant == "killed") is hits


def test_a_crash_is_shown_by_its_innermost_frames_and_not_by_the_end_of_their_list() -> None:
    frames = "".join(f'  File "/v/lib/{number}.py", line 1 in f\n' for number in range(60))
    head = "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):"
    dump = f"{head}\n{frames}\nExtension modules: {'numpy, ' * 99}"
    rank = RankFacts(0, signal="SIGSEGV", error="died with SIGSEGV in the stage ddp", stderr=f"a warning\n{dump}")
    arm = Arm("gloo-loopback", "gloo", "cpu", 2, LiveStatus.FAIL, ranks=(rank, RankFacts(1)))
    [verdict] = judge(Snapshot(live=summary([arm], "fork", ())), [live_failed], TABLES)
    assert verdict.hit
    [said] = [one.text for one in verdict.hit.evidence if one.source == "rank 0: stderr"]
    assert said.startswith("Fatal Python error: Segmentation fault") and "/v/lib/0.py" in said and "Extension modules" not in said


def test_where_no_thread_can_be_started_the_probes_go_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def broken(host: Any) -> Any:
        raise ValueError("a bug")

    monkeypatch.setattr(threading.Thread, "start", refused)
    seen: list[Any] = []
    jobs = [Job(("system",), lambda host: seen.append(host) or 7, 5.0), Job(("limits",), broken, 5.0)]  # type: ignore[func-returns-value]
    host: Any = object()
    for job in jobs:
        job.start(host)
    assert seen == [host] and jobs[0].result(0.0) == {"system": 7}
    assert Task(lambda: 8).result(0.0) == 8, "and so do their pieces"
    missing = jobs[1].result(0.0)["limits"]
    assert isinstance(missing, Missing) and missing.reason == "the limits probe failed: ValueError: a bug"
