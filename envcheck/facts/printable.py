"""Machine text made harmless for a terminal or a page: no control character survives as itself, and no secret."""

from __future__ import annotations

import functools
import re

from envcheck.facts.secrets import mask_secrets

# Bidirectional overrides can make a command read other than it runs: https://trojansource.codes. What has no glyph at all (tags, fillers,
# soft hyphens, selectors) can carry a second text inside the first, or make two names of one look: all that Unicode calls a format
# character, or lets be ignored (Default_Ignorable_Code_Point).
_UNSEEN = (
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f{_UNSEEN}]")
_KEPT = {"\t": "    ", "\r": ""}
# Hindi and Persian are written with the joiners, emoji with them and a selector: one between characters that are seen hides nothing.
_JOINS, _SELECTS = "\u200c\u200d", "\ufe0e\ufe0f"

# What a terminal without Unicode gets; everything else that is not ASCII becomes an escape. So do quotation marks: a command was quoted
# before, and of a stranger's they would end its words.
_ASCII = str.maketrans(
    {
        "✓": "+", "✗": "x", "×": "x", "…": "...", "–": "-", "—": "-", "→": "->", "←": "<-", "·": "-", "≥": ">=", "≤": "<=",
        "≠": "!=", "⇄": "<->", "≈": "~", "°": " deg ", "µ": "u",
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
    """Text with newlines kept, tabs as spaces and every other control, format, invisible or undecodable character spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(_spelled, text).encode("utf-8", "backslashreplace").decode("utf-8")


def _spelled(found: re.Match[str]) -> str:
    one, text, at = found[0], found.string, found.start()
    if one in _KEPT:
        return _KEPT[one]
    before = text[max(at - 2, 0) : at]
    if one in _SELECTS and _is_seen(before[-1:]):
        return one
    if one in _JOINS and _is_seen(before.rstrip(_SELECTS)[-1:]) and _is_seen(text[at + 1 : at + 2]):
        return one
    code = ord(one)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_seen(one: str) -> bool:
    return one > "\x7f" and not _HIDDEN.match(one)


def one_line(text: str, limit: int | None = None) -> str:
    """`visible` text on one line, cut at `limit` characters with an ellipsis. Of a longer one no more is masked than is told of it."""
    if limit is None:
        return " ".join(visible(text).split())
    most = limit + 8 * _BORDER
    line = " ".join(visible(text[:most]).split())
    return line if len(line) <= limit and len(text) <= most else line[: max(limit - 1, 0)].rstrip() + "…"


_BORDER = 1024  # characters behind a cut in which a secret that it would go through may end


@functools.lru_cache(64)
def begin_of(text: str, most: int) -> str:
    """The first characters of a text. It is masked before it is cut: some secrets are told by what stands behind them."""
    return text if len(text) <= most else mask_secrets(text[: most + _BORDER])[:most]


def ascii_only(text: str) -> str:
    """The nearest ASCII spelling."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


# ------------------------------------------------------------------ what the log of a CI obeys

# GitHub, Gitea and Forgejo obey a line that begins with `::`, Azure and older runners `##vso[` and `##[` wherever they stand, TeamCity
# `##teamcity[`. GitLab's sections need a carriage return and an escape character, of which no text of ours has one.
_COMMAND_LINE = re.compile(r"^([^\S\n]*):(?=:)", re.MULTILINE)
_COMMAND = re.compile(r"#(?=#\w{0,40}\[)")
_SAME = {"json": "\\u0023", "sarif": "\\u0023", "junit": "&#35;", "html": "&#35;"}  # what the document means stays as it is


def unheeded(text: str, form: str = "text") -> str:
    """Text of ours for a CI's log in which a stranger's words are no command of that CI's; the lines of the form "github" are our own."""
    text = _COMMAND.sub(lambda _: _SAME.get(form, "# "), text)
    return text if form == "github" else _COMMAND_LINE.sub(r"\1&#58;" if form in ("junit", "html") else r"\1: ", text)
