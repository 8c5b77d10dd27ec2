"""What the user of `envcheck fleet` asked for, as `commands/fleet.py` hands it to `conduct(seat, options) -> int`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from envcheck.facts.record import record
from envcheck.report.session import RuleSession

if TYPE_CHECKING:
    from envcheck.render.text import PageOptions

STAGES = ("presence", "facts", "links", "world")  # in the order in which they are done
BACKENDS = ("gloo", "nccl")


def print_or_write(text: str, path: str | None) -> None:
    """Into the file, or to stdout."""
    if path is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


@record
class FleetOptions:
    deadline_seconds: float = 60.0  # of each stage in which ranks wait for each other; nobody waits for ever
    stages: tuple[str, ...] = STAGES  # those to do; presence is always one of them
    backends: tuple[str, ...] = ()  # of the world check; () means gloo, and nccl where the target sees GPUs
    nproc: int | None = None  # ranks that the world check starts on each host; None: as many as the launcher started there
    python: str | None = None  # the interpreter under test, as --python gives it
    static: bool = False  # torch is not imported: no world check
    # "json=FILE": what each process writes. `%h`, `%r` and `%%` in a path are host, rank and a percent sign (`path_of`);
    # a path without `%r` is written by rank 0 alone, so that 64 ranks do not write into one file of a shared folder.
    documents: tuple[tuple[str, str], ...] = ()
    format: str = "text"  # of what rank 0 writes to stdout
    output: str | None = None  # the file of that instead of stdout; same signs
    exclude: str | None = None  # rank 0 writes the bad hosts there, as Slurm's --exclude takes them
    golden: str | None = None  # a recorded snapshot that every host is held against
    evidence: str | None = None  # folder for what failed ranks left, on the host of each
    strict: bool = False  # a warning, or a rule that could not decide, is not a pass
    fail_on: str = "error"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    session: RuleSession | None = None  # the rules with a site's own and the severities of a configuration; None: made of the two above
    redact: bool | None = None
    quiet: bool = False
    verbose: bool = False
    page: PageOptions | None = None  # what the terminal can show of the text; None: a file, plain, 80 columns
    # A command follows: the code of a process whose host passed is 0 even where other hosts are named bad, and nothing but the command
    # may write to its stdout: the report goes to stderr.
    command_follows: bool = False
    language: Callable[[str, bool], str] = lambda form, to_stdout: ""  # of what is written in a format; "" is English
    put: Callable[[str, str | None], None] = (
        print_or_write  # writes a finished text to a path or, for None, to stdout; UsageError if it cannot
    )


def path_of(path: str, host: str, rank: int) -> str:
    """The path of one process's own file."""
    values = {"%h": host, "%r": str(rank), "%%": "%"}
    out, at = "", 0
    while at < len(path):
        sign = path[at : at + 2]
        out += values.get(sign, path[at])
        at += 2 if sign in values else 1
    return out


def written_by(path: str, rank: int) -> bool:
    """Whether this rank writes the file: all do where its name tells the ranks apart, otherwise rank 0 alone."""
    return rank == 0 or "%r" in path.replace("%%", "")
