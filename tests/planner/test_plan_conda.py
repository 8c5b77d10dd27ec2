"""conda: what conda-forge builds and what not, by its feedstocks; its line where no wheel fits; packages that it does not have."""

from __future__ import annotations

import pytest
from plan_hosts import TABLES, TEXTS, checks

from envcheck import planner
from envcheck.planner.assume import Machine, assumed
from envcheck.planner.result import PlanReport


def planned(machine: Machine, *wish: str, tool: str = "conda") -> PlanReport:
    return planner.search(assumed(machine, TABLES)[0], TABLES, wish, checks=checks(), texts=TEXTS, tool=tool)


RTX4090 = Machine(("4090",), "580.95.05", "3.12")
LINES = [
    (RTX4090, ("torch==2.12.*",), "pytorch-gpu=2.12.1 cuda-version=13.0"),
    (Machine(("gh200",), "535.183.01", "3.12"), ("torch==2.7.*",), "pytorch-gpu=2.7.1 cuda-version=12.9"),
    (Machine(("gh200",), "535.183.01", "3.12"), ("torch==2.4.*",), "pytorch-gpu=2.4.1 cuda-version=12.0"),
    (Machine(("4090",), "560.94", "3.12", "windows"), ("torch==2.6.*",), "pytorch-gpu=2.6.0 cuda-version=12.6"),
    (Machine(("4090",), "580.95.05", "3.9"), ("torch==2.7.*",), "pytorch-gpu=2.7.1 cuda-version=12.9"),
    (Machine(("4090",), "580.95.05", "3.13"), ("torch==2.5.*",), "pytorch-gpu=2.5.1 cuda-version=12.6"),
    (Machine(("cpu",), python="3.13", os="macos", machine="x86_64"), (), "pytorch=2.13.0"),
    (Machine(("cpu",), python="3.14", os="macos", machine="x86_64", macos="11.6"), (), "pytorch=2.10.0"),
    (Machine(("t4g",), "580.95.05", "3.12"), (), "pytorch-gpu=2.13.0 cuda-version=13.0"),
    # torchaudio was last built against torch 2.10, and never for Windows
    (RTX4090, ("torchvision", "torchaudio"), "pytorch-gpu=2.10.0 cuda-version=13.0 torchvision torchaudio"),
]


@pytest.mark.parametrize(("machine", "wish", "line"), LINES)
def test_builds_that_the_feedstock_has(machine: Machine, wish: tuple[str, ...], line: str) -> None:
    way = planned(machine, *wish).ways[0]
    assert way.proved
    assert way.commands.conda[-1].removeprefix("CONDA_OVERRIDE_CUDA=13.0 ") == f"conda install -c conda-forge {line}"


@pytest.mark.parametrize(
    ("machine", "wish", "why"),
    [
        (Machine(("4090",), "580.95.05", "3.14"), "torch==2.9.1", "not built for Python 3.14, but for 3.10, 3.11, 3.12, 3.13"),
        (RTX4090, "torch==2.9.1+cu130", "no torch release or build matches torch==2.9.1+cu130"),
        (RTX4090, "vllm", "no conda-forge package is known here for vllm"),
        (RTX4090, "tensorflow", "no conda-forge package is known here for tensorflow"),
        (Machine(("mi300x",), python="3.12"), "torch", "conda-forge has no ROCm build of torch"),
        (Machine(("b580",), python="3.12"), "torch", "there is no conda package of torch for XPU"),
        (Machine(("cpu",), python="3.12", os="windows", machine="arm64"), "torch", "conda-forge has no torch for windows-arm64"),
    ],
)
def test_what_it_does_not_have_is_refused_with_the_reason(machine: Machine, wish: str, why: str) -> None:
    report = planned(machine, wish)
    assert not report.ways
    assert report.excluded[0].why == why


def test_windows_has_torchaudio_in_the_frozen_channel_only() -> None:
    report = planned(Machine(("4090",), "560.94", "3.12", "windows"), "torch", "torchaudio")
    assert report.ways[0].commands.conda == ("conda install pytorch==2.5.1 torchaudio==2.5.1 pytorch-cuda=12.4 -c pytorch -c nvidia",)
    assert any(row.why == "conda-forge builds no torchaudio for Python 3.12 on windows-x86_64" for row in report.excluded)


@pytest.mark.parametrize("wish", [(), ("torch>=2.6",)])
def test_where_no_wheel_fits_condas_line_is_printed(wish: tuple[str, ...]) -> None:
    """A 5090 needs CUDA 12.8, whose wheels need glibc 2.28; conda-forge's CUDA 12.9 builds need 2.17."""
    machine = Machine(("5090",), "595.58.03", "3.10", glibc="2.17")
    assert not planned(machine, *wish, tool="pip").ways
    way = planned(machine, *wish, tool="auto").ways[0]
    assert way.proved and way.commands.conda == ("conda install -c conda-forge pytorch-gpu=2.13.0 cuda-version=12.9",)
    assert not way.commands.pip and way.no_command["pip"] == "this build is from the conda channel conda-forge"


def test_beside_a_wheel_conda_names_a_release_with_the_companion() -> None:
    way = planned(RTX4090, "torch", "torchvision", "torchaudio", tool="auto").ways[0]
    assert way.commands.conda == ("conda install -c conda-forge pytorch-gpu=2.10.0 cuda-version=13.0 torchvision torchaudio",)
    assert "The conda line installs torch 2.10.0" in way.note


def test_a_conda_line_asks_of_an_unknown_driver_no_more_than_its_way_says() -> None:
    """The second way is the one for drivers that the first one's CUDA is too new for."""
    ways = planned(Machine(("h100",)), tool="auto").ways
    asked = {way.title.rpartition("+")[2]: way.commands.conda[0].rpartition("cuda-version=")[2] for way in ways}
    assert asked == {"cu132": "13.0", "cu126": "12.9"}
