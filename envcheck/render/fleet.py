"""The report of a job in the formats that it has."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envcheck.render.text import PageOptions
    from envcheck.report.fleet import FleetReport

FORMATS = ("text", "json", "html", "junit")


def render_fleet(
    report: FleetReport,
    form: str,
    *,
    options: PageOptions | None = None,
    redact: bool = False,
    users: Iterable[str] = (),
    homes: Iterable[str] = (),
) -> str:
    """One of FORMATS. `options` is what the reader of text can see. `redact`: hosts are called host1, host2, … in their order."""
    if redact:
        from envcheck.report.fleet_redact import redacted

        report = redacted(report, users, homes)
    if form == "text":
        from envcheck.render import fleet_text

        return fleet_text.render(report, options=options)
    text: str = import_module(f"envcheck.render.fleet_{form}").render(report)
    return text
