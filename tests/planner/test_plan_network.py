"""A real resolver on printed commands whose build is PyPI's default: uv reads the wheels' metadata for the target Python and platform."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine
from registry import PYPI, Registry

from envcheck import planner

pytestmark = pytest.mark.network

RESOLVERS = 6  # side by side: they wait for the network most of the time
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
    (GPU | {"driver": DRIVER}, ["torch==2.10.*", "xformers"], LINUX, "3.12"),
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


REFUSED = [
    (["torch==2.14.1"], LINUX, "3.15"),
    (["torch==2.15.0"], LINUX, "3.10"),
    (["torch==2.14.1", "torchvision==0.29.0"], LINUX, "3.12"),
]


def requirements(spec: dict[str, Any], wish: Sequence[str], platform: str, python: str) -> list[str]:
    """What the best plan's command asks for."""
    snapshot = machine({**spec, "python": python})
    [way, *_] = planner.search(snapshot, TABLES, wish, checks=checks(), texts=TEXTS, tool="uv").ways
    [line] = way.commands.uv
    words = shlex.split(line) if platform != "x86_64-pc-windows-msvc" else line.split()
    result = words[words.index("--python") + 2 :]
    assert not any(word.startswith("-") for word in result), "not PyPI's default build"
    return result


@pytest.fixture(scope="module")
def uv() -> str:
    """Beside this interpreter (the extra `test` brings it), in ENVCHECK_UV, or on PATH."""
    places = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)))
    found = os.environ.get("ENVCHECK_UV") or shutil.which("uv", path=places)
    if found is None:
        pytest.skip("uv is not installed")
    return found


class Resolver:
    """uv, with a cache of its own and no more than a few at a time; an answer is worked out once."""

    def __init__(self, uv: str, index: Registry, folder: Path) -> None:
        self.uv, self.index, self.folder = uv, index, folder
        self.pool = ThreadPoolExecutor(RESOLVERS)
        self.asked: dict[tuple[tuple[str, ...], str, str, tuple[str, ...]], Future[subprocess.CompletedProcess[str]]] = {}

    def ask(
        self, requirements: Sequence[str], platform: str, python: str, flags: Sequence[str] = ()
    ) -> Future[subprocess.CompletedProcess[str]]:
        key = (tuple(requirements), platform, python, tuple(flags))
        if key not in self.asked:
            self.asked[key] = self.pool.submit(self._resolved, len(self.asked), *key)
        return self.asked[key]

    def _resolved(
        self, number: int, requirements: Sequence[str], platform: str, python: str, flags: Sequence[str]
    ) -> subprocess.CompletedProcess[str]:
        """What uv resolves them to, for a Python and a platform that need not be here."""
        source = self.folder / f"{number}.in"
        source.write_text("\n".join(requirements) + "\n")
        line = [self.uv, "pip", "compile", str(source), "--python", sys.executable, "--python-version", python]
        line += ["--python-platform", platform, "--no-header", "--no-annotate", "--no-config", "-q", *flags]
        # Where pip is told to look: uv reads none of pip's settings, and settings of its own must not answer for PyPI.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_")}
        environment |= {
            "UV_CACHE_DIR": str(self.folder / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_TIMEOUT": "30",
            "MACOSX_DEPLOYMENT_TARGET": "15.0",  # else uv takes macOS 13
        }
        if self.index.settings.index != PYPI:
            environment["UV_DEFAULT_INDEX"] = self.index.settings.index
        if self.index.settings.certificates and os.path.isfile(self.index.settings.certificates):
            environment["SSL_CERT_FILE"] = self.index.settings.certificates
        return subprocess.run(line, capture_output=True, text=True, timeout=120, env=environment, check=False)


@pytest.fixture(scope="module")
def resolver(uv: str, package_index: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resolver]:
    one = Resolver(uv, package_index, tmp_path_factory.mktemp("uv"))
    yield one
    one.pool.shutdown(wait=True, cancel_futures=True)


@pytest.fixture(scope="module")
def all_at_once(resolver: Resolver, request: pytest.FixtureRequest) -> None:
    """Every plan that this run will look at is on its way before the first is waited for."""
    for item in request.session.items:
        one = item.callspec.params.get("one") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
        if item.path == request.path and one is not None:
            spec, wish, platform, python = one
            resolver.ask(requirements(spec, wish, platform, python), platform, python)


def answered(future: Future[subprocess.CompletedProcess[str]]) -> subprocess.CompletedProcess[str]:
    """uv's answer: status 1 for "no solution", 2 for what kept it from looking."""
    answer = future.result(timeout=200)
    if answer.returncode == 2 and re.search(r"error sending request|Failed to fetch|timed out|connection", answer.stderr, re.IGNORECASE):
        pytest.skip(f"the package registry does not answer: {answer.stderr.strip()[-200:]}")
    return answer


def name_of(one: tuple[dict[str, Any], list[str], str, str]) -> str:
    spec, wish, platform, python = one
    return "-".join((*map(str, spec.values()), *(wish or ["any"]), platform.partition("-")[0], python))


@pytest.mark.usefixtures("all_at_once")
@pytest.mark.parametrize("one", PLANS, ids=name_of)
def test_the_resolver_accepts(resolver: Resolver, one: tuple[dict[str, Any], list[str], str, str]) -> None:
    spec, wish, platform, python = one
    asked = requirements(spec, wish, platform, python)
    answer = answered(resolver.ask(asked, platform, python))
    assert answer.returncode == 0, answer.stderr
    pinned = dict(row.split("==") for row in answer.stdout.split() if "==" in row)
    for text in asked:
        if "==" in text:
            name, _, number = text.partition("==")
            assert pinned[name] == number


def test_the_resolver_refuses_what_the_plan_excludes(resolver: Resolver) -> None:
    for answer in [resolver.ask(asked, platform, python) for asked, platform, python in REFUSED]:
        assert answered(answer).returncode == 1


def test_there_are_enough_plans() -> None:
    assert len(PLANS) >= 25
