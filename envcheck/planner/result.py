"""What is planned, ready to print: fixes and ways with their commands, and what was excluded."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeAlias

from envcheck.facts.record import field, record
from envcheck.facts.snapshot import PythonFacts, Snapshot

FixKind: TypeAlias = Literal["install", "env", "manual"]
Who: TypeAlias = Literal["user", "admin"]
Tool: TypeAlias = Literal["pip", "uv", "conda"]
TOOLS: tuple[Tool, ...] = ("pip", "uv", "conda")


class Grade(Enum):
    """How far a way or fix is vouched for."""

    TRIED = "tried"  # built here and examined, with a training step
    RESOLVED = "resolved"  # the installer finds all of it for that machine, and the tables agree
    CHECKED = "checked"  # envcheck's tables and rules agree
    UNCHECKED = "unchecked"


@record
class Commands:
    """Lines ready to paste, one tuple a tool; `shell` holds what no package tool does (export, sudo reboot)."""

    pip: tuple[str, ...] = ()
    uv: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    cmd: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # on Windows, where the others are for PowerShell: what cmd needs otherwise
    choose: bool = False  # one line of `shell` is enough; else they are steps

    def __hash__(self) -> int:
        return hash((self.pip, self.uv, self.conda, self.shell))

    def of(self, tool: Tool) -> tuple[str, ...]:
        """The lines of one tool."""
        return {"pip": self.pip, "uv": self.uv, "conda": self.conda}[tool]


TrialStatus: TypeAlias = Literal["passed", "failed", "undecided", "resolved", "not-run"]


@record
class TrialResult:
    """What became of a way when it was tried: built in a throwaway environment and examined, or resolved for a machine elsewhere."""

    status: TrialStatus
    reason: str = ""  # what failed, or why it was not run or not decided
    tool: str = ""  # "uv" or "pip": whose lines were run
    seconds: float = 0.0
    commands: tuple[str, ...] = ()  # the lines that were run, with the throwaway interpreter in them
    failed: str = ""  # the one that failed
    said: tuple[str, ...] = ()  # its last lines, or the findings of the check
    download_bytes: int | None = None


@record
class Fix:
    """One way to mend a finding."""

    title: str
    who: Who = "user"
    kind: FixKind = "manual"
    commands: Commands = Commands()
    text: str = ""
    proved: bool | None = None  # the plan was applied to the snapshot and judged again; None = cannot be proved so
    note: str = ""
    no_command: Mapping[str, str] = field(default_factory=dict)  # tool → why it has no command here
    grade: Grade = Grade.UNCHECKED
    trial: TrialResult | None = None
    afterwards: bool = False  # no cure, but what keeps the fault from coming back


@record
class Way:
    """One way to an environment that trains here."""

    commands: Commands
    proved: bool
    title: str = ""
    changes: tuple[str, ...] = ()  # "torch 2.15.0+cu132 -> 2.15.0+cu126"
    note: str = ""
    who: Who = "user"
    no_command: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # "requirements.txt", "Dockerfile", "pyproject.toml" -> lines to put there
    grade: Grade = Grade.UNCHECKED
    trial: TrialResult | None = None
    idle: bool = False  # the build that is there once more, for a fault that no file of torch has


@record
class Excluded:
    """What the search threw out, and the requirement that did it."""

    what: str
    why: str


AskedVerdict: TypeAlias = Literal["fits", "moves", "unknown", "kept", "skipped", "refused"]


@record
class AskedRow:
    """One entry of a file of wishes on this machine."""

    file: str
    line: int
    text: str
    verdict: AskedVerdict
    new: str = ""  # of what moves
    why: str = ""


@record
class PlanReport:
    ways: tuple[Way, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    asked: tuple[AskedRow, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)  # the files of wishes as they should be, by name


def target_tool(snapshot: Snapshot) -> Tool:
    """The package tool that owns the target: conda-meta, a uv environment, else pip."""
    match snapshot.python:
        case PythonFacts(has_conda_meta=True):
            return "conda"
        case PythonFacts(uv=True) | PythonFacts(has_pip=False):
            return "uv"
    return "pip"
