"""`--try` on real wheels of torch from the package index, gigabytes each. `-m torches` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from torches import uv

from envcheck.trial.place import PREFIX

pytestmark = pytest.mark.torches
SECONDS = 1500.0


class Mirror(BaseHTTPRequestHandler):
    """A mirror of download.pytorch.org that knows one variant of each package: PyPI's."""

    def do_GET(self) -> None:
        name = self.path.strip("/").rpartition("/")[2]
        self.send_response(302)
        self.send_header("Location", f"https://pypi.org/simple/{name}/")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def mirror() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/whl"
    server.shutdown()
    server.server_close()


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment without torch, with a numpy that stays."""
    folder = tmp_path / "user env"
    subprocess.run([uv(), "venv", "-q", "--python", sys.executable, str(folder)], check=True, timeout=120)
    subprocess.run([uv(), "pip", "install", "-q", "--python", str(folder / "bin/python"), "numpy"], check=True, timeout=300)
    return folder


def envcheck(tmp_path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PATH": f"{Path(uv()).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "-m", "envcheck", *words], env=env, capture_output=True, text=True, timeout=SECONDS)
    assert done.stdout, done.stderr[-2000:]
    assert os.listdir(tmp_path / "tmp") == []
    assert not [path for path in Path.home().glob(f".cache/{PREFIX}*") if str(os.getpid()) in path.name]
    document: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, document


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if "__pycache__" not in path.parts}


def test_a_way_is_built_and_trained_with(tmp_path: Path, environment: Path) -> None:
    before = files(environment)
    code, document = envcheck(tmp_path, "plan", "--try", "--yes", "--json", "--python", str(environment), "torch==2.9.1", "cu128")
    way = document["plan"]["ways"][0]
    assert (code, way["grade"], way["trial"]["status"], way["trial"]["tool"]) == (0, "tried", "passed", "uv"), way["trial"]
    printed = way["commands"]["uv"][0]
    assert way["trial"]["commands"][-1].split()[5:] == printed.partition(str(environment / "bin/python") + "'")[2].split()
    assert way["trial"]["download_bytes"] > 2e9
    assert files(environment) == before


def test_the_fix_of_an_environment_without_torch_is_tried(tmp_path: Path, environment: Path, mirror: str) -> None:
    words = ["--fix-suggest", "--try", "--yes", "--json", "--python", str(environment), "--index-base", mirror]
    code, document = envcheck(tmp_path, *words)
    (finding,) = [one for one in document["findings"] if one["rule"] == "torch-missing"]
    fix = finding["fixes"][0]
    assert (code, fix["grade"], fix["trial"]["status"]) == (1, "tried", "passed"), fix
