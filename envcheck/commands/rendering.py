"""A finished report in the formats that the flags ask for."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, TextIO, TypedDict

from envcheck.commands.output import UTF8, deliver, takes

if TYPE_CHECKING:
    from envcheck.report.english import English
    from envcheck.report.report import Report


def rendered(report: Report, args: argparse.Namespace, form: str, to_stdout: bool) -> str:
    """The report in one format, for stdout or for a file."""
    return shown(spoken(report, args, form, to_stdout), args, form, to_stdout)


def shown(report: Report, args: argparse.Namespace, form: str, to_stdout: bool) -> str:
    """The same, of a report that is in its language already."""
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


# Variables of the locale (`report/english.py` says which of them counts).
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE")
# Formats that people read take the language of the locale; the others only --lang changes, and JSON, which programs compare, nothing.
FOR_PEOPLE = ("text", "markdown", "html")
ENGLISH_ALONE = ("json",)


def spoken(report: Report, args: argparse.Namespace, form: str, to_stdout: bool) -> Report:
    """The report in the language that is wanted of a format, for stdout or for a file."""
    return in_language(report, language_for(args, form, sys.stdout if to_stdout else None), args)


def language_for(args: argparse.Namespace, form: str, stream: TextIO | None) -> str:
    """The language that is wanted of a format, for a stream or for a file; "" is English."""
    return "" if form in ENGLISH_ALONE else wanted_language(args, form in FOR_PEOPLE, None if form in UTF8 else stream)


def in_language(report: Report, code: str, args: argparse.Namespace) -> Report:
    """The report in a language; "" is English."""
    if not code:
        return report
    from envcheck.commands.configuration import rule_session
    from envcheck.report.translate import translated

    return translated(report, code, rule_session(args).texts)


def words(args: argparse.Namespace, form: str, to_stdout: bool) -> English:
    """The words of a page that is no report, in the language that is wanted of a format."""
    from envcheck.report.english import ENGLISH

    code = language_for(args, form, sys.stdout if to_stdout else None)
    if not code:
        return ENGLISH
    from envcheck.report.language import language

    return language(code)


def wanted_language(args: argparse.Namespace, for_people: bool, stream: TextIO | None) -> str:
    """The language of one text: "" is English, and so it is, with a line on stderr, where the stream cannot show another."""
    if not args.lang and not any("zh" in os.environ.get(name, "") for name in LOCALE):
        return ""
    from envcheck.report.english import language_of

    code, asked = language_of(args.lang, os.environ)
    if not code or not (asked or for_people):
        return ""
    if stream and not takes(stream, "中文"):
        print(f"envcheck: {stream.encoding} has no Chinese characters: this text is in English", file=sys.stderr)
        return ""
    return code


class Myself(TypedDict):
    """Login names and home folder of who runs envcheck, and the host, for redaction: also of a log that is read on it."""

    users: list[str]
    homes: list[str]
    hosts: list[str]


def myself() -> Myself:
    names = [os.environ[name] for name in ("USER", "LOGNAME", "USERNAME") if os.environ.get(name)]
    host = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return {"users": names, "homes": [os.path.expanduser("~")], "hosts": [host]}


def write(report: Report, args: argparse.Namespace, stdout: bool = True) -> None:
    """The report and its further documents; `stdout` is False where that is another program's."""
    deliver(args, lambda form, to_stdout: rendered(report, args, form, to_stdout), stdout)
