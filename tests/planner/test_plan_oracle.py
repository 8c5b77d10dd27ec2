"""The plan held against an oracle of its own: random machines, and the newest torch of the raw tables whose every constraint holds.

The oracle reads the TOML files row by row and shares no code with the planner or with envcheck.tables; what it knows beside the rows
is stated here, each with its source.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from plan_hosts import RULES, TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.planner.result import Grade
from envcheck.tables.toml import load_toml

SEED, HOSTS, SAMPLE = 20261128, 400, 60


@lru_cache(maxsize=32)
def rows(table: str, section: str) -> tuple[dict[str, Any], ...]:
    return tuple(load_toml(RULES / "compat" / f"{table}.toml")[section]["rows"])


def number(text: str) -> tuple[int, ...]:
    """(2, 14, 1) of "2.14.1"; zeros at the end do not count."""
    found = [int(part) for part in re.findall(r"\d+", text)]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


# ---------------------------------------------------------------- machines

GPUS = {  # name -> compute capability, as https://developer.nvidia.com/cuda-gpus and /cuda-legacy-gpus list them
    "k80": "3.7", "gtx 980": "5.2", "p100": "6.0", "1080ti": "6.1", "v100": "7.0", "t4": "7.5", "2080 ti": "7.5", "a100": "8.0",
    "3090": "8.6", "a10": "8.6", "4090": "8.9", "l40s": "8.9", "h100": "9.0", "h200": "9.0", "b200": "10.0", "b300": "10.3",
    "5090": "12.0", "5060": "12.0",
}  # fmt: skip
AMD = {"mi100": "gfx908", "mi250": "gfx90a", "mi300x": "gfx942", "7900xtx": "gfx1100", "6800xt": "gfx1030", "9070xt": "gfx1201"}
LINUX_DRIVERS = (
    "418.226.00", "450.51.06", "450.80.02", "470.256.02", "510.47.03", "515.43.04", "520.61.05", "525.53", "525.60.13", "535.183.01",
    "550.54.15", "560.35.03", "570.86.15", "570.133.07", "570.172.08", "575.64.03", "580.65.06", "580.95.05", "590.48.01", "595.58.03",
)  # fmt: skip
WINDOWS_DRIVERS = (
    "452.06", "452.39", "472.12", "512.15", "516.94", "522.06", "527.41", "528.33", "537.58", "552.22", "560.94", "572.16", "576.28",
    "581.57", "591.44", "595.79",
)  # fmt: skip
USUAL = ("3.9", "3.10", "3.10", "3.11", "3.11", "3.12", "3.12", "3.12", "3.13")
PYTHONS = (*USUAL, "3.7", "3.8", "3.13t", "3.14", "3.14t", "3.15")
GLIBCS = ("2.17", "2.26", "2.28", "2.31", "2.34", "2.35", "2.39", "2.41")
WISHES = (
    *[()] * 8, ("torch>=2.4,<2.8",), ("torch==2.9.*",), ("torch<2.2",), ("torch==2.6.0",), ("torch==2.13.0",), ("cpu",), ("cu126",),
)  # fmt: skip


def hosts(count: int) -> Iterator[dict[str, Any]]:
    """Random machines, always the same ones."""
    draw = random.Random(SEED)  # noqa: S311 - repeatable, not secret
    for _ in range(count):
        kind = draw.choices(("linux", "windows", "wsl", "rocm", "xpu", "cpu", "mac"), (45, 14, 6, 12, 5, 8, 10))[0]
        host: dict[str, Any] = {"python": draw.choice(PYTHONS), "wish": draw.choice(WISHES), "kind": kind}
        if kind in ("linux", "windows", "wsl"):
            host |= {"gpu": draw.choice(list(GPUS)), "os": kind}
            host["driver"] = draw.choice(LINUX_DRIVERS if kind == "linux" else WINDOWS_DRIVERS)
        elif kind == "mac":
            host |= {"gpu": draw.choice(("m1", "m3", "cpu")), "os": "macos", "macos": draw.choice(("12.6", "13.5", "14.5", "15.2"))}
            host["machine"] = "arm64" if host["gpu"] != "cpu" else draw.choice(("arm64", "x86_64"))
        else:
            host |= {"gpu": {"rocm": draw.choice(list(AMD)), "xpu": "b580", "cpu": "cpu"}[kind]}
            host["os"] = draw.choice(("linux", "windows")) if kind == "cpu" else "linux"
        if host["os"] in ("linux", "wsl"):
            host["glibc"] = draw.choice(GLIBCS)
        if host["gpu"] == "cpu" and host["os"] == "linux":
            host["machine"] = draw.choice(("x86_64", "aarch64"))
        yield host


# ---------------------------------------------------------------- the oracle


def platform(host: dict[str, Any]) -> tuple[str, str]:
    system = {"wsl": "linux"}.get(host["os"], host["os"])
    return system, host.get("machine", "x86_64")


def published(system: str, arch: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every release with every build of a platform that was seen."""
    order = [row["torch"] for row in rows("torch-release", "release")]
    for build in rows("torch-build", "build"):
        if build["platform"] == f"{system}-{arch}" and build.get("exists", "high") != "low":
            for release in rows("torch-release", "release")[order.index(build["from"]) : order.index(build["to"]) + 1]:
                if system == "macos" and arch == "x86_64" and release.get("macos_x86_64") is False:
                    continue
                yield release["torch"], release, build


def holding(section: str, table: str, torch: str, **where: str) -> list[dict[str, Any]]:
    """Range rows that hold for a release."""
    same = [row for row in rows(table, section) if all(row.get(key) == value for key, value in where.items())]
    return [row for row in same if number(row["from"]) <= number(torch) <= number(row["to"])]


def installs(host: dict[str, Any], torch: str, release: dict[str, Any], build: dict[str, Any]) -> bool:
    """The interpreter and the system take the wheel."""
    system, arch = platform(host)
    if host["python"] not in release.get("pythons_on", {}).get(build["platform"], release["pythons"]).split():
        return False
    if system == "linux":
        found = [
            row
            for row in holding("glibc", "torch-release", torch, machine=arch)
            if build["variant"] in row.get("variants", [build["variant"]])
        ]
        return number(host["glibc"]) >= number(found[-1]["glibc"])
    if system == "macos":
        [floor] = holding("macos", "torch-release", torch, machine=arch)
        special = [row["macos"] for row in holding("macos-python", "torch-release", torch) if host["python"] in row["pythons"].split()]
        return number(host["macos"]) >= number(special[0] if special and arch == "arm64" else floor["macos"])
    return True


def cubin(archs: str, ptx: str, capability: str) -> bool:
    """A cubin of the same major and no higher minor: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility"""
    major, minor = capability.split(".")
    return any(arch.rstrip("af")[:-1] == major and int(arch.rstrip("af")[-1]) <= int(minor) for arch in archs.split())


def runs(host: dict[str, Any], torch: str, build: dict[str, Any]) -> bool:
    """GPU and driver run the build."""
    variant, kind = build["variant"], host["kind"]
    if ("cpu" in host["wish"] and kind != "mac") or kind in ("cpu", "mac"):
        return variant == "cpu" or (kind == "cpu" and variant in host["wish"])  # a CUDA build also trains without a GPU
    if kind == "rocm":
        return variant.startswith("rocm") and AMD[host["gpu"]] in build.get("archs", "").split()
    if kind == "xpu":
        return bool(variant == "xpu")
    return (
        variant.startswith("cu")
        and cubin(build.get("archs", ""), "", GPUS[host["gpu"]])
        and drives(host, variant)
        and has_cudnn(host, torch, variant)
    )


def drives(host: dict[str, Any], variant: str) -> bool:
    """The driver reaches the lowest one of the CUDA, is of a branch that drives the chip, and lists the board."""
    cuda = f"{variant[2:-1]}.{variant[-1]}"
    column = "linux" if host["os"] == "linux" else "windows"
    [floor] = [row for row in rows("cuda-driver", "floor") if row["cuda"] == cuda]
    driver = number(host["driver"])
    if driver < number(floor[column]):
        return False
    [chip] = [row for row in rows("gpu-architecture", "gpu") if row["compute_capability"] == GPUS[host["gpu"]]]
    branch = driver[0]
    if column == "windows":
        mine = [row["branch"] for row in rows("driver-branch", "windows") if row["first"] <= branch <= row["last"]]
        [branch] = mine
    if branch > chip.get("last_branch", 9999) or branch < chip.get("first_branch", 0):
        return False
    board = {"b200": "NVIDIA B200", "b300": "NVIDIA B300 SXM6 AC", "5090": "NVIDIA GeForce RTX 5090", "5060": "NVIDIA GeForce RTX 5060"}
    firsts = [row["driver"] for row in rows("gpu-product", "first-driver") if row["name"] == board.get(host["gpu"])]
    return column == "windows" or not firsts or driver >= number(firsts[0])


def has_cudnn(host: dict[str, Any], torch: str, variant: str) -> bool:
    """The cuDNN that the build brings still serves the chip."""
    brought = [row["cudnn"] for row in holding("variant", "cudnn", torch, variant=variant)]
    if not brought:
        pins = [row["pins"] for row in rows("torch-pins", "pins") if row["torch"] == torch]
        brought = [wanted.lstrip("=") for one in pins for name, wanted in one.items() if name == f"nvidia-cudnn-cu{variant[2:4]}"]
    for version in brought:
        for row in rows("cudnn", "floor"):
            if number(row["from"]) <= number(version) < number(row["below"]):
                return number(GPUS[host["gpu"]]) >= number(row["compute_capability"])
    return True


def wished(wish: tuple[str, ...], torch: str, variant: str) -> bool:
    """The few forms of WISHES, compared as numbers."""
    for word in wish:
        if word in ("cpu", "cu126"):
            if variant != word:
                return False
            continue
        for one in word.removeprefix("torch").split(","):
            sign, text = re.match(r"([<>=]+)(.*)", one).groups()  # type: ignore[union-attr]
            mine, other = number(torch), number(text.removesuffix(".*"))
            series = mine[: len(other)] if text.endswith(".*") else mine
            if not {">=": mine >= other, "<": mine < other, "==": series == other}[sign]:
                return False
    return True


def metal(host: dict[str, Any], torch: str) -> bool:
    floors = [row["macos"] for row in rows("mps", "floor") if number(row["torch"]) <= number(torch)]
    return not floors or number(host["macos"]) >= number(floors[-1])


def newest(host: dict[str, Any]) -> str | None:
    """The newest torch whose every constraint holds: what is certain before what is not, on a Mac one with Metal before one without."""
    fits: list[tuple[bool, bool, tuple[int, ...], str]] = []
    for torch, release, build in published(*platform(host)):
        if not wished(host["wish"], torch, build["variant"]) or not installs(host, torch, release, build) or not runs(host, torch, build):
            continue
        certain = build.get("exists", "high") == "high" or build["variant"] == "cpu"
        certain = certain and not (build["variant"].startswith("rocm") and build.get("confidence", "high") == "low")
        fits.append((host["kind"] != "mac" or host["gpu"] == "cpu" or metal(host, torch), certain, number(torch), torch))
    return max(fits)[-1] if fits else None


# ---------------------------------------------------------------- compared


def differences(some: list[dict[str, Any]]) -> list[str]:
    found = []
    for host in some:
        report = planner.search(machine(host), TABLES, host["wish"], checks=checks(), texts=TEXTS, tool="pip")
        mine = [way for way in report.ways if way.who == "user" and way.commands.pip]
        title = mine[0].title if mine else ""
        torch = re.search(r"torch (\d[\d.]*\d)", title)
        wanted, planned = newest(host), torch[1] if torch else None
        if wanted != planned:
            found.append(f"{host}: the tables say {wanted}, the plan {planned} ({title})")
        elif not report.ways and not report.excluded:
            found.append(f"{host}: no plan and no reason")
        elif mine and mine[0].grade is Grade.UNCHECKED and "not seen" not in mine[0].note and "which GPUs" not in mine[0].note:
            found.append(f"{host}: {title} is not vouched for: {mine[0].note}")
    return found


def test_the_machines_are_of_every_kind_and_both_answers_occur() -> None:
    drawn = list(hosts(HOSTS))
    assert len({str(host) for host in drawn}) > 300 and len({host["kind"] for host in drawn}) == 7
    answers = [newest(host) for host in drawn]
    assert answers.count(None) > 60 and len(set(answers)) > 15


def test_a_sample_of_the_machines_has_the_newest_torch_that_fits() -> None:
    assert differences(list(hosts(SAMPLE))) == []


@pytest.mark.slow
def test_every_machine_has_the_newest_torch_that_fits() -> None:
    assert differences(list(hosts(HOSTS))) == []
