"""Machine text made harmless for a terminal or a page: no control character survives as itself, and no secret."""

from __future__ import annotations

from envcheck.facts.secrets import mask_secrets

# Bidirectional overrides can make a command read other than it runs: https://trojansource.codes
_BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]
_LINE_SEPARATORS = [0x85, 0x2028, 0x2029]
_CONTROL = [*range(0x20), *range(0x7F, 0xA0)]
_KEPT = {0x0A: "\n", 0x09: "    ", 0x0D: ""}
_TABLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in (*_CONTROL, *_BIDI, *_LINE_SEPARATORS)} | _KEPT

# What a terminal without Unicode gets; everything else that is not ASCII becomes an escape.
_ASCII = str.maketrans(
    {
        "✓": "+", "✗": "x", "×": "x", "…": "...", "–": "-", "—": "-", "→": "->", "←": "<-", "·": "-", "≥": ">=", "≤": "<=",
        "≠": "!=", "’": "'", "‘": "'", "“": '"', "”": '"', "⇄": "<->", "≈": "~", "°": " deg ", "µ": "u",
    }
)  # fmt: skip


def visible(text: str) -> str:
    """`inert` text without secrets."""
    return inert(mask_secrets(text))


SAID = 3000  # characters of an error


def said_of(text: str) -> str:
    """`visible` text of an error, without its middle where it is long: a file that it quotes is anybody's."""
    text = visible(text)
    return text if len(text) <= SAID else f"{text[: SAID // 2]}…{text[-SAID // 2 :]}"


def inert(text: str) -> str:
    """Text with newlines kept, tabs as spaces and every other control, bidi or undecodable character spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_TABLE).encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str, limit: int | None = None) -> str:
    """`visible` text on one line, cut at `limit` characters with an ellipsis."""
    line = " ".join(visible(text).split())
    return line if limit is None or len(line) <= limit else line[: max(limit - 1, 0)].rstrip() + "…"


def ascii_only(text: str) -> str:
    """The nearest ASCII spelling."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
