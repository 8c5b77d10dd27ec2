"""Recorded snapshots of many machines: folders of files, files of one report, and files with a report a line, read in pieces.

No piece is larger than a worker can hold, and nothing is kept but where each recording stands.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO

from envcheck.errors import UsageError
from envcheck.facts.dead_mount import answers
from envcheck.facts.given_file import open_given, read_given
from envcheck.facts.hostlist import natural
from envcheck.facts.printable import one_line
from envcheck.facts.record import record
from envcheck.facts.recorded import FACTS_LIMIT_BYTES, RecordingError, parsed, sections_of, snapshot_from
from envcheck.fleet.layers import Values, layers_of, state_of

PIECE_BYTES = 4 << 20
PIECE_FILES = 64
LINES = (".jsonl", ".ndjson")  # a report a line
SPARED = 10  # what is copied leaves a tenth of the free disk to the others on it


@record
class RecordedAt:
    """Where one recording stands: a range of a file. `line` counts from 1; 0 is a file of one recording."""

    path: str
    start: int = 0
    size: int = -1  # -1: to the end
    line: int = 0

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


@record
class RecordedPiece:
    """Some files of one recording each, or the lines of one file that begin in a range of it."""

    paths: tuple[str, ...] = ()
    start: int = 0
    end: int = -1  # -1: these are files of one recording


def pieces_of(paths: Sequence[str], keep: ExitStack) -> Iterator[RecordedPiece]:
    """All that the user named, in its order and a folder's files in theirs. What is no plain file is copied to one until `keep` closes;
    in a folder it is one of the recordings that cannot be read.

    UsageError for a path that cannot be read.
    """
    whole: list[str] = []
    for path in paths:
        for one in _files(path):
            if one != "-" and ((one != path and not _plain(one)) or (not one.endswith(LINES) and os.path.isfile(one))):
                whole.append(one)
                if len(whole) == PIECE_FILES:
                    yield RecordedPiece(tuple(whole))
                    whole = []
                continue
            if whole:
                yield RecordedPiece(tuple(whole))
                whole = []
            yield from _lines(one if os.path.isfile(one) else _copied(one, keep))
    if whole:
        yield RecordedPiece(tuple(whole))


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        if path != "-" and not os.path.exists(path):
            raise UsageError(f"--replay {one_line(path, 200)}: there is no such file or folder")
        yield path
        return
    closed: list[OSError] = []
    for folder, folders, names in os.walk(path, onerror=closed.append):
        folders.sort(key=natural)
        for name in sorted(names, key=natural):
            if name.endswith((".json", *LINES)) and not name.startswith("."):
                yield os.path.join(folder, name)
    for error in closed:
        if error.filename == path:
            raise UsageError(f"--replay {one_line(path, 200)}: {error.strerror}")
        yield str(error.filename)


def _plain(path: str) -> bool:
    """Whether somebody can read a file there at once: no pipe, no device, no link to nothing."""
    return (not os.path.islink(path) or answers(path)) and os.path.isfile(path) and os.access(path, os.R_OK)


def _lines(path: str) -> Iterator[RecordedPiece]:
    size = os.path.getsize(path)
    for start in range(0, size, PIECE_BYTES):
        yield RecordedPiece((path,), start, min(start + PIECE_BYTES, size))


def _copied(path: str, keep: ExitStack) -> str:
    """A pipe as a file: each kind of host is read a second time when it is judged."""
    copy = keep.enter_context(tempfile.NamedTemporaryFile(prefix="envcheck-", suffix=LINES[0]))  # noqa: SIM115 - `keep` closes it
    os.chmod(copy.name, 0o600)  # it is opened by its name, whatever the umask has taken away
    name = f"--replay {one_line(path, 200)}"
    try:
        least = _free(copy.name) // SPARED
        if path != "-" and not (stat.S_ISFIFO(os.stat(path).st_mode) or stat.S_ISSOCK(os.stat(path).st_mode)):
            raise UsageError(f"{name}: neither a file nor a folder")
        with open(0, "rb", closefd=False) if path == "-" else open_given(path) as source:
            begun = False
            while part := source.read(1 << 20):
                if not begun and (first := part.removeprefix(b"\xef\xbb\xbf").lstrip()):
                    begun = first.startswith(b"{")
                    if not begun:  # any program's output may be endless
                        raise UsageError(f"{name}: no recording of a machine")
                if _free(copy.name) - len(part) < least:
                    raise UsageError(f"{name}: more than the disk of {os.path.dirname(copy.name)} has room for")
                copy.write(part)
        copy.flush()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    return copy.name


def _free(path: str) -> int:
    """Bytes that are left where a file lies."""
    return shutil.disk_usage(path).free


def documents(piece: RecordedPiece) -> Iterator[tuple[RecordedAt, bytes | None]]:
    """Each recording of a piece with its bytes; None where it cannot be read or is too large. Lines count from 1 within the
    piece, empty ones too."""
    if piece.end < 0:
        for path in piece.paths:
            yield RecordedAt(path), _whole(path)
        return
    with open(piece.paths[0], "rb") as file:
        at = piece.start
        if at:  # the line before belongs to the piece before
            file.seek(at - 1)
            at = _after_line(file, at - 1, piece.end)
        number = 0
        while at < piece.end and (line := file.readline(FACTS_LIMIT_BYTES + 1)):
            number += 1
            cut = len(line) > FACTS_LIMIT_BYTES
            end = at + len(line) if line.endswith(b"\n") else _after_line(file, at + len(line), piece.end)
            yield RecordedAt(piece.paths[0], at, end - at, number), None if cut else line
            at = end


def _after_line(file: BinaryIO, at: int, last: int) -> int:
    """Where the next line begins, or a place behind `last`: a line that goes on there is no matter of this piece."""
    while at <= last and (part := file.readline(1 << 20)):
        at += len(part)
        if part.endswith(b"\n"):
            break
    return at


def _whole(path: str) -> bytes | None:
    try:
        return read_given(path, "--replay", FACTS_LIMIT_BYTES, patience=0)
    except UsageError:
        return None


def read_place(place: RecordedAt) -> bytes:
    """One recording once more; OSError if it is gone."""
    with open(place.path, "rb") as file:
        file.seek(place.start)
        return file.read(place.size)


def told_by(facts: Mapping[str, Any]) -> tuple[dict[str, Values], dict[str, Any]]:
    """Its layers and its state. RecordingError where a fact is of another type than it can be, as somebody's editor left it: layers are
    made of plain values, which is what keeps thousands of recordings quick, and the decoder says which fact it is."""
    try:
        return layers_of(facts), state_of(facts)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        snapshot_from(facts)
        raise RecordingError("facts of it are of no type that they can be") from None


def golden_layers(path: str) -> dict[str, Values]:
    """What `--golden` holds every host against."""
    try:
        return told_by(sections_of(parsed(read_given(path, "--golden", FACTS_LIMIT_BYTES))))[0]
    except RecordingError as error:
        raise UsageError(f"--golden {one_line(path, 200)}: {error}") from None
