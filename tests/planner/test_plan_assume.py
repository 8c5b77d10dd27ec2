"""Machines that are not here, and `envcheck plan` itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_hosts import TABLES

from envcheck.cli import main
from envcheck.errors import UsageError
from envcheck.facts.snapshot import GpusFacts, Missing, RocmFacts, SystemFacts, XpuFacts
from envcheck.planner.assume import Machine, assumed

CAPABILITIES = {
    "h100": "9.0", "h200": "9.0", "a100": "8.0", "4090": "8.9", "5090": "12.0", "v100": "7.0", "t4": "7.5", "l4": "8.9",
    "l40s": "8.9", "gb10": "12.1", "gh200": "9.0", "orin": "8.7", "3080ti": "8.6", "rtx 4070 ti super": "8.9",
    "RTX A6000": "8.6", "4090 laptop": "8.9", "titan v": "7.0", "a10g": "8.6", "1080 Ti": "6.1", "k80": "3.7",
    "b200": "10.0", "b300": "10.3", "thor": "11.0", "NVIDIA GeForce RTX 2050": "8.6", "p40": "6.1",
    "rtx pro 6000": "12.0",
}  # fmt: skip


@pytest.mark.parametrize(("name", "capability"), CAPABILITIES.items())
def test_short_names(name: str, capability: str) -> None:
    snapshot, _ = assumed(Machine((name,)), TABLES)
    assert isinstance(snapshot.gpus, GpusFacts)
    assert [gpu.compute_capability for gpu in snapshot.gpus.devices] == [capability]


def test_counts_and_lists() -> None:
    snapshot, said = assumed(Machine(("8xh100", "v100,t4"), "570.124", "3.14t"), TABLES)
    assert isinstance(snapshot.gpus, GpusFacts)
    assert len(snapshot.gpus.devices) == 10
    assert said[0] == "gpu = 8 × NVIDIA H100 80GB HBM3, Tesla V100-SXM2-32GB, Tesla T4"
    assert "driver = 570.124" in said and "python = 3.14t" in said


def test_other_vendors() -> None:
    amd, _ = assumed(Machine(("mi300x",)), TABLES)
    assert isinstance(amd.rocm, RocmFacts) and amd.rocm.gfx == ("gfx942",) and isinstance(amd.gpus, Missing)
    intel, _ = assumed(Machine(("b580",)), TABLES)
    assert isinstance(intel.xpu, XpuFacts)
    apple, _ = assumed(Machine(("m3",)), TABLES)
    assert isinstance(apple.system, SystemFacts) and (apple.system.os, apple.system.machine) == ("darwin", "arm64")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (Machine(("4091",)), "did you mean"),
        (Machine(("6000",)), "name one of them"),
        (Machine(("h100",), "new"), "--driver"),
        (Machine(("h100",), python="4.1"), "--python"),
        (Machine(("h100",), os="solaris"), "--os"),
    ],
)
def test_what_cannot_be(machine: Machine, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        assumed(machine, TABLES)


@given(st.text(max_size=40))
def test_any_name_is_found_or_refused(name: str) -> None:
    try:
        snapshot, _ = assumed(Machine((name,)), TABLES)
        assert isinstance(snapshot.system, SystemFacts)
    except UsageError as error:
        assert str(error).startswith("--for ")


def test_plan_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--for", "v100", "--driver", "535.183.01", "--python", "3.12", "--files"]) == 0
    text = capsys.readouterr().out
    assert "python -m pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126" in text
    assert "has no code for Tesla V100" in text and "[[tool.uv.index]]" in text


def test_plan_as_json(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    assert main(["plan", "torch==2.15.*", "--for", "a100", "--driver", "535.183.01", "--python", "3.12", "--json", "-o", str(target)]) == 0
    document = json.loads(target.read_text())
    assert document["schema"] == 1 and "driver = 535.183.01" in document["assumed"]
    [way] = document["plan"]["ways"]
    assert way["who"] == "admin" and way["proved"] is True
    assert document["plan"]["excluded"][0]["why"].startswith("CUDA 13.2 needs driver 580.65.06")


def test_no_plan_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "torch==2.12.0+cu128", "--for", "4090"]) == 3
    text = capsys.readouterr().out
    assert "No plan." in text and "torch 2.12.0+cu130" in text


@pytest.mark.parametrize("words", [["plan", "torch=>2"], ["plan", "--for", "4091"], ["plan", "--toool", "pip"]])
def test_usage_errors_exit_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_assumption_changes_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--for", "4090", "--driver", "535.183.01", "--assume", "driver.version=580.95.05", "--python", "3.12"]) == 0
    assert "torch==2.15.0" in capsys.readouterr().out


@pytest.mark.parametrize(("macos", "python", "code"), [("13.6", "3.13t", 3), ("13.6", "3.13", 0), ("14.5", "3.13t", 0)])
def test_the_macos_floor_of_one_python(capsys: pytest.CaptureFixture[str], macos: str, python: str, code: int) -> None:
    """torch-2.8.0-cp313-cp313t-macosx_14_0_arm64.whl, but torch-2.8.0-cp313-none-macosx_11_0_arm64.whl."""
    assert main(["plan", "torch==2.8.0", "--for", "m3", "--macos", macos, "--python", python]) == code
    assert ("needs macOS 14.0" in capsys.readouterr().out) is (code == 3)


def test_a_driver_without_its_gpu_is_asked_for_and_no_gpu_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Who states a driver has a GPU: a plan for the CPU would be a wrong answer."""
    assert main(["plan", "torch", "--driver", "535.183.01"]) == 2
    assert "of which GPU? Name it with --for, as in --for h100" in capsys.readouterr().err
    assert main(["plan", "torch", "--os", "windows"]) == 0
    assert capsys.readouterr().out.startswith("for gpu = none; os = windows; ")


def test_another_python_of_this_machine_keeps_its_gpu_and_driver(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, _ = assumed(Machine(("h100",), "535.183.01"), TABLES)
    monkeypatch.setattr("envcheck.commands.check.examine", lambda look, by: (here, look))
    assert main(["plan", "torch==2.9.*", "--python", "3.12"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("for this machine; python = 3.12, in a new environment\n") and "Install torch 2.9.1+cu128" in said
