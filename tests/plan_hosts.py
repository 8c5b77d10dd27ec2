"""Machines for the tests of the planner, built from a few words each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from envcheck.checks import all_checks
from envcheck.engine.rule import Check, RuleTexts
from envcheck.facts.record import replace
from envcheck.facts.snapshot import DevicesFacts, Distribution, Missing, PackagesFacts, Snapshot, SystemFacts, Why
from envcheck.planner.assume import Machine, assumed
from envcheck.planner.candidate import Candidate, catalogue, conda_catalogue
from envcheck.planner.proof import Change, apply
from envcheck.tables.archs import platform_of
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder

RULES = Path(rules_folder())
TEXTS = RuleTexts((RULES,))
TABLES = Tables((RULES / "compat",))


@lru_cache(maxsize=1)
def checks() -> tuple[Check, ...]:
    return all_checks()


def machine(spec: Mapping[str, Any]) -> Snapshot:
    """A snapshot of {gpu, driver, python, os, machine, glibc, macos, torch, works, packages, environment, …}."""
    gpu = spec.get("gpu", "cpu")
    system = spec.get("os")
    glibc = spec.get("glibc") or ("2.35" if system in (None, "linux", "wsl") else None)
    words = (gpu,) if isinstance(gpu, str) else tuple(gpu)
    one = Machine(words, spec.get("driver"), spec.get("python", "3.12"), system, spec.get("machine"), glibc, spec.get("macos"))
    snapshot, _ = assumed(one, TABLES)
    return furnished(snapshot, spec)


def furnished(snapshot: Snapshot, spec: Mapping[str, Any]) -> Snapshot:
    """The machine with an interpreter, its packages and its torch."""
    assert isinstance(snapshot.system, SystemFacts)
    if spec.get("musl"):
        snapshot = replace(snapshot, system=replace(snapshot.system, libc="musl", glibc=None))
    if "jetson" in spec:
        snapshot = replace(snapshot, system=replace(snapshot.system, jetson=spec["jetson"]))
    windows = snapshot.system.os == "windows"
    environment = spec.get("environment", "venv")
    python = replace(
        snapshot.python,
        executable=spec.get("executable", "C:\\venv\\Scripts\\python.exe" if windows else "/venv/bin/python"),
        prefix="C:\\venv" if windows else "/venv",
        environment=environment,
        has_pip=spec.get("has_pip", True),
        has_conda_meta=environment in ("conda", "pixi"),
        uv=environment == "uv",
        externally_managed=spec.get("managed", False),
        index_url=spec.get("index_url"),
        implementation=spec.get("implementation", "cpython"),
    )
    rows = tuple(Distribution(name, number) for name, number in spec.get("packages", {}).items())
    snapshot = replace(snapshot, python=python, packages=PackagesFacts(rows))
    return with_torch(snapshot, spec["torch"], spec.get("works", False)) if "torch" in spec else snapshot


def with_torch(snapshot: Snapshot, torch: str, works: bool = False) -> Snapshot:
    """The machine with an installed torch: "2.14.1+cu130" from the wheels, "conda:2.13.0+cu130" from conda-forge."""
    change = Change(build_of(snapshot, torch))
    after = apply(snapshot, change, TABLES)
    gpu = change.build is not None and not change.build.cpu
    return replace(after, devices=DevicesFacts(available=works and gpu, count=int(works and gpu)), live=Missing(Why.SKIPPED, "--live off"))


def build_of(snapshot: Snapshot, torch: str) -> Candidate:
    """The build of the tables for this platform."""
    assert isinstance(snapshot.system, SystemFacts)
    platform = platform_of(snapshot.system.os, snapshot.system.machine)
    source, _, name = torch.rpartition(":")
    number, _, variant = name.partition("+")
    pool = conda_catalogue(TABLES, platform) if source == "conda" else catalogue(TABLES, platform)
    return next(one for one in pool if one.version == number and one.variant == (variant or "cpu"))
