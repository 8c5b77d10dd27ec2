"""What installers say that they put into an environment, or found there.

Successfully installed torch-2.9.1 torchaudio-2.11.0+cu130               Installed 3 packages in 12ms
Requirement already satisfied: torch in ./venv/lib/… (2.9.1+cu128)        + torch==2.6.0
Requirement already satisfied: sympy in … (from torch==2.9.1) (1.14.0)    • Updating torch (2.0.1 -> 2.1.0)

It is what was done, in the order in which it was done: the last word on a package holds, and any list of what is there comes before it.
"""

from __future__ import annotations

import re

from envcheck.facts.snapshot import Distribution
from envcheck.read.collect_env import normal
from envcheck.read.found import Fact, Found, Notes, kept
from envcheck.read.packages import NAME, VERSION

KIND = "installer"  # of what is found: an earlier state, which no list contradicts
_DONE = "Successfully installed "
_THERE = re.compile(
    rf"Requirement already (?:satisfied|up-to-date)[^:\n]{{0,40}}: (?P<name>{NAME})[^\n]{{0,600}}\((?P<version>{VERSION})\)\s*$"
)
_FOR = re.compile(rf"(?:\(from |->)(?P<name>{NAME})==(?P<version>{VERSION})(?=\)|->)")  # "(from mpmath->torch==2.9.1)"
_UV = re.compile(rf" ?(?P<sign>[-+~]) (?P<name>{NAME})==(?P<version>{VERSION})\s*$")
_POETRY = re.compile(
    rf"\s{{0,4}}[-•] (?:Installing|Updating|Downgrading) (?P<name>{NAME}) "
    rf"\((?:{VERSION} -> )?(?P<version>{VERSION})(?: /\S{{1,80}})?\)\s*$"
)
_UNINSTALLED = re.compile(rf"Successfully uninstalled (?P<name>{NAME}?)-(?P<version>{VERSION})\s*$")
_HINTS = (_DONE, "Requirement already ", "Installed ", " Installing ", " Updating ", " Downgrading ", "Successfully uninstalled ")


def read_installed(text: str) -> Found | None:
    """Distributions as an installer left them; None where no installer speaks of torch."""
    if "torch" not in text or not any(hint in text for hint in _HINTS):
        return None
    there: dict[str, tuple[str, str, int]] = {}
    asked: dict[str, tuple[str, str, int]] = {}  # pins that pip follows: there once the run has ended well
    by_uv = False
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 8000:
            continue
        if _DONE in line:
            there |= asked | {normal(name): (version, line, number) for name, version in _of_list(line.partition(_DONE)[2])}
        elif gone := _UNINSTALLED.search(line):
            there.pop(normal(gone["name"]), None)
        elif line.startswith("Requirement already ") and (match := _THERE.match(line)):
            asked |= {normal(one["name"]): (one["version"], line, number) for one in _FOR.finditer(line)}
            there[normal(match["name"])] = (match["version"], line, number)
        elif by_uv and (match := _UV.match(line)):
            _by_sign(there, match, line, number)
        elif match := _POETRY.match(line):
            there[normal(match["name"])] = (match["version"], line, number)
        by_uv = by_uv or line.lstrip().startswith(("Installed ", "Uninstalled "))
    return _found(there)


def _of_list(words: str) -> list[tuple[str, str]]:
    """ "torch-2.9.1 nvidia-nccl-cu12-2.27.5": the version is what stands behind the last hyphen."""
    return [(name, version) for one in words.split() for name, _, version in [one.rpartition("-")] if re.fullmatch(VERSION, version)]


def _by_sign(there: dict[str, tuple[str, str, int]], match: re.Match[str], line: str, number: int) -> None:
    """uv's minus, before its plus where one release takes the place of another."""
    if match["sign"] == "-":
        there.pop(normal(match["name"]), None)
    else:
        there[normal(match["name"])] = (match["version"], line, number)


def _found(there: dict[str, tuple[str, str, int]]) -> Found | None:
    notes = Notes(KIND, rank=0)
    for name, (version, line, number) in there.items():
        notes.facts[f"package.{name}"] = Fact(f"package.{name}", Distribution(name, version), kept(line), number)
        if name == "torch":
            notes.put("torch.version", version, line, number)
    return notes.found()
