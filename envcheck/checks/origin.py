"""Whose file an exception or a crash comes from: torch's own, another package's, or one that belongs to nobody."""

from __future__ import annotations

import re

from envcheck.engine.rule import Facts
from envcheck.facts.printable import begin_of
from envcheck.facts.record import record
from envcheck.facts.snapshot import Distribution

IMPORT = "import torch"  # the source of symptoms that the failed import itself printed

# '  File "/venv/lib/python3.12/site-packages/numpy/_core/__init__.py", line 85, in <module>'; faulthandler writes `line 85 in <module>`
_FRAME = re.compile(r'^\s*File "([^"\n]{1,500})", line \d')
# Frames that only carry on what another file asked for: the interpreter's own modules, and the program that imports torch.
_PASSING = re.compile(r"^<|/lib(?:64)?/python3\.\d{1,2}t?/(?!(?:site|dist)-packages/)|\\Lib\\(?!site-packages)|/envcheck/agent/")
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](\w{1,60})")


@record
class Origin:
    """The file that raised, and whose it is."""

    file: str
    module: str | None = None  # its first name below site-packages
    distribution: Distribution | None = None
    torch: bool = False


@record
class Frame:
    file: str
    line: str


def frames(stack: str) -> list[Frame]:
    """A stack, the innermost frame first. faulthandler writes it so; a traceback writes it last."""
    thread = stack.rpartition("(most recent call first)")[2]  # the main thread, which imports, is written last
    found = [Frame(match[1], line.strip()) for line in thread.splitlines() if (match := _FRAME.match(line))]
    return found if len(thread) < len(stack) else found[::-1]


def origin(facts: Facts, stack: str) -> Origin | None:
    """Of the innermost file that is neither the interpreter's nor ours; None where the stack tells none."""
    file = next((one.file for one in frames(stack) if not _PASSING.search(one.file)), None)
    if file is None:
        return None
    if facts.torch.path and file.startswith((facts.torch.path + "/", facts.torch.path + "\\")):
        return Origin(file, "torch", torch=True)
    found = _PACKAGE.search(file)
    if found is None:
        return Origin(file)
    rows = (one for one in facts.packages.distributions if one.location and file.startswith(one.location))
    row = next((one for one in rows if one.name.replace("-", "_") == found[1].lower()), None)
    return Origin(file, found[1], row, torch=found[1] == "torch")


def its_own(facts: Facts) -> bool:
    """The torch that is found is the one that its distribution installed, not a file or folder in its place."""
    rows = (one.location for one in facts.packages.distributions if one.name == "torch" and one.location)
    return any(facts.torch.path == f"{location.rstrip('/')}/torch" for location in rows)


def missing_module(text: str) -> str | None:
    """The module that is said not to be there: "No module named 'sympy'"."""
    found = re.search(r"No module named '?([A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,8})", text)
    return found[1] if found else None


def last_line(text: str) -> str:
    """What an exception says at its end, which is what counts."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return begin_of(lines[-1], 300) if lines else ""
