"""Reads a file that the user named: a plain one, or what a shell gives in its place (`<(…)`, /dev/stdin, a FIFO), once."""

from __future__ import annotations

import io
import os
import select
import stat
import time
from typing import Any, BinaryIO

from envcheck.errors import UsageError
from envcheck.facts.dead_mount import require_answer
from envcheck.facts.printable import one_line

MEMORY = 1  # the major number of Linux's null, zero, random and kmsg
PATIENCE_SECONDS = 60.0  # between two pieces: what writes it may be a check on another machine


def read_given(path: str, flag: str, most_bytes: int, patience: float = PATIENCE_SECONDS) -> bytes:
    """All of it. UsageError, which begins with `flag` and the name, if it is not to be had, too large, or nothing more comes."""
    name = f"{flag} {one_line(path, 200)}"
    require_answer(path, name)
    try:
        # A FIFO that nobody writes to would hold an ordinary open back for ever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a null byte in the path
        raise UsageError(f"{name}: not a name of a file") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise UsageError(f"{name}: not a file")
        data = _all(descriptor, most_bytes + 1, None if stat.S_ISREG(mode) else patience)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or type(error).__name__}") from None
    finally:
        os.close(descriptor)
    if data is None:
        raise UsageError(_silent(name, patience))
    if len(data) > most_bytes:
        raise UsageError(f"{name}: larger than {most_bytes >> 20} MiB")
    return data


def open_given(path: str, patience: float = PATIENCE_SECONDS) -> BinaryIO:
    """The same for reading in pieces. A FIFO in a folder may have no writer, or one that falls silent, and is given up then; a pipe of the
    shell's has one that is still at work."""
    require_answer(path, one_line(path, 200))
    seen = os.stat(path)
    fifo = stat.S_ISFIFO(seen.st_mode) and os.path.exists(os.path.realpath(path))
    # /proc/kmsg and /dev/kmsg wait for more to come
    of_kernel = (stat.S_ISREG(seen.st_mode) and not seen.st_size) or (stat.S_ISCHR(seen.st_mode) and os.major(seen.st_rdev) == MEMORY)
    if not fifo and (os.name != "posix" or not of_kernel):
        return open(path, "rb")
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if fifo and not _ready(descriptor, patience):
        os.close(descriptor)
        raise UsageError(_silent(one_line(path, 200), patience))
    return io.BufferedReader(_Pieces(descriptor, one_line(path, 200), patience if fifo else None))


class _Pieces(io.RawIOBase):
    """A FIFO, each piece of which has to come in time: who opened it first may never write again, nor close it. Or a file (no patience)
    that is none but by its mode: it may not wait at all."""

    def __init__(self, descriptor: int, path: str, patience: float | None) -> None:
        self._descriptor, self._path, self._patience = descriptor, path, patience

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        piece = _piece(self._descriptor, len(into), self._patience)
        if piece is None:
            raise UsageError(_silent(self._path, self._patience or 0))
        into[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def _silent(name: str, patience: float) -> str:
    return f"{name}: nobody has written to it for {patience:g} s"


def _all(descriptor: int, most_bytes: int, patience: float | None) -> bytes | None:
    """Up to `most_bytes`. None if a pipe stays silent for longer than `patience`."""
    pieces, size = [], 0
    while size < most_bytes:
        piece = _piece(descriptor, min(1 << 20, most_bytes - size), patience)
        if piece is None:
            return None
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _piece(descriptor: int, most_bytes: int, patience: float | None) -> bytes | None:
    """What comes next, b"" at the end. None if a pipe stays silent for longer than `patience`."""
    while patience is None or _ready(descriptor, patience):
        try:
            return os.read(descriptor, most_bytes)
        except BlockingIOError:
            if patience is None:  # a plain file by its mode alone, as /proc/kmsg is
                raise
            # a pipe was ready for another reader of it
    return None


def _ready(descriptor: int, patience: float) -> bool:
    """Whether a pipe has something or has ended. Its end is told only once somebody had opened it for writing."""
    if not hasattr(select, "poll"):  # Windows has pipes of its own, whose open has waited already
        return True
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    limit = time.monotonic() + patience
    while (left := limit - time.monotonic()) > 0:
        if waiting.poll(left * 1000):
            return True
    return False
