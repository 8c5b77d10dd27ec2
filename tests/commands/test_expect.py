"""--expect and --backend as gates: what is not there fails, what was not read is no pass."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from report_samples import machine

from envcheck import cli
from envcheck.commands.check import session_of
from envcheck.commands.expect import EXPLAINED, check_syntax, expected, kind, parse_value
from envcheck.commands.explain import explain
from envcheck.commands.named_facts import NAMES
from envcheck.errors import UsageError
from envcheck.facts.record import replace
from envcheck.facts.recorded import RECORDED
from envcheck.facts.snapshot import BackendsFacts, Expectation, ExpectationsFacts, Snapshot
from envcheck.options import parse
from envcheck.render import FORMATS, render
from envcheck.render.json_v1 import render_record
from envcheck.report.report import Report
from envcheck.report.session import IgnoreSetting, report_on, rule_session

ABSENT = {"missing": "absent", "reason": "none"}
FAILED = {"missing": "failed", "reason": "it broke"}
STATIC = {"missing": "skipped", "reason": "torch was not imported (--static)"}
LIVE_OFF = {"missing": "skipped", "reason": "switched off (--live off)"}
UNIMPORTED = {
    "torch.import_status": "skipped",
    "torch.import_seconds": None,
    "torch.nccl": None,
    "torch.nccl_loaded": None,
    "torch.cudnn": None,
    "torch.cudnn_loaded": None,
    "backends": STATIC,
    "devices": STATIC,
    "live": {"missing": "skipped", "reason": "switched off (--static)"},
}
NO_TORCH = {"torch": ABSENT, "backends": ABSENT, "devices": ABSENT, "live": ABSENT}


def of(snapshot: Snapshot, *texts: str) -> ExpectationsFacts:
    found = expected(snapshot, texts).expectations
    assert isinstance(found, ExpectationsFacts)
    return found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("driver>=580", "there is no NVIDIA driver here"),
        ("driver<580", "there is no NVIDIA driver here"),
        ("driver_cuda>=12", "there is no NVIDIA driver here"),
        ("gpu==h100", "there is no GPU here"),
        ("gpu!=h100", "there is no GPU here"),
        ("gpu_memory_gib>=40", "there is no GPU here"),
        ("compute_capability>=8.0", "there is no GPU here"),
        ("cuda>=12", "torch 2.14.1+cpu is built without CUDA"),
        ("nccl>=2", "torch 2.14.1+cpu is built without NCCL"),
        ("cudnn>=9", "torch 2.14.1+cpu is built without cuDNN"),
        ("packages.xformers>=0.1", "xformers is not installed"),
        ("gpus.devices.0.mig==false", "there is no gpus here: no NVIDIA driver"),
        ("python.variables.CC==gcc", "python.variables.CC is not set"),
    ],
)
@pytest.mark.parametrize("changes", [{}, UNIMPORTED], ids=["live", "static"])
def test_what_is_not_here_meets_no_expectation(text: str, reason: str, changes: Mapping[str, Any]) -> None:
    found = of(machine("cpu", changes), text)
    assert found == ExpectationsFacts(failed=(Expectation(text, reason=reason),))


@pytest.mark.parametrize("changes", [{}, UNIMPORTED], ids=["live", "static"])
def test_counts_of_what_is_not_here_are_zero(changes: Mapping[str, Any]) -> None:
    found = of(machine("cpu", changes), "gpus>=1", "visible_gpus>=1", "gpus==0", "visible_gpus<1")
    assert found.failed == (Expectation("gpus>=1", "0"), Expectation("visible_gpus>=1", "0"))
    assert found.met == ("gpus==0", "visible_gpus<1") and not found.undecided


@pytest.mark.parametrize(
    ("base", "changes", "text"),
    [
        ("rtx4090", {}, "driver>=580"),
        ("rtx4090", {}, "driver_cuda>=13.0"),
        ("rtx4090", {"driver.cuda": None}, "driver_cuda==13.0"),  # libcuda says it too
        ("rtx4090", {}, "gpu==NVIDIA GeForce RTX 4090"),
        ("rtx4090", {}, "gpu_memory_gib>=24"),
        ("rtx4090", {}, "compute_capability==8.9"),
        ("rtx4090", {}, "nccl==2.30.7"),
        ("rtx4090", {}, "cudnn>=9.24"),
        ("rtx4090", {}, "ranks==2"),
        ("rtx4090", UNIMPORTED, "cuda~=13.0"),
        ("rtx4090", UNIMPORTED, "packages.nvidia_nccl_cu13>=2.30"),
        ("rtx4090", {**UNIMPORTED, "visibility.selected": []}, "visible_gpus==0"),
        ("h100x8", {}, "gpus==8"),
        ("h100x8", {}, "visible_gpus>=8"),
        ("mi300x", {}, "gpus>=1"),  # torch counts what the NVIDIA driver does not
        ("mi300x", {}, "gpu_memory_gib>=190"),
        ("cpu", {"limits.open_files_soft": None}, "open_files>=1000000"),  # unlimited
        ("cpu", {}, "torch.debug==false"),
        ("cpu", {}, "torch.import_status==ok"),
        ("cpu", {}, "torch==2.14.1"),
    ],
)
def test_met(base: str, changes: Mapping[str, Any], text: str) -> None:
    assert of(machine(base, changes), text) == ExpectationsFacts(met=(text,))


@pytest.mark.parametrize(
    ("base", "changes", "text", "found"),
    [
        ("h100x8", {"gpus.devices.7.memory_bytes": 1 << 30}, "gpu_memory_gib>=40", "80, 80, 80, 80, 80, 80, 80, 1"),
        ("h100x8", {"gpus.devices.7.error": "GPU is lost"}, "gpus>=8", "7"),
        ("rtx4090", {"live.status": "hang"}, "ranks>=2", "0"),
        ("rtx4090", NO_TORCH, "ranks>=2", "0"),
        ("rtx4090", NO_TORCH, "visible_gpus>=1", "0"),
        ("cpu", {}, "torch>=2.15", "2.14.1+cpu"),
    ],
)
def test_not_met(base: str, changes: Mapping[str, Any], text: str, found: str) -> None:
    assert of(machine(base, changes), text) == ExpectationsFacts(failed=(Expectation(text, found),))


@pytest.mark.parametrize(
    ("base", "changes", "text", "reason"),
    [
        ("rtx4090", {"driver": FAILED}, "driver>=580", "it broke"),
        ("rtx4090", {"driver.version": None}, "driver>=580", "the version of the NVIDIA driver could not be read"),
        ("rtx4090", {"gpus": FAILED}, "gpus>=1", "it broke"),
        ("rtx4090", {"gpus": FAILED}, "gpu==h100", "it broke"),
        ("rtx4090", {"gpus.devices.0.memory_bytes": None}, "gpu_memory_gib>=8", "not known cannot be compared with 8"),
        ("rtx4090", {"devices": FAILED}, "visible_gpus>=1", "it broke"),
        ("rtx4090", {"torch": FAILED}, "cuda>=12", "it broke"),
        ("rtx4090", UNIMPORTED, "visible_gpus>=1", "torch was not imported (--static)"),
        ("rtx4090", UNIMPORTED, "nccl>=2.27", "torch was not imported (--static)"),
        ("rtx4090", UNIMPORTED, "cudnn>=9", "torch was not imported (--static)"),
        ("rtx4090", UNIMPORTED, "torch.import_seconds<30", "torch.import_seconds is not known, torch was not imported"),
        ("mi300x", UNIMPORTED, "gpus>=1", "torch was not imported (--static)"),
        ("rtx4090", {"live": LIVE_OFF}, "ranks>=2", "the live check did not run: switched off (--live off)"),
        ("rtx4090", {"live.status": "inconclusive", "live.reason": "no ranks"}, "ranks>=2", "the live check did not decide: no ranks"),
        ("cpu", {"torch.version": "my build"}, "torch>=2", "my build cannot be compared with 2"),
        ("cpu", {"limits": FAILED}, "shm_gib>=1", "it broke"),
    ],
)
def test_what_was_not_read_is_undecided(base: str, changes: Mapping[str, Any], text: str, reason: str) -> None:
    assert of(machine(base, changes), text) == ExpectationsFacts(undecided=(Expectation(text, reason=reason),))


def test_an_absent_driver_is_told_from_one_that_is_not_loaded() -> None:
    found = of(machine("rtx4090", {"driver.version": None, "driver.module_loaded": False}), "driver>=580", "driver_cuda>=12")
    assert {one.reason for one in found.failed} == {"the NVIDIA driver is not loaded"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch.verison>=2", "verison: no such fact"),
        ("torhc.version>=2", "torhc: no such fact"),
        ("driver.version.major>=2", "nothing below 'major'"),
        ("packages.requests>=2", "requests is not among them"),
        ("gpus~=8", "~= compares versions"),
        ("gpu>=h100", "takes == or !="),
        ("gpu>=1", "did you mean the number, gpus?"),
        ("gpus>=nan", "'nan' is not a number"),
        ("memory_gib<inf", "'inf' is not a number"),
        ("driver>=" + "9" * 5000, "no number of more than 4000 digits"),
        ("torch.import_seconds<soon", "'soon' is not a number, as torch.import_seconds is"),
        ("torch.debug>=false", "true or false, with == or !="),
        ("gpus.devices>=5", "is no single value; name a field below it"),
    ],
)
def test_what_can_never_be_decided_is_refused_at_once(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_syntax((), (text,))


def judged(snapshot: Snapshot, *texts: str, backend: str | None = None, **options: Any) -> Report:
    return report_on(expected(snapshot, texts, backend), rule_session(), live_requested=True, **options)


def test_an_undecided_expectation_is_no_pass_in_any_format() -> None:
    report = judged(machine("rtx4090", {"driver.version": None}), "driver>=580", "torch>=2")
    assert (report.verdict, report.exit_code) == ("inconclusive", 3)
    why = "driver>=580 is expected: the version of the NVIDIA driver could not be read"
    assert report.because == (why,)
    document = json.loads(render(report, "json"))
    assert (document["verdict"], document["exit_code"], document["because"]) == ("inconclusive", 3, [why])
    xml = ElementTree.fromstring(render(report, "junit"))  # noqa: S314
    assert (xml.attrib["errors"], xml.attrib["failures"]) == ("1", "0")
    [error] = xml.findall(".//error")
    assert error.text == why
    assert render(report, "github").splitlines()[-1] == f"::warning title=envcheck::Cannot tell: {why}"
    assert render(report, "text").splitlines()[-1].startswith("Cannot tell: driver>=580 is expected")


def test_a_failed_expectation_outranks_an_undecided_one() -> None:
    report = judged(machine("rtx4090", {"driver.version": None}), "driver>=580", "gpus>=8")
    assert (report.verdict, report.exit_code) == ("fail", 1)
    assert report.findings[0].finding.message == "Expected gpus>=8, found 1."


def test_a_rule_that_the_user_left_out_decides_nothing() -> None:
    snapshot = expected(machine("rtx4090", {"driver.version": None}), ("driver>=580",))
    assert report_on(snapshot, rule_session(ignore=(IgnoreSetting("expectation-failed"),)), live_requested=True).exit_code == 0


@pytest.mark.parametrize(
    ("base", "backend", "variant"), [("cpu", "nccl", "CUDA or ROCm"), ("cpu", "mpi", "wheels"), ("h100x8", "xccl", "XPU")]
)
def test_a_backend_that_the_build_lacks(base: str, backend: str, variant: str) -> None:
    report = judged(machine(base), backend=backend)
    assert (report.verdict, report.exit_code) == ("fail", 1)
    [one] = report.findings
    assert one.finding.rule == "backend-unavailable" and variant in one.finding.message
    assert one.fixes


@pytest.mark.parametrize(
    ("base", "nproc", "ranks"), [("cpu", 2, 2), ("h100x8", "all", 8), ("rtx4090", "all", 1), ("cpu", "all", 0), ("cpu", None, None)]
)
def test_the_processes_that_were_asked_for(base: str, nproc: int | Literal["all"] | None, ranks: int | None) -> None:
    snapshot = expected(machine(base), (), nproc=nproc)
    assert isinstance(snapshot.expectations, ExpectationsFacts) and snapshot.expectations.ranks == ranks
    without = replace(snapshot, backends=BackendsFacts(distributed=False))
    report = report_on(without, rule_session(), live_requested=True)
    [one] = [one for one in report.findings if one.finding.rule == "distributed-unavailable"]
    several = (ranks or 1) > 1
    assert (report.exit_code, f"--nproc {ranks}" in one.finding.message) == (int(several), several)
    assert "expectations" not in json.loads(render(report, "json"))


def test_a_choice_of_rules_does_not_take_back_what_was_asked_for() -> None:
    def chosen(*words: str) -> set[str]:
        return {one.id for one in session_of(parse(["--select", "shm-small", *words])).checks}

    assert chosen() == chosen("--nproc", "1") == {"shm-small"}
    assert chosen("--nproc", "2") == chosen("--nproc", "all") == {"shm-small", "distributed-unavailable"}


def test_the_cause_swallows_the_backend_that_follows_from_it() -> None:
    changes = {
        "torch.version": "2.14.1+cpu", "torch.cuda": None, "torch.cpu_build": True, "backends.nccl": False,
        "devices": {"available": False, "count": 0}, "live.arms": [], "live.backend": "gloo",
    }  # fmt: skip
    report = judged(machine("rtx4090", changes), backend="nccl")
    assert "backend-unavailable" not in [one.finding.rule for one in report.findings]
    assert report.findings[0].finding.rule == "torch-cpu-build"
    assert "backend-unavailable" in report.findings[0].finding.consequences


def test_a_backend_that_was_not_tried_is_no_pass() -> None:
    """The build has it and a GPU is there, but another job held it: ranks that trained over gloo prove nothing about NCCL."""
    held = "no GPU was free for the live check: compute mode is exclusive and another process holds the GPU"
    changes = {
        "live.arms": [{"name": "gloo-loopback", "backend": "gloo", "device": "cpu", "world_size": 2, "status": "pass"}],
        "live.not_proved": [held],
    }
    snapshot = machine("rtx4090", changes)
    assert judged(snapshot).exit_code == 0
    report = judged(snapshot, backend="nccl")
    assert (report.verdict, report.because) == ("inconclusive", (f"the live check: nccl was asked for and not tried ({held})",))
    assert judged(machine("rtx4090"), backend="nccl").exit_code == 0
    assert judged(machine("cpu"), backend="gloo").exit_code == 0


def test_every_name_is_explained_where_gates_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert EXPLAINED.keys() == NAMES.keys()
    page = " ".join(explain("expectation-failed", rule_session()).split())
    with pytest.raises(SystemExit):
        parse(["check", "--help"])
    help_text = capsys.readouterr().out
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    for name, (what, example) in EXPLAINED.items():
        check_syntax((), (example,))
        assert re.match(rf"{name}\W", example)
        assert f"| `{name}` | {kind(name)} | {what} | `{example}` |" in readme
        assert re.search(rf"^  '{re.escape(example)}' +{kind(name)} +{re.escape(what)}$", help_text, re.MULTILINE)
        assert f"'{example}'" in page
        note = {"number": "Numbers", "version": "Versions", "text": "A text"}[kind(name)]
        assert re.search(rf"{note}: [^:]*'{name}\W", page), name


def test_a_recorded_check_that_did_not_decide_is_as_undecided_when_it_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_check = {"live": {"status": "inconclusive", "reason": "no time was left for it"}}
    path = tmp_path / "node.json"
    path.write_text(render_record(machine("cpu", open_check), "envcheck", "0.1.0"))
    assert cli.main(["--facts", str(path)]) == 3
    assert "no time was left for it" in capsys.readouterr().out
    path.write_text(render_record(machine("cpu", {"live": {"missing": "skipped", "reason": "switched off"}}), "envcheck", "0.1.0"))
    assert cli.main(["--facts", str(path)]) == 0


PRESENT = {
    "gpus": "8", "visible_gpus": "8", "gpu": "NVIDIA H100 80GB HBM3", "gpu_memory_gib": "1", "compute_capability": "9.0", "driver": "1",
    "driver_cuda": "1", "torch": "1", "cuda": "1", "nccl": "1", "cudnn": "1", "python": "3", "glibc": "2", "ranks": "1", "cpus": "1",
    "memory_gib": "1", "shm_gib": "1", "open_files": "1",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("sections", "outcome", "code"),
    [({}, "met", 0), (ABSENT, "failed", 1), (FAILED, "undecided", 3), ({"missing": "timeout", "reason": "no answer"}, "undecided", 3)],
    ids=["present", "absent", "failed", "timeout"],
)
def test_a_gate_on_every_name(name: str, sections: Mapping[str, str], outcome: str, code: int) -> None:
    """What is there passes, what is known not to exist fails, what could not be read is no pass."""
    text = f"{name}{'==' if kind(name) == 'text' else '>='}{PRESENT[name]}"
    snapshot = machine("h100x8", dict.fromkeys((*RECORDED, "live"), sections) if sections else {})
    found = of(snapshot, text)
    assert [which for which in ("met", "failed", "undecided") if getattr(found, which)] == [outcome]
    gate = report_on(expected(snapshot, (text,)), rule_session(select=("expectation-failed",)), live_requested=False)
    assert gate.exit_code == code


def is_green(form: str, text: str) -> bool:
    """As the reader of this format takes it."""
    match form:
        case "json":
            document = json.loads(text)
            return bool(document["verdict"] == "pass" and document["exit_code"] == 0)
        case "junit":
            suites = ElementTree.fromstring(text)  # noqa: S314
            return (
                suites.attrib["errors"] == suites.attrib["failures"] == "0" and suites.find(".//failure") is suites.find(".//error") is None
            )
        case "sarif":
            [run] = json.loads(text)["runs"]
            return bool(run["invocations"][0]["executionSuccessful"] and not run["results"])
        case "github":
            return not re.search("^::(error|warning)", text, re.MULTILINE)
    return "Ready to train" in text and not re.search("Cannot tell|Not ready", text)


@pytest.mark.parametrize(
    ("sections", "code"), [({}, 0), (ABSENT, 1), (FAILED, 3), ({"missing": "skipped", "reason": "switched off"}, 3)],
    ids=["present", "absent", "failed", "skipped"],
)  # fmt: skip
def test_only_what_is_met_is_green_in_each_format(sections: Mapping[str, str], code: int, tmp_path: Path) -> None:
    snapshot = machine("h100x8", dict.fromkeys((*RECORDED, "live"), sections) if sections else {})
    (tmp_path / "node.json").write_text(render_record(snapshot, "envcheck", "0.1.0"))
    written = [word for form in FORMATS for word in ("-o", f"{form}={tmp_path / form}")]
    gate = ["--facts", str(tmp_path / "node.json"), "--expect", "driver>=1", "--select", "expectation-failed"]
    assert [cli.main([*gate, *more]) for more in (written, ["--json"], ["-q"], ["--strict"])] == [code] * 4
    assert [form for form in FORMATS if is_green(form, (tmp_path / form).read_text("utf-8"))] == ([] if code else [*FORMATS])


def test_a_value_in_brackets_without_end_is_a_text() -> None:
    assert parse_value("[" * 100_000) == "[" * 100_000
