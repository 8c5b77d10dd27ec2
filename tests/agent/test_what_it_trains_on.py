"""What the last line says a training runs on, and machines without a GPU of their own: judged and rendered as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from report_samples import machine

from envcheck.collect import settle
from envcheck.engine.rule import Severity
from envcheck.render import render
from envcheck.render.json_v1 import document
from envcheck.render.wording import subject, verdict_line
from envcheck.report.report import Report, finish
from envcheck.report.session import report_on, rule_session
from envcheck.report.stack import Mark, stack

BY = rule_session()
H100 = {"index": 0, "name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "kernel": "ok"}
BEYOND = {"index": 1, "kernel": "failed", "kernel_error": "properties: Invalid device id"}
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
# A CUDA build as a CPU machine shows it: no driver, no card on the bus, and what torch.cuda.init() says then.
CUDA_BUILD = {
    "torch.version": "2.14.1+cu130", "torch.cuda": "13.0", "torch.cpu_build": False, "torch.nccl": "2.29.7",
    "torch.arch_list": ["sm_75", "sm_80", "sm_90", "sm_120"], "backends.cuda": True, "backends.nccl": True, "backends.cudnn": True,
    "packages.distributions.0.version": "2.14.1+cu130", "devices": {"available": False, "count": 0, "error": NO_DRIVER},
}  # fmt: skip
WORDS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed."
)
LOGIN_NODE = {
    "driver": {
        "library_version": "580.95.05",
        "module_loaded": False,
        "smi": {"status": "failed", "code": 9, "message": WORDS},
        "nvml": {"status": "failed", "code": 9, "message": "Driver Not Loaded"},
    },
    "gpus": {"missing": "absent", "reason": "no NVIDIA GPU is on the PCI bus, and no driver is loaded"},
}


def judged(name: str, changes: Mapping[str, Any] | None = None) -> Report:
    return report_on(settle(machine(name, changes), BY), BY)


def rules(report: Report, *, above: Severity = Severity.INFO) -> list[str]:
    return [one.finding.rule for one in report.findings if one.finding.severity.order < above.order]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("h100x8", {}, "torch 2.14.1+cu130 on 8 × H100 80GB HBM3"),
        ("rtx4090", {}, "torch 2.14.1+cu130 on GeForce RTX 4090"),
        ("h100x8", {"devices.count": 1, "devices.devices": [H100]}, "torch 2.14.1+cu130 on 1 of 8 × H100 80GB HBM3"),
        ("h100x8", {"devices.count": 7, "devices.devices": []}, "torch 2.14.1+cu130 on 7 of 8 × H100 80GB HBM3"),
        ("h100x8", {"devices.count": 2, "devices.devices": [H100, BEYOND]}, "torch 2.14.1+cu130 on 1 of 8 × H100 80GB HBM3"),
        ("h100x8", {"devices": {"available": False, "count": 0}}, "torch 2.14.1+cu130 on the CPU"),
        (
            "h100x8",
            {"devices": {"missing": "skipped", "reason": "--static"}, "visibility.selected": [3]},
            "torch 2.14.1+cu130 on 1 of 8 × H100 80GB HBM3",
        ),
        (
            "h100x8",
            {"gpus.devices.7.name": "NVIDIA L4", "devices.devices": [H100, {**H100, "index": 1, "name": "NVIDIA L4"}], "devices.count": 2},
            "torch 2.14.1+cu130 on H100 80GB HBM3 + L4 (2 of 8 GPUs)",
        ),
        ("h100x8", {"gpus.devices.0.mig": True, "devices.count": 1, "devices.devices": [H100]}, "torch 2.14.1+cu130 on H100 80GB HBM3"),
        ("cpu", {}, "torch 2.14.1+cpu on the CPU"),
        ("cpu", CUDA_BUILD, "torch 2.14.1+cu130 on the CPU"),
        ("rtx4090", {"torch": {"version": "2.14.1+cpu", "cpu_build": True}, "devices.available": None}, "torch 2.14.1+cpu on the CPU"),
        ("cpu", {"driver": {"smi": {"status": "failed", "code": 12}}}, "torch 2.14.1+cpu on the CPU"),
        ("cpu", {"driver": {"smi": {"status": "unreadable", "code": 0}}}, "torch 2.14.1+cpu on the CPU"),
        ("mac-m3", {}, "torch 2.14.1 on Apple GPU"),
    ],
)
def test_subject(name: str, changes: dict[str, Any], words: str) -> None:
    assert subject(finish((), (), machine(name, changes))) == words


def test_a_cuda_build_without_a_gpu_is_green_and_says_so_once() -> None:
    report = judged("cpu", CUDA_BUILD)
    assert (report.verdict, report.exit_code, report.findings, report.unknown) == ("pass", 0, (), ())
    layers = stack(report.snapshot, ())
    assert [(layer.name, layer.mark) for layer in layers] == [("GPU", Mark.NONE), ("torch", Mark.OK), ("live step", Mark.OK)]
    assert layers[0].value == "torch 2.14.1+cu130 has CUDA; this machine has no NVIDIA GPU: training runs on the CPU"
    shown = render(report, "text")
    assert shown.count("NVIDIA") == 1 and shown.splitlines()[-1] == "Ready to train: torch 2.14.1+cu130 on the CPU"
    facts = document(report)["facts"]
    assert facts["torch"]["cuda"] == "13.0" and facts["gpus"]["missing"] == "absent" and facts["devices"]["available"] is False


@pytest.mark.parametrize("value", ["0", "0,1", "3", "", "-1", "GPU-aaaa", "abc"])
def test_no_value_of_the_variable_hides_what_is_not_there(value: str) -> None:
    report = judged("cpu", {**CUDA_BUILD, "visibility.cuda_visible_devices": value})
    assert (report.exit_code, report.findings) == (0, ())


@pytest.mark.parametrize(
    "changes",
    [
        {"container": {"runtime": "docker", "cuda_requirement": "cuda>=12.8", "driver_capabilities": "compute,utility"}},
        {"cuda_driver": {"library_path": "/usr/local/cuda/compat/libcuda.so.1", "init_code": 100, "is_compat": True}},
        {"cuda_driver": {"library_path": "/usr/local/cuda/compat/libcuda.so.1", "init_code": 999}, "devices.error_code": 999},
        {"cuda_driver": {"init_code": 34, "is_stub": True}, "devices.error_code": 34},
        {"launcher": {"launcher": "slurm", "scheduler": "slurm"}},
    ],
)
def test_nothing_above_a_note_where_parts_of_cuda_lie_about(changes: dict[str, Any]) -> None:
    report = judged("cpu", {**CUDA_BUILD, **changes})
    assert report.exit_code == 0 and rules(report) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"system.pci_gpus": [{"address": "0000:01:00.0", "vendor": "10de", "device": "2684"}]}, "driver-missing"),
        (LOGIN_NODE, "driver-not-loaded"),
    ],
)
def test_a_cuda_build_where_a_gpu_is_or_its_driver_was_installed_is_the_fault_it_was(changes: dict[str, Any], rule: str) -> None:
    report = judged("cpu", {**CUDA_BUILD, **changes})
    assert report.exit_code == 1 and rules(report, above=Severity.WARNING) == [rule]


def test_a_login_node_with_a_cpu_build_is_green_and_quotes_nvidia_smi_once() -> None:
    report = judged("cpu", LOGIN_NODE)
    assert (report.exit_code, rules(report)) == (0, [])
    assert [(one.finding.rule, one.finding.severity) for one in report.findings] == [("driver-not-loaded", Severity.INFO)]
    shown = render(report, "text")
    assert " ".join(shown.split()).count("NVIDIA-SMI has failed") == 1
    assert shown.splitlines()[-1] == "Ready to train: torch 2.14.1+cpu on the CPU"


def test_the_same_words_pasted_from_a_program_are_a_fault() -> None:
    told = {"matches": [{"source": "train.log", "text": WORDS, "rule": "driver-not-loaded"}]}
    report = report_on(machine("cpu", {**LOGIN_NODE, "symptoms": told}), BY)
    assert rules(report, above=Severity.WARNING) == ["driver-not-loaded"]


# ---- GPUs of a machine that torch does not have


def reset(index: int, source: str = "nvidia-smi") -> dict[str, Any]:
    return {
        f"gpus.devices.{index}.error": "GPU requires reset",
        "gpus.troubles": [{"source": source, "text": "GPU requires reset", "code": 16, "index": index}],
    }


def test_one_of_eight_needs_a_reset() -> None:
    devices = [{**H100, "index": at} for at in range(7)]
    report = judged("h100x8", {**reset(6), "devices.count": 7, "devices.devices": devices})
    assert rules(report) == ["gpu-needs-reset"] and report.exit_code == 1
    [one] = report.findings
    cure, meanwhile = one.fixes
    *before, reset_it, last = cure.commands.shell
    assert reset_it == "sudo nvidia-smi -i 6 -r" and cure.who == "admin"
    assert "reboot" not in str(before) and last.startswith("sudo reboot    # where it is refused")  # it ends the other seven's jobs
    assert "CUDA_VISIBLE_DEVICES=UUIDS" in str(meanwhile.commands.shell)
    value = stack(report.snapshot, [one.finding])[0].value
    assert value == "7 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB); GPU 6 (NVIDIA H100 80GB HBM3): GPU requires reset"


def test_the_only_gpu_needs_a_reset_and_no_other_cause_is_guessed() -> None:
    blind = {"available": False, "count": 0, "error": "No CUDA GPUs are available"}
    report = judged("rtx4090", {**reset(0, "NVML"), "devices": blind, "cuda_driver.init_code": 100, "cuda_driver.device_count": 0})
    assert rules(report, above=Severity.WARNING) == ["gpu-needs-reset"]
    assert "torch-cuda-unavailable" in report.findings[0].finding.consequences


def test_a_gpu_that_needs_a_reset_is_not_a_model_of_its_own() -> None:
    """CUDA leaves it out, so that torch's second device is the third of the list: no other order of counting."""
    devices = [{**H100, "index": at} for at in range(7)]
    names = {"gpus.devices.1.name": None, "gpus.devices.7.name": "NVIDIA L4", "devices.count": 7}
    devices[6]["name"] = "NVIDIA L4"
    report = judged("h100x8", {**reset(1), **names, "devices.devices": devices})
    assert rules(report) == ["gpu-needs-reset"]


def test_gpus_of_other_jobs_are_no_finding() -> None:
    """Slurm with ConstrainDevices, or a container with one of eight nodes: NVML counts all of them."""
    shut = [{"source": "NVML", "text": "Insufficient Permissions", "code": 4, "index": at} for at in range(1, 8)]
    report = judged("rtx4090", {"gpus.troubles": shut})
    assert (report.exit_code, report.findings, report.unknown) == (0, (), ())
    assert verdict_line(report) == "Ready to train: torch 2.14.1+cu130 on GeForce RTX 4090"
    assert stack(report.snapshot, ())[0].value == "NVIDIA GeForce RTX 4090 (sm_89, 24 GiB); 7 closed to this process"


@pytest.mark.parametrize("code", [1, 3, 10, 13, 27, 999])
def test_an_error_that_says_nothing_of_the_gpu_is_unknown_by_its_name(code: int) -> None:
    from envcheck.facts.nvml_codes import NAMES

    trouble = {"source": "NVML", "text": "so it says", "code": code, "index": 1}
    nodes = ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"]
    report = judged("rtx4090", {"gpus.troubles": [trouble], "driver.device_nodes": nodes, "cuda_driver.device_count": 1})
    assert rules(report) == ["gpu-count-differs"] and report.exit_code == 0
    assert [(one.rule, f"NVML_ERROR_{NAMES[code]}" in one.reason) for one in report.unknown] == [("gpu-lost", True)]
    assert "reboot" not in json.dumps(document(report)["findings"])


def test_who_said_that_it_is_lost() -> None:
    trouble = {"source": "NVML", "text": "GPU is lost", "code": 15, "index": 8}
    report = judged("h100x8", {"gpus.troubles": [trouble], "gpus.lost": ["GPU 8: GPU is lost"]})
    assert rules(report) == ["gpu-lost"]
    assert stack(report.snapshot, ())[0].value == "8 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB); 1 on the bus without an answer"
    assert [(one.source, one.text) for one in report.findings[0].finding.evidence] == [
        ("NVML", "GPU 8: GPU is lost (NVML_ERROR_GPU_IS_LOST)")
    ]


def test_fewer_than_are_listed_is_a_warning_and_counted_ones_an_error() -> None:
    few = judged("h100x8", {"devices.count": 1, "devices.devices": [H100], "cuda_driver.device_count": 1})
    assert (rules(few), few.exit_code) == (["gpu-count-differs"], 0)
    assert verdict_line(few) == "Ready to train (1 warning): torch 2.14.1+cu130 on 1 of 8 × H100 80GB HBM3"
    counted = judged("h100x8", {"devices.count": 2, "devices.devices": [H100, BEYOND]})
    assert (rules(counted), counted.exit_code) == (["gpu-count-differs"], 1)


def test_under_mig_torch_counts_by_nvml_and_has_one_instance() -> None:
    parts = {f"gpus.devices.{at}.{name}": value for at in range(8) for name, value in (("mig", True), ("mig_devices", ["MIG-1", "MIG-2"]))}
    report = judged("h100x8", {**parts, "devices.count": 2, "devices.devices": [H100, BEYOND]})
    assert rules(report) == ["gpu-mig"] and report.exit_code == 0
