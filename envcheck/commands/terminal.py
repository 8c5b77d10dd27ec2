"""What the terminal of this command can show."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import TextIO

from envcheck.commands.output import takes
from envcheck.facts.whole_numbers import whole_number
from envcheck.render.text import WIDEST, PageOptions


def page_options(stream: TextIO | None, env: Mapping[str, str], args: argparse.Namespace) -> PageOptions:
    """What this stream can show: COLUMNS, then the terminal, then 80 columns. None is a file: plain, 80 columns, Unicode.

    --color, then https://no-color.org, then https://force-color.org decide about colour.
    """
    quiet, verbose = args.quiet, args.verbose
    if stream is None:
        return PageOptions(quiet=quiet, verbose=verbose, color=args.color == "always")
    tty = stream.isatty()
    width = columns(stream, env)
    color = {"always": True, "never": False}.get(args.color, _wants_color(tty, env))
    return PageOptions(max(min(width or 80, WIDEST), 40), tty, color, takes(stream, "✓✗–×…"), quiet, verbose)


def columns(stream: TextIO, env: Mapping[str, str]) -> int:
    """How many the stream has: COLUMNS, then its terminal; 0 where neither says it."""
    stated = env.get("COLUMNS", "")
    if columns := whole_number(stated, 6):
        return columns
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def _wants_color(tty: bool, env: Mapping[str, str]) -> bool:
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR"):
        return True
    return tty and env.get("TERM") != "dumb"
