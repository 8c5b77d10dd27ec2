"""A finished report in the formats that the flags ask for."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, TypedDict

from envcheck.commands.output import deliver

if TYPE_CHECKING:
    from envcheck.report.report import Report


def rendered(report: Report, args: argparse.Namespace, form: str, to_stdout: bool) -> str:
    """The report in one format, for stdout or for a file."""
    from envcheck.render import render

    options = None
    if form == "text":
        from envcheck.commands.terminal import page_options

        options = page_options(sys.stdout if to_stdout else None, os.environ, args)
    text = render(
        report,
        form,
        fix_suggest=args.fix_suggest,
        options=options,
        redact=args.redact,
        **myself(),
    )
    return text if text.endswith("\n") or not text else text + "\n"


class Myself(TypedDict):
    """Login names and home folder of who runs envcheck, for redaction."""

    users: list[str]
    homes: list[str]


def myself() -> Myself:
    names = [os.environ[name] for name in ("USER", "LOGNAME", "USERNAME") if os.environ.get(name)]
    return {"users": names, "homes": [os.path.expanduser("~")]}


def write(report: Report, args: argparse.Namespace, stdout: bool = True) -> None:
    """The report and its further documents; `stdout` is False where that is another program's."""
    deliver(args, lambda form, to_stdout: rendered(report, args, form, to_stdout), stdout)
