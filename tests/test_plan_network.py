"""A real resolver on printed commands whose build is PyPI's default: uv reads the wheels' metadata for the target Python and platform.

Run with `pytest -m network`; needs uv on PATH, or its path in ENVCHECK_UV.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import plan

UV = os.environ.get("ENVCHECK_UV") or shutil.which("uv")
pytestmark = [pytest.mark.network, pytest.mark.skipif(UV is None, reason="uv is not installed")]

CPU, GPU, DRIVER = {"gpu": "cpu"}, {"gpu": "a100"}, "580.95.05"
LINUX = "x86_64-manylinux_2_28"
# (machine, wish, uv's platform, Python)
PLANS: list[tuple[dict[str, Any], list[str], str, str]] = [
    (GPU | {"driver": DRIVER}, [], LINUX, "3.11"),
    (GPU | {"driver": DRIVER}, [], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, [], LINUX, "3.13"),
    (GPU | {"driver": DRIVER}, [], LINUX, "3.14"),
    (GPU | {"driver": DRIVER}, [], LINUX, "3.15"),
    (GPU | {"driver": DRIVER}, [], LINUX, "3.10"),
    (GPU | {"driver": DRIVER}, ["torch", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, ["torch", "torchvision", "torchaudio"], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, ["torch==2.14.0", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, ["torch==2.13.*", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, ["torch==2.12.*", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": DRIVER}, ["torch==2.11.*", "torchvision", "torchaudio"], LINUX, "3.12"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.10.*", "torchvision", "torchaudio"], LINUX, "3.12"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.9.*", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.8.*", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": "535.183.01"}, ["torch>=2.6,<2.8", "torchvision"], LINUX, "3.12"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.6.*", "torchvision", "torchaudio"], LINUX, "3.11"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.5.*", "torchvision"], LINUX, "3.11"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.4.*", "torchvision", "torchaudio"], LINUX, "3.11"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.3.*", "torchvision"], LINUX, "3.11"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.2.*", "torchtext"], LINUX, "3.11"),
    (GPU | {"driver": "535.183.01"}, ["torch==2.1.*", "torchvision"], LINUX, "3.10"),
    (GPU | {"driver": "535.183.01", "glibc": "2.17"}, [], "x86_64-manylinux2014", "3.11"),
    (GPU | {"driver": DRIVER}, ["torch", "xformers"], LINUX, "3.12"),
    (GPU | {"driver": "550.90.07"}, ["torch==2.9.*", "xformers"], LINUX, "3.12"),
    ({"gpu": "gh200", "driver": DRIVER}, [], "aarch64-manylinux_2_28", "3.12"),
    ({"gpu": "gb10", "driver": DRIVER}, ["torch", "torchvision"], "aarch64-manylinux_2_28", "3.12"),
    (CPU | {"os": "windows"}, ["torch", "torchvision"], "x86_64-pc-windows-msvc", "3.12"),
    (CPU | {"os": "windows"}, ["torch==2.13.*"], "x86_64-pc-windows-msvc", "3.13"),
    ({"gpu": "m3", "macos": "15.1"}, ["torch", "torchvision"], "aarch64-apple-darwin", "3.12"),
    ({"gpu": "m3", "macos": "15.1"}, [], "aarch64-apple-darwin", "3.14"),
    (CPU | {"os": "macos", "machine": "x86_64", "macos": "13.6"}, ["torch", "torchvision"], "x86_64-apple-darwin", "3.11"),
    (GPU | {"driver": DRIVER}, ["vllm"], LINUX, "3.12"),
    (GPU | {"driver": "550.90.07"}, ["vllm"], LINUX, "3.12"),
]  # fmt: skip


def resolved(requirements: list[str], python: str, platform: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What uv resolves them to, for a Python and a platform that need not be here."""
    assert UV is not None
    source = folder / "requirements.in"
    source.write_text("\n".join(requirements) + "\n")
    line = [
        UV,
        "pip",
        "compile",
        str(source),
        "--python-version",
        python,
        "--python-platform",
        platform,
        "--no-header",
        "--no-annotate",
        "-q",
    ]
    # A mirror without a wheel in a local folder must not answer for PyPI; and no interpreter is to be downloaded.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
    environment |= {"UV_PYTHON_DOWNLOADS": "never", "MACOSX_DEPLOYMENT_TARGET": "15.0"}  # else uv takes macOS 13
    return subprocess.run(line, capture_output=True, text=True, timeout=240, env=environment, check=False)


@pytest.mark.parametrize(("spec", "wish", "platform", "python"), PLANS, ids=lambda value: str(value)[:40])
def test_the_resolver_accepts(spec: dict[str, Any], wish: list[str], platform: str, python: str, tmp_path: Path) -> None:
    snapshot = machine({**spec, "python": python})
    [way, *_] = plan.search(snapshot, TABLES, wish, checks=checks(), texts=TEXTS, tool="uv").ways
    [line] = way.commands.uv
    words = shlex.split(line) if platform != "x86_64-pc-windows-msvc" else line.split()
    requirements = words[words.index("--python") + 2 :]
    assert not any(word.startswith("-") for word in requirements), "not PyPI's default build"
    answer = resolved(requirements, python, platform, tmp_path)
    assert answer.returncode == 0, answer.stderr
    pinned = dict(row.split("==") for row in answer.stdout.split() if "==" in row)
    for text in requirements:
        if "==" in text:
            name, _, number = text.partition("==")
            assert pinned[name] == number


def test_the_resolver_refuses_what_the_plan_excludes(tmp_path: Path) -> None:
    assert resolved(["torch==2.14.1"], "3.15", LINUX, tmp_path).returncode != 0
    assert resolved(["torch==2.15.0"], "3.10", LINUX, tmp_path).returncode != 0
    assert resolved(["torch==2.14.1", "torchvision==0.29.0"], "3.12", LINUX, tmp_path).returncode != 0


def test_there_are_enough_plans() -> None:
    assert len(PLANS) >= 25
