"""What the terminal of this command can show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from envcheck.render.text import WIDEST, PageOptions


def page_options(stream: TextIO, env: Mapping[str, str]) -> PageOptions:
    """What this stream can show: COLUMNS, then the terminal, then 80 columns; https://no-color.org for colour."""
    tty = stream.isatty()
    columns = env.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else 0
    if not width and tty:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
    color = tty and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    return PageOptions(max(min(width or 80, WIDEST), 40), tty, color, _takes(stream.encoding, "✓✗–×…"))


def _takes(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
