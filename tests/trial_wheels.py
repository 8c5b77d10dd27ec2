"""Tiny wheels in an index of their own, so that an installer can be watched at work without a network."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from envcheck.host.access import Completed
from envcheck.trial.installer import Installer, find_installer
from envcheck.trial.trial import Attempt, Bench, Checked


def wheel(folder: Path, name: str, version: str, body: str = "", requires: Sequence[str] = (), tag: str = "py3-none-any") -> Path:
    """NAME-VERSION-TAG.whl with one module NAME whose code is `body`."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{name}.py": body or f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for path, text in files.items()
    )
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)
    return path


def index(root: Path, *wheels: Path) -> str:
    """The URL of a simple index that holds some wheels."""
    for path in wheels:
        folder = root / path.name.partition("-")[0].replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "index.html"
        page.write_text((page.read_text() if page.exists() else "<!DOCTYPE html>") + f'<a href="{path.as_uri()}">{path.name}</a>\n')
    return root.as_uri()


def variables(tmp_path: Path, **more: str) -> dict[str, str]:
    """The environment of a user whose caches, folders and settings are a test's own."""
    for name in ("tmp", "cache", "home"):
        (tmp_path / name).mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "UV_")) and name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    mine = {
        "HOME": tmp_path / "home",
        "UV_CACHE_DIR": tmp_path / "cache" / "uv",
        "PIP_CACHE_DIR": tmp_path / "cache" / "pip",
        "TMPDIR": tmp_path / "tmp",
    }
    nothing = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "UV_HTTP_RETRIES": "0", "PIP_RETRIES": "1"}
    return kept | {name: str(path) for name, path in mine.items()} | nothing | more


def installer(tool: str, env: Mapping[str, str], target: str = sys.executable) -> Installer:
    found = find_installer(tool, target, env)
    assert found is not None
    assert found.tool == tool
    return found


def imports(module: str, using: Installer) -> object:
    """A check that passes where a module can be imported, and fails with the last words where it cannot."""

    def check(python: str, variables: Mapping[str, str | None], seconds: float) -> Checked:
        done: Completed = using.run((python, "-c", f"import {module}"), seconds)
        return Checked("pass") if done.ok else Checked("fail", (done.stdout.strip().splitlines()[-1],))

    return check


__all__ = ["Attempt", "Bench", "imports", "index", "installer", "variables", "wheel"]
