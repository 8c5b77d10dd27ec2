"""Report → text, one module a format. A renderer reads the finished report and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.render.text import PageOptions
    from envcheck.report.report import Report

# Format → its module in this folder.
MODULES = {
    "text": "text", "json": "json_v1", "markdown": "markdown", "junit": "junit", "github": "github", "sarif": "sarif", "html": "html",
    "termination": "termination",
}  # fmt: skip
FORMATS = tuple(MODULES)


def render(
    report: Report,
    format_name: str,
    *,
    fix_suggest: bool = False,
    options: PageOptions | None = None,
    redact: bool | None = None,
    users: Iterable[str] = (),
    homes: Iterable[str] = (),
    hosts: Iterable[str] = (),
) -> str:
    """The report in one of FORMATS. `options` is what the reader of text can see; None is a file: plain, 80 columns.

    `redact`: without names, addresses and identifiers; None is only Markdown, which is made for sharing. `users`, `homes`
    and `hosts` are the login name, home folder and own host that it leaves out then.
    """
    if redact if redact is not None else format_name == "markdown":
        from envcheck.report.redact import redacted

        report = redacted(report, users, homes, hosts)
    if format_name == "text":
        from envcheck.render import text

        return text.render(report, fix_suggest=fix_suggest, options=options)
    text_of: str = import_module(f"envcheck.render.{MODULES[format_name]}").render(report, fix_suggest=fix_suggest)
    return text_of
