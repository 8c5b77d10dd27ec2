"""Printed lines as commands: the ones that the planner really writes, for another interpreter."""

from __future__ import annotations

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.trial.commands import InstallerLine, NotOurs, exports, read_line

PYTHON = "/t/env/bin/python"


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("uv pip install torch==2.9.1", ("uv", "pip", "install", "--python", PYTHON, "torch==2.9.1")),
        (
            "uv pip install --python '/a b/python' --reinstall-package torch torch==2.9.1 --torch-backend=cu126",
            ("uv", "pip", "install", "--python", PYTHON, "--reinstall-package", "torch", "torch==2.9.1", "--torch-backend=cu126"),
        ),
        (
            "'/a b/python' -m pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126",
            (PYTHON, "-m", "pip", "install", "torch==2.9.1", "--index-url", "https://download.pytorch.org/whl/cu126"),
        ),
        ("python -m pip uninstall -y torch", (PYTHON, "-m", "pip", "uninstall", "-y", "torch")),
        ("uv pip uninstall --python x torch", ("uv", "pip", "uninstall", "--python", PYTHON, "torch")),
    ],
)
def test_a_line_for_another_interpreter(text: str, argv: tuple[str, ...]) -> None:
    line = read_line(text, windows=False)
    assert line is not None
    assert line.argv(PYTHON) == argv


def test_a_line_of_windows() -> None:
    line = read_line('& "C:\\my venv\\Scripts\\python.exe" -m pip install "numpy<2" torch==2.9.1', windows=True)
    assert line == InstallerLine("pip", ("install", "numpy<2", "torch==2.9.1"))


@pytest.mark.parametrize(
    "text",
    ["uv venv", "python3 -m venv .venv", "python -m ensurepip --upgrade", "conda remove -p /env pytorch", "pixi remove pytorch"],
)
def test_what_an_empty_environment_needs_not(text: str) -> None:
    assert read_line(text, windows=False) is None


@pytest.mark.parametrize(
    "text", ["conda install torch", "sudo reboot", "uv pip sync x", "python -m pip download torch", "python setup.py install", ""]
)
def test_any_other_line_is_refused(text: str) -> None:
    with pytest.raises(NotOurs, match="is no command of pip or uv"):
        read_line(text, windows=False)


def test_requirements_and_sources() -> None:
    line = InstallerLine(
        "pip", ("install", "--no-deps", "-f", "https://a/b.html", "torch==1.9.0+cu111", "numpy<2", "--extra-index-url", "https://c")
    )
    assert line.requirements == ("torch==1.9.0+cu111", "numpy<2")
    assert line.sources == ("--no-deps", "-f", "https://a/b.html", "--extra-index-url", "https://c")


def test_variables_of_shell_lines() -> None:
    assert exports(["export CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", "unset LD_PRELOAD"], windows=False) == {
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
        "LD_PRELOAD": None,
    }
    for text in ('export LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat:$LD_LIBRARY_PATH"', "sudo reboot"):
        with pytest.raises(NotOurs):
            exports([text], windows=False)


HOSTS = [
    {"gpu": "h100", "driver": "580.95.05"},
    {"gpu": "a100", "driver": "535.183.01", "torch": "2.15.0", "packages": {"torchvision": "0.30.0"}},
    {"gpu": "cpu", "managed": True},
    {"gpu": "cpu", "has_pip": False, "environment": "uv"},
    {"gpu": "v100", "driver": "570.124", "index_url": "https://mirror.example/simple"},
    {"gpu": "mi300x"},
    {"gpu": "4090", "driver": "570.124", "environment": "conda"},
]


@pytest.mark.parametrize("spec", HOSTS, ids=str)
def test_every_line_of_a_plan_is_understood(spec: dict[str, object]) -> None:
    ways = planner.search(machine(spec), TABLES, (), checks=checks(), texts=TEXTS).ways
    lines = [line for way in ways for line in (*way.commands.pip, *way.commands.uv)]
    assert lines
    assert any(found.installs for line in lines if (found := read_line(line, windows=False)))
