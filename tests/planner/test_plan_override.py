"""A GPU of AMD that no build has code for, and a relative whose code it can be made to run; a login in the URL of a mirror; packages
that link a CUDA of their own.
"""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.facts.record import replace
from envcheck.planner.result import Grade, PlanReport


def planned(host: dict[str, Any], *wish: str, override: str | None = None, index_base: str | None = None) -> PlanReport:
    snapshot: Any = machine(host)
    if override:
        snapshot = replace(snapshot, rocm=replace(snapshot.rocm, gfx_override=override))
    return planner.search(snapshot, TABLES, wish, checks=checks(), texts=TEXTS, index_base=index_base)


@pytest.mark.parametrize(("gpu", "value"), [("rx 6600", "10.3.0"), ("rx 6700 xt", "10.3.0")])
def test_a_card_without_code_gets_the_code_of_its_relative_and_is_told_that_this_is_not_official(gpu: str, value: str) -> None:
    [way] = planned({"gpu": gpu}).ways
    assert way.commands.shell == (f"export HSA_OVERRIDE_GFX_VERSION={value}",)
    assert "torch==2.13.0" in way.commands.pip[0]
    assert way.grade is Grade.UNCHECKED
    assert not way.proved
    assert "Not official" in way.note


def test_a_card_with_code_of_its_own_needs_no_override() -> None:
    for way in planned({"gpu": "rx 6800 xt"}).ways:
        assert not way.commands.shell


def test_a_card_without_a_relative_has_no_way() -> None:
    assert planned({"gpu": "rx 5700 xt"}).ways == ()


def test_with_the_override_in_use_the_card_is_what_it_says() -> None:
    [way, *_] = planned({"gpu": "rx 6600"}, override="10.3.0").ways
    assert way.commands.shell == ()
    assert way.commands.pip


def test_the_code_of_a_relative_does_not_help_a_wish_for_cuda() -> None:
    assert planned({"gpu": "rx 6600"}, "vllm").ways == ()


def test_a_login_in_the_base_of_the_index_is_explained_where_it_is_masked() -> None:
    host = {"gpu": "4090", "driver": "550.54.15"}
    [way, *_] = planned(host, "torch==2.14.1", index_base="https://user:pw@mirror.example/whl").ways
    assert "[secret] stands for the login" in way.note
    [way, *_] = planned(host, "torch==2.14.1", index_base="https://mirror.example/whl").ways
    assert "[secret]" not in way.note


@pytest.mark.parametrize(("driver", "torch", "tensorrt"), [("550.54.15", "2.8.0", "2.8.0"), ("580.95.05", "2.14.1", "2.14.0")])
def test_torch_tensorrt_goes_with_the_cuda_whose_libraries_it_asks_for(driver: str, torch: str, tensorrt: str) -> None:
    [way, *_] = planned({"gpu": "4090", "driver": driver}, "torch-tensorrt").ways
    assert f"torch=={torch} torch-tensorrt=={tensorrt}" in way.commands.pip[0]
    assert "pypi.nvidia.com" in way.note


@pytest.mark.parametrize(
    ("host", "torch", "runtime"),
    [
        ({"gpu": "h100", "driver": "535.183.01", "python": "3.12"}, "2.14.1", "1.26.0"),
        ({"gpu": "h100", "driver": "580.95.05", "python": "3.12"}, "2.15.0", "1.31.1"),
        ({"gpu": "h100", "driver": "580.95.05", "python": "3.10"}, "2.14.1", "1.23.2"),
        ({"gpu": "t4", "driver": "535.183.01", "python": "3.9"}, "2.8.0", "1.19.2"),
    ],
)
def test_onnxruntime_gpu_goes_with_the_cuda_of_torch_and_with_the_python(host: dict[str, Any], torch: str, runtime: str) -> None:
    [way, *_] = planned(host, "onnxruntime-gpu").ways
    text = " ".join(way.commands.pip)
    assert f"torch=={torch}" in text
    assert f"onnxruntime-gpu=={runtime}" in text


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ({"gpu": "gb10", "driver": "580.95.05", "python": "3.9"}, "no wheel for Python 3.9"),
        ({"gpu": "m3", "macos": "15.2"}, "no wheel for macos-arm64"),
    ],
)
def test_onnxruntime_gpu_is_refused_with_a_reason_where_it_has_no_wheel(host: dict[str, Any], why: str) -> None:
    report = planned(host, "onnxruntime-gpu")
    assert not report.ways
    assert why in report.excluded[0].why


@pytest.mark.parametrize("name", ["torchao", "sglang", "onnxruntime", "flash-attn"])
def test_what_asks_for_nobody_knows_what_is_not_called_checked(name: str) -> None:
    [way, *_] = planned({"gpu": "h100", "driver": "580.95.05"}, name).ways
    assert way.grade is Grade.UNCHECKED
    assert name in way.note
