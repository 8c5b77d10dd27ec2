"""Reports of other machines: what a person reads in them is what the readers find."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck.facts.snapshot import Missing, Nvcc, Snapshot
from envcheck.read.clean import clean
from envcheck.read.collect_env import read_collect_env
from envcheck.read.identify import WHOLE, log_kinds, read_text, regions
from envcheck.read.merge import merge
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import load_toml

TESTS = Path(__file__).parents[1]
SHARED = Path(os.environ.get("ENVCHECK_SHARED", TESTS.parents[1] / "shared"))
GOLDEN: dict[str, dict[str, Any]] = load_toml(TESTS / "golden" / "collect_env.toml")
TABLES = Tables((rules_folder("compat"),))


def snapshot(text: str) -> Snapshot:
    return merge([("report", one) for one in read_text(clean(text))], (), TABLES).snapshot


def sample(name: str) -> Snapshot:
    return snapshot((TESTS / "samples" / name).read_text(encoding="utf-8", errors="replace"))


def fact(made: Snapshot, path: str) -> Any:
    section, _, name = path.partition(".")
    value = getattr(made, section)
    value = None if isinstance(value, Missing) else getattr(value, name)
    if isinstance(value, Nvcc):
        return value.release
    return list(value) if isinstance(value, tuple) else getattr(value, "value", value)


def gpus(made: Snapshot) -> list[str]:
    devices = () if isinstance(made.gpus, Missing) else made.gpus.devices
    return [f"{gpu.name} {gpu.compute_capability or '?'}{''.join(f' MIG {one}' for one in gpu.mig_devices)}" for gpu in devices]


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_facts(name: str) -> None:
    file = SHARED / "cases" / "collect_env" / name
    if not file.is_file():
        pytest.skip(f"{file} is not here: the reports belong to the collection of cases beside the repository")
    made, wanted = snapshot(file.read_text(encoding="utf-8", errors="replace")), GOLDEN[name]
    found = {path: fact(made, path) for path in wanted if "." in path}
    assert found == {path: value for path, value in wanted.items() if "." in path}
    assert gpus(made) == wanted.get("gpus", [])
    if "packages" in wanted:
        assert not isinstance(made.packages, Missing)
        assert len(made.packages.distributions) == wanted["packages"]
    if "torch_missing" in wanted:
        assert isinstance(made.torch, Missing)
        assert made.torch.why.value == wanted["torch_missing"]


def test_enough_golden_reports() -> None:
    assert len(GOLDEN) >= 40


def test_torch_1_1() -> None:
    made = sample("collect_env/torch-1.1-titan.txt")
    assert fact(made, "torch.cuda") == "9.0"
    assert fact(made, "devices.available") is True
    assert fact(made, "toolkit.gcc") == "5.4.0"
    assert gpus(made) == ["TITAN Xp 6.1", "TITAN Xp 6.1"]
    assert fact(made, "driver.version") == "390.48"


def test_torch_2_15_names_rocm_differently() -> None:
    made = sample("collect_env/torch-2.15-rocm.txt")
    assert fact(made, "torch.hip") == "7.14.26140-cafe1234"
    assert fact(made, "torch.cuda") is None
    assert fact(made, "rocm.gfx") == ["gfx942"]
    assert isinstance(made.gpus, Missing)


def test_vllm_sections_and_a_variable_printed_twice() -> None:
    made = sample("collect_env/vllm-sections.txt")
    assert fact(made, "torch.version") == "2.7.1+cu128"
    assert fact(made, "visibility.cuda_visible_devices") == "0,1"
    assert fact(made, "visibility.selected") == [0, 1]
    assert fact(made, "network.variables") == {"NCCL_DEBUG": "INFO"}
    assert fact(made, "visibility.hip_visible_devices") is None


def test_typed_by_hand_with_full_width_colons() -> None:
    made = sample("collect_env/typed.txt")
    assert fact(made, "torch.version") == "1.13.1+cu117"
    assert fact(made, "system.distribution") == "Ubuntu 20.04"
    assert fact(made, "python.version") == "3.8.10"
    assert fact(made, "devices.available") is False
    assert gpus(made) == ["NVIDIA GeForce RTX 3090 8.6"]


def test_windows_with_broken_characters() -> None:
    made = sample("collect_env/windows-oem.txt")
    assert fact(made, "system.os") == "windows"
    assert fact(made, "system.machine") == "x86_64"
    assert fact(made, "torch.cpu_build") is True
    assert isinstance(made.driver, Missing)


def test_torch_that_is_listed_but_does_not_import() -> None:
    made = sample("collect_env/torch-fails.txt")
    assert fact(made, "torch.version") == "2.6.0"
    assert fact(made, "torch.import_status") == "error"
    assert isinstance(made.devices, Missing)


def test_jetson() -> None:
    made = sample("collect_env/jetson.txt")
    assert fact(made, "system.jetson") == "kernel 5.15.148-tegra"
    assert gpus(made) == ["Orin (nvgpu) 8.7"]
    assert isinstance(made.driver, Missing)


def test_cuda_none_before_rocm_had_a_line() -> None:
    old = "PyTorch version: 1.4.0\nCUDA used to build PyTorch: None\nIs CUDA available: No\nGPU models and configuration: {}\n"
    for card, built in (("GPU 0: GeForce GTX 1080", True), ("Could not collect", None)):
        assert fact(snapshot(old.format(card)), "torch.cpu_build") is built


def test_mac_under_rosetta() -> None:
    made = sample("collect_env/mac.txt")
    assert fact(made, "mps.rosetta") is True
    assert fact(made, "mps.macos") == "15.3"
    assert fact(made, "torch.cpu_build") is None


def test_xpu() -> None:
    made = sample("collect_env/xpu.txt")
    assert fact(made, "xpu.names") == ["Intel(R) Arc(TM) Pro B60 Graphics"]
    assert fact(made, "xpu.level_zero") == "1.27.0-1~24.04~ppa1"
    assert fact(made, "torch.cpu_build") is False


def test_libc_before_python_3_8_is_not_believed() -> None:
    text = "PyTorch version: 1.9.0\nLibc version: glibc-2.10\nPython version: 3.{} (64-bit runtime)\n"
    assert fact(snapshot(text.format("7.7")), "system.glibc") is None
    assert fact(snapshot(text.format("8.1")), "system.glibc") == "2.10"


def test_conda_lines_of_another_environment_do_not_count() -> None:
    text = "PyTorch version: 2.14.0+cu130\n[pip3] torch==2.14.0+cu130\n[conda] torch  2.5.1+cu124  pypi_0  pypi\n[conda] numpy  2.1.3  pypi_0  pypi\n"  # noqa: E501
    made = snapshot(text)
    assert not isinstance(made.packages, Missing)
    assert [(one.name, one.version) for one in made.packages.distributions] == [("torch", "2.14.0+cu130")]


def test_conda_torch_without_pip_is_ours() -> None:
    made = snapshot(
        "PyTorch version: 1.4.0\nPython version: 3.7\n[pip3] numpy==1.17.1\n[conda] pytorch  1.4.0  py3.7_cuda10.0.130_cudnn7.6.3_0    pytorch\n"  # noqa: E501
    )
    assert not isinstance(made.packages, Missing)
    assert made.packages.version("torch") == "1.4.0"
    assert fact(made, "torch.conda") is True


def test_two_reports_in_one_file_are_two_machines() -> None:
    first = (TESTS / "samples" / "collect_env" / "torch-1.1-titan.txt").read_text()
    second = first.replace("TITAN Xp", "Tesla V100").replace("1.1.0", "1.2.0")
    assert gpus(snapshot(first + "\n" + second)) == ["TITAN Xp 6.1", "TITAN Xp 6.1"]


def test_each_fact_keeps_its_line() -> None:
    found = read_collect_env("warning: x\nPyTorch version: 2.9.0\nIs CUDA available: True\n")
    assert found is not None
    [version] = [one for one in found.facts if one.path == "torch.version"]
    assert (version.line, version.number) == ("PyTorch version: 2.9.0", 2)


def test_prose_is_no_report() -> None:
    assert read_collect_env("OS: my own\nThe CUDA version is hard to tell: nobody knows.\n") is None


def test_an_issue_holds_several_kinds() -> None:
    text = (TESTS / "samples" / "logs" / "issue.md").read_text()
    kinds = [*(found.kind for found in read_text(text)), *log_kinds(text)]
    assert {"collect_env", "nvidia-smi (table)", "traceback"} <= set(kinds)
    made = snapshot(text)
    assert fact(made, "driver.version") == "535.183.01"
    assert fact(made, "driver.cuda") == "12.2"
    assert fact(made, "torch.version") == "2.11.0+cu130"
    assert gpus(made) == ["NVIDIA GeForce RTX 3060 8.6"]


def test_pip_list() -> None:
    made = sample("logs/pip-list.txt")
    assert not isinstance(made.packages, Missing)
    assert made.packages.version("nvidia-nccl-cu12") == "2.27.5"
    assert fact(made, "torch.version") == "2.9.0+cu128"


def test_conda_list() -> None:
    made = sample("logs/conda-list.txt")
    assert not isinstance(made.packages, Missing)
    rows = {row.name: row for row in made.packages.distributions}
    assert (rows["torch"].build, rows["torch"].channel) == ("py3.11_cuda12.4_cudnn9.1.0_0", "pytorch")
    assert rows["torchmetrics"].installer == "pip"


@pytest.mark.parametrize("text", ["ERROR: No matching distribution found for torch==2.10.0", "pip install torch==2.1.0"])
def test_a_requirement_in_a_message_is_not_installed(text: str) -> None:
    assert isinstance(snapshot(text).packages, Missing)


def test_pip_freeze() -> None:
    made = snapshot(
        "numpy==1.26.4\ntorch @ https://download.pytorch.org/whl/cu128/torch-2.9.0%2Bcu128-cp312-cp312-linux.whl\ntriton==3.5.0\nflash_attn==2.8.3\n"
    )
    assert not isinstance(made.packages, Missing)
    assert made.packages.version("flash-attn") == "2.8.3"


def test_nccl_log() -> None:
    text = (TESTS / "samples" / "logs" / "nccl-bridges.txt").read_text()
    found = {one.kind: one for one in read_text(text)}["NCCL log"]
    assert [sign.rule for sign in found.signs] == ["nccl-version-drift"]
    made = snapshot(text)
    assert fact(made, "network.variables") == {"NCCL_SOCKET_IFNAME": "^docker0,lo"}
    assert fact(made, "torch.nccl_loaded") == "2.27.5"
    assert fact(made, "driver.cuda") == "13.0"


def test_topology() -> None:
    text = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-31\t0\nGPU1\tPHB\t X \t0-31\t0\n\nLegend:\n"
    assert "PHB" in fact(snapshot(text), "gpus.topology") if not isinstance(snapshot(text).gpus, Missing) else False


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\nMinimum and Maximum cuda capability supported by this version of PyTorch is\n(7.0) - (12.0)\n",  # noqa: E501
            "gpu-too-old-for-torch",
        ),
        (
            "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\nMinimum and Maximum cuda capability supported by this version of PyTorch is\n(8.0) - (12.0)\n",  # noqa: E501
            None,
        ),
        (
            "Found GPU0 X which is of cuda capability 11.0.\nMinimum and Maximum cuda capability supported by this version of PyTorch is\n(8.0) - (10.0)\n",  # noqa: E501
            "gpu-too-new-for-torch",
        ),
        (
            "Found GPU0 NVIDIA GeForce GTX 1070 which is of compute capability (CC) 6.1.\n- 7.5 which supports hardware CC >=7.5,<8.0\n- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n",  # noqa: E501
            "gpu-too-old-for-torch",
        ),
        (
            "Found GPU0 Orin which is of compute capability (CC) 8.7.\n- 7.5 which supports hardware CC >=7.5,<8.0\n- 8.0 which supports hardware CC >=8.0,<9.0 except {8.7}\n",  # noqa: E501
            "gpu-too-new-for-torch",
        ),
    ],
)
def test_capability_warnings_are_compared(text: str, rule: str | None) -> None:
    signs = [sign.rule for one in read_text(text) for sign in one.signs]
    assert signs == ([rule] if rule else [])


def test_found_version_is_the_drivers_cuda() -> None:
    assert fact(snapshot("RuntimeError: ... too old (found version 12020)."), "driver.cuda") == "12.2"


def test_a_report_in_a_long_log_is_found_with_its_line() -> None:
    noise = "".join(f"step {number} of many, all is well\n" for number in range(40000))
    report = (TESTS / "samples" / "collect_env" / "typed.txt").read_text()
    text = noise + report + noise
    assert len(text) > WHOLE
    assert sum(end - start for start, end in regions(text)) < len(text) // 4
    [found] = [one for one in read_text(text) if one.kind == "collect_env"]
    [version] = [one for one in found.facts if one.path == "torch.version"]
    assert version.number == 40002


@given(st.text(max_size=2000))
def test_no_reader_raises_on_any_text(text: str) -> None:
    for one in read_text(clean(text)):
        assert one.kind


WORDS = (
    "PyTorch version: ",
    "GPU 0: ",
    "[pip3] torch==",
    "[conda] torch ",
    "NCCL INFO ",
    "NVRM: Xid (PCI:0000:01:00): ",
    "Cuda compilation tools, release ",
    "# packages in environment at ",
    "Package Version\n--- ---\n",
    "found version ",
    "GPU0 X ",
    "NVIDIA-SMI ",
    "OS: ",
    "Found GPU0 a which is of cuda capability ",
    "1.",
    "\n",
    ":",
    "：",
    "9" * 30,
    " ",
)


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=20), max_size=40))
def test_no_reader_raises_on_broken_reports(parts: list[str]) -> None:
    made = snapshot("".join(parts))
    assert made.live
