"""The matrix: envcheck on real wheels of torch, release by release, from outside, inside and as a tool. `-m torches` runs it (an hour).

Every environment here is healthy on a machine without a GPU, so wanted is: exit 0, a live check that passed, no finding above info.
Nothing here is a stand-in. What it cannot prove are kernels and NCCL: there is no GPU (see test_stub_driver.py for half of one).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from torches import CHECKOUT, Made, made, uv

pytestmark = pytest.mark.torches
__all__ = ["made"]

SECONDS = 400.0  # for one check; under load the full one takes a minute


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "-q", "--wheel", "--outdir", str(folder), str(CHECKOUT)], check=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return str(found)


@pytest.fixture(scope="session")
def tool(wheel: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """envcheck as `uv tool install` makes it: in an environment of its own, without torch."""
    folder = tmp_path_factory.mktemp("tool")
    env = {**os.environ, "UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    subprocess.run([uv(), "tool", "install", "-q", "-p", sys.executable, wheel], env=env, check=True, timeout=300)
    return str(folder / "bin/envcheck")


def clean(**more: str) -> dict[str, str]:
    """The environment of a shell in which nothing is active."""
    taken = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "CUDA_VISIBLE_DEVICES")
    return {key: value for key, value in os.environ.items() if key not in taken} | more


def check(argv: list[str], env: dict[str, str], cwd: Path) -> dict[str, Any]:
    """The report of one run; it must be green, with nothing above info."""
    done = subprocess.run([*argv, "--json"], env=env, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout)
    told = [(one["rule"], one["severity"], one["message"]) for one in report["findings"] if one["severity"] != "info"]
    live = report["live"]
    assert (done.returncode, report["verdict"], told) == (0, "pass", []), (told, live["status"], live["reason"], report["unknown"])
    return report


def outside(made: Made, tmp_path: Path, *flags: str, **env: str) -> dict[str, Any]:
    return check([sys.executable, "-m", "envcheck", "--python", str(made.place), *flags], clean(**env), tmp_path)


def test_three_in_a_row(made: Made, tmp_path: Path) -> None:
    for _ in range(3):
        report = outside(made, tmp_path)
        assert report["live"]["status"] == "pass" and report["live"]["start_method"] == "fork"
        assert {arm["name"]: arm["status"] for arm in report["live"]["arms"]} == {"gloo-loopback": "pass", "gloo-as-is": "pass"}


def test_facts_are_those_that_torch_states(made: Made, tmp_path: Path) -> None:
    report = outside(made, tmp_path, "--live", "off")
    torch = report["facts"]["torch"]
    assert torch["version"] == made.build["version"] and torch["cuda"] == made.build.get("cuda")
    if made.build.get("cuda"):
        assert torch["arch_list"] == made.says("import torch; print(torch._C._cuda_getArchFlags())").split()
        said = made.says("import torch; v = torch.cuda.nccl.version(); print('.'.join(map(str, v)) if isinstance(v, tuple) else v)")
        assert torch["nccl_loaded"] == said
        for expected, code in ((f"nccl=={said}", 0), ("nccl>=99", 1), ("gpus>=1", 1)):
            argv = [sys.executable, "-m", "envcheck", "--python", str(made.place), "--live", "off", "--expect", expected]
            done = subprocess.run(argv, env=clean(), cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
            assert done.returncode == code, (expected, done.stdout)


def test_what_a_cuda_build_means_without_a_gpu(made: Made, tmp_path: Path) -> None:
    if not made.build.get("cuda"):
        pytest.skip("the index serves a CPU build")
    for visible in ({}, {"CUDA_VISIBLE_DEVICES": ""}):
        argv = [sys.executable, "-m", "envcheck", "--python", str(made.place)]
        done = subprocess.run(argv, env=clean(**visible), cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stdout
        assert f"torch {made.build['version']} has CUDA; this machine has no NVIDIA GPU: training runs on the CPU" in " ".join(
            done.stdout.split()
        )
        assert "✗" not in done.stdout and "error:" not in done.stdout and "warning:" not in done.stdout


def test_no_device_is_visible(made: Made, tmp_path: Path) -> None:
    assert outside(made, tmp_path, CUDA_VISIBLE_DEVICES="")["live"]["status"] == "pass"


def test_full(made: Made, tmp_path: Path) -> None:
    report = outside(made, tmp_path, "--live", "full")
    arms = {arm["name"]: (arm["status"], arm["reason"]) for arm in report["live"]["arms"]}
    assert not [one for one in arms.items() if one[1][0] not in ("pass", "skipped")], arms
    # What every release must really have done, and not left out.
    done = {name for name, (status, _) in arms.items() if status == "pass"}
    assert done >= {
        "gloo-loopback",
        "collectives-gloo",
        "ddp-join",
        "ddp-bucket-view",
        "dataloader",
        "checkpoint",
        "store-file",
        "mp-spawn",
    }, arms


def test_ranks_started_afresh(made: Made, tmp_path: Path) -> None:
    report = outside(made, tmp_path, "--start-method", "spawn")
    assert report["live"]["status"] == "pass" and report["live"]["start_method"] == "spawn"


def test_static(made: Made, tmp_path: Path) -> None:
    report = outside(made, tmp_path, "--static")
    assert report["facts"]["torch"]["version"] == made.build["version"]


def test_inside(made: Made, wheel: str, tmp_path: Path) -> None:
    if made.row.python in ("3.8", "3.9"):
        pytest.skip("envcheck itself needs Python 3.10; from outside it examines older ones")
    subprocess.run([uv(), "pip", "install", "-q", "-p", str(made.place), wheel], check=True, timeout=300)
    try:
        report = check([str(made.place / "bin/envcheck")], clean(), tmp_path)
        assert report["live"]["status"] == "pass"
        check([made.python, "-m", "envcheck", "--static"], clean(), tmp_path)
    finally:
        subprocess.run([uv(), "pip", "uninstall", "-q", "-p", str(made.place), "torch-envcheck"], check=True, timeout=60)


def test_as_a_tool(made: Made, tool: str, tmp_path: Path) -> None:
    """The active environment is examined; without one, the python on PATH."""
    path = os.pathsep.join((str(made.place / "bin"), "/usr/local/bin", "/usr/bin", "/bin"))
    for env in (clean(VIRTUAL_ENV=str(made.place)), clean(PATH=path)):
        report = check([tool, "--live", "off"], env, tmp_path)
        assert report["facts"]["torch"]["version"] == made.build["version"]


@pytest.mark.parametrize(
    ("kind", "flags"),
    [("usual", ()), ("long", ()), ("open", ("--start-method", "spawn")), ("gone", ())],
    ids=["usual", "long", "open", "gone"],
)
def test_nothing_is_left(made: Made, tmp_path: Path, kind: str, flags: tuple[str, ...]) -> None:
    """Where ours may not be TMPDIR (agent/temporary.py): below a long one sockets would get names that are too long, in an open one ours
    does not lie, and without one Python takes /tmp."""
    if kind != "usual" and not made.build["version"].startswith("2.7.1"):
        pytest.skip("these folders are looked at with one release")
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        theirs = Path(folder) / ("x" * 70 if kind == "long" else kind)
        if kind != "gone":
            theirs.mkdir()
            theirs.chmod(0o777 if kind == "open" else 0o700)
        before = set(os.listdir("/tmp"))
        outside(made, tmp_path, *flags, TMPDIR=str(theirs))
        assert kind == "gone" or os.listdir(theirs) == []
        new = [Path("/tmp", name, "_remote_module_non_scriptable.py") for name in set(os.listdir("/tmp")) - before]
        deadline = time.monotonic() + 120
        while any(one.exists() for one in new) and time.monotonic() < deadline:  # those of other programs that import torch meanwhile go
            time.sleep(1)
        assert not [one for one in new if one.exists()]


# Marks the process as one that uses CUDA as soon as torch is imported.
POISON = """
import importlib.abc, importlib.util, sys

class After(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda module: (run(module), module._C._cuda_getArchFlags())
        return spec

sys.meta_path.insert(0, After())
"""


def test_a_child_that_may_not_use_cuda_is_not_asked(made: Made, tmp_path: Path) -> None:
    """What comes with the import has asked what marks the process: fork is of no use then, and nobody is blamed for it."""
    if not made.build.get("cuda"):
        pytest.skip("the index serves a CPU build")
    (tmp_path / "sitecustomize.py").write_text(POISON)
    report = outside(made, tmp_path, PYTHONPATH=str(tmp_path))
    assert report["live"]["status"] == "pass" and report["live"]["start_method"] == "spawn"
    assert "may not use CUDA" in report["live"]["start_reason"]


def test_the_readmes_first_command(tmp_path: Path) -> None:
    """As a stranger runs it: in an empty folder with a checkout, with the index that pip knows by itself and nothing beside it."""
    command = re.search(r"^```sh\n(python3 -m venv .*envcheck)\n```$", (CHECKOUT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert command
    files = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, files):
        if (CHECKOUT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, tmp_path / name)
    env = {key: value for key, value in clean().items() if key not in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    done = subprocess.run(["bash", "-c", command[1]], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=1800)
    shutil.rmtree(tmp_path / ".venv", ignore_errors=True)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert "Ready to train" in done.stdout and "✗" not in done.stdout
