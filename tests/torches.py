"""Real environments with the torch that people have: the wheel that the index gives, a CUDA build on Linux, on a Python it is made for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

CHECKOUT = Path(__file__).parents[1]
FIRST = (1, 13)
# What .ci/run always tries: the newest, and three that have had their own ways of failing (a store that refuses sockets, a group
# that hangs in its end).
ALWAYS = ("2.7.1", "2.4.1", "2.1.2")
INSTALL_SECONDS = 900.0
ONE = "2.7.1"  # where the release makes no difference


@dataclass(frozen=True)
class Row:
    """One environment of the matrix."""

    torch: str
    python: str  # "3.8"
    beside: tuple[str, ...]
    always: bool

    @property
    def release(self) -> tuple[int, ...]:
        return numbers(self.torch)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


@cache
def interpreters() -> dict[str, str]:
    """CPythons of this machine by "3.N": pyenv's and those on PATH, the newest patch of each."""
    found: dict[str, str] = {}
    for folder in sorted(Path.home().glob(".pyenv/versions/3.*"), key=lambda folder: numbers(folder.name) if _plain(folder.name) else ()):
        if (folder / "bin/python").exists() and _plain(folder.name):
            found[folder.name.rpartition(".")[0]] = str(folder / "bin/python")
    for minor in range(8, 16):
        on_path = None if f"3.{minor}" in found else shutil.which(f"python3.{minor}")
        if on_path and subprocess.run([on_path, "-c", "import venv"], capture_output=True, timeout=30).returncode == 0:
            found[f"3.{minor}"] = on_path
    return found


def _plain(name: str) -> bool:
    return name.replace(".", "").isdecimal() and name.count(".") == 2


def rows() -> list[Row]:
    """The oldest and the newest patch of each minor release; the oldest on the oldest Python that is here, the newest on the newest."""
    releases = [one for one in Tables((rules_folder("compat"),)).releases() if numbers(one.version) >= FIRST and not one.yanked]
    newest = releases[-1].version
    found = []
    for _, group in groupby(releases, key=lambda one: numbers(one.version)[:2]):
        patches = list(group)
        for at, release in enumerate(dict.fromkeys((patches[0].version, patches[-1].version))):
            last = at > 0 or len(patches) == 1
            one = next(patch for patch in patches if patch.version == release)
            offered = [python for python in one.pythons["linux-x86_64"] if python in interpreters() and python not in unfit(release)]
            python = (offered[-1] if last else offered[0]) if offered else one.pythons["linux-x86_64"][0]
            beside = ["numpy<2" if one.numpy_major["linux"] < 2 else "numpy"]
            if numbers(release) < (2, 3):
                beside.append("setuptools<70")  # their DDP imports pkg_resources.packaging, which setuptools dropped
            found.append(Row(release, python, tuple(beside), release == newest or release in ALWAYS))
    return found


def unfit(release: str) -> tuple[str, ...]:
    """Pythons for which there are wheels and on which not all works, as `--live full` rightly says; the agent itself needs 3.8.

    torchrun of torch 1.13 ends with an AttributeError on 3.11 (its enum of streams formats otherwise there), that of 2.2 and 2.3 with
    a segmentation fault on 3.12 (https://github.com/pytorch/pytorch/issues/125990); torch.save of 2.5 raises on 3.13
    (https://github.com/pytorch/pytorch/issues/141124).
    """
    known = {(1, 13): "3.11", (2, 2): "3.12", (2, 3): "3.12", (2, 5): "3.13"}
    return tuple(filter(None, ("3.7", known.get(numbers(release)[:2]))))


def parameters() -> list[ParameterSet]:
    """The rows for pytest."""
    return [pytest.param(row, id=f"{'always-' if row.always else ''}{row.torch}-py{row.python}") for row in rows()]


@dataclass(frozen=True)
class Made:
    """An environment that was made."""

    row: Row
    place: Path

    @property
    def python(self) -> str:
        return str(self.place / "bin/python")

    def says(self, code: str) -> str:
        done = subprocess.run([self.python, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=True)
        return done.stdout.strip()

    @property
    def build(self) -> dict[str, str]:
        """torch/version.py: {"version": "2.7.1+cu126", "cuda": "12.6"}; an index may serve a CPU build."""
        (path,) = self.place.glob("lib/python3.*/site-packages/torch/version.py")
        return dict(re.findall(r"^(?:__)?(version|cuda)(?:__)?(?:: [^=]+)? = '([^']+)'", path.read_text(), re.MULTILINE))


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.exists() else "uv"


@contextmanager
def environment(row: Row, folder: Path) -> Iterator[Path]:
    """A virtual environment with this torch, removed afterwards. Hard links, so that it costs seconds where uv has the files.

    What .ci/run always tries stays in uv's own cache; the rest gets one of its own, or 26 releases would fill the disk.
    """
    if row.python not in interpreters():
        pytest.skip(f"no CPython {row.python} on this machine for torch {row.torch}")
    place = folder / f"torch-{row.torch}"
    env = dict(os.environ) if row.always else {**os.environ, "UV_CACHE_DIR": str(folder / "cache")}
    try:
        call([uv(), "venv", "-q", "-p", interpreters()[row.python], str(place)], env)
        call([uv(), "pip", "install", "-q", "-p", str(place), f"torch=={row.torch}", *row.beside], env)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(folder / "cache", ignore_errors=True)


def call(argv: Sequence[str], env: dict[str, str]) -> None:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        if "error sending request" in done.stderr or "dns error" in done.stderr:
            pytest.skip("the package registry does not answer")
        pytest.fail(f"{' '.join(argv)}: {done.stderr[-3000:]}")


@pytest.fixture(scope="session", params=parameters())
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """One environment at a time, for the tests of all modules that ask for it."""
    with environment(request.param, tmp_path_factory.mktemp("torches")) as place:
        yield Made(request.param, place)
