"""Environments with a real torch that tests break for real, what Python itself shows of them, and the printed command as a user runs it.

One base is made by uv at a time, out of its cache by hard links; what a test breaks is a copy of it, again by hard links, so a damage
has to replace a file and never write into it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torches import call, interpreters, uv

CHECK_SECONDS = 300.0
STEP_SECONDS = 240.0


@dataclass(frozen=True)
class Base:
    """An environment as it is before anything happens to it."""

    torch: str  # "2.13.0+cpu"
    python: str  # "3.11"
    beside: tuple[str, ...] = ("numpy", "setuptools")
    pip: bool = False  # made as `python -m venv` makes it: pip is in it, and its commands come first


BASES = {
    "cpu": Base("2.13.0+cpu", "3.11"),
    "cpu-pip": Base("2.13.0+cpu", "3.11", pip=True),
    "2.15": Base("2.15.0", "3.13"),
    "2.14": Base("2.14.1", "3.13"),
    "2.9": Base("2.9.1", "3.13"),
    "2.7": Base("2.7.1", "3.13"),
    "2.6": Base("2.6.0", "3.12"),
    "2.4": Base("2.4.1", "3.12"),
    "2.2": Base("2.2.2", "3.11", ("numpy<2", "setuptools<70")),
    "2.1": Base("2.1.2", "3.11", ("numpy<2", "setuptools<70")),
    "1.13": Base("1.13.1", "3.10", ("numpy<2", "setuptools<70")),
}


@cache
def links() -> str | None:
    """The folder or page of wheels that pip is configured with, where torch's download index cannot be reached."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.find-links"], capture_output=True, text=True, timeout=60)
    return os.environ.get("PIP_FIND_LINKS") or said.stdout.strip() or None


@cache
def linked() -> tuple[str, ...]:
    """The wheels in that folder, by the beginning of their names: "torch-2.13.0+cpu"."""
    folder = Path(links() or "/nonexistent")
    return tuple("-".join(path.name.split("-")[:2]) for path in folder.glob("*.whl"))


@dataclass
class Place:
    """One environment, and the shell that its user sits in."""

    root: Path
    base: Base
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    python: str = ""  # what is examined and run; the environment's own unless a damage says otherwise

    def __post_init__(self) -> None:
        self.python = self.python or str(self.root / "bin/python")

    @property
    def site(self) -> Path:
        return self.root / f"lib/python{self.base.python}/site-packages"

    def find(self, pattern: str) -> Path:
        [found] = self.site.glob(pattern)
        return found

    def replace(self, pattern: str, content: bytes) -> None:
        """Other content in a new file: the old one belongs to the base and to uv's cache as well."""
        path = self.find(pattern) if any(letter in pattern for letter in "*?") else self.site / pattern
        path.unlink(missing_ok=True)
        path.write_bytes(content)

    def uv(self, *words: str) -> None:
        """`uv pip install …` and `uninstall …` as someone did before the check."""
        call([uv(), "pip", words[0], "-q", "-p", str(self.root), *words[1:]], self.shell())

    def shell(self) -> dict[str, str]:
        """Variables of a shell in which nothing is active but what a damage set."""
        taken = (
            "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONDONTWRITEBYTECODE",
        )  # fmt: skip
        path = os.pathsep.join((os.path.dirname(uv()), os.environ["PATH"]))
        return {key: value for key, value in os.environ.items() if key not in taken} | {"PATH": path} | self.env


class Bases:
    """The base that is there now; another one takes its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name: str | None = None
        self.count = 0

    def copy(self, name: str) -> Place:
        base = BASES[name]
        if base.python not in interpreters():
            pytest.skip(f"no CPython {base.python} on this machine for torch {base.torch}")
        if self.name != name:
            self.close()
            make(base, self.folder / "base")
            self.name = name
        self.count += 1
        root, cwd = self.folder / f"env{self.count}", self.folder / f"work{self.count}"
        subprocess.run(["cp", "-al", str(self.folder / "base"), str(root)], check=True, timeout=300)
        cwd.mkdir()
        return Place(root, base, cwd)

    def close(self) -> None:
        shutil.rmtree(self.folder / "base", ignore_errors=True)


def make(base: Base, place: Path) -> None:
    shell = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if base.pip:
        call([interpreters()[base.python], "-m", "venv", str(place)], shell)
    else:
        call([uv(), "venv", "-q", "-p", interpreters()[base.python], str(place)], shell)
    source = []
    if base.torch.endswith("+cpu"):
        source = ["--find-links", links() or ""] if f"torch-{base.torch}" in linked() else ["--torch-backend=cpu"]
    call([uv(), "pip", "install", "-q", "-p", str(place), f"torch=={base.torch}", *base.beside, *source], shell)
    # Compiled once here, not in each copy.
    warm = "import torch, torch.distributed.run, importlib.util as u; u.find_spec('torch._dynamo') and __import__('torch._dynamo')"
    call([str(place / "bin/python"), "-W", "ignore", "-c", warm], shell)


# ---------------------------------------------------------------- what Python shows

STEPS = {
    "import": "import torch",
    "backward": "x = torch.ones(4, requires_grad=True); (x * x).sum().backward(); assert x.grad[0] == 2",
    "numpy": "assert torch.ones(2).numpy().sum() == 2",
    "torchvision": "import torchvision; assert torchvision.ops.nms(torch.ones(1, 4), torch.ones(1), 0.5)[0] == 0",
    "torchaudio": "import torchaudio",
    "torchtext": "import torchtext",
    "torchcodec": "import torchcodec.decoders",
    "xformers": "import xformers._cpp_lib as lib; assert lib._cpp_library_load_exception is None",
    "torchao": "import torchao.quantization",
    "cudnn": "torch.backends.cudnn.version()",
    "compile": "assert torch.compile(lambda x: x.sin() + 1)(torch.ones(3)).shape == (3,)",
}
BY_ITSELF = """
import sys, warnings
warnings.simplefilter("ignore")
for name, code in {steps!r}.items():
    try:
        exec(code)
    except Exception as error:
        print("FAILED", name, type(error).__name__, str(error).strip()[-300:].replace("\\n", " "), flush=True)
        if name == "import":
            sys.exit(1)
    else:
        print("WORKS", name, flush=True)
"""
DDP = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
kept = torch.ones(1)
dist.all_reduce(kept)
assert kept.item() == 2.0
print("STEPPED", flush=True)
"""


@dataclass(frozen=True)
class Truth:
    """The steps that fail in Python itself, with its words."""

    failed: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.failed)


def truth(place: Place, steps: tuple[str, ...] = ()) -> Truth:
    """`import torch`, a backward pass, NumPy, the given steps, and a step of DDP that torchrun starts in two processes."""
    wanted = {name: STEPS[name] for name in ("import", "backward", "numpy", *(one for one in steps if one in STEPS))}
    failed = {}
    done = _run(place, "-c", BY_ITSELF.format(steps=wanted))
    said = dict(re.findall(r"^(?:WORKS|FAILED) (\S+) ?(.*)$", done.stdout, re.MULTILINE))
    works = set(re.findall(r"^WORKS (\S+)$", done.stdout, re.MULTILINE))
    for name in wanted:
        if name not in works:
            failed[name] = said.get(name, f"exit {done.returncode}: {done.stderr[-300:]}")
    if "import" in failed:
        return Truth({"import": failed["import"]})
    (place.cwd / "ddp_step.py").write_text(DDP)
    if place.env.get("NO_DDP") is None:
        # torch 1.13 knows only the spelling with underscores, every later one both.
        done = _run(place, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "ddp_step.py")
        if done.stdout.count("STEPPED") != 2:
            failed["ddp"] = f"exit {done.returncode}: {(done.stdout + done.stderr)[-600:]}"
    (place.cwd / "ddp_step.py").unlink()
    if "pins" in steps:
        # What uv would change to have torch as its metadata wants it; `pip check` does not see requirements behind an extra.
        argv = [uv(), "pip", "install", "--dry-run", "-p", place.python, f"torch=={place.base.torch}"]
        asked = subprocess.run(argv, cwd=place.cwd, env=place.shell(), capture_output=True, text=True, timeout=300)
        if wrong := re.findall(r"^ [-+~] (\S+)", asked.stderr, re.MULTILINE):
            failed["pins"] = " ".join(wrong)
    return Truth(failed)


def _run(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    env = place.shell() | {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(place.root.parent / f"{place.root.name}-inductor")}
    try:
        return subprocess.run([place.python, *words], cwd=place.cwd, env=env, capture_output=True, text=True, timeout=STEP_SECONDS)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(words, 124, (error.stdout or b"").decode() if error.stdout else "", "timed out")


# ---------------------------------------------------------------- what envcheck says


@dataclass(frozen=True)
class Said:
    """A report in what matters here."""

    report: dict[str, Any]

    @property
    def code(self) -> int:
        return int(self.report["exit_code"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.report["findings"]
        return found

    @property
    def loud(self) -> list[str]:
        return [one["rule"] for one in self.findings if one["severity"] != "info"]

    @property
    def rules(self) -> list[str]:
        return [one["rule"] for one in self.findings]

    @property
    def python(self) -> dict[str, Any]:
        facts: dict[str, Any] = self.report["facts"]["python"]
        return facts

    def first_command(self) -> tuple[str, ...]:
        """The lines that a user reads first: of the first finding that has some, in the tool that owns the environment."""
        order = ("uv", "pip", "shell") if self.python.get("uv") or self.python.get("has_pip") is False else ("pip", "uv", "shell")
        for finding in self.findings:
            for fix in finding["fixes"]:
                for tool in order:
                    if lines := tuple(fix["commands"][tool]):
                        return lines
        return ()

    @property
    def words(self) -> str:
        return "\n".join(
            f"{one['severity']} {one['rule']}: {one['message']} {[fix['title'] for fix in one['fixes']]}" for one in self.findings
        )


def check(place: Place, *flags: str) -> Said:
    argv = [sys.executable, "-m", "envcheck", "--python", place.python, "--fix-suggest", "--json", *flags]
    done = subprocess.run(argv, cwd=place.cwd, env=place.shell(), capture_output=True, text=True, timeout=CHECK_SECONDS)
    assert done.stdout, done.stderr[-2000:]
    return Said(json.loads(done.stdout))


# ---------------------------------------------------------------- the command

_FROM_INDEX = re.compile(r" --torch-backend=(\S+)| --(?:extra-)?index(?:-url)?[ =]https://download\.pytorch\.org/whl/(\S+)")


def index_of(lines: tuple[str, ...]) -> str | None:
    """The variant whose index at pytorch.org a command asks."""
    found = _FROM_INDEX.search("\n".join(lines))
    return (found[1] or found[2]) if found else None


def reachable(lines: tuple[str, ...]) -> tuple[str, ...] | None:
    """The lines as they can be run here: printed ones as they are; torch's own index is a folder of wheels where that has the same ones."""
    variant = index_of(lines)
    if variant is None or links() is None:
        return lines
    names = re.findall(r"(?<=\s)(torch\w*)==([\w.]+)(?:\+\w+)?", "\n".join(lines))
    if not names or any(f"{name}-{version}+{variant}" not in linked() for name, version in names):
        return None
    local = [
        re.sub(r"(?<=\s)(torch\w*==[\d.]+)(?!\+)(?=\s|$)", rf"\1+{variant}", line) if _FROM_INDEX.search(line) else line for line in lines
    ]
    return tuple(_FROM_INDEX.sub(f" --find-links {links()}", line) for line in local)


def run(place: Place, lines: tuple[str, ...]) -> str:
    """Run them in the user's shell, which keeps what they export; what the shell said, where one failed."""
    after = place.cwd.parent / f"{place.cwd.name}.env"
    script = "\n".join(["set -e", *lines, f'cd "$OLDPWD" 2>/dev/null || true; env -0 > {after}'])
    done = subprocess.run(["bash", "-c", script], cwd=place.cwd, env=place.shell(), capture_output=True, text=True, timeout=900)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr[-1500:]}"
    new = dict(one.split("=", 1) for one in after.read_text().split("\0") if "=" in one)
    place.env = {key: new[key] for key in place.env if key in new} | {
        key: new[key] for key in new if key.isupper() and key not in os.environ
    }
    return ""


def removed(place: Place) -> None:
    for path in (place.root, place.cwd, Path(f"{place.root}-inductor"), Path(f"{place.cwd}.env")):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bases]:
    found = Bases(tmp_path_factory.mktemp("environments"))
    yield found
    shutil.rmtree(found.folder, ignore_errors=True)
