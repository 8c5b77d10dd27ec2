"""Which configuration file counted."""

from __future__ import annotations

from envcheck.facts.record import record


@record
class Configuration:
    """The file that counted, and those that were found and not obeyed, each with the reason."""

    path: str | None = None
    passed_over: tuple[str, ...] = ()
