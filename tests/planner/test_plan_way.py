"""What a way says of itself: the changes it makes, its doubts, and the files that it would put the same into."""

from __future__ import annotations

from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.planner.installers import texts
from envcheck.planner.result import Way

INDEX = "https://download.pytorch.org/whl"
say = texts(TABLES).say


def ways(*words: str, **spec: Any) -> list[Way]:
    host = machine({"gpu": "h100", "driver": "580.95.05", **spec})
    return list(planner.search(host, TABLES, words, checks=checks(), texts=TEXTS).ways)


def move(name: str, old: str, new: str) -> str:
    return say("change.move", name=name, old=old, new=new)


def test_a_first_installation() -> None:
    [way] = ways()
    assert way.changes == (say("change.install", name="torch", new="2.15.0+cu132"),)
    assert way.files == {
        "requirements.txt": "torch==2.15.0\n",
        "Dockerfile": "RUN python -m pip install --no-cache-dir torch==2.15.0\n",
        "pyproject.toml": '# below [project]\ndependencies = ["torch==2.15.0"]\n',
    }


def test_everything_that_a_new_version_moves() -> None:
    """A label is written where one was, or where torch itself carries one; what shares files with the other CUDA goes first."""
    [way] = ways(
        "torch==2.13.0", "requests", "flash-attn", torch="2.9.1+cu128", packages={"torchvision": "0.24.1", "torchaudio": "2.9.1+cu128"}
    )
    assert way.changes == (
        move("torch", "2.9.1+cu128", "2.13.0+cu130"),
        move("torchaudio", "2.9.1+cu128", "2.11.0+cu130"),
        move("torchvision", "0.24.1", "0.28.0+cu130"),
        say("change.install-unknown", name="requests"),
        say("change.install-any", name="flash-attn"),
        say("change.remove", name="nvidia-cudnn-cu12", old="9.10.2.21"),
        say("change.remove", name="nvidia-nccl-cu12", old="2.27.5"),
        say("change.remove", name="nvidia-nvshmem-cu12", old="3.3.20"),
        say("change.remove", name="nvidia-cusparselt-cu12", old="0.7.1"),
    )
    assert say("note.unknown-package", names="requests") in way.note and say("note.proof") not in way.note
    assert way.files["requirements.txt"] == "torch==2.13.0\ntorchaudio==2.11.0\ntorchvision==0.28.0\nrequests\n"
    assert way.files["Dockerfile"].splitlines() == [
        "RUN python -m pip install --no-cache-dir torch==2.13.0 torchaudio==2.11.0 torchvision==0.28.0",
        "RUN python -m pip install --no-cache-dir requests",
        "RUN python -m pip install --no-cache-dir --no-build-isolation flash-attn",
    ]


def test_a_specifier_and_a_version_beside_an_older_torch() -> None:
    packages = {"xformers": "0.0.33.post2", "torchvision": "0.24.1+cu128", "bitsandbytes": "0.45.0"}
    [way] = ways("torch==2.8.*", torch="2.9.1+cu128", packages=packages)
    assert way.changes == (
        move("torch", "2.9.1+cu128", "2.8.0+cu128"),
        move("bitsandbytes", "0.45.0", ">=0.45.3"),
        move("torchvision", "0.24.1+cu128", "0.23.0+cu128"),
        move("xformers", "0.0.33.post2", "0.0.32.post2"),
    )


def test_another_build_of_the_same_release() -> None:
    build, driver, compat = ways("torch==2.13.0", torch="2.13.0+cu130", driver="535.183.01", packages={"torchvision": "0.28.0"})
    assert build.changes[:2] == (move("torch", "2.13.0+cu130", "2.13.0+cu126"), move("torchvision", "0.28.0", "0.28.0+cu126"))
    assert build.files["requirements.txt"] == f"--extra-index-url {INDEX}/cu126\ntorch==2.13.0+cu126\ntorchvision==0.28.0+cu126\n"
    assert build.files["pyproject.toml"] == (
        '# below [project]\ndependencies = ["torch==2.13.0", "torchvision==0.28.0"]\n\n'
        f'[[tool.uv.index]]\nname = "pytorch-cu126"\nurl = "{INDEX}/cu126"\nexplicit = true\n\n'
        "[tool.uv.sources]\n"
        'torch = [{ index = "pytorch-cu126", marker = "sys_platform == \'linux\'" }]\n'
        'torchvision = [{ index = "pytorch-cu126", marker = "sys_platform == \'linux\'" }]\n'
    )
    assert driver.changes == (say("change.driver", old="535.183.01", new="580.65.06"),)
    assert say("note.driver-admin") in driver.note and say("note.driver-open") not in driver.note
    assert (driver.files, compat.files, compat.changes) == ({}, {}, ())
    assert say("note.compat-admin", major="13", minor="0") in compat.note


def test_blackwell_needs_the_open_modules_of_its_driver() -> None:
    driver = ways(gpu="b200", driver="535.183.01", torch="2.15.0+cu132")[0]
    assert driver.who == "admin" and say("note.driver-open") in driver.note


def test_packages_alone() -> None:
    [way] = ways("vllm", torch="2.9.1+cu128")
    assert way.changes == (say("change.install", name="vllm", new="0.16.0"),)
    assert way.files["requirements.txt"] == "vllm==0.16.0\n"
    assert way.files["Dockerfile"] == "RUN python -m pip install --no-cache-dir vllm==0.16.0\n", "pip refuses to install nothing"


def test_gpus_that_no_build_serves_together() -> None:
    way = ways(gpu=("4090", "k80"), driver="470.256.02")[0]
    assert way.changes == (
        say("change.install", name="torch", new="2.7.1+cu118"),
        say("change.hide", kept="Tesla K80 (compute capability 3.7)"),
    )
    assert way.commands.shell == ("export CUDA_DEVICE_ORDER=PCI_BUS_ID", "export CUDA_VISIBLE_DEVICES=1")


def test_nothing_to_do() -> None:
    [way] = ways(torch="2.9.1+cu128", works=True)
    assert (way.changes, way.files, way.note) == ((), {}, say("note.nothing"))


@pytest.mark.parametrize(
    ("spec", "note", "said"),
    [
        ({"driver": None}, ("note.driver-unknown", {"driver": "580.65.06"}), True),
        ({"driver": None}, ("note.override", {}), True),
        ({"driver": "580.95.05"}, ("note.override", {}), False),
        ({"driver": None, "gpu": "cpu"}, ("note.driver-unknown", {"driver": "580.65.06"}), False),
        ({"driver": None, "gpu": "mi100"}, ("note.override", {}), False),
        ({"environment": "pixi"}, ("note.pixi", {}), True),
        ({"environment": "conda"}, ("note.pixi", {}), False),
        ({}, ("note.confidence", {}), False),
        ({}, ("note.proof", {}), True),
        ({"gpu": "mi100", "driver": None}, ("note.confidence", {}), False),
    ],
)
def test_doubts(spec: dict[str, Any], note: tuple[str, dict[str, str]], said: bool) -> None:
    way = ways(**spec)[0]
    assert (say(note[0], **note[1]) in way.note) is said, way.note


def test_a_rocm_build_whose_gpus_were_not_read_from_the_wheel_is_not_proved() -> None:
    build, newest = ways(gpu="mi100", driver=None, torch="2.9.1+cu128")
    assert build.proved and say("note.confidence") not in build.note
    assert not newest.proved and say("note.confidence") in newest.note and say("note.proof") not in newest.note
