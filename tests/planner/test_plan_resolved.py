"""The first printed command of 200 random machines, given to a real resolver for that machine's platform and Python.

Where download.pytorch.org answers, the command is resolved with the index it names. Elsewhere the same versions are resolved from the
package index alone: that proves pins, Pythons, platforms and metadata, and not that the index of a CUDA version holds the file.
`python -m pytest -m environments tests/planner/test_plan_resolved.py` asks; ENVCHECK_SEED and ENVCHECK_HOSTS draw others.
"""

from __future__ import annotations

import os
import random
import shlex
import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine
from test_plan_network import Resolver, answered
from test_plan_network import resolver as resolver
from test_plan_network import uv as uv

from envcheck import planner
from envcheck.planner.result import Way

SEED, HOSTS = int(os.environ.get("ENVCHECK_SEED", "20261129")), int(os.environ.get("ENVCHECK_HOSTS", "200"))
INDEX, NVIDIA_INDEX = "download.pytorch.org", "pypi.nvidia.com"
FETCHES = "wheel_stub"  # the build backend of sources that only download from there
NVIDIA = (
    "k80", "gtx 980", "p100", "1080ti", "v100", "titan v", "t4", "2080 ti", "a100", "a40", "3090", "4090", "l40s", "h100", "h200",
    "b200", "b300", "5090", "rtx 5060",
)  # fmt: skip
LINUX_DRIVERS = ("470.256.02", "525.60.13", "535.183.01", "550.54.15", "560.35.03", "570.172.08", "575.64.03", "580.95.05", "595.58.03")
WINDOWS_DRIVERS = ("472.12", "528.33", "537.58", "552.22", "560.94", "572.16", "576.28", "581.57", "595.79")
AMD, INTEL = ("mi100", "mi250", "mi300x", "7900xtx", "6800xt", "9070xt"), ("a770", "b580")
PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.12", "3.13", "3.14")
WISHES = (
    *[()] * 3, *[("torch", "torchvision")] * 2, *[("torch", "torchvision", "torchaudio")] * 3, ("torch<2.6", "torchvision"),
    ("torch==2.9.*", "torchaudio"), ("torch>=2.4,<2.8", "torchvision", "torchaudio"), ("xformers",), ("vllm",), ("bitsandbytes",),
    ("torchcodec",), ("torch-tensorrt",), ("torchvision", "numpy<2"), ("torchtext",), ("torchdata",), ("torchao",), ("sglang",),
    ("onnxruntime-gpu",), ("onnxruntime",), ("flash-attn",), ("transformers", "accelerate"), ("cpu",),
)  # fmt: skip
WITH_VALUE = ("--python", "--index-url", "--torch-backend", "--extra-index-url", "--find-links", "-f", "--index")
COMPILED = "--no-build-isolation"  # of a source alone: nothing to resolve for another machine


class Asked(NamedTuple):
    """One printed line: what it installs and from where."""

    requirements: tuple[str, ...]
    flags: tuple[str, ...]


def hosts(count: int) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """Random machines and wishes, always the same ones of a seed."""
    draw = random.Random(SEED)  # noqa: S311 - repeatable, not secret
    for _ in range(count):
        kind = draw.choices(("linux", "windows", "wsl", "arm", "rocm", "xpu", "cpu", "mac"), (44, 12, 4, 6, 10, 4, 10, 10))[0]
        host: dict[str, Any] = {"python": draw.choice(PYTHONS)}
        if kind in ("linux", "windows", "wsl"):
            host |= {"os": kind, "gpu": draw.choice(NVIDIA), "driver": draw.choice(LINUX_DRIVERS if kind == "linux" else WINDOWS_DRIVERS)}
        elif kind == "arm":
            host |= {"gpu": draw.choice(("gh200", "gb200", "gb10")), "driver": draw.choice(LINUX_DRIVERS[-4:])}
        elif kind == "mac":
            host |= {"gpu": draw.choice(("m1", "m3", "m4")), "macos": draw.choice(("13.5", "14.5", "15.2"))}
        elif kind == "cpu":
            host |= {"gpu": "cpu", "os": draw.choice(("linux", "windows"))}
            host |= {"machine": draw.choice(("x86_64", "aarch64"))} if host["os"] == "linux" else {}
        else:
            host |= {"gpu": draw.choice(AMD if kind == "rocm" else INTEL)}
        yield host, draw.choice(WISHES)


def commanded(count: int) -> Iterator[tuple[dict[str, Any], tuple[str, ...], Way]]:
    """The machines that get a command for uv, and the first one that they get."""
    for host, wish in hosts(count * 3):
        ways = planner.search(machine(host), TABLES, wish, checks=checks(), texts=TEXTS, tool="uv").ways
        if count and ways and ways[0].commands.uv:
            count -= 1
            yield host, wish, ways[0]


def read_line(line: str) -> Asked | None:
    """What an install line asks for; None for a line that installs nothing or compiles here."""
    words = shlex.split(line.replace("\\", "/"))
    if words[:3] != ["uv", "pip", "install"] or COMPILED in words:
        return None
    asked, flags, rest = [], [], iter(words[3:])
    for word in rest:
        name, _, value = word.partition("=") if word.startswith("-") else (word, "", "")
        if name in WITH_VALUE:
            value = value or next(rest)
            flags += [] if name == "--python" else [f"{name}={value}"]
        elif not word.startswith("-"):
            asked.append(word)
    return Asked(tuple(asked), tuple(flags))


def platform_of(host: dict[str, Any]) -> str:
    facts: Any = machine(host).system
    cpu = {"arm64": "aarch64", "AMD64": "x86_64"}.get(facts.machine, facts.machine)
    return f"{cpu}-" + {"linux": "manylinux_2_35", "windows": "pc-windows-msvc", "darwin": "apple-darwin"}[facts.os]


@lru_cache(maxsize=1)
def index_answers() -> bool:
    try:
        with socket.create_connection((INDEX, 443), 10):
            return True
    except OSError:
        return False


def without_label(text: str) -> str:
    return text.partition("+")[0] if "==" in text else text


@pytest.mark.environments  # of the longer ones, which every run of CI asks as well
@pytest.mark.network
def test_the_first_command_of_every_machine_always_resolves(resolver: Resolver) -> None:
    """All lines of a command together, since they end in one environment; a second line must not ask for what the first excludes."""
    asked = []
    for host, wish, way in commanded(HOSTS):
        read = [one for line in way.commands.uv if (one := read_line(line))]
        wanted = tuple(text for one in read for text in one.requirements)
        flags = tuple(dict.fromkeys(flag for one in read for flag in one.flags)) if index_answers() else ()
        if not flags:
            wanted = tuple(without_label(text) for text in wanted)
        asked.append((host, wish, way, resolver.ask(wanted, platform_of(host), host["python"], flags)))
    assert len(asked) == HOSTS
    failed = []
    for host, wish, way, answer in asked:
        done = answered(answer)
        if done.returncode and not (FETCHES in done.stderr and NVIDIA_INDEX in way.note):  # the reason is printed
            failed.append(f"{host} {' '.join(wish)}\n  {'; '.join(way.commands.uv)}\n  {done.stderr.strip()[:900]}")
    assert not failed, f"{len(failed)} of {len(asked)} do not resolve\n" + "\n".join(failed)


def test_what_a_line_asks_for_is_read() -> None:
    line = "uv pip install --python /venv/bin/python torch==2.9.1+cu126 'numpy<2' --torch-backend=cu126"
    assert read_line(line) == Asked(("torch==2.9.1+cu126", "numpy<2"), ("--torch-backend=cu126",))
    assert read_line("uv pip install flash-attn --no-build-isolation") is None
    assert read_line("uv venv .venv") is None
    assert without_label("torch==2.9.1+cu126") == "torch==2.9.1"
