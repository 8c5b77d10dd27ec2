"""Report → text, one module a format. A renderer reads the finished report and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.render.text import PageOptions
    from envcheck.report.report import Report

FORMATS = ("text", "json", "markdown", "junit", "github", "html")


def render(
    report: Report,
    format_name: str,
    *,
    fix_suggest: bool = False,
    options: PageOptions | None = None,
    users: Iterable[str] = (),
    homes: Iterable[str] = (),
) -> str:
    """The report in one of FORMATS. `options` is what the reader of text can see; None is a file: plain, 80 columns.

    `users` and `homes` are the login name and home folder, which Markdown, made for sharing, leaves out.
    """
    if format_name == "json":
        from envcheck.render import json_v1

        return json_v1.render(report, fix_suggest=fix_suggest)
    if format_name == "markdown":
        from envcheck.render import markdown

        return markdown.render(report, fix_suggest=fix_suggest, users=users, homes=homes)
    if format_name == "junit":
        from envcheck.render import junit

        return junit.render(report, fix_suggest=fix_suggest)
    if format_name == "github":
        from envcheck.render import github

        return github.render(report, fix_suggest=fix_suggest)
    if format_name == "html":
        from envcheck.render import html

        return html.render(report, fix_suggest=fix_suggest)
    from envcheck.render import text

    return text.render(report, fix_suggest=fix_suggest, options=options)
