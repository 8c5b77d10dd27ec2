"""envcheck as a tool of its own: a wheel made of the checkout, installed by the real `uv tool install`, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from envcheck import __version__

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")
needs_uv = pytest.mark.skipif(not UV.exists(), reason="uv is not beside the test interpreter")
# What the wheel asks for; the tool's environment takes it from the test interpreter's.
DEPENDENCIES = ("rich", "markdown_it", "mdurl", "pygments", "packaging", "pynvml", "tomli")


@dataclass(frozen=True)
class Tool:
    environment: Path
    command: Path

    def run(self, *words: str, cwd: Path, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """The command with nothing in its environment but PATH, HOME and `variables`."""
        env = {"PATH": path, "HOME": str(cwd), "COLUMNS": "200", **variables}
        return subprocess.run([self.command, *words], capture_output=True, text=True, env=env, timeout=120, cwd=cwd)


def wheel(folder: Path) -> Path:
    """The package and its rules as a wheel that depends on nothing."""
    path = folder / f"torch_envcheck-{__version__}-py3-none-any.whl"
    info = f"torch_envcheck-{__version__}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: torch-envcheck\nVersion: {__version__}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "entry_points.txt": "[console_scripts]\nenvcheck = envcheck.cli:main\ntorch-envcheck = envcheck.cli:main\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for source, target in ((ROOT / "envcheck", "envcheck"), (ROOT / "rules", "envcheck/_rules")):
            for file in sorted(source.rglob("*")):
                if file.is_file() and file.suffix != ".pyc":
                    archive.write(file, f"{target}/{file.relative_to(source).as_posix()}")
        for name, text in texts.items():
            archive.writestr(f"{info}/{name}", text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*archive.namelist(), f"{info}/RECORD"]))
    return path


def install(folder: Path) -> Tool:
    env = {
        **os.environ,
        "UV_TOOL_DIR": str(folder / "tools"),
        "UV_TOOL_BIN_DIR": str(folder / "bin"),
        "UV_CACHE_DIR": str(folder / "cache"),
    }
    words = [UV, "tool", "install", "--offline", "--no-config", "--python", sys.executable, wheel(folder)]
    done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    tool = Tool(folder / "tools" / "torch-envcheck", folder / "bin" / "envcheck")
    assert (tool.environment / "uv-receipt.toml").exists()
    for name in DEPENDENCIES:
        spec = find_spec(name)
        if spec and spec.submodule_search_locations:
            (site_packages(tool.environment) / name).symlink_to(spec.submodule_search_locations[0])
        elif spec and spec.origin:
            (site_packages(tool.environment) / f"{name}.py").symlink_to(spec.origin)
    return tool


def site_packages(environment: Path) -> Path:
    [found] = environment.glob("lib/python*/site-packages")
    return found


def environment(folder: Path, *, torch: bool) -> Path:
    """A virtual environment, with the remains of a CPU torch that are enough for --static."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    if torch:
        put_torch(site_packages(folder))
    return folder


def put_torch(site: Path) -> None:
    from patients import fake_torch

    fake_torch(site, "raise ImportError", version="2.13.0+cpu", version_py="__version__ = '2.13.0+cpu'\ncuda = None\n")
