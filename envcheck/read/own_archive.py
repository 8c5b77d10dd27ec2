"""The archive that `envcheck --evidence` keeps, read where it lies: nothing is unpacked, and no name in it becomes a path.

Its facts say all that its other files say of a rule: what the ranks printed was searched when they were made.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from typing import BinaryIO, cast

from envcheck.read.own_json import report_of
from envcheck.read.own_report import OwnReport

MOST_FILES = 2000
UNPACKED_BYTES = 1 << 30  # of the whole archive, up to its facts: a few kilobytes can hold a terabyte
FACTS_BYTES = 8 << 20  # those of a machine have less than one; as objects of Python the emptiest of a stranger take 26 times as much
BLOCK = 512
PIECE_BYTES = 1 << 16
LONG_NAME_BYTES = 4096
_FACTS = re.compile(rb"(?:\A|/)snapshot\.json[\0\n]")  # as a block has a name, and a record of its own


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


def read_archive(head: bytes, file: BinaryIO) -> OwnReport | None:
    """The facts in it; None if it is no such archive, or damaged before them. `head` is what was already read of it."""
    try:
        with gzip.GzipFile(fileobj=cast("BinaryIO", _Joined(head, file)), mode="rb") as unpacked:
            data = _facts(cast("BinaryIO", unpacked))
    except (OSError, EOFError, zlib.error):
        return None
    return None if data is None else _report(data)


def _facts(unpacked: BinaryIO) -> bytes | None:
    """The file of the facts. An entry is a block and what is behind it, which is passed over in pieces. tarfile takes the extension of a
    name whole, calls itself for each that follows another, and searches it in more than linear time (CVE-2024-6232)."""
    left, longer = UNPACKED_BYTES, b""
    for _ in range(MOST_FILES):
        block = unpacked.read(BLOCK)
        size = _size(block)
        if size is None or size > left:
            return None
        kind, whole = block[156:157], -(-size // BLOCK) * BLOCK
        left -= whole
        if kind in (b"L", b"x") and size <= LONG_NAME_BYTES:  # of the next entry, where a block has no room for it
            longer = unpacked.read(whole)[:size]
            continue
        named = _FACTS.search(block[:100] + b"\0") or _FACTS.search(longer + b"\0")
        if named and kind in (b"0", b"\0") and size <= FACTS_BYTES:
            return unpacked.read(size)
        longer = b""
        for at in range(0, whole, PIECE_BYTES):
            unpacked.read(min(PIECE_BYTES, whole - at))
    return None


def _size(block: bytes) -> int | None:
    """What is behind a block; None where it is no head of an entry: cut, of zeros, or with another sum than it says."""
    try:
        said, size = int(block[148:156].strip(b" \0"), 8), int(block[124:136].strip(b" \0"), 8)
    except ValueError:
        return None
    right = len(block) == BLOCK and said == sum(block[:148]) + sum(b" " * 8) + sum(block[156:])
    return size if right and size >= 0 else None


def _report(data: bytes) -> OwnReport | None:
    from envcheck.facts.record import replace

    try:
        found = report_of(json.loads(data))
    except (ValueError, RecursionError):
        return None
    return None if found is None else replace(found, form="evidence archive")
