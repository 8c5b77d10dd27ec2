"""Patients for tests: fake torch packages, and running the agent on an interpreter with them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from envcheck.agent import isolation
from envcheck.target.process import Budget, Ended, Target, end, finish, start
from envcheck.target.sections import sections

HERE = Path(__file__).parent
SOON = 30.0  # seconds that nothing takes even on a busy machine, where a fault would last for minutes or for ever
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the test interpreter has no torch")


@dataclass(frozen=True)
class Examined:
    ended: Ended
    facts: dict[str, Any]
    folder: Path


def distribution(
    site: Path, name: str, version: str, *, requires: tuple[str, ...] = (), files: tuple[str, ...] = (), make: bool = True
) -> None:
    """A .dist-info below `site` whose RECORD lists `files`, which are created unless `make` is false."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {one}\n" for one in requires]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{''.join(lines)}\nLong text\n")
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    for file in files if make else ():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def fake_torch(site: Path, body: str, version: str | None = "2.15.0", version_py: str | None = None) -> Path:
    """A package named torch whose __init__ is `body`; with metadata unless version is None."""
    package = site / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(body)
    if version_py is not None:
        (package / "version.py").write_text(version_py)
    if version is not None:
        distribution(site, "torch", version)
    return site


def examine(
    *,
    env: dict[str, str] | None = None,
    path: Path | None = None,
    static: bool = False,
    live: str = "off",
    budget: Budget | None = None,
    executable: str = sys.executable,
    tmp: Path | None = None,
    **options: Any,
) -> Examined:
    """Run the agent with `path` first on PYTHONPATH, and TMPDIR as we have it, as `env` has it or `tmp`. What it left in its private
    folder, which lies in `tmp`, is gone afterwards."""
    target = Target(executable, "the test wants it")
    full = {"static": static, "live": live, "nproc": None, "backend": "auto", "start_method": "auto", **options}
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    if tmp is not None:
        environment["TMPDIR"] = (env or {}).get("TMPDIR", str(tmp))
    with tempfile.TemporaryDirectory(dir=tmp) as folder:
        running = start(target, folder, budget or Budget(60), full, environment)
        try:
            ended = finish(running)
        finally:
            end(running)
        return Examined(ended, sections(ended, target, static=static, live_asked=live != "off" and not static), Path(folder))


# A variable of every launcher, as it may have leaked from the shell of a job into that of a check, and some that are no launcher's.
LAUNCHERS = {
    "RANK": "5", "WORLD_SIZE": "64", "LOCAL_RANK": "5", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "1", "ROLE_RANK": "5",
    "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500", "PET_NNODES": "2", "PET_NODE_RANK": "1", "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": "none", "SLURM_PROCID": "3", "SLURM_JOB_ID": "17", "OMPI_COMM_WORLD_RANK": "5", "PMI_RANK": "5",
    "PMIX_RANK": "5", "JSM_NAMESPACE_RANK": "5",
}  # fmt: skip
THEIR_OWN = {"OMP_NUM_THREADS": "3", "MY_RANK": "5", "NCCL_DEBUG": "WARN"}


def no_launcher_reaches(told: Path, ranks: int) -> None:
    """What the ranks wrote of their environment (the patch "environment-told") has nothing of LAUNCHERS and all of THEIR_OWN."""
    environments = [json.loads(path.read_text(encoding="utf-8")) for path in told.iterdir()]
    assert len(environments) == ranks
    for environment in environments:
        assert not LAUNCHERS.keys() & environment.keys()
        assert THEIR_OWN.items() <= environment.items()


def processes_with(word: str) -> list[str]:
    """Command lines of running processes that hold `word`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if word in line:
                found.append(line)
    return found


def leaves_a_daemon(path: Path, word: str) -> Path:
    """A program that starts a process in a session of its own, which holds `word`, and fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    daemon = f"setsid {sys.executable} -c 'import time; time.sleep(300)' {word}"
    path.write_text(f"#!/bin/sh\n({daemon} >/dev/null 2>&1 &)\nsleep 0.3; touch {path}.ran; exit 1\n")
    path.chmod(0o755)
    return path


def all_gone(word: str, seconds: float = 10.0) -> bool:
    """Whether no running process holds `word`. What was killed may take its moment to be gone on a busy machine."""
    limit = time.monotonic() + seconds
    while processes_with(word):
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def processes_below(home: Path) -> list[str]:
    """Names of running processes whose HOME is `home`: those of one test, whoever else runs the same fakes."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if f"HOME={home}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(Path(f"/proc/{name}/comm").read_text().strip())
            except OSError:
                continue
    return found


# Why no network namespace can be made here, "" if one can.
NO_ISOLATION: str = "" if sys.platform == "linux" and not isolation.make()[1] else "needs network namespaces"
