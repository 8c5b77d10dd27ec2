"""Names of torch that came with a later release than the one that is installed: since when they are there, and how to get it."""

from __future__ import annotations

import fnmatch

from envcheck.engine.intents import Intent, Manual
from envcheck.engine.rule import Facts
from envcheck.tables.versions import older

_INDEX = "--index-url https://download.pytorch.org/whl/cu126"  # PyPI's wheels for Windows are built without CUDA


def since(facts: Facts, asked: str) -> tuple[str, str] | None:
    """The package and the first release of it that has this name; None where that is not known, or where it is installed."""
    rows = [row for row in facts.tables.rows("torch-name", "name") if _covers(row["name"], asked)]
    if not rows:
        return None
    row = max(rows, key=lambda one: len(one["name"]))
    package, first = asked.partition(".")[0], str(row["since"])
    have = facts.torch.version if package == "torch" else facts.packages.version(package)
    return None if have and not older(have, first) else (package, first)


def _covers(name: str, asked: str) -> bool:
    return asked == name or asked.startswith(f"{name}.") or ("*" in name and fnmatch.fnmatchcase(asked, name))


def with_it(facts: Facts, package: str, first: str) -> tuple[Intent, ...]:
    """That release or a later one, together with what is built for it."""
    beside = "torchvision torchaudio" if package == "torch" else "torch"
    index = f" {_INDEX}" if facts.system.os == "windows" and not older(first, "2.0.0") else ""
    text = (
        "Install a release that has it, in the environment of this Python. Where another package needs the old torch, take a release of the"
        " program that is made for that one instead."
    )
    steps = (
        f"python -m pip install --upgrade '{package}>={first}' {beside}{index}",
        f"python -c 'import {package}; print({package}.__version__, {package}.__file__)'    # {first} or newer",
    )
    return (Manual(text, commands=steps),)
