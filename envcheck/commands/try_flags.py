"""The flags of `--try` in `envcheck plan` and in a check, and what is refused before anything is started."""

from __future__ import annotations

import argparse
import sys

from envcheck.errors import UsageError

LIMIT_SECONDS = 1800.0


def configure_parser(parser: argparse._ActionsContainer, what: str) -> None:
    """The flags of --try, for `plan` and for a check."""
    add = parser.add_argument
    add(
        "--try",
        dest="try_it",
        action="store_true",
        help=f"build {what} in a throwaway environment on this machine and train a step in it; if that fails, the next. It downloads"
        " (gigabytes, with uv if it is there, else with pip) and says how much before; nothing stays but the installer's cache, and no"
        " environment of yours is touched. For a machine that is not here it only resolves: metadata is downloaded, nothing installed",
    )
    add("--yes", action="store_true", help="--try without the question before a download")
    add(
        "--try-timeout",
        metavar="S",
        type=float,
        default=LIMIT_SECONDS,
        help=f"time limit of all trials in seconds (default: {LIMIT_SECONDS:.0f})",
    )


def require_answer(args: argparse.Namespace, elsewhere: bool) -> None:
    """UsageError before anything is started: a limit that is none, or a question that nobody would hear."""
    if not args.try_it:
        return
    if not 5 <= args.try_timeout <= 86400:
        raise UsageError(f"--try-timeout {args.try_timeout:g}: between 5 and 86400 seconds")
    if not (elsewhere or args.yes or (is_terminal(sys.stdin) and is_terminal(sys.stderr))):
        raise UsageError("--try downloads packages and asks before it does; this is no terminal: add --yes to go on without the question")


def is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):  # None or closed
        return False
