"""What a process is called where it is shown: its program, and the script or module of a Python. Its other words may hold secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_PYTHON = re.compile(r"(?:python|pypy)w?[\d.]{0,8}[dt]?(?:-dbg)?(?:\.exe)?\Z")
_MODULE = re.compile(r"[^\W\d]\w{0,99}(?:\.[^\W\d]\w{0,99}){0,20}\Z")
_FLAGS = "bBdEhiIOPqRsStuvVx?3J"  # of one letter, without a value
_VALUED = "XW"  # with one, glued or as the next word
_LONG = ("--check-hash-based-pycs",)  # with a value


class RunByPython(NamedTuple):
    """What a Python runs: "module", "code" or "script" with its name, "stdin", or "" where its words are not understood."""

    kind: str = ""
    what: str = ""


def run_by_python(words: Sequence[str]) -> RunByPython:
    """By CPython's own rules for the words behind its name: letters stand together (-Ic), a value may be glued to its letter (-mlis)."""
    left = list(words[:0:-1])
    while left:
        word = left.pop()
        if word == "-":
            return RunByPython("stdin")
        if word == "--":
            return RunByPython("script", left.pop()) if left else RunByPython("stdin")
        if word.startswith("--"):
            if word not in _LONG or not left:
                return RunByPython()
            left.pop()
        elif word.startswith("-"):
            rest = word[1:].lstrip(_FLAGS)
            value = rest[1:] or (left.pop() if rest and left else "")
            if rest[:1] == "c":
                return RunByPython("code", value)
            if rest[:1] == "m":
                return RunByPython("module", value)
            if rest and rest[0] not in _VALUED:
                return RunByPython()
        else:
            return RunByPython("script", word)
    return RunByPython("stdin")


def is_python(word: str) -> bool:
    """Whether a program's path or name is a Python's."""
    return _PYTHON.match(base(word)) is not None


def base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def program_of(words: Sequence[str]) -> str:
    """ "redis-server", "python3 train.py", "python3 -m torch.distributed.run". A title that a process gave itself is one word."""
    words = [*words[0].split(), *words[1:]] if words else []
    if not words:
        return ""
    name = base(words[0]).rstrip(":")
    if not is_python(name):
        return name
    kind, what = run_by_python(words)
    if kind == "module" and _MODULE.match(what):
        return f"{name} -m {what}"
    return f"{name} {base(what)}" if kind == "script" else name


def process_name(said: str | None) -> str | None:
    """The same of what nvidia-smi and NVML call a process: a path, or a command line in one text. "[Not Found]" stays."""
    if not said or said == "Insufficient Permissions":
        return said
    if said.startswith("[") and "]" in said:
        return said[: said.index("]") + 1]
    if said[1:3] == ":\\" or said.startswith(("\\\\", "...")):  # Windows, where folders have blanks
        at = said.lower().find(".exe")
        return said[: at + 4] if at >= 0 else said
    words = said.split()
    return program_of(words) if len(words) > 1 else said
