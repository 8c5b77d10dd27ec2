"""Eleven ways in which other checks of multi-GPU machines say "fine" and know nothing: each is a test here that envcheck does not.

A check has four outcomes: pass, fail, unknown (could not run) and skipped (not applicable). Only pass counts as pass.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from networks import hosts, needs_networks
from patients import needs_torch
from rank_server import Ranks

from envcheck.agent import numerics, quick_check
from envcheck.checks import all_checks
from envcheck.commands.bases import base, example_snapshot
from envcheck.engine.judge import Outcome, judge
from envcheck.engine.rule import Confidence, RuleTexts, Severity
from envcheck.evidence import nccl_diagnostics, ras
from envcheck.facts.codec import decode
from envcheck.facts.record import replace
from envcheck.facts.snapshot import (
    Arm,
    DevicesFacts,
    LiveFacts,
    LiveStatus,
    Missing,
    NcclDiagnostics,
    Snapshot,
    SystemFacts,
    Why,
    WireFacts,
    WirePoint,
)
from envcheck.report.report import Report
from envcheck.report.session import report_on, rule_session
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

RULES = Path(rules_folder())
TABLES = Tables((RULES / "compat",))
CHECKS = {check.id: check for check in all_checks()}
TEXTS = RuleTexts((RULES,))


def report(snapshot: Snapshot, **options: Any) -> Report:
    return report_on(snapshot, rule_session(), live_requested=True, **options)


def healthy(name: str = "h100x8") -> Snapshot:
    return base(RULES, name)


def with_live(snapshot: Snapshot, **changes: Any) -> Snapshot:
    assert isinstance(snapshot.live, LiveFacts)
    return replace(snapshot, live=replace(snapshot.live, **changes))


def all_reduce_at(rate: float) -> WireFacts:
    return WireFacts("nccl", "cuda", 8, (WirePoint(1 << 30, 0.01, rate / 1.75, rate),), flat=True)


def test_row_1_below_the_threshold_is_no_pass_and_the_threshold_can_be_met() -> None:
    """AWS 5-nccl-allreduce.sh: warns, falls through to pass, exit 0; and its threshold is above what any such machine reaches."""
    slow = report(with_live(healthy(), wire=all_reduce_at(120.0)))
    assert (slow.verdict, slow.exit_code) == ("fail", 1)
    assert [one.finding.rule for one in slow.findings] == ["wire-slow"]
    for published in (367.6, 460.0, 482.3):  # rings, the floor of Azure's check, NVLink SHARP
        assert report(with_live(healthy(), wire=all_reduce_at(published))).exit_code == 0


def test_row_2_hardware_that_no_table_knows_is_not_passed_on_that_ground() -> None:
    """Azure run-health-checks.sh: an unknown machine prints "not supported" and exits 0."""
    unknown = healthy()
    gpus = unknown.gpus
    assert not isinstance(gpus, Missing)
    devices = tuple(replace(gpu, name="NVIDIA Z9", compute_capability="99.0") for gpu in gpus.devices)
    lost = Missing(Why.FAILED, "the child died")
    done = report(replace(unknown, gpus=replace(gpus, devices=devices), devices=lost, live=lost))
    assert (done.verdict, done.exit_code) == ("inconclusive", 3) or done.exit_code == 1
    assert done.exit_code != 0


ERRORS = [
    pytest.param(rule, example, id=f"{rule}: {example.get('name')}")
    for rule in TEXTS.ids
    if TEXTS.read(rule).severity.value == "error" and TEXTS.read(rule).confidence is Confidence.CERTAIN
    for example in sorted((one for one in TEXTS.read(rule).examples if one["expect"] == "hit"), key=lambda one: "variant" in one)[:1]
]


@pytest.mark.parametrize(("rule", "example"), ERRORS)
def test_row_3_an_error_is_never_exit_0(rule: str, example: dict[str, Any]) -> None:
    """gpud scan: exit 0 whatever its components say."""
    snapshot = example_snapshot(RULES, example)
    [verdict] = judge(snapshot, [CHECKS[rule]], TABLES)
    hit = verdict.hit
    text = TEXTS.read(rule)
    softened = hit and (text.confidence_of(hit) is Confidence.LIKELY or text.severity_of(hit) is not Severity.ERROR)
    if softened:
        pytest.skip("this example is a warning or a guess by its own variant")
    assert report(snapshot).exit_code == 1


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (LiveStatus.FAIL, "rank 0: died with SIGSEGV in the stage init", 1),
        (LiveStatus.HANG, "rank 1 did not leave the stage init", 1),
        (LiveStatus.INCONCLUSIVE, "rank 0 could not be started: Resource temporarily unavailable", 3),
    ],
)
def test_row_4_a_test_that_crashes_or_cannot_start_is_no_warning(status: LiveStatus, reason: str, code: int) -> None:
    """gcm check_nccl.py: nccl-tests that crash or cannot start are WARN, only low bandwidth is critical."""
    done = report(with_live(healthy(), status=status, reason=reason, arms=(), ranks=()))
    assert done.exit_code == code and done.verdict != "pass"


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_row_5_as_many_ranks_as_there_are_gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """imbue gpu_stress_test.py: written for 8 GPUs, exit 0 always."""
    started: list[Any] = []
    monkeypatch.setattr(quick_check, "run", lambda plan, arm: started.append(arm) or "pass")
    asked = {"devices": [{"index": index, "kind": "cuda", "kernel": "ok"} for index in range(count)]}
    plan = SimpleNamespace(options={"live": "quick"})
    quick_check.accelerator_arms(plan, SimpleNamespace(is_nccl_available=lambda: True), asked, "all", "pass")
    assert [(arm["backend"], arm["world_size"], arm["places"]) for arm in started] == [("nccl", count, list(range(count)))]


def test_row_6_a_tool_that_is_not_there_is_no_pass() -> None:
    """GCP slurm configcheck: no sinfo, exit 0. Here: GPUs on the bus, and nothing that could say more about them."""
    machine = healthy("rtx4090")
    absent = Missing(Why.ABSENT, "there is no nvidia-smi, no NVML and no driver")
    assert isinstance(machine.devices, DevicesFacts) and isinstance(machine.system, SystemFacts) and machine.system.pci_gpus
    devices = replace(machine.devices, available=False, count=0, devices=())
    hidden = replace(machine, driver=absent, gpus=absent, cuda_driver=absent, devices=devices)
    assert report(hidden).exit_code == 1
    torch_lost = replace(healthy("cpu"), torch=Missing(Why.TIMEOUT, "no answer"), live=Missing(Why.FAILED, "torch could not be imported"))
    assert report(torch_lost).exit_code == 3


SECTIONS = ("system", "limits", "network", "python", "packages", "torch", "backends", "devices", "live", "gpus")


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("why", [Why.FAILED, Why.TIMEOUT])
def test_row_7_a_probe_that_could_not_run_is_unknown(section: str, why: Why) -> None:
    """NVRx health_check.py: a probe that cannot run counts as healthy, silently."""
    snapshot = replace(healthy(), **{section: Missing(why, "the probe died")})
    verdicts = {verdict.rule: verdict for verdict in judge(snapshot, CHECKS.values(), TABLES)}
    need = [check.id for check in CHECKS.values() if section in (check.needs or ())]
    for rule in need:
        assert verdicts[rule].outcome in (Outcome.UNKNOWN, Outcome.NOT_APPLICABLE), rule
    assert any(verdicts[rule].outcome is Outcome.UNKNOWN and "the probe died" in verdicts[rule].reason for rule in verdicts)
    assert report(snapshot).unknown


def test_row_8_diagnostics_that_tested_nothing() -> None:
    """NCCL_RUN_DIAGNOSTICS: where no pair is eligible, the line is simply not there."""
    empty = "n:1 NCCL DIAG === NCCL Diagnostics ===\nn:1 NCCL DIAG NCCL diagnostics completed in 0.1 ms across 8 ranks\n"
    found = nccl_diagnostics.read_diagnostics(empty)
    assert found and found.verdict == "unknown"
    snapshot = with_live(healthy(), nccl_diagnostics=NcclDiagnostics())
    [verdict] = judge(snapshot, [CHECKS["nccl-diagnostics-failed"]], TABLES)
    assert verdict.outcome is Outcome.UNKNOWN and "tested nothing" in verdict.reason


def test_row_9_every_arm_sends_more_than_four_bytes() -> None:
    """The usual hello all_reduce: one element passes where 64 KiB never arrive."""
    assert quick_check.SIZES[0] == 4 and quick_check.SIZES[1] >= 64 << 10
    sizes = numerics.sizes(quick_check.make_arm("x", "gloo", "cpu", 2)["sizes"])
    assert sizes == sorted(sizes) and max(sizes) >= 1 << 20
    assert all(upper <= 200 * lower for lower, upper in pairwise(sizes)), "libraries change their algorithm with the size"


@needs_torch
@needs_networks
@pytest.mark.torch
def test_row_9_and_a_black_hole_shows_it(tmp_path: Path) -> None:
    """Four bytes alone do pass here."""
    stages = ["start", "device", "store", "init", "barrier", "all_reduce", "destroy"]
    arm = {"name": "x", "backend": "gloo", "device": "cpu", "world": 2, "store": "file", "stages": stages}
    ranks = Ranks()
    try:
        with hosts() as two:
            two.mtu(hosts=9000, router=1500)
            found = []
            for number, sizes in enumerate(([4], [4, 64 << 10])):
                folder = tmp_path / str(number)
                folder.mkdir()
                given = {**arm, "sizes": sizes, "environment": {"GLOO_SOCKET_IFNAME": "eth0"}}
                lines = ranks.run(folder, networks=[two.a, two.b], arm=given, stage_seconds=6.0)
                found += [decode(Arm, line["value"]).status for line in lines if line.get("section") == "arm"]
    finally:
        ranks.close()
    assert found == [LiveStatus.PASS, LiveStatus.HANG]


def test_row_10_a_symmetric_hang_is_no_pass_of_ras() -> None:
    """Detectors built on NCCL's RAS: where all ranks have launched the same, they see nothing."""
    ranks = ", ".join(f'{{"rank": {rank}, "collective_counts": {{"AllReduce": 9}}}}' for rank in range(4))
    state = ras.read_ras(f'{{"nccl_version": "2.30.7", "communicators": [{{"hash": "0x1", "size": 4, "ranks": [{ranks}]}}]}}')
    assert state and len(state.said) == 1 and "below NCCL's launches, or outside NCCL" in state.said[0]


@needs_torch
@pytest.mark.torch
def test_row_10_the_deadline_sees_what_counters_do_not(tmp_path: Path) -> None:
    """Both ranks are stopped in the same collective: no rank is behind another."""
    ranks = Ranks()
    try:
        arm = {"name": "gloo-loopback", "backend": "gloo", "device": "cpu", "world": 2, "loopback": True}
        lines = ranks.run(tmp_path, arm=arm, fault="both-stop", stage_seconds=6.0)
    finally:
        ranks.close()
    [found] = [decode(Arm, line["value"]) for line in lines if line.get("section") == "arm"]
    assert found.status is LiveStatus.HANG and "rank 0, 1 did not leave the stage all_reduce" in found.reason


def test_row_11_a_pass_says_what_it_did_not_prove(monkeypatch: pytest.MonkeyPatch) -> None:
    """DCGM's own manual: a pass is no general statement that a GPU is healthy."""
    from envcheck.render import render

    monkeypatch.setattr(quick_check, "run", lambda plan, arm: "pass")
    asked = {"devices": [{"index": 0, "kind": "cuda", "kernel": "ok"}]}
    dist = SimpleNamespace(is_nccl_available=lambda: True, is_gloo_available=lambda: True)
    left_open = quick_check.accelerator_arms(SimpleNamespace(options={"live": "quick"}), dist, asked, None, "pass")
    assert any("two GPUs" in one for one in left_open)
    done = report(with_live(healthy("rtx4090"), not_proved=tuple(left_open)))
    assert done.exit_code == 0
    for kind in ("text", "html", "markdown"):
        assert left_open[0] in render(done, kind).replace("\n  ", " ")
