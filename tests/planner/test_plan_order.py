"""Which of two builds that fit is offered first: the order of preference, one neighbouring pair of reasons after the other."""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import TABLES

from envcheck.facts.record import replace
from envcheck.planner.candidate import Candidate, first_obstacle
from envcheck.planner.choice import Choice
from envcheck.planner.companions import Broken, Companions, Move
from envcheck.planner.profile import Profile

HERE = Profile(torch="2.13.1", driver_cuda="12.8")
BUILD = Candidate("2.13.1", "cu128", "linux-x86_64", cuda="12.8", default=True, mainline=True)
BROKEN, OLD, OLDER = Broken("xformers", "no release"), Move("vllm", "0.9", age=1), Move("vllm", "0.8", age=3)


def of(*beside: Broken | Move, knows: bool = True, **build: Any) -> Choice:
    """A choice that is as good as can be but for what is named."""
    moves = tuple(one for one in beside if isinstance(one, Move))
    broken = tuple(one for one in beside if isinstance(one, Broken))
    return Choice(replace(BUILD, **build), Companions(moves, broken), knows=knows)


# Why, the better one, the worse one. The better one of each line is worse in the reason of the line below.
ORDER = [
    ("a build that somebody has seen", of(version="2.9.0"), of(seen=False)),
    ("a ROCm build whose GPUs are known", of(version="2.9.0", variant="rocm6.4"), of(variant="rocm6.4", confidence="low")),
    ("the installed release", of(BROKEN), of(version="2.13.2")),
    ("the installed series", of(BROKEN, version="2.13.0"), of(version="2.14.0")),
    ("fewer broken packages", of(OLDER), of(BROKEN)),
    ("fewer broken packages, counted", of(BROKEN, OLDER), of(BROKEN, BROKEN)),
    ("newer packages beside it", of(OLD, version="2.13.0"), of(OLDER, version="2.13.2")),
    ("newer packages, the oldest counts", of(OLD, OLD, version="2.13.0"), of(replace(OLD, age=0), OLDER, version="2.13.2")),
    ("a newer patch", of(version="2.13.2", confidence="low"), of(version="2.13.0")),
    ("a newer release, as a number", of(version="2.10.0", confidence="low"), of(version="2.9.9")),
    ("GPUs that were read from the wheel", of(channel="pytorch"), of(confidence="low")),
    ("PyPI or conda-forge before the channel pytorch", of(knows=False), of(channel="pytorch")),
    ("a CUDA that NVIDIA made for these GPUs", of(default=False), of(knows=False)),
    ("what a plain pip install brings", of(undocumented=True), of(default=False)),
    ("a documented variant", of(cuda="12.9"), of(undocumented=True)),
    ("no need of minor-version compatibility", of(mainline=False), of(cuda="12.9")),
    ("the variant of PyPI", of(cuda="11.8"), of(mainline=False)),
    ("the newest CUDA", of(cuda="12.8"), of(cuda="12.6")),
    ("the newest CUDA, as a number", of(cuda="11.10"), of(cuda="11.8")),
    ("the newest ROCm", of(cuda=None, variant="rocm6.10"), of(cuda=None, variant="rocm6.4")),
]


@pytest.mark.parametrize(("better", "worse"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER])
def test_one_reason_after_the_other(better: Choice, worse: Choice) -> None:
    assert better.key(HERE) < worse.key(HERE)


def test_without_a_torch_the_newest_comes_first() -> None:
    bare = replace(HERE, torch=None)
    assert of(version="2.14.0").key(bare) < of(version="2.13.1").key(bare)
    assert of(version="2.14.0").key(bare)[1] == of(version="2.13.1").key(bare)[1], "none is closer to what is installed"


@pytest.mark.parametrize(
    ("jetson", "cuda", "obstacle"),
    [
        ("36.4.3", "12.6", "jetson"),
        ("36.4.3", "13.0", "jetson"),
        ("38", "13.0", None),
        ("38.2", "12.9", "jetson-cuda"),
        (None, "12.6", None),
    ],
)
def test_builds_for_a_jetson(jetson: str | None, cuda: str, obstacle: str | None) -> None:
    """JetPack 7 is L4T 38: the first that the wheels for servers run on, and they need CUDA 13 there."""
    board = Profile(os="linux", platform="linux-aarch64", accelerator="cuda", jetson=jetson)
    found = first_obstacle(replace(BUILD, platform="linux-aarch64", cuda=cuda), board, TABLES)
    assert (found.key if found else None) == obstacle
