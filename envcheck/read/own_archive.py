"""The archive that `envcheck --evidence` keeps, read where it lies: nothing is unpacked, and no name in it becomes a path.

Its facts say all that its other files say of a rule: what the ranks printed was searched when they were made.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from typing import BinaryIO, cast

from envcheck.facts.recorded import FACTS_LIMIT_BYTES
from envcheck.read.own_json import report_of
from envcheck.read.own_report import OwnReport

MOST_FILES = 2000
UNPACKED_BYTES = 1 << 30  # of the whole archive, up to its facts


class _Joined(io.RawIOBase):
    """A stream that cannot be wound back, from its beginning."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._file.read(size)
        data, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        return data


class _Bounded(io.RawIOBase):
    """What a gzip file unpacks to, up to a limit: a few kilobytes can hold a terabyte."""

    def __init__(self, file: BinaryIO) -> None:
        self._inner = gzip.GzipFile(fileobj=file, mode="rb")
        self._left = UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(data)
        return data


def read_archive(head: bytes, file: BinaryIO) -> OwnReport | None:
    """The facts in it; None if it is no such archive, or damaged before them. `head` is what was already read of it."""
    try:
        with tarfile.open(fileobj=_Bounded(cast("BinaryIO", _Joined(head, file))), mode="r|") as archive:
            for number, entry in enumerate(archive):
                if number >= MOST_FILES:
                    return None
                if entry.isreg() and entry.name.rpartition("/")[2] == "snapshot.json" and entry.size <= FACTS_LIMIT_BYTES:
                    inner = archive.extractfile(entry)
                    return _report(inner.read(FACTS_LIMIT_BYTES)) if inner is not None else None
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error):
        return None
    return None


def _report(data: bytes) -> OwnReport | None:
    from envcheck.facts.record import replace

    try:
        found = report_of(json.loads(data))
    except (ValueError, RecursionError):
        return None
    return None if found is None else replace(found, form="evidence archive")
