"""The pyproject.toml of a plan, locked for real: uv against a small index on the loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from plan_hosts import TABLES, TEXTS, checks, machine

from envcheck import planner
from envcheck.tables.toml import parse_toml

UV = shutil.which("uv", path=os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", ""))))

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TAG = f"cp{PYTHON.replace('.', '')}"
LINUX, WINDOWS, MAC = "manylinux_2_28_x86_64", "win_amd64", "macosx_14_0_arm64"
ROCM = {"torch": "2.11.0+rocm7.2", "torchvision": "0.26.0+rocm7.2", "triton-rocm": "3.6.0"}
XPU = {"torch": "2.12.0+xpu", "torchvision": "0.27.0+xpu", "triton-xpu": "3.7.0"}
CASES: dict[str, tuple[dict[str, Any], tuple[str, ...], Mapping[str, str], str]] = {
    "ROCm": ({"gpu": "mi300x"}, ("torch==2.11.0", "torchvision"), ROCM, LINUX),
    "XPU": ({"gpu": "b580"}, ("torch==2.12.0", "torchvision"), XPU, LINUX),
    "XPU on Windows": ({"gpu": "b580", "os": "windows"}, ("torch==2.12.0", "torchvision"), XPU, WINDOWS),
    "xformers for CUDA": (
        {"gpu": "4090", "driver": "580.95.05"},
        ("torch==2.14.1", "xformers"),
        {"torch": "2.14.1+cu130", "xformers": "0.0.35+cu130"},
        LINUX,
    ),
}


def wheel(folder: Path, name: str, version: str, platform: str, requires: str | None = None) -> None:
    """An empty wheel with metadata, in the place of a simple index."""
    stem = f"{name.replace('-', '_')}-{version}"
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    file = f"{stem}-{TAG}-{TAG}-{platform}.whl"
    with zipfile.ZipFile(place / file, "w") as archive:
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        archive.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{stem}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}-{TAG}-{platform}\n")
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    links = "".join(f'<a href="{one.name.replace("+", "%2B")}">{one.name}</a>\n' for one in sorted(place.glob("*.whl")))
    (place / "index.html").write_text(f"<html><body>{links}</body></html>", encoding="utf-8")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "index"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(UV is None, reason="uv is not installed here")
@pytest.mark.parametrize("case", CASES)
def test_uv_locks_it(case: str, index: tuple[Path, str], tmp_path: Path) -> None:
    spec, wish, there, platform = CASES[case]
    folder, url = index
    variant = there["torch"].partition("+")[2]
    triton = next((f"{name}=={version}" for name, version in there.items() if name.startswith("triton")), None)
    for name, version in there.items():
        wheel(folder / "whl" / variant, name, version, platform, triton if name == "torch" else None)
        if not name.startswith("triton"):  # PyPI has the others for every platform, and no triton of that name
            for other in (LINUX, WINDOWS, MAC):
                wheel(folder / "pypi", name, version.partition("+")[0], other)
    [way, *_] = planner.search(machine(spec), TABLES, wish, checks=checks(), texts=TEXTS, index_base=f"{url}/whl").ways
    project = tmp_path / "project"
    project.mkdir()
    head = '[project]\nname = "trial"\nversion = "0"\nrequires-python = "==' + PYTHON + '.*"\n'
    (project / "pyproject.toml").write_text(head + way.files["pyproject.toml"], encoding="utf-8")
    env = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(tmp_path),
        "UV_DEFAULT_INDEX": f"{url}/pypi",
        "UV_NO_CONFIG": "1",
        "NO_PROXY": "*",
    }
    command = [str(UV), "lock", "--no-cache", "--python", sys.executable]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    locked = {(one["name"], one["version"]) for one in parse_toml((project / "uv.lock").read_text(encoding="utf-8"))["package"]}
    assert set(there.items()) <= locked
