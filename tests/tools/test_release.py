"""What a release promises: the same bytes from the same tree, a list of what is inside, and dependencies from the oldest to the newest.

`python -m pytest -m slow tests/tools/test_release.py` (three minutes; asks a package registry).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.network]
LOG = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n"
FORMATS = ("text", "json", "markdown", "html", "junit", "sarif", "github")


def run(*words: str, code: int = 0, **options: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == code, done.stdout + done.stderr
    return str(done.stdout)


def uv() -> str:
    return shutil.which("uv") or str(Path(sys.executable).parent / "uv")


def checkout(folder: Path) -> Path:
    """The files that git knows, as a release is made of them."""
    for name in run("git", "ls-files", "-z", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An environment with the oldest of each dependency, and one with the newest."""
    folder = tmp_path_factory.mktemp("dependencies")
    for name in ("lowest-direct", "highest"):
        run(uv(), "venv", "-q", "-p", sys.executable, str(folder / name))
        run(uv(), "pip", "install", "-q", "-p", str(folder / name), "--resolution", name, str(ROOT))
    return {name: folder / name for name in ("lowest-direct", "highest")}


def test_the_oldest_and_the_newest_dependencies_print_the_same(installed: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    versions = {name: run(uv(), "pip", "freeze", "-p", str(folder)) for name, folder in installed.items()}
    assert "rich==13.0.0" in versions["lowest-direct"] and "packaging==23.0" in versions["lowest-direct"], versions
    assert versions["lowest-direct"] != versions["highest"]
    said: dict[str, list[str]] = {}
    for name, folder in installed.items():
        command = str(folder / "bin" / "envcheck")
        said[name] = [run(command, "diagnose", "--format", form, "log", code=1, cwd=tmp_path) for form in FORMATS]
        said[name].append(run(command, "plan", "torch", "--for", "h100", "--driver", "580.95.05", "--python", "3.12", cwd=tmp_path))
        report = json.loads(run(command, "--static", "--json", "--python", sys.executable, "--fail-on", "never", cwd=tmp_path))
        said[name].append(report["verdict"])
    assert said["lowest-direct"] == said["highest"]


def test_a_wheel_and_an_sdist_built_twice_are_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for number, mask in enumerate((0o022, 0o077)):
        tree = checkout(tmp_path / f"tree-{number}")
        out = tmp_path / f"dist-{number}"
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000", "TZ": ("UTC", "Asia/Tokyo")[number]}
        run(uv(), "build", "-q", "--out-dir", str(out), str(tree), umask=mask, env=environment)
        files = sorted(path for path in out.iterdir() if path.suffix in (".whl", ".gz"))
        assert len(files) == 2
        digests.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
    assert digests[0] == digests[1]


def test_the_list_of_what_is_inside(installed: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "torch_envcheck.cdx.json"
    tool = (uv(), "tool", "run", "-q", "--from", "cyclonedx-bom", "cyclonedx-py", "environment")
    run(
        *tool,
        str(installed["highest"] / "bin" / "python"),
        "--pyproject",
        "pyproject.toml",
        "--output-reproducible",
        "-o",
        str(path),
        cwd=ROOT,
    )
    bom = json.loads(path.read_text())
    assert bom["bomFormat"] == "CycloneDX" and bom["metadata"]["component"]["name"] == "torch-envcheck"
    assert {"rich", "packaging", "nvidia-ml-py"} <= {one["name"] for one in bom["components"]}
    assert str(Path.home()) not in path.read_text().replace(str(ROOT), "")
