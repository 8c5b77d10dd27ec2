"""What `envcheck diagnose` is asked to read: files, folders of logs and reports, and text typed or pasted at a terminal."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, TextIO

from envcheck.errors import UsageError
from envcheck.facts.dead_mount import require_answer
from envcheck.facts.printable import one_line

FILES = 100  # of one folder
BYTES = 256 << 20  # of them all
DEPTH = 6  # folders below it
SEEN = 20_000  # names that are looked at
_ENDINGS = frozenset(
    {
        ".txt", ".log", ".out", ".err", ".stdout", ".stderr", ".md", ".json", ".jsonl", ".xml", ".html", ".toml", ".yaml", ".yml", ".csv",
        ".sh", ".sbatch", ".slurm",
    }
)  # fmt: skip
_NAMES = ("log", "stdout", "stderr", "output", "report", "trace", "dmesg", "slurm-")
# What a checkout or an environment holds beside a run's logs: programs, data, texts about messages that nobody met.
_OTHER = frozenset({"site-packages", "node_modules", "__pycache__", "checkpoints", "dist-packages", "venv"})
_WAITS = (
    "envcheck diagnose: paste the log, traceback or report here; {end} on a line of its own ends it (Ctrl-C gives up)."
    " `envcheck diagnose FILE` reads a file."
)


def _waits(stream: TextIO) -> bool:
    """Whether a read waits for text: what an event loop hands down may not, and an empty pipe would be taken for its end."""
    try:
        return os.get_blocking(stream.fileno())
    except (AttributeError, OSError, ValueError):  # Windows before Python 3.12; a stream without a descriptor
        return True


class _Patient(io.RawIOBase):
    """stdin, waited for. Its flag is not changed: whoever handed it down has the same."""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while True:
            select.select([0], [], [])
            try:
                read = os.read(0, len(memoryview(into)))
            except BlockingIOError:  # another reader was faster
                continue
            memoryview(into)[: len(read)] = read
            return len(read)


def standard_input() -> BinaryIO:
    """stdin. On a terminal it says that text is waited for, since a command that only reads looks hung there, and takes all of it: at a
    terminal an end is no state, and who asks again waits for another Ctrl-D."""
    if sys.stdin is None:
        raise UsageError("stdin is closed; name a file")
    if not sys.stdin.isatty():
        return sys.stdin.buffer if _waits(sys.stdin) else io.BufferedReader(_Patient())
    end = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
    print(_WAITS.format(end=end), file=sys.stderr, flush=True)
    return io.BytesIO(sys.stdin.buffer.read())


def named(names: Sequence[str]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Every file to read → what the report calls it, each once; and what of folders was left out, with the reason.

    UsageError for a folder without a log or a report. A file is called by its name, and where two have the same name by as much
    of their paths as tells them apart.
    """
    files: dict[str, None] = {}
    left: dict[str, str] = {}
    for name in names:
        if name == "-":
            files[name] = None
            continue
        require_answer(name, one_line(name, 200))
        if os.path.isdir(name):
            found, more = _logs(name)
            if not found:
                raise UsageError(f"{name}: no log or report in this folder; name the files")
            files.update(dict.fromkeys(found))
            if more:
                left[name] = f"{more} more were not read: {FILES} files and {BYTES >> 20} MiB of a folder are; name those that count"
        else:
            files[name] = None
    return _labels(tuple(files)), left


def _labels(files: Sequence[str]) -> dict[str, str]:
    parts = {name: os.path.normpath(name).split(os.sep) for name in files}
    length = dict.fromkeys(files, 1)
    while True:
        taken: dict[str, list[str]] = {}
        for name in files:
            taken.setdefault("/".join(parts[name][-length[name] :]), []).append(name)
        longer = [one for names in taken.values() if len(names) > 1 for one in names if length[one] < len(parts[one])]
        if not longer:
            break
        for name in longer:
            length[name] += 1
    return {name: "stdin" if name == "-" else "/".join(parts[name][-length[name] :]) for name in files}


def _logs(folder: str) -> tuple[list[str], int]:
    """The logs and reports of a folder in the order of their names, and how many more there are."""
    found: list[str] = []
    total = more = 0
    for path, size in _files(folder):
        if len(found) >= FILES or total + size > BYTES:
            more += 1
        else:
            found.append(path)
            total += size
    return found, more


def _files(folder: str) -> Iterator[tuple[str, int]]:
    """Files that look like logs and reports; no hidden ones, no links, nothing that is no plain file."""
    seen, top = 0, folder.rstrip(os.sep).count(os.sep)
    for path, folders, names in os.walk(folder):
        deep = path.count(os.sep) - top >= DEPTH
        folders[:] = [] if deep else sorted(one for one in folders if not one.startswith(".") and one not in _OTHER)
        for name in sorted(names):
            seen += 1
            if seen > SEEN:
                return
            whole = os.path.join(path, name)
            if _is_log(name) and os.path.isfile(whole) and not os.path.islink(whole):
                yield whole, os.path.getsize(whole)


def _is_log(name: str) -> bool:
    low = name.lower()
    return not name.startswith(".") and (os.path.splitext(low)[1] in _ENDINGS or any(word in low for word in _NAMES))
