from __future__ import annotations

from typing import Any

import pytest
from report_samples import SAMPLES, TEXTS, driver_old, finding, machine, mixed, verdict

from envcheck.engine.judge import Finding, Outcome, Verdict
from envcheck.engine.rule import Confidence, Severity
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Missing, Snapshot, Why
from envcheck.planner.result import target_tool
from envcheck.report.report import FailOn, exit_code, finish, host_line, target_line
from envcheck.report.session import decisions, report_on, rule_session
from envcheck.tables.toml import load_toml

ERROR = finding("driver-too-old")
LIKELY = finding("nccl-p2p-blocked", "comm", confidence=Confidence.LIKELY)
WARNING = finding("shm-small", "limits", Severity.WARNING)
LIKELY_WARNING = replace(WARNING, confidence=Confidence.LIKELY)
INFO = finding("gpu-mig", "gpu", Severity.INFO)


@pytest.mark.parametrize(
    ("found", "fail_on", "strict", "expected"),
    [
        ((), "error", False, ("pass", 0)),
        ((ERROR,), "error", False, ("fail", 1)),
        ((ERROR, WARNING), "warning", False, ("fail", 1)),
        ((WARNING,), "error", False, ("pass", 0)),
        ((WARNING,), "warning", False, ("fail", 1)),
        ((INFO,), "warning", False, ("pass", 0)),
        ((LIKELY,), "error", False, ("pass", 0)),
        ((LIKELY,), "warning", False, ("pass", 0)),
        ((LIKELY, ERROR), "error", False, ("fail", 1)),
        ((LIKELY_WARNING,), "warning", False, ("pass", 0)),
        ((ERROR,), "never", False, ("fail", 0)),
        ((ERROR,), "never", True, ("fail", 0)),
        ((WARNING,), "error", True, ("inconclusive", 3)),
        ((LIKELY,), "error", True, ("inconclusive", 3)),
        ((INFO,), "error", True, ("pass", 0)),
    ],
)
def test_findings_and_exit_code(found: tuple[Finding, ...], fail_on: FailOn, strict: bool, expected: tuple[str, int]) -> None:
    assert exit_code(found, (), machine("rtx4090"), fail_on, strict, True, {}) == expected


def code(snapshot: Snapshot, *verdicts: Verdict, live: bool = True, strict: bool = False, fail_on: FailOn = "error") -> int:
    return exit_code((), verdicts, snapshot, fail_on, strict, live, decisions(verdicts, TEXTS))[1]


def failed(reason: str = "it broke") -> dict[str, Any]:
    return {"missing": "failed", "reason": reason}


def test_unknown_that_does_not_matter_passes_unless_strict() -> None:
    clocks = verdict("gpu-throttled", Outcome.UNKNOWN, "no clocks")
    assert code(machine("rtx4090"), clocks) == 0
    assert code(machine("rtx4090"), clocks, strict=True) == 3
    assert code(machine("rtx4090"), verdict("gpu-throttled", Outcome.CRASHED, "KeyError"), strict=True) == 3


def test_unread_torch_is_inconclusive() -> None:
    assert code(machine("cpu", {"torch": {"missing": "timeout", "reason": "no answer"}})) == 3
    assert code(machine("cpu", {"torch": failed()})) == 3
    assert code(Snapshot()) == 3


def test_absent_torch_is_for_a_rule_to_find() -> None:
    assert (
        code(machine("cpu", {"torch": {"missing": "absent", "reason": "none"}, "live": {"missing": "skipped", "reason": "no torch"}})) == 0
    )


@pytest.mark.parametrize("base", ["rtx4090", "h100x8"])
def test_cuda_doubt_counts_where_a_gpu_is(base: str) -> None:
    assert code(machine(base, {"devices": failed()})) == 3
    assert code(machine(base, {"devices.available": None})) == 3
    assert code(machine(base, {"devices.devices.0.kernel": "unknown", "devices.devices.0.kernel_error": "busy"})) == 3


def test_cuda_doubt_does_not_count_without_a_gpu() -> None:
    assert code(machine("cpu", {"devices": failed()})) == 0
    assert code(machine("cpu", {"cuda_driver": failed()})) == 0


def test_gpu_seen_on_the_bus_alone_is_a_gpu() -> None:
    absent = {"missing": "absent", "reason": "none"}
    assert code(machine("rtx4090", {"gpus": absent, "driver": absent, "devices": failed()})) == 3


def test_what_works_outweighs_sources_that_failed() -> None:
    doubt = verdict("driver-too-old", Outcome.UNKNOWN, "driver: no answer", "driver")
    assert code(machine("rtx4090", {"driver": failed(), "gpus": failed()}), doubt) == 0
    not_asked = machine("rtx4090", {"devices.devices.0.kernel": None, "driver": failed()})
    assert code(not_asked, doubt, live=False) == 0


def test_core_rule_in_doubt_counts_without_proof() -> None:
    skipped = {"missing": "skipped", "reason": "--static"}
    static = machine("rtx4090", {"devices": skipped, "live": skipped, "torch.import_status": "skipped"})
    assert code(static, live=False) == 0
    assert code(static, verdict("driver-too-old", Outcome.UNKNOWN, "CUDA 99 is in no table"), live=False) == 3
    assert code(machine("rtx4090", {"devices": skipped, "driver": failed(), "live": skipped}), live=False) == 3


def test_live_check_that_did_not_decide() -> None:
    for live in (
        failed(),
        {"missing": "timeout", "reason": "late"},
        {"status": "inconclusive", "reason": "gloo-loopback: no time was left for it"},
    ):
        snapshot = machine("cpu", {"live": live})
        assert code(snapshot) == 3
        assert code(snapshot, live=False) == 0
        assert code(snapshot, fail_on="never") == 0
    assert code(machine("cpu", {"live": {"missing": "skipped", "reason": "no torch.distributed"}})) == 0


def test_a_finding_outranks_a_doubt() -> None:
    report = finish(driver_old().findings, (), machine("rtx4090", {"live": failed(), "devices": failed()}))
    assert (report.verdict, report.exit_code, report.because) == ("fail", 1, ())


def test_because_names_each_doubt_once() -> None:
    snapshot = machine("rtx4090", {"devices": failed("CUDA init hung"), "live": failed("no ranks")})
    report = finish((), (), snapshot)
    assert report.because == ("CUDA init hung", "the live check: no ranks")


def test_counts_and_unknown() -> None:
    report = mixed()
    assert report.counts == {"ok": 1, "hit": 4, "not_applicable": 0, "unknown": 4, "crashed": 1}
    assert [one.rule for one in report.unknown] == ["gpu-xid", "gpu-throttled", "gpu-busy", "gpu-lost", "memlock-low"]
    assert report.unknown[-1].reason.startswith("the rule itself failed")
    assert report.count(Severity.WARNING) == 1


@pytest.mark.parametrize(
    ("changes", "tool"),
    [
        ({}, "pip"),
        ({"python.uv": True}, "uv"),
        ({"python.has_pip": False}, "uv"),
        ({"python.has_conda_meta": True, "python.uv": True}, "conda"),
    ],
)
def test_target_tool(changes: dict[str, Any], tool: str) -> None:
    assert target_tool(machine("cpu", changes)) == tool


def test_lines_about_target_and_host() -> None:
    snapshot = machine("cpu", {"python.chosen_because": "--python", "system.cpu_limit": 2.0, "container": {"runtime": "docker"}})
    assert target_line(snapshot) == "/venv/bin/python (Python 3.12.3, venv): given with --python"
    assert host_line(snapshot) == "node1: Ubuntu 24.04.3 LTS, x86_64, 2 cores, 64 GiB, in docker"
    dated = replace(snapshot, system=replace(snapshot.system, date="2026-11-28", time="21:20:05"), network=Missing(Why.SKIPPED, ""))  # type: ignore[type-var]
    assert host_line(dated) == "Ubuntu 24.04.3 LTS, x86_64, 2 cores, 64 GiB, in docker, 2026-11-28T21:20:05Z"
    lost = replace(snapshot, python=Missing(Why.TIMEOUT, "no answer"), system=Missing(Why.FAILED, "broken"))
    assert target_line(lost) == "unknown (no answer)"
    assert host_line(lost) == "unknown (broken)"


@pytest.mark.parametrize("name", SAMPLES)
def test_verdict_and_code_agree(name: str) -> None:
    report = SAMPLES[name]()
    assert {"pass": 0, "fail": 1, "inconclusive": 3}[report.verdict] == report.exit_code
    assert bool(report.because) == (report.verdict == "inconclusive")


def test_a_report_reads_the_texts_of_hits_and_of_what_is_open_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout each costs a parse of TOML."""
    from envcheck.engine import rule

    read: list[str] = []

    def load(path: str) -> dict[str, Any]:
        read.append(path.rpartition("/")[2].removesuffix(".toml"))
        return load_toml(path)

    monkeypatch.setattr(rule, "load_toml", load)
    report_on(machine("h100x8"), rule_session())
    assert read == []
    open_rules = {one.rule for one in report_on(machine("h100x8", {"driver": failed(), "gpus": failed()}), rule_session()).unknown}
    assert open_rules and set(read) == open_rules, "and nothing was found"
