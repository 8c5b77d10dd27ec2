"""Printed command lines as arguments, pointed at another interpreter; everything else in them stays as it is printed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from envcheck.engine.shells import words_of
from envcheck.facts.record import record

_VALUED = ("--index-url", "--extra-index-url", "--index", "--find-links", "-f", "-i", "--default-index", "--python", "--reinstall-package")
_FROM = _VALUED[:7]  # options that say where packages come from


class NotOurs(Exception):
    """A line that is no command of pip or uv, with the reason why it is not run."""


@record
class InstallerLine:
    """One command of pip or uv without its interpreter: ("install", "torch==2.9.1", "--index-url", …)."""

    tool: str
    words: tuple[str, ...]

    @property
    def installs(self) -> bool:
        return self.words[0] == "install"

    @property
    def requirements(self) -> tuple[str, ...]:
        """What it names, without options and their values."""
        valued = {at + 1 for at, word in enumerate(self.words) if word in _VALUED}
        return tuple(word for at, word in enumerate(self.words) if at and at not in valued and not word.startswith("-"))

    @property
    def sources(self) -> tuple[str, ...]:
        """The options that say where from, --no-deps and the like included; what is about reinstalling is left out."""
        found: list[str] = []
        for at, word in enumerate(self.words):
            if word in _FROM:
                found += self.words[at : at + 2]
            elif word.startswith("--torch-backend=") or word in ("--no-deps", "--pre", "--no-build-isolation"):
                found.append(word)
        return tuple(found)

    def argv(self, python: str, uv: str = "uv", more: Sequence[str] = ()) -> tuple[str, ...]:
        """The whole command for an interpreter; `more` stands at its end."""
        if self.tool == "pip":
            return (python, "-m", "pip", *self.words, *more)
        return (uv, "pip", self.words[0], "--python", python, *self.words[1:], *more)


def split(text: str, windows: bool = os.name == "nt") -> list[str]:
    """A printed line as words."""
    return words_of(text) if windows else shlex.split(text)


def read_line(text: str, windows: bool = os.name == "nt") -> InstallerLine | None:
    """A printed line; None for one that only makes ready what a throwaway environment has anyway. NotOurs for any other."""
    words = split(text, windows)
    words = words[1:] if words[:1] == ["&"] else words  # how PowerShell starts a quoted program
    if (
        words[:2] == ["uv", "venv"]
        or words[1:3] in (["-m", "venv"], ["-m", "ensurepip"])
        or words[:2] in (["conda", "remove"], ["pixi", "remove"])
    ):
        return None
    if words[:2] == ["uv", "pip"] and words[2:3] and words[2] in ("install", "uninstall"):
        rest = words[3:]
        if "--python" in rest:
            at = rest.index("--python")
            del rest[at : at + 2]
        return InstallerLine("uv", (words[2], *rest))
    if words[1:3] == ["-m", "pip"] and words[3:4] and words[3] in ("install", "uninstall"):
        return InstallerLine("pip", tuple(words[3:]))
    raise NotOurs(f"`{text}` is no command of pip or uv")


def exports(lines: Sequence[str], windows: bool = os.name == "nt") -> Mapping[str, str | None]:
    """Variables that printed shell lines set (None: unset). NotOurs for a line that does anything else, or fills in another variable."""
    found: dict[str, str | None] = {}
    for text in lines:
        words = split(text, windows)
        if len(words) == 2 and words[0] == "unset":
            found[words[1]] = None
        elif len(words) == 2 and words[0] in ("export", "set") and "=" in words[1] and "$" not in words[1]:
            name, _, value = words[1].partition("=")
            found[name] = value
        else:
            raise NotOurs(f"`{text}` is not run by envcheck")
    return found
