"""Virtual environments that borrow the packages of the test interpreter file by file, so that a test may take some of them away."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from patients import examine

from envcheck.collect import settle
from envcheck.commands.bases import base
from envcheck.facts.record import replace
from envcheck.report.report import Report
from envcheck.report.session import report_on, rule_session
from envcheck.tables.folders import rules_folder

# What `import torch`, a training step and torch.compile need.
BORROWED = ("torch", "numpy", "typing-extensions", "sympy", "mpmath", "networkx", "filelock", "jinja2", "markupsafe", "fsspec",
            "setuptools")  # fmt: skip


@dataclass
class Environment:
    """A virtual environment whose site-packages are links; a folder becomes a real one where something in it is changed."""

    root: Path
    sources: dict[str, Path] = field(default_factory=dict)

    @property
    def python(self) -> str:
        return str(self.root / "bin" / "python")

    @property
    def site(self) -> Path:
        return self.root / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"

    def real(self, folder: Path) -> None:
        """Make a linked folder of ours one of its own, with links to what it holds."""
        if folder == self.site or not folder.is_relative_to(self.site):
            return
        self.real(folder.parent)
        if folder.is_symlink():
            source = Path(os.readlink(folder))
            folder.unlink()
            folder.mkdir()
            for one in source.iterdir():
                (folder / one.name).symlink_to(one)

    def remove(self, pattern: str) -> str:
        """Take one file or folder away, and say its name below site-packages."""
        folder = (self.site / pattern).parent
        self.real(folder)
        [found] = folder.glob(Path(pattern).name)
        found.unlink()
        return str(found.relative_to(self.site))

    def write(self, file: str, content: bytes) -> None:
        self.remove(file)
        (self.site / file).write_bytes(content)

    def uninstall(self, name: str) -> None:
        """Take a whole distribution away."""
        for top in tops(distribution(name)):
            (self.site / top).unlink()

    def report(self, *, live: str = "off", static: bool = False, env: Mapping[str, str] | None = None, python: str | None = None) -> Report:
        """What envcheck says of it on a healthy machine without a GPU: the host of the tests has no say."""
        facts = examine(executable=python or self.python, live=live, static=static, env=dict(env or {})).facts
        host = base(Path(rules_folder()), "cpu")
        by = rule_session()
        return report_on(settle(replace(host, **facts), by), by)


def tops(one: Distribution) -> list[str]:
    """The names in site-packages that belong to a distribution, its metadata among them."""
    names = {Path(file).parts[0] for file in one.files or ()}
    return sorted(name for name in names if name not in ("..", "__pycache__", "bin"))


def borrowed(root: Path) -> Environment:
    """An environment with every package of BORROWED that the test interpreter has."""
    venv.create(root, with_pip=False, symlinks=True)
    made = Environment(root)
    for name in BORROWED:
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        for top in tops(one):
            target = made.site / top
            if not target.exists():
                target.symlink_to(Path(str(one.locate_file(top))).resolve())
    return made
