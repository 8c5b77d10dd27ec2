"""A way for another machine, resolved by the real installers from an index that has wheels for one platform."""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

import pytest
from patients import all_gone, leaves_a_daemon
from trial_wheels import index, installer, variables, wheel

from envcheck.planner.profile import Profile
from envcheck.planner.result import Commands
from envcheck.trial.installer import Installer
from envcheck.trial.resolve import run_resolve
from envcheck.trial.trial import Attempt, Bench, Checked, run_trial

LINUX = Profile(os="linux", machine="x86_64", glibc="2.35", python="3.12", implementation="cpython")
WINDOWS = Profile(os="windows", machine="x86_64", python="3.12", implementation="cpython")
MAC = Profile(os="darwin", machine="arm64", macos="14.2", python="3.12", implementation="cpython")


def resolved(tool: str, machine: Profile, tmp_path: Path, *wheels: Path) -> tuple[str, str]:
    url = index(tmp_path / "simple", *wheels)
    start = "uv pip install" if tool == "uv" else "python -m pip install"
    lines = (f"{start} demo==1.0 --index-url {url}",)
    commands = Commands(uv=lines) if tool == "uv" else Commands(pip=lines)
    bench = Bench(installer(tool, variables(tmp_path)), lambda *_: Checked("pass"), lambda _: False, time.monotonic() + 120)
    found = run_resolve(Attempt("Install demo", commands), bench, machine)
    assert not list((tmp_path / "tmp").glob("envcheck-*"))
    assert not list(tmp_path.rglob("demo.py"))
    return found.status, found.reason


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is Linux's")
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_daemon_that_an_installer_starts_ends_with_the_trial(tmp_path: Path, elsewhere: bool) -> None:
    mark = f"daemon-{uuid.uuid4().hex}"
    uv = leaves_a_daemon(tmp_path / "bin" / "uv", mark)
    bench = Bench(
        Installer("uv", sys.executable, str(uv), variables(tmp_path)), lambda *_: Checked("pass"), lambda _: False, time.monotonic() + 60
    )
    attempt = Attempt("Install demo", Commands(uv=("uv pip install demo==1.0",)))
    found = run_resolve(attempt, bench, LINUX) if elsewhere else run_trial(attempt, bench)
    assert found.status != "passed" and Path(f"{uv}.ran").exists() and all_gone(mark, 2.0)


@pytest.mark.parametrize("tool", ["uv", "pip"])
@pytest.mark.parametrize(
    ("machine", "tag"),
    [
        (LINUX, "cp312-cp312-manylinux_2_28_x86_64"),
        (WINDOWS, "cp312-cp312-win_amd64"),
        (MAC, "cp312-none-macosx_14_0_arm64"),
        (LINUX, "cp312-cp312-manylinux2014_x86_64"),
    ],
    ids=["linux", "windows", "mac", "manylinux2014"],
)
def test_what_fits_that_machine_is_resolved_and_nothing_downloaded(tool: str, machine: Profile, tag: str, tmp_path: Path) -> None:
    assert resolved(tool, machine, tmp_path, wheel(tmp_path, "demo", "1.0", tag=tag)) == ("resolved", "")


@pytest.mark.parametrize("tool", ["uv", "pip"])
@pytest.mark.parametrize(
    "tag",
    [
        "cp313-cp313-manylinux_2_28_x86_64",
        "cp312-cp312-manylinux_2_28_aarch64",
        "cp312-cp312-manylinux_2_39_x86_64",
        "cp312-cp312-win_amd64",
    ],
)
def test_what_fits_another_machine_only_is_refuted(tool: str, tag: str, tmp_path: Path) -> None:
    status, reason = resolved(tool, LINUX, tmp_path, wheel(tmp_path, "demo", "1.0", tag=tag))
    assert (status, "demo" in reason) == ("failed", True)


@pytest.mark.parametrize("machine", [Profile(os="linux", python="3.14t"), Profile(os="linux", python=None), Profile(python="3.12")])
def test_a_machine_that_no_installer_can_be_asked_about(machine: Profile, tmp_path: Path) -> None:
    assert resolved("uv", machine, tmp_path, wheel(tmp_path, "demo", "1.0"))[0] == "not-run"
