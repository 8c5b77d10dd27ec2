"""Over the whole table: what is proved passes the rules, what does not fit is refused by them, and no plan means that there is none."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, build_of, checks, machine

from envcheck import planner
from envcheck.facts.record import replace
from envcheck.facts.snapshot import Snapshot
from envcheck.planner.candidate import Candidate, catalogue, first_obstacle
from envcheck.planner.choice import find
from envcheck.planner.profile import profile_of
from envcheck.planner.proof import Change, Judge
from envcheck.planner.result import PlanReport
from envcheck.planner.wish import read_wish
from envcheck.tables.archs import runs_on
from envcheck.tables.versions import meets, tag_named, version

GPUS = (
    "k80", "m40", "p100", "1080ti", "v100", "t4", "2080ti", "a100", "3090", "4090", "l40s", "h100", "gh200", "b200",
    "b300", "gb10", "5090", "thor", "cpu", "mi100", "mi300x", "7900xtx", "9070xt", "b580",
)  # fmt: skip
LINUX_DRIVERS = (
    None, "440.118.02", "450.248.02", "460.106.00", "470.256.02", "495.46", "510.108.03", "515.105.01", "520.61.05",
    "525.147.05", "530.41.03", "535.183.01", "545.29.06", "550.163.01", "555.58.02", "560.35.05", "565.77", "570.172.08",
    "575.64.05", "580.95.05", "590.48.01", "595.45.04", "610.57.04", "615.31",
)  # fmt: skip
WINDOWS_DRIVERS = (None, "452.39", "474.82", "528.49", "538.95", "553.62", "566.36", "573.48", "577.00", "581.57", "591.59", "610.62")
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15")
SYSTEMS = (("linux", "x86_64"), ("linux", "aarch64"), ("windows", "x86_64"), ("wsl", "x86_64"))
WISHES: tuple[tuple[str, ...], ...] = (
    (),
    ("torch==2.9.*",),
    ("torch>=2.6,<2.8",),
    ("torch==2.15.*",),
    ("torch", "torchvision", "torchaudio"),
    ("cu126",),
)
INSTALLED = (None, "2.15.0+cu132", "2.13.0+cpu", "2.6.0+cu124")

ARM_ONLY = ("gh200", "gb10", "thor")
OTHERS = ("cpu", "mi100", "mi300x", "7900xtx", "9070xt", "b580")


def combinations() -> Iterator[dict[str, Any]]:
    """Machine × wish × installed torch: every driver branch, GPU generation, Python, system."""
    for (system, arch), gpu, python in itertools.product(SYSTEMS, GPUS, PYTHONS):
        if (gpu in ARM_ONLY) != (arch == "aarch64") and gpu not in ("cpu", "a100", "h100", "t4"):
            continue
        if system != "linux" and gpu in ("mi100", "mi300x", "thor", "gh200", "gb10", "b200", "b300"):
            continue
        drivers = (None,) if gpu in OTHERS or gpu == "thor" else LINUX_DRIVERS if system == "linux" else WINDOWS_DRIVERS
        for driver, wish, torch in itertools.product(drivers, WISHES, INSTALLED):
            yield {"gpu": gpu, "driver": driver, "python": python, "os": system, "machine": arch, "wish": wish, "torch": torch}


def snapshot_of(spec: dict[str, Any]) -> Snapshot | None:
    """None where such a machine cannot hold such a torch."""
    plain = {key: value for key, value in spec.items() if value is not None and key not in ("wish", "torch")}
    if spec["torch"]:
        try:
            build = build_of(machine({**plain, "gpu": "cpu"}), spec["torch"])
        except StopIteration:
            return None
        if spec["python"] not in build.pythons:
            return None
        plain["torch"] = spec["torch"]
    return machine(plain)


def holds(spec: dict[str, Any]) -> PlanReport | None:
    """Plan for one combination, and everything that must hold of the plan."""
    snapshot = snapshot_of(spec)
    if snapshot is None:
        return None
    report = planner.search(snapshot, TABLES, spec["wish"], checks=checks(), texts=TEXTS)
    profile = profile_of(snapshot, TABLES)
    assert len(report.ways) <= 3
    for way in report.ways:
        name = re.search(r"torch:? (\d[\w.]*(?:\+\w[\w.]*)?)", way.title)
        assert name, way.title
        number, _, variant = name[1].partition("+")
        build = next(
            one for one in catalogue(TABLES, profile.platform or "") if one.version == number and one.variant == (variant or "cpu")
        )
        assert build.seen or not way.proved
        _independent(build, spec, snapshot, way.who == "admin")
        for line in (*way.commands.pip, *way.commands.uv):
            for text in re.findall(r"torch==(\S+)", line):
                assert text.partition("+")[0] == number
    if not report.ways:
        assert report.excluded or profile.platform not in ("linux-x86_64", "linux-aarch64", "windows-x86_64")
        _truly_none(spec, snapshot)
    return report


def _independent(build: Candidate, spec: dict[str, Any], snapshot: Snapshot, admin: bool) -> None:
    """The build fits by arithmetic that shares nothing with the search but the table's rows."""
    row = next(one for one in TABLES.builds(build.version) if one.variant == build.variant and one.platform == build.platform)
    assert row.exists != "low"
    assert spec["python"] in row.pythons
    profile = profile_of(snapshot, TABLES)
    if build.cuda and spec["driver"] and not admin and not profile.jetson:
        floor = {"11": (450, 80), "12": (525, 60), "13": (580, 0), "10": (440, 33)}[build.cuda.partition(".")[0]]
        windows = {"11": (452, 39), "12": (528, 33), "13": (580, 0), "10": (441, 22)}[build.cuda.partition(".")[0]]
        numbers = tuple(int(part) for part in spec["driver"].split("."))[:2]
        assert numbers >= (floor if spec["os"] == "linux" else windows), (build.full, spec)
    for card in profile.cards:
        if build.cuda and card.compute_capability:
            assert runs_on(row.archs or (), card.compute_capability, build.cuda), (build.full, card)


def _truly_none(spec: dict[str, Any], snapshot: Snapshot) -> None:
    """No plan: no build of the table that meets the wish has no obstacle."""
    profile = profile_of(snapshot, TABLES)
    for one in catalogue(TABLES, profile.platform or ""):
        wished = all(_meets(one, word) for word in spec["wish"])
        if wished and not (len(spec["wish"]) > 1):
            assert first_obstacle(one, profile, TABLES) is not None, (one.full, spec)


def _meets(one: Candidate, word: str) -> bool:
    if word == "cu126":
        return one.variant == "cu126"
    spec = word.removeprefix("torch")
    return word == "torch" or not word.startswith("torch") or spec[:1].isalpha() or meets(one.version, spec)


def refused(spec: dict[str, Any], rng: random.Random) -> bool | None:
    """A build with a GPU or driver obstacle, applied all the same, is not proved. None where there is none to try."""
    snapshot = snapshot_of({**spec, "torch": None})
    if snapshot is None:
        return None
    profile = profile_of(snapshot, TABLES)
    bad = [
        one
        for one in catalogue(TABLES, profile.platform or "")
        if one.cuda
        and (obstacle := first_obstacle(one, replace(profile, python=None, glibc=None), TABLES))
        and obstacle.key in ("driver", "gpu-too-new", "gpu-too-old")
    ]
    if not bad or not profile.driver:
        return None
    judge = Judge(snapshot, checks(), TEXTS, TABLES)
    if "driver-too-old-for-gpu" in judge.errors:
        return None  # then no build is to blame
    one = rng.choice(bad)
    proof = judge.prove(Change(one))
    assert not proof.holds, (one.full, spec)
    return True


def test_a_sample_of_the_table() -> None:
    rng = random.Random(20261127)  # noqa: S311  # a sample
    every = list(combinations())
    found = [report for spec in rng.sample(every, 120) if (report := holds(spec)) is not None]
    assert sum(bool(report.ways) for report in found) > 30
    assert all(way.proved or way.note for report in found for way in report.ways)


def test_builds_that_do_not_fit_are_refused_by_the_rules() -> None:
    rng = random.Random(7)  # noqa: S311  # a sample
    every = [spec for spec in combinations() if not spec["wish"] and not spec["torch"] and spec["gpu"] not in OTHERS and spec["driver"]]
    tried = [refused(spec, rng) for spec in rng.sample(every, 80)]
    assert sum(answer is True for answer in tried) > 50


# First driver branch of a GPU generation, lowest driver of a CUDA major: written down here again, so that the table does not judge itself.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, .../cuda-toolkit-driver-and-architecture-matrix.html
FLOORS = {
    "linux": {10: (440, 33), 11: (450, 80), 12: (525, 60), 13: (580, 65)},
    "windows": {10: (441, 22), 11: (452, 39), 12: (528, 33), 13: (580, 0)},
}
# The first driver branch without a generation.
DROPPED = {(3, 0): 495, (3, 5): 495, (3, 7): 495, (5, 0): 590, (5, 2): 590, (6, 0): 590, (6, 1): 590, (7, 0): 590}
FIRST_DRIVER = {(7, 5): 410, (8, 0): 450, (8, 6): 455, (8, 9): 520, (9, 0): 520, (10, 0): 570, (10, 3): 580, (12, 0): 570, (12, 1): 580}


def runs_here(one: Candidate, spec: dict[str, Any], cards: tuple[tuple[int, int], ...]) -> bool:
    """Whether a CUDA build runs on GPUs under a driver, by plain arithmetic over its cubins."""
    if one.cuda is None:
        return False
    major = int(one.cuda.partition(".")[0])
    if spec["driver"] and spec["gpu"] != "thor":
        numbers = tuple(int(part) for part in spec["driver"].split("."))[:2]
        if numbers < FLOORS["linux" if spec["os"] == "linux" else "windows"][major]:
            return False
        if any(numbers[0] < FIRST_DRIVER.get(card, 0) for card in cards):
            return False
        if any(numbers[0] >= DROPPED.get(card, 1000) for card in cards):
            return False
    if spec["gpu"] == "thor" and major < 13:
        return False
    cubins = [int(arch[3:].rstrip("af")) for arch in one.archs or () if arch.startswith("sm_")]
    for card in cards:
        alone = card in ((11, 0), (8, 7))
        if not any(
            (cubin // 10, cubin % 10) == card or (not alone and cubin // 10 == card[0] and cubin % 10 <= card[1]) for cubin in cubins
        ):
            return False
    return True


@pytest.mark.slow
def test_the_whole_table() -> None:
    """Driver branch × GPU generation × Python × system × wish: the search finds exactly the builds that run, and the best is proved."""
    began = time.process_time()
    machines = {(spec["gpu"], spec["driver"], spec["os"], spec["machine"]): spec for spec in combinations() if spec["torch"] is None}
    wishes = [read_wish(words, TABLES) for words in WISHES]
    count = plans = without = 0
    proofs: dict[tuple[Any, ...], bool] = {}
    for key, spec in machines.items():
        gpu, driver, system, arch = key
        words = {"gpu": gpu, "driver": driver, "os": system, "machine": arch}
        snapshot = machine({name: value for name, value in words.items() if value is not None})
        profile = profile_of(snapshot, TABLES)
        cards = tuple(tuple(map(int, (card.compute_capability or "0.0").split("."))) for card in profile.cards)
        builds = catalogue(TABLES, profile.platform or "")
        judge = Judge(snapshot, checks(), TEXTS, TABLES)
        running = {one for one in builds if gpu in OTHERS or runs_here(one, spec, cards)}  # type: ignore[arg-type]
        for python in PYTHONS:
            there = replace(profile, python=python)
            for wish in wishes:
                found = find(there, TABLES, wish, False)
                count += 1
                if gpu not in OTHERS and not wish.packages:
                    wanted = {one for one in running if python in one.pythons and wish.admits(one)}
                    extra = {choice.build for choice in found.fits} - wanted
                    lacking = wanted - {choice.build for choice in found.fits}
                    assert not extra, (sorted(one.full for one in extra), spec, python)
                    assert all(_dropped_by_cudnn(one, cards) for one in lacking), (sorted(one.full for one in lacking), spec, python)
                if found.best is None:
                    without += 1
                    assert found.rejected
                    continue
                plans += 1
                pair = (*key, id(found.best.build), found.best.beside.moves)
                if pair not in proofs:
                    proofs[pair] = judge.prove(Change(found.best.build, found.best.beside)).holds
                assert proofs[pair] or wish.variant, (found.best.build.full, spec, python, wish.texts)
    seconds = time.process_time() - began
    print(
        f"{count} combinations on {len(machines)} machines: {plans} with a plan, {without} without, {len(proofs)} proofs, {seconds:.1f} s"
    )
    assert count > 40_000


def _dropped_by_cudnn(one: Candidate, cards: tuple[tuple[int, ...], ...]) -> bool:
    """Below 7.5 a build with kernels may still bring a cuDNN that dropped the card."""
    return any(card < (7, 5) for card in cards) and not one.variant.startswith("cu126")


@pytest.mark.slow
def test_every_machine_and_build() -> None:
    """The filters against the rules: on no machine does a rule call a build too old or too new that has no obstacle."""
    began = time.monotonic()
    pairs = 0
    machines = {(spec["gpu"], spec["driver"], spec["os"], spec["machine"]) for spec in combinations() if spec["gpu"] not in OTHERS}
    relevant = tuple(one for one in checks() if one.id in ("driver-too-old", "gpu-too-new-for-torch", "gpu-too-old-for-torch"))
    for gpu, driver, system, arch in sorted(machines, key=str):
        if driver is None:
            continue
        snapshot = machine({"gpu": gpu, "driver": driver, "os": system, "machine": arch})
        profile = profile_of(snapshot, TABLES)
        judge = Judge(snapshot, relevant, TEXTS, TABLES)
        for one in catalogue(TABLES, profile.platform or ""):
            if not one.cuda:
                continue
            obstacle = first_obstacle(one, replace(profile, python=None, glibc=None), TABLES)
            if obstacle is None:
                assert judge.prove(Change(one)).holds, (one.full, gpu, driver, system)
                pairs += 1
    seconds = time.monotonic() - began
    print(f"{pairs} machine-build pairs on {len(machines)} machines, {seconds:.1f} s")


def test_the_cuda_of_a_variant_is_the_one_of_its_build() -> None:
    for one in catalogue(TABLES, "linux-x86_64"):
        assert one.cuda == tag_named(one.variant).cuda
        assert version(one.version) >= version("1.10")
