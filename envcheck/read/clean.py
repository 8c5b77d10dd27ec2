"""Other people's files as clean text in bounded pieces: no escape sequence, no control character, no NUL.

A file is read once, in pieces that end at a line, so that a log of any size costs a few megabytes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from envcheck.facts.record import record

PIECE_BYTES = 4 << 20
HEAD_BYTES = 8192
LINE_LIMIT = 1 << 16  # a longer line is broken: nobody prints a message of 64 KiB

# "\x1b[31mERROR\x1b[0m", "\x1b]0;title\x07": CSI and OSC sequences of ECMA-48, then any other two-character escape.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)?|[ -/]?[0-Z\\^-~])")

# Control characters, DEL, C1, bidirectional overrides (https://trojansource.codes), the byte order mark.
_DROP: dict[int, str | None] = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF)
)
_DROP |= {0x09: "\t", 0x0A: "\n", 0x0D: "\n", 0x2028: "\n", 0x2029: "\n", 0xA0: " ", 0x202F: " "}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060\u2066-\u2069\ufeff]")

# "[31mERROR[0m": colours whose escape character was lost on the way.
_COLOUR = re.compile(r"\[\d{1,3}(?:;\d{1,3}){0,4}m")

# "&lt;Signals.SIGKILL: 9&gt;": a text copied out of the source of a web page.
_ENTITY = re.compile(r"&(lt|gt|quot|apos|nbsp|amp|#34|#39|#x27|#x22);")
_CHARACTERS = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " ", "amp": "&", "#34": '"', "#39": "'", "#x27": "'", "#x22": '"'}

# {"log":"ImportError: No module named \"torch\"\n","stream":"stderr"}: a line of a log that is kept as JSON (docker, kubectl, jq).
_STRING = re.compile(r'\s{0,40}(?:[{\[]\s{0,4}["{]|"[^"]{0,400}": |".*"[,}\]]{0,4}\s{0,4}$)')
_NO_JSON = re.compile(r'\\(?:[^"\\/bfnrtu]|u(?![0-9a-fA-F]{4})|$)')
_BACKSLASH = re.compile(r'\\(?:(["\\/])|([nrtbf])|u([0-9a-fA-F]{4}))')
_ESCAPED_QUOTE = re.compile(r"""\\{1,8}(["'])""")

GZIP = b"\x1f\x8b"

# First bytes of what is no text: https://en.wikipedia.org/wiki/List_of_file_signatures
_MAGIC = (
    (b"\x7fELF", "an ELF program or library"),
    (b"PK\x03\x04", "a zip archive (a wheel, a checkpoint)"),
    (GZIP, "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"MZ", "a Windows program"),
    (b"\x93NUMPY", "a NumPy array"),
)


@record
class Piece:
    """Some whole lines of a file."""

    text: str
    first_line: int  # number of its first line, from 1


# Of random bytes a tenth. Not those of tabs, line ends, backspaces, pages and escapes.
_IN_NO_TEXT = bytes((*range(7), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))


def what_binary(head: bytes) -> str | None:
    """What kind of non-text a file's first bytes show; None for text."""
    for magic, name in _MAGIC:
        if head.startswith(magic) and (magic != b"MZ" or b"\x00" in head[:64]):
            return name
    if encoding(head) != "utf-8":
        return None
    strange = len(head) - len(head.translate(None, _IN_NO_TEXT))
    return "binary data" if strange * 20 > len(head) else None


def encoding(head: bytes) -> str:
    """UTF-16 where PowerShell's `>` wrote it (byte order mark, or one byte of two NUL), else UTF-8."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    pairs = len(head) // 2
    if pairs >= 8 and head[1::2].count(0) * 10 > pairs * 8 and head[::2].count(0) * 10 < pairs:
        return "utf-16-le"
    if pairs >= 8 and head[::2].count(0) * 10 > pairs * 8 and head[1::2].count(0) * 10 < pairs:
        return "utf-16-be"
    return "utf-8"


def clean(text: str) -> str:
    """Text without escape sequences and control characters, lines ending in newlines; what JSON and HTML wrote otherwise, as it was."""
    if "\\" in text:
        text = _unescaped(text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "[0m" in text or "[m" in text or "[31m" in text:
        text = _COLOUR.sub("", text)
    if "&" in text and "<?xml" not in text and "<nvidia_smi_log" not in text:
        text = _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)
    return text.translate(_DROP) if _CONTROL.search(text) else text


def _unescaped(text: str) -> str:
    """JSON strings as what they stand for, and quotes that a shell or a program escaped."""
    if "\\n" in text or '\\"' in text or "\\u" in text or "\\t" in text:
        text = "\n".join([_of_json(line) if "\\" in line else line for line in text.split("\n")])
    return _ESCAPED_QUOTE.sub(r"\1", text) if '\\"' in text or "\\'" in text else text


def _of_json(line: str) -> str:
    for _ in range(3):  # a JSON line within the string of another
        if len(line) > LINE_LIMIT or not _STRING.match(line) or _NO_JSON.search(line.replace("\\\\", "")):
            break
        before, line = line, _BACKSLASH.sub(_character, line)
        if line == before:
            break
    return line


_SHORT = {"n": "\n", "r": "\n", "t": "\t", "b": "", "f": "\n"}


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return _SHORT[match[2]] if match[2] else chr(int(match[3], 16))


def pieces(file: BinaryIO, head: bytes = b"", size: int = PIECE_BYTES, before: Callable[[str], str] = str) -> Iterator[Piece]:
    """Clean pieces of a binary file; `head` is what was already read of it, `before` sees each as it stands in the file."""
    decoder = codecs.getincrementaldecoder(encoding(head))(errors="replace")
    rest, number, data = "", 1, head
    while True:
        more = file.read(size)
        raw = rest + decoder.decode(data + more, final=not more)
        data = b""
        cut = len(raw) if not more else raw.rfind("\n") + 1
        if not cut:
            cut = len(raw) if len(raw) > LINE_LIMIT else 0
        rest = raw[cut:]
        if cut:
            text = clean(before(raw[:cut]))
            yield Piece(text, number)
            number += text.count("\n")
        if not more:
            return


_SPACES = bytes.maketrans(bytes(range(256)), bytes(one + 32 if 65 <= one <= 90 else one if 97 <= one <= 122 else 32 for one in range(256)))


def words_in(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return text.encode("utf-8", "replace").translate(_SPACES).decode("ascii").split()
